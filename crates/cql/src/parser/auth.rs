//! Roles and permissions.

use crate::CqlError;
use crate::ast::{
    AlterRole, CreateRole, DataCenters, Grant, ListPermissions, Permission, Resource, RoleOptions,
    Statement,
};
use crate::error::invalid;
use crate::lexer::{Keyword, Symbol, TokenKind};

use super::{Parsed, Parser, object_name};

impl Parser<'_> {
    pub(super) fn grant(&mut self) -> Parsed<Statement> {
        self.next();
        if !self.is_permissions() {
            let role = self.role_name()?;
            self.expect_keyword(Keyword::To)?;
            let grantee = self.role_name()?;
            return Ok(Statement::GrantRole { role, grantee });
        }
        Ok(Statement::GrantPermissions(
            self.permissions_on(Keyword::To)?,
        ))
    }

    pub(super) fn revoke(&mut self) -> Parsed<Statement> {
        self.next();
        if !self.is_permissions() {
            let role = self.role_name()?;
            self.expect_keyword(Keyword::From)?;
            let revokee = self.role_name()?;
            return Ok(Statement::RevokeRole { role, revokee });
        }
        Ok(Statement::RevokePermissions(
            self.permissions_on(Keyword::From)?,
        ))
    }

    fn permissions_on(&mut self, before_role: Keyword) -> Parsed<Grant> {
        let permissions = self.permissions()?;
        self.expect_keyword(Keyword::On)?;
        let resource = self.resource()?;
        self.expect_keyword(before_role)?;
        let role = self.role_name()?;
        Ok(Grant {
            permissions: applicable(permissions, &resource)?,
            resource,
            role,
        })
    }

    pub(super) fn list_statement(&mut self) -> Parsed<Statement> {
        self.next();
        match self.keyword() {
            Some(Keyword::Users) => {
                self.next();
                Ok(Statement::ListUsers)
            }
            Some(Keyword::Roles) => {
                self.next();
                let of = self.of_role()?;
                let recursive = !self.take_keyword(Keyword::NoRecursive);
                Ok(Statement::ListRoles { of, recursive })
            }
            _ => {
                let permissions = self.permissions()?;
                let resource = if self.take_keyword(Keyword::On) {
                    Some(self.resource()?)
                } else {
                    None
                };
                Ok(Statement::ListPermissions(ListPermissions {
                    permissions,
                    resource,
                    of: self.of_role()?,
                    recursive: !self.take_keyword(Keyword::NoRecursive),
                }))
            }
        }
    }

    fn of_role(&mut self) -> Parsed<Option<String>> {
        if self.take_keyword(Keyword::Of) {
            return Ok(Some(self.role_name()?));
        }
        Ok(None)
    }

    /// Do permissions begin here, not the name of a role?
    fn is_permissions(&self) -> bool {
        let follows = self.is_symbol_at(1, Symbol::Comma)
            || matches!(
                self.kind_at(1),
                TokenKind::Word(Some(
                    Keyword::On | Keyword::Permission | Keyword::Permissions
                ))
            );
        match self.keyword() {
            Some(Keyword::All) => follows,
            Some(keyword) => permission(keyword).is_some() && follows,
            None => false,
        }
    }

    /// `permissionOrAll`
    fn permissions(&mut self) -> Parsed<Vec<Permission>> {
        if self.take_keyword(Keyword::All) {
            self.take_keyword(Keyword::Permissions);
            return Ok(Permission::ALL.to_vec());
        }
        let mut permissions = self.list(|parser| {
            let Some(permission) = parser.keyword().and_then(permission) else {
                return Err(parser.no_alternative());
            };
            parser.next();
            parser.take_keyword(Keyword::Permission);
            Ok(permission)
        })?;
        permissions.sort_unstable();
        permissions.dedup();
        Ok(permissions)
    }

    /// `resource`
    fn resource(&mut self) -> Parsed<Resource> {
        // ROLE, FUNCTION, MBEAN and ALL may also be names of tables.
        let table = self.is_symbol_at(1, Symbol::Dot)
            || matches!(
                self.kind_at(1),
                TokenKind::Word(Some(
                    Keyword::To | Keyword::From | Keyword::Of | Keyword::NoRecursive
                )) | TokenKind::End
                    | TokenKind::Symbol(Symbol::Semicolon)
            );
        let keyword = self.keyword().filter(|_| !table);
        match keyword {
            Some(Keyword::All) => {
                self.next();
                self.resource_of_all()
            }
            Some(Keyword::Keyspace) => {
                self.next();
                Ok(Resource::Keyspace(self.keyspace_name()?))
            }
            Some(Keyword::Table | Keyword::ColumnFamily) => {
                self.next();
                Ok(Resource::Table(self.table_name()?))
            }
            Some(Keyword::Role) => {
                self.next();
                Ok(Resource::Role(self.role_name()?))
            }
            Some(Keyword::Function) => {
                self.next();
                let name = self.function_name()?;
                self.expect(Symbol::Open)?;
                let types = self.list_until(Symbol::Close, Self::data_type)?;
                match name.keyspace.as_deref() {
                    None => invalid!(
                        "In this context function name must be explictly qualified by a keyspace"
                    ),
                    Some("system") => {
                        invalid!("Altering permissions on builtin functions is not supported")
                    }
                    Some(_) => Ok(Resource::Function(name, types)),
                }
            }
            Some(keyword @ (Keyword::Mbean | Keyword::Mbeans)) => {
                self.next();
                let name = self.string()?;
                object_name::check(&name, keyword == Keyword::Mbeans)?;
                Ok(Resource::Mbean(name))
            }
            _ => Ok(Resource::Table(self.table_name()?)),
        }
    }

    /// What follows `ALL` of a resource.
    fn resource_of_all(&mut self) -> Parsed<Resource> {
        let Some(keyword) = self.keyword() else {
            return Err(self.no_alternative());
        };
        let resource = match keyword {
            Keyword::Keyspaces => Resource::AllKeyspaces,
            Keyword::Roles => Resource::AllRoles,
            Keyword::Mbeans => Resource::AllMbeans,
            Keyword::Functions => {
                self.next();
                if !self.take_keyword(Keyword::In) {
                    return Ok(Resource::AllFunctions);
                }
                self.expect_keyword(Keyword::Keyspace)?;
                return Ok(Resource::AllFunctionsIn(self.keyspace_name()?));
            }
            Keyword::Tables | Keyword::ColumnFamilies => {
                self.next();
                self.expect_keywords(&[Keyword::In, Keyword::Keyspace])?;
                return Ok(Resource::AllTables(self.keyspace_name()?));
            }
            _ => return Err(self.no_alternative()),
        };
        self.next();
        Ok(resource)
    }

    /// `username`
    fn user_name(&mut self) -> Parsed<String> {
        if self.kind() == TokenKind::QuotedName {
            return Err(CqlError::Syntax(
                "Quoted strings are are not supported for user names and USER is deprecated, please use ROLE".to_owned(),
            ));
        }
        self.plain_name()
    }

    /// `identity`
    fn identity(&mut self) -> Parsed<String> {
        if self.kind() == TokenKind::QuotedName {
            return Err(CqlError::Syntax(
                "Quoted strings are are not supported for identity".to_owned(),
            ));
        }
        self.plain_name()
    }

    /// A word that is no keyword, or a string, as they are.
    fn plain_name(&mut self) -> Parsed<String> {
        if let Some(text) = self.take_string() {
            return Ok(text);
        }
        if self.kind() != TokenKind::Word(None) {
            return Err(self.no_alternative());
        }
        let token = self.next();
        Ok(self.token_text(token).to_owned())
    }

    pub(super) fn create_user(&mut self) -> Parsed<Statement> {
        self.next();
        let if_not_exists = self.if_not_exists()?;
        let role = self.user_name()?;
        let mut options = self.user_options()?;
        options.login = Some(true);
        options.superuser = Some(options.superuser.unwrap_or(false));
        Ok(Statement::CreateRole(CreateRole {
            role,
            if_not_exists,
            options,
        }))
    }

    pub(super) fn alter_user(&mut self) -> Parsed<Statement> {
        self.next();
        Ok(Statement::AlterRole(AlterRole {
            if_exists: self.if_exists()?,
            role: self.user_name()?,
            options: self.user_options()?,
        }))
    }

    fn user_options(&mut self) -> Parsed<RoleOptions> {
        let mut options = RoleOptions::default();
        if self.take_keyword(Keyword::With) {
            let hashed = self.take_keyword(Keyword::Hashed);
            if !hashed && self.keyword() != Some(Keyword::Password) {
                return Err(self.no_alternative());
            }
            self.expect_keyword(Keyword::Password)?;
            let password = Some(self.string()?);
            if hashed {
                options.hashed_password = password;
            } else {
                options.password = password;
            }
        }
        if self.take_keyword(Keyword::Superuser) {
            options.superuser = Some(true);
        } else if self.take_keyword(Keyword::NoSuperuser) {
            options.superuser = Some(false);
        }
        Ok(options)
    }

    pub(super) fn create_role(&mut self) -> Parsed<Statement> {
        self.next();
        let if_not_exists = self.if_not_exists()?;
        let role = self.role_name()?;
        let mut options = self.role_options()?;
        options.login = Some(options.login.unwrap_or(false));
        options.superuser = Some(options.superuser.unwrap_or(false));
        Ok(Statement::CreateRole(CreateRole {
            role,
            if_not_exists,
            options,
        }))
    }

    pub(super) fn alter_role(&mut self) -> Parsed<Statement> {
        self.next();
        Ok(Statement::AlterRole(AlterRole {
            if_exists: self.if_exists()?,
            role: self.role_name()?,
            options: self.role_options()?,
        }))
    }

    /// `[WITH roleOptions]`
    fn role_options(&mut self) -> Parsed<RoleOptions> {
        let mut options = RoleOptions::default();
        if !self.take_keyword(Keyword::With) {
            return Ok(options);
        }
        self.conjunction(|parser| parser.role_option(&mut options))?;
        if options.password.is_some() && options.hashed_password.is_some() {
            return Err(CqlError::Syntax(
                "Options 'password' and 'hashed password' are mutually exclusive".to_owned(),
            ));
        }
        Ok(options)
    }

    fn role_option(&mut self, options: &mut RoleOptions) -> Parsed<()> {
        let Some(keyword) = self.keyword() else {
            return Err(self.no_alternative());
        };
        match keyword {
            Keyword::Password => {
                self.next();
                self.expect(Symbol::Equal)?;
                set_once(&mut options.password, self.string()?)
            }
            Keyword::Hashed => {
                self.next();
                self.expect_keyword(Keyword::Password)?;
                self.expect(Symbol::Equal)?;
                set_once(&mut options.hashed_password, self.string()?)
            }
            Keyword::Options => {
                self.next();
                self.expect(Symbol::Equal)?;
                set_once(&mut options.options, self.property_map()?)
            }
            Keyword::Superuser => set_once(&mut options.superuser, self.boolean_option()?),
            Keyword::Login => set_once(&mut options.login, self.boolean_option()?),
            Keyword::Access => {
                self.next();
                if self.take_keyword(Keyword::To) {
                    options.data_centers = Some(self.places(Keyword::Datacenters)?);
                } else if self.take_keyword(Keyword::From) {
                    options.cidrs = Some(self.places(Keyword::Cidrs)?);
                } else {
                    return Err(self.no_alternative());
                }
                Ok(())
            }
            _ => Err(self.no_alternative()),
        }
    }

    fn boolean_option(&mut self) -> Parsed<bool> {
        self.next();
        self.expect(Symbol::Equal)?;
        if self.kind() != TokenKind::Boolean {
            return Err(self.expecting("BOOLEAN"));
        }
        let token = self.next();
        Ok(self.token_text(token).eq_ignore_ascii_case("true"))
    }

    /// `ALL DATACENTERS`, `DATACENTERS {'a', 'b'}`, and the same for CIDRS.
    fn places(&mut self, what: Keyword) -> Parsed<DataCenters> {
        if self.take_keyword(Keyword::All) {
            self.expect_keyword(what)?;
            return Ok(DataCenters::All);
        }
        self.expect_keyword(what)?;
        self.expect(Symbol::OpenBrace)?;
        let names = self.list(Self::string)?;
        self.expect(Symbol::CloseBrace)?;
        Ok(DataCenters::Some(names))
    }

    /// `DROP ROLE`, `DROP USER`, `DROP IDENTITY`
    pub(super) fn drop_role(&mut self) -> Parsed<Statement> {
        let keyword = self.keyword();
        self.next();
        let if_exists = self.if_exists()?;
        Ok(match keyword {
            Some(Keyword::Identity) => Statement::DropIdentity {
                identity: self.identity()?,
                if_exists,
            },
            Some(Keyword::User) => Statement::DropRole {
                role: self.user_name()?,
                if_exists,
            },
            _ => Statement::DropRole {
                role: self.role_name()?,
                if_exists,
            },
        })
    }

    pub(super) fn add_identity(&mut self) -> Parsed<Statement> {
        self.expect_keywords(&[Keyword::Add, Keyword::Identity])?;
        let if_not_exists = self.if_not_exists()?;
        let identity = self.identity()?;
        self.expect_keywords(&[Keyword::To, Keyword::Role])?;
        let role = self.identity()?;
        Ok(Statement::AddIdentity {
            identity,
            role,
            if_not_exists,
        })
    }
}

