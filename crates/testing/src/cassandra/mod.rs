//! Real Cassandra nodes, from the jars that Maven resolves: no container, no installation, nothing left
//! behind.
//!
//! Nodes listen on loopback addresses of their own (127.x.y.z), so that two test runs on one machine do not
//! meet.

mod artifacts;
mod config;
pub mod loopback;
mod probe;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::Missing;
use super::cache;
use super::process::Supervised;
use artifacts::Installed;
pub use artifacts::Release;
use config::NodeAddress;

/// From the start of the process to an answer. Usually 13 s for one node; a machine with other work takes
/// many times that.
const READY_WITHIN: Duration = Duration::from_secs(600);

/// From SIGKILL to the end.
const ENDS_WITHIN: Duration = Duration::from_secs(120);

/// How a cluster differs from the plain one.
#[derive(Debug, Clone)]
pub struct Options {
    /// 1 to 3; each has a heap of `heap_mib`.
    pub nodes: usize,
    /// Settings of `cassandra.yaml` by name, as YAML text.
    pub yaml: Vec<(String, String)>,
    /// The rack of each node in datacenter `dc1`; if empty, nodes know of no racks (`datacenter1`, `rack1`).
    pub racks: Vec<String>,
    /// Where nodes listen for clients; a port that is free, if nobody needs a certain one.
    pub native_port: Option<u16>,
    /// Where a node takes orders (JMX), on 127.0.0.1; none if nobody gives it any.
    pub orders_port: Option<u16>,
    /// Whether a node is killed and started again with its data: then it writes each change of the schema to
    /// disk at once.
    pub comes_back: bool,
    /// Which Cassandra.
    pub release: Release,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 1,
            yaml: Vec::new(),
            racks: Vec::new(),
            native_port: None,
            orders_port: None,
            comes_back: false,
            release: Release::default(),
        }
    }
}

impl Options {
    /// The same with one more setting of `cassandra.yaml`.
    #[must_use]
    pub fn with(mut self, setting: &str, value: &str) -> Self {
        self.yaml.push((setting.to_owned(), value.to_owned()));
        self
    }

    /// A node on each of these racks.
    #[must_use]
    pub fn on_racks(mut self, racks: &[&str]) -> Self {
        self.nodes = racks.len();
        self.racks = racks.iter().map(|&rack| rack.to_owned()).collect();
        self.with("endpoint_snitch", "GossipingPropertyFileSnitch")
    }

    fn heap_mib(&self) -> usize {
        if self.nodes == 1 { 1024 } else { 768 }
    }
}

/// A running cluster; dropping it, or the end of this process for whatever reason, ends its nodes and removes
/// their data.
pub struct Cassandra {
    nodes: Vec<Node>,
}

/// One node that answers.
pub struct Node {
    /// Where clients connect.
    pub address: SocketAddr,
    place: NodeAddress,
    /// Its files.
    home: PathBuf,
    process: Supervised,
    pub orders_port: Option<u16>,
}

impl Cassandra {
    /// Starts the nodes and returns when each of them answers and sees the others.
    ///
    /// # Errors
    /// [`Missing`] where this machine has no Java or no Maven.
    ///
    /// # Panics
    /// If a node does not come up; the panic names its log.
    pub fn start(options: &Options) -> Result<Self, Missing> {
        let installed = artifacts::installed(options.release)?;
        let mut places = places(options.nodes);
        for place in &mut places {
            place.native_port = options.native_port.unwrap_or(place.native_port);
        }
        let mut nodes = Vec::new();
        for (index, place) in places.iter().enumerate() {
            let rack = options.racks.get(index).map(String::as_str);
            let mut node = Node::spawn(*place, rack, places[0].address, &installed, options);
            // The first is there before the others, which look for it when they start; those start together.
            if index == 0 {
                node.wait_until_ready(0);
            }
            nodes.push(node);
        }
        let peers = nodes.len() - 1;
        nodes.iter_mut().for_each(|node| node.wait_until_ready(peers));
        Ok(Self { nodes })
    }

    /// The nodes, in the order of their addresses.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Sends the first node a signal, by its name without SIG.
    pub fn signal(&mut self, name: &str) {
        self.nodes[0].process.signal(name);
    }

