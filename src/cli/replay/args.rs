//! What can be said to `cqlens replay`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::ensure;
use cqlens_client::ClientOptions;
use cqlens_proto::{compress::Compression, envelope::Version};
use cqlens_rehearse::{
    compare::ComparisonFormat, gate::Permissions, rehearsal::RehearsalSettings, rename::Renames,
    replay::Speed, target::ConnectTo,
};

use super::super::{
    config::{assignment, host_and_port, percent, positive_duration},
    format::NamedByEnding,
    login::LoginArgs,
    plaintext,
    tls::UpstreamTlsArgs,
};

/// Send a recording to another cluster and compare the responses
///
/// At the pace of the recording, keeping the order and the pauses of each connection. Reads are sent, and writes only
/// to the given keyspaces. Responses are compared with the recorded ones, or with those of a second cluster that gets
/// the same requests at the same time.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ENDING)]
pub(in crate::cli) struct Args {
    /// The recording: a folder of files, or one of them
    #[arg(value_name = "RECORDING")]
    pub(super) recording: PathBuf,
    /// Nodes of the cluster to send it to
    #[arg(long, env = "CQLENS_TO", value_name = "HOST[:PORT]", required = true, value_delimiter = ',', value_parser = host_and_port)]
    pub(super) to: Vec<String>,
    /// Nodes of a second cluster that gets the same requests, to compare with
    ///
    /// By default, responses are compared with the recorded ones.
    #[arg(long, env = "CQLENS_AGAINST", value_name = "HOST[:PORT]", value_delimiter = ',', value_parser = host_and_port)]
    pub(super) against: Vec<String>,
    /// Speed relative to the recording: 1, 0.5, 20, or max
    ///
    /// `max` sends as fast as responses arrive; the order of each connection is kept.
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = speed)]
    pub(super) speed: Speed,
    /// Maximum number of requests in flight
    #[arg(
        long,
        value_name = "REQUESTS",
        default_value_t = 4_096,
        hide_short_help = true
    )]
    pub(super) max_in_flight: u16,
    /// Stop if a larger share of requests fails, in percent
    ///
    /// Of the last 1,000. Failures are errors that the recording does not have, and missing responses.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(super) stop_at_error_rate: Option<f64>,
    /// Keyspaces that writes may go to
    ///
    /// By their names on the cluster of --to. Conditional writes, counters and definitions also need their own setting.
    #[arg(
        long,
        value_name = "KEYSPACE",
        value_delimiter = ',',
        help_heading = "What is sent"
    )]
    write_keyspaces: Vec<String>,
    /// Keyspaces that conditional writes (IF) may go to
    ///
    /// Their outcome depends on the data in the cluster.
    #[arg(
        long,
        value_name = "KEYSPACE",
        value_delimiter = ',',
        help_heading = "What is sent",
        hide_short_help = true
    )]
    lwt_keyspaces: Vec<String>,
    /// Keyspaces whose counters may be updated
    ///
    /// A second replay counts them twice.
    #[arg(
        long,
        value_name = "KEYSPACE",
        value_delimiter = ',',
        help_heading = "What is sent",
        hide_short_help = true
    )]
    counter_keyspaces: Vec<String>,
    /// Keyspaces that CREATE, ALTER, DROP and TRUNCATE may be sent for
    ///
    /// For the keyspaces and everything in them. Roles and permissions are not sent.
    #[arg(
        long,
        value_name = "KEYSPACE",
        value_delimiter = ',',
        help_heading = "What is sent",
        hide_short_help = true
    )]
    ddl_keyspaces: Vec<String>,
    /// Map a keyspace to another name on the cluster of --to
    ///
    /// Several may be given.
    #[arg(long, value_name = "KEYSPACE=NAME", value_delimiter = ',', value_parser = rename, help_heading = "What is sent")]
    rename: Vec<(String, String)>,
    /// Columns that are not compared
    #[arg(
        long,
        value_name = "COLUMN",
        value_delimiter = ',',
        help_heading = "Comparison"
    )]
    exclude_columns: Vec<String>,
    /// Pause before a differing request is repeated on both clusters
    ///
    /// A difference counts if it appears twice more, the second time after twice the pause, while the cluster of
    /// --against returns the same as before.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = positive_duration, help_heading = "Comparison", hide_short_help = true)]
    ask_again_after: Duration,
    /// Share of reads sent twice to the cluster of --against, in percent
    ///
    /// A pattern that differs no more often than these pairs of responses is noise.
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent, requires = "against", help_heading = "Comparison", hide_short_help = true)]
    noise_sample: f64,
    /// Exit with code 1 on any difference that is not noise
    #[arg(long, help_heading = "Comparison")]
    pub(super) fail_on_difference: bool,
    /// Format of the comparison
    ///
    /// By default, the ending of the output file decides; printed output is text.
    #[arg(long, value_name = "FORMAT", help_heading = "Comparison")]
    pub(super) format: Option<OutputFormat>,
    /// Write the comparison to this file
    ///
    /// Otherwise it is printed.
    #[arg(short, long, value_name = "FILE", help_heading = "Comparison")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Connections")]
    pub(super) login: LoginArgs,
    /// Send only to the named nodes
    ///
    /// Otherwise the other nodes of their datacenter are discovered, and requests go to a node that holds the partition.
    #[arg(long, help_heading = "Connections", hide_short_help = true)]
    no_discovery: bool,
    /// Connections to each node
    ///
    /// Before protocol version 5, this many per keyspace.
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Connections", hide_short_help = true)]
    pub(super) connections: u16,
    /// Highest protocol version to try: 3, 4 or 5
    #[arg(long, value_name = "VERSION", default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..=5), help_heading = "Connections", hide_short_help = true)]
    protocol_version: u8,
    /// Compression of requests and responses
    #[arg(
        long,
        value_name = "COMPRESSION",
        default_value = "none",
        help_heading = "Connections",
        hide_short_help = true
    )]
    compression: CompressionName,
    /// Timeout for connecting and for each response
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = positive_duration, help_heading = "Connections", hide_short_help = true)]
    request_timeout: Duration,
    #[command(flatten)]
    tls: UpstreamTlsArgs,
}

