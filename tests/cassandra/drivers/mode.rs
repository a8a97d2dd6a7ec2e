//! The ways from a driver to the nodes: none but the network, through `cqlens` as a passthrough, through
//! `cqlens` as the cluster in each of its forms, through fixed pairs.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::cassandra::Cassandra;
use crate::support::cassandra::loopback::{free_addresses, free_ports};
use crate::support::proxy::Proxy;

use super::certificates::Certificates;
use super::place::Place;
use super::redirected::Rules;

/// For cqlens to open the listeners of all nodes.
const LISTENS_WITHIN: Duration = Duration::from_secs(300);

/// For connections and the proxy to end once nobody uses them.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// The baseline.
    Direct,
    /// `cqlens proxy` in front of the first node, not a byte changed.
    Passthrough,
    /// `cqlens proxy --topology cluster`: a listener for each node, at an address of its own.
    Cluster,
    /// The same at the ports of one address, by the rule for those alone.
    Ports,
    /// The same by several processes, which share a map in a file and listen for a node each.
    Shared,
    /// `cqlens proxy --route`: a fixed pair for each node, which drivers translate addresses for.
    Routes,
    /// `cqlens proxy --transparent`: these rules of the kernel lead to it what goes to any node's own
    /// address.
    Redirected(Rules),
}

impl Mode {
    pub(super) const ALL: [Self; 8] = [
        Self::Direct,
        Self::Passthrough,
        Self::Cluster,
        Self::Ports,
        Self::Shared,
        Self::Routes,
        Self::Redirected(Rules::Nftables),
        Self::Redirected(Rules::Iptables),
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Passthrough => "passthrough",
            Self::Cluster => "cluster",
            Self::Ports => "ports",
            Self::Shared => "shared",
            Self::Routes => "routes",
            Self::Redirected(Rules::Nftables) => "nftables",
            Self::Redirected(Rules::Iptables) => "iptables",
        }
    }

    /// Another form of what the others show in all dialects, for several nodes.
    pub(super) fn is_other_form(self) -> bool {
        matches!(self, Self::Ports | Self::Shared | Self::Routes)
    }

    /// It takes a network with rules of its own.
    pub(super) fn is_redirected(self) -> bool {
        matches!(self, Self::Redirected(_))
    }

    /// Where clients can be listened for, with the nodes' port.
    fn listeners(self, nodes: &[SocketAddr]) -> Vec<SocketAddr> {
        let port = nodes[0].port();
        match self {
            Self::Direct | Self::Redirected(_) => nodes.to_vec(),
            Self::Passthrough => free_addresses(1, port),
            Self::Cluster | Self::Shared | Self::Routes => free_addresses(nodes.len(), port),
            Self::Ports => free_ports(nodes.len(), port),
        }
    }

    /// What each process of `cqlens proxy` is told in this mode; there is none where there is no proxy. Files
    /// go to `folder`.
    fn processes(self, nodes: &[SocketAddr], listen: &[SocketAddr], folder: &Path) -> Vec<Vec<String>> {
        let pairs = || nodes.iter().zip(listen);
        match self {
            Self::Direct => Vec::new(),
            Self::Passthrough => vec![words(&[
                "--upstream",
                &nodes[0].to_string(),
                "--listen",
                &listen[0].to_string(),
            ])],
            // With several nodes the host ids would decide which is which: the first would be another one
            // each time. So each is named, and the rule is for nodes that nobody has named.
            Self::Cluster if nodes.len() > 1 => {
                let rule = format!("127.255.255.{{n}}:{}", listen[0].port());
                let map = pairs().flat_map(|(node, listen)| words(&["--map", &format!("{node}={listen}")]));
                vec![cluster(nodes[0], &rule).into_iter().chain(map).collect()]
            }
            Self::Cluster => vec![cluster(
                nodes[0],
                &listen[0].to_string().replacen(".1:", ".{n}:", 1),
            )],
            Self::Ports => {
                let last = listen[listen.len() - 1].port();
                vec![cluster(nodes[0], &format!("{}-{last}", listen[0]))]
            }
            Self::Shared => {
                let map: String = pairs()
                    .map(|(node, listen)| format!("'{node}' = '{listen}'\n"))
                    .collect();
                let text = format!("[proxy]\ntopology = 'cluster'\n[proxy.map]\n{map}");
                let file = written(folder, "shared.toml", &text);
                let for_node = |node: &SocketAddr| {
                    let node = node.to_string();
                    words(&["--config", &file, "--upstream", &node, "--listen-for", &node])
                };
                nodes.iter().map(for_node).collect()
            }
            // All but the last pair are typed; the last one is that of another process, from a file.
            Self::Routes => {
                let (last, typed) = nodes.split_last().expect("there is a node");
                let typed = typed.iter().zip(listen);
                let typed = typed.flat_map(|(node, listen)| words(&["--route", &format!("{listen}={node}")]));
                let text = format!("[proxy.route]\n'{}' = '{last}'\n", listen[listen.len() - 1]);
                let file = written(folder, "routes.toml", &text);
                vec![typed.collect(), words(&["--config", &file])]
            }
            Self::Redirected(_) => {
                let upstream = nodes[0].to_string();
                vec![words(&[
                    "--transparent",
                    "--listen",
                    "[::]:9142",
                    "--upstream",
                    &upstream,
                ])]
            }
        }
    }

    /// What the program of a driver is told besides its contact point.
    pub(super) fn program_arguments(self, front: &Front) -> Vec<String> {
        if self != Self::Routes {
            return Vec::new();
        }
        let pairs = front.nodes.iter().zip(&front.addresses);
        let pairs: Vec<String> = pairs
            .map(|(node, listen)| format!("{}/{}", node.ip(), listen.ip()))
            .collect();
        vec![format!("translate={}", pairs.join(","))]
    }
}

