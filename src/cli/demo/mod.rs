//! `cqlens demo`: no cluster needed. The embedded node, the real proxy before it, the scenarios through both,
//! and the report at the end.

mod chapters;
mod scenarios;
mod summary;

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

use anyhow::Context;
use cqlens_client::ClientOptions;
use cqlens_node::{
    Node, Options,
    scenario::{Scenario, Totals},
};
use cqlens_proto::{compress::Compression, envelope::Version};
use cqlens_report::Format;

use self::summary::{RunSummary, Tour};
use crate::{cli::format, in_process, sink::replace};

/// Show a report without a cluster
///
/// Sends scenarios through a proxy to an in-memory stand-in for Cassandra, and reports on them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ENDING)]
pub(super) struct Args {
    /// Write the report to this file
    ///
    /// By default cqlens-demo.html in the working directory, or the ending of another --format. May be repeated, for
    /// several formats.
    #[arg(short, long, value_name = "FILE")]
    output: Vec<PathBuf>,
    /// Format of the report
    ///
    /// By default, the ending of the output file decides.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
}

const ENDING: &str = "Examples:
  See what a report looks like:
      cqlens demo
  The same for programs:
      cqlens demo -o demo.json

Exit codes:
  0  done
  2  a report that cannot be written, a scenario that does not run to its end";

/// Runs all scenarios, writes the report, says what it found.
///
/// # Errors
/// A report that cannot be written; a scenario that does not run to its end.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (first, others) = outputs(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let mut out = summary::out();
    let scenarios = scenarios::all()?;
    let (tour, took, report) = runtime.block_on(async {
        let node = Node::start(Options::default())
            .await
            .context("cannot start the embedded node")?;
        let began = Instant::now();
        let traffic = async |proxy| tell(&scenarios, proxy, &mut out).await;
        let (tour, mut audited) = in_process::audit(node.address(), "demo", traffic)
            .await
            .context("the proxy does not run")?;
        node.shutdown().await;
        audited.window.coverage.notices.insert(STAND_IN.to_owned());
        audited.cluster.is_embedded = true;
        let mut report = audited.report();
        report.chapters = chapters::of(&report, &scenarios);
        anyhow::Ok((tour?, began.elapsed(), report))
    })?;
    for (output, format) in [&first].into_iter().chain(&others) {
        replace(output, |to| report.render(*format, to))
            .with_context(|| format!("cannot write {}", output.display()))?;
    }
    let (output, _) = first;
    let path = fs::canonicalize(&output).unwrap_or(output);
    let summary = RunSummary {
        tour: &tour,
        took,
        report: &report,
        path: &path,
    };
    match summary.print(&mut out).and_then(|()| out.flush()) {
        // The reader of the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        printed => printed
            .map(|()| ExitCode::SUCCESS)
            .context("cannot write to standard output"),
    }
}

/// A file to write, and its format.
type ReportFile = (PathBuf, Format);

/// The report files: the first, which the terminal names, and the others.
///
/// # Errors
/// A file whose ending names no format, without `--format`.
fn outputs(args: &Args) -> anyhow::Result<(ReportFile, Vec<ReportFile>)> {
    let Some((first, others)) = args.output.split_first() else {
        let format = args.format.unwrap_or(Format::Html);
        let output = PathBuf::from(format!("cqlens-demo.{}", format.ending()));
        return Ok(((output, format), Vec::new()));
    };
    let of = |output: &PathBuf| {
        let format = format::chosen(args.format, Some(output), Format::Html)?;
        anyhow::Ok((output.clone(), format))
    };
    Ok((of(first)?, others.iter().map(of).collect::<Result<_, _>>()?))
}

/// How the clients of the scenarios connect, in turns, so that every way of framing passes the proxy.
const SETUPS: [(Version, Compression); 4] = [
    (Version::V5, Compression::Lz4),
    (Version::V4, Compression::None),
    (Version::V5, Compression::None),
    (Version::V4, Compression::Snappy),
];

/// Sends all scenarios to `proxy`.
async fn tell(
    scenarios: &[Scenario],
    proxy: SocketAddr,
    out: &mut summary::TourOutput,
) -> anyhow::Result<Tour> {
    let mut requests = 0;
    for (number, (scenario, (version, compression))) in
        scenarios.iter().zip(SETUPS.iter().cycle()).enumerate()
    {
        out.progress(&format!(
            "{} of {}: {}",
            number + 1,
            scenarios.len(),
            scenario.traffic.title
        ));
        let options = ClientOptions {
            version: *version,
            compression: *compression,
            application: "cqlens demo".to_owned(),
            ..ClientOptions::default()
        };
        let totals: Totals = scenario.run(proxy, &options).await?;
        requests += totals.requests;
    }
    out.progress("");
    Ok(Tour {
        scenarios: scenarios.len(),
        requests,
    })
}

/// What stands at the top of the report.
const STAND_IN: &str = "This is a demonstration: an in-memory stand-in answered instead of Cassandra, so latencies and sizes \
     say nothing about a cluster. Statements, partitions and tombstones are counted as they would be.";
