//! A connection between two nodes after their first words, without its socket.

use bytes::{BufMut, Bytes, BytesMut};

use super::message::{HEAD, Message, MessageHead, MessageTooLong};
use crate::notation::DecodeError;
use crate::segment::{SegmentFormat, encode_envelopes};

/// The longest body of a message, in bytes: more than the largest mutation and the largest page.
pub const MAX_BODY: usize = 64 << 20;

/// What came is not the protocol, or was damaged on its way: the connection ends, as nobody knows
/// where the next message begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A segment is damaged.
    #[error("damaged on its way: {0}")]
    Damaged(#[from] DecodeError),
    /// A message that is longer than any may be.
    #[error(transparent)]
    TooLong(#[from] MessageTooLong),
    /// A segment that should end with a message ends within one.
    #[error("a segment ends within a message")]
    Cut,
}

/// Both directions of a connection.
#[derive(Debug)]
pub struct Link {
    format: SegmentFormat,
    /// Messages of the segment that is being taken apart.
    contained: Bytes,
    /// The beginning of a message that is spread over segments.
    spread: BytesMut,
    /// Messages that wait to be sent.
    outgoing: Vec<u8>,
}

impl Link {
    /// A connection whose first words have been said.
    pub fn new(compressed: bool) -> Link {
        Link {
            format: match compressed {
                true => SegmentFormat::Lz4,
                false => SegmentFormat::Plain,
            },
            contained: Bytes::new(),
            spread: BytesMut::new(),
            outgoing: Vec::new(),
        }
    }

    /// Adds a message to what is sent next; `body` appends what follows its head.
    ///
    /// # Errors
    /// The body is longer than [`MAX_BODY`]; nothing is sent.
    pub fn send(
        &mut self,
        head: &MessageHead,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), MessageTooLong> {
        head.encode(&mut self.outgoing, body)
    }

    /// Bytes that wait for [`Link::take_output`].
    pub fn pending(&self) -> usize {
        self.outgoing.len()
    }

    /// Appends all that waits to be sent to `into`, in the form it is sent in.
    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        encode_envelopes(self.format, &self.outgoing, message_length, into);
        self.outgoing.clear();
    }

    /// Takes the next message off `input`; `None` if it is not all there: read more, append, ask again.
    ///
    /// # Errors
    /// The connection is to be closed.
    pub fn receive(&mut self, input: &mut BytesMut) -> Result<Option<Message>, LinkError> {
        loop {
            if !self.contained.is_empty() {
                return match split_message(&mut self.contained)? {
                    Some(message) => Ok(Some(message)),
                    None => Err(LinkError::Cut),
                };
            }
            let Some(segment) = self.format.take(input)? else {
                return Ok(None);
            };
            if segment.self_contained {
                if !self.spread.is_empty() {
                    return Err(LinkError::Cut);
                }
                self.contained = segment.payload.freeze();
                continue;
            }
            self.spread.put_slice(&segment.payload);
            // Checks the length before more of it is taken into memory.
            match body_length(&self.spread)? {
                Some(length) if self.spread.len() == HEAD + length => {
                    self.contained = std::mem::take(&mut self.spread).freeze();
                }
                Some(length) if self.spread.len() > HEAD + length => return Err(LinkError::Cut),
                Some(_) | None => {}
            }
        }
    }
}

/// The length of the body of the message at the front; `None` if not even its head is there.
fn body_length(bytes: &[u8]) -> Result<Option<usize>, LinkError> {
    let Some(head) = bytes.first_chunk::<HEAD>() else {
        return Ok(None);
    };
    match MessageHead::decode(head).1 {
        length if length > MAX_BODY => Err(MessageTooLong(length).into()),
        length => Ok(Some(length)),
    }
}

/// The length of the message at the front, as it was written here.
fn message_length(bytes: &[u8]) -> Option<usize> {
    let length = HEAD + body_length(bytes).ok()??;
    (length <= bytes.len()).then_some(length)
}

