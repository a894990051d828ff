//! A simulated network of nodes that speak TCP.
//!
//! A connection is two queues of segments. A segment arrives after the link's delay; a lost one
//! after being sent again, so loss, duplicates and disorder of packets show as delay, which is all
//! that TCP lets through. Behind a partition, or to a node without power, segments wait and are
//! tried again until the sender gives up. A node that comes back knows nothing of its connections
//! and resets them.

mod establish;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::instant::Instant;
use crate::random::Random;

use super::trace::Trace;

/// The index of a node.
pub(crate) type NodeIndex = usize;

/// How many bytes may be under way to a reader or waiting for it.
const WINDOW: usize = 256 * 1024;

/// The most bytes of a segment.
const SEGMENT: u64 = 16 * 1024;

/// After what time a lost segment is sent again for the first time.
const RETRANSMIT: Duration = Duration::from_millis(200);

/// How the packets from one node to another fare. Probabilities are per segment, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    /// The least delay.
    pub min_delay: Duration,
    /// The most delay, but for packets that were lost.
    pub max_delay: Duration,
    /// A packet is lost and sent again later.
    pub loss: f64,
    /// Something on the way resets the connection.
    pub reset: f64,
}

impl LinkConfig {
    /// A healthy local network.
    pub const HEALTHY: LinkConfig = LinkConfig {
        min_delay: Duration::from_micros(50),
        max_delay: Duration::from_micros(500),
        loss: 0.0,
        reset: 0.0,
    };

    /// Within a node.
    const LOOPBACK: LinkConfig = LinkConfig {
        min_delay: Duration::from_micros(5),
        max_delay: Duration::from_micros(30),
        loss: 0.0,
        reset: 0.0,
    };
}

/// Something that happens on the network at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NetworkEvent {
    /// The question for a connection arrives.
    Syn(u64),
    /// The answer to it arrives.
    SynAnswer(u64),
    /// The next segment of a connection's end arrives at the other one.
    Segment { connection: u64, from: usize },
}

/// One end of a connection, as its owner names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndId {
    pub(crate) connection: u64,
    pub(crate) end: usize,
}

struct Station {
    address: IpAddr,
    /// Is there power?
    up: bool,
    /// Which start of the node this is.
    incarnation: u64,
    next_port: u16,
}

struct Listening {
    node: NodeIndex,
    incarnation: u64,
    address: SocketAddr,
    backlog: usize,
    queue: VecDeque<EndId>,
    waker: Option<Waker>,
}

struct Attempt {
    node: NodeIndex,
    target: SocketAddr,
    target_node: Option<NodeIndex>,
    local: SocketAddr,
    deadline: Instant,
    answer: Option<Result<EndId, ErrorKind>>,
    arrived: bool,
    waker: Option<Waker>,
}

enum Segment {
    Data(Vec<u8>),
    Fin,
    Reset,
}

struct End {
    node: NodeIndex,
    incarnation: u64,
    local: SocketAddr,
    /// Does somebody hold it?
    open: bool,
    inbound: VecDeque<u8>,
    fin_received: bool,
    fin_sent: bool,
    error: Option<ErrorKind>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Segments to the other end, with when they arrive.
    wire: VecDeque<(Instant, Segment)>,
    wire_bytes: usize,
    /// Is an event under way for the first of them?
    scheduled: bool,
    blocked_since: Option<Instant>,
}

/// All nodes' network.
pub(crate) struct Network {
    stations: Vec<Station>,
    links: BTreeMap<(NodeIndex, NodeIndex), LinkConfig>,
    default_link: LinkConfig,
    partitions: BTreeSet<(NodeIndex, NodeIndex)>,
    listeners: BTreeMap<u64, Listening>,
    attempts: BTreeMap<u64, Attempt>,
    connections: BTreeMap<u64, [End; 2]>,
    next_id: u64,
    random: Random,
    give_up: Duration,
    pub(crate) trace: Trace,
    /// What is to happen later.
    pub(crate) events: Vec<(Instant, NetworkEvent)>,
}

impl Network {
    /// `give_up` is how long a sender waits for a node that does not answer.
    pub(crate) fn new(random: Random, default_link: LinkConfig, give_up: Duration) -> Network {
        Network {
            stations: Vec::new(),
            links: BTreeMap::new(),
            default_link,
            partitions: BTreeSet::new(),
            listeners: BTreeMap::new(),
            attempts: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_id: 0,
            random,
            give_up,
            trace: Trace::default(),
            events: Vec::new(),
        }
    }

