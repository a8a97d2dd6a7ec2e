//! The commands: the command line, its settings, and the programs that they run.
//!
//! Exit codes: 0 done, 1 findings at or above `--fail-on`, 2 usage or input error, 3 a shutdown in which not
//! everything could be written in time, 130 a stuck process that got a second signal.

mod colour;
mod command;
mod completions;
mod config;
#[cfg(test)]
mod contract;
#[cfg(feature = "demo")]
mod demo;
mod diff;
mod explain;
mod export;
#[cfg(feature = "fleet")]
mod fleet;
mod format;
mod hash_key;
mod health;
mod help;
mod limits;
mod log;
mod log_json;
mod log_line;
mod login;
mod man;
mod nearest;
mod observer;
#[cfg(feature = "otlp")]
mod otlp;
mod output;
mod plaintext;
mod process;
mod proxy;
#[cfg(feature = "pcap")]
mod record;
mod recording;
mod replay;
mod report;
mod report_thread;
mod rules;
mod schema_file;
mod screen;
mod settings;
mod show;
mod signals;
#[cfg(feature = "pcap")]
mod sniff;
mod tls;
#[cfg(feature = "top")]
mod top;
mod traffic_feed;
mod window_clock;

use std::process::ExitCode;

use colour::When;
use command::{Cli, Command, read_proxy};
use settings::{Settings, SettingsFaults, Sources};

/// Runs the command that was typed; its errors are printed, with their causes.
pub fn main() -> ExitCode {
    let _last_lines = log::Flush;
    let sources = Sources::from_process();
    // Help and errors are printed before everything is read.
    if let Some(when) = sources.typed_value("--color").and_then(|text| When::read(&text)) {
        when.put_in_force();
    }
    let ran = sources
        .read::<Cli>()
        .and_then(|(cli, settings)| run(cli, settings, sources));
    ran.unwrap_or_else(|error| {
        match error.downcast::<clap::Error>() {
            // Its exit codes are ours: 2, or 0 after help.
            Ok(error) => error.exit(),
            Err(error) => fail(error),
        }
        ExitCode::from(2)
    })
}

/// What `cqlens` takes from the file of settings that it finds in the working directory if it is called like this: each setting
/// with its values. For `fuzz/fuzz_targets/settings.rs`.
///
/// # Errors
/// What `cqlens` prints where it refuses the file.
#[doc(hidden)]
pub fn found_settings(arguments: &[&str]) -> Result<Vec<(String, Vec<String>)>, String> {
    let read = Sources::typed(arguments).read::<Cli>();
    let (_, settings) = read.map_err(|error| match error.downcast::<SettingsFaults>() {
        Ok(faults) => faults.into_lines().collect::<Vec<_>>().join("\n"),
        Err(error) => format!("{error:#}"),
    })?;
    // Shown in logs and reports, whatever is in it.
    drop((settings.notice(), settings.to_string()));
    let of_file = settings.of_file();
    Ok(of_file
        .map(|(key, values)| (key.to_owned(), values.to_vec()))
        .collect())
}

/// Prints an error; every mistake in the file of settings on a line of its own.
fn fail(error: anyhow::Error) {
    match error.downcast::<SettingsFaults>() {
        Ok(faults) => faults
            .into_lines()
            .for_each(|fault| log::failed(&anyhow::anyhow!(fault))),
        Err(error) => log::failed(&error),
    }
}

fn run(cli: Cli, settings: Settings, sources: Sources) -> anyhow::Result<ExitCode> {
    cli.color.put_in_force();
    plaintext::allow(cli.allow_plaintext_passwords);
    let log = log::start(&cli.log, cli.log_format)?;
    settings.log_file();
    if cli.command.sees_traffic() {
        process::keep_memory_private();
    }
    match cli.command {
        Command::Proxy(args) => proxy::run(*args, settings, move || read_proxy(&sources), log),
        #[cfg(feature = "pcap")]
        Command::Sniff(args) => sniff::run(*args, &settings),
        #[cfg(feature = "pcap")]
        Command::Record(args) => record::run(*args, &settings),
        Command::Replay(args) => replay::run(*args),
        Command::Report(args) => report::run(&args, settings.judging(), settings.notice()),
        Command::Diff(args) => diff::run(&args, settings.judging(), settings.notice()),
        Command::Export(args) => export::run(&args),
        Command::Rules(args) => rules::run(&args, &settings.judging().settings),
        Command::Explain(args) => explain::run(&args, settings.judging()),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::run(&args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(args),
        Command::Health(args) => health::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
