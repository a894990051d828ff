//! One client's connection: bytes to requests, requests to answers, until one side ends it.
//!
//! Each request is a future of its own. It is polled where it was read; only one that has to wait
//! (for the commit log, a drive, another shard) becomes a task. So answers may overtake each
//! other, as the protocol allows.
//!
//! Nothing gathers without bound: a connection with many requests under way, or whose answers it
//! does not read, is not read from, and the bytes of all requests under way on a shard have a
//! budget. What has waited for too long meanwhile is refused as overload, as in Cassandra, and so is what there is no
//! memory for if the client wants to be told.

mod arrivals;
mod elsewhere;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use io::{Instant, Permit, TaskGroup, TcpStream};
use smallvec::SmallVec;
use wire::{
    Envelope, ErrorReply, Flags, Opcode, ProtocolError, Request, ResponseExtras, ResponseWriter,
    ServerConnection,
};

use crate::clients::Client;
use crate::error::RequestError;
use crate::execute::{self, AtOnce, Call, TOGETHER};
use crate::metrics::RequestKind;
use crate::request_memory::memory_of;
use crate::shard::Shard;
use crate::trace::{Trace, Traced};
use arrivals::Arrivals;
use elsewhere::Elsewhere;

/// Where the buffer of a read begins and ends, in bytes.
const READ_BUFFER: std::ops::RangeInclusive<usize> = (4 << 10)..=(64 << 10);
/// How much is read, and how long, of a client that was told of its mistake and still talks.
const FAREWELL: (usize, Duration) = (16 << 20, Duration::from_secs(5));
/// What has waited for longer is not begun any more: its client has given it up (`native_transport_timeout`).
const LONGEST_WAIT: Duration = Duration::from_secs(12);

/// Serves a client to the end of its connection.
pub(crate) async fn serve(shard: Rc<Shard>, stream: TcpStream) {
    let (number, client) = shard.clients.enter(stream.peer_addr());
    shard.metrics.connections_accepted.add(1);
    shard.metrics.connections.add(1);
    if shard.stopping.get() {
        client.end();
    }
    let writer = {
        let (shard, client, stream) = (shard.clone(), client.clone(), stream.clone());
        let env = shard.env.clone();
        env.spawn_last(async move {
            let sent = || client.progress.notify_all();
            let output = &client.output;
            output.write_to(&stream, &shard.metrics, sent).await;
            client.end();
        })
    };
    let farewell = read(&shard, &client, &stream).await;
    wait(&client, || client.window.is_idle()).await;
    client.output.close();
    writer.await;
    let _ = stream.shutdown().await;
    if farewell && !client.output.is_broken() {
        let (limit, time) = FAREWELL;
        let _ = shard
            .env
            .timeout(time, read_and_forget(&stream, limit))
            .await;
    }
    shard.metrics.connections.sub(1);
    shard.clients.leave(number);
}

/// Waits until something holds that the progress of the connection changes.
async fn wait(client: &Client, until: impl Fn() -> bool) {
    while !until() {
        client.progress.notified().await;
    }
}

/// Reads requests until the client or the node ends the connection. `true`: the client was told
/// why and may still be sending.
async fn read(shard: &Rc<Shard>, client: &Rc<Client>, stream: &TcpStream) -> bool {
    let mut buffer = Vec::with_capacity(*READ_BUFFER.start());
    let mut input = BytesMut::new();
    let mut arrivals = Arrivals::default();
    loop {
        let (result, back) = {
            let reading = pin!(stream.read(std::mem::take(&mut buffer)));
            match client.or_end(reading).await {
                Some(read) => read,
                None => return true,
            }
        };
        let count = match result {
            Ok(0) | Err(_) => return false,
            Ok(count) => count,
        };
        shard.metrics.bytes_in.add(count as u64);
        let now = shard.env.now();
        let unread = || match back.len() < back.capacity() {
            true => 0,
            false => stream.unread(),
        };
        let times = Times {
            arrived: arrivals.read(now, count, unread),
            now: Some(now),
        };
        input.extend_from_slice(&back);
        buffer = fit(back);
        if !begin_all(shard, client, &mut input, times).await {
            return true;
        }
        if input.is_empty() && input.capacity() > *READ_BUFFER.end() {
            input = BytesMut::new();
        }
    }
}

/// A buffer that was read into, emptied: larger if it was full, smaller if far too large.
fn fit(mut buffer: Vec<u8>) -> Vec<u8> {
    let (used, capacity) = (buffer.len(), buffer.capacity());
    buffer.clear();
    if used == capacity && capacity < *READ_BUFFER.end() {
        buffer.reserve(capacity * 2);
    } else if used < capacity / 8 && capacity > 2 * *READ_BUFFER.start() {
        buffer = Vec::with_capacity(capacity / 2);
    }
    buffer
}

fn refuse(shard: &Shard, client: &Client, error: &ProtocolError) {
    count_error(shard, &error.reply);
    client.output.with(|connection| connection.refuse(error));
}

fn count_error(shard: &Shard, reply: &ErrorReply) {
    shard.metrics.count_error(reply.kind.code() as u32);
}