const ENDING: &str = "Examples:
  The reads of a recording, four times as fast, compared with what was recorded:
      cqlens replay recording --to 10.1.0.1 --speed 4
  Two versions beside each other, with an exit code for CI:
      cqlens replay recording --to new --against old --fail-on-difference
  As fast as possible, writes to one keyspace included:
      cqlens replay recording --to new --speed max --write-keyspaces shop

Exit codes:
  0  done
  1  a difference with --fail-on-difference, or more failures than
     --stop-at-error-rate
  2  a recording that cannot be read or has no values, a cluster that cannot be
     reached, an output that cannot be written";

/// How a comparison is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum OutputFormat {
    /// For terminals.
    Text,
    /// For pull requests.
    #[value(alias = "markdown")]
    Md,
    /// For programs.
    Json,
}

impl OutputFormat {
    /// The same for what renders it.
    pub(in crate::cli) fn rendered(self) -> ComparisonFormat {
        match self {
            Self::Text => ComparisonFormat::Text,
            Self::Md => ComparisonFormat::Markdown,
            Self::Json => ComparisonFormat::Json,
        }
    }
}

impl NamedByEnding for OutputFormat {
    const ENDINGS: &'static str = ".txt, .md or .json";

    fn of_path(path: &std::path::Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "txt" => Some(Self::Text),
            "md" | "markdown" => Some(Self::Md),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CompressionName {
    None,
    Lz4,
    /// Not in version 5.
    Snappy,
}

impl Args {
    /// Checks that the arguments fit together.
    ///
    /// # Errors
    /// Settings that do not, by name.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.against.is_empty() || self.rename.is_empty(),
            "--rename: a keyspace has the same name for --to and --against"
        );
        ensure!(
            self.against.is_empty() || self.permissions() == Permissions::default(),
            "--write-keyspaces and the like: with --against, writes would go to both clusters"
        );
        Ok(())
    }

    /// How to connect to each of these nodes.
    ///
    /// # Errors
    /// Files of TLS that cannot be used.
    pub(super) fn nodes(&self, addresses: &[String]) -> anyhow::Result<Vec<(String, ClientOptions)>> {
        let options = self.options();
        let node = |address: &String| Ok((address.clone(), options(address)?));
        addresses.iter().map(node).collect()
    }

    /// How to connect to nodes that a cluster names, if it is to be done.
    pub(super) fn connect_to(&self) -> Option<ConnectTo> {
        if self.no_discovery {
            return None;
        }
        let options = self.options();
        Some(ConnectTo::new(move |node| {
            let address = node.to_string();
            let options = options(&address);
            options
                .inspect_err(|error| tracing::warn!(address, "no TLS: {error:#}"))
                .ok()
        }))
    }

    fn options(&self) -> impl Fn(&str) -> anyhow::Result<ClientOptions> + Send + Sync + use<> {
        let tls = self.tls.clone();
        let options = ClientOptions {
            compression: match self.compression {
                CompressionName::None => Compression::None,
                CompressionName::Lz4 => Compression::Lz4,
                CompressionName::Snappy => Compression::Snappy,
            },
            credentials: self.login.credentials(),
            application: "cqlens replay".to_owned(),
            plaintext_passwords: plaintext::is_allowed(),
            timeout: self.request_timeout,
            ..ClientOptions::default()
        };
        move |address| {
            let tls = tls.connector(address)?;
            Ok(ClientOptions {
                tls: tls.map(|tls| Arc::new(tls) as _),
                ..options.clone()
            })
        }
    }

    /// The highest version of the protocol to try.
    pub(super) fn highest_version(&self) -> Version {
        Version::from_number(self.protocol_version)
    }

    /// How the rehearsal goes.
    pub(super) fn rehearsal(&self) -> RehearsalSettings {
        RehearsalSettings {
            permissions: self.permissions(),
            excluded: self.exclude_columns.iter().cloned().collect(),
            ask_again_after: self.ask_again_after,
            noise_share: self.noise_sample / 100.0,
            unsent_writes_count_for: None,
            ..RehearsalSettings::default()
        }
    }

    fn permissions(&self) -> Permissions {
        Permissions {
            writes: self.write_keyspaces.iter().cloned().collect(),
            conditional: self.lwt_keyspaces.iter().cloned().collect(),
            counters: self.counter_keyspaces.iter().cloned().collect(),
            definitions: self.ddl_keyspaces.iter().cloned().collect(),
        }
    }

    /// Keyspaces with another name.
    pub(super) fn renames(&self) -> Renames {
        Renames::new(self.rename.iter().cloned())
    }

    /// How long the end may take: answers that come late, and all times that both are asked again.
    pub(super) fn patience(&self) -> Duration {
        self.request_timeout + self.ask_again_after * 32
    }
}

fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let times = text
        .parse()
        .ok()
        .filter(|times: &f64| times.is_finite() && *times > 0.0);
    times
        .map(Speed::Times)
        .ok_or_else(|| "a number above 0, or max".to_owned())
}

fn rename(text: &str) -> Result<(String, String), String> {
    let (from, to) = assignment(text, "KEYSPACE=NAME, such as shop=shop_next")?;
    match from.is_empty() || to.is_empty() {
        true => Err("two names, such as shop=shop_next".to_owned()),
        false => Ok((from.to_owned(), to.to_owned())),
    }
}
