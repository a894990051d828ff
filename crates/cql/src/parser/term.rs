//! Terms.

use crate::CqlError;
use crate::ast::{ArithmeticOperator, InValues, Literal, LiteralKind, Marker, Term};
use crate::lexer::{Keyword, Symbol, TokenKind};

use super::message::follows_term;
use super::{Parsed, Parser};

impl Parser<'_> {
    /// `term`
    pub(super) fn term(&mut self) -> Parsed<Term> {
        self.nested(|parser| {
            let mut left = parser.term_product()?;
            loop {
                let operator = match parser.kind() {
                    // `value + column` of UPDATE: the column is no term.
                    TokenKind::Symbol(Symbol::Plus) if parser.is_column_at(1) => return Ok(left),
                    TokenKind::Symbol(Symbol::Plus) => ArithmeticOperator::Add,
                    TokenKind::Symbol(Symbol::Minus) => ArithmeticOperator::Subtract,
                    _ => {
                        parser.predict(parser.at, follows_term);
                        return Ok(left);
                    }
                };
                parser.next();
                parser.operator()?;
                let right = parser.term_product()?;
                left = operation(operator, left, right);
            }
        })
    }

    fn term_product(&mut self) -> Parsed<Term> {
        let mut left = self.term_factor()?;
        loop {
            let operator = match self.kind() {
                TokenKind::Symbol(Symbol::Star) => ArithmeticOperator::Multiply,
                TokenKind::Symbol(Symbol::Slash) => ArithmeticOperator::Divide,
                TokenKind::Symbol(Symbol::Percent) => ArithmeticOperator::Modulo,
                _ => return Ok(left),
            };
            self.next();
            self.operator()?;
            let right = self.term_factor()?;
            left = operation(operator, left, right);
        }
    }

    fn term_factor(&mut self) -> Parsed<Term> {
        if self.take(Symbol::Minus) {
            return Ok(Term::Negation(Box::new(self.simple_term()?)));
        }
        self.simple_term()
    }

    /// A name that no function call begins with?
    pub(super) fn is_column_at(&self, offset: usize) -> bool {
        if self.kind_at(offset) == TokenKind::EmptyQuotedName {
            return true;
        }
        self.is_identifier_at(offset)
            && !self.is_symbol_at(offset + 1, Symbol::Open)
            && !(self.is_symbol_at(offset + 1, Symbol::Dot)
                && self.is_symbol_at(offset + 3, Symbol::Open))
    }

    /// May a term or a selector begin with the token at hand?
    pub(super) fn begins_term(&self) -> bool {
        match self.kind() {
            TokenKind::End | TokenKind::Invalid(_) => false,
            TokenKind::Symbol(symbol) => {
                use Symbol::*;
                matches!(
                    symbol,
                    Open | OpenBracket | OpenBrace | Question | Colon | Minus
                )
            }
            TokenKind::Word(Some(keyword)) => {
                let constant = matches!(
                    keyword,
                    Keyword::Null | Keyword::Nan | Keyword::Infinity | Keyword::Token
                );
                constant || self.is_identifier_at(0)
            }
            _ => true,
        }
    }

    /// `simpleTerm`
    fn simple_term(&mut self) -> Parsed<Term> {
        self.nested(|parser| match parser.kind() {
            TokenKind::Symbol(Symbol::Open) => parser.type_hint_or_tuple(),
            TokenKind::Symbol(Symbol::OpenBracket) => {
                parser.next();
                let items = parser.values_until(Symbol::CloseBracket, Self::term)?;
                Ok(Term::List(items))
            }
            TokenKind::Symbol(Symbol::OpenBrace) => parser.braces(),
            TokenKind::Word(Some(Keyword::Null)) => {
                parser.next();
                Ok(Term::Null)
            }
            TokenKind::Word(Some(Keyword::Cast)) if parser.is_symbol_at(1, Symbol::Open) => {
                parser.cast_term()
            }
            _ => {
                if let Some(marker) = parser.take_marker()? {
                    return Ok(Term::Marker(marker));
                }
                if let Some(literal) = parser.take_constant() {
                    return Ok(Term::Literal(literal));
                }
                if !parser.is_function_call() {
                    return Err(parser.no_function());
                }
                let from = parser.at;
                let name = parser.function_name()?;
                parser.expect(Symbol::Open)?;
                if !parser.begins_term() && !parser.is_symbol(Symbol::Close) {
                    return Err(parser.no_alternative_after(from));
                }
                let arguments = parser.values_until(Symbol::Close, Self::term)?;
                Ok(Term::Function { name, arguments })
            }
        })
    }

    /// A name that is none of a function: no column can be a term.
    fn no_function(&mut self) -> CqlError {
        let from = self.at;
        if !self.is_identifier_at(0) {
            return self.no_alternative();
        }
        self.next();
        if self.take(Symbol::Dot) && self.is_identifier_at(0) {
            self.next();
        }
        self.no_alternative_after(from)
    }

    fn cast_term(&mut self) -> Parsed<Term> {
        self.next();
        self.expect(Symbol::Open)?;
        let term = self.simple_term()?;
        self.expect_keyword(Keyword::As)?;
        let ty = self.native_type()?;
        self.expect(Symbol::Close)?;
        Ok(Term::Cast(Box::new(term), ty))
    }

    /// `(type) term` or `(a, b)`
    fn type_hint_or_tuple(&mut self) -> Parsed<Term> {
        let hint = self.attempt(|parser| {
            parser.expect(Symbol::Open)?;
            let ty = parser.data_type()?;
            parser.expect(Symbol::Close)?;
            let term = parser.simple_term()?;
            Ok(Term::TypeHint(ty, Box::new(term)))
        });
        match hint {
            Some(term) => Ok(term),
            None => self.tuple(),
        }
    }

    /// `tupleLiteral`
    pub(super) fn tuple(&mut self) -> Parsed<Term> {
        let from = self.at;
        self.expect(Symbol::Open)?;
        if !self.begins_term() {
            return Err(self.no_alternative_after(from));
        }
        let items = self.list(Self::term)?;
        self.expect(Symbol::Close)?;
        Ok(Term::Tuple(items))
    }

    /// A set, a map or a user type.
    fn braces(&mut self) -> Parsed<Term> {
        let from = self.at;
        self.expect(Symbol::OpenBrace)?;
        if self.take(Symbol::CloseBrace) {
            return Ok(Term::Set(Vec::new()));
        }
        if !self.begins_term() {
            return Err(self.no_alternative_after(from));
        }
        if self.is_identifier_at(0) && self.is_symbol_at(1, Symbol::Colon) {
            let fields = self.list(|parser| {
                let name = parser.identifier()?;
                parser.expect(Symbol::Colon)?;
                Ok((name, parser.term()?))
            })?;
            self.expect(Symbol::CloseBrace)?;
            return Ok(Term::User(fields));
        }
        let first = self.term()?;
        if self.take(Symbol::Colon) {
            let mut entries = vec![(first, self.term()?)];
            while self.take(Symbol::Comma) {
                entries.push(self.entry()?);
            }
            self.expect(Symbol::CloseBrace)?;
            return Ok(Term::Map(entries));
        }
        let mut items = vec![first];
        while self.take(Symbol::Comma) {
            items.push(self.term()?);
        }
        self.expect(Symbol::CloseBrace)?;
        Ok(Term::Set(items))
    }

    /// `key: value`
    pub(super) fn entry(&mut self) -> Parsed<(Term, Term)> {
        let key = self.term()?;
        self.expect(Symbol::Colon)?;
        Ok((key, self.term()?))
    }

    /// `marker`, if one is at hand.
    pub(super) fn take_marker(&mut self) -> Parsed<Option<Marker>> {
        if self.take(Symbol::Question) {
            return Ok(Some(self.new_marker(None)));
        }
        if self.take(Symbol::Colon) {
            let name = self.identifier()?;
            return Ok(Some(self.new_marker(Some(name))));
        }
        Ok(None)
    }

    /// `constant`, if one is at hand.
    pub(super) fn take_constant(&mut self) -> Option<Literal> {
        if let Some(text) = self.take_string() {
            let kind = LiteralKind::String;
            return Some(Literal { kind, text });
        }
        let (kind, special) = match self.kind() {
            TokenKind::Integer => (LiteralKind::Integer, None),
            TokenKind::Float => (LiteralKind::Float, None),
            TokenKind::Boolean => (LiteralKind::Boolean, None),
            TokenKind::Duration => (LiteralKind::Duration, None),
            TokenKind::Uuid => (LiteralKind::Uuid, None),
            TokenKind::Hex => (LiteralKind::Hex, None),
            TokenKind::NegativeNan | TokenKind::Word(Some(Keyword::Nan)) => {
                (LiteralKind::Float, Some("NaN"))
            }
            TokenKind::NegativeInfinity => (LiteralKind::Float, Some("-Infinity")),
            TokenKind::Word(Some(Keyword::Infinity)) => (LiteralKind::Float, Some("Infinity")),
            _ => return None,
        };
        let token = self.next();
        let text = special.unwrap_or(self.token_text(token)).to_owned();
        Some(Literal { kind, text })
    }

    /// `intValue`
    pub(super) fn integer_or_marker(&mut self) -> Parsed<Term> {
        if let Some(marker) = self.take_marker()? {
            return Ok(Term::Marker(marker));
        }
        if self.kind() != TokenKind::Integer {
            return Err(self.no_alternative());
        }
        let token = self.next();
        Ok(Term::Literal(Literal {
            kind: LiteralKind::Integer,
            text: self.token_text(token).to_owned(),
        }))
    }

    /// A word that is no keyword, in any case.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let is_word = matches!(self.kind(), TokenKind::Word(None))
            && self
                .token_text(self.tokens[self.at])
                .eq_ignore_ascii_case(word);
        if is_word {
            self.next();
        }
        is_word
    }

    /// What follows IN after one column: terms in parentheses, or a marker.
    pub(super) fn in_values(&mut self) -> Parsed<InValues> {
        if let Some(marker) = self.take_marker()? {
            return Ok(InValues::Marker(marker));
        }
        if !self.take(Symbol::Open) {
            return Err(self.no_alternative());
        }
        let terms = self.values_until(Symbol::Close, Self::term)?;
        Ok(InValues::Terms(terms))
    }
}

fn operation(operator: ArithmeticOperator, left: Term, right: Term) -> Term {
    Term::Operation {
        operator,
        left: Box::new(left),
        right: Box::new(right),
    }
}
