//! Certificates, keys and what is asked of the other side.
//!
//! Names and meanings are those of Cassandra's `EncryptionOptions` and `PEMBasedSslContextFactory`.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::SecretDocument;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    ServerConfig, ServerConnection, SignatureScheme, SupportedCipherSuite,
    SupportedProtocolVersion,
};

use super::error::{CredentialsError, TlsError};
use super::session::Tls;

/// Which versions of TLS are spoken (`protocol`, `accepted_protocols`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersions {
    /// 1.2 and 1.3.
    #[default]
    Both,
    /// 1.2 alone.
    V12,
    /// 1.3 alone.
    V13,
}

/// Does who connects have to show a certificate (`require_client_auth`)?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// It is not asked.
    #[default]
    None,
    /// It is asked; what it shows has to be good.
    Optional,
    /// It has to.
    Required,
}

/// What is asked of the other side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Which versions are spoken.
    pub versions: TlsVersions,
    /// Cipher suites by their names in Java or IANA, the preferred first; those that are not known are
    /// passed over. `None`: all that are safe.
    pub cipher_suites: Option<Vec<String>>,
    /// Does who connects have to show a certificate?
    pub client_auth: ClientAuth,
    /// Must a certificate be for the address of who shows it (`require_endpoint_verification`)?
    pub verify_addresses: bool,
}

/// A private key and the certificates that go with it, its own first, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Keystore {
    /// The text.
    pub pem: Vec<u8>,
    /// The password of the private key, if it has one.
    pub password: Option<String>,
}

/// What a node shows, and what it believes.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// What it shows (`keystore`, `private_key`).
    pub keystore: Keystore,
    /// What it shows where it connects, if that is something else (`outbound_keystore`).
    pub outbound: Option<Keystore>,
    /// The certificates of those whose signature it believes, in PEM (`truststore`,
    /// `trusted_certificates`).
    pub trusted: Vec<u8>,
}

/// The time by which certificates are judged: whoever begins a connection sets it.
#[derive(Debug)]
struct Clock(AtomicU64);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = Duration::from_secs(self.0.load(Relaxed));
        Some(UnixTime::since_unix_epoch(seconds))
    }
}

/// All that a connection under TLS begins with.
pub struct TlsContext {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    verify_addresses: bool,
    clock: Arc<Clock>,
    /// Would this node believe itself? It is what its like would be told.
    own_verdict: Result<(), TlsError>,
}

