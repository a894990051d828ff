//! What was answered once, by question.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::frame::{ERROR, EXECUTE, Frame, RESULT, SUPPORTED};

/// Bytes of questions and answers that are kept; what comes beyond is asked each time.
const ROOM: usize = 64 << 20;
/// What the options of Scylla's extensions begin with, and what is put in their place: this server has
/// no shards that a client could choose from, and its connections are dealt out evenly.
const EXTENSIONS: (&[u8], &[u8]) = (b"SCYLLA_", b"NO_____");

/// The answers of one shard.
#[derive(Debug)]
pub(crate) struct Answers {
    /// The other server's address and this one's: clients go where they are told that a node is.
    addresses: [Vec<u8>; 2],
    /// Of EXECUTE, by the statement's id: the values make no difference.
    executions: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Of all others, by all that was asked.
    others: BTreeMap<Box<[u8]>, Box<[u8]>>,
    bytes: usize,
}

impl Answers {
    /// None yet; those of the server at `upstream`, to be given at `here`.
    pub(crate) fn new(upstream: IpAddr, here: IpAddr) -> Answers {
        Answers {
            addresses: [value(upstream), value(here)],
            executions: BTreeMap::new(),
            others: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Appends the answer, if it is known.
    pub(crate) fn give(&self, question: Frame<'_>, output: &mut Vec<u8>) -> bool {
        if question.has_flags() {
            return false;
        }
        let answer = match statement(question) {
            Some(id) => self.executions.get(id),
            None => self.others.get(question.question()),
        };
        let Some(answer) = answer else {
            return false;
        };
        let at = output.len();
        output.extend_from_slice(answer);
        output[at + 2..at + 4].copy_from_slice(&question.stream());
        true
    }

    /// Keeps what another server answered, unless it is an error or there is no more room; how it is to be
    /// given to the client.
    pub(crate) fn learn(&mut self, question: Frame<'_>, answer: Frame<'_>) -> Vec<u8> {
        let mut answer_bytes = answer.bytes().to_vec();
        let [upstream, here] = &self.addresses;
        match answer.opcode() {
            SUPPORTED => replace(&mut answer_bytes, EXTENSIONS.0, EXTENSIONS.1),
            RESULT if upstream.len() == here.len() => {
                replace(&mut answer_bytes, upstream, here);
            }
            _ => {}
        }
        let key = statement(question).unwrap_or(question.question());
        let bytes = key.len() + answer_bytes.len();
        let is_kept =
            answer.opcode() != ERROR && !question.has_flags() && self.bytes + bytes <= ROOM;
        if is_kept {
            let answers = match statement(question) {
                Some(_) => &mut self.executions,
                None => &mut self.others,
            };
            let known = answers.insert(key.into(), answer_bytes.clone().into());
            assert!(known.is_none(), "nobody asks for what is known");
            self.bytes += bytes;
        }
        answer_bytes
    }
}

/// The id of the statement that is executed.
fn statement(question: Frame<'_>) -> Option<&[u8]> {
    let (length, rest) = question.body().split_first_chunk::<2>()?;
    let id = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
    (question.opcode() == EXECUTE).then_some(id)
}

/// An address as a value of a row: its length and its bytes.
fn value(address: IpAddr) -> Vec<u8> {
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    [&(bytes.len() as u32).to_be_bytes(), &*bytes].concat()
}

/// Puts one text in the place of another one of the same length, wherever it is.
fn replace(answer: &mut [u8], text: &[u8], instead: &[u8]) {
    assert_eq!(text.len(), instead.len(), "an answer keeps its length");
    for at in 0..answer.len().saturating_sub(text.len() - 1) {
        if answer[at..].starts_with(text) {
            answer[at..at + instead.len()].copy_from_slice(instead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: u8 = 0x07;

    fn frame(stream: u8, opcode: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![4, 0, 0, stream, opcode, 0, 0, 0, body.len() as u8];
        bytes.extend_from_slice(body);
        bytes
    }

    fn answers() -> Answers {
        Answers::new(IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 9]))
    }

    fn parsed(bytes: &[u8]) -> Frame<'_> {
        Frame::first(bytes).expect("valid").expect("whole")
    }

    #[test]
    fn an_execution_is_answered_by_its_statement_with_the_stream_of_the_question() {
        let mut answers = answers();
        let mut output = Vec::new();
        let asked = frame(1, EXECUTE, &[0, 2, 9, 9, 100]);
        assert!(!answers.give(parsed(&asked), &mut output));
        let answered = frame(1, RESULT, &[5, 5]);
        assert_eq!(answers.learn(parsed(&asked), parsed(&answered)), answered);
        let others = frame(7, EXECUTE, &[0, 2, 9, 9, 200]);
        assert!(answers.give(parsed(&others), &mut output));
        assert_eq!(output, frame(7, RESULT, &[5, 5]));
        let unknown = frame(7, EXECUTE, &[0, 2, 9, 8, 200]);
        assert!(!answers.give(parsed(&unknown), &mut output));
    }

    #[test]
    fn other_questions_are_answered_by_all_that_they_say() {
        let mut answers = answers();
        let mut output = Vec::new();
        let asked = frame(1, QUERY, b"SELECT a");
        answers.learn(parsed(&asked), parsed(&frame(1, RESULT, b"a")));
        assert!(answers.give(parsed(&frame(2, QUERY, b"SELECT a")), &mut output));
        assert_eq!(output, frame(2, RESULT, b"a"));
        assert!(!answers.give(parsed(&frame(2, QUERY, b"SELECT b")), &mut output));
    }

    #[test]
    fn errors_and_frames_with_flags_are_not_kept() {
        let mut answers = answers();
        let asked = frame(1, QUERY, b"SELECT a");
        answers.learn(parsed(&asked), parsed(&frame(1, ERROR, b"no")));
        let mut traced = asked.clone();
        traced[1] = 2;
        answers.learn(parsed(&traced), parsed(&frame(1, RESULT, b"a")));
        for question in [&asked, &traced] {
            assert!(!answers.give(parsed(question), &mut Vec::new()));
        }
    }

    #[test]
    fn clients_stay_here() {
        let rows = [&[0, 0, 0, 4, 127, 0, 0, 1][..], &[0, 0, 0, 4, 127, 0, 0, 2]].concat();
        let query = frame(1, QUERY, b"SELECT rpc_address FROM system.local");
        let told = answers().learn(parsed(&query), parsed(&frame(1, RESULT, &rows)));
        let here = [&[0, 0, 0, 4, 127, 0, 0, 9][..], &[0, 0, 0, 4, 127, 0, 0, 2]].concat();
        assert_eq!(told, frame(1, RESULT, &here));
    }

    #[test]
    fn nobody_is_told_of_shards() {
        let mut answers = answers();
        let supported = frame(1, SUPPORTED, b"..SCYLLA_SHARD..SCYLLA_NR_SHARDS");
        let told = answers.learn(parsed(&frame(1, 5, b"")), parsed(&supported));
        assert_eq!(told.len(), supported.len());
        assert!(!told.windows(6).any(|part| part == b"SCYLLA"));
    }
}