fn words(of: &[&str]) -> Vec<String> {
    of.iter().map(|&word| word.to_owned()).collect()
}

fn cluster(contact: SocketAddr, rule: &str) -> Vec<String> {
    words(&[
        "--topology",
        "cluster",
        "--upstream",
        &contact.to_string(),
        "--listen",
        rule,
    ])
}

fn written(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// What drivers connect to in one mode, in front of one cluster.
pub(super) struct Front {
    pub(super) mode: Mode,
    /// One for each node that drivers can see there, the contact point first.
    pub(super) addresses: Vec<SocketAddr>,
    /// Where no driver may connect to if all of its traffic is to be seen.
    pub(super) nodes: Vec<SocketAddr>,
    proxies: Vec<Proxy>,
    /// What they read again when they are told to.
    _files: TempDir,
}

impl Front {
    /// Starts what stands in front of `cluster`.
    ///
    /// # Panics
    /// If it does not listen where it should.
    pub(super) fn start(mode: Mode, place: Place, cluster: &Cassandra, certificates: &Certificates) -> Self {
        Self::start_program(env!("CARGO_BIN_EXE_cqlens"), mode, place, cluster, certificates)
    }

    /// The same with what runs `cqlens` as another user.
    pub(super) fn start_program(
        program: &str,
        mode: Mode,
        place: Place,
        cluster: &Cassandra,
        certificates: &Certificates,
    ) -> Self {
        let nodes: Vec<SocketAddr> = cluster.nodes().iter().map(|node| node.address).collect();
        let files = tempfile::tempdir().unwrap();
        let addresses = mode.listeners(&nodes);
        let processes = mode.processes(&nodes, &addresses, files.path()).into_iter();
        let proxies = processes.map(|mut arguments| {
            arguments.extend(place.proxy_arguments(certificates));
            arguments.extend(["--window", "3600s"].map(str::to_owned));
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            Proxy::launch(program, &arguments, &place.proxy_environment(), None)
        });
        let mut front = Self {
            mode,
            proxies: proxies.collect(),
            addresses,
            nodes,
            _files: files,
        };
        front.wait_until_all_accept();
        if mode == Mode::Ports {
            front.addresses = front.by_node();
        }
        front
    }

    /// The listeners in the order of the nodes that they lead to: by a rule, the host ids decide which is
    /// which.
    fn by_node(&mut self) -> Vec<SocketAddr> {
        let proxy = &mut self.proxies[0];
        for listen in &self.addresses {
            proxy.wait_for_log(&format!("listen={listen} upstream="));
        }
        let log = proxy.log().replace('"', "");
        let leads_to = |listen: &SocketAddr, node| log.contains(&format!("listen={listen} upstream={node} "));
        let listener = |node| {
            let mut listeners = self.addresses.iter();
            *listeners
                .find(|listen| leads_to(listen, node))
                .unwrap_or_else(|| panic!("no listener for {node}\n{log}"))
        };
        self.nodes.iter().map(listener).collect()
    }

    fn wait_until_all_accept(&self) {
        let deadline = Instant::now() + LISTENS_WITHIN;
        for address in &self.addresses {
            while TcpStream::connect(address).is_err() {
                assert!(
                    Instant::now() < deadline,
                    "{:?} does not accept on {address}\n{}",
                    self.mode,
                    self.proxies.iter().map(Proxy::log).collect::<String>()
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// The nodes that a driver reached although it should not have. What is redirected cannot be told by the
    /// driver's sockets.
    pub(super) fn gone_around<'a>(
        &self,
        connected_to: impl IntoIterator<Item = &'a SocketAddr>,
    ) -> Vec<SocketAddr> {
        let is_hidden =
            |address: &&SocketAddr| !self.addresses.contains(address) && self.nodes.contains(address);
        connected_to.into_iter().filter(is_hidden).copied().collect()
    }

    /// Names for all addresses that a driver may print, longest first: what stands for the same node has the
    /// same name in every mode.
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

    /// Ends the proxies.
    ///
    /// # Panics
    /// If one has failed in any way.
    pub(super) fn stop(self) {
        for proxy in self.proxies {
            let ended = proxy.stop(ENDS_WITHIN);
            assert_eq!(ended.code, 0, "{}", ended.log);
            assert!(!ended.log.contains("panicked"), "{}", ended.log);
        }
    }
}
