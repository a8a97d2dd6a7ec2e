//! Another cluster that requests are sent to: slow, dead, refusing or answering nonsense, it never makes the
//! sender wait.
//!
//! ```text
//! send ── pages ──> route ──> set of connections ──> slot (one connection, opened again and again) ──> pipeline ──> Completed
//! ```
//! Connections are shared by all requests and chosen by load, among those to the nodes that hold the partition where
//! that is known. Version 5 says the keyspace in each request; for
//! older versions there is a set of connections for each keyspace, on which `USE` was sent.

mod discovery;
mod encode;
mod job;
mod pages;
mod pipeline;
mod prepared;
mod routing;
mod sets;
mod slot;
mod streams;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use cqlens_capture::memory::Part;
use cqlens_client::ClientOptions;
use cqlens_proto::envelope::Version;
use cqlens_report::ConnectionCounts;
use tokio::sync::mpsc;

pub use self::discovery::ConnectTo;
use self::{job::Job, pages::PagingStates, prepared::PreparedCache, routing::Routing, sets::Sets};
use crate::{
    budget::{Share, separate},
    digest::{DigestKey, ResponseDigest},
    exchange::{Page, RecordedExchange},
    skipped::Skipped,
};

/// How to reach a cluster.
#[derive(Debug, Clone)]
pub struct TargetSettings {
    /// Its nodes, as `host:port`, and how to connect to each; the protocol version is negotiated, and requests
    /// time out as connecting does.
    pub nodes: Vec<(String, ClientOptions)>,
    /// The highest protocol version to try.
    pub highest_version: Version,
    /// Connections to each node (and keyspace, before version 5).
    pub connections_per_node: usize,
    /// Requests in flight on one connection.
    pub most_in_flight: usize,
    /// Requests that may wait for a response or for their turn.
    pub most_waiting: usize,
    /// What may be kept: a quarter for these requests, a quarter for responses that have not
    /// come whole and what is not written yet (a connection that goes beyond is closed), an eighth each for paging
    /// states, prepared statements, and which node holds what.
    pub memory: Part,
    /// How to connect to the other nodes of the cluster; none means that requests go to the named ones alone.
    pub connect_to: Option<ConnectTo>,
    /// How often the nodes of the cluster are read.
    pub look_every: Duration,
    /// The key of the digests of responses: that of those they are compared with.
    pub digest_key: DigestKey,
}

impl TargetSettings {
    /// The usual limits.
    pub fn new(nodes: Vec<(String, ClientOptions)>, digest_key: DigestKey) -> Self {
        Self {
            nodes,
            highest_version: Version::V5,
            connections_per_node: 2,
            most_in_flight: 1_024,
            most_waiting: 10_000,
            memory: separate(),
            connect_to: None,
            look_every: Duration::from_secs(30),
            digest_key,
        }
    }
}

/// A request to send.
#[derive(Debug, Clone)]
pub struct TargetRequest {
    /// What is asked, and what another cluster has answered.
    pub exchange: Arc<RecordedExchange>,
    /// How much of its result.
    pub extent: Extent,
    /// What the sender knows it by.
    pub purpose: Purpose,
}

/// How much of a result is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The page that the request asks for.
    Page,
    /// All pages from the first one on, as one response.
    Whole,
}

/// What a request is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// To be compared.
    First,
    /// Because the responses differed, for the nth time.
    Again(u8),
    /// To know how much two responses of one cluster differ.
    Noise,
}

/// What became of a request.
#[derive(Debug, Clone)]
pub struct Completed {
    /// The request.
    pub request: TargetRequest,
    /// What came back.
    pub outcome: Outcome,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A response came, maybe an error.
    Answered {
        /// Its digest.
        response: ResponseDigest,
        /// From sending to receiving; of a whole result the sum of its pages.
        latency: Duration,
    },
    /// None came.
    Skipped(Skipped),
}

/// A cluster that requests are sent to; connections are closed when it is dropped.
#[derive(Debug)]
pub struct Target {
    core: Arc<Core>,
    sets: Arc<Sets>,
    completed: mpsc::UnboundedReceiver<Completed>,
}

/// What all connections share.
#[derive(Debug)]
struct Core {
    settings: TargetSettings,
    prepared: Mutex<PreparedCache>,
    routing: Mutex<Arc<Routing>>,
    pages: Mutex<PagingStates>,
    /// Bounded by what may wait: it holds no more than were sent and not received.
    completed: mpsc::UnboundedSender<Completed>,
    waiting: AtomicUsize,
    /// Of the requests that wait.
    waiting_bytes: Share,
    /// Of responses that have not come whole and of requests that are not written, on all connections.
    kept_bytes: Share,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    opened: AtomicU64,
    lost: AtomicU64,
    prepared: AtomicU64,
    unprepared: AtomicU64,
    sent_to_replicas: AtomicU64,
}

