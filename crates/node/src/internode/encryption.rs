//! Which connections between nodes are under TLS (`server_encryption_options`).

use std::sync::{Arc, Mutex, PoisonError};

use cluster::Place;

use crate::tls::TlsContext;

/// To whom connections are under TLS (`internode_encryption`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encrypted {
    /// To nobody.
    #[default]
    None,
    /// To nodes of other data centres (`dc`).
    OtherDataCenters,
    /// To nodes of other racks, those of other data centres among them (`rack`).
    OtherRacks,
    /// To all.
    All,
}

/// What a node demands of its connections to others and from them. The shards share it.
#[derive(Debug)]
pub struct Encryption {
    encrypted: Encrypted,
    optional: bool,
    /// Replaced whole when certificates change.
    context: Mutex<Arc<TlsContext>>,
}

impl Encryption {
    /// `optional`: connections without TLS are taken from everybody, and made to who takes no others; those
    /// with it are taken though none are made.
    pub fn new(encrypted: Encrypted, optional: bool, context: TlsContext) -> Encryption {
        Encryption {
            encrypted,
            optional,
            context: Mutex::new(Arc::new(context)),
        }
    }

    /// Connections that are made from now on show, and believe, other certificates.
    pub fn replace(&self, context: TlsContext) {
        let mut current = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(context);
    }

    /// Which connections to other nodes are under TLS, in Cassandra's word (`internode_encryption`).
    pub(crate) fn name(&self) -> &'static str {
        match self.encrypted {
            Encrypted::None => "none",
            Encrypted::OtherDataCenters => "dc",
            Encrypted::OtherRacks => "rack",
            Encrypted::All => "all",
        }
    }

    /// What connections begin with now.
    pub(super) fn context(&self) -> Arc<TlsContext> {
        let current = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    /// Is a connection under TLS between nodes at these places? Of one whose place is not known it is, unless
    /// none are (`ServerEncryptionOptions.shouldEncrypt`).
    pub fn demands(&self, own: &Place, other: Option<&Place>) -> bool {
        let same_data_center = other.is_some_and(|other| other.datacenter == own.datacenter);
        match self.encrypted {
            Encrypted::None => false,
            Encrypted::OtherDataCenters => !same_data_center,
            Encrypted::OtherRacks => other != Some(own),
            Encrypted::All => true,
        }
    }

    /// Is a connection without TLS taken of a node at this place?
    pub fn takes_plain(&self, own: &Place, other: Option<&Place>) -> bool {
        self.optional || !self.demands(own, other)
    }

    /// Are connections under TLS taken?
    pub(super) fn takes_tls(&self) -> bool {
        self.optional || self.encrypted != Encrypted::None
    }

    /// Is who takes no TLS talked to without it?
    pub(super) fn may_be_plain(&self) -> bool {
        self.optional
    }
}
