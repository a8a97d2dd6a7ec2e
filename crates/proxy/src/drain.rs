//! Shutting down: no new clients, requests in flight may end, then connections close.
//!
//! A client that never pauses is not cut off in the middle of a response: when the grace period nears its
//! end, its connection takes no more requests, and closes when those in flight are answered.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use crate::timers::sleep;
use cqlens_capture::Connection;

/// The shutdown signal, passed to everything that must obey it.
#[derive(Debug, Clone)]
pub struct Drain {
    deadlines: watch::Receiver<Option<Deadlines>>,
}

/// Begins a drain.
#[derive(Debug)]
pub struct DrainSwitch {
    deadlines: watch::Sender<Option<Deadlines>>,
}

/// The deadlines of a drain that has begun.
#[derive(Debug, Clone, Copy)]
struct Deadlines {
    /// From here on, connections take no more requests.
    last_request: Instant,
    /// From here on, cqlens waits for nothing.
    end: Instant,
}

/// How a shutdown went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Every connection ended within the grace period.
    AllEnded,
    /// Some connections were closed with requests in flight.
    CutOff,
}

/// What a connection does next in a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrainStep {
    /// No request is in flight: close.
    Close,
    /// The client does not pause, and time runs short: take no more requests, pass on the responses.
    LastResponses,
}

impl DrainSwitch {
    /// Begins the drain: requests in flight have `grace` to end. A second call replaces the deadlines,
    /// for connections that wait as well.
    pub fn begin(&self, grace: Duration) {
        let now = Instant::now();
        let for_responses = LAST_RESPONSES.min(grace / 2);
        self.deadlines.send_replace(Some(Deadlines {
            last_request: now + (grace - for_responses),
            end: now + grace,
        }));
    }
}

impl Drain {
    /// A drain, and what begins it.
    pub fn new() -> (DrainSwitch, Self) {
        let (sender, receiver) = watch::channel(None);
        (DrainSwitch { deadlines: sender }, Self { deadlines: receiver })
    }

    /// Waits until the drain begins, or its switch is gone.
    pub async fn begun(&self) {
        let _ = self.deadlines.clone().wait_for(Option::is_some).await;
    }

    /// Waits until the drain has begun, and then as long as a connection must be silent to count as idle: for
    /// clients that have sent nothing yet.
    pub(super) async fn begun_and_quiet(&self) {
        self.begun().await;
        sleep(QUIET).await;
    }

    /// Whether the drain has begun. Costs one load.
    pub(super) fn has_begun(&self) -> bool {
        self.deadlines.has_changed().unwrap_or(true)
    }

    /// Waits until the drain has begun and `connection` has nothing in flight, or time runs short. While
    /// `is_blocked`, a response waits for the client to take it.
    pub(super) async fn step(&self, connection: &Connection, is_blocked: &AtomicBool) -> DrainStep {
        self.begun().await;
        if self
            .is_quiet_before(connection, is_blocked, |deadlines| deadlines.last_request)
            .await
        {
            DrainStep::Close
        } else {
            DrainStep::LastResponses
        }
    }

    /// Waits until `connection`, which takes no more requests, has passed on the responses, or
    /// the grace period is over.
    pub(super) async fn last_responses(&self, connection: &Connection, is_blocked: &AtomicBool) {
        self.is_quiet_before(connection, is_blocked, |deadlines| deadlines.end)
            .await;
    }

    /// Waits until `connection` has nothing in flight. False if the deadline that
    /// `deadline` picks comes first.
    async fn is_quiet_before(
        &self,
        connection: &Connection,
        is_blocked: &AtomicBool,
        deadline: impl Fn(Deadlines) -> Instant,
    ) -> bool {
        let mut quiet_since = Instant::now();
        let mut bytes = connection.bytes();
        while Instant::now() < deadline(self.deadlines()) {
            if bytes != connection.bytes() {
                bytes = connection.bytes();
                quiet_since = Instant::now();
            }
            // Not every request can be counted, so the connection must be quiet for a moment as well.
            let is_idle = !connection.has_request_in_flight() && !is_blocked.load(Ordering::Relaxed);
            if is_idle && quiet_since.elapsed() >= QUIET {
                return true;
            }
            sleep(LOOK_AGAIN).await;
        }
        false
    }

    /// Without a switch, the drain is over at once.
    fn deadlines(&self) -> Deadlines {
        let now = Instant::now();
        self.deadlines.borrow().unwrap_or(Deadlines {
            last_request: now,
            end: now,
        })
    }

    pub(super) async fn wait_for(&self, mut all_done: mpsc::Receiver<()>) -> Drained {
        let mut deadlines = self.deadlines.clone();
        loop {
            // Connections close themselves when the grace period is over, which takes them a moment.
            let patience = self.deadlines().end + GOODBYE;
            tokio::select! {
                _ = all_done.recv() => return Drained::AllEnded,
                () = tokio::time::sleep_until(patience) => return Drained::CutOff,
                Ok(()) = deadlines.changed() => {}
            }
        }
    }
}

/// How long a connection must carry no byte before it counts as idle.
const QUIET: Duration = Duration::from_millis(100);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The end of the grace period, in which connections pass on responses but no more
/// requests: half of it at most.
const LAST_RESPONSES: Duration = Duration::from_secs(2);

const GOODBYE: Duration = Duration::from_secs(2);

/// Held by a connection for as long as it lives.
pub(super) type Alive = mpsc::Sender<()>;

/// A counter of living connections: the receiver ends when the last [`Alive`] is dropped.
pub(super) fn counter() -> (Alive, mpsc::Receiver<()>) {
    mpsc::channel(1)
}
