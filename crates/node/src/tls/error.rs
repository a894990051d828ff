//! What goes wrong with TLS.

use std::net::IpAddr;

use rustls::{AlertDescription, CertificateError, Error};

/// Certificates, keys or settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A Java keystore.
    #[error(
        "{0} is a Java keystore, and PEM is needed: `keytool -importkeystore -srckeystore FILE \
         -destkeystore FILE.p12 -deststoretype PKCS12`, then `openssl pkcs12 -in FILE.p12 -nodes -out \
         FILE.pem`"
    )]
    JavaKeystore(&'static str),
    /// A PKCS#12 file.
    #[error(
        "{0} is PKCS#12 or another binary form, and PEM is needed: `openssl pkcs12 -in FILE -nodes -out \
         FILE.pem`"
    )]
    Binary(&'static str),
    /// There is no certificate in it.
    #[error("{0} has no certificate in PEM (-----BEGIN CERTIFICATE-----)")]
    NoCertificate(&'static str),
    /// A certificate in it cannot be read.
    #[error("{0} has a certificate that cannot be read: {1}")]
    BadCertificate(&'static str, String),
    /// There is no private key in it.
    #[error("{0} has no private key in PEM (-----BEGIN PRIVATE KEY-----)")]
    NoKey(&'static str),
    /// A private key in it cannot be read.
    #[error("{0} has a private key that cannot be read: {1}")]
    BadKey(&'static str, String),
    /// The private key is under a password, and there is none.
    #[error("the private key of {0} is encrypted: give its password")]
    NoPassword(&'static str),
    /// The private key is under another password, or encrypted in a way of old.
    #[error(
        "the private key of {0} cannot be decrypted: {1}; if the password is right, `openssl pkcs8 -topk8 \
         -v2 aes-256-cbc` encrypts it in a way that is understood"
    )]
    WrongPassword(&'static str, String),
    /// Key and certificate are not of each other, or not usable.
    #[error("key and certificate of {0} cannot be used: {1}")]
    Unusable(&'static str, String),
    /// None of the cipher suites is known.
    #[error(
        "none of cipher_suites is known: leave them out, or choose among {}",
        super::context::suite_names().join(", ")
    )]
    NoCipherSuite,
}

/// A connection under TLS fails.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TlsError {
    /// The other side breaks the protocol, or shows a certificate that is not taken.
    #[error("{}", explain(.0))]
    Failed(Error),
    /// Its certificate is not for the address that it says it is at.
    #[error(
        "its certificate is not for its address {0}: add the address to the certificate, or set \
         require_endpoint_verification: false"
    )]
    OtherAddress(IpAddr),
}

impl From<Error> for TlsError {
    fn from(error: Error) -> TlsError {
        TlsError::Failed(error)
    }
}

/// What an operator has to know.
fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(bad) => explain_certificate(bad),
        Error::NoCertificatesPresented => {
            "it shows no certificate, and require_client_auth asks for one".to_owned()
        }
        Error::PeerIncompatible(why) => {
            format!(
                "no version of TLS or cipher suite is spoken by both ({why:?}): compare protocol and cipher_suites"
            )
        }
        Error::AlertReceived(
            alert @ (AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion),
        ) => {
            format!(
                "no version of TLS or cipher suite is spoken by both (alert {alert:?}): compare protocol and cipher_suites"
            )
        }
        Error::AlertReceived(alert) => {
            format!(
                "it does not take this node's certificate or words (alert {alert:?}): its log says why"
            )
        }
        Error::InvalidMessage(_) => "what it says is not TLS".to_owned(),
        other => other.to_string(),
    }
}

fn explain_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: compare the clocks".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is of nobody whom truststore (trusted_certificates) has".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is not for its address: add the address to the certificate, or set \
             require_endpoint_verification: false"
                .to_owned()
        }
        other => format!("its certificate is not taken: {other}"),
    }
}