    /// Starts a cluster of one node again where it was, without its data; if it still runs it is killed
    /// first.
    ///
    /// # Errors
    /// [`Missing`] where this machine has no Java or no Maven.
    pub fn restart(&mut self, options: &Options) -> Result<(), Missing> {
        let installed = artifacts::installed(options.release)?;
        let place = self.nodes[0].place;
        // Whoever still listens there must be gone.
        self.nodes.clear();
        let mut node = Node::spawn(place, None, place.address, &installed, options);
        node.wait_until_ready(0);
        self.nodes.push(node);
        Ok(())
    }

    /// Sends a node a signal, by its name without SIG.
    pub fn signal_node(&mut self, index: usize, name: &str) {
        self.nodes[index].process.signal(name);
    }

    /// Takes from a running node what a full disk takes: no file grows beyond a mebibyte any more, a new segment of the
    /// commit log among them.
    ///
    /// # Panics
    /// If the limit cannot be set.
    pub fn fill_disk(&self, index: usize) {
        let process = self.nodes[index].process.id().to_string();
        let limited = Command::new("prlimit")
            .args(["--pid", &process, "--fsize=1048576"])
            .status();
        assert!(limited.unwrap().success(), "the limit of {process} cannot be set");
    }

    /// Kills a node and keeps its data for [`Cassandra::start_again`].
    ///
    /// # Panics
    /// If it does not end.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].kill();
    }

    /// Starts a killed node again where it was, with its data, and returns when it answers and sees all
    /// others.
    ///
    /// # Errors
    /// [`Missing`] where this machine has no Java or no Maven.
    ///
    /// # Panics
    /// If it does not come up; the panic names its log.
    pub fn start_again(&mut self, index: usize, options: &Options) -> Result<(), Missing> {
        let installed = artifacts::installed(options.release)?;
        let peers = self.nodes.len() - 1;
        self.nodes[index].start_again(&installed, options, peers > 0);
        self.nodes[index].wait_until_ready(peers);
        Ok(())
    }

    /// Adds a node, which can be [dismissed](Cassandra::dismiss), and returns when it answers and sees all
    /// others.
    ///
    /// # Errors
    /// [`Missing`] where this machine has no Java or no Maven.
    ///
    /// # Panics
    /// If it does not come up; the panic names its log.
    pub fn join(&mut self, options: &Options) -> Result<(), Missing> {
        let installed = artifacts::installed(options.release)?;
        let first = self.nodes[0].place;
        let is_free = |address: IpAddr| {
            let is_free = |port| TcpListener::bind((address, port)).is_ok();
            is_free(first.native_port) && is_free(first.storage_port)
        };
        let address = loop {
            if let Some(address) = loopback::next_nodes(1)
                .into_iter()
                .find(|address| is_free(*address))
            {
                break address;
            }
        };
        let orders = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options = Options {
            orders_port: Some(orders.port()),
            ..options.clone()
        };
        let mut node = Node::spawn(
            NodeAddress { address, ..first },
            None,
            first.address,
            &installed,
            &options,
        );
        node.wait_until_ready(self.nodes.len());
        self.nodes.push(node);
        Ok(())
    }

    /// Lets the node that has joined last leave the ring, as `nodetool decommission` does, and ends it.
    ///
    /// # Errors
    /// [`Missing`] where this machine has no Java or no Maven.
    ///
    /// # Panics
    /// If it does not leave, with what it says about it.
    pub fn dismiss(&mut self) -> Result<(), Missing> {
        let Installed { java, class_path } = artifacts::installed(Release::default())?;
        let node = self.nodes.pop().expect("a node has joined");
        let port = node.orders_port.expect("it has joined, and takes orders");
        let mut tool = Command::new(java);
        tool.arg(format!("-Duser.home={}", node.home.display()))
            .args(config::opened());
        tool.args(["-cp", &class_path, "org.apache.cassandra.tools.NodeTool"]);
        tool.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        // Even if some keyspace of the system would like to have more replicas than nodes are left.
        let output = tool.args(["decommission", "--force"]).output().unwrap();
        assert!(
            output.status.success(),
            "{output:?}\n{}",
            last_lines(&node.log(), 30)
        );
        Ok(())
    }

    /// The first node's address for clients.
    pub fn address(&self) -> SocketAddr {
        self.nodes[0].address
    }
}

