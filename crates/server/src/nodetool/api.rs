//! A client of the REST API: one request, one answer.

use axum::http::{Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::net::TcpStream;

/// Why a verb was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodetoolError {
    /// Nobody answers.
    #[error(
        "Failed to connect to '{host}:{port}' - {reason}; does the node run, with this --api-address \
         and --api-port?"
    )]
    NoConnection {
        /// Where.
        host: String,
        /// Where.
        port: u16,
        /// What the system says.
        reason: String,
    },
    /// The connection broke, or what answers does not speak HTTP.
    #[error("{host}:{port} gives no answer: {reason}")]
    NoAnswer {
        /// Where.
        host: String,
        /// Where.
        port: u16,
        /// What is wrong.
        reason: String,
    },
    /// The node says why not: nothing was done.
    #[error("{0}")]
    Refused(String),
    /// The node says what went wrong, or what it found to be.
    #[error("{0}")]
    Failed(String),
    /// Some of the folders were not imported.
    #[error(
        "{reasons}Some directories failed to import, check server logs for details:\n{directories}"
    )]
    NotImported {
        /// Why not: lines.
        reasons: String,
        /// Which: lines.
        directories: String,
    },
    /// The arguments do not fit together.
    #[error("{0}")]
    Usage(String),
    /// The result cannot be printed.
    #[error("cannot print: {0}")]
    Output(#[from] std::io::Error),
}

impl NodetoolError {
    /// What people are told: one line, but for folders, of which scripts find one in each of the
    /// last lines.
    pub(super) fn told(&self) -> String {
        match self {
            NodetoolError::NotImported { .. } => self.to_string(),
            other => format!("nodetool: {}", other.to_string().replace('\n', " ")),
        }
    }

    /// What the process ends with, as Cassandra's `NodeTool.execute`: 1 where the arguments make no
    /// sense or nobody answers, 2 where what was begun went wrong.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            NodetoolError::NoConnection { .. }
            | NodetoolError::Refused(_)
            | NodetoolError::NotImported { .. }
            | NodetoolError::Usage(_) => 1,
            NodetoolError::NoAnswer { .. }
            | NodetoolError::Failed(_)
            | NodetoolError::Output(_) => 2,
        }
    }
}

/// Where the API is.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The parts of a path: what stands between them is encoded.
pub(super) fn path<'s>(parts: impl IntoIterator<Item = &'s str>) -> String {
    let parts = parts.into_iter();
    let encode = |part| format!("/{}", utf8_percent_encode(part, KEPT));
    parts.map(encode).collect()
}

/// What stands in a path as it is, beside letters and digits.
const KEPT: &percent_encoding::AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

impl Api {
    pub(super) fn get<'s>(
        &self,
        parts: impl IntoIterator<Item = &'s str>,
        query: &[(&str, &str)],
    ) -> Result<Value, NodetoolError> {
        self.ask("GET", &path(parts), query)
    }

    pub(crate) fn post<'s>(
        &self,
        parts: impl IntoIterator<Item = &'s str>,
        query: &[(&str, &str)],
    ) -> Result<Value, NodetoolError> {
        self.ask("POST", &path(parts), query)
    }

    pub(super) fn delete<'s>(
        &self,
        parts: impl IntoIterator<Item = &'s str>,
        query: &[(&str, &str)],
    ) -> Result<Value, NodetoolError> {
        self.ask("DELETE", &path(parts), query)
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Value, NodetoolError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(query)
            .finish();
        let target = match query.is_empty() {
            true => path.to_owned(),
            false => format!("{path}?{query}"),
        };
        let (status, body) = runtime.block_on(self.exchange(method, &target))?;
        let Ok(answer) = serde_json::from_slice::<Value>(&body) else {
            return Err(self.no_answer(format!("it says {status} to {method} {path}")));
        };
        if status == StatusCode::OK {
            return Ok(answer);
        }
        match answer["message"].as_str() {
            Some(message) if status.is_client_error() => {
                Err(NodetoolError::Refused(message.to_owned()))
            }
            Some(message) => Err(NodetoolError::Failed(message.to_owned())),
            None => Err(self.no_answer(format!("it says {status} to {method} {path}"))),
        }
    }

    async fn exchange(
        &self,
        method: &str,
        target: &str,
    ) -> Result<(StatusCode, Bytes), NodetoolError> {
        let connected = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = connected.map_err(|error| NodetoolError::NoConnection {
            host: self.host.clone(),
            port: self.port,
            reason: error.to_string(),
        })?;
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .body(Empty::<Bytes>::new())
            .map_err(|error| NodetoolError::Usage(error.to_string()))?;
        let talk = async {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            let answer = async {
                let response = sender.send_request(request).await?;
                let status = response.status();
                let body = response.into_body().collect().await?.to_bytes();
                Ok((status, body))
            };
            tokio::select! {
                biased;
                answer = answer => answer,
                // It only ends before the answer if it breaks.
                Err(error) = connection => Err(error),
            }
        };
        talk.await
            .map_err(|error: hyper::Error| self.no_answer(error.to_string()))
    }

    fn no_answer(&self, reason: String) -> NodetoolError {
        NodetoolError::NoAnswer {
            host: self.host.clone(),
            port: self.port,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_is_told_from_what_makes_no_sense() {
        let error = |text: &str| text.to_owned();
        assert_eq!(NodetoolError::Usage(error("no")).exit_code(), 1);
        assert_eq!(NodetoolError::Refused(error("no")).exit_code(), 1);
        let failed = NodetoolError::Failed(error("a\nb"));
        assert_eq!(failed.exit_code(), 2);
        assert_eq!(failed.told(), "nodetool: a b");
    }

    #[test]
    fn names_in_a_path_are_encoded() {
        assert_eq!(path(["a_b", "c/d ?", "é"]), "/a_b/c%2Fd%20%3F/%C3%A9");
    }
}