/// Takes a message off the front.
fn split_message(bytes: &mut Bytes) -> Result<Option<Message>, LinkError> {
    let Some(head) = bytes.first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let head = MessageHead::decode(head).0;
    let Some(length) = body_length(bytes)?.filter(|length| HEAD + length <= bytes.len()) else {
        return Ok(None);
    };
    let body = bytes.slice(HEAD..HEAD + length);
    *bytes = bytes.slice(HEAD + length..);
    Ok(Some(Message { head, body }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internode::{MessageKind, Verb};
    use proptest::prelude::*;
    use std::time::Duration;

    fn any_message() -> impl Strategy<Value = Message> {
        let kind = prop_oneof![
            Just(MessageKind::Reply),
            Just(MessageKind::Failure),
            Just(MessageKind::Unknown(200)),
            Just(MessageKind::Request(Verb::Ping)),
            Just(MessageKind::Request(Verb::Mutation)),
        ];
        let left = prop::option::of((1..u64::from(u32::MAX)).prop_map(Duration::from_millis));
        // Bodies around the length of a segment, too.
        let length = prop_oneof![0usize..200, 131_000usize..132_000, Just(400_000)];
        let head = (kind, any::<u64>(), left, any::<u64>());
        (head, length, any::<u8>()).prop_map(|((kind, number, time_left, epoch), length, fill)| {
            let body = (0..length).map(|at| fill.wrapping_add(at as u8));
            Message {
                head: MessageHead {
                    kind,
                    number,
                    time_left,
                    epoch,
                },
                body: body.collect(),
            }
        })
    }

    fn sent(compressed: bool, messages: &[Message]) -> Vec<u8> {
        let mut link = Link::new(compressed);
        let mut bytes = Vec::new();
        for message in messages {
            let body = |body: &mut Vec<u8>| body.extend_from_slice(&message.body);
            link.send(&message.head, body).expect("it is short");
        }
        link.take_output(&mut bytes);
        assert_eq!(link.pending(), 0);
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn messages_arrive_as_they_were_sent_in_any_pieces(
            compressed in any::<bool>(),
            messages in prop::collection::vec(any_message(), 0..6),
            piece in 1usize..200_000,
        ) {
            let mut link = Link::new(compressed);
            let mut input = BytesMut::new();
            let mut received = Vec::new();
            for piece in sent(compressed, &messages).chunks(piece) {
                input.extend_from_slice(piece);
                while let Some(message) = link.receive(&mut input).expect("it is the protocol") {
                    received.push(message);
                }
            }
            prop_assert_eq!(received, messages);
            prop_assert!(input.is_empty());
        }

        #[test]
        fn a_changed_bit_gives_no_other_message(
            compressed in any::<bool>(),
            messages in prop::collection::vec(any_message(), 1..4),
            bit in any::<prop::sample::Index>(),
        ) {
            let mut bytes = sent(compressed, &messages);
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut link = Link::new(compressed);
            let mut input = BytesMut::from(&bytes[..]);
            let mut received = Vec::new();
            while let Ok(Some(message)) = link.receive(&mut input) {
                received.push(message);
            }
            prop_assert!(received.len() < messages.len());
            prop_assert_eq!(&messages[..received.len()], &received[..]);
        }
    }

    #[test]
    fn a_body_that_is_too_long_is_not_sent() {
        let head = MessageHead {
            kind: MessageKind::Reply,
            number: 1,
            time_left: None,
            epoch: 0,
        };
        let mut link = Link::new(false);
        let sent = link.send(&head, |body| body.resize(body.len() + MAX_BODY + 1, 0));
        assert_eq!(sent, Err(MessageTooLong(MAX_BODY + 1)));
        assert_eq!(link.pending(), 0);
    }

    #[test]
    fn a_message_without_end_is_refused_at_its_first_segment() {
        let head = MessageHead {
            kind: MessageKind::Reply,
            number: 1,
            time_left: None,
            epoch: 0,
        };
        let mut message = Vec::new();
        head.encode(&mut message, |_| ()).expect("it is short");
        message[..4].copy_from_slice(&(MAX_BODY as u32 + 1).to_be_bytes());
        for self_contained in [false, true] {
            let mut bytes = Vec::new();
            SegmentFormat::Plain.encode(&message, self_contained, &mut bytes);
            let received = Link::new(false).receive(&mut BytesMut::from(&bytes[..]));
            assert_eq!(received, Err(MessageTooLong(MAX_BODY + 1).into()));
        }
    }
}
