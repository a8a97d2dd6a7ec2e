//! A recording, sent again at its pace: order and pauses of each connection as its client had them.

mod errors;
mod schedule;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use cqlens_report::{ReplayEnd, ReplayPace};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

pub use schedule::{Due, Schedule, Speed};

use self::errors::RecentErrors;
use crate::{
    compare::Latencies,
    exchange::RecordedExchange,
    rehearsal::{Rehearsal, Turn},
};

/// How a recording is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplaySettings {
    /// How fast.
    pub speed: Speed,
    /// Requests that wait for a response; no more are sent then, whatever their time.
    pub most_in_flight: usize,
    /// The share of failures among the last requests at which the replay ends, from 0 to 1.
    pub stop_at_error_rate: Option<f64>,
    /// How long responses and differences are waited for at the end.
    pub patience: Duration,
}

/// How far a replay has come; read by others.
#[derive(Debug, Default)]
pub struct ReplayProgress {
    /// Exchanges that were taken from the recording, sent or not.
    pub taken: AtomicU64,
    /// Of these, those that were sent.
    pub sent: AtomicU64,
    /// Of these, those that failed.
    pub failed: AtomicU64,
    /// The time in the recording, in microseconds since its first request.
    pub at_us: AtomicI64,
    /// Set to end it; [`ReplayProgress::end`] does.
    is_to_end: AtomicBool,
    end: Notify,
}

impl ReplayProgress {
    /// Ends the replay: what is in flight is waited for.
    pub fn end(&self) {
        self.is_to_end.store(true, Ordering::Relaxed);
        self.end.notify_one();
    }
}

/// Replays what comes from `exchanges`, and waits for its end.
pub async fn replay(
    exchanges: mpsc::Receiver<Vec<RecordedExchange>>,
    rehearsal: &mut Rehearsal,
    settings: ReplaySettings,
    progress: &ReplayProgress,
) -> ReplayPace {
    let mut running = Running {
        exchanges,
        schedule: Schedule::new(settings.speed),
        settings,
        progress,
        begun: None,
        first_us: None,
        late: Latencies::default(),
        errors: RecentErrors::default(),
    };
    let end = running.run(rehearsal).await;
    let seconds = running.now().as_secs_f64();
    rehearsal.finish(Instant::now() + settings.patience).await;
    let sent = progress.sent.load(Ordering::Relaxed);
    #[allow(clippy::cast_precision_loss, reason = "a rate is not that precise")]
    let per_second = sent as f64 / seconds.max(1e-6);
    ReplayPace {
        end,
        exchanges: progress.taken.load(Ordering::Relaxed),
        sent,
        seconds,
        per_second,
        late_us: running.late.summary(),
    }
}

struct Running<'p> {
    /// In pieces: a reader is a thread of its own.
    exchanges: mpsc::Receiver<Vec<RecordedExchange>>,
    schedule: Schedule,
    settings: ReplaySettings,
    progress: &'p ReplayProgress,
    /// When the first exchange was known: it is due at once.
    begun: Option<Instant>,
    first_us: Option<i64>,
    late: Latencies,
    errors: RecentErrors,
}

/// Requests that are sent before responses are looked at again.
const BURST: usize = 64;

impl Running<'_> {
    async fn run(&mut self, rehearsal: &mut Rehearsal) -> ReplayEnd {
        loop {
            self.read_what_is_there();
            if self.begun.is_none() && self.schedule.next_due().is_some() {
                self.begun = Some(Instant::now());
            }
            let has_room = self.send_what_is_due(rehearsal);
            while let Some(turn) = rehearsal.try_turn() {
                self.turned(turn);
            }
            if let Some(end) = self.end(rehearsal.waiting()) {
                return end;
            }
            if has_room && self.schedule.next_due().is_some_and(|due| due <= self.now()) {
                // Other tasks have to come to their turn, too.
                tokio::task::yield_now().await;
                continue;
            }
            self.wait(rehearsal, has_room).await;
        }
    }

    /// The time since the first exchange was due.
    fn now(&self) -> Duration {
        self.begun.map_or(Duration::ZERO, |begun| begun.elapsed())
    }

    fn end(&self, waiting: usize) -> Option<ReplayEnd> {
        let is_too_much = |rate| self.errors.rate().is_some_and(|errors| errors > rate);
        if self.settings.stop_at_error_rate.is_some_and(is_too_much) {
            return Some(ReplayEnd::TooManyErrors);
        }
        if self.progress.is_to_end.load(Ordering::Relaxed) {
            return Some(ReplayEnd::Stopped);
        }
        (self.schedule.is_over() && waiting == 0).then_some(ReplayEnd::Complete)
    }

    fn read_what_is_there(&mut self) {
        while self.schedule.wants_more() {
            match self.exchanges.try_recv() {
                Ok(exchanges) => self.add(exchanges),
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => return self.schedule.complete(),
            }
        }
    }

    fn add(&mut self, exchanges: Vec<RecordedExchange>) {
        for exchange in exchanges {
            self.schedule.add(Arc::new(exchange));
        }
    }

    /// Sends what is due; whether there is room for more.
    fn send_what_is_due(&mut self, rehearsal: &mut Rehearsal) -> bool {
        for _ in 0..BURST {
            if rehearsal.waiting() >= self.settings.most_in_flight {
                return false;
            }
            let now = self.now();
            let Some(due) = self.schedule.take_due(now) else {
                return true;
            };
            if !due.has_waited && self.settings.speed != Speed::Max {
                self.late.record(now.saturating_sub(due.at));
            }
            self.send(due.exchange, rehearsal);
        }
        true
    }

    fn send(&mut self, exchange: Arc<RecordedExchange>, rehearsal: &mut Rehearsal) {
        let first_us = *self.first_us.get_or_insert(exchange.at_us);
        self.progress
            .at_us
            .store(exchange.at_us - first_us, Ordering::Relaxed);
        self.progress.taken.fetch_add(1, Ordering::Relaxed);
        let (connection, number) = (exchange.connection, exchange.number);
        if rehearsal.offer(exchange) {
            self.progress.sent.fetch_add(1, Ordering::Relaxed);
        } else {
            self.schedule.done(connection, number, self.now());
        }
    }

    fn turned(&mut self, turn: Turn) {
        let Some((connection, number)) = turn.done else {
            return;
        };
        self.schedule.done(connection, number, self.now());
        self.errors.count(turn.has_failed);
        if turn.has_failed {
            self.progress.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn wait(&mut self, rehearsal: &mut Rehearsal, has_room: bool) {
        let due = self.schedule.next_due().filter(|_| has_room);
        let due = due.map(|due| self.begun.and_then(|begun| begun.checked_add(due)));
        let when_due = async {
            match due.flatten() {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            exchanges = self.exchanges.recv(), if self.schedule.wants_more() => match exchanges {
                Some(exchanges) => self.add(exchanges),
                None => self.schedule.complete(),
            },
            turn = rehearsal.turn() => self.turned(turn),
            () = when_due => {}
            () = self.progress.end.notified() => {}
        }
    }
}
