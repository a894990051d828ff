//! `CREATE TABLE` and `ALTER TABLE`.

use model::Order;

use crate::CqlError;
use crate::ast::{
    AlterTable, AlterTableAction, ColumnDefinition, CopyTable, CreateTable, FunctionName, Mask,
    PrimaryKey, Property, QualifiedName, Statement,
};
use crate::lexer::{Keyword, Symbol, TokenKind};

use super::{Parsed, Parser};

/// What stands in parentheses after the name of a table.
type TableElements = (Vec<ColumnDefinition>, Vec<PrimaryKey>);

/// What `WITH` says of a table.
#[derive(Default)]
pub(super) struct TableProperties {
    pub(super) clustering_order: Vec<(String, Order)>,
    pub(super) compact_storage: bool,
    pub(super) properties: Vec<Property>,
}

impl Parser<'_> {
    pub(super) fn create_table(&mut self) -> Parsed<Statement> {
        self.next();
        let if_not_exists = self.if_not_exists()?;
        let table = self.table_name()?;
        if self.take_keyword(Keyword::Like) {
            return Ok(Statement::CopyTable(self.copy_table(table, if_not_exists)?));
        }
        let (columns, primary_keys) = self.table_elements()?;
        let with = if self.take_keyword(Keyword::With) {
            self.table_properties()?
        } else {
            TableProperties::default()
        };
        Ok(Statement::CreateTable(CreateTable {
            table,
            if_not_exists,
            columns,
            primary_keys,
            clustering_order: with.clustering_order,
            compact_storage: with.compact_storage,
            properties: with.properties,
        }))
    }

    /// `copyTableStatement`, of Cassandra after 5.0
    fn copy_table(&mut self, table: QualifiedName, if_not_exists: bool) -> Parsed<CopyTable> {
        Ok(CopyTable {
            table,
            if_not_exists,
            source: self.table_name()?,
            properties: match self.is(Keyword::With) {
                true => self.with_properties()?,
                false => Vec::new(),
            },
        })
    }

    fn table_elements(&mut self) -> Parsed<TableElements> {
        let (mut columns, mut primary_keys) = (Vec::new(), Vec::new());
        self.expect(Symbol::Open)?;
        loop {
            if self.is(Keyword::Primary) {
                primary_keys.push(self.primary_key()?);
            } else {
                let column = self.column_definition()?;
                if self.take_keyword(Keyword::Primary) {
                    self.expect_keyword(Keyword::Key)?;
                    primary_keys.push(PrimaryKey {
                        partition: vec![column.name.clone()],
                        clustering: Vec::new(),
                    });
                }
                columns.push(column);
            }
            // More commas than elements are allowed after the first element.
            if !self.is_symbol(Symbol::Comma) {
                self.expect(Symbol::Close)?;
                return Ok((columns, primary_keys));
            }
            while self.take(Symbol::Comma) {}
            let more = self.is(Keyword::Primary)
                || self.is_identifier_at(0)
                || self.kind() == TokenKind::EmptyQuotedName;
            if !more {
                self.expect(Symbol::Close)?;
                return Ok((columns, primary_keys));
            }
        }
    }

    /// `name type [STATIC] [MASKED WITH …]`
    pub(super) fn column_definition(&mut self) -> Parsed<ColumnDefinition> {
        Ok(ColumnDefinition {
            name: self.identifier()?,
            ty: self.data_type()?,
            is_static: self.take_keyword(Keyword::Static),
            mask: if self.is(Keyword::Masked) {
                Some(self.mask()?)
            } else {
                None
            },
        })
    }

    /// `columnMask`
    fn mask(&mut self) -> Parsed<Mask> {
        self.expect_keywords(&[Keyword::Masked, Keyword::With])?;
        if self.is(Keyword::Default) && !self.is_symbol_at(1, Symbol::Open) {
            self.next();
            return Ok(Mask {
                function: FunctionName {
                    keyspace: Some("system".to_owned()),
                    name: "mask_default".to_owned(),
                },
                arguments: Vec::new(),
            });
        }
        let function = self.function_name()?;
        self.expect(Symbol::Open)?;
        let arguments = self.list_until(Symbol::Close, Self::term)?;
        Ok(Mask {
            function,
            arguments,
        })
    }

    /// `PRIMARY KEY ((a, b), c, d)`
    pub(super) fn primary_key(&mut self) -> Parsed<PrimaryKey> {
        self.expect_keywords(&[Keyword::Primary, Keyword::Key])?;
        self.expect(Symbol::Open)?;
        let partition = if self.take(Symbol::Open) {
            let names = self.list(Self::identifier)?;
            self.expect(Symbol::Close)?;
            names
        } else {
            vec![self.identifier()?]
        };
        let mut clustering = Vec::new();
        while self.take(Symbol::Comma) {
            clustering.push(self.identifier()?);
        }
        self.expect(Symbol::Close)?;
        Ok(PrimaryKey {
            partition,
            clustering,
        })
    }

    /// What follows `WITH` of a table or view.
    pub(super) fn table_properties(&mut self) -> Parsed<TableProperties> {
        let mut with = TableProperties::default();
        loop {
            if self.take_keywords(&[Keyword::Compact, Keyword::Storage]) {
                with.compact_storage = true;
            } else if self.take_keywords(&[Keyword::Clustering, Keyword::Order]) {
                self.expect_keyword(Keyword::By)?;
                self.expect(Symbol::Open)?;
                let order = self.list(Self::clustering_order)?;
                self.expect(Symbol::Close)?;
                with.clustering_order.extend(order);
            } else {
                with.properties.push(self.property()?);
            }
            if !self.take_keyword(Keyword::And) {
                return Ok(with);
            }
        }
    }

    fn clustering_order(&mut self) -> Parsed<(String, Order)> {
        let column = self.identifier()?;
        if self.take_keyword(Keyword::Asc) {
            Ok((column, Order::Ascending))
        } else if self.take_keyword(Keyword::Desc) {
            Ok((column, Order::Descending))
        } else {
            Err(self.no_alternative())
        }
    }

    pub(super) fn alter_table(&mut self) -> Parsed<Statement> {
        self.next();
        let if_exists = self.if_exists()?;
        let table = self.table_name()?;
        let action = match self.keyword() {
            Some(Keyword::Alter) => self.alter_column()?,
            Some(Keyword::Add) => self.add_columns()?,
            Some(Keyword::Drop) => self.drop_columns()?,
            Some(Keyword::Rename) => {
                self.next();
                AlterTableAction::Rename {
                    if_exists: self.if_exists()?,
                    renames: self.conjunction(Self::rename)?,
                }
            }
            Some(Keyword::With) => AlterTableAction::With(self.with_properties()?),
            _ => return Err(self.no_alternative()),
        };
        Ok(Statement::AlterTable(AlterTable {
            table,
            if_exists,
            action,
        }))
    }

    /// `a TO b`
    pub(super) fn rename(&mut self) -> Parsed<(String, String)> {
        let from = self.identifier()?;
        self.expect_keyword(Keyword::To)?;
        Ok((from, self.identifier()?))
    }

    fn alter_column(&mut self) -> Parsed<AlterTableAction> {
        self.next();
        let if_exists = self.if_exists()?;
        let column = self.column_name()?;
        if !if_exists && self.take_keyword(Keyword::Type) {
            let ty = self.data_type()?;
            return Ok(AlterTableAction::AlterType { column, ty });
        }
        let mask = match self.keyword() {
            Some(Keyword::Masked) => Some(self.mask()?),
            Some(Keyword::Drop) => {
                self.next();
                self.expect_keyword(Keyword::Masked)?;
                None
            }
            _ => return Err(self.no_alternative()),
        };
        Ok(AlterTableAction::Mask {
            column,
            if_exists,
            mask,
        })
    }

    fn add_columns(&mut self) -> Parsed<AlterTableAction> {
        self.next();
        let if_not_exists = self.if_not_exists()?;
        let columns = if self.take(Symbol::Open) {
            let columns = self.list(Self::column_definition)?;
            self.expect(Symbol::Close)?;
            columns
        } else {
            vec![self.column_definition()?]
        };
        Ok(AlterTableAction::Add {
            if_not_exists,
            columns,
        })
    }

    fn drop_columns(&mut self) -> Parsed<AlterTableAction> {
        self.next();
        if self.take_keywords(&[Keyword::Compact, Keyword::Storage]) {
            return Ok(AlterTableAction::DropCompactStorage);
        }
        let if_exists = self.if_exists()?;
        let columns = if self.take(Symbol::Open) {
            let columns = self.list(Self::identifier)?;
            self.expect(Symbol::Close)?;
            columns
        } else {
            vec![self.identifier()?]
        };
        let mut timestamp = None;
        if self.take_keyword(Keyword::Using) {
            self.expect_keyword(Keyword::Timestamp)?;
            if self.kind() != TokenKind::Integer {
                return Err(self.expecting("INTEGER"));
            }
            let text = self.token_text(self.tokens[self.at]);
            timestamp = Some(
                text.parse()
                    .map_err(|_| CqlError::Syntax(format!("For input string: \"{text}\"")))?,
            );
            self.next();
        }
        Ok(AlterTableAction::Drop {
            if_exists,
            columns,
            timestamp,
        })
    }
}