impl Node {
    /// What the node has logged so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Where it logs to.
    pub fn log_path(&self) -> &Path {
        self.process.log_path()
    }

    fn spawn(
        place: NodeAddress,
        rack: Option<&str>,
        seed: IpAddr,
        installed: &Installed,
        options: &Options,
    ) -> Self {
        let home = tempfile::Builder::new()
            .prefix("cqlens-cassandra-")
            .tempdir()
            .unwrap()
            .keep();
        std::fs::write(
            home.join("cassandra.yaml"),
            config::yaml(place, seed, &home, options),
        )
        .unwrap();
        std::fs::write(home.join("logback.xml"), config::LOGBACK).unwrap();
        if let Some(rack) = rack {
            std::fs::write(home.join("rackdc.properties"), format!("dc=dc1\nrack={rack}\n")).unwrap();
        }
        let log = cache::log_file("cassandra");
        let process = Supervised::spawn(
            &config::command(installed, &home, options, place.address != seed),
            &[],
            &log,
            Some(&home),
        );
        Self {
            address: SocketAddr::new(place.address, place.native_port),
            place,
            home,
            process,
            orders_port: options.orders_port,
        }
    }

    /// Whoever ends removes its files: they are out of its reach when it does.
    fn kill(&mut self) {
        let kept = self.kept_home();
        // It writes to files that are open, and opens no other while it is stopped.
        let stat = format!("/proc/{}/stat", self.process.id());
        self.process.signal("STOP");
        let deadline = Instant::now() + ENDS_WITHIN;
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") T ")) {
            assert!(Instant::now() < deadline, "a node does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::rename(&self.home, &kept).unwrap();
        self.process.signal("KILL");
        assert!(self.process.wait(ENDS_WITHIN).is_some(), "a killed node runs on");
        std::fs::rename(&kept, &self.home).unwrap();
    }

    fn start_again(&mut self, installed: &Installed, options: &Options, joins: bool) {
        self.process = Supervised::spawn(
            &config::command(installed, &self.home, options, joins),
            &[],
            &cache::log_file("cassandra"),
            Some(&self.home),
        );
    }

    /// Where its files are while it is being killed.
    fn kept_home(&self) -> PathBuf {
        self.home.with_extension("kept")
    }

    fn wait_until_ready(&mut self, peers: usize) {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let Err(reason) = probe::ready(self.address, peers) else {
                return;
            };
            let ended = self.process.ended();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "Cassandra on {} is not ready: {reason}; {}\nits log is {}, and ends with\n{}",
                self.address,
                ended.map_or("it still runs".to_owned(), |status| format!(
                    "it ended with {status}"
                )),
                self.log_path().display(),
                last_lines(&self.log(), 30)
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Addresses that nobody listens on, with two ports that are free on each of them.
fn places(nodes: usize) -> Vec<NodeAddress> {
    loop {
        let addresses = loopback::next_nodes(nodes);
        if let Some([native_port, storage_port]) = free_ports(&addresses) {
            return addresses
                .into_iter()
                .map(|address| NodeAddress {
                    address,
                    native_port,
                    storage_port,
                })
                .collect();
        }
    }
}

/// Two ports that could be bound on every one of these addresses a moment ago.
fn free_ports(addresses: &[IpAddr]) -> Option<[u16; 2]> {
    let (first, others) = addresses.split_first()?;
    // Both are held until both are known, so that they differ.
    let held = [
        TcpListener::bind((*first, 0)).ok()?,
        TcpListener::bind((*first, 0)).ok()?,
    ];
    let ports = [
        held[0].local_addr().ok()?.port(),
        held[1].local_addr().ok()?.port(),
    ];
    let free = |port: u16| {
        others
            .iter()
            .all(|address| TcpListener::bind((*address, port)).is_ok())
    };
    ports.into_iter().all(free).then_some(ports)
}
