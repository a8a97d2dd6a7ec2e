//! What both sides of TLS share: the stream, the versions, the crypto provider, and how
//! TLS errors are classified.

use std::{io, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::rustls::{
    self, InvalidMessage, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    version::{TLS12, TLS13},
};

/// A connection on which the handshake is done. It is big and boxed, so that plain connections
/// need not make room for it.
pub type TlsStream = Box<tokio_rustls::TlsStream<TcpStream>>;

/// The lowest version that is spoken. Older ones are broken, and no longer in drivers' defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

#[cfg(feature = "clap")]
impl clap::ValueEnum for MinVersion {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Tls12, Self::Tls13]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }))
    }
}

impl MinVersion {
    pub(super) fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
        match self {
            Self::Tls12 => BOTH,
            Self::Tls13 => &BOTH[..1],
        }
    }
}

/// The provider of each configuration. A default of the process could be set by any other library.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Whether `error` says that TLS itself failed (a certificate, an alert, a record that was tampered with),
/// and not the connection below.
pub fn is_failure(error: &io::Error) -> bool {
    cause(error).is_some()
}

/// Whether what came instead of a handshake is not TLS: the first byte of an envelope is its version, that of
/// a record of TLS its type, 20 to 24.
pub(super) fn is_plain(error: &io::Error) -> bool {
    let not_a_record = rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType);
    cause(error) == Some(&not_a_record)
}

fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}
