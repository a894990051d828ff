//! Why a value is not one of its type.

/// A value, or the text of one, that its type does not take. The message is near the one of
/// Cassandra's `MarshalException`, as drivers and users know it; who reports it names the column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ValueError {
    message: String,
}

impl ValueError {
    /// With this message.
    pub fn new(message: impl Into<String>) -> ValueError {
        ValueError {
            message: message.into(),
        }
    }
}

/// Refuses with a formatted message.
macro_rules! refuse {
    ($($arg:tt)*) => { Err($crate::ValueError::new(format!($($arg)*))) };
}
pub(crate) use refuse;

/// Lower-case hexadecimal digits of `bytes`, without a prefix.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The bytes of an even number of hexadecimal digits.
pub(crate) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|d| d as u8);
    digits
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}
