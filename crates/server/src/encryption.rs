//! `server_encryption_options`: TLS between nodes, with Cassandra's names (`EncryptionOptions`,
//! `PEMBasedSslContextFactory`), and the files that certificates are read from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use node::internode::{Encrypted, Encryption};
use node::tls::{
    ClientAuth, Credentials, CredentialsError, Keystore, TlsContext, TlsSettings, TlsVersions,
};

use crate::config_file::Value;

/// As it stands in the configuration file.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct EncryptionOptions {
    encrypted: Encrypted,
    optional: Option<bool>,
    keystore: Option<PathBuf>,
    keystore_password: Option<String>,
    outbound_keystore: Option<PathBuf>,
    outbound_keystore_password: Option<String>,
    truststore: Option<PathBuf>,
    private_key: Option<String>,
    private_key_password: Option<String>,
    trusted_certificates: Option<String>,
    protocol: Option<String>,
    accepted_protocols: Option<Vec<String>>,
    settings: TlsSettings,
}

impl std::fmt::Debug for EncryptionOptions {
    /// Without keys and passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("EncryptionOptions");
        shown.field("encrypted", &self.encrypted);
        shown
            .field("keystore", &self.keystore)
            .finish_non_exhaustive()
    }
}

/// Why certificates and keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncryptionError {
    /// A file cannot be read.
    #[error("server_encryption_options: {option} {path}: {source}", path = .path.display())]
    Unreadable {
        /// The option that names it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is none.
    #[error(
        "server_encryption_options: internode_encryption and optional need {0}: a PEM file, or {1} of \
         ssl_context_factory's parameters"
    )]
    Missing(&'static str, &'static str),
    /// What was read cannot be used.
    #[error("server_encryption_options: {0}")]
    Unusable(#[from] CredentialsError),
}

const PEM_FACTORY: &str = "PEMBasedSslContextFactory";

