//! The commands: what was typed, what it means, and who does it.
//!
//! Exit codes: 0 done, 1 findings at or above `--fail-on`, 2 usage or input error, 3 told to end and not everything could be written in
//! time, 130 told twice and stuck.

mod config;
#[cfg(feature = "demo")]
mod demo;
mod explain;
mod hash_key;
mod limits;
mod log;
mod log_line;
mod observer;
mod output;
mod process;
mod proxy;
mod report;
mod rules;
mod schema_file;
mod settings;
mod show;
mod signals;
#[cfg(feature = "pcap")]
mod sniff;
mod tls;
mod window_clock;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use settings::{Settings, Sources};

/// Audits the query patterns of Apache Cassandra clients.
#[derive(Debug, Parser)]
#[command(name = "cqlens", version, about, arg_required_else_help = true)]
struct Cli {
    /// What is logged: error, warn, info, debug, trace, or a filter such as `cqlens::proxy=debug`.
    #[arg(
        long,
        global = true,
        env = "CQLENS_LOG",
        default_value = "info",
        value_name = "FILTER"
    )]
    log: String,
    /// Read settings from a TOML file: long flags without their dashes, in the table of their command, such as [proxy].
    /// Flags and the environment come first.
    #[arg(long, global = true, env = "CQLENS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Forward and audit.
    Proxy(Box<proxy::Args>),
    /// Audit packet captures.
    #[cfg(feature = "pcap")]
    Sniff(Box<sniff::Args>),
    /// Merge snapshots and render what they say.
    Report(report::Args),
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
    fn sees_traffic(&self) -> bool {
        match self {
            Self::Proxy(_) => true,
            #[cfg(feature = "pcap")]
            Self::Sniff(_) => true,
            _ => false,
        }
    }
}

/// Runs the command that was typed; its errors are printed, with their causes.
pub fn main() -> ExitCode {
    let _last_lines = log::Flush;
    let sources = Sources::of_process();
    let ran = sources
        .read::<Cli>()
        .and_then(|(cli, settings)| run(cli, settings, sources));
    ran.unwrap_or_else(|error| {
        match error.downcast::<clap::Error>() {
            // Its exit codes are ours: 2, or 0 after help.
            Ok(error) => error.exit(),
            Err(error) => log::failed(&error),
        }
        ExitCode::from(2)
    })
}

fn run(cli: Cli, settings: Settings, sources: Sources) -> anyhow::Result<ExitCode> {
    let log = log::start(&cli.log)?;
    if cli.command.sees_traffic() {
        process::keep_memory_private();
    }
    match cli.command {
        Command::Proxy(args) => proxy::run(*args, settings, sources, log),
        #[cfg(feature = "pcap")]
        Command::Sniff(args) => sniff::run(&args, &settings),
        Command::Report(args) => report::run(&args, settings.judging()),
        Command::Rules(args) => rules::run(&args, &settings.judging().thresholds),
        Command::Explain(args) => explain::run(&args, settings.judging()),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::run(&args),
    }
}

/// What the sources say now of `cqlens proxy`: its arguments, what is logged, and all of it as settings.
///
/// # Errors
/// As [`Sources::read`] has it.
fn read_proxy(sources: &Sources) -> anyhow::Result<(proxy::Args, String, Settings)> {
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
