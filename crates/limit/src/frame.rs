//! Frames of the native protocol, versions 3 and 4 (`native_protocol_v4.spec`, section 2).

/// Bytes before the body: version, flags, stream (2), opcode, length (4).
const HEADER: usize = 9;
/// The longest body there may be (section 2.5).
const LONGEST_BODY: usize = 256 << 20;

/// The opcodes that are treated differently.
pub(crate) const ERROR: u8 = 0x00;
pub(crate) const STARTUP: u8 = 0x01;
pub(crate) const SUPPORTED: u8 = 0x06;
pub(crate) const RESULT: u8 = 0x08;
pub(crate) const EXECUTE: u8 = 0x0A;

/// Why bytes are no frame that is served here.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    /// A version with another layout.
    #[error("protocol version {0}: only 3 and 4 are served, have the client ask for 4")]
    Version(u8),
    /// Longer than the protocol allows.
    #[error("a frame of {0} bytes, more than the protocol allows")]
    TooLong(usize),
}

/// A whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame that the bytes begin with; `None` if there is not all of it.
    pub(crate) fn first(bytes: &'a [u8]) -> Result<Option<Frame<'a>>, FrameError> {
        let Some(version) = bytes.first().map(|byte| byte & 0x7F) else {
            return Ok(None);
        };
        if !(3..=4).contains(&version) {
            return Err(FrameError::Version(version));
        }
        let Some(length) = bytes.get(5..HEADER) else {
            return Ok(None);
        };
        let length = length
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        if length > LONGEST_BODY {
            return Err(FrameError::TooLong(length));
        }
        Ok(bytes.get(..HEADER + length).map(|bytes| Frame { bytes }))
    }

    /// All of it.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// What it is.
    pub(crate) fn opcode(self) -> u8 {
        self.bytes[4]
    }

    /// Compression, tracing, a payload or warnings: something that changes how the body is laid out.
    pub(crate) fn has_flags(self) -> bool {
        self.bytes[1] != 0
    }

    /// The two bytes by which the client finds the answer's request.
    pub(crate) fn stream(self) -> [u8; 2] {
        [self.bytes[2], self.bytes[3]]
    }

    /// What comes after the header.
    pub(crate) fn body(self) -> &'a [u8] {
        &self.bytes[HEADER..]
    }

    /// All but what differs between two requests for the same thing: opcode, length and body.
    pub(crate) fn question(self) -> &'a [u8] {
        &self.bytes[4..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_one_after_the_other() {
        let bytes = [4, 0, 1, 2, EXECUTE, 0, 0, 0, 3, 7, 8, 9, 4, 0];
        let frame = Frame::first(&bytes).expect("valid").expect("whole");
        assert_eq!((frame.opcode(), frame.stream()), (EXECUTE, [1, 2]));
        assert_eq!(frame.body(), [7, 8, 9]);
        assert_eq!(frame.question(), &bytes[4..12]);
        assert_eq!(Frame::first(&bytes[12..]), Ok(None));
        for end in 0..12 {
            assert_eq!(Frame::first(&bytes[..end]), Ok(None), "{end}");
        }
    }

    #[test]
    fn what_has_another_layout_is_refused() {
        assert_eq!(Frame::first(&[5]), Err(FrameError::Version(5)));
        let long = [4, 0, 0, 0, EXECUTE, 0xFF, 0, 0, 0];
        assert_eq!(Frame::first(&long), Err(FrameError::TooLong(0xFF00_0000)));
    }
}
