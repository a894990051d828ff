//! From tokens to statements, by recursive descent (`Parser.g` of Cassandra 5.0).
//!
//! Each rule of the grammar is a method; where the grammar looks ahead, the method looks at as
//! many tokens as it needs, and three rules (`JSON`, `DISTINCT`, type hints) try one reading and
//! go back. The first mistake ends the parse. Nesting is bounded, so that no text can exhaust the
//! stack, here or where the tree is walked later.

mod auth;
mod describe;
mod message;
mod modify;
mod name;
mod object_name;
mod relation;
mod schema;
mod select;
mod table;
mod term;

use crate::CqlError;
use crate::ast::{Marker, Statement, Truncate};
use crate::lexer::{Keyword, MAX_TOKENS, Symbol, Token, TokenKind, tokens};

/// ScyllaDB's word for how long a statement may take; no keyword.
const TIMEOUT: &str = "timeout";
/// How deep terms and selectors may nest; types nest as deep as they are printed.
const MAX_DEPTH: usize = 100;
/// How many operators and modifiers one term or selector may have: they nest to the left.
const MAX_OPERATORS: usize = 200;

type Parsed<T> = Result<T, CqlError>;

/// Parses one statement; semicolons may follow it. Errors: [`CqlError::Syntax`].
pub fn parse(text: &str) -> Result<Statement, CqlError> {
    parse_within(text, &mut { MAX_TOKENS })
}

/// As [`parse`], of several statements that may have [`MAX_TOKENS`] together; so many are `left`.
pub fn parse_within(text: &str, left: &mut usize) -> Result<Statement, CqlError> {
    let tokens = tokens(text, left)?;
    let mut parser = Parser::new(text, &tokens);
    let statement = parser.statement()?;
    while parser.take(Symbol::Semicolon) {}
    if parser.kind() != TokenKind::End {
        return Err(parser.expecting("EOF"));
    }
    Ok(statement)
}

/// Parses one term: for tools that read values back as CQL prints them. Errors:
/// [`CqlError::Syntax`].
pub fn parse_term(text: &str) -> Result<crate::ast::Term, CqlError> {
    let tokens = tokens(text, &mut { MAX_TOKENS })?;
    let mut parser = Parser::new(text, &tokens);
    let term = parser.term()?;
    if parser.kind() != TokenKind::End {
        return Err(parser.expecting("EOF"));
    }
    Ok(term)
}

/// Parses one type as CQL writes it. Errors: [`CqlError::Syntax`].
pub fn parse_type(text: &str) -> Result<crate::ast::DataType, CqlError> {
    let tokens = tokens(text, &mut { MAX_TOKENS })?;
    let mut parser = Parser::new(text, &tokens);
    let ty = parser.data_type()?;
    if parser.kind() != TokenKind::End {
        return Err(parser.expecting("EOF"));
    }
    Ok(ty)
}

