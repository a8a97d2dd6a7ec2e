//! Loopback addresses (127.x.y.z) that belong to this process: x and y come from its id.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

/// As many as nodes of one process can have.
const NODES: u8 = 250;

/// The next ones for nodes: the last byte counts up.
pub(super) fn next_nodes(nodes: usize) -> Vec<IpAddr> {
    static USED: AtomicUsize = AtomicUsize::new(0);
    let first = USED.fetch_add(nodes, Ordering::Relaxed);
    (first..first + nodes)
        .map(|index| node(u8::try_from(index % usize::from(NODES) + 1).expect("at most 250")))
        .collect()
}

/// How many networks there are for what stands in front of nodes.
pub const FRONTS: u8 = 12;

/// Those for what stands in front of nodes, from `.1` on, in one of [`FRONTS`] networks: the same each time.
pub fn front(network: u8, count: usize) -> Vec<IpAddr> {
    let [.., x, y] = std::process::id().to_be_bytes();
    // Far from the neighbours: those belong to processes that began before and after this one.
    let y = y.wrapping_add(network.wrapping_mul(21));
    (1..=count)
        .map(|last| Ipv4Addr::new(127, x.max(1) ^ 0x80, y, u8::try_from(last).expect("at most 255")).into())
        .collect()
}

/// So many neighbouring loopback addresses, from `.1` on, with this port. It is the nodes' own: many drivers
/// know no ports of other nodes and take the contact point's, so that with another one they would run into
/// nothing instead of past the proxy.
pub fn free_addresses(count: usize, port: u16) -> Vec<SocketAddr> {
    free(|network| {
        let addresses = front(network, count).into_iter();
        addresses.map(|address| SocketAddr::new(address, port)).collect()
    })
}

/// So many ports in a row, from this one on, of one loopback address.
pub fn free_ports(count: usize, first: u16) -> Vec<SocketAddr> {
    free(|network| {
        let address = front(network, 1)[0];
        let ports = (first..=u16::MAX).take(count);
        ports.map(|port| SocketAddr::new(address, port)).collect()
    })
}

/// The addresses of the first network of this process on which no process listens.
fn free(of_network: impl Fn(u8) -> Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
    (0..FRONTS)
        .map(&of_network)
        .find(|addresses| addresses.iter().all(is_free))
        .unwrap_or_else(|| panic!("none is free of such as {:?}", of_network(0)))
}

/// All that a process can use, and `127.0.0.1`.
pub fn all() -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = (1..=NODES).map(node).collect();
    all.extend((0..FRONTS).flat_map(|network| front(network, 3)));
    all.push(Ipv4Addr::LOCALHOST.into());
    all
}

fn node(last: u8) -> IpAddr {
    let [.., x, y] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, x.max(1), y, last).into()
}
