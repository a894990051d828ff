//! How much memory a request under way takes. No I/O.

use wire::Envelope;

/// Bytes that any takes beside its own: the task, and what waits for answers.
const EACH: usize = 1 << 10;
/// Bytes that are made of a character of a statement's text.
const BYTES_A_CHARACTER: usize = 64;

/// How many bytes a request takes: what any does, its own, and what is made of the text of statements,
/// which is more than 100 times as much where it is all short values and less where it has long ones. One that
/// would take more than `most` counts as that, or it would have to wait until it is alone.
pub(crate) fn memory_of(envelope: &Envelope, most: usize) -> usize {
    let (body, text) = (envelope.body.len(), wire::text_length(envelope));
    // Longer ones have long values: statements are no more than so many tokens.
    let text = text.min(cql::MAX_TOKENS * 2);
    let needed = EACH + body + text * BYTES_A_CHARACTER;
    needed.min(most).max(body)
}

#[cfg(test)]
mod tests {
    use wire::{Flags, Header, Opcode, Version};

    use super::*;

    #[test]
    fn text_takes_more_memory_than_values() {
        let request = |opcode, text: usize, values: usize| {
            let mut body = (text as u32).to_be_bytes().to_vec();
            body.resize(4 + text + values, b'1');
            Envelope {
                header: Header {
                    version: Version::V4,
                    flags: Flags::default(),
                    stream: 1,
                    opcode,
                },
                body: body.into(),
            }
        };
        let most = 16 << 20;
        let needed = |envelope| memory_of(&envelope, most);
        let values = EACH + 1104;
        assert_eq!(needed(request(Opcode::Execute, 100, 1000)), values);
        assert_eq!(needed(request(Opcode::Query, 100, 1000)), values + 6400);
        assert_eq!(needed(request(Opcode::Query, 4 << 20, 0)), most);
        assert_eq!(needed(request(Opcode::Prepare, 16 << 20, 0)), most + 4);
    }
}
