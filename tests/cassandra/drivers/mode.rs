//! The ways from a driver to the nodes: none but the network, through `cqlens` as a passthrough, through `cqlens` as the cluster.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::support::cassandra::{Cassandra, loopback};
use crate::support::proxy::Proxy;

use super::certificates::Certificates;
use super::place::Place;

/// For cqlens to open the listeners of all nodes.
const LISTENS_WITHIN: Duration = Duration::from_secs(60);

/// For connections and the proxy to end once nobody uses them.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// The baseline.
    Direct,
    /// `cqlens proxy` in front of the first node, not a byte changed.
    Passthrough,
    /// `cqlens proxy --topology cluster`: a listener for each node.
    Cluster,
}

impl Mode {
    pub(super) const ALL: [Self; 3] = [Self::Direct, Self::Passthrough, Self::Cluster];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Passthrough => "passthrough",
            Self::Cluster => "cluster",
        }
    }

    /// What `cqlens proxy` is told in this mode; nothing where there is no proxy.
    fn arguments(self, nodes: &[SocketAddr], listen: &[SocketAddr]) -> Option<Vec<String>> {
        // With several nodes the host ids would decide which is which: the first would be another one each time. So each is named, and
        // the rule is for nodes that nobody has named.
        let is_mapped = nodes.len() > 1;
        let listen_at = match self {
            Self::Direct => return None,
            Self::Passthrough => listen[0].to_string(),
            Self::Cluster if is_mapped => format!("127.255.255.{{n}}:{}", listen[0].port()),
            Self::Cluster => listen[0].to_string().replacen(".1:", ".{n}:", 1),
        };
        let mut arguments = vec!["--upstream".to_owned(), nodes[0].to_string()];
        arguments.extend(["--listen".to_owned(), listen_at]);
        if self == Self::Cluster {
            arguments.extend(["--topology", "cluster"].map(str::to_owned));
            let pairs = nodes.iter().zip(listen).filter(|_| is_mapped);
            arguments
                .extend(pairs.flat_map(|(node, listen)| ["--map".to_owned(), format!("{node}={listen}")]));
        }
        Some(arguments)
    }
}

/// What drivers connect to in one mode, in front of one cluster.
pub(super) struct Front {
    pub(super) mode: Mode,
    /// One for each node that drivers can see there, the contact point first.
    pub(super) addresses: Vec<SocketAddr>,
    /// Where no driver may connect to if all of its traffic is to be seen.
    pub(super) nodes: Vec<SocketAddr>,
    proxy: Option<Proxy>,
}

impl Front {
    /// Starts what stands in front of `cluster`.
    ///
    /// # Panics
    /// If it does not listen where it should.
    pub(super) fn start(mode: Mode, place: Place, cluster: &Cassandra, certificates: &Certificates) -> Self {
        let nodes: Vec<SocketAddr> = cluster.nodes().iter().map(|node| node.address).collect();
        let port = nodes[0].port();
        let listeners = match mode {
            Mode::Direct => nodes.clone(),
            Mode::Passthrough => free_addresses(1, port),
            Mode::Cluster => free_addresses(nodes.len(), port),
        };
        let proxy = mode.arguments(&nodes, &listeners).map(|mut arguments| {
            arguments.extend(place.proxy_arguments(certificates));
            arguments.extend(["--window", "3600s"].map(str::to_owned));
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            Proxy::launch(
                env!("CARGO_BIN_EXE_cqlens"),
                &arguments,
                &place.proxy_environment(),
                None,
            )
        });
        let front = Self {
            mode,
            addresses: listeners,
            nodes,
            proxy,
        };
        front.wait_until_all_accept();
        front
    }

    fn wait_until_all_accept(&self) {
        let deadline = Instant::now() + LISTENS_WITHIN;
        for address in &self.addresses {
            while TcpStream::connect(address).is_err() {
                assert!(
                    Instant::now() < deadline,
                    "{:?} does not accept on {address}\n{}",
                    self.mode,
                    self.proxy.as_ref().map(Proxy::log).unwrap_or_default()
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// The nodes that a driver reached although it should not have.
    pub(super) fn gone_around<'a>(
        &self,
        connected_to: impl IntoIterator<Item = &'a SocketAddr>,
    ) -> Vec<SocketAddr> {
        let is_hidden = |address: &&SocketAddr| self.mode != Mode::Direct && self.nodes.contains(address);
        connected_to.into_iter().filter(is_hidden).copied().collect()
    }

    /// Names for all addresses that a driver may print, longest first: what stands for the same node has the same name in
    /// every mode.
    pub(super) fn names(&self) -> Vec<(String, String)> {
        let mut names = BTreeMap::new();
        for addresses in [&self.nodes, &self.addresses] {
            for (index, address) in addresses.iter().enumerate() {
                names.insert(address.to_string(), format!("node{}", index + 1));
                names.insert(address.ip().to_string(), format!("node{}", index + 1));
            }
        }
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by_key(|(address, _)| std::cmp::Reverse(address.len()));
        names
    }

    /// Ends the proxy.
    ///
    /// # Panics
    /// If it has failed in any way.
    pub(super) fn stop(self) {
        if let Some(proxy) = self.proxy {
            let ended = proxy.stop(ENDS_WITHIN);
            assert_eq!(ended.code, 0, "{}", ended.log);
            assert!(!ended.log.contains("panicked"), "{}", ended.log);
        }
    }
}

/// So many neighbouring loopback addresses, from `.1` on, with this port. It is the nodes' own: many drivers know no ports of other nodes
/// and take the contact point's, so that with another one they would run into nothing instead of past the proxy.
pub(crate) fn free_addresses(count: usize, port: u16) -> Vec<SocketAddr> {
    let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
    let network = |network| -> Vec<SocketAddr> {
        let addresses = loopback::front(network, count).into_iter();
        addresses.map(|address| SocketAddr::new(address, port)).collect()
    };
    (0..loopback::FRONTS)
        .map(network)
        .find(|addresses| addresses.iter().all(is_free))
        .unwrap_or_else(|| panic!("port {port} is not free on any of our addresses"))
}
