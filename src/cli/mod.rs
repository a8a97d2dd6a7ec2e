//! The commands: what was typed, what it means, and who does it.
//!
//! Exit codes: 0 done, 1 findings at or above `--fail-on`, 2 usage or input error.

mod config;
mod demo;
mod explain;
mod limits;
mod log;
mod output;
mod proxy;
mod report;
mod rules;
mod schema_file;
mod settings;
mod show;
mod tls;
mod window_clock;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Forward and audit.
    Proxy(Box<proxy::Args>),
    /// Merge snapshots and render what they say.
    Report(report::Args),
    /// List the rules, or explain one.
    Rules(rules::Args),
    /// Explain statements without a cluster.
    Explain(explain::Args),
    /// Show it all without a cluster.
    Demo(demo::Args),
}

/// Runs the command that was typed; its errors are printed, with their causes.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let ran = log::start(&cli.log).and_then(|()| match cli.command {
        Command::Proxy(args) => proxy::run(*args),
        Command::Report(args) => report::run(&args),
        Command::Rules(args) => rules::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Demo(args) => demo::run(&args),
    });
    ran.unwrap_or_else(|error| {
        log::failed(&error);
        ExitCode::from(2)
    })
}
