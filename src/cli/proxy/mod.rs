//! `cqlens proxy`: forward and audit.

mod args;
mod asking;
mod cluster;
mod control;
mod health;
mod inherited;
mod listener;
mod nodes;
mod opening;
mod poll;
mod reach;
mod reload;
mod running;
mod serving;
mod supervisor;
mod topology;
mod trace_sample;
mod watchdog;
mod writer;

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;

pub(super) use args::Args;
use inherited::Inherited;
use running::Running;
use topology::Mode;

use super::{
    hash_key::hash_key,
    log::Log,
    output::Outputs,
    schema_file,
    settings::{Settings, Sources},
    tls::Tls,
};
use cqlens_audit::catalog::Live;
use cqlens_cql::schema::Schema;

/// What is read and opened before there are threads.
struct Prepared {
    args: Args,
    mode: Mode,
    settings: Settings,
    sources: Sources,
    log: Log,
    live: Arc<Live>,
    schema: Option<Schema>,
    tls: Tls,
    outputs: Outputs,
}

/// Runs until SIGTERM, SIGINT or an order to drain; SIGHUP reads settings, certificates and keys again.
pub(super) fn run(args: Args, settings: Settings, sources: Sources, log: Log) -> anyhow::Result<ExitCode> {
    if args.print_config {
        return print(&settings);
    }
    let mode = args.mode()?;
    let inherited = Inherited::take()?;
    let schema = args
        .observer
        .schema
        .as_deref()
        .map(schema_file::read)
        .transpose()?;
    let live = Arc::new(args.observer.live(schema.clone()));
    let tls = Tls::open(args.tls.clone(), &args.first_upstream())?;
    let key = hash_key(
        args.observer.hash_key_file.as_deref(),
        args.observer.snapshot_dir.as_deref(),
    )?;
    let judging = settings.judging().clone();
    let outputs = Outputs::open(
        args.observer.report.as_deref(),
        args.observer.snapshot_folder(),
        key,
        judging,
    )?
    .with_limits(args.observer.limits());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let prepared = Prepared {
        args,
        mode,
        settings,
        sources,
        log,
        live,
        schema,
        tls,
        outputs,
    };
    let ended = runtime.block_on(async { Running::start(prepared, inherited).await?.until_stopped().await });
    // A name that is being looked up, or a file on a disk that does not answer, is not waited for.
    runtime.shutdown_background();
    ended
}

fn print(settings: &Settings) -> anyhow::Result<ExitCode> {
    match write!(io::stdout(), "{settings}") {
        // Whoever closed the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        printed => printed
            .map(|()| ExitCode::SUCCESS)
            .context("cannot write to standard output"),
    }
}