impl TlsContext {
    /// From settings and PEM, at `wall_micros` since 1970.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn new(
        settings: &TlsSettings,
        credentials: &Credentials,
        wall_micros: i64,
    ) -> Result<TlsContext, CredentialsError> {
        let clock = Arc::new(Clock(AtomicU64::new(seconds(wall_micros))));
        let provider = Arc::new(provider(settings)?);
        let roots = Arc::new(roots(&credentials.trusted)?);
        let (chain, key) = key_and_chain("keystore", &credentials.keystore)?;
        let unusable = |error: rustls::Error| unusable("keystore", &error);
        let checks = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone());
        let checks = checks.build().map_err(no_root)?;
        let named = Named {
            checks,
            verify_addresses: settings.verify_addresses,
        };
        let now = clock
            .current_time()
            .unwrap_or(UnixTime::since_unix_epoch(Duration::ZERO));
        let own_verdict = named.judge_chain(&chain, now).map_err(TlsError::from);
        let clients = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        let clients = match settings.client_auth {
            ClientAuth::None => WebPkiClientVerifier::no_client_auth(),
            ClientAuth::Optional => clients.allow_unauthenticated().build().map_err(no_root)?,
            ClientAuth::Required => clients.build().map_err(no_root)?,
        };
        let versions = versions(settings.versions);
        let server = ServerConfig::builder_with_details(provider.clone(), clock.clone());
        let server = server.with_protocol_versions(versions).map_err(unusable)?;
        let server = server.with_client_cert_verifier(clients);
        let mut server = server.with_single_cert(chain, key).map_err(unusable)?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let shown = credentials
            .outbound
            .as_ref()
            .map(|keystore| ("outbound_keystore", keystore));
        let (name, keystore) = shown.unwrap_or(("keystore", &credentials.keystore));
        let (chain, key) = key_and_chain(name, keystore)?;
        let unusable = |error: rustls::Error| self::unusable(name, &error);
        let client = ClientConfig::builder_with_details(provider, clock.clone());
        let client = client.with_protocol_versions(versions).map_err(unusable)?;
        let client = client
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(named));
        let mut client = client.with_client_auth_cert(chain, key).map_err(unusable)?;
        client.resumption = Resumption::disabled();
        Ok(TlsContext {
            client: Arc::new(client),
            server: Arc::new(server),
            verify_addresses: settings.verify_addresses,
            clock,
            own_verdict,
        })
    }

    /// What a node with the same settings says to this one's certificate.
    ///
    /// # Errors
    /// It would not take it.
    pub fn own_verdict(&self) -> Result<(), TlsError> {
        self.own_verdict.clone()
    }

    /// Begins a connection to `to`, at `wall_micros` since 1970.
    ///
    /// # Errors
    /// The settings do not allow any.
    pub fn connect(&self, to: IpAddr, wall_micros: i64) -> Result<Tls, TlsError> {
        self.clock.0.store(seconds(wall_micros), Relaxed);
        let name = ServerName::IpAddress(to.into());
        Ok(Tls::client(ClientConnection::new(
            self.client.clone(),
            name,
        )?))
    }

    /// Takes a connection, at `wall_micros` since 1970.
    ///
    /// # Errors
    /// The settings do not allow any.
    pub fn accept(&self, wall_micros: i64) -> Result<Tls, TlsError> {
        self.clock.0.store(seconds(wall_micros), Relaxed);
        let connection = ServerConnection::new(self.server.clone())?;
        Ok(Tls::server(connection, self.verify_addresses))
    }
}

impl std::fmt::Debug for TlsContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsContext").finish_non_exhaustive()
    }
}

fn seconds(micros: i64) -> u64 {
    u64::try_from(micros / 1_000_000).unwrap_or(0)
}

fn unusable(name: &'static str, error: &rustls::Error) -> CredentialsError {
    CredentialsError::Unusable(name, error.to_string())
}

fn no_root(_: rustls::server::VerifierBuilderError) -> CredentialsError {
    CredentialsError::NoCertificate("truststore")
}

fn versions(versions: TlsVersions) -> &'static [&'static SupportedProtocolVersion] {
    use rustls::version::{TLS12, TLS13};
    static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    match versions {
        TlsVersions::Both => &BOTH,
        TlsVersions::V12 => &BOTH[1..],
        TlsVersions::V13 => &BOTH[..1],
    }
}

/// The name of a cipher suite as Java and IANA have it.
fn suite_name(suite: &SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    name.replace("TLS13_", "TLS_")
}

/// The cipher suites that there are.
pub(super) fn suite_names() -> Vec<String> {
    let provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.iter().map(suite_name).collect()
}

fn provider(settings: &TlsSettings) -> Result<CryptoProvider, CredentialsError> {
    let mut provider = rustls::crypto::ring::default_provider();
    if let Some(names) = &settings.cipher_suites {
        let known = std::mem::take(&mut provider.cipher_suites);
        for name in names {
            match known.iter().find(|suite| suite_name(suite) == *name) {
                Some(suite) => provider.cipher_suites.push(*suite),
                None => {
                    tracing::warn!("cipher_suites: {name} is not known or not safe: passed over")
                }
            }
        }
        if provider.cipher_suites.is_empty() {
            return Err(CredentialsError::NoCipherSuite);
        }
    }
    Ok(provider)
}

