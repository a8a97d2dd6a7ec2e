//! The control connection: keeps the catalog in step with the cluster.
//!
//! It reads schema, cluster and prepared statements when it connects, schema and cluster anew after every
//! event, and the prepared statements when one that is not known is executed. When the node is lost, it
//! goes on with the next one that it may ask; without any it tries again, forever and ever more patiently,
//! and the audit goes on with what is known.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use cqlens_proto::{
    envelope::Envelope,
    message::{Event, Extensions, Register, Request, Response},
};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};

use super::{Contacts, SeeClients, SystemReader, read};
use cqlens_audit::catalog::{ClusterState, Live, PreparedStatements};
use cqlens_capture::memory::{Part, Use};
use cqlens_client::{Client, ClientError, ClientOptions};
use cqlens_proxy::throttle::Throttle;

/// Follows the node at `address`; never returns. Drop the future to stop.
pub async fn follow(live: Arc<Live>, address: String, options: ClientOptions) {
    let contacts = Contacts::only(address);
    follow_any(live, contacts, move |_address| options.clone(), None).await;
}

/// Follows the cluster through any of its nodes, one at a time: when a node is lost, through the next one.
/// `options` says how to connect to an address. `see_clients` gets the clients of the node every few seconds. Never returns;
/// drop the future to stop.
pub async fn follow_any(
    live: Arc<Live>,
    contacts: Contacts,
    options: impl Fn(&str) -> ClientOptions,
    see_clients: Option<SeeClients>,
) {
    live.begin_following();
    let mut patience = Patience::default();
    let mut last = None;
    loop {
        for address in contacts.round(&live.cluster(), last.as_deref()) {
            let mut so_far = ConnectionProgress::default();
            let memory = live.memory().part(Use::ControlConnection);
            let options = ClientOptions {
                max_answer_bytes: memory.limit() / 4,
                ..options(&address)
            };
            let see = see_clients.as_ref();
            let Err(error) = session(&live, &address, (&options, see), memory, &mut so_far).await;
            let trouble = trouble(&address, &error);
            // Whoever reads of it in the log finds it in the status, too.
            live.troubled_by(Some(trouble.clone()));
            if so_far.has_lasted {
                patience = Patience::default();
            }
            patience.say(&trouble, so_far.opened, live.cluster().nodes.is_empty());
            last = Some(address);
            if so_far.opened {
                break;
            }
        }
        patience.wait().await;
    }
}

/// Opens a control connection to one of the contact points, and closes it again: whether there is a cluster
/// that lets us in.
///
/// # Errors
/// Why the last one of them cannot be followed.
pub async fn reach(contacts: &Contacts, options: impl Fn(&str) -> ClientOptions) -> Result<(), String> {
    let mut troubles = Vec::new();
    for address in contacts.round(&ClusterState::default(), None) {
        match Client::negotiate(address.as_str(), &options(&address)).await {
            Ok(_client) => return Ok(()),
            Err(error) => troubles.push(trouble(&address, &error)),
        }
    }
    Err(troubles.join("; "))
}

/// What went wrong, and what would help where that is known.
fn trouble(address: &str, error: &ClientError) -> String {
    let what = match error {
        // It names the address itself.
        ClientError::Connect { .. } => error.to_string(),
        _ => format!("{address}: {error}"),
    };
    if error.is_authentication() {
        return format!("{what}: the control connection needs a username and password accepted by the node");
    }
    what
}

/// How long to wait before the next attempt, and what to say meanwhile.
#[derive(Debug, Default)]
struct Patience {
    /// Of every node that could be asked.
    failures: u32,
}

impl Patience {
    const LONGEST: Duration = Duration::from_secs(30);

    /// Says what happened, once until it works again.
    fn say(&self, trouble: &str, was_open: bool, nothing_known: bool) {
        let meanwhile = match nothing_known {
            true => "no node of the cluster is known yet",
            false => "the audit continues with the known schema",
        };
        if was_open {
            tracing::warn!("control connection lost, {trouble}: {meanwhile}");
        } else if self.failures == 0 {
            tracing::warn!("no control connection, {trouble}: {meanwhile}");
        } else {
            tracing::debug!("still no control connection, {trouble}");
        }
    }

