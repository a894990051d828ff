//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.
//!
//! The first byte says what the rest is taken for. Checksums that guard it are made to fit where the
//! byte says so, or no input would ever get past them.

use bytes::Bytes;
use node::raft::Call;
use node::raft::encoding::{decode_entry, decode_vote, encode_entry, encode_vote};
use node::raft::records::{self, MAX_BODY, Record};
use node::raft::snapshot;

/// The magic and the checksum of a snapshot.
const SNAPSHOT_MAGIC: &[u8; 8] = b"HelenuS1";

/// Gives the input to a journal, an entry, a vote, a snapshot or what members ask each other.
pub(super) fn run(data: &[u8]) {
    let [choice, data @ ..] = data else {
        return;
    };
    match choice % 7 {
        0 => journal(data),
        1 => journal_with_tail(data),
        2 => entry(data),
        3 => vote(data),
        4 => snapshot(data),
        5 => call(data),
        _ => {
            let crc = crc32fast::hash(data).to_le_bytes();
            snapshot(&[SNAPSHOT_MAGIC, &crc[..], data].concat());
        }
    }
}

fn journal(data: &[u8]) {
    let Ok(records) = records::parse(&Bytes::copy_from_slice(data)) else {
        return;
    };
    assert!(records.iter().all(|record| record.body.len() <= MAX_BODY));
    let again = records::parse(&Bytes::from(records::file(&records)));
    assert_eq!(again, Ok(records));
}

/// The input is a record, and stands behind it once more.
fn journal_with_tail(data: &[u8]) {
    let record = Record {
        kind: data.len() as u8,
        body: Bytes::copy_from_slice(data),
    };
    let mut file = records::file(std::slice::from_ref(&record));
    file.extend_from_slice(data);
    if let Ok(records) = records::parse(&Bytes::from(file)) {
        assert_eq!(records.first(), Some(&record));
    }
}

fn entry(data: &[u8]) {
    if let Ok(entry) = decode_entry(data) {
        let again = decode_entry(&encode_entry(&entry)).expect("it was written here");
        assert_eq!(again, entry);
    }
}

fn call(data: &[u8]) {
    if let Ok(call) = Call::decode(data) {
        let again = Call::decode(&call.encode()).expect("it was written here");
        assert_eq!(again.encode(), call.encode());
    }
}

fn vote(data: &[u8]) {
    if let Ok(vote) = decode_vote(data) {
        assert_eq!(encode_vote(&vote), data);
    }
}

fn snapshot(data: &[u8]) {
    if let Ok(read) = snapshot::decode(data) {
        let again = snapshot::decode(&snapshot::encode(&read)).expect("it was written here");
        assert_eq!((again.meta, again.snapshot), (read.meta, read.snapshot));
    }
}
