//! What can be said to `cqlens sniff`.

use std::{path::PathBuf, time::Duration};

use super::super::{
    config::{host_and_port, positive_duration},
    show,
};
use crate::{
    audit::{self, ClientAddresses},
    rules::Severity,
};

/// Audit packet captures: production's traffic, with nothing in its path.
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
    /// Keep a report current: rewritten every window and at the end. The ending tells the format: .html, .md or .json. Without it
    /// and without --snapshot-dir, the report is printed.
    #[arg(long, env = "CQLENS_REPORT", value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Write a snapshot of every window into this folder, for `cqlens report`.
    #[arg(long, env = "CQLENS_SNAPSHOT_DIR", value_name = "DIR")]
    pub(super) snapshot_dir: Option<PathBuf>,
    /// How long a window is, in the time of the capture.
    #[arg(long, env = "CQLENS_WINDOW", value_name = "DURATION", default_value = "60s", value_parser = positive_duration)]
    pub(super) window: Duration,
    /// Read the schema from a file of CQL statements, such as `cqlsh -e 'DESCRIBE SCHEMA'` prints.
    #[arg(long, env = "CQLENS_SCHEMA", value_name = "FILE")]
    pub(super) schema: Option<PathBuf>,
    /// Ask a node of the cluster for its schema, its nodes, and the statements that are prepared there.
    #[arg(long, env = "CQLENS_CONTACT", value_name = "HOST[:PORT]", value_parser = host_and_port)]
    pub(super) contact: Option<String>,
    /// User name for --contact, where the node asks for one.
    #[arg(
        long,
        env = "CQLENS_USERNAME",
        value_name = "NAME",
        requires = "password",
        requires = "contact"
    )]
    pub(super) username: Option<String>,
    /// Its password; better given as CQLENS_PASSWORD, since others can read the arguments of a process.
    #[arg(
        long,
        env = "CQLENS_PASSWORD",
        value_name = "PASSWORD",
        hide_env_values = true
    )]
    pub(super) password: Option<String>,
    /// What the source is called in reports; the names of the captures if not set.
    #[arg(long, env = "CQLENS_NAME", value_name = "NAME")]
    pub(super) name: Option<String>,
    /// The key of the hashes that stand for partition keys; made where it is missing. Without it, hash.key in the
    /// snapshot folder, or a key of this run alone.
    #[arg(long, env = "CQLENS_HASH_KEY_FILE", value_name = "FILE")]
    pub(super) hash_key_file: Option<PathBuf>,
    /// How much of clients' addresses stands in reports and snapshots, beside their names: full, network (10.1.2.0/24,
    /// 2001:db8:7::/48) or none.
    #[arg(
        long,
        env = "CQLENS_CLIENT_ADDRESSES",
        value_name = "HOW_MUCH",
        default_value = "full",
        hide_possible_values = true
    )]
    pub(super) client_addresses: ClientAddresses,
    /// Exit with code 1 if a finding that nobody has accepted is of this severity or above.
    #[arg(long, value_name = "SEVERITY")]
    pub(super) fail_on: Option<Severity>,
    /// Let the log show requests with their values, at the level trace; otherwise no value is shown anywhere.
    #[arg(long, env = "CQLENS_SHOW_VALUES")]
    pub(super) show_values: bool,
}

impl Args {
    /// What auditors do otherwise than by default.
    pub(super) fn audit_options(&self) -> audit::Options {
        audit::Options {
            watch: show::watch(self.show_values),
            client_addresses: self.client_addresses,
        }
    }

    /// The source as reports name it.
    pub(super) fn source(&self) -> String {
        if let Some(name) = &self.name {
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
