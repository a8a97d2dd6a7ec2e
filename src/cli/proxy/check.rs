//! `cqlens proxy --check`: what a start would stumble over, all of it at once. Nothing is bound, connected to or written.

use std::{
    io::{self, Write},
    net::SocketAddr,
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, anyhow, ensure};
use cqlens_proxy::leads_back;
use tokio::{net::lookup_host, time::timeout};

use super::{args::Args, control::contacts, topology::loops};
use crate::{
    cli::{hash_key, log, schema_file},
    sink::directory,
};

/// Prints every fault, or that there is none. Exit code 2 if there is one.
///
/// # Errors
/// Standard output that cannot be written.
pub(super) fn check(mut args: Args) -> anyhow::Result<ExitCode> {
    let mut faults = faults_of_files(&mut args);
    faults.extend(faults_of_names(&args)?);
    if faults.is_empty() {
        return match writeln!(io::stdout(), "The settings are valid.") {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).context("cannot write to standard output")
            }
            _ => Ok(ExitCode::SUCCESS),
        };
    }
    faults.iter().for_each(log::failed);
    Ok(ExitCode::from(2))
}

fn faults_of_files(args: &mut Args) -> Vec<anyhow::Error> {
    let mut checked = vec![args.mode().map(drop), args.observer.login.read_password()];
    let observer = &args.observer;
    checked.push(
        observer
            .schema
            .as_deref()
            .map_or(Ok(()), |path| schema_file::read(path).map(drop)),
    );
    checked.push(observer.report_file(None).map(drop));
    checked.push(observer.report.as_deref().map_or(Ok(()), can_hold_report));
    checked.push(observer.snapshot_dir.as_deref().map_or(Ok(()), can_be_folder));
    checked.push(args.record.as_deref().map_or(Ok(()), can_be_folder));
    checked.push(observer.hash_key_file.as_deref().map_or(Ok(()), hash_key::check));
    checked.push(args.access.open().map(drop));
    checked.push(args.shadow.check());
    #[cfg(feature = "fleet")]
    checked.push(observer.sink.check());
    #[cfg(feature = "otlp")]
    checked.push(args.otlp.exporter("").map(drop));
    checked.extend(args.tls.check(&args.first_upstream()));
    checked.into_iter().filter_map(Result::err).collect()
}

fn can_hold_report(path: &Path) -> anyhow::Result<()> {
    let folder = directory(path);
    ensure!(
        folder.is_dir(),
        "cannot write the report to {}: the folder {} does not exist",
        path.display(),
        folder.display()
    );
    Ok(())
}

/// Whether the folder is there, or can be made.
fn can_be_folder(path: &Path) -> anyhow::Result<()> {
    let there = path.ancestors().find(|path| path.exists());
    ensure!(
        there.is_none_or(Path::is_dir),
        "cannot write to {}: {} is not a folder",
        path.display(),
        there.unwrap_or(path).display()
    );
    Ok(())
}

/// Looks up every node that is named, each no longer than a connection may take.
fn faults_of_names(args: &Args) -> anyhow::Result<Vec<anyhow::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let mut faults = Vec::new();
    // Addresses are judged with the other settings.
    let listens = args.mode().map_or_else(|_| Vec::new(), |mode| mode.listens());
    runtime.block_on(async {
        let upstreams = contacts(args).points.into_iter().map(|node| ("upstream", node));
        let shadows = args.shadow.named().iter().map(|node| ("shadow", node.clone()));
        for (setting, node) in upstreams.chain(shadows) {
            let found = timeout(args.connect_timeout, lookup_host(&node)).await;
            let found = found.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()));
            match found.with_context(|| format!("cannot resolve {node}")) {
                Ok(addresses) => faults.extend(loop_of(setting, &node, addresses, &listens)),
                Err(error) => faults.push(error),
            }
        }
    });
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    Ok(faults)
}

/// That the node is cqlens itself, if all its addresses lead back.
fn loop_of(
    setting: &str,
    node: &str,
    addresses: impl Iterator<Item = SocketAddr>,
    listens: &[SocketAddr],
) -> Option<anyhow::Error> {
    let back = |address| listens.iter().find(|listen| leads_back(**listen, address));
    let mut back = addresses.map(back);
    let first = back.next()??;
    back.all(|listen| listen.is_some())
        .then(|| anyhow!(loops(setting, *first, node)))
}
