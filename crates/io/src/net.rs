//! Listeners and streams of TCP.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, ipproto, sockopt};

use crate::driver::Driver;
use crate::driver::epoll::EpollSocket;
use crate::driver::uring::socket::UringSocket;
use crate::env::{Backend, Env};
use crate::sim::{EndId, SimAttempt, SimEnd, SimListener, SimShard};

/// How much room is made for a read whose buffer has none, in bytes.
const READ_ROOM: usize = 8 * 1024;

/// A socket that takes connections. Closed when dropped.
pub struct Listener {
    env: Env,
    socket: ListenerSocket,
    local: SocketAddr,
}

enum ListenerSocket {
    Uring(UringSocket),
    Epoll(EpollSocket),
    Sim(SimListener),
}

/// A connection. Cheap to clone; one task reads and one writes at a time. Closed when the last
/// clone is dropped.
#[derive(Clone)]
pub struct TcpStream {
    env: Env,
    inner: Rc<Stream>,
}

struct Stream {
    socket: StreamSocket,
    local: SocketAddr,
    peer: SocketAddr,
}

enum StreamSocket {
    Uring(UringSocket),
    Epoll(EpollSocket),
    Sim(SimEnd),
}

/// A connection on its way to another shard, where [`Env::adopt`] takes it.
#[derive(Debug)]
pub struct DetachedStream {
    pub(crate) socket: DetachedSocket,
    local: SocketAddr,
    peer: SocketAddr,
}

#[derive(Debug)]
pub(crate) enum DetachedSocket {
    Real {
        fd: OwnedFd,
        /// Bytes that came in before.
        received: Vec<u8>,
    },
    Sim(EndId),
}

fn address(any: rustix::net::SocketAddrAny) -> io::Result<SocketAddr> {
    SocketAddr::try_from(any).map_err(|_| io::Error::other("an address that is not of IP"))
}

fn open_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = Some(ipproto::TCP);
    Ok(rustix::net::socket_with(
        family,
        SocketType::STREAM,
        flags,
        protocol,
    )?)
}

impl Env {
    /// Listens at `address` (port 0: any free one) with a queue of `backlog` connections that
    /// nobody has accepted yet.
    pub async fn listen(&self, address: SocketAddr, backlog: u32) -> io::Result<Listener> {
        match &self.inner.backend {
            Backend::Real(real) => {
                let fd = open_socket(address)?;
                sockopt::set_socket_reuseaddr(&fd, true)?;
                rustix::net::bind(&fd, &address)?;
                rustix::net::listen(&fd, i32::try_from(backlog).unwrap_or(i32::MAX))?;
                let local = self::address(rustix::net::getsockname(&fd)?)?;
                let socket = match &real.driver {
                    Driver::Uring(driver) => ListenerSocket::Uring(driver.socket(fd, Vec::new())),
                    Driver::Epoll(driver) => ListenerSocket::Epoll(driver.socket(fd)),
                };
                Ok(Listener {
                    env: self.clone(),
                    socket,
                    local,
                })
            }
            Backend::Sim(sim) => {
                let listening = {
                    let world = &mut *sim.world.borrow_mut();
                    world.network.listen(sim.node, address, backlog as usize)
                };
                let (id, local) = listening?;
                let world = sim.world.clone();
                Ok(Listener {
                    env: self.clone(),
                    socket: ListenerSocket::Sim(SimListener { world, id }),
                    local,
                })
            }
        }
    }

    /// Connects to `address`.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        match &self.inner.backend {
            Backend::Real(real) => {
                let fd = open_socket(address)?;
                sockopt::set_tcp_nodelay(&fd, true)?;
                let socket = match &real.driver {
                    Driver::Uring(driver) => {
                        let socket = driver.socket(fd, Vec::new());
                        socket.connect(address).await?;
                        StreamSocket::Uring(socket)
                    }
                    Driver::Epoll(driver) => {
                        let socket = driver.socket(fd);
                        connect_epoll(&socket, address).await?;
                        StreamSocket::Epoll(socket)
                    }
                };
                let local = match &socket {
                    StreamSocket::Uring(socket) => rustix::net::getsockname(socket.fd())?,
                    StreamSocket::Epoll(socket) => rustix::net::getsockname(socket.fd())?,
                    StreamSocket::Sim(_) => unreachable!("a real shard has real sockets"),
                };
                Ok(self.stream(socket, self::address(local)?, address))
            }
            Backend::Sim(sim) => {
                let id = {
                    let world = &mut *sim.world.borrow_mut();
                    world.network.connect(sim.node, address, world.now)
                };
                let attempt = SimAttempt {
                    world: sim.world.clone(),
                    id,
                };
                let connected = poll_fn(|context| {
                    let world = &mut *attempt.world.borrow_mut();
                    world.network.poll_connect(attempt.id, context)
                });
                let end = connected.await?;
                self.sim_stream(sim, end)
            }
        }
    }

    fn sim_stream(&self, sim: &SimShard, id: EndId) -> io::Result<TcpStream> {
        let end = SimEnd {
            world: sim.world.clone(),
            id,
            keep: false,
        };
        let addresses = sim.world.borrow().network.addresses(id);
        let (local, peer) = addresses?;
        Ok(self.stream(StreamSocket::Sim(end), local, peer))
    }

    /// Takes over a connection that another shard accepted.
    pub fn adopt(&self, stream: DetachedStream) -> TcpStream {
        let DetachedStream {
            socket,
            local,
            peer,
        } = stream;
        match (&self.inner.backend, socket) {
            (Backend::Real(real), DetachedSocket::Real { fd, received }) => {
                let socket = match &real.driver {
                    Driver::Uring(driver) => StreamSocket::Uring(driver.socket(fd, received)),
                    Driver::Epoll(driver) => {
                        debug_assert!(received.is_empty(), "epoll does not read ahead");
                        StreamSocket::Epoll(driver.socket(fd))
                    }
                };
                self.stream(socket, local, peer)
            }
            (Backend::Sim(sim), DetachedSocket::Sim(id)) => {
                let end = SimEnd {
                    world: sim.world.clone(),
                    id,
                    keep: false,
                };
                self.stream(StreamSocket::Sim(end), local, peer)
            }
            _ => unreachable!("connections stay in their world"),
        }
    }

    fn stream(&self, socket: StreamSocket, local: SocketAddr, peer: SocketAddr) -> TcpStream {
        TcpStream {
            env: self.clone(),
            inner: Rc::new(Stream {
                socket,
                local,
                peer,
            }),
        }
    }
}

