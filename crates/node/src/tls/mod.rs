//! TLS, without sockets: bytes that came in go in, plain bytes and bytes to be sent come out.
//!
//! | file | what |
//! |---|---|
//! | [`context`] | certificates, keys and what is asked of the other side, as [`rustls`] wants them |
//! | [`session`] | one connection |
//! | [`error`] | what goes wrong, in words of who has to mend it |
//!
//! Sessions are not resumed: whoever connects after certificates were replaced meets the new ones, and no
//! shard has to know what another one promised.

mod context;
mod error;
mod session;

pub use context::{ClientAuth, Credentials, Keystore, TlsContext, TlsSettings, TlsVersions};
pub use error::{CredentialsError, TlsError};
pub use session::Tls;
