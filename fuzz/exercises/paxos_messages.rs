//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.

use bytes::Bytes;
use cluster::paxos::{Answer, Request};
use model::record::{Input, RecordError};

/// Reads the input as a request or, if its first byte is odd, as an answer. What is read is written
/// and read again, and stays as it is.
pub(super) fn run(data: &[u8]) {
    let [choice, data @ ..] = data else {
        return;
    };
    let bytes = Bytes::copy_from_slice(data);
    if choice & 1 == 0 {
        let mut input = Input::new(bytes);
        if let Ok(request) = Request::decode(&mut input) {
            let mut again = Vec::new();
            request.encode(&mut again);
            let mut again = Input::new(again.into());
            assert_eq!(Request::decode(&mut again), Ok(request));
            assert!(again.is_empty());
        }
        return;
    }
    let decode = |bytes: Bytes| Answer::decode(bytes, Ok::<Bytes, RecordError>);
    if let Ok(answer) = decode(bytes) {
        let mut again = Vec::new();
        answer.encode(&mut again, |out, read| out.extend_from_slice(read));
        assert_eq!(decode(again.into()), Ok(answer));
    }
}