async fn connect_epoll(socket: &EpollSocket, address: SocketAddr) -> io::Result<()> {
    use rustix::io::Errno;
    match rustix::net::connect(socket.fd(), &address) {
        Ok(()) => return Ok(()),
        Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    socket.expect_write_edge()?;
    poll_fn(|context| {
        socket.poll_write(context, |fd| match sockopt::socket_error(fd)? {
            Ok(()) => match rustix::net::getpeername(fd) {
                Ok(_) => Ok(()),
                // An edge from before the connection was begun.
                Err(Errno::NOTCONN) => Err(Errno::WOULDBLOCK),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        })
    })
    .await
}

impl Listener {
    /// The address that it listens at.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The next connection, and whence it comes. An error concerns one connection or, as when
    /// there are no descriptors left, this moment: pause a little and go on.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match &self.socket {
            ListenerSocket::Uring(listener) => {
                let fd = listener.accept().await?;
                let peer = rustix::net::getpeername(&fd)?.ok_or(io::ErrorKind::NotConnected)?;
                self.accepted(fd, peer)
            }
            ListenerSocket::Epoll(listener) => {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let accepted = poll_fn(|context| {
                    std::task::ready!(self.env.poll_operation(context));
                    listener.poll_read(context, |fd| rustix::net::acceptfrom_with(fd, flags))
                });
                let (fd, peer) = accepted.await?;
                self.accepted(fd, peer.ok_or(io::ErrorKind::NotConnected)?)
            }
            ListenerSocket::Sim(listener) => {
                let accepted = poll_fn(|context| {
                    let world = &mut *listener.world.borrow_mut();
                    world.network.poll_accept(listener.id, context)
                });
                let end = accepted.await;
                let stream = match &self.env.inner.backend {
                    Backend::Sim(sim) => self.env.sim_stream(sim, end)?,
                    Backend::Real(_) => unreachable!("a simulated listener is of such a shard"),
                };
                let peer = stream.peer_addr();
                Ok((stream, peer))
            }
        }
    }

    fn accepted(
        &self,
        fd: OwnedFd,
        peer: rustix::net::SocketAddrAny,
    ) -> io::Result<(TcpStream, SocketAddr)> {
        let peer = address(peer)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        let local = address(rustix::net::getsockname(&fd)?)?;
        let socket = match &crate::driver::file::real(&self.env).driver {
            Driver::Uring(driver) => StreamSocket::Uring(driver.socket(fd, Vec::new())),
            Driver::Epoll(driver) => StreamSocket::Epoll(driver.socket(fd)),
        };
        Ok((self.env.stream(socket, local, peer), peer))
    }
}

impl TcpStream {
    /// Appends what has come, at least a byte, to `buffer`, as far as its spare capacity reaches (if
    /// it has none, some is made). 0 means that the other side will send no more. What comes back may be other memory.
    /// Dropping the future loses nothing but the buffer.
    pub async fn read(&self, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        if buffer.capacity() == buffer.len() {
            buffer.reserve(READ_ROOM);
        }
        let result = match &self.inner.socket {
            StreamSocket::Uring(socket) => {
                poll_fn(|context| {
                    std::task::ready!(self.env.poll_operation(context));
                    socket.poll_receive(context, &mut buffer)
                })
                .await
            }
            StreamSocket::Epoll(socket) => {
                poll_fn(|context| {
                    std::task::ready!(self.env.poll_operation(context));
                    socket.poll_receive(context, &mut buffer)
                })
                .await
            }
            StreamSocket::Sim(end) => {
                poll_fn(|context| {
                    std::task::ready!(self.env.poll_operation(context));
                    let world = &mut *end.world.borrow_mut();
                    world.network.poll_read(end.id, context, &mut buffer)
                })
                .await
            }
        };
        (result, buffer)
    }

