//! The settings of TLS, of both sides, and their files, which may change while cqlens runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use anyhow::{Context, ensure};
use parking_lot::Mutex;

use crate::metrics::Certificate;
use cqlens_proxy::tls::{
    Acceptor, Authorities, Connector, HostnameCheck, MinVersion, TlsError, TlsIdentity, expiry,
};

/// TLS, on either side of the proxy or on both. All files are in PEM, and read again when they change.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsArgs {
    /// Use TLS to clients: the server certificate, in PEM
    ///
    /// Clients without TLS are refused. The file contains the certificate, followed by its chain. May be given several
    /// times: a client gets the one for the name it requests (SNI), else the first.
    #[arg(
        long,
        env = "CQLENS_CLIENT_TLS_CERT",
        value_name = "FILE",
        value_delimiter = ',',
        requires = "client_tls_key"
    )]
    client_tls_cert: Vec<PathBuf>,
    /// Private key of that certificate, in PEM, not encrypted
    ///
    /// One per certificate, in the same order.
    #[arg(
        long,
        env = "CQLENS_CLIENT_TLS_KEY",
        value_name = "FILE",
        value_delimiter = ',',
        requires = "client_tls_cert"
    )]
    client_tls_key: Vec<PathBuf>,
    /// CA certificates to verify clients, in PEM (mutual TLS)
    ///
    /// Clients without a certificate signed by one of them are refused.
    #[arg(
        long,
        env = "CQLENS_CLIENT_TLS_CA",
        value_name = "FILE",
        requires = "client_tls_cert",
        hide_short_help = true
    )]
    client_tls_ca: Option<PathBuf>,
    /// Revocation lists for clients' certificates (CRLs, in PEM)
    ///
    /// Clients with a revoked certificate are refused. There must be a current list for each authority between a
    /// certificate and its root, or clients are refused.
    #[arg(
        long,
        env = "CQLENS_CLIENT_TLS_CRL",
        value_name = "FILE",
        value_delimiter = ',',
        requires = "client_tls_ca",
        hide_short_help = true
    )]
    client_tls_crl: Vec<PathBuf>,
    /// Minimum TLS version for clients
    #[arg(
        long,
        env = "CQLENS_CLIENT_TLS_MIN_VERSION",
        value_name = "VERSION",
        default_value = "1.2",
        hide_short_help = true
    )]
    client_tls_min_version: MinVersion,
    #[command(flatten)]
    upstream: UpstreamTlsArgs,
}

/// TLS to nodes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct UpstreamTlsArgs {
    /// Use TLS to nodes: CA certificates to verify them, in PEM
    ///
    /// For clients' connections and for those of cqlens itself. No other authorities are trusted; for public ones, give
    /// the system's file.
    #[arg(long, env = "CQLENS_UPSTREAM_TLS_CA", value_name = "FILE")]
    upstream_tls_ca: Option<PathBuf>,
    /// Revocation lists for nodes' certificates (CRLs, in PEM)
    ///
    /// As --client-tls-crl of cqlens proxy.
    #[arg(
        long,
        env = "CQLENS_UPSTREAM_TLS_CRL",
        value_name = "FILE",
        value_delimiter = ',',
        requires = "upstream_tls_ca",
        hide_short_help = true
    )]
    upstream_tls_crl: Vec<PathBuf>,
    /// Minimum TLS version for nodes
    #[arg(
        long,
        env = "CQLENS_UPSTREAM_TLS_MIN_VERSION",
        value_name = "VERSION",
        default_value = "1.2",
        hide_short_help = true
    )]
    upstream_tls_min_version: MinVersion,
    /// Client certificate for nodes, in PEM (mutual TLS)
    #[arg(long, env = "CQLENS_UPSTREAM_TLS_CERT", value_name = "FILE", requires_all = ["upstream_tls_ca", "upstream_tls_key"], hide_short_help = true)]
    upstream_tls_cert: Option<PathBuf>,
    /// Private key of that certificate, in PEM, not encrypted
    #[arg(
        long,
        env = "CQLENS_UPSTREAM_TLS_KEY",
        value_name = "FILE",
        requires = "upstream_tls_cert",
        hide_short_help = true
    )]
    upstream_tls_key: Option<PathBuf>,
    /// Host name or address to verify in nodes' certificates
    ///
    /// By default, the host of --upstream or --contact.
    #[arg(
        long,
        env = "CQLENS_UPSTREAM_TLS_NAME",
        value_name = "NAME",
        requires = "upstream_tls_ca",
        hide_short_help = true
    )]
    upstream_tls_name: Option<String>,
    /// Accept any certificate of those authorities, whatever its host name
    ///
    /// Anyone with such a certificate can then pose as the node.
    #[arg(
        long,
        env = "CQLENS_UPSTREAM_TLS_NO_HOSTNAME_CHECK",
        requires = "upstream_tls_ca",
        conflicts_with = "upstream_tls_name",
        hide_short_help = true
    )]
    upstream_tls_no_hostname_check: bool,
}

