//! Certificates and keys, out of files in PEM.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_rustls::rustls::{
    self, RootCertStore,
    client::WebPkiServerVerifier,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{TlsError, common::provider};
use crate::files::{self, Limit};

/// The identity of cqlens: a certificate, those that lead to its authority, and the key.
#[derive(Debug)]
pub struct TlsIdentity {
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    certificate_file: PathBuf,
    key_file: PathBuf,
}

impl TlsIdentity {
    /// Reads both; the key may be in PKCS #8, PKCS #1 or SEC 1, and in the same file as the certificates.
    ///
    /// # Errors
    /// If a file cannot be read, or holds something else.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        Ok(Self {
            certificates: certificates(certificate)?,
            key: private_key(key)?,
            certificate_file: certificate.to_owned(),
            key_file: key.to_owned(),
        })
    }

    /// The error for an identity that rustls refuses.
    pub(super) fn refused(
        certificate_file: PathBuf,
        key_file: PathBuf,
    ) -> impl FnOnce(rustls::Error) -> TlsError {
        move |error| TlsError::Identity {
            certificate: certificate_file,
            key: key_file,
            error,
        }
    }

    /// The files that it was read from: certificate, key.
    pub(super) fn files(&self) -> (PathBuf, PathBuf) {
        (self.certificate_file.clone(), self.key_file.clone())
    }
}

/// Those whose signature on a certificate is believed, no others, the system's included;
/// and what they have revoked.
#[derive(Debug, Clone)]
pub struct Authorities {
    pub(super) roots: Arc<RootCertStore>,
    pub(super) revocations: Vec<CertificateRevocationListDer<'static>>,
}

impl Authorities {
    /// Reads their certificates, one or many in a file.
    ///
    /// # Errors
    /// If the file cannot be read, holds no certificate, or one that cannot be an authority's.
    pub fn read(path: &Path) -> Result<Self, TlsError> {
        let mut store = RootCertStore::empty();
        for certificate in certificates(path)? {
            store.add(certificate).map_err(|error| TlsError::Authority {
                path: path.to_owned(),
                error,
            })?;
        }
        Ok(Self {
            roots: Arc::new(store),
            revocations: Vec::new(),
        })
    }

    /// The same, without the certificates that the lists in `files` revoke, one or many lists in a file.
    ///
    /// With one list there must be one of every authority on the way from a certificate to its
    /// root, and none may be beyond its `nextUpdate`: what cannot be known to be valid is refused,
    /// as with `crl-file` of HAProxy.
    ///
    /// # Errors
    /// If a file cannot be read, or holds no list, or one that cannot be used.
    pub fn without_revoked(mut self, files: &[PathBuf]) -> Result<Self, TlsError> {
        for path in files {
            let revocations = revocation_lists(path)?;
            let alone = Self {
                roots: Arc::clone(&self.roots),
                revocations: revocations.clone(),
            };
            alone.verifier().map_err(|error| TlsError::Revocations {
                path: path.clone(),
                error: Box::new(error),
            })?;
            self.revocations.extend(revocations);
        }
        Ok(self)
    }

    /// Verifies servers' certificates.
    pub(super) fn verifier(self) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
        let builder = WebPkiServerVerifier::builder_with_provider(self.roots, provider());
        Ok(builder
            .with_crls(self.revocations)
            .enforce_revocation_expiration()
            .build()?)
    }
}

/// When the first of the certificates in a file ends, in seconds since 1970: with one of those that lead to its authority, a certificate
/// is worth nothing any more. None where that cannot be read.
///
/// # Errors
/// If the file cannot be read, or holds no certificate.
pub fn expiry(path: &Path) -> Result<Option<i64>, TlsError> {
    let certificates = certificates(path)?;
    let ends = certificates.iter().filter_map(|certificate| {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        Some(certificate.validity().not_after.timestamp())
    });
    Ok(ends.min())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| not_pem(path, error))?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate(path.to_owned()));
    }
    Ok(certificates)
}

fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let text = read(path)?;
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    let lists = lists.map_err(|error| not_pem(path, error))?;
    if lists.is_empty() {
        return Err(TlsError::NoRevocations(path.to_owned()));
    }
    Ok(lists)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    files::warn_if_exposed(path, "private key");
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey(path.to_owned()),
        error => not_pem(path, error),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    files::read(path, Limit::PEM).map_err(|error: io::Error| TlsError::File {
        path: path.to_owned(),
        error,
    })
}

fn not_pem(path: &Path, error: pem::Error) -> TlsError {
    TlsError::Pem {
        path: path.to_owned(),
        error,
    }
}
