//! The settings of TLS, of both sides.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::tls::{Acceptor, Authorities, Connector, HostnameCheck, Identity};

/// TLS 1.2 and 1.3, on either side of the proxy or on both. All files are in PEM and read when cqlens starts.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsArgs {
    /// Speak TLS, and nothing else, to clients: the certificate that they see, followed by those that lead to its
    /// authority, in PEM.
    #[arg(
        long,
        env = "CQLENS_CLIENT_TLS_CERT",
        value_name = "FILE",
        requires = "client_tls_key"
    )]
    client_tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM, not encrypted.
    #[arg(
        long,
        env = "CQLENS_CLIENT_TLS_KEY",
        value_name = "FILE",
        requires = "client_tls_cert"
    )]
    client_tls_key: Option<PathBuf>,
    /// Refuse clients that show no certificate signed by one of these authorities, in PEM (mutual TLS).
    #[arg(
        long,
        env = "CQLENS_CLIENT_TLS_CA",
        value_name = "FILE",
        requires = "client_tls_cert"
    )]
    client_tls_ca: Option<PathBuf>,
    /// Speak TLS to the node, for clients and for the control connection: the authorities whose signature on the node's
    /// certificate is believed, in PEM. No others are; for public ones, name the system's file.
    #[arg(long, env = "CQLENS_UPSTREAM_TLS_CA", value_name = "FILE")]
    upstream_tls_ca: Option<PathBuf>,
    /// The certificate, in PEM, that cqlens shows to a node that asks for one (mutual TLS).
    #[arg(long, env = "CQLENS_UPSTREAM_TLS_CERT", value_name = "FILE", requires_all = ["upstream_tls_ca", "upstream_tls_key"])]
    upstream_tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM, not encrypted.
    #[arg(
        long,
        env = "CQLENS_UPSTREAM_TLS_KEY",
        value_name = "FILE",
        requires = "upstream_tls_cert"
    )]
    upstream_tls_key: Option<PathBuf>,
    /// The host name or address that the node's certificate must be for; that of --upstream if not set.
    #[arg(
        long,
        env = "CQLENS_UPSTREAM_TLS_NAME",
        value_name = "NAME",
        requires = "upstream_tls_ca"
    )]
    upstream_tls_name: Option<String>,
    /// Take any certificate of those authorities for the node's, whatever host it is for. Whoever has one of them can then pose as
    /// the node.
    #[arg(
        long,
        env = "CQLENS_UPSTREAM_TLS_NO_HOSTNAME_CHECK",
        requires = "upstream_tls_ca",
        conflicts_with = "upstream_tls_name"
    )]
    upstream_tls_no_hostname_check: bool,
}

impl TlsArgs {
    /// TLS to clients, if it was asked for.
    pub(super) fn acceptor(&self) -> anyhow::Result<Option<Acceptor>> {
        let Some(identity) = identity(self.client_tls_cert.as_deref(), self.client_tls_key.as_deref())?
        else {
            return Ok(None);
        };
        let authorities = self.client_tls_ca.as_deref().map(Authorities::read).transpose()?;
        let acceptor = Acceptor::new(identity, authorities).context("no TLS to clients")?;
        Ok(Some(acceptor))
    }

    /// TLS to `upstream` (`host:port`), if it was asked for.
    pub(super) fn connector(&self, upstream: &str) -> anyhow::Result<Option<Connector>> {
        let Some(authorities) = &self.upstream_tls_ca else {
            return Ok(None);
        };
        let authorities = Authorities::read(authorities)?;
        let identity = identity(
            self.upstream_tls_cert.as_deref(),
            self.upstream_tls_key.as_deref(),
        )?;
        let name = self
            .upstream_tls_name
            .as_deref()
            .unwrap_or_else(|| host(upstream));
        let check = if self.upstream_tls_no_hostname_check {
            HostnameCheck::Off
        } else {
            HostnameCheck::On
        };
        let connector =
            Connector::new(authorities, identity, name, check).context("no TLS to the upstream")?;
        Ok(Some(connector))
    }
}

fn identity(certificate: Option<&Path>, key: Option<&Path>) -> anyhow::Result<Option<Identity>> {
    match certificate.zip(key) {
        Some((certificate, key)) => Ok(Some(Identity::read(certificate, key)?)),
        None => Ok(None),
    }
}

/// The host of `host:port`, addresses of version 6 without their brackets.
fn host(upstream: &str) -> &str {
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
