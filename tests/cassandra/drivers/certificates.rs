//! One authority, and what it has signed: for servers on the loopback addresses of this process, all of them
//! or one, and for clients.

use std::net::IpAddr;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

use crate::support::{cache, cassandra::loopback};

/// Files in a folder.
pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    pub(crate) fn make() -> Self {
        let made = Self {
            folder: cache::lasting_folder("certificates"),
        };
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        made.write("authority.pem", &params.self_signed(&key).unwrap().pem());
        let authority = Issuer::new(params, key);
        made.sign(&authority, "server", &loopback::all());
        made.sign(&authority, "client", &[]);
        for address in loopback::all() {
            made.sign(&authority, &address.to_string(), &[address]);
        }
        made
    }

    /// Key and certificate in files of their own, and together, as Cassandra wants them.
    fn sign(&self, authority: &Issuer<'_, KeyPair>, name: &str, addresses: &[IpAddr]) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = addresses
            .iter()
            .map(|&address| SanType::IpAddress(address))
            .collect();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, authority).unwrap().pem();
        self.write(&format!("{name}.pem"), &certificate);
        self.write(&format!("{name}.key"), &key.serialize_pem());
        self.write(
            &format!("{name}-both.pem"),
            &format!("{}{certificate}", key.serialize_pem()),
        );
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Who has signed all others.
    pub(crate) fn authority(&self) -> String {
        self.text("authority.pem")
    }

    /// Of nodes and proxies alike.
    pub(crate) fn server(&self) -> String {
        self.text("server.pem")
    }

    pub(crate) fn server_key(&self) -> String {
        self.text("server.key")
    }

    pub(crate) fn client(&self) -> String {
        self.text("client.pem")
    }

    pub(crate) fn client_key(&self) -> String {
        self.text("client.key")
    }

    /// What a node is told: it speaks TLS with those who do, and then wants to see a certificate, as YAML.
    pub(crate) fn encryption_options(&self) -> String {
        self.encryption_with("server")
    }

    /// The same where each node has a certificate of its own, for its own address.
    pub(crate) fn encryption_options_of_each(&self) -> String {
        self.encryption_with("{address}")
    }

    fn encryption_with(&self, certificate: &str) -> String {
        format!(
            "{{enabled: true, optional: true, require_client_auth: true, \
             ssl_context_factory: {{class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}}, \
             keystore: {}, truststore: {}}}",
            self.text(&format!("{certificate}-both.pem")),
            self.authority()
        )
    }
}
