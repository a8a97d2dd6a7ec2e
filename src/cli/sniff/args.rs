//! What can be said to `cqlens sniff`.

use std::path::PathBuf;

use anyhow::ensure;

use super::super::{config::host_and_port, observer::ObserverArgs, tls::UpstreamTlsArgs};
use cqlens_report::Format;
use cqlens_rules::Severity;

/// Audit packet captures
///
/// Audits production traffic without anything in its path. Without --report and --snapshot-dir, the report is printed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ENDING)]
pub(in crate::cli) struct Args {
    /// Captures, pcap or pcapng; - is standard input
    ///
    /// Plain or compressed with gzip or zstd, read in the order of their timestamps.
    #[arg(required_unless_present = "interface", value_name = "CAPTURE")]
    pub(in crate::cli) captures: Vec<PathBuf>,
    /// Capture at this interface of the machine; any for all of them (Linux)
    ///
    /// Requires CAP_NET_RAW, which is dropped as soon as the interface is open. Runs until it is stopped.
    #[arg(long, env = "CQLENS_INTERFACE", value_name = "NAME", conflicts_with_all = ["captures", "follow"])]
    pub(super) interface: Option<String>,
    /// Wait for more at the end of a capture that is still being written
    ///
    /// Until cqlens is told to stop.
    #[arg(long, env = "CQLENS_FOLLOW")]
    pub(super) follow: bool,
    /// Port of the servers; several may be given
    #[arg(
        long,
        env = "CQLENS_PORT",
        value_name = "PORT",
        default_value = "9042",
        value_delimiter = ','
    )]
    pub(super) port: Vec<u16>,
    /// Decrypt TLS with the secrets in this file, as clients write them (SSLKEYLOGFILE)
    ///
    /// Connections are decrypted from their handshake on. Secrets inside of pcapng files are used without this option.
    #[arg(long, env = "CQLENS_TLS_KEY_LOG", value_name = "FILE")]
    pub(super) tls_key_log: Option<PathBuf>,
    /// Exit with code 1 on findings of this severity or above
    ///
    /// Findings accepted in the settings file do not count.
    #[arg(long, value_name = "SEVERITY")]
    pub(super) fail_on: Option<Severity>,
    /// Format of the report
    ///
    /// By default, the ending of --report decides; printed output is Markdown.
    #[arg(long, value_name = "FORMAT", help_heading = "Results")]
    pub(super) format: Option<Format>,
    /// Query a node for the schema, the nodes and its prepared statements
    #[arg(long, env = "CQLENS_CONTACT", value_name = "HOST[:PORT]", value_parser = host_and_port, help_heading = "Control connection")]
    pub(super) contact: Option<String>,
    #[command(flatten)]
    pub(super) observer: ObserverArgs,
    #[command(flatten)]
    pub(super) tls: UpstreamTlsArgs,
}

const ENDING: &str = "Examples:
  Audit a capture:
      cqlens sniff traffic.pcap --schema schema.cql --report report.html
  Audit while capturing, with and without tcpdump:
      tcpdump -i any -w - tcp port 9042 | cqlens sniff - --contact 10.0.0.1
      cqlens sniff --interface any --contact 10.0.0.1

Exit codes:
  0  done
  1  a finding at or above --fail-on
  2  a capture or a file that cannot be read, a report that cannot be written";

impl Args {
    /// Checks that the arguments fit together.
    ///
    /// # Errors
    /// Settings that do not, by name.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            !self.follow || self.captures.len() == 1,
            "--follow: only one capture can be followed, not {}",
            self.captures.len()
        );
        for (setting, is_set) in [
            ("--username", self.observer.login.credentials().is_some()),
            ("--upstream-tls-ca", self.tls.is_set()),
        ] {
            ensure!(
                !is_set || self.contact.is_some(),
                "{setting}: only valid with --contact"
            );
        }
        Ok(())
    }

    /// The source as reports name it.
    pub(in crate::cli) fn source(&self) -> String {
        if let Some(name) = &self.observer.name {
            return name.clone();
        }
        if let Some(interface) = &self.interface {
            return format!("interface {interface}");
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
