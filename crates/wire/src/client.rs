//! The client's side of the protocol: for tests, simulations and tools.

mod connection;
mod request;
mod response;

pub use connection::ClientConnection;
pub use request::put_request;
pub use response::{
    ColumnDescription, PreparedStatement, QueryResult, Response, ResponseMessage, Rows,
};
