//! Live traffic, copied to another cluster.
//!
//! The auditor hands exchanges over and never waits: the queue is bounded in number and bytes, and what does not fit
//! is counted. All else is done by a thread of its own, which may be late, or stuck, without anybody noticing but
//! those who read its report.

use std::{
    collections::BTreeSet,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use cqlens_capture::{
    priority::{CanWait, yield_to_clients},
    pulse::Pulse,
};
use jiff::Timestamp;
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    budget::Share,
    compare::{Comparison, ComparisonAbout, report},
    exchange::{Effect, RecordedExchange},
    observe::TakeExchange,
    rehearsal::{First, Rehearsal, RehearsalSettings, is_sampled},
    skipped::Skipped,
    statement::StatementCache,
    target::{Target, TargetSettings},
};

/// How live traffic is copied.
#[derive(Debug, Clone)]
pub struct ShadowSettings {
    /// The proxy, as the report names it.
    pub source: String,
    /// The other cluster.
    pub other: TargetSettings,
    /// The first cluster, where it may be asked again.
    pub first: Option<TargetSettings>,
    /// What may be sent, and how it is compared.
    pub rehearsal: RehearsalSettings,
    /// The share of connections, from 0 to 1.
    pub share: f64,
    /// The keyspaces, where not all of them.
    pub keyspaces: BTreeSet<String>,
    /// The patterns, where not all of them, as reports name them.
    pub patterns: BTreeSet<String>,
    /// Requests a second at most.
    pub most_per_second: Option<u32>,
}

/// What is done with each new report, in the shadow's own thread.
pub type Publish = Box<dyn Fn(&Comparison) + Send>;

/// Live traffic on its way to another cluster.
pub struct Shadow {
    shared: Arc<Shared>,
    sender: Mutex<Option<Sender<Arc<RecordedExchange>>>>,
    pulse: Pulse,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    is_on: AtomicBool,
    share: f64,
    waiting_bytes: Share,
    queue_full: AtomicU64,
    not_sampled: AtomicU64,
    /// When a write was last lost on its way here, in microseconds since 1970; 0: never.
    lost_write_us: AtomicI64,
    latest: Mutex<Option<Arc<Comparison>>>,
    /// Whether the latest report was read: then the next one is made at the next tick.
    is_read: AtomicBool,
    is_to_end: AtomicBool,
}

/// Exchanges that wait for the shadow's thread.
const MOST_WAITING: usize = 10_000;
/// The interval between two reports, unless they are read.
const REPORT_EVERY: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(500);
/// How long what is under way at the end is waited for. It does not depend on the pause before a read is sent again: responses come no
/// sooner after a short one, and after a long one the last report would come too late.
const UNDER_WAY: Duration = Duration::from_secs(8);
/// Exchanges that are taken from the queue at a time.
const BURST: usize = 64;

