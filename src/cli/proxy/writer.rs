//! The thread that ends windows and writes what comes of them: it may wait for an auditor, a disk or a pipe,
//! so that the loop that answers signals and operators never does.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use tokio::{sync::oneshot, task::spawn_blocking, time::timeout};

use crate::cli::{
    hash_key::leave_key,
    output::{OutputPaths, Outputs, SnapshotWriter},
    window_clock::WindowClock,
};
use cqlens_admin::Rendering;
use cqlens_audit::{audit::Audit, catalog::Live};
use cqlens_capture::pulse::Pulse;
use cqlens_rules::Judging;
use cqlens_window::Window;

/// Gives orders to the thread, and never waits for it.
#[derive(Debug)]
pub(super) struct ReportWriter {
    orders: mpsc::SyncSender<WriterOrder>,
    /// A window was ordered that the thread has not begun with.
    is_due: Arc<AtomicBool>,
    /// Windows that went on because of that.
    postponed: Arc<AtomicU64>,
    /// Reports that were not done in time.
    abandoned: Arc<AtomicU64>,
    was_late: bool,
    pulse: Pulse,
    last_words: Arc<LastWords>,
    standby: Arc<Standby>,
}

/// Takes windows and writes their snapshots while the thread is stuck in a report.
#[derive(Debug)]
struct Standby {
    taker: Mutex<WindowTaker>,
    live: Arc<Live>,
    snapshots: SnapshotWriter,
    /// A thread does so already.
    is_busy: AtomicBool,
    /// Windows that are in snapshots, and not yet in the report.
    ahead: Mutex<Option<Window>>,
    /// The snapshot of the last window is written, whatever becomes of its report.
    has_last: AtomicBool,
}

/// Takes windows out of the audit, one at a time.
#[derive(Debug)]
struct WindowTaker {
    audit: Arc<Audit>,
    clock: WindowClock,
    /// Time that passed since a window was last taken.
    passed: Duration,
}

/// What a terminal shows at the end; set with the last report.
type LastWords = Mutex<Option<String>>;

/// Something for the thread to do.
enum WriterOrder {
    /// End a window; with the notice about traffic that bypasses this proxy.
    Window(Option<String>),
    /// Judge everything since the start anew.
    Judge(Box<Judging>),
    /// Write to other places, and leave the key of hashes in a folder of them.
    Move(Box<OutputPaths>, Option<PathBuf>),
    /// Make this of everything since the start, for an operator.
    Render(Rendering, oneshot::Sender<Vec<u8>>),
    /// End the last window, and the audit with it.
    Last(Box<LastWindow>),
    /// Write the last report again.
    Again(oneshot::Sender<()>),
}

/// What the last window is ended with.
struct LastWindow {
    bypass: Option<String>,
    /// For auditors to count what waits for them.
    patience: Duration,
    /// The thread has begun with it.
    begun: oneshot::Sender<()>,
    done: oneshot::Sender<LastWindowResult>,
}

/// How the last window ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastWindowResult {
    /// Everything that auditors have counted is in it.
    Whole,
    /// Auditors were stuck.
    Withheld,
    /// The thread is stuck in a report: its snapshot has everything, the report lacks it.
    Unreported,
    /// The thread itself is stuck in something.
    Unwritten,
}

/// What the thread works with.
struct WriterThread {
    outputs: Outputs,
    live: Arc<Live>,
    is_due: Arc<AtomicBool>,
    last_words: Arc<LastWords>,
    standby: Arc<Standby>,
}

