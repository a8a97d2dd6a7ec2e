//! The writer beside a stuck auditor, and beside a pipe that nothing reads.

#![allow(clippy::unwrap_used)]
use std::{fs, net::SocketAddr, path::Path};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;

use super::*;
use crate::{
    cli::{
        proxy::watchdog::{Watchdog, WatchedThreads},
        report_thread::ReportThread,
    },
    sink::Retention,
};
use cqlens_audit::audit::{HashKey, Options, Watch};
use cqlens_capture::{Clock, Queue, QueueLimits};
use cqlens_client::{Client, ClientOptions};
use cqlens_node::Node;
use cqlens_proxy::{Backlog, Drain, Proxy, Route, Workers};
use cqlens_report::Format;

const LIMIT: Duration = Duration::from_secs(30);

/// An audit whose auditor is stuck in a client's first request until `release` is dropped.
struct Stuck {
    audit: Arc<Audit>,
    release: mpsc::Sender<()>,
    _client: Client,
}

impl Stuck {
    async fn start(live: &Arc<Live>) -> Self {
        let node = Node::start(cqlens_node::Options::default()).await.unwrap();
        let ((release, released), (stuck, is_stuck)) = (mpsc::channel(), mpsc::channel());
        let (released, stuck) = (Mutex::new(released), Mutex::new(stuck));
        let options = Options {
            watch: Watch::new(move |_| {
                let _ = stuck.lock().send(());
                let _ = released.lock().recv();
            }),
            ..Options::default()
        };
        let queue = Arc::new(Queue::new(QueueLimits::default()));
        let (now, key) = (Timestamp::now(), HashKey::random());
        let audit = Audit::start_with(Arc::clone(&queue), live, key, "test", now, &options).unwrap();
        let address = forward(node.address(), queue).await;
        let client = Client::connect(address, &ClientOptions::default()).await.unwrap();
        is_stuck.recv_timeout(LIMIT).unwrap();
        Self {
            audit: Arc::new(audit),
            release,
            _client: client,
        }
    }
}

async fn forward(upstream: SocketAddr, queue: Arc<Queue>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let route = Route {
        upstream: upstream.to_string(),
        connect_timeout: LIMIT,
        client_tls: None,
        upstream_tls: None,
        topology: None,
        drain: None,
    };
    let (switch, drain) = Drain::new();
    let (proxy, workers) = (
        Proxy::new(route, queue, Clock::start()),
        Workers::start(1).unwrap(),
    );
    tokio::spawn(async move {
        let _undrained = switch;
        proxy.serve(listener, Backlog::Serve, drain, workers).await
    });
    address
}

fn writer(report: &Path, audit: &Arc<Audit>, live: &Arc<Live>) -> ReportWriter {
    writer_with(report, Vec::new(), audit, live)
}

fn writer_with(
    report: &Path,
    snapshots: Vec<(PathBuf, Retention)>,
    audit: &Arc<Audit>,
    live: &Arc<Live>,
) -> ReportWriter {
    begin(outputs(report, snapshots), audit, live)
}

fn outputs(report: &Path, snapshots: Vec<(PathBuf, Retention)>) -> Outputs {
    let report = Some((report.to_owned(), Format::Json));
    Outputs::open(report, snapshots, HashKey::random(), Judging::default()).unwrap()
}

fn begin(outputs: Outputs, audit: &Arc<Audit>, live: &Arc<Live>) -> ReportWriter {
    let clock = WindowClock::start(Timestamp::now(), Instant::now());
    ReportWriter::start(outputs, audit, live, "test", clock).unwrap()
}

fn written(snapshots: &Path) -> usize {
    let files = fs::read_dir(snapshots).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".cqlens.json.gz")).count()
}

