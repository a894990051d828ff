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