/// Options come once (`RoleOptions.setOption`).
fn set_once<T>(option: &mut Option<T>, value: T) -> Parsed<()> {
    if option.is_some() {
        return Err(CqlError::Syntax(
            "Multiple definition for property of the role".to_owned(),
        ));
    }
    *option = Some(value);
    Ok(())
}

fn permission(keyword: Keyword) -> Option<Permission> {
    Some(match keyword {
        Keyword::Create => Permission::Create,
        Keyword::Alter => Permission::Alter,
        Keyword::Drop => Permission::Drop,
        Keyword::Select => Permission::Select,
        Keyword::Modify => Permission::Modify,
        Keyword::Authorize => Permission::Authorize,
        Keyword::Describe => Permission::Describe,
        Keyword::Execute => Permission::Execute,
        Keyword::Unmask => Permission::Unmask,
        Keyword::SelectMasked => Permission::SelectMasked,
        _ => return None,
    })
}

/// Those permissions that the resource knows (`Parser.filterPermissions`).
fn applicable(permissions: Vec<Permission>, resource: &Resource) -> Parsed<Vec<Permission>> {
    use Permission::{
        Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select, SelectMasked, Unmask,
    };
    let (class, known): (&str, &[Permission]) = match resource {
        Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::AllTables(_) => (
            "DataResource",
            &[
                Create,
                Alter,
                Drop,
                Select,
                Modify,
                Authorize,
                Unmask,
                SelectMasked,
            ],
        ),
        Resource::Table(_) => (
            "DataResource",
            &[Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked],
        ),
        Resource::AllRoles => ("RoleResource", &[Create, Alter, Drop, Authorize, Describe]),
        Resource::Role(_) => ("RoleResource", &[Alter, Drop, Authorize, Describe]),
        Resource::AllFunctions | Resource::AllFunctionsIn(_) => (
            "FunctionResource",
            &[Create, Alter, Drop, Authorize, Execute],
        ),
        Resource::Function(..) => ("FunctionResource", &[Alter, Drop, Authorize, Execute]),
        Resource::AllMbeans | Resource::Mbean(_) => (
            "JMXResource",
            &[Authorize, Describe, Execute, Modify, Select],
        ),
    };
    let kept: Vec<Permission> = permissions
        .into_iter()
        .filter(|permission| known.contains(permission))
        .collect();
    if kept.is_empty() {
        return Err(CqlError::Syntax(format!(
            "Resource type {class} does not support any of the requested permissions"
        )));
    }
    Ok(kept)
}
