//! The thread that ends windows and writes what comes of them: it may wait for an auditor, a disk or a pipe, so that the loop that
//! answers signals and operators never does.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use jiff::Timestamp;
use tokio::{sync::oneshot, time::timeout};

use crate::cli::{
    hash_key::leave_key,
    output::{Outputs, Places},
    window_clock::WindowClock,
};
use cqlens_audit::{audit::Audit, catalog::Live, pulse::Pulse, rules::Judging, window::Window};

/// Gives orders to the thread, and never waits for it.
#[derive(Debug)]
pub(super) struct Writer {
    orders: mpsc::SyncSender<Order>,
    /// A window was ordered that the thread has not begun with.
    is_due: Arc<AtomicBool>,
    /// Windows that went on because of that.
    postponed: Arc<AtomicU64>,
    was_late: bool,
    pulse: Pulse,
}

/// Something for the thread to do.
enum Order {
    /// End a window; what is said of traffic that does not come this way.
    Window(Option<String>),
    /// Judge everything since the start anew.
    Judge(Box<Judging>),
    /// Write to other places, and leave the key of hashes in a folder of them.
    Move(Places, Option<PathBuf>),
    /// End the last window, and the audit with it.
    Last(Box<LastWindow>),
}

/// What the last window is ended with.
struct LastWindow {
    bypass: Option<String>,
    /// For auditors to count what waits for them.
    patience: Duration,
    /// The thread has begun with it.
    begun: oneshot::Sender<()>,
    done: oneshot::Sender<Last>,
}

/// How the last window ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// Everything that auditors have counted is in it.
    Whole,
    /// Auditors were stuck.
    Withheld,
    /// The thread itself is stuck in something.
    Unwritten,
}

/// What the thread works with.
struct Work {
    outputs: Outputs,
    audit: Arc<Audit>,
    live: Arc<Live>,
    clock: WindowClock,
    is_due: Arc<AtomicBool>,
    /// Time that passed since a window was last taken.
    passed: Duration,
}

impl Writer {
    /// Writes the first report, which says that nothing was seen yet by `source`, and waits for orders. A report path that takes long
    /// is not waited for.
    ///
    /// # Errors
    /// A report that cannot be written, a thread that cannot be had.
    pub(super) fn start(
        outputs: Outputs,
        audit: &Arc<Audit>,
        live: &Arc<Live>,
        source: &str,
        clock: WindowClock,
    ) -> anyhow::Result<Self> {
        let (orders, ordered) = mpsc::sync_channel(MOST_ORDERS);
        let (begun, has_begun) = mpsc::channel();
        let pulse = Pulse::new("writer");
        let is_due = Arc::new(AtomicBool::new(false));
        let patience = match outputs.may_hang() {
            true => Duration::ZERO,
            false => FIRST_REPORT,
        };
        let mut work = Work {
            outputs,
            audit: Arc::clone(audit),
            live: Arc::clone(live),
            clock,
            is_due: Arc::clone(&is_due),
            passed: Duration::ZERO,
        };
        let (own, source) = (pulse.clone(), source.to_owned());
        let thread = move || {
            own.beat();
            // Whoever waited for it may have gone on.
            let _ = begun.send(work.outputs.begin(&work.live, &source, work.clock.time()));
            own.rest();
            for order in ordered {
                own.beat();
                work.carry_out(order);
                own.rest();
            }
        };
        thread::Builder::new()
            .name(pulse.thread().to_owned())
            .spawn(thread)
            .context("no thread for reports")?;
        match has_begun.recv_timeout(patience) {
            Ok(begun) => begun?,
            Err(_timeout) => {
                tracing::warn!("report: the first one is not written yet, everything else goes on meanwhile")
            }
        }
        Ok(Self {
            orders,
            is_due,
            postponed: Arc::default(),
            was_late: false,
            pulse,
        })
    }

