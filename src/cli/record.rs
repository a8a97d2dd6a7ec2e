//! `cqlens record`: recordings out of captures, and out of full query logs.

mod full_query_log;

use std::{path::PathBuf, process::ExitCode};

use anyhow::ensure;

use super::{recording::RecordArgs, settings::Settings, sniff};

/// Record the requests of packet captures, or of full query logs
///
/// A recording contains requests with their values or hashes of them, digests of responses, and the windows from which
/// `report` makes reports. `cqlens proxy --record` records live traffic in the same way. From Cassandra's full query log,
/// the text that `fqltool dump` prints is read, also gzipped or from a pipe (`-`); it contains requests only, for `replay` and `explain`.
#[derive(Debug, clap::Args)]
// Groups are named after types, and that of captures has the same name.
#[group(skip)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    captures: sniff::Args,
    /// Folder of the recording
    #[arg(short, long, value_name = "DIR", help_heading = "Recording")]
    output: PathBuf,
    /// Keyspace of unqualified names, which full query logs do not have
    #[arg(
        long,
        value_name = "KEYSPACE",
        help_heading = "Recording",
        hide_short_help = true
    )]
    keyspace: Option<String>,
    #[command(flatten)]
    record: RecordArgs,
}

pub(in crate::cli) const ENDING: &str = "Examples:
  Record the traffic of a capture, to be replayed on another cluster:
      cqlens record traffic.pcap --record-values -o recording
  Cassandra's full query log, to be replayed:
      fqltool dump /var/lib/cassandra/fullquerylog |
          cqlens record - --keyspace shop --record-values -o recording
  A report from a recording, and what its statements touch:
      cqlens report recording
      cqlens explain recording --schema schema.cql

Exit codes:
  0  done
  1  a finding at or above --fail-on
  2  a capture or a file that cannot be read, a recording that cannot be written";

/// Reads the captures to their end, or until SIGINT or SIGTERM.
///
/// # Errors
/// A capture, log, schema file or output that cannot be used.
pub(super) fn run(args: Args, settings: &Settings) -> anyhow::Result<ExitCode> {
    if full_query_log::are_dumps(&args.captures.captures)? {
        return full_query_log::run(&args);
    }
    ensure!(
        args.keyspace.is_none(),
        "--keyspace: captures say the keyspace of each request"
    );
    sniff::record(args.captures, settings, &args.output, &args.record)
}
