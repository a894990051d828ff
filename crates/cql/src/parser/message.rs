//! What is said of a mistake, in the words of Cassandra's `ErrorCollector`.
//!
//! It shows the tokens around the one where its parser stands, which is not always the one that it
//! complains of: where the grammar has several rules for what begins with a name, ANTLR looks at the
//! token behind it before it takes the name, and complains from there. And it shows two tokens more,
//! white space counted, but only those that it has looked at so far. What it would have looked at
//! is told by [`Parser::predict`] where the grammar needs it.

use crate::CqlError;
use crate::lexer::{Keyword, Mistake, Symbol, Token, TokenKind};

use super::Parser;

/// How many tokens before the wrong one are shown, white space counted.
const SHOWN_BEFORE: usize = 10;
/// How many behind it, as far as they were looked at.
const SHOWN_AFTER: usize = 2;

/// What a parser of Cassandra's grammar has looked at without taking it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prediction {
    /// The last token of which it knows.
    seen: usize,
    /// Where it stands, and the token that none of the rules has there.
    refuses: Option<(usize, usize)>,
}

impl Prediction {
    /// A reading that was given up has come as far as this token.
    pub(super) fn saw(&mut self, token: usize) {
        self.seen = self.seen.max(token);
    }
}

impl Parser<'_> {
    /// The rules for what begins at token `from` differ in what follows it, which is at hand now: if
    /// `follows` has it, the token behind it is looked at too, else none of the rules fits. That is
    /// no mistake yet; it is what is said of one here.
    pub(super) fn predict(&mut self, from: usize, follows: fn(TokenKind) -> bool) {
        if follows(self.kind()) {
            self.prediction.seen = self.prediction.seen.max(self.at + 1);
        } else {
            self.prediction.refuses = Some((from, self.at));
        }
    }

    /// Is the token at hand one that a prediction has refused?
    pub(super) fn is_refused(&self) -> bool {
        self.prediction.refuses.is_some_and(|(_, at)| at == self.at)
    }

    /// The token at hand is none of those that may come here.
    pub(super) fn no_alternative(&self) -> CqlError {
        self.mistake(no_alternative_at)
    }

    /// The token at hand is none of those that may follow what stands at token `from`.
    pub(super) fn no_alternative_after(&mut self, from: usize) -> CqlError {
        self.prediction.refuses = Some((from, self.at));
        self.no_alternative()
    }

    /// The token at hand is not the only one that may come here.
    pub(super) fn expecting(&self, what: &str) -> CqlError {
        self.mistake(|input| format!("mismatched input '{input}' expecting {what}"))
    }

    fn mistake(&self, message: impl FnOnce(&str) -> String) -> CqlError {
        let refused = self.prediction.refuses.filter(|(_, at)| *at == self.at);
        let from = refused.map_or(self.at, |(from, _)| from);
        let message = |input: &str| match refused {
            Some(_) => no_alternative_at(input),
            None => message(input),
        };
        let token = self.tokens[self.at];
        if let TokenKind::Invalid(mistake) = token.kind {
            return self.no_token(token, mistake);
        }
        let snippet = match self.snippet(from) {
            Some(snippet) => format!(" ({snippet})"),
            None => String::new(),
        };
        if token.kind == TokenKind::End {
            return CqlError::Syntax(format!("line 0:-1 {}{snippet}", message("<EOF>")));
        }
        let (line, column) = self.position(token.start as usize);
        let message = message(&self.content(token));
        CqlError::Syntax(format!("line {line}:{column} {message}{snippet}"))
    }

    /// The text of a token as the lexer hands it on: without quotes.
    fn content(&self, token: Token) -> String {
        let raw = self.token_text(token);
        match token.kind {
            TokenKind::String => raw[1..raw.len() - 1].replace("''", "'"),
            TokenKind::QuotedName => raw[1..raw.len() - 1].replace("\"\"", "\""),
            TokenKind::DollarString => raw[2..raw.len() - 2].to_owned(),
            _ => raw.to_owned(),
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

    /// The tokens around the one at `from`, which is in brackets; `None` where the end is among
    /// them.
    fn snippet(&self, from: usize) -> Option<String> {
        let (first, last) = (self.first_shown(from), self.last_shown(from)?);
        let here = self.tokens[from];
        if here.kind == TokenKind::End {
            return None;
        }
        let mut lines: Vec<Vec<char>> =
            self.text.split('\n').map(|l| l.chars().collect()).collect();
        while lines.len() > 1 && lines.last().is_some_and(Vec::is_empty) {
            lines.pop();
        }
        let (first_line, first_column) = self.position(first);
        let (last_line, last_column, last_length) = last;
        let (line, column) = self.position(here.start as usize);
        let last_end = last_column + last_length;
        let whole = last_line == lines.len() && last_end == lines[last_line - 1].len();
        lines.get_mut(last_line - 1)?.truncate(last_end);
        let marked = lines.get_mut(line - 1)?;
        let end = column + self.content(here).chars().count();
        marked.insert(end.min(marked.len()), ']');
        marked.insert(column.min(marked.len()), '[');
        let begun = lines.get_mut(first_line - 1)?;
        begun.drain(..first_column.min(begun.len()));
        let shown = lines.get(first_line - 1..last_line)?.iter().flatten();
        Some(format!(
            "{}{}{}",
            if (first_line, first_column) == (1, 0) {
                ""
            } else {
                "..."
            },
            shown.collect::<String>(),
            if whole { "" } else { "..." }
        ))
    }

    /// Where the first token that is shown begins: up to ten before the one at `from`.
    fn first_shown(&self, from: usize) -> usize {
        let mut first = self.tokens[from].start as usize;
        let mut shown = 0;
        for pair in self.tokens[..=from].windows(2).rev() {
            if pair[0].end < pair[1].start && shown < SHOWN_BEFORE {
                first = pair[0].end as usize;
                shown += 1;
            }
            if shown == SHOWN_BEFORE {
                break;
            }
            first = pair[0].start as usize;
            shown += 1;
        }
        // What stands before the first token counts as one.
        if shown < SHOWN_BEFORE { 0 } else { first }
    }

    /// Line, column and length of the last token that is shown: up to two behind the one at `from`, of
    /// those that were looked at. `None` if that is the end.
    fn last_shown(&self, from: usize) -> Option<(usize, usize, usize)> {
        let seen = self.prediction.seen.max(self.at).min(self.tokens.len() - 1);
        let (mut at, mut shown) = (from, 0);
        while at < seen && shown < SHOWN_AFTER {
            let (end, start) = (self.tokens[at].end, self.tokens[at + 1].start);
            if end < start {
                shown += 1;
                if shown == SHOWN_AFTER {
                    let (line, column) = self.position(end as usize);
                    let space = &self.text[end as usize..start as usize];
                    return Some((line, column, space.chars().count()));
                }
            }
            at += 1;
            shown += 1;
        }
        let token = self.tokens[at];
        if token.kind == TokenKind::End {
            return None;
        }
        let (line, column) = self.position(token.start as usize);
        Some((line, column, self.content(token).chars().count()))
    }
}

fn no_alternative_at(input: &str) -> String {
    format!("no viable alternative at input '{input}'")
}

/// What may follow the name of a table, in any statement.
pub(super) fn follows_table(kind: TokenKind) -> bool {
    use Keyword::*;
    match kind {
        TokenKind::End | TokenKind::Symbol(Symbol::Semicolon | Symbol::Open | Symbol::Dot) => true,
        TokenKind::Word(Some(keyword)) => matches!(
            keyword,
            Add | Allow
                | Alter
                | As
                | Drop
                | From
                | Group
                | Json
                | Limit
                | NoRecursive
                | Of
                | Order
                | Per
                | Primary
                | Rename
                | Set
                | To
                | Using
                | Where
                | With
        ),
        _ => false,
    }
}

/// What may follow a native type.
pub(super) fn follows_type(kind: TokenKind) -> bool {
    use Keyword::*;
    match kind {
        TokenKind::End => true,
        TokenKind::Symbol(symbol) => matches!(
            symbol,
            Symbol::Semicolon | Symbol::Comma | Symbol::Close | Symbol::Greater | Symbol::Dot
        ),
        TokenKind::Word(Some(keyword)) => matches!(
            keyword,
            FinalFunc | InitCond | Language | Masked | Primary | Static
        ),
        _ => false,
    }
}

/// What may follow a column that is selected, or a field of one.
pub(super) fn follows_selector(kind: TokenKind) -> bool {
    use Keyword::*;
    match kind {
        TokenKind::End => true,
        TokenKind::Symbol(symbol) => {
            !matches!(symbol, Symbol::Question | Symbol::OpenBrace) && !is_comparison(symbol)
        }
        TokenKind::Word(Some(keyword)) => {
            matches!(keyword, Allow | As | From | Limit | Order | Per)
        }
        _ => false,
    }
}

/// What may follow a column of which something is deleted.
pub(super) fn follows_deletion(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Symbol(Symbol::OpenBracket | Symbol::Comma | Symbol::Dot)
            | TokenKind::Word(Some(Keyword::From))
    )
}

/// What may follow a term.
pub(super) fn follows_term(kind: TokenKind) -> bool {
    use Keyword::*;
    match kind {
        TokenKind::End => true,
        TokenKind::Symbol(symbol) => {
            use Symbol::*;
            !matches!(symbol, Question | Open | OpenBracket | OpenBrace | Dot)
                && !is_comparison(symbol)
        }
        TokenKind::Word(Some(keyword)) => matches!(
            keyword,
            Allow
                | And
                | Apply
                | Asc
                | Delete
                | Desc
                | Group
                | If
                | Insert
                | Limit
                | Order
                | Per
                | Primary
                | Update
                | Where
        ),
        _ => false,
    }
}

fn is_comparison(symbol: Symbol) -> bool {
    use Symbol::*;
    matches!(
        symbol,
        Equal | Less | LessOrEqual | Greater | GreaterOrEqual | NotEqual | PlusEqual | MinusEqual
    )
}