/// Is it one of the forms that Java writes?
fn check_form(name: &'static str, pem: &[u8]) -> Result<(), CredentialsError> {
    match pem {
        // `JavaKeyStore` and `JceKeyStore` of the JDK.
        [0xFE, 0xED, 0xFE, 0xED, ..] | [0xCE, 0xCE, 0xCE, 0xCE, ..] => {
            Err(CredentialsError::JavaKeystore(name))
        }
        // A sequence of DER.
        [0x30, 0x80..=0x84, ..] => Err(CredentialsError::Binary(name)),
        _ => Ok(()),
    }
}

fn certificates(
    name: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    check_form(name, pem)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let bad = |error: rustls::pki_types::pem::Error| {
        CredentialsError::BadCertificate(name, error.to_string())
    };
    let certificates = certificates.map_err(bad)?;
    match certificates.is_empty() {
        true => Err(CredentialsError::NoCertificate(name)),
        false => Ok(certificates),
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, CredentialsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("truststore", pem)? {
        let added = roots.add(certificate);
        added.map_err(|error| CredentialsError::BadCertificate("truststore", error.to_string()))?;
    }
    Ok(roots)
}

type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn key_and_chain(name: &'static str, keystore: &Keystore) -> Result<Shown, CredentialsError> {
    let chain = certificates(name, &keystore.pem)?;
    let key = match encrypted_key(&keystore.pem) {
        Some(pem) => decrypt(name, pem, keystore.password.as_deref())?,
        None => match PrivateKeyDer::from_pem_slice(&keystore.pem) {
            Ok(key) => key,
            Err(rustls::pki_types::pem::Error::NoItemsFound) => {
                return Err(CredentialsError::NoKey(name));
            }
            Err(error) => return Err(CredentialsError::BadKey(name, error.to_string())),
        },
    };
    Ok((chain, key))
}

const ENCRYPTED: (&str, &str) = (
    "-----BEGIN ENCRYPTED PRIVATE KEY-----",
    "-----END ENCRYPTED PRIVATE KEY-----",
);

/// The encrypted private key, if there is one.
fn encrypted_key(pem: &[u8]) -> Option<&str> {
    // Text around it may be in any encoding.
    let find =
        |bytes: &[u8], what: &str| bytes.windows(what.len()).position(|w| w == what.as_bytes());
    let start = find(pem, ENCRYPTED.0)?;
    let length = find(&pem[start..], ENCRYPTED.1)? + ENCRYPTED.1.len();
    std::str::from_utf8(&pem[start..start + length]).ok()
}

fn decrypt(
    name: &'static str,
    pem: &str,
    password: Option<&str>,
) -> Result<PrivateKeyDer<'static>, CredentialsError> {
    let password = password.ok_or(CredentialsError::NoPassword(name))?;
    let (_, document) = SecretDocument::from_pem(pem)
        .map_err(|error| CredentialsError::BadKey(name, error.to_string()))?;
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
        .map_err(|error| CredentialsError::BadKey(name, error.to_string()))?;
    let key = encrypted
        .decrypt(password)
        .map_err(|error| CredentialsError::WrongPassword(name, error.to_string()))?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// Judges certificates of those who are connected to, and their names only where that is asked for.
#[derive(Debug)]
struct Named {
    checks: Arc<WebPkiServerVerifier>,
    verify_addresses: bool,
}

impl Named {
    /// Is a chain signed by who is believed?
    fn judge_chain(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let [own, others @ ..] = chain else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        // No name is that of no node; the chain is judged before it.
        let name = ServerName::IpAddress(IpAddr::from([0, 0, 0, 0]).into());
        match self.checks.verify_server_cert(own, others, &name, &[], now) {
            Err(error) if !is_of_name(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

fn is_of_name(error: &rustls::Error) -> bool {
    use CertificateError::{NotValidForName, NotValidForNameContext};
    matches!(
        error,
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })
    )
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self.checks.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match judged {
            // The name is judged last: all else was found to be good.
            Err(error) if is_of_name(&error) && !self.verify_addresses => {
                Ok(ServerCertVerified::assertion())
            }
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.checks
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.checks
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.checks.supported_verify_schemes()
    }
}
