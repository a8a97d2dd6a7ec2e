//! `cqlens demo`: no cluster needed. The embedded node, the real proxy before it, the scenarios through both, and the
//! report at the end.

mod scenarios;
mod summary;

use std::{
    fs,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use cqlens_proto::{compress::Compression, envelope::Version};
use jiff::Timestamp;
use tokio::{net::TcpListener, time::sleep};

use self::summary::{Chapter, Summary};
use crate::{
    control,
    proxy::{Drain, Proxy, Route, Waiting, Workers},
    sink::replace,
};
use cqlens_audit::{
    audit::{Audit, HashKey},
    capture::{Clock, Limits, Queue},
    catalog::Live,
    report::{Format, Report},
    rules,
    window::Cluster,
};
use cqlens_client::ClientOptions;
use cqlens_node::{Node, Options, scenario::Totals};

/// Send the scenarios through a proxy to an in-memory stand-in for Cassandra, and report what they do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where the report goes; the ending tells the format: .html, .md or .json.
    #[arg(short, long, value_name = "FILE", default_value = "cqlens-demo.html")]
    output: PathBuf,
}

/// Runs all scenarios, writes the report, says what it found.
///
/// # Errors
/// A report that cannot be written; a scenario that does not run to its end.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(format) = Format::of_path(&args.output) else {
        bail!(
            "the report {} must end in .html, .md or .json",
            args.output.display()
        );
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let mut out = summary::out();
    let (chapters, took, report) = runtime.block_on(async {
        let node = Node::start(Options::default())
            .await
            .context("cannot start the embedded node")?;
        let began = Instant::now();
        let (chapters, report) =
            through_proxy(node.address(), async |proxy| tell(proxy, &mut out).await).await?;
        node.shutdown().await;
        anyhow::Ok((chapters, began.elapsed(), report))
    })?;
    replace(&args.output, |to| report.render(format, to))
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    let path = fs::canonicalize(&args.output).unwrap_or_else(|_| args.output.clone());
    let summary = Summary {
        chapters: &chapters,
        took,
        report: &report,
        path: &path,
    };
    match summary.print(&mut out).and_then(|()| out.flush()) {
        // Whoever closed the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        printed => printed
            .map(|()| ExitCode::SUCCESS)
            .context("cannot write to standard output"),
    }
}

/// How the clients of the scenarios connect, in turns, so that every way of framing passes the proxy.
const SETUPS: [(Version, Compression); 4] = [
    (Version::V5, Compression::Lz4),
    (Version::V4, Compression::None),
    (Version::V5, Compression::None),
    (Version::V4, Compression::Snappy),
];

/// Sends all scenarios to `proxy`.
async fn tell(proxy: SocketAddr, out: &mut summary::Out) -> anyhow::Result<Vec<Chapter>> {
    let scenarios = scenarios::all()?;
    let mut chapters = Vec::with_capacity(scenarios.len());
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
        chapters.push(Chapter {
            id: scenario.id.clone(),
            keyspaces: scenario.keyspaces(),
            title: scenario.traffic.title.clone(),
            requests: totals.requests,
        });
    }
    out.progress("");
    Ok(chapters)
}

/// Runs `traffic` through a proxy of its own before the node at `upstream`, and reports what the audit saw of it.
///
/// # Errors
/// The traffic's, and threads or ports that cannot be had.
async fn through_proxy<T>(
    upstream: SocketAddr,
    traffic: impl AsyncFnOnce(SocketAddr) -> anyhow::Result<T>,
) -> anyhow::Result<(T, Report)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context("no port for the proxy")?;
    let proxy = listener.local_addr().context("no port for the proxy")?;
    let live = Arc::new(Live::default());
    let queue = Arc::new(Queue::new(1, Limits::default()));
    let audit = Audit::start(
        Arc::clone(&queue),
        &live,
        HashKey::random(),
        "demo",
        Timestamp::now(),
    )
    .context("no auditor")?;
    let control = control::follow(Arc::clone(&live), upstream.to_string(), ClientOptions::default());
    let control = tokio::spawn(control);
    let (begin_drain, drain) = Drain::new();
    let route = Route {
        upstream: upstream.to_string(),
        connect_timeout: GRACE,
        client_tls: None,
        upstream_tls: None,
        topology: None,
        drain: None,
    };
    let workers = Workers::start(1).context("no thread for the proxy")?;
    let proxy_itself = Proxy::new(route, queue, Clock::start());
    let serving = tokio::spawn(proxy_itself.serve(listener, Waiting::Served, drain, workers));
    wait_for_schema(&live).await?;

    let told = traffic(proxy).await;

    begin_drain.begin(GRACE);
    serving.await.context("the data path has failed")?;
    let mut window = audit.stop(Timestamp::now());
    control.abort();
    window.coverage.notices.insert(STAND_IN.to_owned());
    let schema = live.schema();
    let judgement = rules::check(&window, &schema, &rules::Settings::default());
    let found = live.cluster();
    let cluster = Cluster {
        name: found.name.clone(),
        release_version: found.release_version.clone(),
        partitioner: found.partitioner.clone(),
        nodes: Some(found.nodes.len()),
    };
    Ok((
        told?,
        Report::new(&window, &cluster, &schema, judgement, Timestamp::now()),
    ))
}

/// For connections to end, and for the node to answer: both are in this process.
const GRACE: Duration = Duration::from_secs(5);

/// What stands at the top of the report.
const STAND_IN: &str = "This is a demonstration: an in-memory stand-in answered instead of Cassandra, so latencies and sizes \
     say nothing about a cluster. Statements, partitions and tombstones are counted as they would be.";

async fn wait_for_schema(live: &Live) -> anyhow::Result<()> {
    let began = Instant::now();
    while !live.is_known() {
        if began.elapsed() > GRACE {
            bail!("the embedded node does not tell its schema");
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
