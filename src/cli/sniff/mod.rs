//! `cqlens sniff`: audits packet captures.

mod args;
mod control;
mod notices;
mod progress;
mod running;

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Context;
use tokio::runtime::Runtime;

pub(super) use args::Args;
use running::Running;

use super::{
    output::{Outputs, hash_key},
    schema_file,
    settings::Settings,
    signals::{Asked, Signals},
};
use crate::{
    catalog::Live,
    report::{Format, Report},
    sniff::{Captures, Options},
};

/// Reads the captures to their end, or until SIGINT or SIGTERM.
///
/// # Errors
/// A capture, schema file or output that cannot be used.
pub(super) fn run(args: &Args, settings: &Settings) -> anyhow::Result<ExitCode> {
    args.check()?;
    let observer = &args.observer;
    let schema = observer.schema.as_deref().map(schema_file::read).transpose()?;
    let live = Arc::new(schema.map_or_else(Live::default, Live::with_schema));
    let key = hash_key(
        observer.hash_key_file.as_deref(),
        observer.snapshot_dir.as_deref(),
    )?;
    let outputs = Outputs::open(
        observer.report.as_deref(),
        observer.snapshot_dir.as_deref(),
        key,
        settings.judging().clone(),
    )?
    .with_limits(observer.limits());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("no runtime")?;
    let stop = stop_flag(&runtime)?;
    let captures = Captures::open(
        &args.captures,
        Options {
            follow: args.follow,
            stop: Arc::clone(&stop),
        },
    )?;
    let report = Running::start(args, captures, live, outputs, &runtime, stop)?.until_end()?;
    // A thread that waits for standard input is not waited for.
    runtime.shutdown_background();
    if observer.report.is_none() && observer.snapshot_dir.is_none() {
        print(&report)?;
    }
    let fails = |severity| report.findings.iter().any(|finding| finding.severity >= severity);
    Ok(match args.fail_on {
        Some(severity) if fails(severity) => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

/// Set by the first signal; the second one ends the process as it is.
fn stop_flag(runtime: &Runtime) -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = {
        let _entered = runtime.enter();
        Signals::listen()?
    };
    let flag = Arc::clone(&stop);
    runtime.spawn(async move {
        loop {
            match signals.next().await {
                Asked::Stop(signal) if flag.swap(true, Ordering::Relaxed) => {
                    tracing::warn!(signal, "stopping at once, without a report");
                    std::process::exit(STOPPED_AT_ONCE);
                }
                Asked::Stop(signal) => {
                    tracing::info!(signal, "stopping: the report is over what was read so far")
                }
                // There is nothing that is read again.
                Asked::Reload => {}
            }
        }
    });
    Ok(stop)
}

/// What shells say of a process that SIGINT has ended.
const STOPPED_AT_ONCE: i32 = 130;

fn print(report: &Report) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match report.render(Format::Md, &mut out).and_then(|()| out.flush()) {
        // Whoever closed the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the report to standard output"),
    }
}
