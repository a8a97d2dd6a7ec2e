//! `cqlens proxy`: forward and audit.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use jiff::Timestamp;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};

use super::{
    config::{duration, host_and_port, positive_duration},
    limits::{Descriptors, LimitArgs},
    output::{Outputs, hash_key},
    schema_file, show,
    tls::{Tls, TlsArgs},
    window_clock::WindowClock,
};
use crate::{
    audit::Audit,
    capture::{Clock, Limits, Queue},
    catalog::{self, Live, client::ClientOptions},
    proxy::{Drain, Drained, Gate, PROXY_PROTOCOL_LOCAL, Proxy, Route, Waiting, Workers},
    tls::Connector,
    window::Window,
};

/// Forward client connections to a node, unchanged, and report what the traffic does to the data model.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where clients connect.
    #[arg(
        long,
        env = "CQLENS_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9142"
    )]
    listen: SocketAddr,
    /// The node that connections go to.
    #[arg(long, env = "CQLENS_UPSTREAM", value_name = "HOST[:PORT]", value_parser = host_and_port)]
    upstream: String,
    /// Keep a report current: rewritten every window and at exit. The ending tells the format: .html, .md or .json.
    #[arg(long, env = "CQLENS_REPORT", value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write a snapshot of every window into this folder, for `cqlens report`.
    #[arg(long, env = "CQLENS_SNAPSHOT_DIR", value_name = "DIR")]
    snapshot_dir: Option<PathBuf>,
    /// How long a window is.
    #[arg(long, env = "CQLENS_WINDOW", value_name = "DURATION", default_value = "60s", value_parser = positive_duration)]
    window: Duration,
    /// How long requests in flight may take to end when cqlens is told to stop.
    #[arg(long, env = "CQLENS_GRACE", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    grace: Duration,
    /// How long to wait for the node to accept a connection.
    #[arg(long, env = "CQLENS_CONNECT_TIMEOUT", value_name = "DURATION", default_value = "5s", value_parser = positive_duration)]
    connect_timeout: Duration,
    /// Read the schema from a file of CQL statements, such as `cqlsh -e 'DESCRIBE SCHEMA'` prints.
    #[arg(long, env = "CQLENS_SCHEMA", value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Open no connection of cqlens' own to the node: the schema is what --schema and the traffic tell.
    #[arg(long, env = "CQLENS_NO_CONTROL_CONNECTION")]
    no_control_connection: bool,
    /// User name of the control connection, where the node asks for one.
    #[arg(long, env = "CQLENS_USERNAME", value_name = "NAME", requires = "password")]
    username: Option<String>,
    /// Its password; better given as CQLENS_PASSWORD, since others can read the arguments of a process.
    #[arg(
        long,
        env = "CQLENS_PASSWORD",
        value_name = "PASSWORD",
        hide_env_values = true
    )]
    password: Option<String>,
    /// The name of this proxy in reports; the listening address if not set.
    #[arg(long, env = "CQLENS_NAME", value_name = "NAME")]
    name: Option<String>,
    /// The key of the hashes that stand for partition keys; made where it is missing. Without it, hash.key in the
    /// snapshot folder, or a key of this run alone.
    #[arg(long, env = "CQLENS_HASH_KEY_FILE", value_name = "FILE")]
    hash_key_file: Option<PathBuf>,
    /// Let the log show requests with their values, at the level trace; otherwise no value is shown anywhere.
    #[arg(long, env = "CQLENS_SHOW_VALUES")]
    show_values: bool,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Runs until SIGTERM or SIGINT; SIGHUP reads certificates and keys again.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let live = Arc::new(match &args.schema {
        Some(path) => Live::with_schema(schema_file::read(path)?),
        None => Live::default(),
    });
    let tls = Tls::open(args.tls.clone(), &args.upstream)?;
    let key = hash_key(args.hash_key_file.as_deref(), args.snapshot_dir.as_deref())?;
    let outputs = Outputs::open(args.report.as_deref(), args.snapshot_dir.as_deref(), key)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    runtime.block_on(serve(args, tls, live, outputs))
}

