//! Connections without a driver: TCP, and the STARTUP of the native protocol, version 4
//! (`native_protocol_v4.spec`).
//!
//! What a server answers may be anything: reads are bounded in bytes and in time, and nothing is
//! believed of it but what was checked.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout_at};

/// From the first packet to the whole answer to STARTUP.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The native protocol's port.
const PORT: u16 = 9042;
/// The longest body of an answer that is read, in bytes: errors are a line of text.
const LONGEST_BODY: usize = 16 * 1024;
/// The most of a server's text that is shown, in characters.
const LONGEST_TEXT: usize = 200;

/// Version 4, no flags, stream 0, STARTUP, 22 bytes: a map of one option, CQL_VERSION: 3.0.0.
const STARTUP: &[u8; 31] =
    b"\x04\x00\x00\x00\x01\x00\x00\x00\x16\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0";

/// OPTIONS, which has no body.
const OPTIONS: &[u8; 9] = b"\x04\x00\x00\x00\x05\x00\x00\x00\x00";
/// The option that says to which of its shards a connection has come, of servers that have some
/// (ScyllaDB's `docs/dev/protocol-extensions.md`).
const SHARD: &[u8] = b"SCYLLA_SHARD";

/// The bit of a header's first byte that marks a response.
const RESPONSE: u8 = 0x80;
const ERROR: u8 = 0x00;
const READY: u8 = 0x02;
const AUTHENTICATE: u8 = 0x03;
const SUPPORTED: u8 = 0x06;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("no TCP connection within {} s", TIMEOUT.as_secs())]
    NotConnected,
    #[error("connection lost before the answer to STARTUP: {0}")]
    Lost(io::Error),
    #[error("no answer to STARTUP within {} s", TIMEOUT.as_secs())]
    NotAnswered,
    #[error("STARTUP answered with error 0x{code:04X}: {text}")]
    Refused { code: u32, text: String },
    #[error("STARTUP answered with {0}")]
    Unexpected(&'static str),
}

impl OpenError {
    /// What one can do about it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            OpenError::Connect(error) | OpenError::Lost(error) => {
                match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::MFILE) => "raise the limit of open files: `ulimit -n`",
                    Some(Errno::NFILE) => "raise the system's limit of open files: fs.file-max",
                    Some(Errno::ADDRNOTAVAIL) => {
                        "no local port is left: name more addresses of the server in --hosts, or \
                         widen net.ipv4.ip_local_port_range"
                    }
                    Some(Errno::CONNREFUSED) => "is the server up, with this address and port?",
                    _ => "what does the log of the server say? It may limit its connections",
                }
            }
            OpenError::NotConnected | OpenError::NotAnswered => {
                "is the server reached, and not overloaded?"
            }
            OpenError::Refused { .. } => "what does the log of the server say?",
            OpenError::Unexpected(_) => "is this the port of the native protocol, without TLS?",
        }
    }
}

/// Opens a connection, up to the answer to STARTUP: READY, or AUTHENTICATE, which is as good here.
///
/// # Errors
///
/// There is none, or it took longer than [`TIMEOUT`].
pub(crate) async fn open(address: SocketAddr) -> Result<TcpStream, OpenError> {
    let deadline = Instant::now() + TIMEOUT;
    let connected = timeout_at(deadline, connect(address)).await;
    let mut stream = connected
        .map_err(|_| OpenError::NotConnected)?
        .map_err(OpenError::Connect)?;
    let started = timeout_at(deadline, start(&mut stream)).await;
    started.map_err(|_| OpenError::NotAnswered)??;
    Ok(stream)
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Who closes first keeps the port in TIME_WAIT for a minute, and there are some 28,000: at a
    // few thousand connects a second they would run out. With SO_LINGER 0 the connection is reset
    // instead, and its port is free at once.
    socket.set_zero_linger()?;
    socket.connect(address).await
}

/// Opens a connection, and says to which shard of the node it has come, if the node says so.
///
/// # Errors
///
/// There is none, or it took longer than [`TIMEOUT`], or the server wants to know who it is.
pub(crate) async fn open_on_shard(
    address: SocketAddr,
) -> Result<(TcpStream, Option<usize>), OpenError> {
    let mut stream = open(address).await?;
    stream.set_nodelay(true).map_err(OpenError::Connect)?;
    let deadline = Instant::now() + TIMEOUT;
    let asked = timeout_at(deadline, ask_for_shard(&mut stream)).await;
    let shard = asked.map_err(|_| OpenError::NotAnswered)??;
    Ok((stream, shard))
}

