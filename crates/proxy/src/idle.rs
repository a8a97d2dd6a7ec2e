//! Connections on which nothing has passed for long.

use std::time::Duration;

use tokio::time::Instant;

use crate::timers::sleep;
use cqlens_capture::Connection;

/// Waits until no byte has passed in either direction for `timeout`, or up to a quarter longer.
///
/// The data path counts its bytes anyway. Looking now and then is all that this costs.
pub(super) async fn reached(connection: &Connection, timeout: Duration) {
    let mut bytes = connection.bytes();
    let mut silent_since = Instant::now();
    loop {
        sleep((timeout / 4).max(SHORTEST_LOOK)).await;
        let now = connection.bytes();
        if now != bytes {
            (bytes, silent_since) = (now, Instant::now());
        } else if silent_since.elapsed() >= timeout {
            return;
        }
    }
}

const SHORTEST_LOOK: Duration = Duration::from_millis(10);
