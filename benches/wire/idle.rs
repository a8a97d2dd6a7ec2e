//! Memory of connections that do nothing.

use std::time::Duration;

use crate::{
    load::{Client, run},
    loads::POINT_READ,
    process::Running,
};

/// How many.
pub(crate) const CONNECTIONS: usize = 1_000;

/// Until the audit has read what there was, and let go of it.
const SETTLED: Duration = Duration::from_millis(500);

/// Resident memory of each connection that has prepared and read once, in KiB.
#[allow(clippy::cast_precision_loss, reason = "what one machine has is far less")]
pub(crate) async fn kib_each(proxy: &Running) -> f64 {
    // What the first ones need, all need once.
    let mut clients = vec![Client::connect(proxy.address, POINT_READ, 0).await];
    let before = proxy.resident_kib();
    for number in 1..=CONNECTIONS {
        clients.push(Client::connect(proxy.address, POINT_READ, number).await);
    }
    let (clients, _) = run(clients, Duration::from_millis(1)).await;
    tokio::time::sleep(SETTLED).await;
    let grown = proxy.resident_kib().saturating_sub(before);
    drop(clients);
    grown as f64 / CONNECTIONS as f64
}