async fn ask_for_shard(stream: &mut TcpStream) -> Result<Option<usize>, OpenError> {
    stream.write_all(OPTIONS).await.map_err(OpenError::Lost)?;
    match receive(stream).await? {
        (SUPPORTED, _, body) => Ok(shard(&body)),
        (ERROR, flags, body) => Err(refusal(flags, &body)),
        _ => Err(OpenError::Unexpected("neither SUPPORTED nor ERROR")),
    }
}

/// What a SUPPORTED says of the shard: behind the name there is a list of one text.
fn shard(supported: &[u8]) -> Option<usize> {
    let name = [&(SHARD.len() as u16).to_be_bytes(), SHARD].concat();
    let at = supported
        .windows(name.len())
        .position(|part| part == name)?;
    let (count, rest) = supported[at + name.len()..].split_first_chunk::<2>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let text = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
    let is_one = *count == [0, 1];
    is_one.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

async fn start(stream: &mut TcpStream) -> Result<(), OpenError> {
    stream.write_all(STARTUP).await.map_err(OpenError::Lost)?;
    match receive(stream).await? {
        (READY | AUTHENTICATE, ..) => Ok(()),
        (ERROR, flags, body) => Err(refusal(flags, &body)),
        _ => Err(OpenError::Unexpected(
            "neither READY nor AUTHENTICATE nor ERROR",
        )),
    }
}

/// The next frame: its opcode, flags and body.
async fn receive(stream: &mut TcpStream) -> Result<(u8, u8, Vec<u8>), OpenError> {
    let mut header = [0; 9];
    let read = stream.read_exact(&mut header).await;
    read.map_err(OpenError::Lost)?;
    let [version, flags, _, _, opcode, length @ ..] = header;
    if version & RESPONSE == 0 {
        return Err(OpenError::Unexpected("what is not the native protocol"));
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST_BODY {
        return Err(OpenError::Unexpected("a frame of more than 16 KiB"));
    }
    let mut body = vec![0; length];
    let read = stream.read_exact(&mut body).await;
    read.map_err(OpenError::Lost)?;
    Ok((opcode, flags, body))
}

/// An ERROR frame: `<code: int> <length: short> <text>`. With flags set, other things stand before.
fn refusal(flags: u8, body: &[u8]) -> OpenError {
    let (Some((code, text)), 0) = (body.split_first_chunk(), flags) else {
        return OpenError::Unexpected("an ERROR of unknown form");
    };
    OpenError::Refused {
        code: u32::from_be_bytes(*code),
        text: shown(text.get(2..).unwrap_or_default()),
    }
}

/// A server's text as it may be shown on a terminal, which must not obey it.
pub(crate) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let text = text.chars().take(LONGEST_TEXT);
    text.flat_map(char::escape_debug).collect()
}

/// The addresses of these hosts, each that on which a connection could be opened.
///
/// # Errors
///
/// One has none; says what to do.
pub(crate) async fn reach(hosts: &[String]) -> Result<Vec<SocketAddr>, String> {
    let mut reached = Vec::new();
    for host in hosts {
        let mut found = Err(format!("{host} has no address"));
        for address in resolve(host)? {
            match open(address).await {
                Ok(_) => found = Ok(address),
                Err(error) => found = Err(format!("{address}: {error}: {}", error.remedy())),
            }
            if found.is_ok() {
                break;
            }
        }
        reached.push(found?);
    }
    Ok(reached)
}

/// All addresses of `HOST[:PORT]`.
fn resolve(host: &str) -> Result<Vec<SocketAddr>, String> {
    let addresses = match host.parse::<IpAddr>() {
        // An IPv6 address ends as a port begins.
        Ok(address) => return Ok(vec![(address, PORT).into()]),
        Err(_) if host.contains(':') => host.to_socket_addrs(),
        Err(_) => (host, PORT).to_socket_addrs(),
    };
    let addresses =
        addresses.map_err(|error| format!("{host}: {error}: --hosts takes HOST[:PORT],..."))?;
    Ok(addresses.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up_server::{Behaviour, Server};

    fn open_on(behaviour: Behaviour) -> Result<(), String> {
        let server = Server::start(behaviour);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let opened = runtime.block_on(open(server.address));
        opened.map(drop).map_err(|error| error.to_string())
    }

    /// A header with this opcode, length and body.
    fn frame(opcode: u8, length: u32, body: &[u8]) -> Behaviour {
        let header = [&[0x84, 0, 0, 0, opcode][..], &length.to_be_bytes()].concat();
        Behaviour::Answers([&header[..], body].concat())
    }

    #[test]
    fn ready_and_authenticate_are_answers() {
        assert_eq!(open_on(Behaviour::Ready), Ok(()));
        assert_eq!(open_on(frame(AUTHENTICATE, 6, b"\x00\x04Some")), Ok(()));
    }

    #[test]
    fn a_shard_is_known_by_its_number() {
        let options = |options: &[(&str, &str)]| {
            let text = |text: &str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
            let mut body = (options.len() as u16).to_be_bytes().to_vec();
            for (name, value) in options {
                body.extend([text(name), vec![0, 1], text(value)].concat());
            }
            body
        };
        let others = ("SCYLLA_SHARDING_IGNORE_MSB", "12");
        assert_eq!(shard(&options(&[others, ("SCYLLA_SHARD", "3")])), Some(3));
        assert_eq!(shard(&options(&[others, ("SCYLLA_SHARD", "x")])), None);
        assert_eq!(shard(&options(&[others])), None);
        let whole = options(&[("SCYLLA_SHARD", "3")]);
        assert!((0..whole.len()).all(|end| shard(&whole[..end]).is_none()));
    }

    #[test]
    fn an_error_is_told_with_its_text() {
        let text = b"\x00\x00\x10\x01\x00\x0eToo \x1b[31m many";
        let error = open_on(frame(ERROR, text.len() as u32, text)).unwrap_err();
        let expected = "STARTUP answered with error 0x1001: Too \\u{1b}[31m many";
        assert_eq!(error, expected);
        let long = [&b"\x00\x00\x00\x0a\xff\xff"[..], &[b'x'; 5000]].concat();
        let error = open_on(frame(ERROR, long.len() as u32, &long)).unwrap_err();
        assert!(error.len() < 300, "{error}");
        assert!(open_on(frame(ERROR, 2, b"no")).is_err());
        assert!(open_on(frame(ERROR, 4, b"\xff\xff\xff\xff")).is_err());
    }

    #[test]
    fn anything_else_is_an_error() {
        let garbage = open_on(Behaviour::Answers(b"HTTP/1.1 400 Bad Request\r\n".to_vec()));
        assert!(garbage.unwrap_err().contains("not the native protocol"));
        for length in [LONGEST_BODY as u32 + 1, u32::MAX] {
            let error = open_on(frame(READY, length, b"")).unwrap_err();
            assert!(error.contains("16 KiB"), "{error}");
        }
        let error = open_on(frame(0x77, 0, b"")).unwrap_err();
        assert!(error.contains("neither READY"), "{error}");
        // Less than it says, and then the end.
        let error = open_on(frame(READY, 10, b"short")).unwrap_err();
        assert!(error.contains("lost"), "{error}");
        assert!(open_on(Behaviour::Answers(Vec::new())).is_err());
        assert!(open_on(Behaviour::Answers(vec![0x84])).is_err());
    }

    #[test]
    fn all_short_answers_are_survived() {
        let mut random = crate::generator::Random::new(7);
        for length in 0..64 {
            let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            if let Some(first) = bytes.first_mut() {
                *first |= RESPONSE;
            }
            // It ends, in whatever way.
            let _ = open_on(Behaviour::Answers(bytes));
        }
    }

    #[test]
    fn nobody_there_is_an_error_with_a_remedy() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let host = free.local_addr().unwrap().to_string();
        drop(free);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let error = runtime.block_on(reach(std::slice::from_ref(&host)));
        let error = error.unwrap_err();
        assert!(error.contains(&host), "{error}");
        assert!(error.contains("is the server up"), "{error}");
    }

    #[test]
    fn hosts_may_have_ports() {
        let port = |host: &str| resolve(host).unwrap()[0].port();
        assert_eq!(port("127.0.0.1"), 9042);
        assert_eq!(port("127.0.0.1:19042"), 19042);
        assert_eq!(port("::1"), 9042);
        assert_eq!(port("[::1]:19042"), 19042);
        assert!(resolve("127.0.0.1:what").is_err());
    }
}
