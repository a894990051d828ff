//! Sets of tokens as lists of numbers.

use std::collections::BTreeSet;

use model::Token;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(
    tokens: &BTreeSet<Token>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(tokens.iter().map(|token| token.0))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeSet<Token>, D::Error> {
    let numbers = Vec::<i64>::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(Token).collect())
}

/// A token as a number.
pub(super) mod one {
    use super::{Deserialize, Deserializer, Serializer, Token};

    pub(in crate::topology) fn serialize<S: Serializer>(
        token: &Token,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(token.0)
    }

    pub(in crate::topology) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Token, D::Error> {
        i64::deserialize(deserializer).map(Token)
    }
}
