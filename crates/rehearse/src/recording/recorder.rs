//! A thread that writes exchanges; the audit does not wait for it.

use std::{
    collections::BTreeMap,
    fmt, io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use cqlens_capture::{memory::Part, pulse::Pulse};

use super::writer::RecordingWriter;
use crate::{
    budget::Share,
    exchange::RecordedExchange,
    left_out::{LeftOut, LeftOutCounts},
    observe::TakeExchange,
};

/// Exchanges that wait to be written, at most; their bytes are a quarter of the part.
const MOST_WAITING: usize = 16_384;

/// How long what was written may be in memory only.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// After a failure, how long no other file is begun.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// The interval at which the end of the thread is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Hands exchanges to a thread that writes them.
pub struct Recorder {
    sender: Mutex<Option<SyncSender<Arc<RecordedExchange>>>>,
    /// Whether exchanges wait for room, as those of captures can.
    waits: bool,
    is_off: AtomicBool,
    counts: Arc<Counts>,
    left_out: Arc<LeftOutCounts>,
    pulse: Pulse,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Counts {
    waiting_bytes: Share,
    written: AtomicU64,
    failed: AtomicBool,
}

/// What a recording has so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecorderCounts {
    /// Exchanges that were written.
    pub written: u64,
    /// Requests that were left out, by reason.
    pub left_out: BTreeMap<LeftOut, u64>,
    /// Whether files cannot be written now.
    pub is_failing: bool,
}

impl Recorder {
    /// Begins to write; what waits counts in `memory`. With `waits`, exchanges wait for room in the queue, which only
    /// captures may.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        writer: RecordingWriter,
        left_out: Arc<LeftOutCounts>,
        memory: &Part,
        waits: bool,
    ) -> io::Result<Self> {
        let (sender, queue) = sync_channel(MOST_WAITING);
        let counts = Arc::new(Counts {
            waiting_bytes: Share::of(memory, 4),
            written: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        });
        let pulse = Pulse::new("recording");
        let mut work = RecorderThread {
            queue,
            writer,
            counts: Arc::clone(&counts),
            left_out: Arc::clone(&left_out),
            said: BTreeMap::new(),
            pulse: pulse.clone(),
            failed_at: None,
        };
        let thread = thread::Builder::new()
            .name("recording".to_owned())
            .spawn(move || work.run())?;
        Ok(Self {
            sender: Mutex::new(Some(sender)),
            waits,
            is_off: AtomicBool::new(false),
            counts,
            left_out,
            pulse,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The thread's sign of life.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// So far.
    pub fn counts(&self) -> RecorderCounts {
        RecorderCounts {
            written: self.counts.written.load(Ordering::Relaxed),
            left_out: self.left_out.by_reason(),
            is_failing: self.counts.failed.load(Ordering::Relaxed),
        }
    }

    /// Takes nothing more, and waits until what waits is written, no longer than `patience`; whether it was.
    pub fn stop(&self, patience: Duration) -> bool {
        self.is_off.store(true, Ordering::Relaxed);
        lock(&self.sender).take();
        let Some(thread) = lock(&self.thread).take() else {
            return true;
        };
        let began = Instant::now();
        while !thread.is_finished() {
            if began.elapsed() >= patience {
                return false;
            }
            thread::sleep(LOOK_EVERY);
        }
        thread.join().is_ok()
    }
}

impl Recorder {
    /// Waits until what is under way leaves room, which one exchange alone always has.
    fn wait_for_room(&self, bytes: usize) {
        let waiting = &self.counts.waiting_bytes;
        let has_ended = || lock(&self.thread).as_ref().is_none_or(JoinHandle::is_finished);
        while waiting.used() > 0 && !waiting.has_room_for(bytes) && !has_ended() {
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl TakeExchange for Recorder {
    fn is_on(&self) -> bool {
        !self.is_off.load(Ordering::Relaxed)
    }

    fn take(&self, exchange: &Arc<RecordedExchange>) {
        let bytes = exchange.weight();
        let waiting = &self.counts.waiting_bytes;
        let sender = lock(&self.sender);
        let Some(sender) = &*sender else { return };
        match self.waits {
            true => {
                self.wait_for_room(bytes);
                waiting.take(bytes);
            }
            false if waiting.try_take(bytes) => {}
            false => return self.left_out.add(LeftOut::QueueFull, 1),
        }
        let exchange = Arc::clone(exchange);
        let sent = match self.waits {
            true => sender.send(exchange).is_ok(),
            false => match sender.try_send(exchange) {
                Ok(()) => true,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
            },
        };
        if !sent {
            waiting.give_back(bytes);
            self.left_out.add(LeftOut::QueueFull, 1);
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Recorder({:?})", self.counts())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread.
struct RecorderThread {
    queue: Receiver<Arc<RecordedExchange>>,
    writer: RecordingWriter,
    counts: Arc<Counts>,
    left_out: Arc<LeftOutCounts>,
    /// What the files so far say was left out.
    said: BTreeMap<LeftOut, u64>,
    pulse: Pulse,
    failed_at: Option<Instant>,
}

impl RecorderThread {
    fn run(&mut self) {
        let mut flushed = Instant::now();
        loop {
            self.pulse.beat();
            match self.queue.recv_timeout(FLUSH_EVERY) {
                Ok(exchange) => self.write(&exchange),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if flushed.elapsed() >= FLUSH_EVERY {
                flushed = Instant::now();
                let written = self.writer.flush();
                self.judge(written);
            }
        }
        let left_out = self.since_last();
        let written = self.writer.end(left_out);
        self.judge(written);
    }

    fn write(&mut self, exchange: &Arc<RecordedExchange>) {
        self.counts.waiting_bytes.give_back(exchange.weight());
        if self.failed_at.is_some_and(|at| at.elapsed() < TRY_AGAIN) {
            return self.left_out.add(LeftOut::NotWritten, 1);
        }
        let (now, said) = (self.left_out.by_reason(), &mut self.said);
        let written = self.writer.write(exchange, || since(now, said));
        match &written {
            Ok(()) => {
                self.counts.written.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => self.left_out.add(LeftOut::NotWritten, 1),
        }
        self.judge(written);
    }

    fn since_last(&mut self) -> BTreeMap<LeftOut, u64> {
        since(self.left_out.by_reason(), &mut self.said)
    }

    /// Says a failure once, and that it is over.
    fn judge(&mut self, written: io::Result<()>) {
        let had_failed = self.failed_at.is_some();
        match written {
            Ok(()) if had_failed && self.failed_at.is_some_and(|at| at.elapsed() >= TRY_AGAIN) => {
                tracing::info!("the recording can be written again");
                self.failed_at = None;
            }
            Ok(()) => return,
            Err(error) => {
                if !had_failed {
                    tracing::error!("the recording cannot be written, retrying every few seconds: {error}");
                }
                self.failed_at = Some(Instant::now());
            }
        }
        self.counts
            .failed
            .store(self.failed_at.is_some(), Ordering::Relaxed);
    }
}

/// What was left out beyond what was said.
fn since(now: BTreeMap<LeftOut, u64>, said: &mut BTreeMap<LeftOut, u64>) -> BTreeMap<LeftOut, u64> {
    let before = std::mem::replace(said, now.clone());
    let new = now.into_iter().map(|(why, count)| {
        let known = before.get(&why).copied().unwrap_or(0);
        (why, count - known)
    });
    new.filter(|(_, count)| *count > 0).collect()
}
