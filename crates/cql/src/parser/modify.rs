//! `INSERT`, `UPDATE`, `DELETE` and `BATCH`.

use std::collections::{BTreeMap, BTreeSet};

use crate::CqlError;
use crate::ast::{
    Assignment, Attributes, Batch, BatchKind, Condition, ConditionTarget, ConditionValue,
    Conditions, Delete, Deletion, Insert, InsertJson, Literal, LiteralKind, Modification,
    Operation, QualifiedName, Term, Update,
};
use crate::lexer::{Keyword, Symbol, TokenKind};

use super::message::follows_deletion;
use super::{Parsed, Parser, TIMEOUT};

impl Parser<'_> {
    /// `batchStatementObjective`
    pub(super) fn modification(&mut self) -> Parsed<Modification> {
        match self.keyword() {
            Some(Keyword::Insert) => self.insert(),
            Some(Keyword::Update) => Ok(Modification::Update(self.update()?)),
            Some(Keyword::Delete) => Ok(Modification::Delete(self.delete()?)),
            _ => Err(self.no_alternative()),
        }
    }

    /// `insertStatement`
    fn insert(&mut self) -> Parsed<Modification> {
        self.expect_keywords(&[Keyword::Insert, Keyword::Into])?;
        let table = self.table_name()?;
        if self.take_keyword(Keyword::Json) {
            return Ok(Modification::InsertJson(self.insert_json(table)?));
        }
        if !self.take(Symbol::Open) {
            return Err(self.no_alternative());
        }
        let columns = self.list(Self::column_name)?;
        self.expect(Symbol::Close)?;
        self.expect_keyword(Keyword::Values)?;
        self.expect(Symbol::Open)?;
        let values = self.list(Self::term)?;
        self.expect(Symbol::Close)?;
        Ok(Modification::Insert(Insert {
            table,
            columns,
            values,
            if_not_exists: self.if_not_exists()?,
            attributes: self.attributes(true)?,
        }))
    }

    fn insert_json(&mut self, table: QualifiedName) -> Parsed<InsertJson> {
        let json = match self.take_marker()? {
            Some(marker) => Err(marker),
            None => Ok(self.take_string().ok_or_else(|| self.no_alternative())?),
        };
        let mut default_unset = false;
        if self.take_keyword(Keyword::Default) {
            default_unset = self.take_keyword(Keyword::Unset);
            if !default_unset && !self.take_keyword(Keyword::Null) {
                return Err(self.no_alternative());
            }
        }
        Ok(InsertJson {
            table,
            json,
            default_unset,
            if_not_exists: self.if_not_exists()?,
            attributes: self.attributes(true)?,
        })
    }

    /// `usingClause`, `usingClauseDelete`
    fn attributes(&mut self, with_ttl: bool) -> Parsed<Attributes> {
        let mut attributes = Attributes::default();
        if !self.take_keyword(Keyword::Using) {
            return Ok(attributes);
        }
        loop {
            if self.take_keyword(Keyword::Timestamp) {
                attributes.timestamp = Some(self.integer_or_marker()?);
            } else if with_ttl && self.take_keyword(Keyword::Ttl) {
                attributes.ttl = Some(self.integer_or_marker()?);
            } else if self.take_word(TIMEOUT) {
                attributes.timeout = Some(self.term()?);
            } else if with_ttl {
                return Err(self.no_alternative());
            } else {
                return Err(self.expecting("K_TIMESTAMP"));
            }
            // Cassandra's DELETE has one of them at most; ScyllaDB's may have a timeout besides.
            let may_go_on = with_ttl || attributes.timeout.is_some() || self.is_timeout_next();
            if !may_go_on || !self.take_keyword(Keyword::And) {
                return Ok(attributes);
            }
        }
    }

    /// `AND TIMEOUT`
    fn is_timeout_next(&mut self) -> bool {
        let before = self.at;
        let is_timeout = self.take_keyword(Keyword::And) && self.take_word(TIMEOUT);
        self.at = before;
        is_timeout
    }

    /// `updateStatement`
    fn update(&mut self) -> Parsed<Update> {
        self.expect_keyword(Keyword::Update)?;
        let table = self.table_name()?;
        let attributes = self.attributes(true)?;
        self.expect_keyword(Keyword::Set)?;
        let assignments = self.list(Self::assignment)?;
        check_compatible(&assignments)?;
        self.expect_keyword(Keyword::Where)?;
        Ok(Update {
            table,
            attributes,
            assignments,
            relations: self.where_clause()?,
            conditions: self.conditions()?,
        })
    }

    /// `columnOperation`
    fn assignment(&mut self) -> Parsed<Assignment> {
        let column = self.column_name()?;
        let operation = match self.kind() {
            TokenKind::Symbol(Symbol::Equal) => {
                self.next();
                self.normal_operation(&column)?
            }
            TokenKind::Symbol(Symbol::PlusEqual) => {
                self.next();
                Operation::Add(self.term()?)
            }
            TokenKind::Symbol(Symbol::MinusEqual) => {
                self.next();
                Operation::Subtract(self.term()?)
            }
            TokenKind::Symbol(Symbol::OpenBracket) => {
                self.next();
                let key = self.term()?;
                self.expect(Symbol::CloseBracket)?;
                self.expect(Symbol::Equal)?;
                Operation::SetElement(key, self.term()?)
            }
            TokenKind::Symbol(Symbol::Dot) => {
                self.next();
                let field = self.identifier()?;
                self.expect(Symbol::Equal)?;
                Operation::SetField(field, self.term()?)
            }
            _ => return Err(self.no_alternative()),
        };
        Ok(Assignment { column, operation })
    }

    /// `normalColumnOperation`: what follows `column =`.
    fn normal_operation(&mut self, column: &str) -> Parsed<Operation> {
        let only = |form: &str| {
            CqlError::Syntax(format!(
                "Only expressions of the form X = {form} are supported."
            ))
        };
        if !self.is_column_at(0) {
            let term = self.term()?;
            if !self.take(Symbol::Plus) {
                return Ok(Operation::Set(term));
            }
            if self.column_name()? != column {
                return Err(only("<value> + X"));
            }
            return Ok(Operation::Prepend(term));
        }
        let from = self.at;
        let same = self.column_name()? == column;
        if self.kind() == TokenKind::Integer {
            // `c = c -3`: the sign belongs to the number.
            let token = self.next();
            let text = self.token_text(token).to_owned();
            if !same {
                let sign = if text.starts_with('-') { '-' } else { '+' };
                return Err(only(&format!("X {sign} <value>")));
            }
            let kind = LiteralKind::Integer;
            return Ok(Operation::Add(Term::Literal(Literal { kind, text })));
        }
        let add = self.take(Symbol::Plus);
        if !add && !self.take(Symbol::Minus) {
            return Err(self.no_alternative_after(from));
        }
        let term = self.term()?;
        match (same, add) {
            (true, true) => Ok(Operation::Add(term)),
            (true, false) => Ok(Operation::Subtract(term)),
            (false, true) => Err(only("X +<value>")),
            (false, false) => Err(only("X -<value>")),
        }
    }

    /// `IF …`
    fn conditions(&mut self) -> Parsed<Conditions> {
        if !self.take_keyword(Keyword::If) {
            return Ok(Conditions::None);
        }
        // A column may be called `exists`.
        let compared = matches!(
            self.kind_at(1),
            TokenKind::Symbol(
                Symbol::Equal
                    | Symbol::NotEqual
                    | Symbol::Less
                    | Symbol::LessOrEqual
                    | Symbol::Greater
                    | Symbol::GreaterOrEqual
                    | Symbol::OpenBracket
                    | Symbol::Dot
            ) | TokenKind::Word(Some(Keyword::In | Keyword::Contains))
        );
        if self.is(Keyword::Exists) && !compared {
            let from = self.at;
            self.next();
            self.predict(from, |kind| kind != TokenKind::Word(Some(Keyword::And)));
            return Ok(Conditions::Exists);
        }
        Ok(Conditions::All(self.conjunction(Self::condition)?))
    }

    /// `columnCondition`
    fn condition(&mut self) -> Parsed<Condition> {
        let column = self.column_name()?;
        let target = if self.take(Symbol::OpenBracket) {
            let key = self.term()?;
            self.expect(Symbol::CloseBracket)?;
            ConditionTarget::Element(key)
        } else if self.take(Symbol::Dot) {
            ConditionTarget::Field(self.identifier()?)
        } else {
            ConditionTarget::Column
        };
        if self.take_keyword(Keyword::In) {
            return Ok(Condition {
                column,
                target,
                comparison: crate::ast::Comparison::In,
                value: ConditionValue::In(self.in_values()?),
            });
        }
        let comparison = if target == ConditionTarget::Column && self.is(Keyword::Contains) {
            self.contains()
        } else {
            self.comparison()?
        };
        Ok(Condition {
            column,
            target,
            comparison,
            value: ConditionValue::Term(self.term()?),
        })
    }

    /// `deleteStatement`
    fn delete(&mut self) -> Parsed<Delete> {
        self.expect_keyword(Keyword::Delete)?;
        let deletions = if !self.is_identifier_at(0) {
            Vec::new()
        } else {
            self.list(Self::deletion)?
        };
        self.expect_keyword(Keyword::From)?;
        let table = self.table_name()?;
        let attributes = self.attributes(false)?;
        self.expect_keyword(Keyword::Where)?;
        Ok(Delete {
            table,
            deletions,
            attributes,
            relations: self.where_clause()?,
            conditions: self.conditions()?,
        })
    }

    /// `deleteOp`
    fn deletion(&mut self) -> Parsed<Deletion> {
        let from = self.at;
        let column = self.column_name()?;
        self.predict(from, follows_deletion);
        if self.take(Symbol::OpenBracket) {
            let key = self.term()?;
            self.expect(Symbol::CloseBracket)?;
            return Ok(Deletion::Element(column, key));
        }
        if self.take(Symbol::Dot) {
            return Ok(Deletion::Field(column, self.identifier()?));
        }
        Ok(Deletion::Column(column))
    }

    /// `batchStatement`
    pub(super) fn batch(&mut self) -> Parsed<Batch> {
        self.expect_keyword(Keyword::Begin)?;
        let kind = if self.take_keyword(Keyword::Unlogged) {
            BatchKind::Unlogged
        } else if self.take_keyword(Keyword::Counter) {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_keyword(Keyword::Batch)?;
        let attributes = self.attributes(true)?;
        let mut statements = Vec::new();
        while matches!(
            self.keyword(),
            Some(Keyword::Insert | Keyword::Update | Keyword::Delete)
        ) {
            statements.push(self.modification()?);
            self.take(Symbol::Semicolon);
        }
        self.expect_keywords(&[Keyword::Apply, Keyword::Batch])?;
        Ok(Batch {
            kind,
            attributes,
            statements,
        })
    }
}

/// A column that is set whole may not be set in any other way (`Parser.addRawUpdate`).
fn check_compatible(assignments: &[Assignment]) -> Parsed<()> {
    let mut set_whole: BTreeMap<&str, bool> = BTreeMap::new();
    let mut fields = BTreeSet::new();
    for assignment in assignments {
        let whole = matches!(assignment.operation, Operation::Set(_));
        let before = set_whole.insert(&assignment.column, whole);
        let twice = match &assignment.operation {
            Operation::SetField(field, _) => !fields.insert((&assignment.column, field)),
            _ => false,
        };
        if twice || before.is_some_and(|before| before || whole) {
            return Err(CqlError::Syntax(format!(
                "Multiple incompatible setting of column {}",
                assignment.column
            )));
        }
    }
    Ok(())
}
