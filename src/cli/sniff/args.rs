//! What can be said to `cqlens sniff`.

use std::path::PathBuf;

use anyhow::ensure;

use super::super::{config::host_and_port, observer::ObserverArgs, tls::UpstreamTlsArgs};
use cqlens_audit::rules::Severity;

/// Audit packet captures: production's traffic, with nothing in its path.
///
/// Without --report and --snapshot-dir, the report is printed.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Captures (pcap or pcapng, as they are or compressed with gzip or zstd), read in the order of their times; - is standard
    /// input, as in `tcpdump -i any -w - tcp port 9042 | cqlens sniff -`.
    #[arg(required = true, value_name = "CAPTURE")]
    pub(super) captures: Vec<PathBuf>,
    /// Wait for more at the end of the capture, which somebody else still writes, until cqlens is told to stop.
    #[arg(long, env = "CQLENS_FOLLOW")]
    pub(super) follow: bool,
    /// The port of the servers; several may be named.
    #[arg(
        long,
        env = "CQLENS_PORT",
        value_name = "PORT",
        default_value = "9042",
        value_delimiter = ','
    )]
    pub(super) port: Vec<u16>,
    /// Ask a node of the cluster for its schema, its nodes, and the statements that are prepared there.
    #[arg(long, env = "CQLENS_CONTACT", value_name = "HOST[:PORT]", value_parser = host_and_port)]
    pub(super) contact: Option<String>,
    /// Exit with code 1 if a finding that nobody has accepted is of this severity or above.
    #[arg(long, value_name = "SEVERITY")]
    pub(super) fail_on: Option<Severity>,
    #[command(flatten)]
    pub(super) observer: ObserverArgs,
    #[command(flatten)]
    pub(super) tls: UpstreamTlsArgs,
}

impl Args {
    /// Whether what was said goes together.
    ///
    /// # Errors
    /// Settings that do not, by name.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            !self.follow || self.captures.len() == 1,
            "--follow: one capture can be followed, not {}",
            self.captures.len()
        );
        for (setting, is_set) in [
            ("--username", self.observer.credentials().is_some()),
            ("--upstream-tls-ca", self.tls.is_set()),
        ] {
            ensure!(
                !is_set || self.contact.is_some(),
                "{setting}: it is for the node of --contact, and none is named"
            );
        }
        Ok(())
    }

    /// The source as reports name it.
    pub(super) fn source(&self) -> String {
        if let Some(name) = &self.observer.name {
            return name.clone();
        }
        let named = self.captures.iter().map(|path| match path.to_str() {
            Some("-") => "standard input".to_owned(),
            _ => path
                .file_name()
                .unwrap_or(path.as_os_str())
                .to_string_lossy()
                .into_owned(),
        });
        let names: Vec<_> = named.collect();
        match &names[..] {
            [first, .., last] if names.len() > MOST_NAMED => {
                format!("{first} to {last} ({} captures)", names.len())
            }
            names => names.join(", "),
        }
    }
}

const MOST_NAMED: usize = 3;