impl Shadow {
    /// Begins to connect, in a thread of its own.
    ///
    /// # Errors
    /// If there can be no thread or runtime.
    pub fn start(settings: ShadowSettings, publish: Publish) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (sender, queue) = mpsc::channel(MOST_WAITING);
        let shared = Arc::new(Shared {
            is_on: AtomicBool::new(true),
            share: settings.share,
            waiting_bytes: Share::of(&settings.rehearsal.memory, 4),
            queue_full: AtomicU64::new(0),
            not_sampled: AtomicU64::new(0),
            lost_write_us: AtomicI64::new(0),
            latest: Mutex::default(),
            is_read: AtomicBool::new(false),
            is_to_end: AtomicBool::new(false),
        });
        let pulse = Pulse::new("shadow");
        let (of_thread, beats) = (Arc::clone(&shared), pulse.clone());
        let thread = thread::Builder::new().name("shadow".to_owned()).spawn(move || {
            // Copies are left out before clients wait.
            yield_to_clients(CanWait::Copies);
            runtime.block_on(async {
                ShadowThread::new(settings, of_thread, beats, publish)
                    .run(queue)
                    .await
            });
            // A name that is being looked up is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            shared,
            sender: Mutex::new(Some(sender)),
            pulse,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Stops sending, or goes on with it; whether it was sending before.
    pub fn set_copying(&self, on: bool) -> bool {
        // Writes were not seen meanwhile.
        self.shared
            .lost_write_us
            .store(Timestamp::now().as_microsecond(), Ordering::Relaxed);
        self.shared.is_on.swap(on, Ordering::Relaxed)
    }

    /// The latest report; none in the first seconds. Once it was read, the next one is made within half a second.
    pub fn latest(&self) -> Option<Arc<Comparison>> {
        self.shared.is_read.store(true, Ordering::Relaxed);
        self.shared
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The sign of life of its thread.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Takes nothing more, and waits for the last report, no longer than `patience`; whether it was made.
    pub fn end(&self, patience: Duration) -> bool {
        self.shared.is_to_end.store(true, Ordering::Relaxed);
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return true };
        let step = Duration::from_millis(10);
        for _ in 0..patience.as_millis() / step.as_millis() {
            if thread.is_finished() {
                return true;
            }
            thread::sleep(step);
        }
        thread.is_finished()
    }
}

impl TakeExchange for Shadow {
    fn is_on(&self) -> bool {
        self.shared.is_on.load(Ordering::Relaxed)
    }

    fn take(&self, exchange: &Arc<RecordedExchange>) {
        let shared = &self.shared;
        let is_read = exchange.request.effect == Effect::Read;
        // Writes are looked at in any case: reads of their tables cannot be judged without.
        if is_read && !is_sampled(exchange.connection, shared.share) {
            shared.not_sampled.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let bytes = exchange.weight();
        if shared.waiting_bytes.try_take(bytes) {
            let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = |sender: &Sender<_>| sender.try_send(Arc::clone(exchange)).is_ok();
            if sender.as_ref().is_some_and(sent) {
                return;
            }
            shared.waiting_bytes.give_back(bytes);
        }
        shared.queue_full.fetch_add(1, Ordering::Relaxed);
        if !is_read {
            shared.lost_write_us.store(exchange.at_us, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for Shadow {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Shadow")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

/// What the shadow's thread does.
struct ShadowThread {
    settings: ShadowSettings,
    shared: Arc<Shared>,
    pulse: Pulse,
    publish: Publish,
    rehearsal: Rehearsal,
    statements: StatementCache,
    rate: Rate,
    started: Timestamp,
    /// The last write that was lost before.
    lost_write_us: i64,
}

impl ShadowThread {
    fn new(settings: ShadowSettings, shared: Arc<Shared>, pulse: Pulse, publish: Publish) -> Self {
        let first = match &settings.first {
            Some(first) => First::CanRepeat(Target::open(first.clone())),
            None => First::Recorded,
        };
        let other = Target::open(settings.other.clone());
        let statements = StatementCache::within(&settings.rehearsal.memory);
        Self {
            rehearsal: Rehearsal::new(settings.rehearsal.clone(), first, other),
            rate: Rate::new(settings.most_per_second),
            settings,
            shared,
            pulse,
            publish,
            statements,
            started: Timestamp::now(),
            lost_write_us: 0,
        }
    }

    async fn run(mut self, mut queue: Receiver<Arc<RecordedExchange>>) {
        let mut burst = Vec::with_capacity(BURST);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reported = Instant::now();
        loop {
            self.note_lost_writes();
            tokio::select! {
                received = queue.recv_many(&mut burst, BURST) => {
                    if received == 0 {
                        break;
                    }
                    burst.drain(..).for_each(|exchange| self.consider(exchange));
                    while self.rehearsal.try_turn().is_some() {}
                }
                _ = self.rehearsal.turn() => {}
                now = tick.tick() => {
                    self.pulse.beat();
                    let is_due = now.duration_since(reported) >= REPORT_EVERY;
                    if self.shared.is_read.swap(false, Ordering::Relaxed) || is_due {
                        reported = now;
                        self.report();
                    }
                }
            }
            if self.shared.is_to_end.load(Ordering::Relaxed) {
                break;
            }
        }
        self.rehearsal.finish(Instant::now() + UNDER_WAY).await;
        self.report();
        self.pulse.rest();
    }

    /// Hears of writes that did not come here: often enough, as a difference has to stay for seconds before it counts.
    fn note_lost_writes(&mut self) {
        let lost = self.shared.lost_write_us.load(Ordering::Relaxed);
        if lost != self.lost_write_us {
            self.lost_write_us = lost;
            self.rehearsal.lost_writes(lost);
        }
    }

    /// Sends an exchange, or counts why not.
    fn consider(&mut self, exchange: Arc<RecordedExchange>) {
        self.shared.waiting_bytes.give_back(exchange.weight());
        match self.refusal(&exchange) {
            Some(why) => self.rehearsal.leave_out(&exchange, why),
            None => {
                self.rehearsal.offer(exchange);
            }
        }
    }

    fn refusal(&mut self, exchange: &RecordedExchange) -> Option<Skipped> {
        if !self.shared.is_on.load(Ordering::Relaxed) {
            return Some(Skipped::Stopped);
        }
        let is_wanted = is_sampled(exchange.connection, self.settings.share)
            && self.is_pattern_wanted(exchange)
            && self.is_keyspace_wanted(exchange);
        if !is_wanted {
            return Some(Skipped::NotSampled);
        }
        (!self.rate.allows(Instant::now())).then_some(Skipped::RateLimited)
    }

    fn is_pattern_wanted(&self, exchange: &RecordedExchange) -> bool {
        let patterns = &self.settings.patterns;
        let named = exchange.request.pattern.as_deref();
        patterns.is_empty() || named.is_some_and(|pattern| patterns.contains(pattern))
    }

    fn is_keyspace_wanted(&mut self, exchange: &RecordedExchange) -> bool {
        let (keyspaces, request) = (&self.settings.keyspaces, &exchange.request);
        keyspaces.is_empty()
            || request.statements.iter().all(|statement| {
                let facts = self.statements.facts(&statement.cql);
                facts
                    .touched(request.keyspace.as_deref())
                    .all(|keyspace| keyspaces.contains(keyspace))
            })
    }

    fn report(&self) {
        let nodes = self.settings.other.nodes.iter();
        let not_offered = [
            (Skipped::QueueFull, &self.shared.queue_full),
            (Skipped::NotSampled, &self.shared.not_sampled),
        ];
        let not_offered = not_offered
            .into_iter()
            .map(|(why, count)| (why.text().to_owned(), count.load(Ordering::Relaxed)))
            .filter(|(_, count)| *count > 0);
        let about = ComparisonAbout {
            first: self.settings.source.clone(),
            other: nodes
                .map(|(address, _)| address.as_str())
                .collect::<Vec<_>>()
                .join(", "),
            started: self.started,
            ended: Timestamp::now(),
            connections: self.rehearsal.other().counts(),
            pace: None,
            not_offered: not_offered.collect(),
        };
        let comparison = Arc::new(report(self.rehearsal.tally(), about));
        (self.publish)(&comparison);
        *self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(comparison);
    }
}

/// So many a second, and no more than a tenth of that at once.
#[derive(Debug)]
struct Rate {
    per_second: Option<f64>,
    tokens: f64,
    at: Instant,
}

impl Rate {
    fn new(per_second: Option<u32>) -> Self {
        Self {
            per_second: per_second.map(f64::from),
            tokens: 1.0,
            at: Instant::now(),
        }
    }

    fn allows(&mut self, now: Instant) -> bool {
        let Some(per_second) = self.per_second else {
            return true;
        };
        let passed = now.duration_since(self.at).as_secs_f64();
        self.at = now;
        self.tokens = passed
            .mul_add(per_second, self.tokens)
            .min((per_second / 10.0).max(1.0));
        let allows = self.tokens >= 1.0;
        self.tokens -= if allows { 1.0 } else { 0.0 };
        allows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_allows_so_many_a_second() {
        let begun = Instant::now();
        let mut rate = Rate::new(Some(100));
        let allowed =
            (0..10_000_u64).filter(|millisecond| rate.allows(begun + Duration::from_millis(*millisecond)));
        let allowed = allowed.count();
        assert!((990..=1_011).contains(&allowed), "{allowed} in ten seconds");
        assert!(Rate::new(None).allows(begun));
    }
}
