//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[cfg(feature = "demo")]
use super::demo;
#[cfg(feature = "top")]
use super::top;
use super::{
    colour::When,
    completions, diff, explain, export, health,
    log::LogFormat,
    man, proxy, replay, report, rules,
    settings::{self, Settings, Sources},
};
#[cfg(feature = "pcap")]
use super::{record, sniff};

/// Audit the query patterns of Apache Cassandra clients
#[derive(Debug, Parser)]
#[command(
    name = "cqlens",
    version,
    about,
    arg_required_else_help = true,
    after_long_help = ENDING
)]
pub(super) struct Cli {
    /// What to log: error, warn, info, debug or trace
    ///
    /// Or a filter such as `info,cqlens_proxy=debug`.
    #[arg(
        long,
        global = true,
        help_heading = EVERYWHERE,
        env = "CQLENS_LOG",
        default_value = "info",
        value_name = "FILTER"
    )]
    pub(super) log: String,
    /// How to write the log
    ///
    /// `json` is one object per line: timestamp, level, target, message and fields.
    #[arg(
        long,
        global = true,
        help_heading = EVERYWHERE,
        env = "CQLENS_LOG_FORMAT",
        default_value = "text",
        value_name = "FORMAT",
        hide_short_help = true
    )]
    pub(super) log_format: LogFormat,
    /// Read settings from this TOML file
    ///
    /// It contains long flags without their dashes, in the table of their command, such as [proxy]. Flags and the
    /// environment take precedence. Without it, `report`, `diff`, `explain` and `rules` read the nearest cqlens.toml in
    /// the working directory or above it, up to the root of the repository; which may only change
    /// how things are judged and shown.
    #[arg(
        long,
        global = true,
        env = "CQLENS_CONFIG",
        value_name = "FILE",
        help_heading = EVERYWHERE
    )]
    pub(super) config: Option<PathBuf>,
    /// When output has colors
    ///
    /// `auto` colors terminal output, unless NO_COLOR is set. CLICOLOR_FORCE colors output to pipes and files too.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = EVERYWHERE)]
    pub(super) color: When,
    /// Let cqlens send passwords over connections without TLS
    ///
    /// Of the control connection, a second cluster and a store in Cassandra. Without it, a node that requires a password gets none
    /// unless the connection uses TLS or stays on this machine (loopback).
    #[arg(
        long,
        global = true,
        env = "CQLENS_ALLOW_PLAINTEXT_PASSWORDS",
        help_heading = EVERYWHERE,
        hide_short_help = true
    )]
    pub(super) allow_plaintext_passwords: bool,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The heading of what every command takes.
const EVERYWHERE: &str = "Global options";

const ENDING: &str = "Examples:
  See what a report looks like, without a cluster:
      cqlens demo
  Audit live traffic:
      cqlens proxy --upstream 10.0.0.1 --report report.html
  Lint the CQL of a source tree:
      cqlens explain --schema schema.cql --fail-on medium queries/*.cql

Exit codes:
  0    done
  1    a finding at or above --fail-on or --fail-on-new
  2    a mistake in arguments, settings or input
  3    a proxy that could not write everything in time at its end
  130  a second signal ended a process that was stuck";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Proxy(Box<proxy::Args>),
    #[cfg(feature = "pcap")]
    Sniff(Box<sniff::Args>),
    #[cfg(feature = "pcap")]
    #[command(after_long_help = record::ENDING)]
    Record(Box<record::Args>),
    Replay(Box<replay::Args>),
    Report(Box<report::Args>),
    Diff(diff::Args),
    Export(export::Args),
    Rules(rules::Args),
    /// Explain statements without a cluster
    Explain(explain::Args),
    #[cfg(feature = "demo")]
    Demo(demo::Args),
    #[cfg(feature = "top")]
    Top(top::Args),
    Health(health::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// Whether values of real clients pass through the process.
    pub(super) fn sees_traffic(&self) -> bool {
        match self {
            Self::Proxy(_) | Self::Replay(_) => true,
            #[cfg(feature = "pcap")]
            Self::Sniff(_) | Self::Record(_) => true,
            _ => false,
        }
    }
}

/// Reads the sources of `cqlens proxy` again: its arguments, the filter of the log, and both as settings.
///
/// # Errors
/// As [`Sources::read`].
pub(super) fn read_proxy(sources: &Sources) -> anyhow::Result<(proxy::Args, String, Settings)> {
    let in_one_line = |error: anyhow::Error| match error.downcast::<clap::Error>() {
        Ok(error) => anyhow::anyhow!(settings::in_one_line(&error)),
        Err(error) => error,
    };
    let (cli, settings) = sources.read::<Cli>().map_err(in_one_line)?;
    match cli.command {
        Command::Proxy(args) => Ok((*args, cli.log, settings)),
        _ => anyhow::bail!("this process is no proxy"),
    }
}
