//! The connection to a node of the cluster, where one was named: its schema, its
//! nodes, what is prepared there.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::{runtime::Runtime, task::JoinHandle};

use super::Args;
use crate::{cli::plaintext, control};
use cqlens_audit::catalog::Live;
use cqlens_client::ClientOptions;

/// How long the captures wait for the schema: they are not in a hurry.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked whether it is there.
const LOOK: Duration = Duration::from_millis(20);

/// Begins to follow the node that `args` name. Waits until the schema is read, or logs that it is not.
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
        credentials: args.observer.login.credentials(),
        tls: args.tls.connector(&contact)?.map(|tls| Arc::new(tls) as _),
        application: "cqlens control".to_owned(),
        plaintext_passwords: plaintext::is_allowed(),
        ..ClientOptions::default()
    };
    let following = runtime.spawn(control::follow(Arc::clone(live), contact, options));
    let begun = Instant::now();
    while !live.is_synced() && live.trouble().is_none() && begun.elapsed() < PATIENCE {
        thread::sleep(LOOK);
    }
    Ok(Some(following))
}
