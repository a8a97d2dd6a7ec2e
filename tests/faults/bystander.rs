//! Somebody else, who has a connection of their own and must notice nothing.

use std::{net::SocketAddr, time::Duration};

use cqlens_client::{Client, ClientOptions};
use tokio::{sync::oneshot, task::JoinHandle};

/// A client that asks one thing after the other until it is told to stop.
pub(crate) struct Bystander {
    stop: oneshot::Sender<()>,
    asking: JoinHandle<(u64, Duration)>,
}

impl Bystander {
    pub(crate) async fn start(address: SocketAddr) -> Self {
        let mut client = Client::connect(address, &ClientOptions::default()).await.unwrap();
        let (stop, mut stopped) = oneshot::channel();
        let asking = tokio::spawn(async move {
            let (mut asked, mut longest) = (0, Duration::ZERO);
            while stopped.try_recv().is_err() {
                let before = std::time::Instant::now();
                client.query("SELECT key FROM system.local").await.unwrap();
                longest = longest.max(before.elapsed());
                asked += 1;
            }
            (asked, longest)
        });
        Self { stop, asking }
    }

    /// How many answers it got, all of them good ones, and how long it waited for one at most.
    pub(crate) async fn stop(self) -> (u64, Duration) {
        self.stop.send(()).unwrap();
        self.asking.await.unwrap()
    }
}