    pub(crate) fn add_station(&mut self, address: IpAddr) {
        self.stations.push(Station {
            address,
            up: false,
            incarnation: 0,
            next_port: 32_768,
        });
    }

    pub(crate) fn start(&mut self, node: NodeIndex) {
        let station = &mut self.stations[node];
        station.up = true;
        station.incarnation += 1;
    }

    pub(crate) fn set_default_link(&mut self, link: LinkConfig) {
        self.default_link = link;
    }

    pub(crate) fn set_link(&mut self, from: NodeIndex, to: NodeIndex, link: LinkConfig) {
        self.links.insert((from, to), link);
    }

    pub(crate) fn block(&mut self, from: NodeIndex, to: NodeIndex) {
        self.partitions.insert((from, to));
    }

    pub(crate) fn heal(&mut self) {
        self.partitions.clear();
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn link(&self, from: NodeIndex, to: NodeIndex) -> LinkConfig {
        if from == to {
            return LinkConfig::LOOPBACK;
        }
        *self.links.get(&(from, to)).unwrap_or(&self.default_link)
    }

    fn passes(&self, from: NodeIndex, to: NodeIndex) -> bool {
        from == to || (self.stations[to].up && !self.partitions.contains(&(from, to)))
    }

    /// How long a packet takes now, sent again as often as it is lost.
    fn delay(&mut self, from: NodeIndex, to: NodeIndex) -> Duration {
        let link = self.link(from, to);
        let spread = link.max_delay.saturating_sub(link.min_delay).as_nanos() as u64;
        let mut delay = link.min_delay + Duration::from_nanos(self.random.below(spread + 1));
        let mut again = RETRANSMIT;
        while again < Duration::from_secs(5) && self.random.chance(link.loss) {
            delay += again;
            again *= 2;
        }
        delay
    }

    fn node_of(&self, from: NodeIndex, address: IpAddr) -> Option<NodeIndex> {
        if address.is_loopback() || address.is_unspecified() {
            return Some(from);
        }
        self.stations
            .iter()
            .position(|station| station.address == address)
    }

    /// The addresses of an end: its own and the other one's.
    pub(crate) fn addresses(&self, id: EndId) -> io::Result<(SocketAddr, SocketAddr)> {
        let ends = self.connections.get(&id.connection);
        let ends = ends.ok_or(io::Error::from(ErrorKind::NotConnected))?;
        Ok((ends[id.end].local, ends[1 - id.end].local))
    }

    /// Bytes that have come to an end and were not read.
    pub(crate) fn unread(&self, id: EndId) -> usize {
        let ends = self.connections.get(&id.connection);
        ends.map_or(0, |ends| ends[id.end].inbound.len())
    }

    pub(crate) fn poll_read(
        &mut self,
        id: EndId,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let Some(ends) = self.connections.get_mut(&id.connection) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        let [end, other] = both(ends, id.end);
        if !end.inbound.is_empty() {
            let mut count = end.inbound.len().min(buffer.capacity() - buffer.len());
            // Streams have no borders: sometimes less comes than is there.
            if count > 1 && self.random.chance(0.2) {
                count = 1 + self.random.below(count as u64 - 1) as usize;
            }
            // Byte by byte this was two thirds of what a request cost in here.
            let (first, second) = end.inbound.as_slices();
            let of_first = count.min(first.len());
            buffer.extend_from_slice(&first[..of_first]);
            buffer.extend_from_slice(&second[..count - of_first]);
            end.inbound.drain(..count);
            wake(&mut other.writer);
            return Poll::Ready(Ok(count));
        }
        if let Some(kind) = end.error {
            return Poll::Ready(Err(kind.into()));
        }
        if end.fin_received {
            return Poll::Ready(Ok(0));
        }
        end.reader = Some(context.waker().clone());
        Poll::Pending
    }

    pub(crate) fn poll_write(
        &mut self,
        id: EndId,
        context: &mut Context<'_>,
        bytes: &[u8],
        now: Instant,
    ) -> Poll<io::Result<usize>> {
        let Some(ends) = self.connections.get_mut(&id.connection) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        let [end, other] = both(ends, id.end);
        if end.fin_sent {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        if let Some(kind) = end.error {
            return Poll::Ready(Err(kind.into()));
        }
        let taken = end.wire_bytes + other.inbound.len();
        if taken >= WINDOW {
            end.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let (from, to) = (end.node, other.node);
        let most = (bytes.len() as u64).min(SEGMENT);
        let len = if self.random.chance(0.1) {
            1 + self.random.below(most)
        } else {
            most
        };
        let segment = &bytes[..len as usize];
        self.trace.bytes(segment);
        let reset = self.link(from, to).reset;
        if self.random.chance(reset) {
            self.break_connection(id.connection, ErrorKind::ConnectionReset);
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        self.send(id, Segment::Data(segment.to_vec()), now);
        Poll::Ready(Ok(segment.len()))
    }

    pub(crate) fn finish(&mut self, id: EndId, now: Instant) -> io::Result<()> {
        let Some(ends) = self.connections.get_mut(&id.connection) else {
            return Err(ErrorKind::NotConnected.into());
        };
        let end = &mut ends[id.end];
        if let Some(kind) = end.error {
            return Err(kind.into());
        }
        if !std::mem::replace(&mut end.fin_sent, true) {
            self.send(id, Segment::Fin, now);
        }
        Ok(())
    }

    /// Nobody holds the end any more.
    pub(crate) fn close(&mut self, id: EndId, now: Instant) {
        let Some(ends) = self.connections.get_mut(&id.connection) else {
            return;
        };
        let end = &mut ends[id.end];
        if !std::mem::replace(&mut end.open, false) {
            return;
        }
        (end.reader, end.writer) = (None, None);
        if end.error.is_none() {
            if !end.inbound.is_empty() {
                self.send(id, Segment::Reset, now);
            } else if !std::mem::replace(&mut end.fin_sent, true) {
                self.send(id, Segment::Fin, now);
            }
        }
        self.forget_if_over(id.connection);
    }

    fn send(&mut self, id: EndId, segment: Segment, now: Instant) {
        let Some(ends) = self.connections.get(&id.connection) else {
            return;
        };
        let (from, to) = (ends[id.end].node, ends[1 - id.end].node);
        let arrival = now + self.delay(from, to);
        let Some(ends) = self.connections.get_mut(&id.connection) else {
            return;
        };
        let end = &mut ends[id.end];
        if let Segment::Data(bytes) = &segment {
            end.wire_bytes += bytes.len();
        }
        end.wire.push_back((arrival, segment));
        self.schedule(id, now);
    }

    /// Lets the first segment of an end arrive when it is due.
    fn schedule(&mut self, id: EndId, now: Instant) {
        let Some(ends) = self.connections.get_mut(&id.connection) else {
            return;
        };
        let end = &mut ends[id.end];
        if end.scheduled {
            return;
        }
        if let Some((arrival, _)) = end.wire.front() {
            end.scheduled = true;
            let event = NetworkEvent::Segment {
                connection: id.connection,
                from: id.end,
            };
            self.events.push(((*arrival).max(now), event));
        }
    }

    fn segment_arrives(&mut self, id: EndId, now: Instant) {
        let Some(ends) = self.connections.get_mut(&id.connection) else {
            return;
        };
        ends[id.end].scheduled = false;
        let (from, to) = (ends[id.end].node, ends[1 - id.end].node);
        if !self.passes(from, to) {
            return self.segment_waits(id, now);
        }
        let incarnation = self.stations[to].incarnation;
        let Some(ends) = self.connections.get_mut(&id.connection) else {
            return;
        };
        let [sender, receiver] = both(ends, id.end);
        sender.blocked_since = None;
        let Some((_, segment)) = sender.wire.pop_front() else {
            return;
        };
        let known = receiver.open && receiver.incarnation == incarnation;
        match segment {
            Segment::Data(bytes) => {
                sender.wire_bytes -= bytes.len();
                if known {
                    receiver.inbound.extend(bytes);
                    wake(&mut receiver.reader);
                } else if receiver.error.is_none() {
                    // Nobody is there any more, and the sender will hear of it.
                    receiver.error = Some(ErrorKind::ConnectionReset);
                    let back = EndId {
                        connection: id.connection,
                        end: 1 - id.end,
                    };
                    self.send(back, Segment::Reset, now);
                }
            }
            Segment::Fin => {
                receiver.fin_received = true;
                wake(&mut receiver.reader);
            }
            Segment::Reset => {
                receiver.error = Some(ErrorKind::ConnectionReset);
                receiver.wire.clear();
                receiver.wire_bytes = 0;
                wake(&mut receiver.reader);
                wake(&mut receiver.writer);
            }
        }
        self.schedule(id, now);
        self.forget_if_over(id.connection);
    }

    /// A segment does not get through now: try again later, but not for ever.
    fn segment_waits(&mut self, id: EndId, now: Instant) {
        let give_up = self.give_up;
        let Some(ends) = self.connections.get_mut(&id.connection) else {
            return;
        };
        let end = &mut ends[id.end];
        let since = *end.blocked_since.get_or_insert(now);
        if now - since >= give_up {
            end.error = Some(ErrorKind::TimedOut);
            end.wire.clear();
            end.wire_bytes = 0;
            wake(&mut end.reader);
            wake(&mut end.writer);
            return self.forget_if_over(id.connection);
        }
        if let Some((arrival, _)) = end.wire.front_mut() {
            *arrival = now + RETRANSMIT;
        }
        self.schedule(id, now);
    }

    fn forget_if_over(&mut self, connection: u64) {
        let over = self.connections.get(&connection).is_some_and(|ends| {
            ends.iter()
                .all(|end| !self.is_held(end) && (end.wire.is_empty() || end.error.is_some()))
        });
        if over {
            self.connections.remove(&connection);
        }
    }

    fn is_held(&self, end: &End) -> bool {
        let station = &self.stations[end.node];
        end.open && station.up && station.incarnation == end.incarnation
    }

    fn break_connection(&mut self, connection: u64, kind: ErrorKind) {
        if let Some(ends) = self.connections.get_mut(&connection) {
            for end in ends {
                end.error = Some(kind);
                end.wire.clear();
                end.wire_bytes = 0;
                wake(&mut end.reader);
                wake(&mut end.writer);
            }
        }
    }

    // ---- events and faults ----

    pub(crate) fn happens(&mut self, event: NetworkEvent, now: Instant) {
        match event {
            NetworkEvent::Syn(id) => self.syn_arrives(id, now),
            NetworkEvent::SynAnswer(id) => {
                if let Some(attempt) = self.attempts.get_mut(&id) {
                    attempt.arrived = true;
                    wake(&mut attempt.waker);
                }
            }
            NetworkEvent::Segment { connection, from } => {
                let id = EndId {
                    connection,
                    end: from,
                };
                self.segment_arrives(id, now);
            }
        }
    }

    /// Resets all connections between two nodes.
    pub(crate) fn reset_between(&mut self, a: NodeIndex, b: NodeIndex) {
        let between: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, [x, y])| (x.node, y.node) == (a, b) || (x.node, y.node) == (b, a))
            .map(|(id, _)| *id)
            .collect();
        for connection in between {
            self.break_connection(connection, ErrorKind::ConnectionReset);
        }
    }

    /// A node's processes end. With power, its kernel closes all connections; without, nobody hears
    /// of it, and some of what was sent last never left the node.
    pub(crate) fn stop(&mut self, node: NodeIndex, power: bool, now: Instant) {
        self.listeners.retain(|_, listener| listener.node != node);
        self.attempts.retain(|_, attempt| attempt.node != node);
        let ends: Vec<EndId> = self
            .connections
            .iter()
            .flat_map(|(connection, ends)| {
                (0..2)
                    .filter(|end| ends[*end].node == node && ends[*end].open)
                    .map(|end| EndId {
                        connection: *connection,
                        end,
                    })
            })
            .collect();
        for id in ends {
            if power {
                self.close(id, now);
            } else if let Some(ends) = self.connections.get_mut(&id.connection) {
                let end = &mut ends[id.end];
                end.open = false;
                (end.reader, end.writer) = (None, None);
                let left = self.random.below(end.wire.len() as u64 + 1) as usize;
                end.wire.truncate(left);
            }
        }
        // A node whose process was killed still answers, if only to refuse.
        self.stations[node].up = power;
        if power {
            self.stations[node].incarnation += 1;
        }
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// This end and the other one.
fn both(ends: &mut [End; 2], end: usize) -> [&mut End; 2] {
    let [first, second] = ends;
    if end == 0 {
        [first, second]
    } else {
        [second, first]
    }
}
