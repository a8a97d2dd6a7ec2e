//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[cfg(feature = "demo")]
use super::demo;
#[cfg(feature = "pcap")]
use super::sniff;
use super::{
    diff, explain, proxy, report, rules,
    settings::{self, Settings, Sources},
};

/// Audits the query patterns of Apache Cassandra clients.
#[derive(Debug, Parser)]
#[command(name = "cqlens", version, about, arg_required_else_help = true)]
pub(super) struct Cli {
    /// What is logged: error, warn, info, debug, trace, or a filter such as `cqlens_proxy=debug`.
    #[arg(
        long,
        global = true,
        env = "CQLENS_LOG",
        default_value = "info",
        value_name = "FILTER"
    )]
    pub(super) log: String,
    /// Read settings from a TOML file: long flags without their dashes, in the table of their command, such
    /// as [proxy]. Flags and the environment come first.
    #[arg(long, global = true, env = "CQLENS_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Forward and audit.
    Proxy(Box<proxy::Args>),
    /// Audit packet captures.
    #[cfg(feature = "pcap")]
    Sniff(Box<sniff::Args>),
    /// Merge snapshots and render what they say.
    Report(report::Args),
    /// Compare two reports: what is new, worse, better or gone.
    Diff(diff::Args),
    /// List the rules, or explain one.
    Rules(rules::Args),
    /// Explain statements without a cluster.
    Explain(explain::Args),
    /// Show it all without a cluster.
    #[cfg(feature = "demo")]
    Demo(demo::Args),
}

impl Command {
    /// Whether values of real clients pass through the process.
    pub(super) fn sees_traffic(&self) -> bool {
        match self {
            Self::Proxy(_) => true,
            #[cfg(feature = "pcap")]
            Self::Sniff(_) => true,
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
