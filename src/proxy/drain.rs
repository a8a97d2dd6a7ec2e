//! Shutting down: no new clients, requests in flight may end, then connections close.
//!
//! A client that never pauses is not cut off in the middle of an answer: when the grace period nears its end, its
//! connection takes no more requests, and closes when those in flight are answered.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use crate::timers::sleep;
use cqlens_audit::capture::Connection;

/// The wish to shut down, passed to everything that must know of it.
#[derive(Debug, Clone)]
pub struct Drain {
    times: watch::Receiver<Option<Times>>,
}

/// Begins a drain.
#[derive(Debug)]
pub struct DrainSwitch {
    times: watch::Sender<Option<Times>>,
}

/// When what ends, once it has been asked for.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// From here on, connections take no more requests.
    last_request: Instant,
    /// From here on, nothing is waited for.
    deadline: Instant,
}

/// How a shutdown went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Every connection ended within the grace period.
    AllEnded,
    /// Some connections were closed with requests in flight.
    CutOff,
}

/// What a connection may do while the process shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    /// No request is in flight: close.
    Close,
    /// The client does not pause, and time runs short: take no more requests, pass on the answers.
    LastAnswers,
}

impl DrainSwitch {
    /// Begins the drain: whatever is in flight has `grace` to end. Once more, with less: whoever waits is told of it.
    pub fn begin(&self, grace: Duration) {
        let now = Instant::now();
        let for_answers = LAST_ANSWERS.min(grace / 2);
        self.times.send_replace(Some(Times {
            last_request: now + (grace - for_answers),
            deadline: now + grace,
        }));
    }
}

impl Drain {
    /// A drain, and what begins it.
    pub fn new() -> (DrainSwitch, Self) {
        let (sender, receiver) = watch::channel(None);
        (DrainSwitch { times: sender }, Self { times: receiver })
    }

    /// Waits until the drain begins; also when nobody is left who could begin it.
    pub async fn begun(&self) {
        let _ = self.times.clone().wait_for(Option::is_some).await;
    }

    /// Waits until the drain has begun, and as long as a client may be silent then that has not said yet who it is.
    pub(super) async fn dismisses(&self) {
        self.begun().await;
        sleep(QUIET).await;
    }

    /// Whether the drain has begun: a look at one counter.
    pub(super) fn has_begun(&self) -> bool {
        self.times.has_changed().unwrap_or(true)
    }

    /// Waits until the drain has begun and `connection` has nothing in flight, or has had its time. While its client is
    /// `stalled`, an answer waits to be written.
    pub(super) async fn releases(&self, connection: &Connection, stalled: &AtomicBool) -> Release {
        self.begun().await;
        if self
            .is_quiet_before(connection, stalled, |times| times.last_request)
            .await
        {
            Release::Close
        } else {
            Release::LastAnswers
        }
    }

    /// Waits until `connection`, which takes no more requests, has passed on the answers, or the grace period is over.
    pub(super) async fn last_answers(&self, connection: &Connection, stalled: &AtomicBool) {
        self.is_quiet_before(connection, stalled, |times| times.deadline)
            .await;
    }

    /// Waits until `connection` has nothing in flight, and then whether that was before the end that `end` picks.
    async fn is_quiet_before(
        &self,
        connection: &Connection,
        stalled: &AtomicBool,
        end: impl Fn(Times) -> Instant,
    ) -> bool {
        let mut quiet_since = Instant::now();
        let mut bytes = connection.bytes();
        while Instant::now() < end(self.times()) {
            if bytes != connection.bytes() {
                bytes = connection.bytes();
                quiet_since = Instant::now();
            }
            // Not every request can be counted, so a moment of quiet is needed as well.
            let is_idle = !connection.has_request_in_flight() && !stalled.load(Ordering::Relaxed);
            if is_idle && quiet_since.elapsed() >= QUIET {
                return true;
            }
            sleep(LOOK_AGAIN).await;
        }
        false
    }

    /// Where nobody is left who could have begun it, there is nobody either who would wait.
    fn times(&self) -> Times {
        let now = Instant::now();
        self.times.borrow().unwrap_or(Times {
            last_request: now,
            deadline: now,
        })
    }

    pub(super) async fn wait_for(&self, mut all_done: mpsc::Receiver<()>) -> Drained {
        let mut times = self.times.clone();
        loop {
            // Connections close themselves when the grace period is over; they need a moment to say goodbye.
            let patience = self.times().deadline + GOODBYE;
            tokio::select! {
                _ = all_done.recv() => return Drained::AllEnded,
                () = tokio::time::sleep_until(patience) => return Drained::CutOff,
                Ok(()) = times.changed() => {}
            }
        }
    }
}

/// How long a connection must carry no byte before it counts as idle.
const QUIET: Duration = Duration::from_millis(100);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The end of the grace period, in which answers come but no more requests are taken: half of it at most.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

const GOODBYE: Duration = Duration::from_secs(2);

/// Held by a connection for as long as it lives.
pub(super) type Alive = mpsc::Sender<()>;

/// A counter of living connections: the receiver ends when the last [`Alive`] is dropped.
pub(super) fn counter() -> (Alive, mpsc::Receiver<()>) {
    mpsc::channel(1)
}
