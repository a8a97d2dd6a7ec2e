//! Why settings of TLS cannot be used.

use std::{io, path::PathBuf};

use tokio_rustls::rustls::{self, pki_types::pem, server::VerifierBuilderError};

/// Why settings of TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file is not PEM.
    #[error("{path} is not PEM: {error}")]
    Pem {
        /// Which.
        path: PathBuf,
        /// Where it stops being so.
        error: pem::Error,
    },
    /// A file of certificates has none.
    #[error("{0} contains no certificate in PEM (-----BEGIN CERTIFICATE-----)")]
    NoCertificate(PathBuf),
    /// A file for a key has none.
    #[error(
        "{0} contains no private key in PEM (-----BEGIN PRIVATE KEY-----; encrypted keys cannot be read)"
    )]
    NoKey(PathBuf),
    /// An authority's certificate is not one.
    #[error("{path} contains a certificate that cannot be an authority's: {error}")]
    Authority {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: rustls::Error,
    },
    /// Key and certificate do not belong together, or are of a kind that is not supported.
    #[error("the certificate of {certificate} cannot be used with the key of {key}: {error}")]
    Identity {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        error: rustls::Error,
    },
    /// The name to look for in the node's certificate is none.
    #[error("`{0}` is neither a host name nor an address")]
    Name(String),
    /// A file of revoked certificates has no list of them.
    #[error("{0} contains no list of revoked certificates in PEM (-----BEGIN X509 CRL-----)")]
    NoRevocations(PathBuf),
    /// A list of revoked certificates is of a kind that is not supported.
    #[error("{path} contains a list of revoked certificates that cannot be used: {error}")]
    Revocations {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: Box<TlsError>,
    },
    /// Certificates cannot be verified with these authorities.
    #[error("certificates cannot be verified: {0}")]
    Verifier(#[from] VerifierBuilderError),
    /// Anything else that rustls does not accept.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}