async fn serve(args: Args, mut tls: Tls, live: Arc<Live>, mut outputs: Outputs) -> anyhow::Result<ExitCode> {
    // Before anybody can connect: whoever sees the proxy listen may also stop it.
    let mut stop = std::pin::pin!(stop_signal()?);
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let listening = listener
        .local_addr()
        .context("cannot tell the listening address")?;
    let name = args.name.clone().unwrap_or_else(|| listening.to_string());
    let queue = Arc::new(Queue::new(1, Limits::default()));
    let mut clock = WindowClock::start(Timestamp::now(), Instant::now());
    let audit = Audit::start_watched(
        Arc::clone(&queue),
        &live,
        outputs.hash_key(),
        &name,
        clock.time(),
        &show::watch(args.show_values),
    )
    .context("no auditor")?;
    let control = (!args.no_control_connection).then(|| follow(&args, tls.upstream.clone(), &live));
    outputs.begin(&live, &name, listening)?;

    let (begin_drain, drain) = Drain::new();
    let route = Route {
        upstream: args.upstream.clone(),
        connect_timeout: args.connect_timeout,
        client_tls: tls.clients.clone(),
        upstream_tls: tls.upstream.clone(),
    };
    let descriptors = Descriptors::raise();
    let gate = Gate::new(args.limits.policy(descriptors));
    descriptors.judge(&gate.policy());
    let workers = Workers::for_each_processor().context("no threads for connections")?;
    let proxy = Proxy::new(route, queue, Clock::start()).behind(&gate);
    let serving = tokio::spawn(proxy.serve(listener, Waiting::Served, drain, workers));
    tracing::info!(listen = %listening, client_tls = tls.clients.is_some(), upstream = %args.upstream,
        upstream_tls = tls.upstream.is_some(), "forwarding");

    let mut windows = tokio::time::interval_at(tokio::time::Instant::now() + args.window, args.window);
    let mut look = tokio::time::interval(LOOK_FOR_CERTIFICATES);
    loop {
        tokio::select! {
            signal = &mut stop => {
                tracing::info!(signal, grace = ?args.grace, "stopping: no new clients, requests in flight may end");
                break;
            }
            _ = hangup.recv() => tls.renew(),
            _ = look.tick() => tls.look(),
            _ = windows.tick() => {
                let passed = clock.advance(Timestamp::now(), Instant::now());
                outputs.window(watched_for(passed, audit.take_window(clock.time())), &live);
            }
        }
    }
    begin_drain.begin(args.grace);
    if serving.await.context("the data path has failed")? == Drained::CutOff {
        tracing::warn!("some connections were closed with requests in flight");
    }
    // The control connection may still find what the last requests asked for.
    let passed = clock.advance(Timestamp::now(), Instant::now());
    outputs.window(watched_for(passed, audit.stop(clock.time())), &live);
    if let Some(control) = control {
        control.abort();
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// How long a window was is told by a clock that nobody sets.
fn watched_for(passed: Duration, window: Window) -> Window {
    Window {
        observed_seconds: passed.as_secs_f64(),
        ..window
    }
}

/// Certificates are renewed days before the old ones end; authorities withdrawn in a hurry come with a SIGHUP.
const LOOK_FOR_CERTIFICATES: Duration = Duration::from_secs(10);

fn follow(args: &Args, tls: Option<Connector>, live: &Arc<Live>) -> JoinHandle<()> {
    let credentials = args.username.clone().zip(args.password.clone());
    let options = ClientOptions {
        credentials,
        application: "cqlens control".to_owned(),
        tls,
        preamble: if args.limits.sends_proxy_protocol() {
            PROXY_PROTOCOL_LOCAL
        } else {
            &[]
        },
        ..ClientOptions::default()
    };
    tokio::spawn(catalog::follow(Arc::clone(live), args.upstream.clone(), options))
}

/// Waits for SIGTERM or SIGINT and gives its name.
fn stop_signal() -> anyhow::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}