impl Target {
    /// Begins to connect, on the current tokio runtime.
    pub fn open(settings: TargetSettings) -> Self {
        let (core, completed) = Core::new(settings);
        let sets = Sets::open(&core);
        if let Some(connect_to) = core.settings.connect_to.clone() {
            let following = discovery::follow(Arc::downgrade(&core), Arc::downgrade(&sets), connect_to);
            tokio::spawn(following);
        }
        Self {
            core,
            sets,
            completed,
        }
    }

    /// Sends a request, and never waits. What becomes of it [comes later](Self::completed).
    ///
    /// # Errors
    /// If too many wait: then nothing comes later.
    pub fn send(&self, request: TargetRequest) -> Result<(), Skipped> {
        let core = &self.core;
        let bytes = request.exchange.weight();
        let settings = &core.settings;
        let is_full = core.waiting.load(Ordering::Relaxed) >= settings.most_waiting;
        if is_full || !core.waiting_bytes.try_take(bytes) {
            return Err(Skipped::QueueFull);
        }
        core.waiting.fetch_add(1, Ordering::Relaxed);
        self.look_up_page(Job::new(request));
        Ok(())
    }

    fn look_up_page(&self, job: Job) {
        let number = job.request.exchange.number;
        let mut evicted = Vec::new();
        if job.expects_page() {
            evicted = self.core.pages().expect(number);
        }
        match job.request.exchange.request.page {
            Page::After(before) if job.request.extent == Extent::Page => {
                let found = self.core.pages().take(before, job);
                match found {
                    pages::Found::Ready(job) => self.sets.route(&self.core, job),
                    pages::Found::Waiting => {}
                    pages::Found::Missing(job, why) => self.core.abandon(job, why),
                }
            }
            _ => self.sets.route(&self.core, job),
        }
        for job in evicted {
            self.core.abandon(job, Skipped::UnknownPage);
        }
    }

    /// Waits until it is known what became of a request. Cancel safe.
    pub async fn completed(&mut self) -> Option<Completed> {
        let completed = self.completed.recv().await?;
        self.received(&completed);
        Some(completed)
    }

    /// What became of a request, if it is known now.
    pub fn try_completed(&mut self) -> Option<Completed> {
        let completed = self.completed.try_recv().ok()?;
        self.received(&completed);
        Some(completed)
    }

    fn received(&self, completed: &Completed) {
        let bytes = completed.request.exchange.weight();
        self.core.waiting.fetch_sub(1, Ordering::Relaxed);
        self.core.waiting_bytes.give_back(bytes);
    }

    /// Requests that have not completed.
    pub fn waiting(&self) -> usize {
        self.core.waiting.load(Ordering::Relaxed)
    }

    /// Whether any connection is open, or the first attempt to open one is under way.
    pub fn is_reachable(&self) -> bool {
        self.sets.is_reachable()
    }

    /// What the connections have been through.
    pub fn counts(&self) -> ConnectionCounts {
        let counters = &self.core.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (nodes, nodes_unreachable) = self.sets.node_counts();
        ConnectionCounts {
            nodes,
            nodes_unreachable,
            sent_to_replicas: count(&counters.sent_to_replicas),
            connections_opened: count(&counters.opened),
            connections_lost: count(&counters.lost),
            prepared: count(&counters.prepared),
            unprepared: count(&counters.unprepared),
        }
    }
}

impl Core {
    /// Nothing sent yet, and where what becomes of requests comes out.
    fn new(settings: TargetSettings) -> (Arc<Self>, mpsc::UnboundedReceiver<Completed>) {
        let (sender, completed) = mpsc::unbounded_channel();
        let memory = &settings.memory;
        let core = Self {
            prepared: Mutex::new(PreparedCache::within(Share::of(memory, 8))),
            routing: Mutex::default(),
            pages: Mutex::new(PagingStates::within(Share::of(memory, 8))),
            completed: sender,
            waiting: AtomicUsize::new(0),
            waiting_bytes: Share::of(memory, 4),
            kept_bytes: Share::of(memory, 4),
            settings,
            counters: Counters::default(),
        };
        (Arc::new(core), completed)
    }

    /// A connection keeps so many bytes now, after `before`; whether there is room for them.
    fn count_kept(&self, before: &mut usize, now: usize) -> bool {
        self.kept_bytes.take(now);
        self.kept_bytes.give_back(*before);
        let has_grown = now > *before;
        *before = now;
        let has_room = !has_grown || !self.kept_bytes.is_over();
        self.kept_bytes.count_evicted(usize::from(!has_room));
        has_room
    }

    fn pages(&self) -> MutexGuard<'_, PagingStates> {
        // Nothing that holds the lock can panic.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prepared(&self) -> MutexGuard<'_, PreparedCache> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn routing(&self) -> Arc<Routing> {
        let routing = self.routing.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&routing)
    }

    fn set_routing(&self, routing: Routing) {
        *self.routing.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(routing);
    }

    /// Hands over what became of a request; its sender may be gone.
    fn finish(&self, job: Job, outcome: Outcome) {
        let _ = self.completed.send(Completed {
            request: job.request,
            outcome,
        });
    }
}
