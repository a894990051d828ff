//! Statements that change the schema.

use std::collections::BTreeMap;

use model::Order;

use crate::CqlError;
use crate::ast::{
    AlterKeyspace, AlterTable, AlterTableAction, AlterType, AlterTypeAction, AlterView,
    ColumnDefinition, CreateAggregate, CreateFunction, CreateIndex, CreateKeyspace, CreateTable,
    CreateTrigger, CreateType, CreateView, DataType, Drop, DropFunction, DropTrigger, FunctionName,
    IndexTarget, IndexTargetKind, Mask, PrimaryKey, Property, PropertyValue, Statement, Term,
};
use crate::lexer::{Class, Keyword, Symbol, TokenKind};

use super::{Parsed, Parser};

/// What stands in parentheses after the name of a table.
type TableElements = (Vec<ColumnDefinition>, Vec<PrimaryKey>);

/// What `WITH` says of a table.
#[derive(Default)]
struct TableProperties {
    clustering_order: Vec<(String, Order)>,
    compact_storage: bool,
    properties: Vec<Property>,
}

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Parsed<Statement> {
        self.expect_keyword(Keyword::Create)?;
        let or_replace = self.take_keyword(Keyword::Or);
        if or_replace {
            self.expect_keyword(Keyword::Replace)?;
        }
        let Some(keyword) = self.keyword() else {
            return Err(self.no_alternative());
        };
        match keyword {
            Keyword::Function => self.create_function(or_replace),
            Keyword::Aggregate => self.create_aggregate(or_replace),
            _ if or_replace => Err(self.no_alternative()),
            Keyword::Keyspace => self.create_keyspace(),
            Keyword::Table | Keyword::ColumnFamily => self.create_table(),
            Keyword::Type => self.create_type(),
            Keyword::Index | Keyword::Custom => self.create_index(),
            Keyword::Materialized => self.create_view(),
            Keyword::Trigger => self.create_trigger(),
            Keyword::User => self.create_user(),
            Keyword::Role => self.create_role(),
            _ => Err(self.no_alternative()),
        }
    }

    pub(super) fn alter(&mut self) -> Parsed<Statement> {
        self.expect_keyword(Keyword::Alter)?;
        let Some(keyword) = self.keyword() else {
            return Err(self.no_alternative());
        };
        match keyword {
            Keyword::Keyspace => {
                self.next();
                Ok(Statement::AlterKeyspace(AlterKeyspace {
                    if_exists: self.if_exists()?,
                    name: self.keyspace_name()?,
                    properties: self.with_properties()?,
                }))
            }
            Keyword::Table | Keyword::ColumnFamily => self.alter_table(),
            Keyword::Type => self.alter_type(),
            Keyword::Materialized => {
                self.next();
                self.expect_keyword(Keyword::View)?;
                Ok(Statement::AlterView(AlterView {
                    if_exists: self.if_exists()?,
                    view: self.table_name()?,
                    properties: self.with_properties()?,
                }))
            }
            Keyword::User => self.alter_user(),
            Keyword::Role => self.alter_role(),
            _ => Err(self.no_alternative()),
        }
    }

    pub(super) fn drop(&mut self) -> Parsed<Statement> {
        self.expect_keyword(Keyword::Drop)?;
        let Some(keyword) = self.keyword() else {
            return Err(self.no_alternative());
        };
        match keyword {
            Keyword::Keyspace => {
                self.next();
                Ok(Statement::DropKeyspace {
                    if_exists: self.if_exists()?,
                    name: self.keyspace_name()?,
                })
            }
            Keyword::Table | Keyword::ColumnFamily => {
                Ok(Statement::DropTable(self.drop_of(Self::table_name)?))
            }
            Keyword::Type => Ok(Statement::DropType(self.drop_of(Self::type_name)?)),
            Keyword::Index => Ok(Statement::DropIndex(self.drop_of(Self::index_name)?)),
            Keyword::Materialized => {
                self.next();
                if !self.is(Keyword::View) {
                    return Err(self.expecting("K_VIEW"));
                }
                Ok(Statement::DropView(self.drop_of(Self::table_name)?))
            }
            Keyword::Function => Ok(Statement::DropFunction(self.drop_function()?)),
            Keyword::Aggregate => Ok(Statement::DropAggregate(self.drop_function()?)),
            Keyword::Trigger => {
                self.next();
                let if_exists = self.if_exists()?;
                let name = self.identifier()?;
                self.expect_keyword(Keyword::On)?;
                let table = self.table_name()?;
                Ok(Statement::DropTrigger(DropTrigger {
                    name,
                    if_exists,
                    table,
                }))
            }
            Keyword::User | Keyword::Role | Keyword::Identity => self.drop_role(),
            _ => Err(self.no_alternative()),
        }
    }

    fn drop_of(
        &mut self,
        name: impl FnOnce(&mut Self) -> Parsed<crate::ast::QualifiedName>,
    ) -> Parsed<Drop> {
        self.next();
        Ok(Drop {
            if_exists: self.if_exists()?,
            name: name(self)?,
        })
    }

    fn drop_function(&mut self) -> Parsed<DropFunction> {
        self.next();
        let if_exists = self.if_exists()?;
        let name = self.function_name()?;
        let arguments = if self.take(Symbol::Open) {
            Some(self.list_until(Symbol::Close, Self::data_type)?)
        } else {
            None
        };
        Ok(DropFunction {
            name,
            if_exists,
            arguments,
        })
    }

    fn create_keyspace(&mut self) -> Parsed<Statement> {
        self.next();
        Ok(Statement::CreateKeyspace(CreateKeyspace {
            if_not_exists: self.if_not_exists()?,
            name: self.keyspace_name()?,
            properties: self.with_properties()?,
        }))
    }

    fn with_properties(&mut self) -> Parsed<Vec<Property>> {
        self.expect_keyword(Keyword::With)?;
        self.conjunction(Self::property)
    }

    fn create_table(&mut self) -> Parsed<Statement> {
        self.next();
        let if_not_exists = self.if_not_exists()?;
        let table = self.table_name()?;
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

    fn table_elements(&mut self) -> Parsed<TableElements> {
        let (mut columns, mut primary_keys) = (Vec::new(), Vec::new());
        self.expect(Symbol::Open)?;
        loop {
            if self.is(Keyword::Primary) {
                primary_keys.push(self.primary_key()?);
            } else {
                let column = self.column_definition()?;
                if self.take_keywords(&[Keyword::Primary, Keyword::Key]) {
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
            if self.take(Symbol::Close) {
                return Ok((columns, primary_keys));
            }
        }
    }

    /// `name type [STATIC] [MASKED WITH …]`
    fn column_definition(&mut self) -> Parsed<ColumnDefinition> {
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
    fn primary_key(&mut self) -> Parsed<PrimaryKey> {
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
    fn table_properties(&mut self) -> Parsed<TableProperties> {
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

    /// `property`
    fn property(&mut self) -> Parsed<Property> {
        let name = self.identifier()?;
        self.expect(Symbol::Equal)?;
        if self.is_symbol(Symbol::OpenBrace) {
            let value = PropertyValue::Map(self.property_map()?);
            return Ok(Property { name, value });
        }
        let text = match (self.take_constant(), self.keyword()) {
            (Some(literal), _) => literal.text,
            (None, Some(k)) if !matches!(k.class(), Class::Reserved | Class::Token) => {
                self.identifier()?
            }
            _ => return Err(self.no_alternative()),
        };
        Ok(Property {
            name,
            value: PropertyValue::Text(text),
        })
    }

    /// `fullMapLiteral`, of constants only (`Parser.convertPropertyMap`).
    pub(super) fn property_map(&mut self) -> Parsed<BTreeMap<String, String>> {
        const NO_MARKERS: &str = " (bind variables are not supported in DDL queries)";
        let hint = |term: &Term| match term {
            Term::Marker(_) => NO_MARKERS,
            _ => "",
        };
        self.expect(Symbol::OpenBrace)?;
        let entries = self.list_until(Symbol::CloseBrace, Self::entry)?;
        let mut map = BTreeMap::new();
        for (key, value) in entries {
            let Term::Literal(name) = &key else {
                let hint = hint(&key);
                return Err(CqlError::Syntax(format!(
                    "Invalid property name: {key}{hint}"
                )));
            };
            let Term::Literal(text) = &value else {
                let hint = hint(&value);
                return Err(CqlError::Syntax(format!(
                    "Invalid property value: {value} for property: {key}{hint}"
                )));
            };
            if map.insert(name.text.clone(), text.text.clone()).is_some() {
                return Err(CqlError::Syntax(format!(
                    "Multiple definition for property {}",
                    name.text
                )));
            }
        }
        Ok(map)
    }

    fn alter_table(&mut self) -> Parsed<Statement> {
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
    fn rename(&mut self) -> Parsed<(String, String)> {
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

    fn create_type(&mut self) -> Parsed<Statement> {
        self.next();
        let if_not_exists = self.if_not_exists()?;
        let name = self.type_name()?;
        self.expect(Symbol::Open)?;
        let mut fields = vec![self.field()?];
        while self.take(Symbol::Comma) {
            if !self.is_symbol(Symbol::Comma) && !self.is_symbol(Symbol::Close) {
                fields.push(self.field()?);
            }
        }
        self.expect(Symbol::Close)?;
        Ok(Statement::CreateType(CreateType {
            name,
            if_not_exists,
            fields,
        }))
    }

    fn field(&mut self) -> Parsed<(String, DataType)> {
        Ok((self.identifier()?, self.data_type()?))
    }

    fn alter_type(&mut self) -> Parsed<Statement> {
        self.next();
        let if_exists = self.if_exists()?;
        let name = self.type_name()?;
        let action = match self.keyword() {
            Some(Keyword::Alter) => {
                self.next();
                let field = self.identifier()?;
                self.expect_keyword(Keyword::Type)?;
                let ty = self.data_type()?;
                AlterTypeAction::AlterField { field, ty }
            }
            Some(Keyword::Add) => {
                self.next();
                AlterTypeAction::Add {
                    if_not_exists: self.if_not_exists()?,
                    field: self.identifier()?,
                    ty: self.data_type()?,
                }
            }
            Some(Keyword::Rename) => {
                self.next();
                AlterTypeAction::Rename {
                    if_exists: self.if_exists()?,
                    renames: self.conjunction(Self::rename)?,
                }
            }
            _ => return Err(self.no_alternative()),
        };
        Ok(Statement::AlterType(AlterType {
            name,
            if_exists,
            action,
        }))
    }

    fn create_index(&mut self) -> Parsed<Statement> {
        let custom = self.take_keyword(Keyword::Custom);
        self.expect_keyword(Keyword::Index)?;
        let if_not_exists = self.if_not_exists()?;
        let name = if self.is(Keyword::On) {
            None
        } else {
            Some(self.bare_index_name()?)
        };
        self.expect_keyword(Keyword::On)?;
        let table = self.table_name()?;
        self.expect(Symbol::Open)?;
        let targets = self.list_until(Symbol::Close, Self::index_target)?;
        let using = if self.take_keyword(Keyword::Using) {
            Some(self.string()?)
        } else {
            None
        };
        let properties = if self.is(Keyword::With) {
            self.with_properties()?
        } else {
            Vec::new()
        };
        Ok(Statement::CreateIndex(CreateIndex {
            name,
            table,
            if_not_exists,
            targets,
            custom,
            using,
            properties,
        }))
    }

    /// `indexIdent`
    fn index_target(&mut self) -> Parsed<IndexTarget> {
        let kind = match self.keyword() {
            Some(Keyword::Values) => IndexTargetKind::Values,
            Some(Keyword::Keys) => IndexTargetKind::Keys,
            Some(Keyword::Entries) => IndexTargetKind::Entries,
            Some(Keyword::Full) => IndexTargetKind::Full,
            _ => IndexTargetKind::Simple,
        };
        if kind == IndexTargetKind::Simple || !self.is_symbol_at(1, Symbol::Open) {
            return Ok(IndexTarget {
                kind: IndexTargetKind::Simple,
                column: self.column_name()?,
            });
        }
        self.next();
        self.expect(Symbol::Open)?;
        let column = self.column_name()?;
        self.expect(Symbol::Close)?;
        Ok(IndexTarget { kind, column })
    }

    fn create_view(&mut self) -> Parsed<Statement> {
        self.expect_keywords(&[Keyword::Materialized, Keyword::View])?;
        let if_not_exists = self.if_not_exists()?;
        let view = self.table_name()?;
        self.expect_keywords(&[Keyword::As, Keyword::Select])?;
        let selection = self.select_clause()?;
        self.expect_keyword(Keyword::From)?;
        let base = self.table_name()?;
        let relations = if self.take_keyword(Keyword::Where) {
            self.where_clause()?
        } else {
            Vec::new()
        };
        let primary_key = self.primary_key()?;
        let with = if self.take_keyword(Keyword::With) {
            self.table_properties()?
        } else {
            TableProperties::default()
        };
        if with.compact_storage {
            return Err(CqlError::Syntax(
                "COMPACT STORAGE tables are not allowed starting with version 4.0".to_owned(),
            ));
        }
        Ok(Statement::CreateView(CreateView {
            view,
            if_not_exists,
            base,
            selection,
            relations,
            primary_key,
            clustering_order: with.clustering_order,
            properties: with.properties,
        }))
    }

    fn create_trigger(&mut self) -> Parsed<Statement> {
        self.next();
        let if_not_exists = self.if_not_exists()?;
        let name = self.identifier()?;
        self.expect_keyword(Keyword::On)?;
        let table = self.table_name()?;
        self.expect_keyword(Keyword::Using)?;
        Ok(Statement::CreateTrigger(CreateTrigger {
            name,
            if_not_exists,
            table,
            class: self.string()?,
        }))
    }

    fn create_function(&mut self, or_replace: bool) -> Parsed<Statement> {
        self.next();
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        self.expect(Symbol::Open)?;
        let arguments = self.list_until(Symbol::Close, Self::field)?;
        let called_on_null_input = self.take_keyword(Keyword::Called);
        if !called_on_null_input {
            if !self.is(Keyword::Returns) {
                return Err(self.no_alternative());
            }
            self.expect_keywords(&[Keyword::Returns, Keyword::Null])?;
        }
        self.expect_keywords(&[Keyword::On, Keyword::Null, Keyword::Input])?;
        self.expect_keyword(Keyword::Returns)?;
        let returns = self.data_type()?;
        self.expect_keyword(Keyword::Language)?;
        if self.kind() != TokenKind::Word(None) {
            return Err(self.expecting("IDENT"));
        }
        let language = self.identifier()?;
        self.expect_keyword(Keyword::As)?;
        Ok(Statement::CreateFunction(CreateFunction {
            name,
            or_replace,
            if_not_exists,
            arguments,
            called_on_null_input,
            returns,
            language,
            body: self.string()?,
        }))
    }

    fn create_aggregate(&mut self, or_replace: bool) -> Parsed<Statement> {
        self.next();
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        self.expect(Symbol::Open)?;
        let arguments = self.list_until(Symbol::Close, Self::data_type)?;
        self.expect_keyword(Keyword::StateFunc)?;
        let state_function = self.bare_function_name()?;
        self.expect_keyword(Keyword::StateType)?;
        let state_type = self.data_type()?;
        let final_function = if self.take_keyword(Keyword::FinalFunc) {
            Some(self.bare_function_name()?)
        } else {
            None
        };
        let initial_condition = if self.take_keyword(Keyword::InitCond) {
            Some(self.term()?)
        } else {
            None
        };
        Ok(Statement::CreateAggregate(CreateAggregate {
            name,
            or_replace,
            if_not_exists,
            arguments,
            state_function,
            state_type,
            final_function,
            initial_condition,
        }))
    }
}
