//! The control connection: keeps the catalog in step with the cluster.
//!
//! It reads schema, cluster and prepared statements when it connects, schema and cluster anew after every event, and the
//! prepared statements when somebody executes one that is not known. Without a server it tries again, forever and
//! ever more patiently; the audit goes on with what is known.

use std::{sync::Arc, time::Duration};

use cqlens_proto::message::{Register, Request};
use tokio::time::sleep;

use super::{
    Live,
    client::{Client, ClientError, ClientOptions},
    read,
};

/// Follows the node at `address`; never returns. Drop the future to stop.
pub async fn follow(live: Arc<Live>, address: String, options: ClientOptions) {
    live.begin_following();
    let mut patience = Patience::default();
    loop {
        let ended = session(&live, &address, &options, &mut patience).await;
        let Err(error) = ended;
        patience.after(&error, &address).await;
    }
}

/// How long to wait before the next attempt, and what to say meanwhile.
#[derive(Debug, Default)]
struct Patience {
    failures: u32,
}

impl Patience {
    const LONGEST: Duration = Duration::from_secs(30);

    /// Says what happened, once until it works again, and waits.
    async fn after(&mut self, error: &ClientError, address: &str) {
        if self.failures == 0 {
            tracing::warn!(node = address, %error, "no control connection: the audit goes on with the schema that is known");
        } else {
            tracing::debug!(node = address, %error, "still no control connection");
        }
        sleep(self.pause()).await;
        self.failures = self.failures.saturating_add(1);
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(250)
            .saturating_mul(1 << self.failures.min(10))
            .min(Self::LONGEST)
    }
}

/// One control connection from its beginning to its end.
async fn session(
    live: &Live,
    address: &str,
    options: &ClientOptions,
    patience: &mut Patience,
) -> Result<std::convert::Infallible, ClientError> {
    let mut client = Client::negotiate(address, options).await?;
    client
        .call(&Request::Register(Register {
            event_types: vec!["SCHEMA_CHANGE", "TOPOLOGY_CHANGE", "STATUS_CHANGE"],
        }))
        .await?;
    read_all(live, &mut client).await?;
    patience.failures = 0;
    let _in_step = live.in_step();
    tracing::info!(node = address, version = ?client.version(), "control connection open, schema read");
    loop {
        tokio::select! {
            event = client.next_event() => {
                drop(event?);
                settle(&mut client).await?;
                read_schema_and_cluster(live, &mut client).await?;
            }
            () = live.prepared.wanted_changed() => read_prepared(live, &mut client).await?,
            () = sleep(REFRESH) => read_all(live, &mut client).await?,
        }
    }
}

/// Changes come in bursts (one event for each table of a migration): waits until a moment passes without one.
async fn settle(client: &mut Client) -> Result<(), ClientError> {
    for _ in 0..MOST_EVENTS_AT_ONCE {
        match tokio::time::timeout(BURST, client.next_event()).await {
            Ok(event) => drop(event?),
            Err(_quiet) => break,
        }
    }
    Ok(())
}

const BURST: Duration = Duration::from_millis(50);
const MOST_EVENTS_AT_ONCE: u32 = 1_000;

/// Events can get lost with a connection; nothing stays wrong for longer than this.
const REFRESH: Duration = Duration::from_secs(300);

async fn read_all(live: &Live, client: &mut Client) -> Result<(), ClientError> {
    read_schema_and_cluster(live, client).await?;
    read_prepared(live, client).await
}

async fn read_schema_and_cluster(live: &Live, client: &mut Client) -> Result<(), ClientError> {
    // Before the schema: what waits for its table to be known is counted with its nodes.
    live.replace_cluster(read::cluster(client).await?);
    let reading = live.begin_reading();
    let (schema, errors) = read::schema(client).await?;
    for error in &errors {
        tracing::warn!(%error, "a part of the schema was not understood");
    }
    live.replace_schema(schema, reading);
    Ok(())
}

/// Servers that have no such table, or do not let us read it, are no reason to end the connection.
async fn read_prepared(live: &Live, client: &mut Client) -> Result<(), ClientError> {
    match read::prepared(client).await {
        Ok(statements) => {
            for (id, statement) in statements {
                live.prepared.insert(&id, statement);
            }
            Ok(())
        }
        Err(error @ ClientError::Server { .. }) => {
            tracing::debug!(%error, "system.prepared_statements cannot be read");
            Ok(())
        }
        Err(error) => Err(error),
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