/// Refuses a request as overload.
fn shed(shard: &Shard, client: &Client, request: &Envelope, reason: &str) {
    let reply = RequestError::Overloaded(reason.to_owned()).into_reply();
    count_error(shard, &reply);
    client
        .output
        .with(|connection| connection.respond(&request.header).error(&reply));
}

/// When what was read came at the latest, and what time it is, if it was looked at and nothing was done since.
struct Times {
    arrived: Instant,
    now: Option<Instant>,
}

/// Requests that were read together.
type Requests = SmallVec<[Envelope; TOGETHER]>;

/// Bytes of requests that are taken off together before it is looked whether there is room for them.
const MOST_TAKEN: usize = 64 << 10;

/// Begins the requests in what was read. `false`: the connection is to end.
async fn begin_all(
    shard: &Rc<Shard>,
    client: &Rc<Client>,
    input: &mut BytesMut,
    mut times: Times,
) -> bool {
    loop {
        let mut requests = Requests::new();
        let taken = client
            .output
            .with(|connection| take(connection, input, &mut requests));
        if !begin(shard, client, requests, &mut times).await {
            return false;
        }
        times.now = None;
        match taken {
            Ok(true) => shard.env.maybe_yield().await,
            Ok(false) => return true,
            Err(error) => {
                refuse(shard, client, &error);
                if error.fatal {
                    return false;
                }
            }
        }
    }
}

/// Takes requests off what was read. Says whether there may be more.
fn take(
    connection: &mut ServerConnection,
    input: &mut BytesMut,
    requests: &mut Requests,
) -> Result<bool, ProtocolError> {
    let mut bytes = 0;
    while requests.len() < TOGETHER && bytes < MOST_TAKEN {
        let Some(envelope) = connection.receive(input)? else {
            return Ok(false);
        };
        bytes += envelope.body.len();
        let opcode = envelope.header.opcode;
        requests.push(envelope);
        // Of what follows others than these may change how it is to be read.
        if opcode != Opcode::Execute {
            break;
        }
    }
    Ok(true)
}

/// Begins requests once there is room for them, and ends those that can be answered at once. `false`: the connection
/// is to end.
async fn begin(
    shard: &Rc<Shard>,
    client: &Rc<Client>,
    mut requests: Requests,
    times: &mut Times,
) -> bool {
    // Where one could not be answered at once, the next ones probably can not: they are not looked up in vain.
    let mut together = TOGETHER;
    let mut at = 0;
    while at < requests.len() {
        let room = || client.window.has_room() && !client.output.is_full();
        if !room() {
            wait(client, || room() || client.is_ending()).await;
            times.now = None;
        }
        if client.is_ending() {
            return false;
        }
        let began = times.now.take().unwrap_or_else(|| shard.env.now());
        if began.saturating_duration_since(times.arrived) > LONGEST_WAIT {
            let reason = "Query timed out before it could start";
            shed(shard, client, &requests[at], reason);
            at += 1;
            continue;
        }
        let next = &mut requests[at..];
        let most = next.len().min(together);
        match execute::answer_at_once(shard, client, &next[..most], began) {
            Some(AtOnce::Done(count, now)) => {
                together = (2 * count).min(TOGETHER);
                at += count;
                times.now = Some(now);
                continue;
            }
            Some(AtOnce::Elsewhere(owner, count, kind)) => {
                let asked = (kind, &next[..count]);
                if let Some(asked) = Elsewhere::begin(shard, client, asked, began) {
                    begin_task(shard, asked.answer(owner)).await;
                    at += count;
                    continue;
                }
            }
            Some(AtOnce::Spread(owners)) => {
                elsewhere::bring_together(next, &owners, shard.index());
                times.now = Some(began);
                continue;
            }
            None => {}
        }
        together = 1;
        let first = &requests[at];
        at += 1;
        let Some(memory) = memory_for(shard, client, first).await else {
            let reason = "Request breached limit on bytes in flight. Server is currently in an overloaded state and \
                          cannot accept more requests.";
            shed(shard, client, first, reason);
            continue;
        };
        if client.is_ending() {
            return false;
        }
        let under_way = UnderWay::begin(shard, client, (began, memory));
        begin_task(shard, answer(under_way, first.clone())).await;
    }
    true
}

/// Does what can be done at once of a request, and has a task do the rest.
async fn begin_task(shard: &Shard, request: impl Future<Output = ()> + 'static) {
    let mut request = Box::pin(request);
    let ready = poll_fn(|context| Poll::Ready(request.as_mut().poll(context).is_ready())).await;
    if !ready {
        shard.env.spawn(TaskGroup::Foreground, request).detach();
    }
}

/// Waits for the memory that a request takes. `None`: there is none, and the client wants to be told.
async fn memory_for(shard: &Shard, client: &Client, request: &Envelope) -> Option<Permit> {
    let needed = memory_of(request, shard.most_memory_of_request);
    match shard.request_memory.try_acquire(needed) {
        Some(memory) => Some(memory),
        None if client.throws_on_overload() => None,
        None => Some(shard.request_memory.acquire(needed).await),
    }
}

