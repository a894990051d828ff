//! The relations of `WHERE`.

use crate::ast::{
    Comparison, InValues, QualifiedName, Relation, RelationTarget, RelationValue, Term,
};
use crate::lexer::{Keyword, Symbol, TokenKind};

use super::{Parsed, Parser};

impl Parser<'_> {
    /// `whereClause`
    pub(super) fn where_clause(&mut self) -> Parsed<Vec<Relation>> {
        self.conjunction(Self::relation)
    }

    fn relation(&mut self) -> Parsed<Relation> {
        self.nested(|parser| {
            if parser.is_expression() {
                return parser.expression();
            }
            if parser.is(Keyword::Token) {
                parser.next();
                let target = RelationTarget::Token(parser.column_names()?);
                if parser.take_keyword(Keyword::Between) {
                    return parser.between(target, Self::term);
                }
                return Ok(Relation {
                    target,
                    comparison: parser.comparison()?,
                    value: RelationValue::Term(parser.term()?),
                });
            }
            if parser.is_symbol(Symbol::Open) {
                return parser.columns_or_parentheses();
            }
            parser.column_relation()
        })
    }

    fn begins_relation(&self) -> bool {
        self.is_symbol(Symbol::Open)
            || self.is(Keyword::Token)
            || self.kind() == TokenKind::EmptyQuotedName
            || self.is_identifier_at(0)
    }

    /// `expr(index, term)`: the lexer takes `expr(` as one token.
    fn is_expression(&self) -> bool {
        let word = self.tokens[self.at];
        let next = self.tokens[(self.at + 1).min(self.tokens.len() - 1)];
        word.kind == TokenKind::Word(None)
            && self.token_text(word) == "expr"
            && next.kind == TokenKind::Symbol(Symbol::Open)
            && next.start == word.end
    }

    fn expression(&mut self) -> Parsed<Relation> {
        self.next();
        self.expect(Symbol::Open)?;
        let name = self.bare_index_name()?;
        self.expect(Symbol::Comma)?;
        let value = RelationValue::Term(self.term()?);
        self.expect(Symbol::Close)?;
        let keyspace = None;
        Ok(Relation {
            target: RelationTarget::Expression(QualifiedName { keyspace, name }),
            comparison: Comparison::Equal,
            value,
        })
    }

    fn column_relation(&mut self) -> Parsed<Relation> {
        let from = self.at;
        let column = self.column_name()?;
        self.predict(from, follows_column);
        if self.take(Symbol::OpenBracket) {
            let key = self.term()?;
            self.expect(Symbol::CloseBracket)?;
            let comparison = self.comparison()?;
            return Ok(Relation {
                target: RelationTarget::Element(column, key),
                comparison,
                value: RelationValue::Term(self.term()?),
            });
        }
        let target = RelationTarget::Column(column);
        if self.take_keyword(Keyword::In) {
            if !begins_tuple(self.kind()) || self.is_symbol(Symbol::Close) {
                return Err(self.no_alternative_after(from));
            }
            return Ok(Relation {
                target,
                comparison: Comparison::In,
                value: RelationValue::In(self.in_values()?),
            });
        }
        if self.take_keyword(Keyword::Between) {
            return self.between(target, Self::term);
        }
        if self.take_keyword(Keyword::Is) {
            self.expect_keywords(&[Keyword::Not, Keyword::Null])?;
            return Ok(Relation {
                target,
                comparison: Comparison::IsNot,
                value: RelationValue::Term(Term::Null),
            });
        }
        let comparison = if self.take_keyword(Keyword::Like) {
            Comparison::Like
        } else if self.is(Keyword::Contains) {
            self.contains()
        } else {
            self.comparison()?
        };
        Ok(Relation {
            target,
            comparison,
            value: RelationValue::Term(self.term()?),
        })
    }

    /// What follows `BETWEEN`: two values of one kind.
    fn between(
        &mut self,
        target: RelationTarget,
        value: impl Fn(&mut Self) -> Parsed<Term>,
    ) -> Parsed<Relation> {
        let lowest = value(self)?;
        self.expect_keyword(Keyword::And)?;
        let highest = value(self)?;
        Ok(Relation {
            target,
            comparison: Comparison::Between,
            value: RelationValue::Between(Box::new((lowest, highest))),
        })
    }

    /// `CONTAINS [KEY]`
    pub(super) fn contains(&mut self) -> Comparison {
        self.next();
        if self.take_keyword(Keyword::Key) {
            Comparison::ContainsKey
        } else {
            Comparison::Contains
        }
    }

    /// `relationType`
    pub(super) fn comparison(&mut self) -> Parsed<Comparison> {
        let comparison = match self.kind() {
            TokenKind::Symbol(Symbol::Equal) => Comparison::Equal,
            TokenKind::Symbol(Symbol::Less) => Comparison::Less,
            TokenKind::Symbol(Symbol::LessOrEqual) => Comparison::LessOrEqual,
            TokenKind::Symbol(Symbol::Greater) => Comparison::Greater,
            TokenKind::Symbol(Symbol::GreaterOrEqual) => Comparison::GreaterOrEqual,
            TokenKind::Symbol(Symbol::NotEqual) => Comparison::NotEqual,
            _ => return Err(self.no_alternative()),
        };
        self.next();
        Ok(comparison)
    }

    /// `tupleOfIdentifiers`
    fn column_names(&mut self) -> Parsed<Vec<String>> {
        self.expect(Symbol::Open)?;
        let names = self.list(Self::column_name)?;
        self.expect(Symbol::Close)?;
        Ok(names)
    }

    /// `(c1, c2) > …`, or a relation in parentheses.
    fn columns_or_parentheses(&mut self) -> Parsed<Relation> {
        let mut several = None;
        let columns = self.attempt(|parser| {
            let columns = parser.column_names()?;
            several = (columns.len() > 1).then_some(parser.at);
            if !parser.is(Keyword::In) && !parser.is(Keyword::Between) {
                let operator = parser.at;
                parser.comparison()?;
                parser.at = operator;
            }
            Ok(columns)
        });
        let Some(columns) = columns else {
            if let Some(behind) = several {
                self.at = behind;
                return Err(self.no_alternative());
            }
            let from = self.at;
            self.expect(Symbol::Open)?;
            if !self.begins_relation() {
                return Err(self.no_alternative_after(from));
            }
            let relation = self.relation()?;
            self.expect(Symbol::Close)?;
            return Ok(relation);
        };
        let target = RelationTarget::Columns(columns);
        if self.take_keyword(Keyword::In) {
            let from = self.at;
            if self.is_symbol(Symbol::Open) && !begins_tuple(self.kind_at(1)) {
                self.next();
                return Err(self.no_alternative_after(from));
            }
            return Ok(Relation {
                target,
                comparison: Comparison::In,
                value: RelationValue::In(self.tuples()?),
            });
        }
        if self.take_keyword(Keyword::Between) {
            return self.between(target, Self::tuple_or_marker);
        }
        let from = self.at;
        let comparison = self.comparison()?;
        if !begins_tuple(self.kind()) {
            return Err(self.no_alternative_after(from));
        }
        Ok(Relation {
            target,
            comparison,
            value: RelationValue::Term(self.tuple_or_marker()?),
        })
    }

    fn tuple_or_marker(&mut self) -> Parsed<Term> {
        match self.take_marker()? {
            Some(marker) => Ok(Term::Marker(marker)),
            None if self.is_symbol(Symbol::Open) => self.tuple(),
            None => Err(self.no_alternative()),
        }
    }

    /// What follows IN after several columns.
    fn tuples(&mut self) -> Parsed<InValues> {
        if let Some(marker) = self.take_marker()? {
            return Ok(InValues::Marker(marker));
        }
        self.expect(Symbol::Open)?;
        let tuples = self.list_until(Symbol::Close, Self::tuple_or_marker)?;
        Ok(InValues::Terms(tuples))
    }
}

/// What may follow a column that is restricted.
fn follows_column(kind: TokenKind) -> bool {
    use Symbol::*;
    match kind {
        TokenKind::Symbol(symbol) => matches!(
            symbol,
            Equal | Less | LessOrEqual | Greater | GreaterOrEqual | NotEqual | OpenBracket
        ),
        TokenKind::Word(Some(keyword)) => matches!(
            keyword,
            Keyword::In | Keyword::Contains | Keyword::Is | Keyword::Like
        ),
        _ => false,
    }
}

/// May a tuple, or what stands for one, begin so?
fn begins_tuple(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Symbol(Symbol::Open | Symbol::Close | Symbol::Question | Symbol::Colon)
    )
}
