//! `DESCRIBE`.

use crate::ast::{Describe, DescribeTarget};
use crate::lexer::{Keyword, Symbol, TokenKind};

use super::{Parsed, Parser};

impl Parser<'_> {
    /// `describeStatement`
    pub(super) fn describe(&mut self) -> Parsed<Describe> {
        self.next();
        let target = self.describe_target()?;
        let with_internals = self.take_keyword(Keyword::With);
        if with_internals {
            self.expect_keyword(Keyword::Internals)?;
        }
        Ok(Describe {
            target,
            with_internals,
        })
    }

    fn describe_target(&mut self) -> Parsed<DescribeTarget> {
        // Words that are not reserved are names where nothing, or only a dot, can follow.
        let plural = !self.is_symbol_at(1, Symbol::Dot);
        let with_name = plural && self.is_identifier_at(1);
        let with_function = with_name || plural && self.is_at(1, Keyword::Token);
        let Some(keyword) = self.keyword() else {
            return self.generic();
        };
        match keyword {
            Keyword::Cluster if plural => self.just(DescribeTarget::Cluster),
            Keyword::Keyspaces if plural => self.just(DescribeTarget::Keyspaces),
            Keyword::Tables | Keyword::ColumnFamilies if plural => {
                self.just(DescribeTarget::Tables)
            }
            Keyword::Types if plural => self.just(DescribeTarget::Types),
            Keyword::Functions if plural => self.just(DescribeTarget::Functions),
            Keyword::Aggregates if plural => self.just(DescribeTarget::Aggregates),
            Keyword::Schema => self.just(DescribeTarget::Schema { full: false }),
            Keyword::Full => {
                self.next();
                self.expect_keyword(Keyword::Schema)?;
                Ok(DescribeTarget::Schema { full: true })
            }
            Keyword::Keyspace => self.describe_keyspace(false),
            Keyword::Only if self.is_at(1, Keyword::Keyspace) => {
                self.next();
                self.describe_keyspace(true)
            }
            Keyword::Table | Keyword::ColumnFamily => {
                self.next();
                Ok(DescribeTarget::Table(self.table_name()?))
            }
            Keyword::Index => {
                self.next();
                Ok(DescribeTarget::Index(self.table_name()?))
            }
            Keyword::Materialized => {
                self.expect_keywords(&[Keyword::Materialized, Keyword::View])?;
                Ok(DescribeTarget::View(self.table_name()?))
            }
            Keyword::Type if with_name => {
                self.next();
                Ok(DescribeTarget::Type(self.type_name()?))
            }
            Keyword::Function if with_function => {
                self.next();
                Ok(DescribeTarget::Function(self.function_name()?))
            }
            Keyword::Aggregate if with_function => {
                self.next();
                Ok(DescribeTarget::Aggregate(self.function_name()?))
            }
            _ => self.generic(),
        }
    }

    fn just(&mut self, target: DescribeTarget) -> Parsed<DescribeTarget> {
        self.next();
        Ok(target)
    }

    fn describe_keyspace(&mut self, only: bool) -> Parsed<DescribeTarget> {
        self.next();
        let named = !matches!(
            self.kind(),
            TokenKind::End
                | TokenKind::Symbol(Symbol::Semicolon)
                | TokenKind::Word(Some(Keyword::With))
        );
        let name = if named {
            Some(self.keyspace_name()?)
        } else {
            None
        };
        Ok(DescribeTarget::Keyspace { name, only })
    }

    fn generic(&mut self) -> Parsed<DescribeTarget> {
        Ok(DescribeTarget::Generic(self.table_name()?))
    }
}
