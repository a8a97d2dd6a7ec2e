//! The connection to a node of the cluster, where one was named: its schema, its nodes, what is prepared there.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::{runtime::Runtime, task::JoinHandle};

use super::Args;
use crate::catalog::{self, Live, client::ClientOptions};

/// How long the captures wait for the schema: they are not in a hurry.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked whether it is there.
const LOOK: Duration = Duration::from_millis(20);

/// Begins to follow the node in `args`, and waits until its schema is known, or the node turns out to be out of reach.
///
/// # Errors
/// Files of TLS that cannot be used.
pub(super) fn begin(
    args: &Args,
    live: &Arc<Live>,
    runtime: &Runtime,
) -> anyhow::Result<Option<JoinHandle<()>>> {
    let Some(contact) = args.contact.clone() else {
        return Ok(None);
    };
    let options = ClientOptions {
        credentials: args.observer.credentials(),
        tls: args.tls.connector(&contact)?,
        application: "cqlens control".to_owned(),
        ..ClientOptions::default()
    };
    let following = runtime.spawn(catalog::follow(Arc::clone(live), contact, options));
    let begun = Instant::now();
    while !live.is_in_step() && live.trouble().is_none() && begun.elapsed() < PATIENCE {
        thread::sleep(LOOK);
    }
    Ok(Some(following))
}
