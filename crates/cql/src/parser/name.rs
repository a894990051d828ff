//! Names and types.

use model::{CqlType, MAX_BRACKETS};

use crate::CqlError;
use crate::ast::{DataType, FunctionName, QualifiedName};
use crate::lexer::{Class, Keyword, Symbol, TokenKind};

use super::message::{follows_table, follows_type};
use super::{Parsed, Parser};

impl Parser<'_> {
    /// The name at `offset`, if one stands there whose keyword is of a class that `allowed` takes.
    fn name_at(&self, offset: usize, allowed: impl Fn(Class) -> bool) -> Option<String> {
        let token = self.tokens[(self.at + offset).min(self.tokens.len() - 1)];
        let raw = self.token_text(token);
        match token.kind {
            TokenKind::Word(None) => Some(raw.to_ascii_lowercase()),
            TokenKind::Word(Some(keyword)) if allowed(keyword.class()) => {
                Some(keyword.text().to_owned())
            }
            TokenKind::QuotedName => Some(raw[1..raw.len() - 1].replace("\"\"", "\"")),
            _ => None,
        }
    }

    /// Does a name of the rule `ident` stand at `offset`?
    pub(super) fn is_identifier_at(&self, offset: usize) -> bool {
        match self.kind_at(offset) {
            TokenKind::Word(Some(keyword)) => is_unreserved(keyword.class()),
            TokenKind::Word(None) | TokenKind::QuotedName => true,
            _ => false,
        }
    }

    /// `ident`, `fident`, `noncol_ident`: any name.
    pub(super) fn identifier(&mut self) -> Parsed<String> {
        match self.name_at(0, is_unreserved) {
            Some(name) => {
                self.next();
                Ok(name)
            }
            None => Err(self.no_alternative()),
        }
    }

    /// `cident`: the name of a column, which may be empty.
    pub(super) fn column_name(&mut self) -> Parsed<String> {
        if self.kind() == TokenKind::EmptyQuotedName {
            self.next();
            return Ok(String::new());
        }
        self.identifier()
    }

    /// A name that no marker can stand for.
    fn object_name(&mut self, what: &str) -> Parsed<String> {
        if self.is_symbol(Symbol::Question) {
            return Err(CqlError::Syntax(format!(
                "Bind variables cannot be used for {what} names"
            )));
        }
        self.identifier()
    }

    /// `keyspaceName`
    pub(super) fn keyspace_name(&mut self) -> Parsed<String> {
        self.object_name("keyspace")
    }

    fn qualified(&mut self, what: &str) -> Parsed<QualifiedName> {
        let keyspace = if self.is_symbol_at(1, Symbol::Dot) {
            let keyspace = self.keyspace_name()?;
            self.expect(Symbol::Dot)?;
            Some(keyspace)
        } else {
            None
        };
        Ok(QualifiedName {
            keyspace,
            name: self.object_name(what)?,
        })
    }

    /// `columnFamilyName`
    pub(super) fn table_name(&mut self) -> Parsed<QualifiedName> {
        let from = self.at;
        let name = self.qualified("table")?;
        if name.keyspace.is_none() {
            self.predict(from, follows_table);
        }
        Ok(name)
    }

    /// `indexName`
    pub(super) fn index_name(&mut self) -> Parsed<QualifiedName> {
        self.qualified("index")
    }

    /// `idxName`
    pub(super) fn bare_index_name(&mut self) -> Parsed<String> {
        self.object_name("index")
    }

    /// `userTypeName`
    pub(super) fn type_name(&mut self) -> Parsed<QualifiedName> {
        let keyspace = if self.is_symbol_at(1, Symbol::Dot) {
            let keyspace = self.identifier()?;
            self.expect(Symbol::Dot)?;
            Some(keyspace)
        } else {
            if self.keyword().and_then(native).is_some() {
                // No type is called so, but a keyspace may be.
                self.next();
                self.expect(Symbol::Dot)?;
            }
            None
        };
        Ok(QualifiedName {
            keyspace,
            name: self.bare_type_name()?,
        })
    }

    /// `non_type_ident`
    fn bare_type_name(&mut self) -> Parsed<String> {
        const RESERVED: [&str; 7] = [
            "byte",
            "complex",
            "enum",
            "date",
            "interval",
            "macaddr",
            "bitstring",
        ];
        // Reserved as they are written: `BYTE` is a name.
        let is_reserved = matches!(self.kind(), TokenKind::Word(None))
            && RESERVED.contains(&self.token_text(self.tokens[self.at]));
        let allowed = |class| class == Class::Basic;
        let name = match self.name_at(0, allowed) {
            Some(name) => name,
            None if self.is(Keyword::Key) => "key".to_owned(),
            None => return Err(self.no_alternative()),
        };
        if is_reserved {
            return Err(CqlError::Syntax(format!(
                "Invalid (reserved) user type name {name}"
            )));
        }
        self.next();
        Ok(name)
    }

    /// `roleName`: a text in quotes keeps its case too.
    pub(super) fn role_name(&mut self) -> Parsed<String> {
        if let Some(text) = self.take_string() {
            return Ok(text);
        }
        self.object_name("role")
    }

    /// Does `functionName '('` begin at hand?
    pub(super) fn is_function_call(&self) -> bool {
        let offset = if self.is_identifier_at(0) && self.is_symbol_at(1, Symbol::Dot) {
            2
        } else {
            0
        };
        self.name_at(offset, is_function).is_some() && self.is_symbol_at(offset + 1, Symbol::Open)
    }

    /// `functionName`
    pub(super) fn function_name(&mut self) -> Parsed<FunctionName> {
        let keyspace = if self.is_symbol_at(1, Symbol::Dot) {
            let keyspace = self.keyspace_name()?;
            self.expect(Symbol::Dot)?;
            Some(keyspace)
        } else {
            None
        };
        Ok(FunctionName {
            keyspace,
            name: self.bare_function_name()?,
        })
    }

    /// `allowedFunctionName`: a keyword keeps the letters it is written with, unlike other names, and
    /// unlike names of types.
    pub(super) fn bare_function_name(&mut self) -> Parsed<String> {
        let token = self.tokens[self.at];
        if let TokenKind::Word(Some(keyword)) = token.kind
            && keyword.class() == Class::Basic
        {
            let name = self.token_text(token).to_owned();
            self.next();
            return Ok(name);
        }
        match self.name_at(0, is_function) {
            Some(name) => {
                self.next();
                Ok(name)
            }
            None => Err(self.no_alternative()),
        }
    }

    /// The text of a string, if one is at hand.
    pub(super) fn take_string(&mut self) -> Option<String> {
        let raw = self.token_text(self.tokens[self.at]);
        let text = match self.kind() {
            TokenKind::String => raw[1..raw.len() - 1].replace("''", "'"),
            TokenKind::DollarString => raw[2..raw.len() - 2].to_owned(),
            _ => return None,
        };
        self.next();
        Some(text)
    }

    /// `STRING_LITERAL`
    pub(super) fn string(&mut self) -> Parsed<String> {
        match self.take_string() {
            Some(text) => Ok(text),
            None => Err(self.expecting("STRING_LITERAL")),
        }
    }

    /// `native_type`
    pub(super) fn native_type(&mut self) -> Parsed<CqlType> {
        match self.keyword().and_then(native) {
            Some(ty) => {
                self.next();
                Ok(ty)
            }
            None => Err(self.no_alternative()),
        }
    }

    /// `comparatorType`
    pub(super) fn data_type(&mut self) -> Parsed<DataType> {
        self.nested_up_to(MAX_BRACKETS, Self::data_type_here)
    }

    fn data_type_here(&mut self) -> Parsed<DataType> {
        if let Some(class) = self.take_string() {
            return Ok(DataType::Custom(class));
        }
        let Some(keyword) = self.keyword() else {
            return self.user_type();
        };
        if let Some(ty) = native(keyword) {
            // `int.x` is the type x of the keyspace int.
            if !self.is_symbol_at(1, Symbol::Dot) {
                let from = self.at;
                self.next();
                self.predict(from, follows_type);
                return Ok(match keyword {
                    Keyword::Varchar => DataType::Varchar,
                    _ => DataType::Native(ty),
                });
            }
        }
        // MAP, LIST, TUPLE… are names unless a `<` follows; SET is none.
        if keyword != Keyword::Set && !self.is_symbol_at(1, Symbol::Less) {
            return self.user_type();
        }
        match keyword {
            Keyword::List => Ok(DataType::List(Box::new(self.one_parameter()?))),
            Keyword::Set => Ok(DataType::Set(Box::new(self.one_parameter()?))),
            Keyword::Frozen => self.frozen(),
            Keyword::Map => {
                self.next();
                self.expect(Symbol::Less)?;
                let key = self.data_type()?;
                self.expect(Symbol::Comma)?;
                let value = self.data_type()?;
                self.expect(Symbol::Greater)?;
                Ok(DataType::Map(Box::new(key), Box::new(value)))
            }
            Keyword::Tuple => {
                self.next();
                self.expect(Symbol::Less)?;
                let types = self.list(Self::data_type)?;
                self.expect(Symbol::Greater)?;
                Ok(DataType::Tuple(types))
            }
            Keyword::Vector => self.vector_type(),
            _ => self.user_type(),
        }
    }

    fn frozen(&mut self) -> Parsed<DataType> {
        let inner = self.one_parameter()?;
        if let DataType::Native(_) | DataType::Varchar | DataType::Custom(_) = inner {
            return Err(CqlError::Syntax(format!(
                "frozen<> is only allowed on collections, tuples, and user-defined types (got \
                 {inner})"
            )));
        }
        Ok(DataType::Frozen(inner.into()))
    }

    fn one_parameter(&mut self) -> Parsed<DataType> {
        self.next();
        self.expect(Symbol::Less)?;
        let ty = self.data_type()?;
        self.expect(Symbol::Greater)?;
        Ok(ty)
    }

    fn vector_type(&mut self) -> Parsed<DataType> {
        self.next();
        self.expect(Symbol::Less)?;
        let element = self.data_type()?;
        self.expect(Symbol::Comma)?;
        if self.kind() != TokenKind::Integer {
            return Err(self.expecting("INTEGER"));
        }
        let text = self.token_text(self.tokens[self.at]);
        let dimension = text
            .parse()
            .map_err(|_| CqlError::Syntax(format!("For input string: \"{text}\"")))?;
        self.next();
        self.expect(Symbol::Greater)?;
        Ok(DataType::Vector(Box::new(element), dimension))
    }

    fn user_type(&mut self) -> Parsed<DataType> {
        let QualifiedName { keyspace, name } = self.type_name()?;
        Ok(DataType::User { keyspace, name })
    }
}

