//! What can be wrong with a statement.

/// Why a statement was refused: one variant for each error code of the native protocol that
/// parsing, analysis and planning give. Texts are Cassandra's where clients know them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CqlError {
    /// What the client sent back is nothing that it was given (`ProtocolException`).
    #[error("{0}")]
    Protocol(String),
    /// The text is no statement (`SyntaxException`).
    #[error("{0}")]
    Syntax(String),
    /// The user may not do this (`UnauthorizedException`).
    #[error("{0}")]
    Unauthorized(String),
    /// A statement that makes no sense with this schema or these values
    /// (`InvalidRequestException`).
    #[error("{0}")]
    Invalid(String),
    /// An option has an impossible value (`ConfigurationException`).
    #[error("{0}")]
    Config(String),
    /// What is to be created is there already (`AlreadyExistsException`).
    #[error("{}", already_exists(.keyspace, .table))]
    AlreadyExists {
        /// The keyspace that exists, or that has the table.
        keyspace: String,
        /// The table; empty where the keyspace itself exists.
        table: String,
    },
    /// A function failed while it was executed (`FunctionExecutionException`).
    #[error("{message}")]
    Function {
        /// The function's keyspace.
        keyspace: String,
        /// Its name.
        function: String,
        /// The CQL types of its arguments.
        argument_types: Vec<String>,
        /// What happened.
        message: String,
    },
    /// Nothing is wrong: a user-defined function gave way, and what was evaluated is to be evaluated
    /// again. Only who allowed it gets it ([`may_give_way`]), and never a client.
    ///
    /// [`may_give_way`]: crate::functions::FunctionContext::may_give_way
    #[error("a function gave way")]
    GaveWay,
}

impl CqlError {
    /// What a client sent as a paging state is none.
    pub(crate) fn malformed_paging_state() -> CqlError {
        CqlError::Protocol("Invalid value for the paging state".to_owned())
    }

    /// The error code of the native protocol (specification v5, section 9).
    pub fn code(&self) -> i32 {
        match self {
            CqlError::GaveWay => 0x0000,
            CqlError::Protocol(_) => 0x000A,
            CqlError::Function { .. } => 0x1400,
            CqlError::Syntax(_) => 0x2000,
            CqlError::Unauthorized(_) => 0x2100,
            CqlError::Invalid(_) => 0x2200,
            CqlError::Config(_) => 0x2300,
            CqlError::AlreadyExists { .. } => 0x2400,
        }
    }
}

fn already_exists(keyspace: &str, table: &str) -> String {
    if table.is_empty() {
        format!("Cannot add existing keyspace \"{keyspace}\"")
    } else {
        format!("Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\"")
    }
}

/// Refuses with [`CqlError::Invalid`] and a formatted text.
macro_rules! invalid {
    ($($arg:tt)*) => { Err($crate::CqlError::Invalid(format!($($arg)*))) };
}
pub(crate) use invalid;
