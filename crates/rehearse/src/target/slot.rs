//! One place for a connection: opened, lost, opened again after a while.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};

use cqlens_client::{Client, ClientError, ClientOptions, Connection};
use cqlens_proto::envelope::Version;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    time::{Instant, timeout_at},
};

use super::{
    Core,
    job::Job,
    pipeline::{Pipeline, Stopped},
    sets::Sets,
};
use crate::skipped::Skipped;

/// Where requests for a connection go in.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// The node's.
    pub(super) address: Arc<str>,
    /// Bounded by what may wait in all.
    pub(super) jobs: UnboundedSender<Job>,
    pub(super) status: Arc<SlotStatus>,
}

impl Slot {
    pub(super) fn send(&self, job: Job) -> Result<(), Job> {
        self.status.in_flight.fetch_add(1, Ordering::Relaxed);
        self.jobs.send(job).map_err(|unsent| unsent.0)
    }
}

/// What others see of a connection.
#[derive(Debug, Default)]
pub(super) struct SlotStatus {
    in_flight: AtomicUsize,
    state: AtomicU8,
}

/// States of [`SlotStatus`]; before them all, the first attempt is under way, and requests wait for it.
const DOWN: u8 = 1;
const OPEN: u8 = 2;
/// Open, with a version that says no keyspace in requests.
const OPEN_WITHOUT_KEYSPACES: u8 = 3;
/// The keyspace is refused, and so is every request for it.
const REFUSING: u8 = 4;

impl SlotStatus {
    /// Of a connection that takes no request before it is open.
    pub(super) fn down() -> Self {
        let status = Self::default();
        status.set(DOWN);
        status
    }

    pub(super) fn takes_requests(&self) -> bool {
        self.state.load(Ordering::Relaxed) != DOWN
    }

    pub(super) fn lacks_keyspaces(&self) -> bool {
        self.state.load(Ordering::Relaxed) == OPEN_WITHOUT_KEYSPACES
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(super) fn done(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Relaxed);
    }
}

/// A connection that is kept open as long as its sender lives.
pub(super) struct KeptOpen {
    pub(super) core: Arc<Core>,
    pub(super) sets: Weak<Sets>,
    pub(super) address: String,
    pub(super) options: ClientOptions,
    pub(super) keyspace: Option<Arc<str>>,
    pub(super) status: Arc<SlotStatus>,
    pub(super) jobs: UnboundedReceiver<Job>,
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl KeptOpen {
    pub(super) async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let refusal = match self.open().await {
                Ok(connection) => {
                    pause = FIRST_PAUSE;
                    match self.serve(connection).await {
                        Stopped::NobodySends => return,
                        Stopped::Lost(why) => {
                            tracing::debug!(address = self.address, %why, "connection lost")
                        }
                    }
                    None
                }
                Err(ClientError::Server { code, .. }) if self.keyspace.is_some() => Some(code.0),
                Err(error) => {
                    tracing::debug!(address = self.address, %error, "no connection");
                    None
                }
            };
            self.core.counters.lost.fetch_add(1, Ordering::Relaxed);
            if !self.refuse(refusal, pause).await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn open(&self) -> Result<Connection, ClientError> {
        let highest = self.core.settings.highest_version;
        let mut client = Client::negotiate_up_to(highest, &*self.address, &self.options).await?;
        if let Some(keyspace) = self
            .keyspace
            .as_ref()
            .filter(|_| !has_keyspaces(client.version()))
        {
            let quoted = keyspace.replace('"', "\"\"");
            client.query(&format!("USE \"{quoted}\"")).await?;
        }
        Ok(client.into_connection())
    }

    async fn serve(&mut self, connection: Connection) -> Stopped {
        let state = match has_keyspaces(connection.dialect.version) {
            true => OPEN,
            false => OPEN_WITHOUT_KEYSPACES,
        };
        self.status.set(state);
        self.core.counters.opened.fetch_add(1, Ordering::Relaxed);
        let pipeline = Pipeline::new(
            connection,
            &self.core,
            &self.sets,
            self.keyspace.as_ref(),
            &self.status,
        );
        let stopped = pipeline.run(&mut self.jobs, self.options.timeout).await;
        self.status.set(DOWN);
        stopped
    }

    /// Answers all that comes, until it is time for another attempt; whether there is to be one.
    async fn refuse(&mut self, refusal: Option<i32>, pause: Duration) -> bool {
        self.status.set(refusal.map_or(DOWN, |_| REFUSING));
        let until = Instant::now() + pause;
        loop {
            match timeout_at(until, self.jobs.recv()).await {
                Err(_elapsed) => return true,
                Ok(None) => return false,
                Ok(Some(job)) => {
                    self.status.done();
                    match refusal {
                        None => self.core.abandon(job, Skipped::Unreachable),
                        Some(code) => self.core.refuse(job, code),
                    }
                }
            }
        }
    }
}

/// Whether requests of a version say their keyspace.
pub(super) fn has_keyspaces(version: Version) -> bool {
    version.uses_segments()
}
