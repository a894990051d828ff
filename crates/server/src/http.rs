//! HTTP for those who watch a node: `/metrics`, `/health`, `/ready`.

use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::control::{Phase, Status};

/// What Prometheus recognises the format by.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers until the process ends.
pub(crate) async fn serve(listener: TcpListener, status: Arc<Status>) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    axum::serve(listener, router(status)).await
}

fn router(status: Arc<Status>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .with_state(status)
}

async fn index() -> &'static str {
    "helenus\n\n/metrics  for Prometheus\n/health   is the process alive?\n\
     /ready    do clients get answers?\n"
}

async fn metrics(State(status): State<Arc<Status>>) -> Response {
    match status.metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => {
            let text = format!("metrics cannot be written: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

/// Alive while it answers, whatever its phase: who watches must not kill a node that replays its
/// commit log.
async fn health(State(status): State<Arc<Status>>) -> String {
    format!("alive, {}\n", name(status.phase()))
}

async fn ready(State(status): State<Arc<Status>>) -> (StatusCode, String) {
    let phase = status.phase();
    let code = match phase {
        Phase::Ready => StatusCode::OK,
        Phase::Starting | Phase::Draining | Phase::Failed | Phase::Closed => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    (code, format!("{}\n", name(phase)))
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting",
        Phase::Ready => "ready",
        Phase::Draining => "draining",
        Phase::Closed => "closed to clients: nodetool enablebinary opens it",
        Phase::Failed => "failed: a drive does not work; see the log",
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    /// What a path answers: the status line and all that follows.
    fn ask(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }

    #[test]
    fn ready_follows_the_phase() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let status = Arc::new(Status::default());
        let shared = Arc::clone(&status);
        std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(serve(listener, shared))
        });
        assert!(ask(address, "/health").contains("alive, starting"));
        assert!(ask(address, "/ready").starts_with("HTTP/1.1 503"));
        status.enter(Phase::Ready);
        assert!(ask(address, "/ready").starts_with("HTTP/1.1 200"));
        assert!(ask(address, "/metrics").contains("# EOF"));
        status.turn(Phase::Starting, Phase::Closed);
        assert!(ask(address, "/ready").starts_with("HTTP/1.1 200"));
        status.turn(Phase::Ready, Phase::Closed);
        assert!(ask(address, "/ready").starts_with("HTTP/1.1 503"));
        assert!(ask(address, "/health").contains("enablebinary"));
        status.enter(Phase::Draining);
        assert!(ask(address, "/ready").starts_with("HTTP/1.1 503"));
        assert!(ask(address, "/health").starts_with("HTTP/1.1 200"));
        assert!(ask(address, "/nothing").starts_with("HTTP/1.1 404"));
    }
}