/// A request under way: counted until it is dropped.
struct UnderWay {
    shard: Rc<Shard>,
    client: Rc<Client>,
    began: Instant,
    _memory: Permit,
}

impl UnderWay {
    fn begin(
        shard: &Rc<Shard>,
        client: &Rc<Client>,
        (began, memory): (Instant, Permit),
    ) -> UnderWay {
        shard.metrics.in_flight.add(1);
        client.window.begin();
        client.requests.set(client.requests.get() + 1);
        UnderWay {
            shard: shard.clone(),
            client: client.clone(),
            began,
            _memory: memory,
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.shard.metrics.in_flight.sub(1);
        self.client.window.end();
        self.client.progress.notify_all();
    }
}

/// Answers a request.
async fn answer(under_way: UnderWay, envelope: Envelope) {
    let UnderWay { shard, client, .. } = &under_way;
    let header = envelope.header;
    let mut kind = RequestKind::Other;
    let mut reply = Reply {
        out: shard.response_buffers.take(),
        warnings: Vec::new(),
    };
    let asked_for = header.flags.contains(Flags::TRACING);
    let trace = match is_traceable(header.opcode) {
        true => Trace::begin_if(shard, asked_for),
        false => None,
    };
    let traced = trace.as_ref();
    let result = respond(shard, client, &envelope, traced, &mut kind, &mut reply).await;
    let Reply { mut out, warnings } = reply;
    client.window.answered(out.len());
    client.output.with(|connection| match result {
        Ok(()) => connection.send(&mut out),
        Err(error) => {
            let reply = error.into_reply();
            count_error(shard, &reply);
            let extras = ResponseExtras {
                tracing_id: trace.as_ref().and_then(|trace| trace.told_id()),
                warnings: &warnings,
                ..ResponseExtras::default()
            };
            let response = connection.respond(&header);
            response.with_extras(extras).error(&reply);
        }
    });
    if let Some(trace) = trace {
        trace.save(client);
    }
    shard.response_buffers.give_back(out);
    let latency = shard.env.now().saturating_duration_since(under_way.began);
    shard.metrics.latency(kind).record(latency);
}

/// Is a request of this kind traced if the client asks for it, or chance wants it?
fn is_traceable(opcode: Opcode) -> bool {
    use Opcode::{Batch, Execute, Prepare, Query};
    matches!(opcode, Query | Execute | Prepare | Batch)
}

/// What a client is sent.
struct Reply {
    /// The response, unless it is an error.
    out: Vec<u8>,
    /// What it is warned of, also with an error.
    warnings: Vec<String>,
}

/// Writes the response to `reply`, or to the connection itself where the response changes it.
async fn respond(
    shard: &Rc<Shard>,
    client: &Client,
    envelope: &Envelope,
    trace: Traced<'_>,
    kind: &mut RequestKind,
    reply: &mut Reply,
) -> Result<(), RequestError> {
    let header = &envelope.header;
    let request = Request::decode(envelope)?;
    let version = header.version;
    let mut call = Call {
        shard,
        client,
        version,
        stream: header.stream,
        trace,
        kind,
        warnings: &mut reply.warnings,
        out: &mut reply.out,
    };
    // Borrowed, or the state of each request has room for it twice.
    match &request {
        Request::Startup(startup) => {
            client
                .output
                .with(|connection| connection.start_up(header, startup, None))?;
            let options = startup.options.iter();
            *client.options.borrow_mut() = options
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            Ok(())
        }
        Request::Options => {
            let options = supported(shard);
            ResponseWriter::new(&mut reply.out, version, header.stream).supported(&options);
            Ok(())
        }
        Request::Register(kinds) => {
            client.register(kinds);
            ResponseWriter::new(&mut reply.out, version, header.stream).ready();
            Ok(())
        }
        Request::Query(query) => call.query(query).await,
        Request::Prepare(prepare) => execute::prepare(&mut call, prepare).await,
        Request::Execute(execute) => call.execute(execute).await,
        Request::Batch(batch) => Box::pin(call.batch(batch)).await,
        Request::AuthResponse(_) => Err(RequestError::Decode(wire::DecodeError::new(format!(
            "Unexpected message {}: nobody has to authenticate",
            Opcode::AuthResponse.name()
        )))),
    }
}

fn supported(shard: &Shard) -> Vec<(&'static str, Vec<String>)> {
    let config = &shard.state.config;
    let info = wire::ShardInfo {
        shard: shard.index(),
        shards: shard.env.shards(),
        ignored_bits: shard.sharder.ignored_bits(),
        shard_aware_port: config.shard_aware_port,
    };
    wire::supported_options(crate::system::CQL_VERSION, Some(info))
}

/// Reads what the client still sends, so that closing does not make the last answer vanish.
async fn read_and_forget(stream: &TcpStream, limit: usize) {
    let mut total = 0;
    let mut buffer = Vec::with_capacity(*READ_BUFFER.end());
    while total < limit {
        let (result, back) = stream.read(buffer).await;
        buffer = back;
        buffer.clear();
        match result {
            Ok(0) | Err(_) => return,
            Ok(count) => total += count,
        }
    }
}