fn read(report: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_auditor_holds_up_neither_orders_nor_the_report_and_is_said_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let live = Arc::new(Live::default());
    let stuck = Stuck::start(&live).await;
    let mut writer = writer(&report, &stuck.audit, &live);
    // Nobody waits for the thread.
    (0..5).for_each(|_| writer.window(None));
    assert!(writer.postponed().load(Ordering::Relaxed) > 0);
    let says = |report: &Path| read(report)["notices"].to_string().contains("is stuck");
    until("the report says it", || says(&report));
    // Once the auditor gets on, nothing is missing, and the notice goes.
    drop(stuck.release);
    until("it is counted", || {
        writer.window(None);
        thread::sleep(Duration::from_millis(50));
        read(&report)["coverage"]["audited"].as_u64() > Some(0)
    });
    assert!(!says(&report));
    assert_eq!(writer.end(None, LIMIT).await, LastWindowResult::Whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_waits_for_a_stuck_auditor_no_longer_than_its_patience() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let live = Arc::new(Live::default());
    let stuck = Stuck::start(&live).await;
    let writer = writer(&report, &stuck.audit, &live);
    let last = writer.end(None, Duration::from_millis(200)).await;
    assert_eq!(last, LastWindowResult::Withheld);
    assert!(read(&report)["notices"].to_string().contains("is stuck"));
    drop(stuck.release);
}

/// A report that is a pipe, in which its writer is stuck until it is read; and an audit.
fn with_pipe(report: &Path) -> (Arc<Audit>, Arc<Live>) {
    let made = std::process::Command::new("mkfifo").arg(report).status().unwrap();
    assert!(made.success());
    idle_audit()
}

fn idle_audit() -> (Arc<Audit>, Arc<Live>) {
    let live = Arc::new(Live::default());
    let queue = Arc::new(Queue::new(QueueLimits::default()));
    let audit = Audit::start(queue, &live, HashKey::random(), "test", Timestamp::now()).unwrap();
    let audit = Arc::new(audit);
    (audit, live)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_is_stuck_in_a_pipe_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let (audit, live) = with_pipe(&report);
    let writer = writer(&report, &audit, &live);
    assert_eq!(
        writer.end(None, Duration::ZERO).await,
        LastWindowResult::Unwritten
    );
    // Lets the thread go.
    fs::read_to_string(&report).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_are_in_snapshots_while_the_thread_is_stuck_in_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let (report, snapshots) = (folder.path().join("report.json"), folder.path().join("snapshots"));
    let (audit, live) = with_pipe(&report);
    let folders = vec![(snapshots.clone(), Retention::default())];
    let mut writer = writer_with(&report, folders, &audit, &live);
    // The first window waits for the thread, and so does the second; the third is not waited with.
    (0..3).for_each(|_| writer.window(None));
    until("a window is in a snapshot", || written(&snapshots) == 1);
    until("nothing is written beside", || {
        !writer.standby.is_busy.load(Ordering::Acquire)
    });
    let last = writer.end(None, Duration::from_secs(1)).await;
    assert_eq!(last, LastWindowResult::Unreported);
    assert_eq!(written(&snapshots), 2, "the last one as well");
    // Lets the thread go.
    fs::read_to_string(&report).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_is_stuck_is_abandoned_and_the_next_one_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (report, snapshots) = (folder.path().join("report.json"), folder.path().join("snapshots"));
    let (audit, live) = idle_audit();
    let mut thread = ReportThread::with_limit(Duration::from_secs(3));
    let queue = thread.queue();
    let folders = vec![(snapshots.clone(), Retention::default())];
    let mut writer = begin(outputs(&report, folders).by(thread), &audit, &live);
    let (release, released) = mpsc::channel::<()>();
    let hold = move |_: &AtomicBool| {
        assert!(
            released.recv().is_err(),
            "it is released by the end of the sender"
        )
    };
    queue.send(Box::new(hold)).unwrap();
    let first = fs::read(&report).unwrap();
    writer.window(None);
    until("it is abandoned", || {
        writer.abandoned().load(Ordering::Relaxed) == 1
    });
    assert_eq!(written(&snapshots), 1, "its window is in a snapshot");
    assert!(fs::read(&report).unwrap() == first, "nothing is published");
    // The thread that is stuck stays so; another does its work, and says what is missing.
    writer.window(None);
    let says = || {
        read(&report)["notices"]
            .to_string()
            .contains("could not be written")
    };
    until("the next report is written", says);
    let second = fs::read(&report).unwrap();
    // One that gets on after all replaces nothing.
    drop(release);
    let (done, is_done) = mpsc::channel();
    queue.send(Box::new(move |_| done.send(()).unwrap())).unwrap();
    is_done.recv_timeout(LIMIT).unwrap();
    assert!(
        fs::read(&report).unwrap() == second,
        "what was abandoned is published"
    );
    assert_eq!(writer.end(None, LIMIT).await, LastWindowResult::Whole);
    assert_eq!(written(&snapshots), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_window_whose_report_is_stuck_is_in_its_snapshot_and_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (report, snapshots) = (folder.path().join("report.json"), folder.path().join("snapshots"));
    for (folders, last) in [
        (
            vec![(snapshots.clone(), Retention::default())],
            LastWindowResult::Unreported,
        ),
        (Vec::new(), LastWindowResult::Unwritten),
    ] {
        let (audit, live) = idle_audit();
        let mut thread = ReportThread::default();
        let queue = thread.queue();
        let writer = begin(outputs(&report, folders).by(thread), &audit, &live);
        let (release, released) = mpsc::channel::<()>();
        let hold = move |_: &AtomicBool| {
            let _ = released.recv();
        };
        queue.send(Box::new(hold)).unwrap();
        assert_eq!(writer.end(None, Duration::from_millis(200)).await, last);
        drop(release);
    }
    assert_eq!(written(&snapshots), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_sees_which_thread_is_stuck_and_when_it_gets_on() {
    let live = Arc::new(Live::default());
    let stuck = Stuck::start(&live).await;
    let idle = Pulse::new("writer");
    idle.rest();
    let mut watchdog = Watchdog::new(WatchedThreads {
        vital: Vec::new(),
        runners: Vec::new(),
        others: vec![stuck.audit.pulse().clone(), idle],
    });
    let stuck_threads = |watchdog: &Watchdog| -> Vec<String> {
        let threads = watchdog.watch().threads().into_iter();
        let stuck = threads.filter(|thread| thread.stuck);
        stuck.map(|thread| thread.thread).collect()
    };
    // The first look sees what the auditor did before it was stuck.
    (0..10).for_each(|_| watchdog.look(Duration::from_secs(1)));
    watchdog.look(Duration::from_secs(1));
    assert_eq!(stuck_threads(&watchdog), ["audit"]);
    let beats = || stuck.audit.pulse().count();
    let before = beats();
    drop(stuck.release);
    until("it gets on", || beats() > before);
    watchdog.look(Duration::from_secs(1));
    assert_eq!(stuck_threads(&watchdog), [""; 0]);
}
