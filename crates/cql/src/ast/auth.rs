//! Roles and permissions.

use std::collections::BTreeMap;

use super::{DataType, FunctionName, QualifiedName};

/// A set of names that may also be "all".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataCenters {
    /// `ALL`
    All,
    /// These.
    Some(Vec<String>),
}

/// The options of a role; what is not given is `None`. Conflicts between the three forms of
/// passwords are already refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// `PASSWORD = '…'`
    pub password: Option<String>,
    /// `HASHED PASSWORD = '…'`
    pub hashed_password: Option<String>,
    /// `SUPERUSER = …`
    pub superuser: Option<bool>,
    /// `LOGIN = …`
    pub login: Option<bool>,
    /// `OPTIONS = {…}`
    pub options: Option<BTreeMap<String, String>>,
    /// `ACCESS TO DATACENTERS {…}`
    pub data_centers: Option<DataCenters>,
    /// `ACCESS FROM CIDRS {…}`
    pub cidrs: Option<DataCenters>,
}

/// `CREATE ROLE`, `CREATE USER` (which sets `LOGIN`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRole {
    /// Its name.
    pub role: String,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `WITH`
    pub options: RoleOptions,
}

/// `ALTER ROLE`, `ALTER USER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterRole {
    /// Its name.
    pub role: String,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `WITH`
    pub options: RoleOptions,
}

/// What may be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// `CREATE`
    Create,
    /// `ALTER`
    Alter,
    /// `DROP`
    Drop,
    /// `SELECT`
    Select,
    /// `MODIFY`
    Modify,
    /// `AUTHORIZE`
    Authorize,
    /// `DESCRIBE`
    Describe,
    /// `EXECUTE`
    Execute,
    /// `UNMASK`
    Unmask,
    /// `SELECT_MASKED`
    SelectMasked,
}

impl Permission {
    /// All, in Cassandra's order: what `ALL PERMISSIONS` stands for.
    pub const ALL: [Permission; 10] = [
        Permission::Create,
        Permission::Alter,
        Permission::Drop,
        Permission::Select,
        Permission::Modify,
        Permission::Authorize,
        Permission::Describe,
        Permission::Execute,
        Permission::Unmask,
        Permission::SelectMasked,
    ];
}

/// What a permission is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    /// `ALL KEYSPACES`
    AllKeyspaces,
    /// `KEYSPACE name`
    Keyspace(String),
    /// `[TABLE] name`
    Table(QualifiedName),
    /// `ALL TABLES IN KEYSPACE name`
    AllTables(String),
    /// `ALL ROLES`
    AllRoles,
    /// `ROLE name`
    Role(String),
    /// `ALL FUNCTIONS`
    AllFunctions,
    /// `ALL FUNCTIONS IN KEYSPACE name`
    AllFunctionsIn(String),
    /// `FUNCTION name(types)`
    Function(FunctionName, Vec<DataType>),
    /// `ALL MBEANS`
    AllMbeans,
    /// `MBEAN 'name'` or `MBEANS 'pattern'`
    Mbean(String),
}

/// `GRANT` or `REVOKE` of permissions.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Which.
    pub permissions: Vec<Permission>,
    /// On what.
    pub resource: Resource,
    /// To, or from whom.
    pub role: String,
}

/// `LIST permissions [ON resource] [OF role] [NORECURSIVE]`
#[derive(Clone, Debug, PartialEq)]
pub struct ListPermissions {
    /// Which.
    pub permissions: Vec<Permission>,
    /// On what.
    pub resource: Option<Resource>,
    /// Of whom.
    pub of: Option<String>,
    /// Without `NORECURSIVE`?
    pub recursive: bool,
}
