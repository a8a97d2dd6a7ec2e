//! `cqlens sniff`: audits packet captures.

mod args;
mod control;
mod live;
mod notices;
mod progress;
mod running;

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
pub(super) use args::Args;
use running::SniffRun;

use super::{
    hash_key::hash_key,
    log,
    output::Outputs,
    recording::{self, RecordArgs, Recording},
    schema_file, screen,
    settings::Settings,
    signals::{self, EndPatience, SignalRequest},
};
use cqlens_audit::audit;
use cqlens_capture::memory::{Part, Use};
use cqlens_rehearse::{digest::DigestKey, left_out::LeftOutCounts, observe::Exchanges};
use cqlens_report::{Format, Report};
use cqlens_sniff::{Captures, KeyLog, Options};

/// Reads the captures to their end, or until SIGINT or SIGTERM.
///
/// # Errors
/// A capture, schema file or output that cannot be used.
pub(super) fn run(args: Args, settings: &Settings) -> anyhow::Result<ExitCode> {
    read(args, settings, None)
}

/// The same, with a recording in that folder.
///
/// # Errors
/// As [`run`], and a recording that cannot be written.
pub(super) fn record(
    args: Args,
    settings: &Settings,
    folder: &Path,
    record: &RecordArgs,
) -> anyhow::Result<ExitCode> {
    recording::make_folder(folder)?;
    read(args, settings, Some((folder, record)))
}

fn read(
    mut args: Args,
    settings: &Settings,
    record: Option<(&Path, &RecordArgs)>,
) -> anyhow::Result<ExitCode> {
    args.observer.login.read_password()?;
    args.check()?;
    args.observer.is_rehearsed = record.is_some();
    let interface = args
        .interface
        .as_deref()
        .map(|name| live::open(name, &args.port))
        .transpose()?;
    let observer = &args.observer;
    let schema = observer.schema.as_deref().map(schema_file::read).transpose()?;
    let live = Arc::new(observer.live(schema));
    let snapshots = observer.snapshot_folders(record.map(|(folder, _)| folder));
    let key = hash_key(
        observer.hash_key_file.as_deref(),
        observer.lasting_folder(&snapshots)?.as_deref(),
    )?;
    let outputs = Outputs::open(
        observer.report_file(args.format)?,
        snapshots,
        key,
        settings.judging().clone(),
    )?
    .with_limits(observer.limits());
    #[cfg(feature = "fleet")]
    let outputs = outputs.through(observer.spool()?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("no runtime")?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let end = signals::listen(PATIENCE, move |asked| {
        // There is nothing that is read again.
        if let SignalRequest::Stop(_) = asked {
            flag.store(true, Ordering::Relaxed);
        }
    })?;
    let keys = key_log(&args)?;
    let reading = Options {
        follow: args.follow,
        stop: Arc::clone(&stop),
        keys: keys.clone(),
    };
    let captures = match interface {
        Some(begin) => begin(args.source(), reading)?,
        None => Captures::open(&args.captures, reading)?,
    };
    let mut options = observer.audit_options();
    let kept = live.memory().part(Use::Rehearsal);
    let recording = record.map(|(folder, record)| begin(folder, record, &args.source(), &kept, &mut options));
    let recording = recording.transpose()?;
    let run = SniffRun::start(&args, (captures, keys), live, outputs, &runtime, stop, &options)?;
    let report = run.until_end()?;
    let recorded = recording.as_ref().map(|recording| recording.end(PATIENCE.first));
    end.done();
    // A thread that waits for standard input is not waited for.
    runtime.shutdown_background();
    if let Some(recorded) = &recorded {
        log::said(recorded);
    } else if observer.report.is_none() && observer.snapshot_dir.is_none() {
        print(&report, args.format.unwrap_or(Format::Md))?;
    }
    if let Some(path) = &observer.report {
        screen::show(&report, path).context("cannot write to standard output")?;
    }
    let fails = |severity| report.findings.iter().any(|finding| finding.severity >= severity);
    Ok(match args.fail_on {
        Some(severity) if fails(severity) => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

/// The secrets of TLS that the operator has given.
fn key_log(args: &Args) -> anyhow::Result<KeyLog> {
    let Some(path) = &args.tls_key_log else {
        return Ok(KeyLog::default());
    };
    KeyLog::open(path).with_context(|| format!("--tls-key-log: cannot read {}", path.display()))
}

/// Begins a recording, which the auditor hands its exchanges to.
fn begin(
    folder: &Path,
    record: &RecordArgs,
    source: &str,
    memory: &Part,
    options: &mut audit::Options,
) -> anyhow::Result<Recording> {
    let (key, left_out) = (DigestKey::random(), Arc::<LeftOutCounts>::default());
    let recording = Recording::begin(folder, record, source, key, &left_out, memory, true)?;
    options.observer = Exchanges::observer(key, vec![recording.taker()], left_out);
    Ok(recording)
}

/// The first signal ends reading, and the report is over what was read until then; one that cannot be written
/// by then is lost. The second one ends the process as it is.
const PATIENCE: EndPatience = EndPatience {
    first: Duration::from_secs(15),
    again: Duration::ZERO,
};

fn print(report: &Report, format: Format) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match report.render(format, &mut out).and_then(|()| out.flush()) {
        // The reader of the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the report to standard output"),
    }
}