impl TlsArgs {
    /// Opens the files of both sides.
    pub(super) fn check(&self, upstream: &str) -> [anyhow::Result<()>; 2] {
        [
            self.acceptor().map(drop),
            self.upstream.connector(upstream).map(drop),
        ]
    }

    /// TLS to clients, if the settings have it.
    fn acceptor(&self) -> anyhow::Result<Option<Acceptor>> {
        let (certificates, keys) = (self.client_tls_cert.len(), self.client_tls_key.len());
        ensure!(
            certificates == keys,
            "each --client-tls-cert needs its --client-tls-key, in the same order: got {certificates} and \
                {keys}"
        );
        if certificates == 0 {
            return Ok(None);
        }
        let (identities, authorities) = self.to_clients()?;
        let acceptor = Acceptor::new(identities, authorities, self.client_tls_min_version);
        Ok(Some(acceptor.context("no TLS to clients")?))
    }

    fn to_clients(&self) -> Result<(Vec<TlsIdentity>, Option<Authorities>), TlsError> {
        let pairs = self.client_tls_cert.iter().zip(&self.client_tls_key);
        let identities = pairs.map(|(certificate, key)| TlsIdentity::read(certificate, key));
        let authorities = self
            .client_tls_ca
            .as_deref()
            .map(|ca| Authorities::read(ca)?.without_revoked(&self.client_tls_crl));
        Ok((identities.collect::<Result<_, _>>()?, authorities.transpose()?))
    }

    /// The certificates that are presented to clients and nodes.
    fn shown(&self) -> Result<Vec<Certificate>, TlsError> {
        let to_clients = self.client_tls_cert.iter().map(|file| ("clients", file));
        let to_nodes = self.upstream.upstream_tls_cert.iter().map(|file| ("nodes", file));
        let shown = to_clients
            .chain(to_nodes)
            .map(|(presented_to, file)| certificate(presented_to, file));
        shown.filter_map(Result::transpose).collect()
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        let upstream = &self.upstream;
        let lists = [
            &self.client_tls_cert,
            &self.client_tls_key,
            &self.client_tls_crl,
            &upstream.upstream_tls_crl,
        ];
        let files = [
            &self.client_tls_ca,
            &upstream.upstream_tls_ca,
            &upstream.upstream_tls_cert,
            &upstream.upstream_tls_key,
        ];
        let lists = lists.into_iter().flatten();
        lists.chain(files.into_iter().flatten()).map(PathBuf::as_path)
    }
}

impl UpstreamTlsArgs {
    /// Whether the settings have it.
    #[cfg(feature = "pcap")]
    pub(super) fn is_set(&self) -> bool {
        self.upstream_tls_ca.is_some()
    }

    /// TLS to `upstream` (`host:port`), if the settings have it.
    ///
    /// # Errors
    /// Files that cannot be used, or a name that is none.
    pub(super) fn connector(&self, upstream: &str) -> anyhow::Result<Option<Connector>> {
        let Some((authorities, identity)) = self.to_upstream()? else {
            return Ok(None);
        };
        let name = self
            .upstream_tls_name
            .as_deref()
            .unwrap_or_else(|| host(upstream));
        let check = if self.upstream_tls_no_hostname_check {
            HostnameCheck::Off
        } else {
            HostnameCheck::On
        };
        let versions = self.upstream_tls_min_version;
        let connector = Connector::with_versions(authorities, identity, name, check, versions);
        Ok(Some(connector.context("no TLS to the upstream")?))
    }

    fn to_upstream(&self) -> Result<Option<(Authorities, Option<TlsIdentity>)>, TlsError> {
        let Some(authorities) = &self.upstream_tls_ca else {
            return Ok(None);
        };
        let identity = identity(
            self.upstream_tls_cert.as_deref(),
            self.upstream_tls_key.as_deref(),
        )?;
        let authorities = Authorities::read(authorities)?.without_revoked(&self.upstream_tls_crl)?;
        Ok(Some((authorities, identity)))
    }
}

/// TLS on both sides, and the files that it came from.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    /// To clients; none means plain connections.
    pub(super) clients: Option<Acceptor>,
    /// To the upstream; none means plain connections.
    pub(super) upstream: Option<Connector>,
    args: TlsArgs,
    seen: Arc<Mutex<Vec<Stamp>>>,
    /// Those in force; read again with the files.
    shown: Arc<Mutex<Vec<Certificate>>>,
}

