//! One connection under TLS.

use std::io::{Read, Write};
use std::net::IpAddr;

use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;
use rustls::{ClientConnection, Connection, ServerConnection};

use super::error::TlsError;

/// One side of a connection under TLS, without its socket.
pub struct Tls {
    connection: Connection,
    /// Must the certificate of who connects be for its address?
    verify_address: bool,
}

impl Tls {
    pub(super) fn client(mut connection: ClientConnection) -> Tls {
        connection.set_buffer_limit(None);
        Tls {
            connection: connection.into(),
            verify_address: false,
        }
    }

    pub(super) fn server(mut connection: ServerConnection, verify_address: bool) -> Tls {
        // Callers give what they send piece by piece, and take it out at once.
        connection.set_buffer_limit(None);
        Tls {
            connection: connection.into(),
            verify_address,
        }
    }

    /// Have both sides not agreed yet? Nothing can be said then.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Takes bytes that came in; what they say is appended to `plain`. There may be something to send
    /// afterwards, after an error too: see [`Tls::take_output`].
    ///
    /// # Errors
    /// The connection is to be closed.
    pub fn receive(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), TlsError> {
        while !bytes.is_empty() {
            // It takes as much at a time as it has room for, and nothing behind the end.
            match self.connection.read_tls(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(rustls::Error::General(error.to_string()).into()),
            }
            let state = self.connection.process_new_packets()?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            let read = self.connection.reader().read_exact(&mut plain[start..]);
            read.map_err(|error| rustls::Error::General(error.to_string()))?;
        }
        Ok(())
    }

    /// Encrypts `plain`, and appends all that is to be sent to `into`.
    pub fn send(&mut self, plain: &[u8], into: &mut Vec<u8>) {
        let written = self.connection.writer().write_all(plain);
        debug_assert!(written.is_ok(), "there is no limit");
        self.take_output(into);
    }

    /// Appends all that is to be sent to `into`.
    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        while self.connection.wants_write() {
            let written = self.connection.write_tls(into);
            debug_assert!(written.is_ok(), "memory takes everything");
            if !matches!(written, Ok(1..)) {
                return;
            }
        }
    }

    /// Is the certificate of who connected for the address that it says it is at? That is not always where it
    /// connects from. Who shows none, and need not, may be anywhere.
    ///
    /// # Errors
    /// It is not.
    pub fn judge_address(&self, address: IpAddr) -> Result<(), TlsError> {
        let certificates = self.connection.peer_certificates();
        let Some([certificate, ..]) = certificates.filter(|_| self.verify_address) else {
            return Ok(());
        };
        let certificate = ParsedCertificate::try_from(certificate)?;
        let name = ServerName::IpAddress(address.into());
        verify_server_name(&certificate, &name).map_err(|_| TlsError::OtherAddress(address))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("verify_address", &self.verify_address)
            .finish_non_exhaustive()
    }
}