    async fn wait(&mut self) {
        sleep(self.pause()).await;
        self.failures = self.failures.saturating_add(1);
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(250)
            .saturating_mul(1 << self.failures.min(10))
            .min(Self::LONGEST)
    }
}

/// How far a control connection has come.
#[derive(Debug, Default)]
struct ConnectionProgress {
    /// It has told everything.
    opened: bool,
    /// And was still good a while later: a node that breaks off again and again is asked ever less often.
    has_lasted: bool,
}

/// One control connection from its beginning to its end.
async fn session(
    live: &Live,
    address: &str,
    (options, see_clients): (&ClientOptions, Option<&SeeClients>),
    memory: Part,
    so_far: &mut ConnectionProgress,
) -> Result<std::convert::Infallible, ClientError> {
    let mut client = Client::negotiate(address, options).await?;
    client
        .call(&Request::Register(Register {
            event_types: vec!["SCHEMA_CHANGE", "TOPOLOGY_CHANGE", "STATUS_CHANGE"],
        }))
        .await?;
    let mut reader = SystemReader::new(client, memory);
    read_all(live, &mut reader).await?;
    so_far.opened = true;
    let _synced = live.synced();
    live.troubled_by(None);
    tracing::info!(node = address, version = ?reader.client.version(), "control connection open, schema read");
    let (mut heartbeat, mut refresh) = (every(HEARTBEAT), every(REFRESH));
    let mut look_at_clients = every(LOOK_AT_CLIENTS);
    let mut see_clients = see_clients;
    let mut looks = Looks::default();
    loop {
        tokio::select! {
            event = reader.client.next_event() => {
                if is_about_nodes(&event?) {
                    // At once: clients may be told of it at the same time.
                    read_cluster(live, &mut reader).await?;
                }
                settle(&mut reader.client).await?;
                read_schema_and_cluster(live, &mut reader).await?;
            }
            () = live.cluster_wanted() => read_cluster(live, &mut reader).await?,
            () = looks.next(&live.prepared) => {
                let missed = read_prepared(live, &mut reader).await?;
                looks.done(missed);
            }
            _ = look_at_clients.tick(), if see_clients.is_some() => {
                if !read_clients(see_clients, &mut reader).await? {
                    see_clients = None;
                }
            }
            _ = refresh.tick() => read_all(live, &mut reader).await?,
            _ = heartbeat.tick() => {
                so_far.has_lasted = true;
                live.prepared.forget_missed();
                read_cluster(live, &mut reader).await?;
            }
        }
    }
}

/// Ticks, the first time after one `period`.
fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    ticks
}

/// When prepared statements are looked for: at once, but not again before a pause, which grows while what is
/// wanted is not found.
struct Looks {
    pause: Duration,
    /// Ticks when the pause is over.
    pauses: Option<Interval>,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            pause: Self::SHORTEST,
            pauses: None,
        }
    }
}

impl Looks {
    /// Shorter than an exchange waits for its statement.
    const SHORTEST: Duration = Duration::from_secs(3);

    /// The statements are read as often anyway.
    const LONGEST: Duration = REFRESH;

    /// Waits until an id is wanted and the pause since the last look is over.
    async fn next(&mut self, prepared: &PreparedStatements) {
        if let Some(pauses) = &mut self.pauses {
            pauses.tick().await;
            self.pauses = None;
        }
        prepared.wanted_changed().await;
    }

    /// A look is over, which may have missed all that was wanted.
    fn done(&mut self, missed: bool) {
        self.pause = match missed {
            true => (self.pause * 2).min(Self::LONGEST),
            false => Self::SHORTEST,
        };
        self.pauses = Some(every(self.pause));
    }
}

fn is_about_nodes(event: &Envelope) -> bool {
    let decoded = Response::decode(event, Extensions::NONE);
    matches!(
        decoded.map(|decoded| decoded.message),
        Ok(Response::Event(Event::TopologyChange(_) | Event::StatusChange(_)))
    )
}

/// Changes come in bursts (one event for each table of a migration): waits until a moment passes without one.
async fn settle(client: &mut Client) -> Result<(), ClientError> {
    for _ in 0..MOST_EVENTS_AT_ONCE {
        match timeout(BURST, client.next_event()).await {
            Ok(event) => drop(event?),
            Err(_quiet) => break,
        }
    }
    Ok(())
}

