//! The certificates of cqlens as a server. Each client sees one of them, by the name in its hello (SNI).

use std::sync::Arc;

use tokio_rustls::rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

use super::{TlsError, TlsIdentity, common::provider};

/// Certificates with their keys, the default first.
#[derive(Debug)]
pub(super) struct Certificates(Vec<Certificate>);

#[derive(Debug)]
struct Certificate {
    /// The DNS names that it is for, in lower case; `*.` stands for one label.
    names: Vec<String>,
    key: Arc<CertifiedKey>,
}

impl Certificates {
    /// Clients that ask for no name, or for one that no certificate is for, see the first.
    ///
    /// # Errors
    /// A key that is not its certificate's, or of a kind that is not supported.
    pub(super) fn new(identities: Vec<TlsIdentity>) -> Result<Self, TlsError> {
        identities
            .into_iter()
            .map(Certificate::new)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The first that is for `name` and fits the client's signature schemes: one that names it goes
    /// before one with a wildcard.
    fn named(&self, name: &str, fits: impl Fn(&CertifiedKey) -> bool) -> Option<&Certificate> {
        let wildcard = name.split_once('.').map(|(_host, domain)| format!("*.{domain}"));
        let wanted = [Some(name), wildcard.as_deref()];
        wanted.into_iter().flatten().find_map(|wanted| {
            let mut found = self.0.iter().filter(|certificate| fits(&certificate.key));
            found.find(|certificate| certificate.names.iter().any(|name| name == wanted))
        })
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits = |key: &CertifiedKey| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let name = hello.server_name().map(str::to_ascii_lowercase);
        let certificate = name
            .and_then(|name| self.named(&name, fits))
            .or_else(|| self.0.iter().find(|certificate| fits(&certificate.key)))?;
        Some(Arc::clone(&certificate.key))
    }
}

impl Certificate {
    fn new(identity: TlsIdentity) -> Result<Self, TlsError> {
        let (certificate_file, key_file) = identity.files();
        let names = identity
            .certificates
            .first()
            .map_or_else(Vec::new, |certificate| dns_names(certificate));
        let key = CertifiedKey::from_der(identity.certificates, identity.key, &provider())
            .map_err(TlsIdentity::refused(certificate_file, key_file))?;
        Ok(Self {
            names,
            key: Arc::new(key),
        })
    }
}

/// The DNS names among its subject alternative names. A common name alone is no name that drivers believe.
fn dns_names(certificate: &[u8]) -> Vec<String> {
    let Ok((_rest, certificate)) = X509Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let Ok(Some(names)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let names = names.value.general_names.iter();
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    fn identity(folder: &std::path::Path, file: &str, hosts: &[&str]) -> TlsIdentity {
        let (certificate, key) = (
            folder.join(format!("{file}.crt")),
            folder.join(format!("{file}.key")),
        );
        let pair = KeyPair::generate().unwrap();
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let signed = CertificateParams::new(hosts).unwrap().self_signed(&pair).unwrap();
        std::fs::write(&certificate, signed.pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        TlsIdentity::read(&certificate, &key).unwrap()
    }

    #[test]
    fn a_name_finds_its_certificate_and_a_wildcard_stands_for_one_label() {
        let folder = tempfile::tempdir().unwrap();
        let certificates = Certificates::new(vec![
            identity(folder.path(), "first", &["first.example"]),
            identity(folder.path(), "any", &["*.db.example", "DB.example"]),
            identity(folder.path(), "one", &["one.db.example"]),
        ])
        .unwrap();
        for (name, found) in [
            ("first.example", Some(0)),
            ("two.db.example", Some(1)),
            ("db.example", Some(1)),
            ("one.db.example", Some(2)),
            ("a.b.db.example", None),
            ("example", None),
        ] {
            let certificate = certificates.named(name, |_key| true);
            let place = certificate.map(|found| {
                certificates
                    .0
                    .iter()
                    .position(|one| std::ptr::eq(one, found))
                    .unwrap()
            });
            assert_eq!(place, found, "{name}");
        }
        assert!(certificates.named("first.example", |_key| false).is_none());
    }
}