fn is_unreserved(class: Class) -> bool {
    !matches!(class, Class::Reserved | Class::Token)
}

fn is_function(class: Class) -> bool {
    !matches!(class, Class::Reserved | Class::Special)
}

/// The type that a keyword is the name of.
fn native(keyword: Keyword) -> Option<CqlType> {
    Some(match keyword {
        Keyword::Ascii => CqlType::Ascii,
        Keyword::Bigint => CqlType::Bigint,
        Keyword::Blob => CqlType::Blob,
        Keyword::Boolean => CqlType::Boolean,
        Keyword::Counter => CqlType::Counter,
        Keyword::Date => CqlType::Date,
        Keyword::Decimal => CqlType::Decimal,
        Keyword::Double => CqlType::Double,
        Keyword::Duration => CqlType::Duration,
        Keyword::Float => CqlType::Float,
        Keyword::Inet => CqlType::Inet,
        Keyword::Int => CqlType::Int,
        Keyword::Smallint => CqlType::Smallint,
        Keyword::Text | Keyword::Varchar => CqlType::Text,
        Keyword::Time => CqlType::Time,
        Keyword::Timestamp => CqlType::Timestamp,
        Keyword::Timeuuid => CqlType::Timeuuid,
        Keyword::Tinyint => CqlType::Tinyint,
        Keyword::Uuid => CqlType::Uuid,
        Keyword::Varint => CqlType::Varint,
        _ => return None,
    })
}