/// How a file looks that has not changed: when it was written, and how long it is.
pub(super) type Stamp = Option<(SystemTime, u64)>;

/// TLS to the nodes, each of which has an address of its own.
#[derive(Debug, Clone)]
pub(super) struct UpstreamTls {
    connector: Option<Connector>,
    /// Whether a certificate must be for a name from the settings, at any address.
    has_name: bool,
}

impl UpstreamTls {
    /// To the node at `upstream` (`host:port`).
    pub(super) fn to(&self, upstream: &str) -> Option<Connector> {
        let connector = self.connector.as_ref()?;
        if self.has_name {
            return Some(connector.clone());
        }
        // What is no name fails in the handshake, with the one that it was opened with.
        Some(
            connector
                .named(host(upstream))
                .unwrap_or_else(|_no_name| connector.clone()),
        )
    }
}

impl Tls {
    /// TLS to nodes at any address; renewed together with everything else.
    pub(super) fn to_upstreams(&self) -> UpstreamTls {
        UpstreamTls {
            connector: self.upstream.clone(),
            has_name: self.has_name(),
        }
    }

    /// Whether nodes' certificates must be for a name from the settings, at any address.
    pub(super) fn has_name(&self) -> bool {
        self.args.upstream.upstream_tls_name.is_some()
    }

    /// Reads the files.
    pub(super) fn open(args: TlsArgs, upstream: &str) -> anyhow::Result<Self> {
        let seen = Arc::new(Mutex::new(stamps(&args)));
        Ok(Self {
            clients: args.acceptor()?,
            upstream: args.upstream.connector(upstream)?,
            shown: Arc::new(Mutex::new(args.shown()?)),
            args,
            seen,
        })
    }

    /// The certificates that are presented, and when they expire.
    pub(super) fn certificates(&self) -> Vec<Certificate> {
        self.shown.lock().clone()
    }

    /// Reads the files again if one of them has changed.
    ///
    /// A certificate may change a moment before its key, and then they do not fit: the key's
    /// change is another attempt.
    pub(super) fn look(&self) {
        if stamps(&self.args) != *self.seen.lock() {
            self.renew();
        }
    }

    /// Reads the files again. Files that cannot be used are logged, and change nothing.
    pub(super) fn renew(&self) {
        let stamps = stamps(&self.args);
        let files = stamps.len();
        *self.seen.lock() = stamps;
        match self.replace() {
            Ok(()) => {
                tracing::info!(files, "certificates and keys reloaded, for new connections");
            }
            Err(error) => {
                tracing::warn!(%error, "certificates and keys cannot be used, the previous ones stay");
            }
        }
    }

    fn replace(&self) -> Result<(), TlsError> {
        let ((identities, clients_authorities), to_upstream) =
            (self.args.to_clients()?, self.args.upstream.to_upstream()?);
        if let Some(clients) = &self.clients {
            clients.renew(identities, clients_authorities)?;
        }
        if let (Some(upstream), Some((authorities, identity))) = (&self.upstream, to_upstream) {
            upstream.renew(authorities, identity)?;
        }
        *self.shown.lock() = self.args.shown()?;
        Ok(())
    }
}

fn stamps(args: &TlsArgs) -> Vec<Stamp> {
    args.files().map(stamp).collect()
}

/// How the file looks now; none if it is not there.
pub(super) fn stamp(file: &Path) -> Stamp {
    let metadata = file.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// The certificate in `file`, and when it expires; none where that cannot be read.
pub(super) fn certificate(presented_to: &'static str, file: &Path) -> Result<Option<Certificate>, TlsError> {
    let expires = expiry(file)?;
    Ok(expires.map(|expires| Certificate {
        presented_to,
        file: file.display().to_string(),
        expires,
    }))
}

/// The certificate and key that nodes see, if both are set.
pub(super) fn identity(
    certificate: Option<&Path>,
    key: Option<&Path>,
) -> Result<Option<TlsIdentity>, TlsError> {
    match certificate.zip(key) {
        Some((certificate, key)) => Ok(Some(TlsIdentity::read(certificate, key)?)),
        None => Ok(None),
    }
}

/// The host of `host:port`, addresses of version 6 without their brackets.
pub(super) fn host(upstream: &str) -> &str {
    let host = upstream.rsplit_once(':').map_or(upstream, |(host, _port)| host);
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_what_the_certificate_is_for() {
        assert_eq!(host("db.example.com:9042"), "db.example.com");
        assert_eq!(host("10.0.0.1:9042"), "10.0.0.1");
        assert_eq!(host("[::1]:9042"), "::1");
    }
}