/// Where the parse stands.
struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    at: usize,
    markers: usize,
    depth: usize,
    operators: usize,
    prediction: message::Prediction,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, tokens: &'a [Token]) -> Parser<'a> {
        Parser {
            text,
            tokens,
            at: 0,
            markers: 0,
            depth: 0,
            operators: 0,
            prediction: message::Prediction::default(),
        }
    }

    /// The kind of the token at hand.
    fn kind(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    /// The kind of the token `offset` after the one at hand.
    fn kind_at(&self, offset: usize) -> TokenKind {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + offset).min(last)].kind
    }

    /// The text of a token.
    fn token_text(&self, token: Token) -> &'a str {
        &self.text[token.start as usize..token.end as usize]
    }

    /// Steps over the token at hand and gives it. The end stays.
    fn next(&mut self) -> Token {
        let token = self.tokens[self.at];
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn keyword(&self) -> Option<Keyword> {
        match self.kind() {
            TokenKind::Word(keyword) => keyword,
            _ => None,
        }
    }

    fn is(&self, keyword: Keyword) -> bool {
        self.kind() == TokenKind::Word(Some(keyword))
    }

    fn is_at(&self, offset: usize, keyword: Keyword) -> bool {
        self.kind_at(offset) == TokenKind::Word(Some(keyword))
    }

    fn is_symbol(&self, symbol: Symbol) -> bool {
        self.kind() == TokenKind::Symbol(symbol)
    }

    fn is_symbol_at(&self, offset: usize, symbol: Symbol) -> bool {
        self.kind_at(offset) == TokenKind::Symbol(symbol)
    }

    /// Steps over the symbol if it is at hand.
    fn take(&mut self, symbol: Symbol) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.next();
        }
        found
    }

    /// Steps over the keyword if it is at hand.
    fn take_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.is(keyword);
        if found {
            self.next();
        }
        found
    }

    /// Steps over the keywords if they are at hand, all of them.
    fn take_keywords(&mut self, keywords: &[Keyword]) -> bool {
        let found = keywords
            .iter()
            .enumerate()
            .all(|(i, keyword)| self.is_at(i, *keyword));
        if found {
            self.at += keywords.len();
        }
        found
    }

    fn expect(&mut self, symbol: Symbol) -> Parsed<()> {
        if self.take(symbol) {
            return Ok(());
        }
        Err(self.expecting(&format!("'{}'", symbol.text())))
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> Parsed<()> {
        if self.take_keyword(keyword) {
            return Ok(());
        }
        Err(self.expecting(&format!("K_{}", keyword.text().to_ascii_uppercase())))
    }

    fn expect_keywords(&mut self, keywords: &[Keyword]) -> Parsed<()> {
        keywords.iter().try_for_each(|k| self.expect_keyword(*k))
    }

    /// One or more, with commas between.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take(Symbol::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// None or more, with commas between, up to the symbol that ends them.
    fn list_until<T>(
        &mut self,
        end: Symbol,
        item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        if self.take(end) {
            return Ok(Vec::new());
        }
        let items = self.list(item)?;
        self.expect(end)?;
        Ok(items)
    }

    /// As [`Parser::list_until`], of terms or selectors: what can begin none ends them.
    fn values_until<T>(
        &mut self,
        end: Symbol,
        item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        if !self.begins_term() {
            self.expect(end)?;
            return Ok(Vec::new());
        }
        self.list_until(end, item)
    }

    /// One or more, with AND between.
    fn conjunction<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take_keyword(Keyword::And) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Goes one level deeper.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.nested_up_to(MAX_DEPTH, inner)
    }

    fn nested_up_to<T>(
        &mut self,
        max: usize,
        inner: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        if self.depth == 0 {
            self.operators = 0;
        }
        if self.depth >= max {
            return Err(CqlError::Syntax(format!(
                "terms and types may nest {max} deep, not deeper"
            )));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Counts an operator of the outermost term.
    fn operator(&mut self) -> Parsed<()> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS {
            return Err(CqlError::Syntax(format!(
                "a term may have {MAX_OPERATORS} operators, not more"
            )));
        }
        Ok(())
    }

    /// Tries a reading; where it fails, nothing has happened.
    fn attempt<T>(&mut self, reading: impl FnOnce(&mut Self) -> Parsed<T>) -> Option<T> {
        let before = (self.at, self.markers, self.operators, self.prediction);
        let result = reading(self).ok();
        if result.is_none() {
            let reached = self.at;
            (self.at, self.markers, self.operators, self.prediction) = before;
            self.prediction.saw(reached);
        }
        result
    }

    /// Have there been bind markers?
    fn has_markers(&self) -> bool {
        self.markers > 0
    }

    /// A marker with the next number.
    fn new_marker(&mut self, name: Option<String>) -> Marker {
        let index = self.markers;
        self.markers += 1;
        Marker { index, name }
    }

    /// `[IF EXISTS]`
    fn if_exists(&mut self) -> Parsed<bool> {
        if !self.take_keyword(Keyword::If) {
            return Ok(false);
        }
        self.expect_keyword(Keyword::Exists)?;
        Ok(true)
    }

    /// `[IF NOT EXISTS]`
    fn if_not_exists(&mut self) -> Parsed<bool> {
        if !self.take_keyword(Keyword::If) {
            return Ok(false);
        }
        self.expect_keywords(&[Keyword::Not, Keyword::Exists])?;
        Ok(true)
    }

    fn statement(&mut self) -> Parsed<Statement> {
        let Some(keyword) = self.keyword() else {
            return Err(self.no_alternative());
        };
        match keyword {
            Keyword::Select => Ok(Statement::Select(self.select()?)),
            Keyword::Insert | Keyword::Update | Keyword::Delete => {
                Ok(Statement::Modification(self.modification()?))
            }
            Keyword::Begin => Ok(Statement::Batch(self.batch()?)),
            Keyword::Use => {
                self.next();
                Ok(Statement::Use(self.keyspace_name()?))
            }
            Keyword::Truncate => {
                self.next();
                let _ =
                    self.take_keyword(Keyword::Table) || self.take_keyword(Keyword::ColumnFamily);
                let table = self.table_name()?;
                let timeout = self.timeout()?;
                Ok(Statement::Truncate(Truncate { table, timeout }))
            }
            Keyword::Create => self.create(),
            Keyword::Alter => self.alter(),
            Keyword::Drop => self.drop(),
            Keyword::Grant => self.grant(),
            Keyword::Revoke => self.revoke(),
            Keyword::List => self.list_statement(),
            Keyword::Add => self.add_identity(),
            Keyword::Describe | Keyword::Desc => Ok(Statement::Describe(self.describe()?)),
            _ => Err(self.no_alternative()),
        }
    }
}
