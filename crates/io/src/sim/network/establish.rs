//! How connections come about: listening, asking, being answered.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use super::{Attempt, End, EndId, Listening, Network, NetworkEvent, NodeIndex, RETRANSMIT, wake};
use crate::instant::Instant;

impl Network {
    pub(super) fn listener_at(&self, node: NodeIndex, address: SocketAddr) -> Option<u64> {
        let found = self.listeners.iter().find(|(_, listener)| {
            let bound = listener.address;
            listener.node == node
                && listener.incarnation == self.stations[node].incarnation
                && bound.port() == address.port()
                && (bound.ip() == address.ip()
                    || bound.ip().is_unspecified()
                    || address.ip().is_unspecified())
        });
        found.map(|(id, _)| *id)
    }

    pub(crate) fn listen(
        &mut self,
        node: NodeIndex,
        mut address: SocketAddr,
        backlog: usize,
    ) -> io::Result<(u64, SocketAddr)> {
        let ip = address.ip();
        if !(ip.is_loopback() || ip.is_unspecified() || ip == self.stations[node].address) {
            return Err(ErrorKind::AddrNotAvailable.into());
        }
        if address.port() == 0 {
            address.set_port(self.free_port(node));
        } else if self.listener_at(node, address).is_some() {
            return Err(ErrorKind::AddrInUse.into());
        }
        let id = self.id();
        let listening = Listening {
            node,
            incarnation: self.stations[node].incarnation,
            address,
            backlog: backlog.max(1),
            queue: VecDeque::new(),
            waker: None,
        };
        self.listeners.insert(id, listening);
        Ok((id, address))
    }

    pub(super) fn free_port(&mut self, node: NodeIndex) -> u16 {
        let station = &mut self.stations[node];
        let port = station.next_port;
        station.next_port = if port == u16::MAX { 32_768 } else { port + 1 };
        port
    }

    pub(crate) fn close_listener(&mut self, id: u64, now: Instant) {
        if let Some(listener) = self.listeners.remove(&id) {
            for end in listener.queue {
                self.close(end, now);
            }
        }
    }

    pub(crate) fn poll_accept(&mut self, id: u64, context: &mut Context<'_>) -> Poll<EndId> {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return Poll::Pending;
        };
        match listener.queue.pop_front() {
            Some(end) => Poll::Ready(end),
            None => {
                listener.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    pub(crate) fn connect(&mut self, node: NodeIndex, target: SocketAddr, now: Instant) -> u64 {
        let target_node = self.node_of(node, target.ip());
        let ip = match target.ip() {
            ip if ip.is_loopback() => ip,
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            _ => self.stations[node].address,
        };
        let local = SocketAddr::new(ip, self.free_port(node));
        let id = self.id();
        let delay = self.delay(node, target_node.unwrap_or(node));
        self.attempts.insert(
            id,
            Attempt {
                node,
                target,
                target_node,
                local,
                deadline: now + self.give_up,
                answer: None,
                arrived: false,
                waker: None,
            },
        );
        self.events.push((now + delay, NetworkEvent::Syn(id)));
        id
    }

    pub(crate) fn poll_connect(
        &mut self,
        id: u64,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<EndId>> {
        let Some(attempt) = self.attempts.get_mut(&id) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        if !attempt.arrived {
            attempt.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let attempt = self.attempts.remove(&id);
        match attempt.and_then(|attempt| attempt.answer) {
            Some(Ok(end)) => Poll::Ready(Ok(end)),
            Some(Err(kind)) => Poll::Ready(Err(kind.into())),
            None => Poll::Ready(Err(ErrorKind::TimedOut.into())),
        }
    }

    /// Nobody waits for the connection any more.
    pub(crate) fn abandon_connect(&mut self, id: u64, now: Instant) {
        if let Some(attempt) = self.attempts.remove(&id)
            && let Some(Ok(end)) = attempt.answer
        {
            self.close(end, now);
        }
    }

    pub(super) fn syn_arrives(&mut self, id: u64, now: Instant) {
        let Some(attempt) = self.attempts.get(&id) else {
            return;
        };
        let (from, target, local) = (attempt.node, attempt.target, attempt.local);
        let to = attempt
            .target_node
            .filter(|to| self.passes(from, *to) && self.passes(*to, from));
        let Some(to) = to else {
            if now >= attempt.deadline {
                self.answer(id, None, now);
            } else {
                let again = now + RETRANSMIT * 5;
                self.events.push((again, NetworkEvent::Syn(id)));
            }
            return;
        };
        let delay = self.delay(to, from);
        let listener = self
            .listener_at(to, target)
            .filter(|id| self.listeners[id].queue.len() < self.listeners[id].backlog);
        let Some(listener) = listener else {
            return self.answer(id, Some(Err(ErrorKind::ConnectionRefused)), now + delay);
        };
        let connection = self.id();
        let accepted = EndId { connection, end: 1 };
        let ends = [self.end(from, local), self.end(to, target)];
        self.connections.insert(connection, ends);
        if let Some(listener) = self.listeners.get_mut(&listener) {
            listener.queue.push_back(accepted);
            wake(&mut listener.waker);
        }
        let connected = EndId { connection, end: 0 };
        self.answer(id, Some(Ok(connected)), now + delay);
    }

    pub(super) fn answer(
        &mut self,
        id: u64,
        answer: Option<Result<EndId, ErrorKind>>,
        at: Instant,
    ) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.answer = answer;
            self.events.push((at, NetworkEvent::SynAnswer(id)));
        }
    }

    pub(super) fn end(&self, node: NodeIndex, local: SocketAddr) -> End {
        End {
            node,
            incarnation: self.stations[node].incarnation,
            local,
            open: true,
            inbound: VecDeque::new(),
            fin_received: false,
            fin_sent: false,
            error: None,
            reader: None,
            writer: None,
            wire: VecDeque::new(),
            wire_bytes: 0,
            scheduled: false,
            blocked_since: None,
        }
    }
}