const BURST: Duration = Duration::from_millis(50);
const MOST_EVENTS_AT_ONCE: u32 = 1_000;

/// A node that has gone without a word is noticed within this time, and the time that an answer may take.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Events can get lost with a connection; nothing stays wrong for longer than this.
const REFRESH: Duration = Duration::from_secs(300);

/// Windows are ten seconds and more.
const LOOK_AT_CLIENTS: Duration = Duration::from_secs(5);

/// The time that reading everything may take.
const READING: Duration = Duration::from_secs(120);

/// A node decides how much of its schema cannot be read, and how often it changes.
static MISUNDERSTOOD: LazyLock<Throttle> = LazyLock::new(|| Throttle::with_first(8));

async fn read_all(live: &Live, reader: &mut SystemReader) -> Result<(), ClientError> {
    let reading = async {
        read_schema_and_cluster(live, reader).await?;
        read_prepared(live, reader).await?;
        Ok(())
    };
    match timeout(READING, reading).await {
        Ok(read) => read,
        Err(_elapsed) => Err(ClientError::Endless("reading the schema takes minutes")),
    }
}

async fn read_cluster(live: &Live, reader: &mut SystemReader) -> Result<(), ClientError> {
    let read = read::cluster(reader).await?;
    let now = u64::try_from(reader.clock.now().unix_nanoseconds()).unwrap_or(0);
    live.see_schema_versions(read.schema_versions, Duration::from_nanos(now));
    live.replace_cluster(read.cluster);
    Ok(())
}

async fn read_schema_and_cluster(live: &Live, reader: &mut SystemReader) -> Result<(), ClientError> {
    // Before the schema: what waits for its table to be known is counted with its nodes.
    read_cluster(live, reader).await?;
    let reading = live.begin_reading();
    let read = read::schema(reader).await?;
    for error in &read.errors {
        let later = |suppressed| tracing::warn!(suppressed, "more parts of the schema were not understood");
        if MISUNDERSTOOD.is_new(later) {
            tracing::warn!(%error, "a part of the schema was not understood");
        }
    }
    let was_cut = live.is_cut();
    live.cut(!read.is_whole);
    live.replace_schema(read.schema, reading);
    if live.is_cut() && !was_cut {
        tracing::warn!(
            "the schema is larger than there is room for (memory): partitions of some tables are not counted"
        );
    }
    Ok(())
}

/// Whether the node lists its clients.
async fn read_clients(see: Option<&SeeClients>, reader: &mut SystemReader) -> Result<bool, ClientError> {
    let (Some(see), Some(node)) = (see, reader.client.peer()) else {
        return Ok(false);
    };
    match super::clients::clients(reader).await {
        Err(error @ (ClientError::Server { .. } | ClientError::TooLarge { .. })) => {
            tracing::debug!(%error, "system_views.clients cannot be read");
            see(node, None);
            Ok(false)
        }
        clients => {
            see(node, Some(&clients?));
            Ok(true)
        }
    }
}

/// Whether ids were wanted and none of them found. Servers that have no such table, or do not let us read it,
/// are no reason to end the connection, nor are statements that there is no room for.
async fn read_prepared(live: &Live, reader: &mut SystemReader) -> Result<bool, ClientError> {
    live.prepared.begin_look();
    let read = read::prepared(reader, |id, statement| live.prepared.insert(id, statement)).await;
    let missed = live.prepared.end_look();
    match read {
        Err(error @ (ClientError::Server { .. } | ClientError::TooLarge { .. })) => {
            tracing::debug!(%error, "system.prepared_statements cannot be read");
            Ok(missed)
        }
        other => other.map(|()| missed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_refuses_for_an_hour_is_asked_some_hundred_times() {
        let mut patience = Patience::default();
        let (mut waited, mut attempts) = (Duration::ZERO, 0);
        while waited < Duration::from_secs(3600) {
            let pause = patience.pause();
            assert!(
                pause >= Duration::from_millis(250) && pause <= Patience::LONGEST,
                "{pause:?}"
            );
            waited += pause;
            attempts += 1;
            patience.failures = patience.failures.saturating_add(1);
        }
        assert!((100..150).contains(&attempts), "{attempts}");
        patience.failures = u32::MAX;
        assert_eq!(patience.pause(), Patience::LONGEST);
    }
}