impl EncryptionOptions {
    /// Reads them.
    ///
    /// # Errors
    /// What is wrong with them, in words.
    pub(crate) fn parse(value: &Value) -> Result<EncryptionOptions, String> {
        let mut options = EncryptionOptions::default();
        for (name, value) in mapping(value)? {
            let set = options.set(name, value);
            set.map_err(|reason| format!("{name}: {reason}"))?;
        }
        options.settings.versions = versions(
            options.protocol.as_deref(),
            options.accepted_protocols.as_deref(),
        )?;
        for (file, inline, names) in [
            (
                &options.keystore,
                &options.private_key,
                "keystore and private_key",
            ),
            (
                &options.truststore,
                &options.trusted_certificates,
                "truststore and trusted_certificates",
            ),
        ] {
            if inline.is_some() && file.as_ref().is_some_and(|file| file.exists()) {
                return Err(format!("{names} are both given: one of them is to go"));
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match name {
            "internode_encryption" => {
                self.encrypted = match value.text()?.as_str() {
                    "none" => Encrypted::None,
                    "dc" => Encrypted::OtherDataCenters,
                    "rack" => Encrypted::OtherRacks,
                    "all" => Encrypted::All,
                    other => return Err(format!("`{other}` is none of none, dc, rack, all")),
                }
            }
            "optional" => self.optional = truth(value)?,
            "keystore" => self.keystore = given(value)?.map(PathBuf::from),
            "keystore_password" => self.keystore_password = given(value)?,
            "outbound_keystore" => self.outbound_keystore = given(value)?.map(PathBuf::from),
            "outbound_keystore_password" => self.outbound_keystore_password = given(value)?,
            "truststore" => self.truststore = given(value)?.map(PathBuf::from),
            "protocol" => self.protocol = given(value)?,
            "accepted_protocols" => self.accepted_protocols = list(value)?,
            "cipher_suites" => self.settings.cipher_suites = list(value)?,
            "require_client_auth" => {
                self.settings.client_auth = match value.text()?.as_str() {
                    "true" => ClientAuth::Required,
                    "optional" => ClientAuth::Optional,
                    "false" | "" => ClientAuth::None,
                    other => return Err(format!("`{other}` is none of true, false, optional")),
                }
            }
            "require_endpoint_verification" => {
                self.settings.verify_addresses = truth(value)?.unwrap_or(false);
            }
            "ssl_context_factory" => self.set_factory(value)?,
            "store_type" => match value.text()?.to_ascii_uppercase().as_str() {
                // What is in a file is found out by looking; the usual value may stay.
                "" | "PEM" | "JKS" => {}
                other => return Err(format!("`{other}` is not read, but PEM")),
            },
            "legacy_ssl_storage_port_enabled" | "enable_legacy_ssl_storage_port" => {
                if truth(value)? == Some(true) {
                    return Err("there is one port, which takes both".to_owned());
                }
            }
            // Of Java's providers and stores; of no meaning for PEM.
            "algorithm" | "truststore_password" | "enabled" => {}
            _ => {
                return Err(format!(
                    "there is no such option; known are {}",
                    KNOWN.join(", ")
                ));
            }
        }
        Ok(())
    }

    fn set_factory(&mut self, value: &Value) -> Result<(), String> {
        for (name, value) in mapping(value)? {
            match name.as_str() {
                "class_name" => {
                    let class = value.text()?;
                    let class = class.rsplit('.').next().unwrap_or_default();
                    if ![PEM_FACTORY, "DefaultSslContextFactory", ""].contains(&class) {
                        return Err(format!(
                            "class_name: {class} is not known, but {PEM_FACTORY}"
                        ));
                    }
                }
                "parameters" => self.set_parameters(value)?,
                _ => return Err(format!("{name}: known are class_name and parameters")),
            }
        }
        Ok(())
    }

    fn set_parameters(&mut self, value: &Value) -> Result<(), String> {
        // Cassandra takes a mapping, and a list of mappings.
        let parts = match value {
            Value::List(parts) => parts.iter().collect(),
            one => vec![one],
        };
        for part in parts {
            for (name, value) in mapping(part)? {
                match name.as_str() {
                    "private_key" => self.private_key = given(value)?,
                    "private_key_password" => self.private_key_password = given(value)?,
                    "trusted_certificates" => self.trusted_certificates = given(value)?,
                    _ => {
                        return Err(format!(
                            "parameters: {name}: known are private_key, private_key_password and \
                             trusted_certificates"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Is there anything to be shown to others?
    fn has_keystore(&self) -> bool {
        let exists = |path: &PathBuf| path.exists();
        self.private_key.is_some() || self.keystore.as_ref().is_some_and(exists)
    }

    /// The files that certificates come from.
    fn files(&self) -> impl Iterator<Item = &Path> {
        let keystore = self
            .keystore
            .as_deref()
            .filter(|_| self.private_key.is_none());
        let truststore = self.truststore.as_deref();
        let truststore = truststore.filter(|_| self.trusted_certificates.is_none());
        let files = [keystore, self.outbound_keystore.as_deref(), truststore];
        files.into_iter().flatten()
    }

    fn credentials(&self) -> Result<Credentials, EncryptionError> {
        let read = |option, path: &Path| {
            std::fs::read(path).map_err(|source| EncryptionError::Unreadable {
                option,
                path: path.to_owned(),
                source,
            })
        };
        let one = |inline: &Option<String>, file: &Option<PathBuf>, names: (&'static str, _)| match (
            inline, file,
        ) {
            (Some(pem), _) => Ok(pem.clone().into_bytes()),
            (None, Some(path)) => read(names.0, path),
            (None, None) => Err(EncryptionError::Missing(names.0, names.1)),
        };
        let password = self.private_key_password.clone();
        let keystore = Keystore {
            pem: one(
                &self.private_key,
                &self.keystore,
                ("keystore", "private_key"),
            )?,
            password: password.or_else(|| self.keystore_password.clone()),
        };
        let outbound = match &self.outbound_keystore {
            None => None,
            Some(path) => Some(Keystore {
                pem: read("outbound_keystore", path)?,
                password: self.outbound_keystore_password.clone(),
            }),
        };
        let names = ("truststore", "trusted_certificates");
        Ok(Credentials {
            keystore,
            outbound,
            trusted: one(&self.trusted_certificates, &self.truststore, names)?,
        })
    }

    fn context(&self) -> Result<TlsContext, EncryptionError> {
        let now = jiff::Timestamp::now().as_microsecond();
        let context = TlsContext::new(&self.settings, &self.credentials()?, now)?;
        if let Err(reason) = context.own_verdict() {
            tracing::warn!(
                "server_encryption_options: a node with the same truststore would not take this node's \
                 certificate: {reason}"
            );
        }
        Ok(context)
    }
}

const KNOWN: [&str; 13] = [
    "internode_encryption",
    "optional",
    "keystore",
    "keystore_password",
    "outbound_keystore",
    "outbound_keystore_password",
    "truststore",
    "ssl_context_factory",
    "protocol",
    "accepted_protocols",
    "cipher_suites",
    "require_client_auth",
    "require_endpoint_verification",
];

fn mapping(value: &Value) -> Result<&BTreeMap<String, Value>, String> {
    match value {
        Value::Mapping(entries) => Ok(entries),
        _ => Err("options with their values are expected".to_owned()),
    }
}

/// The text of a value, if there is any.
fn given(value: &Value) -> Result<Option<String>, String> {
    Ok(Some(value.text()?).filter(|text| !text.is_empty()))
}

fn truth(value: &Value) -> Result<Option<bool>, String> {
    match value.text()?.as_str() {
        "" => Ok(None),
        "true" => Ok(Some(true)),
        "false" => Ok(Some(false)),
        other => Err(format!("`{other}` is neither true nor false")),
    }
}

fn list(value: &Value) -> Result<Option<Vec<String>>, String> {
    match value {
        Value::List(values) => values
            .iter()
            .map(Value::text)
            .collect::<Result<_, _>>()
            .map(Some),
        Value::Nothing(()) => Ok(None),
        _ => Err("a list is expected, as [one, another]".to_owned()),
    }
}

/// `accepted_protocols` if it is given, else what `protocol` stands for.
fn versions(protocol: Option<&str>, accepted: Option<&[String]>) -> Result<TlsVersions, String> {
    let one = protocol.map(str::to_owned);
    let names = match accepted {
        Some(names) if !names.is_empty() => names.to_vec(),
        _ => one.into_iter().collect(),
    };
    let (mut v12, mut v13) = (false, false);
    for name in &names {
        match name.as_str() {
            "TLS" => (v12, v13) = (true, true),
            "TLSv1.2" => v12 = true,
            "TLSv1.3" => v13 = true,
            // As Cassandra of today: they are broken.
            "TLSv1" | "TLSv1.1" => {
                tracing::warn!("server_encryption_options: {name} is not spoken")
            }
            other => return Err(format!("`{other}` is none of TLS, TLSv1.2, TLSv1.3")),
        }
    }
    match (v12, v13) {
        (true, true) => Ok(TlsVersions::Both),
        (true, false) => Ok(TlsVersions::V12),
        (false, true) => Ok(TlsVersions::V13),
        (false, false) if names.is_empty() => Ok(TlsVersions::Both),
        (false, false) => Err(format!(
            "{} are not safe: choose TLSv1.2 or TLSv1.3",
            names.join(", ")
        )),
    }
}

/// TLS between nodes, and the files that it comes from.
pub(crate) struct InternodeEncryption {
    options: EncryptionOptions,
    encryption: Arc<Encryption>,
    /// The files as they were when they were read.
    seen: Vec<Option<SystemTime>>,
}

impl InternodeEncryption {
    /// What options ask for; `None`: no TLS.
    ///
    /// # Errors
    /// Keys or certificates cannot be used.
    pub(crate) fn open(
        options: &EncryptionOptions,
    ) -> Result<Option<InternodeEncryption>, EncryptionError> {
        let enabled = options.encrypted != Encrypted::None;
        // Who has certificates and does not use them yet is about to.
        let ready = !enabled && options.has_keystore();
        let optional = options.optional.unwrap_or(ready);
        if !enabled && !optional {
            return Ok(None);
        }
        let seen = stamps(options);
        let context = match options.context() {
            Ok(context) => context,
            Err(error) if !enabled && options.optional.is_none() => {
                tracing::warn!("connections under TLS are not taken: {error}");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let demands_nothing = options.settings.client_auth == ClientAuth::None;
        if enabled && demands_nothing {
            tracing::warn!(
                "server_encryption_options: without require_client_auth whoever reaches the port can be a \
                 node of the cluster"
            );
        }
        Ok(Some(InternodeEncryption {
            options: options.clone(),
            encryption: Arc::new(Encryption::new(options.encrypted, optional, context)),
            seen,
        }))
    }

    /// What the node is told.
    pub(crate) fn shared(&self) -> Arc<Encryption> {
        Arc::clone(&self.encryption)
    }

    /// Reads all files, for connections from now on.
    ///
    /// # Errors
    /// They are no good: the old ones serve.
    pub(crate) fn reload(&mut self) -> Result<(), EncryptionError> {
        self.seen = stamps(&self.options);
        self.encryption.replace(self.options.context()?);
        Ok(())
    }

    /// Reads files that have changed, for connections from now on; the old ones serve until all is good.
    pub(crate) fn reload_if_changed(&mut self) {
        if stamps(&self.options) == self.seen {
            return;
        }
        match self.reload() {
            Ok(()) => {
                tracing::info!("certificates have changed and were read: new connections use them");
            }
            Err(error) => {
                tracing::error!("certificates have changed, the old ones stay in use: {error}")
            }
        }
    }
}

/// When files were written.
fn stamps(options: &EncryptionOptions) -> Vec<Option<SystemTime>> {
    let written = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|found| found.modified())
            .ok()
    };
    options.files().map(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_file;

    fn parsed(text: &str) -> Result<EncryptionOptions, String> {
        let text = format!("server_encryption_options:\n{text}");
        let options = config_file::parse(Path::new("h.yaml"), &text);
        let options = options.map_err(|error| error.to_string())?;
        Ok(options.server_encryption_options.expect("they are there"))
    }

    #[test]
    fn what_cassandra_s_own_file_has_means_no_tls() {
        let options = parsed(
            "  internode_encryption: none\n  legacy_ssl_storage_port_enabled: false\n  keystore: \
             /nowhere/.keystore\n  #keystore_password: cassandra\n  require_client_auth: false\n  \
             truststore: /nowhere/.truststore\n  truststore_password:\n  \
             require_endpoint_verification: false\n  store_type: JKS\n",
        );
        let options = options.expect("it is understood");
        assert!(matches!(InternodeEncryption::open(&options), Ok(None)));
    }

    #[test]
    fn options_are_understood() {
        let options = parsed(
            "  internode_encryption: rack\n  optional: true\n  require_client_auth: true\n  \
             require_endpoint_verification: true\n  protocol: TLSv1.3\n  cipher_suites: \
             [TLS_AES_256_GCM_SHA384]\n  ssl_context_factory:\n    class_name: \
             org.apache.cassandra.security.PEMBasedSslContextFactory\n    parameters:\n      private_key: \
             |\n        one\n        two\n      trusted_certificates: three\n",
        );
        let options = options.expect("they are good");
        assert_eq!(options.encrypted, Encrypted::OtherRacks);
        assert_eq!(options.optional, Some(true));
        let settings = TlsSettings {
            versions: TlsVersions::V13,
            cipher_suites: Some(vec!["TLS_AES_256_GCM_SHA384".to_owned()]),
            client_auth: ClientAuth::Required,
            verify_addresses: true,
        };
        assert_eq!(options.settings, settings);
        assert_eq!(options.private_key.as_deref(), Some("one\ntwo\n"));
        assert_eq!(options.trusted_certificates.as_deref(), Some("three"));
        let shown = format!("{options:?}");
        assert!(!shown.contains("two"), "{shown}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_option() {
        for (text, message) in [
            (
                "  internode_encryption: some",
                "internode_encryption: `some` is none of",
            ),
            (
                "  keystor: x",
                "keystor: there is no such option; known are internode_encryption",
            ),
            ("  optional: perhaps", "optional: `perhaps` is neither"),
            ("  protocol: SSLv3", "`SSLv3` is none of"),
            ("  accepted_protocols: [TLSv1.1]", "TLSv1.1 are not safe"),
            ("  store_type: PKCS12", "store_type: `PKCS12` is not read"),
            ("  keystore: [a]", "keystore: a single value is expected"),
            (
                "  ssl_context_factory:\n    class_name: com.example.Vault",
                "class_name: Vault is not",
            ),
            (
                "  legacy_ssl_storage_port_enabled: true",
                "there is one port",
            ),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(
                error.starts_with("h.yaml: server_encryption_options: "),
                "{error}"
            );
            assert!(error.contains(message), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let open = |text| InternodeEncryption::open(&parsed(text).expect("it is understood"));
        let error = open("  internode_encryption: all")
            .err()
            .expect("there is no key");
        assert!(error.to_string().contains("need keystore"), "{error}");
        let error = open("  internode_encryption: all\n  keystore: /nowhere/a.pem");
        let error = error.err().expect("there is no file");
        assert!(
            error.to_string().contains("keystore /nowhere/a.pem: "),
            "{error}"
        );
    }

    #[test]
    fn protocols_are_those_that_are_safe() {
        let chosen = |protocol, accepted: Option<&[&str]>| {
            let accepted: Option<Vec<String>> =
                accepted.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            versions(protocol, accepted.as_deref())
        };
        assert_eq!(chosen(None, None), Ok(TlsVersions::Both));
        assert_eq!(chosen(Some("TLS"), None), Ok(TlsVersions::Both));
        assert_eq!(chosen(Some("TLSv1.2"), None), Ok(TlsVersions::V12));
        let accepted: &[&str] = &["TLSv1.1", "TLSv1.3"];
        assert_eq!(chosen(Some("TLS"), Some(accepted)), Ok(TlsVersions::V13));
        assert_eq!(chosen(Some("TLSv1.3"), Some(&[])), Ok(TlsVersions::V13));
    }
}
