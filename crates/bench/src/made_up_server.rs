//! For tests: a server on 127.0.0.1 that knows no more of the native protocol than to answer STARTUP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// What it does when it has read a STARTUP.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Answers READY, and waits for the end.
    Ready,
    /// Answers READY, and closes.
    ReadyThenEnd,
    /// Writes these bytes, and closes.
    Answers(Vec<u8>),
    /// The same, but for the first connection, to which it answers READY.
    AnswersLater(Vec<u8>),
}

const READY: &[u8] = b"\x84\x00\x00\x00\x02\x00\x00\x00\x00";

/// The server, until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Connections that are open.
    open: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(behaviour: Behaviour) -> Server {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (open, (stop, stopped)) = (Arc::new(AtomicUsize::new(0)), oneshot::channel());
        let counted = open.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(&listener, &behaviour, &counted) => {}
                    _ = stopped => {}
                }
            });
        });
        Server {
            address,
            open,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Waits until so many connections are open.
    pub(crate) fn await_open(&self, expected: usize) {
        let start = Instant::now();
        while self.open.load(Ordering::Relaxed) != expected {
            let open = self.open.load(Ordering::Relaxed);
            assert!(start.elapsed() < Duration::from_secs(20), "{open} are open");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_some_and(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

async fn accept(listener: &TcpListener, behaviour: &Behaviour, open: &Arc<AtomicUsize>) {
    let mut behaviour = behaviour.clone();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (now, open) = (behaviour.clone(), open.clone());
        if let Behaviour::AnswersLater(bytes) = behaviour {
            behaviour = Behaviour::Answers(bytes);
        }
        tokio::spawn(async move {
            open.fetch_add(1, Ordering::Relaxed);
            // The client may end it at any moment.
            let _ = serve(stream, &now).await;
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn serve(mut stream: TcpStream, behaviour: &Behaviour) -> std::io::Result<()> {
    let mut startup = [0; 31];
    stream.read_exact(&mut startup).await?;
    assert_eq!(startup[4], 0x01);
    match behaviour {
        Behaviour::Answers(bytes) => stream.write_all(bytes).await?,
        _ => stream.write_all(READY).await?,
    }
    if matches!(behaviour, Behaviour::Ready) {
        stream.read_exact(&mut [0]).await?;
    }
    Ok(())
}