impl ReportWriter {
    /// Writes the first report, which says that nothing was seen yet by `source`, and waits for orders. A
    /// report path that takes long is not waited for.
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
        let last_words = Arc::new(LastWords::default());
        let patience = match outputs.may_hang() {
            true => Duration::ZERO,
            false => FIRST_REPORT,
        };
        let start = clock.time();
        let abandoned = Arc::clone(outputs.abandoned_reports());
        let standby = Arc::new(Standby {
            taker: Mutex::new(WindowTaker {
                audit: Arc::clone(audit),
                clock,
                passed: Duration::ZERO,
            }),
            live: Arc::clone(live),
            snapshots: outputs.snapshots(),
            is_busy: AtomicBool::new(false),
            ahead: Mutex::new(None),
            has_last: AtomicBool::new(false),
        });
        let mut work = WriterThread {
            outputs,
            live: Arc::clone(live),
            is_due: Arc::clone(&is_due),
            last_words: Arc::clone(&last_words),
            standby: Arc::clone(&standby),
        };
        let (own, source) = (pulse.clone(), source.to_owned());
        let thread = move || {
            own.beat();
            // The caller may have gone on without it.
            let _ = begun.send(work.outputs.begin(&work.live, &source, start));
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
                tracing::warn!(
                    "report: the first one is not written yet, everything else continues meanwhile"
                )
            }
        }
        Ok(Self {
            orders,
            is_due,
            postponed: Arc::default(),
            abandoned,
            was_late: false,
            pulse,
            last_words,
            standby,
        })
    }

    /// The thread's sign of life.
    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// What a terminal shows at the end, once the last window is written.
    pub(super) fn last_words(&self) -> Option<String> {
        let mut words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        words.take()
    }

    /// Windows that were longer than `--window` says, because those before them were still being written.
    pub(super) fn postponed(&self) -> &Arc<AtomicU64> {
        &self.postponed
    }

    /// Reports that were abandoned, because they were not done in time.
    pub(super) fn abandoned(&self) -> &Arc<AtomicU64> {
        &self.abandoned
    }

    /// Ends the window; if the one before is still waiting to be written, it goes on instead.
    /// If the thread is late by a whole window, the standby writes its snapshot.
    pub(super) fn window(&mut self, bypass: Option<String>) {
        let is_late = self.is_due.swap(true, Ordering::AcqRel)
            || self.orders.try_send(WriterOrder::Window(bypass)).is_err();
        if is_late {
            self.postponed.fetch_add(1, Ordering::Relaxed);
        }
        if self.was_late && is_late {
            self.standby.write_snapshot();
        }
        match (self.was_late, is_late) {
            (false, true) => tracing::error!(
                "report, snapshot-dir: the last window is still being written, so this one is longer than \
                 window specifies; forwarding and the audit continue"
            ),
            (true, false) => tracing::info!("windows are written in time again"),
            _ => {}
        }
        self.was_late = is_late;
    }

    /// Judges by other thresholds and acceptances from now on, everything since the start included.
    pub(super) fn judge_by(&self, judging: Judging) {
        self.give(WriterOrder::Judge(Box::new(judging)));
    }

    /// Writes to other places from now on, and leaves the key of hashes in a folder for the next process.
    pub(super) fn move_to(&self, places: OutputPaths, key_folder: Option<PathBuf>) {
        self.give(WriterOrder::Move(Box::new(places), key_folder));
    }

    /// Makes `rendering` of everything up to the last window; `rendered` is dropped where that fails.
    pub(super) fn render(&self, rendering: Rendering, rendered: oneshot::Sender<Vec<u8>>) {
        // The operator hears that cqlens is busy.
        let _ = self.orders.try_send(WriterOrder::Render(rendering, rendered));
    }

    /// Ends the last window and the audit. Auditors have `patience` to count what waits for them.
    pub(super) async fn end(&self, bypass: Option<String>, patience: Duration) -> LastWindowResult {
        let ((begun, has_begun), (done, is_done)) = (oneshot::channel(), oneshot::channel());
        let last = LastWindow {
            bypass,
            patience,
            begun,
            done,
        };
        let is_given = self.give(WriterOrder::Last(Box::new(last)));
        if !is_given || !matches!(timeout(WRITING, has_begun).await, Ok(Ok(()))) {
            return self.end_by_standby(patience).await;
        }
        match timeout(patience + WRITING, is_done).await {
            Ok(Ok(result)) => result,
            _ if self.standby.has_last.load(Ordering::Acquire) => LastWindowResult::Unreported,
            _ => LastWindowResult::Unwritten,
        }
    }

    /// Writes the snapshot of the last window where the thread is stuck in something.
    async fn end_by_standby(&self, patience: Duration) -> LastWindowResult {
        let standby = Arc::clone(&self.standby);
        let written = spawn_blocking(move || standby.write_last(patience));
        match timeout(patience + WRITING, written).await {
            Ok(Ok(true)) => LastWindowResult::Unreported,
            _ => LastWindowResult::Unwritten,
        }
    }

    /// Writes the last report again, with what is known only after the last window; whether it is written.
    pub(super) async fn write_again(&self) -> bool {
        let (done, is_done) = oneshot::channel();
        self.give(WriterOrder::Again(done)) && matches!(timeout(WRITING, is_done).await, Ok(Ok(())))
    }

    fn give(&self, order: WriterOrder) -> bool {
        let given = self.orders.try_send(order).is_ok();
        if !given {
            tracing::error!("report, snapshot-dir: writing makes no progress, a write order is lost");
        }
        given
    }
}

impl WriterThread {
    fn carry_out(&mut self, order: WriterOrder) {
        match order {
            WriterOrder::Window(bypass) => {
                self.is_due.store(false, Ordering::Release);
                self.window(bypass);
            }
            WriterOrder::Judge(judging) => self.outputs.judge_by(*judging, &self.live),
            WriterOrder::Move(places, key_folder) => {
                self.outputs.move_to(*places, &self.live);
                let key = self.outputs.hash_key();
                let left = key_folder.map_or(Ok(()), |folder| leave_key(key, &folder));
                if let Err(error) = left {
                    tracing::warn!(
                        "snapshots of this process and the next cannot be compared by partition: {error:#}"
                    );
                }
            }
            WriterOrder::Render(rendering, rendered) => self.render(rendering, rendered),
            WriterOrder::Last(last) => {
                // The caller may have given up.
                let _ = last.begun.send(());
                let how = self.last(last.bypass, last.patience);
                let _ = last.done.send(how);
            }
            WriterOrder::Again(done) => {
                self.outputs.write_again(&self.live);
                self.note_last_words();
                let _ = done.send(());
            }
        }
    }

