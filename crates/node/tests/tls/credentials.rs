//! What keys and certificates may be written as.

use std::net::{IpAddr, Ipv4Addr};

use node::tls::{Credentials, CredentialsError, Keystore, TlsContext, TlsSettings};

use crate::certificates::{Authority, WALL_MICROS};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn refused(change: impl FnOnce(&mut Credentials, &Authority)) -> CredentialsError {
    let authority = Authority::new();
    let mut credentials = authority.credentials(HERE);
    change(&mut credentials, &authority);
    let context = TlsContext::new(&TlsSettings::default(), &credentials, WALL_MICROS);
    context.expect_err("it is no good")
}

#[test]
fn what_java_writes_is_refused_with_the_way_to_convert_it() {
    for bytes in [
        &b"\xFE\xED\xFE\xED\0\0\0\x02"[..],
        b"\xCE\xCE\xCE\xCE\0\0\0\x02",
    ] {
        let error = refused(|credentials, _| credentials.keystore.pem = bytes.to_vec());
        assert!(matches!(error, CredentialsError::JavaKeystore("keystore")));
        let error = refused(|credentials, _| credentials.trusted = bytes.to_vec());
        assert!(matches!(
            error,
            CredentialsError::JavaKeystore("truststore")
        ));
        assert!(error.to_string().contains("keytool -importkeystore"));
    }
    let error = refused(|credentials, _| credentials.keystore.pem = b"\x30\x82\x0A\0".to_vec());
    assert!(matches!(error, CredentialsError::Binary("keystore")));
    assert!(error.to_string().contains("openssl pkcs12"));
}

#[test]
fn what_is_missing_is_named() {
    let without = |what: &'static str| {
        move |credentials: &mut Credentials, _: &Authority| {
            let pem = String::from_utf8(credentials.keystore.pem.clone()).expect("text");
            credentials.keystore.pem = pem.replace(what, "SOMETHING").into_bytes();
        }
    };
    let error = refused(without("PRIVATE KEY"));
    assert!(
        matches!(error, CredentialsError::NoKey("keystore")),
        "{error}"
    );
    let error = refused(without("CERTIFICATE"));
    assert!(
        matches!(error, CredentialsError::NoCertificate("keystore")),
        "{error}"
    );
    let error = refused(|credentials, _| credentials.trusted.clear());
    assert!(
        matches!(error, CredentialsError::NoCertificate("truststore")),
        "{error}"
    );
    let error = refused(|credentials, authority| {
        let other = authority.issue(HERE).pem;
        let key = String::from_utf8(other).expect("text");
        let key = key
            .split("-----BEGIN CERT")
            .next()
            .unwrap_or_default()
            .to_owned();
        let own = String::from_utf8(credentials.keystore.pem.clone()).expect("text");
        let chain = own
            .find("-----BEGIN CERT")
            .map_or("", |at| &own[at..])
            .to_owned();
        credentials.keystore.pem = (key + &chain).into_bytes();
    });
    assert!(
        matches!(error, CredentialsError::Unusable("keystore", _)),
        "{error}"
    );
}

#[test]
fn a_key_under_a_password_needs_it() {
    let authority = Authority::new();
    let plain = authority.issue(HERE);
    let text = String::from_utf8(plain.pem).expect("text");
    let at = text.find("-----BEGIN CERT").expect("a certificate");
    let (key, chain) = text.split_at(at);
    let (_, document) = pkcs8::der::SecretDocument::from_pem(key).expect("a key");
    let key = pkcs8::PrivateKeyInfoRef::try_from(document.as_bytes()).expect("a key");
    let parameters = pkcs8::pkcs5::pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(
        2048,
        b"12345678",
        [7; 16],
    );
    let encrypted = key.encrypt_with_params(parameters.expect("they are good"), "secret");
    let encrypted = encrypted.expect("it is encrypted");
    let pem = encrypted
        .to_pem("ENCRYPTED PRIVATE KEY", Default::default())
        .expect("text");
    let pem = [pem.as_str(), chain].concat().into_bytes();
    let with = |password: Option<&str>| {
        let credentials = Credentials {
            keystore: Keystore {
                pem: pem.clone(),
                password: password.map(str::to_owned),
            },
            outbound: None,
            trusted: authority.pem(),
        };
        TlsContext::new(&TlsSettings::default(), &credentials, WALL_MICROS)
    };
    with(Some("secret")).expect("it is the password");
    let error = with(None).expect_err("there is none");
    assert!(matches!(error, CredentialsError::NoPassword("keystore")));
    let error = with(Some("guess")).expect_err("it is another");
    assert!(
        matches!(error, CredentialsError::WrongPassword("keystore", _)),
        "{error}"
    );
}

#[test]
fn cipher_suites_that_are_not_known_are_passed_over() {
    let credentials = Authority::new().credentials(HERE);
    let with = |names: &[&str]| {
        let settings = TlsSettings {
            cipher_suites: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            ..TlsSettings::default()
        };
        TlsContext::new(&settings, &credentials, WALL_MICROS)
    };
    with(&["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_AES_256_GCM_SHA384"]).expect("one is known");
    with(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]).expect("one of version 1.2");
    let error = with(&["TLS_RSA_WITH_AES_128_CBC_SHA"]).expect_err("none is known");
    let text = error.to_string();
    assert!(text.contains("TLS_AES_128_GCM_SHA256"), "{text}");
}
