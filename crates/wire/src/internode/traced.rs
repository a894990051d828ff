//! A request that is part of a traced one.
//!
//! ```text
//! traced = session 16 bytes, verb u8, body
//! ```
//!
//! The answer is that of the verb. Cassandra has the session among the parameters of any message (`ParamType.TRACE_SESSION`).

use bytes::{Buf, Bytes};
use uuid::Uuid;

use super::Verb;

/// The body of a [`Verb::Traced`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// The session of the trace.
    pub session: Uuid,
    /// What is asked.
    pub verb: Verb,
    /// The body of that.
    pub body: Bytes,
}

/// It is the body of no traced request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a traced request without a session or a verb that is known")]
pub struct NotTraced;

impl TracedRequest {
    /// As a body.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(17 + self.body.len());
        bytes.extend_from_slice(self.session.as_bytes());
        bytes.push(self.verb as u8);
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Reads a body.
    ///
    /// # Errors
    /// It is too short, or its verb is not known, or is that of a traced request again.
    pub fn decode(mut body: Bytes) -> Result<TracedRequest, NotTraced> {
        let session = body.try_get_u128().map_err(|_| NotTraced)?;
        let verb = body.try_get_u8().map_err(|_| NotTraced)?;
        let verb = Verb::from_byte(verb).filter(|verb| *verb != Verb::Traced);
        Ok(TracedRequest {
            session: Uuid::from_u128(session),
            verb: verb.ok_or(NotTraced)?,
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_written() {
        let asked = TracedRequest {
            session: Uuid::from_u128(7),
            verb: Verb::Read,
            body: Bytes::from_static(b"which"),
        };
        let body = Bytes::from(asked.encode());
        assert_eq!(TracedRequest::decode(body.clone()), Ok(asked));
        for length in 0..17 {
            assert_eq!(TracedRequest::decode(body.slice(..length)), Err(NotTraced));
        }
        for verb in [0, 1, 200, Verb::Traced as u8] {
            let mut body = body.to_vec();
            body[16] = verb;
            assert_eq!(TracedRequest::decode(Bytes::from(body)), Err(NotTraced));
        }
    }
}
