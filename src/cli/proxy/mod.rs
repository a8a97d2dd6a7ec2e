//! `cqlens proxy`: forward and audit.

mod access;
mod args;
mod bind;
mod check;
mod cluster;
mod control;
mod direct;
mod health;
mod inherited;
mod listener;
mod nodes;
mod observed;
mod opening;
#[cfg(feature = "otlp")]
mod otlp;
mod poll;
mod reach;
mod reading;
mod reload;
mod routes;
mod running;
mod serving;
mod shadow;
mod shutdown;
mod side_queries;
mod start;
mod supervisor;
mod topology;
mod trace_sample;
mod usage;
mod watchdog;
mod writer;

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;

pub(super) use args::{AdminAddress, Args};
use inherited::Inherited;
use reading::ReadAgain;
use start::{ProxySetup, start};

use super::{
    hash_key::hash_key, log::Log, output::Outputs, recording, schema_file, settings::Settings, tls::Tls,
    traffic_feed::TrafficFeed,
};

/// Runs until SIGTERM, SIGINT or an order to drain; SIGHUP reads settings, certificates and keys again.
///
/// `read_again` reads the sources of the settings once more, for a reload.
///
/// # Errors
/// Settings that cannot be used, files that cannot be read, addresses that cannot be bound, a
/// data path that has failed.
pub(super) fn run(
    mut args: Args,
    settings: Settings,
    read_again: impl ReadAgain + 'static,
    log: Log,
) -> anyhow::Result<ExitCode> {
    if args.print_config {
        return print(&settings);
    }
    if args.check {
        return check::check(args);
    }
    let mode = args.mode()?;
    let inherited = Inherited::take()?;
    args.observer.login.read_password()?;
    let schema = args
        .observer
        .schema
        .as_deref()
        .map(schema_file::read)
        .transpose()?;
    args.observer.is_rehearsed = args.shadow.is_set() || args.record.is_some();
    let live = Arc::new(args.observer.live(schema.clone()));
    let access = Arc::new(args.access.open()?);
    let tls = Tls::open(args.tls.clone(), &args.first_upstream())?;
    args.record.as_deref().map_or(Ok(()), recording::make_folder)?;
    let snapshots = args.observer.snapshot_folders(args.record.as_deref());
    let key = hash_key(
        args.observer.hash_key_file.as_deref(),
        args.observer.lasting_folder(&snapshots)?.as_deref(),
    )?;
    let judging = settings.judging().clone();
    // An inherited socket may be that of the admin listener.
    let (feed, traffic) = TrafficFeed::begin(args.admin.is_some() || !inherited.is_empty());
    #[cfg(feature = "otlp")]
    let (feed, findings) = feed.with_events(args.otlp.otlp.is_some());
    let outputs = Outputs::open(args.observer.report_file(None)?, snapshots, key, judging)?
        .with_limits(args.observer.limits())
        .feeding(feed);
    #[cfg(feature = "fleet")]
    let outputs = outputs.through(args.observer.spool()?);
    if !args.keeps_anything() {
        tracing::warn!(
            "the audit keeps nothing: --report writes a report, --snapshot-dir keeps every window, \
                --record keeps requests, --admin serves probes and operators"
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let prepared = ProxySetup {
        args,
        settings,
        read_again: Arc::new(read_again),
        log,
        live,
        schema,
        tls,
        access,
        traffic,
        #[cfg(feature = "otlp")]
        findings,
    };
    let ended = runtime.block_on(async {
        let running = start(prepared, mode, outputs, inherited).await?;
        running.until_stopped().await
    });
    // A name that is being looked up, or a file on a disk that does not answer, is not waited for.
    runtime.shutdown_background();
    ended
}

fn print(settings: &Settings) -> anyhow::Result<ExitCode> {
    match write!(io::stdout(), "{settings}") {
        // The reader of the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        printed => printed
            .map(|()| ExitCode::SUCCESS)
            .context("cannot write to standard output"),
    }
}