    /// Sends all of `buffer`. After an error, or if the future is dropped, nobody knows how much of
    /// it went.
    pub async fn write_all(&self, buffer: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let result = match &self.inner.socket {
            StreamSocket::Uring(socket) => return socket.send(buffer).await,
            StreamSocket::Epoll(socket) => {
                let mut sent = 0;
                poll_fn(|context| {
                    while sent < buffer.len() {
                        std::task::ready!(self.env.poll_operation(context));
                        match std::task::ready!(socket.poll_send(context, &buffer[sent..])) {
                            Ok(count) => sent += count,
                            Err(error) => return Poll::Ready(Err(error)),
                        }
                    }
                    Poll::Ready(Ok(()))
                })
                .await
            }
            StreamSocket::Sim(end) => {
                let mut sent = 0;
                poll_fn(|context| {
                    while sent < buffer.len() {
                        std::task::ready!(self.env.poll_operation(context));
                        let world = &mut *end.world.borrow_mut();
                        let (network, now) = (&mut world.network, world.now);
                        let polled = network.poll_write(end.id, context, &buffer[sent..], now);
                        match std::task::ready!(polled) {
                            Ok(count) => sent += count,
                            Err(error) => return Poll::Ready(Err(error)),
                        }
                    }
                    Poll::Ready(Ok(()))
                })
                .await
            }
        };
        (result, buffer)
    }

    /// Tells the other side that no more will come. Reading goes on.
    pub async fn shutdown(&self) -> io::Result<()> {
        match &self.inner.socket {
            StreamSocket::Uring(socket) => Ok(rustix::net::shutdown(socket.fd(), Shutdown::Write)?),
            StreamSocket::Epoll(socket) => Ok(rustix::net::shutdown(socket.fd(), Shutdown::Write)?),
            StreamSocket::Sim(end) => {
                let world = &mut *end.world.borrow_mut();
                world.network.finish(end.id, world.now)
            }
        }
    }

    /// Bytes that have come and were not read.
    pub fn unread(&self) -> u64 {
        match &self.inner.socket {
            StreamSocket::Uring(socket) => socket.received() as u64 + unread(socket.fd()),
            StreamSocket::Epoll(socket) => unread(socket.fd()),
            StreamSocket::Sim(end) => end.world.borrow().network.unread(end.id) as u64,
        }
    }

    /// How long ago the other side's system has acknowledged anything: it does so for what is sent to it,
    /// be it read or not. `None` where that is not known.
    pub fn acknowledged(&self) -> Option<Duration> {
        match &self.inner.socket {
            StreamSocket::Uring(socket) => acknowledged(socket.fd()),
            StreamSocket::Epoll(socket) => acknowledged(socket.fd()),
            StreamSocket::Sim(_) => None,
        }
    }

    /// The other side's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.inner.peer
    }

    /// This side's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local
    }

    /// Takes the connection off this shard, for another one to adopt. Bytes that have come in but
    /// were not read go with it. Fails if there are clones of this handle, or no descriptors left.
    pub fn detach(self) -> Result<DetachedStream, TcpStream> {
        let TcpStream { env, inner } = self;
        let stream = Rc::try_unwrap(inner).map_err(|inner| TcpStream {
            env: env.clone(),
            inner,
        })?;
        let Stream {
            socket,
            local,
            peer,
        } = stream;
        let socket = match socket {
            StreamSocket::Uring(socket) => match socket.take() {
                Ok((fd, received)) => DetachedSocket::Real { fd, received },
                Err(_) => return Err(env.stream(StreamSocket::Uring(socket), local, peer)),
            },
            StreamSocket::Epoll(socket) => DetachedSocket::Real {
                fd: socket.into_fd(),
                received: Vec::new(),
            },
            StreamSocket::Sim(mut end) => {
                end.keep = true;
                DetachedSocket::Sim(end.id)
            }
        };
        Ok(DetachedStream {
            socket,
            local,
            peer,
        })
    }
}

/// Bytes that have come and that the kernel keeps.
fn unread(fd: impl AsFd) -> u64 {
    // Only what is no socket any more has no such number.
    rustix::io::ioctl_fionread(fd).unwrap_or(0)
}

/// How long ago something was acknowledged, as Linux keeps it for a connection (`tcpi_last_ack_recv`).
fn acknowledged(fd: impl AsFd) -> Option<Duration> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `length` bytes to `info`, which has as many, and the descriptor
    // is open as long as it is borrowed.
    let result = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let written = usize::try_from(length).ok()?;
    let field = std::mem::offset_of!(libc::tcp_info, tcpi_last_ack_recv);
    if result != 0 || written < field + size_of::<u32>() {
        return None;
    }
    // SAFETY: all of it is integers, for which zeros are good, and the kernel wrote over a part of them.
    let info = unsafe { info.assume_init() };
    Some(Duration::from_millis(info.tcpi_last_ack_recv.into()))
}

impl DetachedStream {
    /// The other side's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// This side's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}
