//! How well operations of several statements are found in what real drivers send: programs in two languages, which say
//! themselves what they have done, and a report that is made without that. The nodes are embedded ones.
//!
//! Part of `tests/external`, since the drivers come from their registries.
//!
//! All that was sent counts, also where a busy machine sent less of it than it was to.
mod labels;
mod loads;
#[path = "../cassandra/shop/mod.rs"]
mod shop;

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cqlens_node::{Node, Options, Peer};
use cqlens_testing as support;
use tokio::runtime::Runtime;

use labels::Score;
use loads::fill;
use shop::{Application, Drivers};
use support::cassandra::loopback::free_addresses;
use support::driver::Compression;
use support::{proxy::free_address, with_everything};

/// What has few requests, so that little time shows each of it often enough.
const SHORT: &str = "lookup,join-by-list,text-days,page";

/// Loads wait for each other: together they would be more than the machine can send.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A node with the data of both applications.
async fn embedded(listen: SocketAddr) -> Node {
    let options = Options {
        listen,
        ..Options::default()
    };
    let node = Node::start(options).await.unwrap();
    fill(node.address()).await;
    node
}

#[test]
fn what_drivers_send_together_is_found_at_several_loads() {
    let Some(drivers) = Drivers::new() else { return };
    let runtime = Runtime::new().unwrap();
    let node = runtime.block_on(embedded(free_address()));
    let run = |load, applications: &[Application]| {
        let [listen, upstream] = [free_address(), node.address()].map(|address| address.to_string());
        drivers.run(
            load,
            &["--listen", &listen, "--upstream", &upstream],
            applications,
        )
    };
    let few = [Application::python(1, 10, 30), Application::go(1, 10, 30)].map(|one| Application {
        operations: SHORT,
        ..one
    });
    let some = [
        Application::python(8, 300, 12),
        Application::go(8, 300, 12).speaks(5, Compression::Lz4),
    ];
    let many = [
        Application::python(64, 500, 10).speaks(5, Compression::None),
        Application::go(64, 1_500, 10),
    ];
    let most = [
        // Of so many a sample is looked at: it takes longer until each was seen often enough.
        Application::python(64, 500, 20).speaks(5, Compression::Lz4),
        Application::go(64, 4_500, 20).speaks(4, Compression::None),
    ];
    let _alone = alone();
    // Few requests take the longest, and nothing of the machine.
    let mut outcomes = std::thread::scope(|scope| {
        let few = scope.spawn(|| run("few", &few));
        let others = [run("some", &some), run("many", &many)];
        vec![few.join().unwrap()]
            .into_iter()
            .chain(others)
            .collect::<Vec<_>>()
    });
    if with_everything("sequences at 5,000 requests a second") {
        outcomes.push(run("most", &most));
    }
    Score::of(&outcomes).check(20);
}

const NODES: usize = 3;

/// The driver of an application spreads its requests over the nodes: the report has one application all the same.
#[test]
fn what_drivers_send_together_through_several_listeners_is_found() {
    let Some(drivers) = Drivers::new() else { return };
    let runtime = Runtime::new().unwrap();
    let addresses = free_addresses(2 * NODES, free_address().port());
    let (addresses, listeners) = addresses.split_at(NODES);
    let started = addresses
        .iter()
        .map(|&address| runtime.block_on(embedded(address)));
    let nodes: Vec<Node> = started.collect();
    let peers: Vec<Peer> = nodes.iter().map(Node::as_peer).collect();
    for node in &nodes {
        let others = peers.iter().filter(|peer| peer.host_id != Some(node.host_id()));
        node.set_peers(others.cloned().collect());
    }
    let upstream = nodes[0].address().to_string();
    let rule = format!("127.255.255.{{n}}:{}", listeners[0].port());
    let mut arguments = [
        "--topology",
        "cluster",
        "--upstream",
        &upstream,
        "--listen",
        &rule,
    ]
    .map(str::to_owned)
    .to_vec();
    for (node, listener) in nodes.iter().zip(listeners) {
        arguments.extend(["--map".to_owned(), format!("{}={listener}", node.address())]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let applications = [
        Application::python(8, 300, 12).speaks(5, Compression::Lz4),
        Application::go(8, 300, 12).speaks(4, Compression::Lz4),
    ];
    let _alone = alone();
    let outcome = drivers.run("three nodes", &arguments, &applications);
    let loads = outcome.report["load"]["nodes"].as_array().unwrap().iter();
    let coordinated: Vec<_> = loads.map(|node| node["coordinated"].as_u64().unwrap()).collect();
    assert!(
        coordinated.len() == NODES && coordinated.iter().all(|&requests| requests > 1_000),
        "{coordinated:?}"
    );
    Score::of(&[outcome]).check(12);
}
