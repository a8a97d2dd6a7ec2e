//! Shutting down: no new clients, requests in flight may end, then connections close.

use std::time::Duration;

use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep},
};

use crate::capture::Connection;

/// The wish to shut down, passed to everything that must know of it.
#[derive(Debug, Clone)]
pub struct Drain {
    signal: watch::Receiver<bool>,
    grace: Duration,
}

/// How a shutdown went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Every connection ended within the grace period.
    AllEnded,
    /// Some connections were closed with requests in flight.
    CutOff,
}

impl Drain {
    /// A drain that begins when `true` is sent.
    pub fn new(grace: Duration) -> (watch::Sender<bool>, Self) {
        let (begin, signal) = watch::channel(false);
        (begin, Self { signal, grace })
    }

    /// Waits until the drain begins; also when nobody is left who could begin it.
    pub async fn begun(&self) {
        let _ = self.signal.clone().wait_for(|begun| *begun).await;
    }

    /// Whether the drain has begun: a look at one counter.
    pub(super) fn has_begun(&self) -> bool {
        self.signal.has_changed().unwrap_or(true)
    }

    /// Waits until the drain has begun and `connection` has nothing in flight, or the grace period is over.
    pub(super) async fn releases(&self, connection: &Connection) {
        self.begun().await;
        let deadline = Instant::now() + self.grace;
        let mut quiet_since = Instant::now();
        let mut bytes = connection.bytes();
        while Instant::now() < deadline {
            if bytes != connection.bytes() {
                bytes = connection.bytes();
                quiet_since = Instant::now();
            }
            // Envelopes in compressed segments cannot be counted: there and everywhere, a moment of quiet as well.
            if connection.in_flight() <= 0 && quiet_since.elapsed() >= QUIET {
                return;
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    pub(super) async fn wait_for(&self, mut all_done: mpsc::Receiver<()>) -> Drained {
        // Connections close themselves when the grace period is over; they need a moment to say goodbye.
        let patience = self.grace + Duration::from_secs(2);
        match tokio::time::timeout(patience, all_done.recv()).await {
            Ok(_) => Drained::AllEnded,
            Err(_elapsed) => Drained::CutOff,
        }
    }
}

/// How long a connection must carry no byte before it counts as idle.
const QUIET: Duration = Duration::from_millis(100);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Held by a connection for as long as it lives.
pub(super) type Alive = mpsc::Sender<()>;

/// A counter of living connections: the receiver ends when the last [`Alive`] is dropped.
pub(super) fn counter() -> (Alive, mpsc::Receiver<()>) {
    mpsc::channel(1)
}
