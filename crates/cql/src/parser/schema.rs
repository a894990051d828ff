//! Statements that change the schema.

use std::collections::BTreeMap;

use crate::CqlError;
use crate::ast::{
    AlterKeyspace, AlterType, AlterTypeAction, AlterView, CreateAggregate, CreateFunction,
    CreateIndex, CreateKeyspace, CreateTrigger, CreateType, CreateView, DataType, Drop,
    DropFunction, DropTrigger, IndexTarget, IndexTargetKind, Property, PropertyValue, Statement,
    Term,
};
use crate::lexer::{Class, Keyword, Symbol, TokenKind};

use super::table::TableProperties;
use super::{Parsed, Parser};

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Parsed<Statement> {
        let from = self.at;
        self.expect_keyword(Keyword::Create)?;
        let or_replace = self.take_keyword(Keyword::Or);
        if or_replace {
            self.expect_keyword(Keyword::Replace)?;
        }
        let Some(keyword) = self.keyword() else {
            return Err(self.no_alternative_after(from));
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
            _ => Err(self.no_alternative_after(from)),
        }
    }

    pub(super) fn alter(&mut self) -> Parsed<Statement> {
        let from = self.at;
        self.expect_keyword(Keyword::Alter)?;
        let Some(keyword) = self.keyword() else {
            return Err(self.no_alternative_after(from));
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
            _ => Err(self.no_alternative_after(from)),
        }
    }

    pub(super) fn drop(&mut self) -> Parsed<Statement> {
        let from = self.at;
        self.expect_keyword(Keyword::Drop)?;
        let Some(keyword) = self.keyword() else {
            return Err(self.no_alternative_after(from));
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
            _ => Err(self.no_alternative_after(from)),
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

    pub(super) fn with_properties(&mut self) -> Parsed<Vec<Property>> {
        self.expect_keyword(Keyword::With)?;
        self.conjunction(Self::property)
    }

    /// `property`
    pub(super) fn property(&mut self) -> Parsed<Property> {
        let from = self.at;
        let name = self.identifier()?;
        self.predict(from, |kind| kind == TokenKind::Symbol(Symbol::Equal));
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
            _ => return Err(self.no_alternative_after(from)),
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
        let is_named = self.is_identifier_at(0) || self.is_symbol(Symbol::Question);
        let name = match is_named {
            true => Some(self.bare_index_name()?),
            false => None,
        };
        self.expect_keyword(Keyword::On)?;
        let table = self.table_name()?;
        self.expect(Symbol::Open)?;
        let names_a_part = self.is(Keyword::Full) || self.is(Keyword::Entries);
        let targets = match names_a_part || self.is_identifier_at(0) {
            true => self.list(Self::index_target)?,
            false => Vec::new(),
        };
        self.expect(Symbol::Close)?;
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
            has_markers: self.has_markers(),
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
