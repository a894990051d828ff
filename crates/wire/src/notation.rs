//! The notations of the protocol (`native_protocol_v5.spec`, section 3): reading them from a body,
//! appending them to one. All numbers are big-endian.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use cluster::Consistency;
use model::Value;
use uuid::Uuid;

use crate::{CustomPayload, Version};

/// Why a body cannot be understood. The text is what the client is told, under the code of a
/// protocol error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(Cow<'static, str>);

impl DecodeError {
    /// An error of this text.
    pub fn new(text: impl Into<Cow<'static, str>>) -> DecodeError {
        DecodeError(text.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Reads notations from the front of a body.
#[derive(Clone, Debug)]
pub struct BodyReader<'a> {
    rest: &'a [u8],
}

impl<'a> BodyReader<'a> {
    /// A reader of this body.
    pub fn new(body: &'a [u8]) -> BodyReader<'a> {
        BodyReader { rest: body }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| {
            DecodeError(Cow::Owned(format!(
                "Not enough bytes to read {what}: {length} needed, {} left",
                self.rest.len()
            )))
        })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let taken = self.take(N, what)?;
        Ok(*taken
            .first_chunk::<N>()
            .expect("take gives the length asked for"))
    }

    /// `[byte]`
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>("a byte")?[0])
    }

    /// `[short]`
    pub fn short(&mut self) -> Result<u16, DecodeError> {
        self.array("a short").map(u16::from_be_bytes)
    }

    /// `[int]`
    pub fn int(&mut self) -> Result<i32, DecodeError> {
        self.array("an int").map(i32::from_be_bytes)
    }

    /// `[long]`
    pub fn long(&mut self) -> Result<i64, DecodeError> {
        self.array("a long").map(i64::from_be_bytes)
    }

    /// `[uuid]`
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        self.array("a uuid").map(Uuid::from_bytes)
    }

    /// `[string]`
    pub fn string(&mut self) -> Result<&'a str, DecodeError> {
        const SHORT: DecodeError = DecodeError(Cow::Borrowed(
            "Not enough bytes to read an UTF8 serialized string preceded by its 2 bytes length",
        ));
        let length = self.short().map_err(|_| SHORT)?;
        let bytes = self.take(usize::from(length), "").map_err(|_| SHORT)?;
        text(bytes)
    }

    /// `[long string]`
    pub fn long_string(&mut self) -> Result<&'a str, DecodeError> {
        const SHORT: DecodeError = DecodeError(Cow::Borrowed(
            "Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length",
        ));
        let length = self.int().map_err(|_| SHORT)?;
        let length = usize::try_from(length).map_err(|_| SHORT)?;
        let bytes = self.take(length, "").map_err(|_| SHORT)?;
        text(bytes)
    }

    /// `[bytes]`: `None` for null.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        match usize::try_from(self.int()?) {
            Ok(length) => self.take(length, "a value").map(Some),
            Err(_) => Ok(None),
        }
    }

    /// `[short bytes]`
    pub fn short_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        const SHORT: DecodeError = DecodeError(Cow::Borrowed(
            "Not enough bytes to read a byte array preceded by its 2 bytes length",
        ));
        let length = self.short().map_err(|_| SHORT)?;
        self.take(usize::from(length), "").map_err(|_| SHORT)
    }

    /// `[value]`; before version 4 every negative length is null (`CBUtil.readBoundValue`).
    pub fn value(&mut self, version: Version) -> Result<Value<'a>, DecodeError> {
        let length = self.int()?;
        match usize::try_from(length) {
            Ok(length) => self.take(length, "a value").map(Value::Bytes),
            Err(_) if length == -1 || version < Version::V4 => Ok(Value::Null),
            Err(_) if length == -2 => Ok(Value::Unset),
            Err(_) => Err(DecodeError(Cow::Owned(format!(
                "Invalid ByteBuf length {length}"
            )))),
        }
    }

    /// `[consistency]`
    pub fn consistency(&mut self) -> Result<Consistency, DecodeError> {
        let code = self.short()?;
        Consistency::from_code(code).ok_or_else(|| {
            DecodeError(Cow::Owned(format!(
                "Unknown code {code} for a consistency level"
            )))
        })
    }

    /// `[string list]`
    pub fn string_list(&mut self) -> Result<Vec<&'a str>, DecodeError> {
        let count = self.short()?;
        (0..count).map(|_| self.string()).collect()
    }

    /// `[string map]`
    pub fn string_map(&mut self) -> Result<Vec<(&'a str, &'a str)>, DecodeError> {
        let count = self.short()?;
        (0..count)
            .map(|_| Ok((self.string()?, self.string()?)))
            .collect()
    }

    /// `[string multimap]`
    pub fn string_multimap(&mut self) -> Result<Vec<(&'a str, Vec<&'a str>)>, DecodeError> {
        let count = self.short()?;
        (0..count)
            .map(|_| Ok((self.string()?, self.string_list()?)))
            .collect()
    }

    /// `[bytes map]`
    pub fn bytes_map(&mut self) -> Result<CustomPayload<'a>, DecodeError> {
        let count = self.short()?;
        (0..count)
            .map(|_| Ok((self.string()?, self.bytes()?)))
            .collect()
    }

    /// `[inetaddr]`
    pub fn inet_address(&mut self) -> Result<IpAddr, DecodeError> {
        match self.byte()? {
            4 => self.array::<4>("an address").map(IpAddr::from),
            16 => self.array::<16>("an address").map(IpAddr::from),
            length => Err(DecodeError(Cow::Owned(format!(
                "Invalid length {length} of an IP address: 4 or 16 expected"
            )))),
        }
    }

    /// `[inet]`
    pub fn inet(&mut self) -> Result<SocketAddr, DecodeError> {
        let address = self.inet_address()?;
        let port = self.int()?;
        let port = u16::try_from(port)
            .map_err(|_| DecodeError(Cow::Owned(format!("Invalid port {port}"))))?;
        Ok(SocketAddr::new(address, port))
    }
}

fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|error| {
        // Cassandra prints all of the bytes: the first few tell as much.
        let shown = &bytes[..bytes.len().min(32)];
        let hex: String = shown.iter().map(|b| format!("{b:02x}")).collect();
        DecodeError(Cow::Owned(format!(
            "Cannot decode string as UTF8: '{hex}'; {error}"
        )))
    })
}

/// Appends notations to a body.
pub trait BodyWriter {
    /// `[byte]`
    fn put_byte(&mut self, value: u8);
    /// `[short]`
    fn put_short(&mut self, value: u16);
    /// `[int]`
    fn put_int(&mut self, value: i32);
    /// `[long]`
    fn put_long(&mut self, value: i64);
    /// `[uuid]`
    fn put_uuid(&mut self, value: Uuid);
    /// `[string]`; what is beyond 65535 bytes is left out.
    fn put_string(&mut self, value: &str);
    /// `[long string]`
    fn put_long_string(&mut self, value: &str);
    /// `[bytes]`
    fn put_bytes(&mut self, value: Option<&[u8]>);
    /// `[short bytes]`; what is beyond 65535 bytes is left out (ids and the like are short).
    fn put_short_bytes(&mut self, value: &[u8]);
    /// `[value]`
    fn put_value(&mut self, value: Value<'_>);
    /// `[consistency]`
    fn put_consistency(&mut self, value: Consistency);
    /// `[string list]`; what is beyond 65535 elements is left out.
    fn put_string_list<S: AsRef<str>>(&mut self, values: &[S]);
    /// `[inetaddr]`
    fn put_inet_address(&mut self, value: IpAddr);
    /// `[inet]`
    fn put_inet(&mut self, value: SocketAddr);
}

impl BodyWriter for Vec<u8> {
    #[inline]
    fn put_byte(&mut self, value: u8) {
        self.push(value);
    }

    #[inline]
    fn put_short(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    #[inline]
    fn put_int(&mut self, value: i32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    #[inline]
    fn put_long(&mut self, value: i64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_uuid(&mut self, value: Uuid) {
        self.extend_from_slice(value.as_bytes());
    }

    fn put_string(&mut self, value: &str) {
        let end = value.floor_char_boundary(usize::from(u16::MAX));
        self.put_short_bytes(&value.as_bytes()[..end]);
    }

    fn put_long_string(&mut self, value: &str) {
        self.put_bytes(Some(value.as_bytes()));
    }

    #[inline]
    fn put_bytes(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => {
                self.put_int(length_of(bytes));
                self.extend_from_slice(bytes);
            }
            None => self.put_int(-1),
        }
    }

    fn put_short_bytes(&mut self, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.put_short(value.len() as u16);
        self.extend_from_slice(value);
    }

    fn put_value(&mut self, value: Value<'_>) {
        match value {
            Value::Null => self.put_int(-1),
            Value::Unset => self.put_int(-2),
            Value::Bytes(bytes) => self.put_bytes(Some(bytes)),
        }
    }

    fn put_consistency(&mut self, value: Consistency) {
        self.put_short(value.code());
    }

    fn put_string_list<S: AsRef<str>>(&mut self, values: &[S]) {
        let values = &values[..values.len().min(usize::from(u16::MAX))];
        self.put_short(values.len() as u16);
        for value in values {
            self.put_string(value.as_ref());
        }
    }

    fn put_inet_address(&mut self, value: IpAddr) {
        match value {
            IpAddr::V4(address) => {
                self.push(4);
                self.extend_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                self.push(16);
                self.extend_from_slice(&address.octets());
            }
        }
    }

    fn put_inet(&mut self, value: SocketAddr) {
        self.put_inet_address(value.ip());
        self.put_int(i32::from(value.port()));
    }
}

fn length_of(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).expect("a value has at most 2 GiB: larger ones were refused before")
}
