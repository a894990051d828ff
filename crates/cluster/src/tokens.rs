//! Tokens for a new node.

use std::collections::BTreeSet;

use model::Token;

/// `count` tokens for a new node, taken from `random`: none of them twice, none that `taken`
/// has (`BootStrapper.getRandomTokens`).
pub fn random_tokens(
    count: usize,
    taken: &BTreeSet<Token>,
    mut random: impl FnMut() -> u64,
) -> BTreeSet<Token> {
    let mut tokens = BTreeSet::new();
    while tokens.len() < count {
        let token = Token(random() as i64);
        // The lowest token stands for the open end of the ring.
        if token != Token::MIN && !taken.contains(&token) {
            tokens.insert(token);
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_new_and_differ() {
        // A source that repeats itself, gives a taken one, and the reserved one.
        let mut source = [5, 5, 1 << 63, 6, 7, 7, 8].into_iter();
        let taken = BTreeSet::from([Token(6)]);
        let tokens = random_tokens(3, &taken, || source.next().unwrap());
        assert_eq!(tokens, BTreeSet::from([Token(5), Token(7), Token(8)]));
    }
}