    fn render(&mut self, rendering: Rendering, rendered: oneshot::Sender<Vec<u8>>) {
        match self.outputs.render(rendering, &self.live) {
            // The operator may have gone.
            Ok(bytes) => drop(rendered.send(bytes)),
            Err(error) => tracing::error!(
                ?rendering,
                "the output for the admin listener could not be rendered: {error:#}"
            ),
        }
    }

    fn window(&mut self, bypass: Option<String>) {
        self.take_ahead();
        match self.standby.take_window() {
            Some(window) => self.outputs.window(window, &self.live, bypass),
            None => self.outputs.lack_window(WITHHELD.to_owned(), &self.live),
        }
    }

    fn last(&mut self, bypass: Option<String>, patience: Duration) -> LastWindowResult {
        self.take_ahead();
        let result = match self.standby.take_last(patience) {
            Some(window) => {
                let kept = self.outputs.keep(window, &self.live, bypass);
                let has_last = kept.is_ok() && self.standby.snapshots.keeps_windows();
                self.standby.has_last.store(has_last, Ordering::Release);
                self.outputs.report_window(kept, &self.live);
                LastWindowResult::Whole
            }
            None => {
                self.outputs.lack_window(WITHHELD.to_owned(), &self.live);
                LastWindowResult::Withheld
            }
        };
        #[cfg(feature = "fleet")]
        self.outputs.flush_sink(SINK);
        self.note_last_words();
        result
    }

    fn note_last_words(&mut self) {
        let words = self.outputs.last_words(&self.live);
        *self.last_words.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }

    /// Adds what is in snapshots already.
    fn take_ahead(&mut self) {
        if let Some(ahead) = self.standby.take_ahead() {
            self.outputs.add(&ahead, &self.live);
        }
    }
}

impl Standby {
    fn take_window(&self) -> Option<Window> {
        self.taker()
            .take(|audit, now| audit.take_window_within(now, AUDITOR))
    }

    fn take_last(&self, patience: Duration) -> Option<Window> {
        self.taker().take(|audit, now| audit.stop_within(now, patience))
    }

    fn taker(&self) -> MutexGuard<'_, WindowTaker> {
        self.taker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_ahead(&self) -> Option<Window> {
        self.ahead().take()
    }

    fn ahead(&self) -> MutexGuard<'_, Option<Window>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a window and writes its snapshot, by a thread that nothing waits for.
    fn write_snapshot(self: &Arc<Self>) {
        if !self.snapshots.keeps_windows() || self.is_busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let standby = Arc::clone(self);
        let thread = move || {
            if let Some(window) = standby.take_window() {
                match &mut *standby.ahead() {
                    Some(ahead) => ahead.merge(&window),
                    nothing => *nothing = Some(window.clone()),
                }
                standby.write(window);
            }
            standby.is_busy.store(false, Ordering::Release);
        };
        let started = thread::Builder::new().name("snapshots".to_owned()).spawn(thread);
        if started.is_err() {
            self.is_busy.store(false, Ordering::Release);
        }
    }

    /// Writes the snapshot of the last window; whether it is written.
    fn write_last(&self, patience: Duration) -> bool {
        let last = self.take_last(patience);
        self.snapshots.keeps_windows() && last.is_some_and(|last| self.write(last))
    }

    fn write(&self, window: Window) -> bool {
        let written = self.snapshots.write(window, &self.live);
        if let Err(error) = &written {
            self.snapshots.failures().count(error);
        }
        written.is_ok()
    }
}

impl WindowTaker {
    /// Takes a window as `how` says, and notes how long it was watched.
    fn take(&mut self, how: impl FnOnce(&Audit, Timestamp) -> Option<Window>) -> Option<Window> {
        self.passed += self.clock.advance(Timestamp::now(), Instant::now());
        let mut window = how(&self.audit, self.clock.time())?;
        let watched = SignedDuration::try_from(std::mem::take(&mut self.passed)).unwrap_or_default();
        // If the clock was set back, the next one begins before the end of this one, which began by the clock before.
        let end = window.start.checked_add(watched).unwrap_or(window.end);
        window.end = window.end.max(end);
        window.observe(watched);
        Some(window)
    }
}

/// Says what is missing in a report, so that it does not look clean.
const WITHHELD: &str = "\
    1 of the auditing threads is stuck: its figures since the last window are missing here.";

/// An auditor that does not give its window away in this time is stuck.
const AUDITOR: Duration = Duration::from_secs(2);

/// The first report is written by then, or everything else begins without it.
const FIRST_REPORT: Duration = Duration::from_secs(5);

/// What is being written at the end is written by then, or given up; the last window has as long again.
const WRITING: Duration = Duration::from_secs(4);

/// For the sink to take what it does not have yet: the spool keeps the rest.
#[cfg(feature = "fleet")]
const SINK: Duration = Duration::from_secs(2);

const MOST_ORDERS: usize = 8;

#[cfg(test)]
mod tests;
