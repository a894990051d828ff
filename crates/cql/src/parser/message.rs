//! What is said of a mistake, in the words of Cassandra's `ErrorCollector`.

use crate::CqlError;
use crate::lexer::{Mistake, Token, TokenKind};

use super::Parser;

/// How many tokens before the wrong one are shown, white space counted.
const SHOWN_BEFORE: usize = 10;

impl Parser<'_> {
    /// The token at hand is none of those that may come here.
    pub(super) fn no_alternative(&self) -> CqlError {
        self.mistake(|input| format!("no viable alternative at input '{input}'"))
    }

    /// The token at hand is not the only one that may come here.
    pub(super) fn expecting(&self, what: &str) -> CqlError {
        self.mistake(|input| format!("mismatched input '{input}' expecting {what}"))
    }

    fn mistake(&self, message: impl FnOnce(&str) -> String) -> CqlError {
        let token = self.tokens[self.at];
        match token.kind {
            TokenKind::End => CqlError::Syntax(format!("line 0:-1 {}", message("<EOF>"))),
            TokenKind::Invalid(mistake) => self.no_token(token, mistake),
            _ => {
                let raw = self.token_text(token);
                let input = match token.kind {
                    TokenKind::String | TokenKind::QuotedName => &raw[1..raw.len() - 1],
                    TokenKind::DollarString => &raw[2..raw.len() - 2],
                    _ => raw,
                };
                let (line, column) = self.position(token.start as usize);
                let snippet = self.snippet();
                CqlError::Syntax(format!(
                    "line {line}:{column} {} ({snippet})",
                    message(input)
                ))
            }
        }
    }

    fn no_token(&self, token: Token, mistake: Mistake) -> CqlError {
        let at = token.end as usize;
        let (line, column) = self.position(at);
        let character = match self.text[at..].chars().next() {
            Some(character) => character.to_string(),
            None => "<EOF>".to_owned(),
        };
        CqlError::Syntax(match mistake {
            Mistake::Character => {
                format!("line {line}:{column} no viable alternative at character '{character}'")
            }
            Mistake::Expected(expected) => format!(
                "line {line}:{column} mismatched character '{character}' expecting {expected}"
            ),
        })
    }

    /// Line, from 1, and column, from 0, of a place in the text.
    fn position(&self, at: usize) -> (usize, usize) {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = 1 + before.bytes().filter(|b| *b == b'\n').count();
        (line, before[line_start..].chars().count())
    }

    /// The wrong token in brackets, after those before it.
    fn snippet(&self) -> String {
        let token = self.tokens[self.at];
        let mut from = token.start as usize;
        let mut shown = 0;
        for pair in self.tokens[..=self.at].windows(2).rev() {
            if pair[0].end < pair[1].start && shown < SHOWN_BEFORE {
                from = pair[0].end as usize;
                shown += 1;
            }
            if shown == SHOWN_BEFORE {
                break;
            }
            from = pair[0].start as usize;
            shown += 1;
        }
        let end = token.end as usize;
        format!(
            "{}{}[{}]{}",
            if from == 0 { "" } else { "..." },
            &self.text[from..token.start as usize],
            self.token_text(token),
            if end == self.text.len() { "" } else { "..." }
        )
    }
}
