//! Certificates made for a test.

use std::net::IpAddr;

use node::tls::{ClientAuth, Credentials, Keystore, TlsContext, TlsSettings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

/// The wall clock of the simulator begins in this century.
pub(crate) const WALL_MICROS: i64 = 1_700_000_000_000_000;

/// Who signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// What those have to trust who believe it.
    pub(crate) fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    /// Key and certificate of a node.
    pub(crate) fn issue(&self, address: IpAddr) -> Keystore {
        self.issue_until(address, 2999)
    }

    /// Key and certificate of a node that are good until that year begins.
    pub(crate) fn issue_until(&self, address: IpAddr, year: i32) -> Keystore {
        let names = vec![address.to_string()];
        let mut params = CertificateParams::new(names).expect("an address");
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Keystore {
            pem: [key.serialize_pem(), certificate.pem()]
                .concat()
                .into_bytes(),
            password: None,
        }
    }

    /// What a node has that this authority signed, and believes.
    pub(crate) fn credentials(&self, address: IpAddr) -> Credentials {
        Credentials {
            keystore: self.issue(address),
            outbound: None,
            trusted: self.pem(),
        }
    }
}

/// Both sides show certificates, for their addresses.
pub(crate) fn strict() -> TlsSettings {
    TlsSettings {
        client_auth: ClientAuth::Required,
        verify_addresses: true,
        ..TlsSettings::default()
    }
}

pub(crate) fn context(settings: &TlsSettings, credentials: &Credentials) -> TlsContext {
    TlsContext::new(settings, credentials, WALL_MICROS).expect("they are good")
}
