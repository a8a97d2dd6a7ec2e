//! Clients that are connected to the node itself: whether traffic that may go past this proxy does.
//!
//! A node of Cassandra 4.0 and later lists its clients in `system_views.clients`. Those that this proxy has not connected came
//! another way.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::control::NodeClient;
use cqlens_proxy::OwnSockets;
use cqlens_window::number;

/// What the node's clients say of the traffic that does not come this way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Direct {
    /// The node does not list its clients, or not by the addresses that this proxy has.
    Unknown,
    /// All of them came through this proxy.
    NoClients,
    /// Some did not; in a sentence.
    Clients(String),
}

/// Compares a node's clients with the connections of this proxy.
pub(super) struct DirectClients {
    own: OwnSockets,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Whether the last look could be compared.
    is_known: bool,
    /// Connections of the last look that are not this proxy's. A connection may end while the node answers, so that only
    /// what the next look has as well is one of another client.
    others: BTreeSet<SocketAddr>,
    /// When each was last seen, with its driver; bounded.
    confirmed: BTreeMap<SocketAddr, (Instant, String)>,
}

impl DirectClients {
    pub(super) fn new(own: OwnSockets) -> Self {
        Self {
            own,
            seen: Mutex::default(),
        }
    }

    /// Takes the clients of `node`; none if it does not list them.
    pub(super) fn see(&self, node: SocketAddr, clients: Option<&[NodeClient]>) {
        let own = self.own.opened_to(node);
        let mut seen = self.seen();
        let Some(clients) = clients else {
            *seen = Seen::default();
            return;
        };
        let (ours, others): (Vec<_>, Vec<_>) =
            clients.iter().partition(|client| own.contains(&client.address));
        // Behind NAT the node knows this proxy's connections by other addresses.
        seen.is_known = others.is_empty() || own.is_empty() || !ours.is_empty();
        if !seen.is_known {
            return;
        }
        let now = Instant::now();
        seen.confirmed
            .retain(|_, (last, _)| now.duration_since(*last) < REMEMBERED);
        let before = std::mem::take(&mut seen.others);
        for client in others {
            seen.others.insert(client.address);
            if before.contains(&client.address) && seen.confirmed.len() < MOST_KEPT {
                seen.confirmed
                    .insert(client.address, (now, client.driver.clone()));
            }
        }
    }

    /// What the last looks have shown.
    pub(super) fn found(&self) -> Direct {
        let seen = self.seen();
        if !seen.is_known {
            return Direct::Unknown;
        }
        let mut clients: BTreeMap<String, u64> = BTreeMap::new();
        for (address, (_, driver)) in &seen.confirmed {
            *clients.entry(format!("{driver}, {}", address.ip())).or_default() += 1;
        }
        if clients.is_empty() {
            return Direct::NoClients;
        }
        let connections = number::plural(seen.confirmed.len() as u64, "connection", "connections");
        let shown: Vec<_> = clients
            .keys()
            .take(MOST_SHOWN)
            .map(|client| format!("({client})"))
            .collect();
        let more = match clients.len().saturating_sub(MOST_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Direct::Clients(format!(
            "Traffic bypasses this proxy: the node has {connections} of clients that are connected to it directly: {}{more}. \
             That traffic is not in this report.",
            shown.join(", ")
        ))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Nothing that holds it can panic.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Long enough for the window in which a client was connected to say so.
const REMEMBERED: Duration = Duration::from_secs(600);

const MOST_KEPT: usize = 1_000;

const MOST_SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    fn client(address: &str) -> NodeClient {
        NodeClient {
            address: at(address),
            driver: "DataStax Python Driver".to_owned(),
        }
    }

    #[test]
    fn a_client_that_stays_connected_to_the_node_bypasses_the_proxy() {
        let direct = DirectClients::new(OwnSockets::default());
        let node = at("10.0.0.1:9042");
        assert_eq!(direct.found(), Direct::Unknown);
        direct.see(node, Some(&[]));
        assert_eq!(direct.found(), Direct::NoClients);
        let clients = [client("10.0.0.7:40000"), client("10.0.0.7:40001")];
        direct.see(node, Some(&clients[..1]));
        assert_eq!(direct.found(), Direct::NoClients, "it may have ended since");
        direct.see(node, Some(&clients));
        direct.see(node, Some(&clients));
        assert_eq!(
            direct.found(),
            Direct::Clients(
                "Traffic bypasses this proxy: the node has 2 connections of clients that are connected to it directly: \
                 (DataStax Python Driver, 10.0.0.7). That traffic is not in this report."
                    .to_owned()
            )
        );
        direct.see(node, None);
        assert_eq!(direct.found(), Direct::Unknown);
    }

    #[tokio::test]
    async fn own_connections_bypass_nothing_and_behind_nat_nothing_is_known() {
        let own = OwnSockets::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let node = listener.local_addr().unwrap();
        let upstream = tokio::net::TcpStream::connect(node).await.unwrap();
        let _open = own.connected(&upstream).unwrap();
        let direct = DirectClients::new(own);
        let ours = client(&upstream.local_addr().unwrap().to_string());
        direct.see(node, Some(std::slice::from_ref(&ours)));
        direct.see(node, Some(&[ours]));
        assert_eq!(direct.found(), Direct::NoClients);
        let translated = [client("192.0.2.1:40000")];
        direct.see(node, Some(&translated));
        direct.see(node, Some(&translated));
        assert_eq!(direct.found(), Direct::Unknown);
    }
}