    /// The thread's sign of life.
    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Windows that were longer than `--window` says, because those before them were still being written.
    pub(super) fn postponed(&self) -> &Arc<AtomicU64> {
        &self.postponed
    }

    /// Ends the window; if the one before is still waiting to be written, it goes on instead.
    pub(super) fn window(&mut self, bypass: Option<String>) {
        let is_late =
            self.is_due.swap(true, Ordering::AcqRel) || self.orders.try_send(Order::Window(bypass)).is_err();
        if is_late {
            self.postponed.fetch_add(1, Ordering::Relaxed);
        }
        match (self.was_late, is_late) {
            (false, true) => tracing::error!(
                "report, snapshot-dir: the last window is still being written, so this one is longer than window says; forwarding \
                 and the audit go on"
            ),
            (true, false) => tracing::info!("windows are written in time again"),
            _ => {}
        }
        self.was_late = is_late;
    }

    /// Judges by other thresholds and acceptances from now on, everything since the start included.
    pub(super) fn judge_by(&self, judging: Judging) {
        self.give(Order::Judge(Box::new(judging)));
    }

    /// Writes to other places from now on, and leaves the key of hashes in a folder for the next process.
    pub(super) fn move_to(&self, places: Places, key_folder: Option<PathBuf>) {
        self.give(Order::Move(places, key_folder));
    }

    /// Ends the last window and the audit. Auditors have `patience` to count what waits for them.
    pub(super) async fn end(&self, bypass: Option<String>, patience: Duration) -> Last {
        let ((begun, has_begun), (done, is_done)) = (oneshot::channel(), oneshot::channel());
        let last = LastWindow {
            bypass,
            patience,
            begun,
            done,
        };
        let ended = async {
            timeout(WRITING, has_begun).await.ok()?.ok()?;
            timeout(patience + WRITING, is_done).await.ok()?.ok()
        };
        match self.give(Order::Last(Box::new(last))) {
            true => ended.await.unwrap_or(Last::Unwritten),
            false => Last::Unwritten,
        }
    }

    fn give(&self, order: Order) -> bool {
        let given = self.orders.try_send(order).is_ok();
        if !given {
            tracing::error!("report, snapshot-dir: writing does not get on, an order for it is lost");
        }
        given
    }
}

impl Work {
    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Window(bypass) => {
                self.is_due.store(false, Ordering::Release);
                self.window(bypass);
            }
            Order::Judge(judging) => self.outputs.judge_by(*judging, &self.live),
            Order::Move(places, key_folder) => {
                self.outputs.move_to(places, &self.live);
                let key = self.outputs.hash_key();
                let left = key_folder.map_or(Ok(()), |folder| leave_key(key, &folder));
                if let Err(error) = left {
                    tracing::warn!(
                        "snapshots of this process and the next cannot be compared by partition: {error:#}"
                    );
                }
            }
            Order::Last(last) => {
                // Whoever waits for it may have gone.
                let _ = last.begun.send(());
                let how = self.last(last.bypass, last.patience);
                let _ = last.done.send(how);
            }
        }
    }

    fn window(&mut self, bypass: Option<String>) {
        self.advance();
        let taken = self.audit.take_window_within(self.clock.time(), AUDITOR);
        self.write(taken, bypass);
    }

    fn last(&mut self, bypass: Option<String>, patience: Duration) -> Last {
        self.advance();
        let taken = self.audit.stop_within(self.clock.time(), patience);
        let last = match taken {
            Some(_) => Last::Whole,
            None => Last::Withheld,
        };
        self.write(taken, bypass);
        last
    }

    fn advance(&mut self) {
        self.passed += self.clock.advance(Timestamp::now(), Instant::now());
    }

    fn write(&mut self, taken: Option<Window>, bypass: Option<String>) {
        match taken {
            Some(mut window) => {
                window.observed_seconds = std::mem::take(&mut self.passed).as_secs_f64();
                self.outputs.window(window, &self.live, bypass);
            }
            None => self.outputs.lack_window(WITHHELD.to_owned(), &self.live),
        }
    }
}

/// Says what is missing in a report, lest it looks clean.
const WITHHELD: &str = "1 of the threads that audit do not get on: what they have counted since their last window is missing here.";

/// An auditor that keeps its window locked for so long is stuck.
const AUDITOR: Duration = Duration::from_secs(2);

/// The first report is written by then, or everything else begins without it.
const FIRST_REPORT: Duration = Duration::from_secs(5);

/// What is being written at the end is written by then, or given up; the last window has as long again.
const WRITING: Duration = Duration::from_secs(4);

const MOST_ORDERS: usize = 8;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{fs, net::SocketAddr, path::Path};

    use parking_lot::Mutex;
    use serde_json::Value;
    use tokio::net::TcpListener;

    use super::*;
    use crate::{
        cli::proxy::watchdog::{Watchdog, Watched},
        proxy::{Drain, Proxy, Route, Waiting, Workers},
    };
    use cqlens_audit::{
        audit::{HashKey, Options, Watch},
        capture::{Clock, Limits, Queue},
    };
    use cqlens_client::{Client, ClientOptions};
    use cqlens_node::Node;

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
            let queue = Arc::new(Queue::new(1, Limits::default()));
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
            proxy.serve(listener, Waiting::Served, drain, workers).await
        });
        address
    }

    fn writer(report: &Path, audit: &Arc<Audit>, live: &Arc<Live>) -> Writer {
        let outputs = Outputs::open(Some(report), None, HashKey::random(), Judging::default()).unwrap();
        let clock = WindowClock::start(Timestamp::now(), Instant::now());
        Writer::start(outputs, audit, live, "test", clock).unwrap()
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
        let began = Instant::now();
        (0..5).for_each(|_| writer.window(None));
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "nobody waits for the thread"
        );
        assert!(writer.postponed().load(Ordering::Relaxed) > 0);
        let says = |report: &Path| read(report)["notices"].to_string().contains("do not get on");
        until("the report says it", || says(&report));
        // Once the auditor gets on, nothing is missing and nothing is said any more.
        drop(stuck.release);
        until("it is counted", || {
            writer.window(None);
            thread::sleep(Duration::from_millis(50));
            read(&report)["coverage"]["audited"].as_u64() > Some(0)
        });
        assert!(!says(&report));
        assert_eq!(writer.end(None, LIMIT).await, Last::Whole);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_end_waits_for_a_stuck_auditor_no_longer_than_its_patience() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.json");
        let live = Arc::new(Live::default());
        let stuck = Stuck::start(&live).await;
        let writer = writer(&report, &stuck.audit, &live);
        let began = Instant::now();
        let last = writer.end(None, Duration::from_millis(200)).await;
        assert_eq!(last, Last::Withheld);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert!(read(&report)["notices"].to_string().contains("do not get on"));
        drop(stuck.release);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_thread_that_is_stuck_in_a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.json");
        let made = std::process::Command::new("mkfifo")
            .arg(&report)
            .status()
            .unwrap();
        assert!(made.success());
        let live = Arc::new(Live::default());
        let queue = Arc::new(Queue::new(1, Limits::default()));
        let audit = Audit::start(queue, &live, HashKey::random(), "test", Timestamp::now()).unwrap();
        let audit = Arc::new(audit);
        let writer = writer(&report, &audit, &live);
        assert_eq!(writer.end(None, Duration::ZERO).await, Last::Unwritten);
        // Lets the thread go.
        fs::read_to_string(&report).unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_watchdog_sees_which_thread_is_stuck_and_when_it_gets_on() {
        let live = Arc::new(Live::default());
        let stuck = Stuck::start(&live).await;
        let idle = Pulse::new("writer");
        idle.rest();
        let mut watchdog = Watchdog::new(Watched {
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
}
