//! How well operations of several statements are found in what real drivers send: programs in two languages, which say
//! themselves what they have done, and a report that is made without that.
//!
//! All that was sent counts, also where a busy machine sent less of it than it was to.

mod labels;

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cqlens_node::{Node, Options, Peer};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::drivers::mode::free_addresses;
use crate::node;
use crate::shop::{Application, Drivers, Language, data};
use crate::support::driver::Compression;
use crate::support::process::Supervised;
use crate::support::proxy::{Proxy, free_address};

use labels::{Label, Score};

/// Far beyond what a load takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// What has few requests, so that little time shows each of it often enough.
const SHORT: &str = "lookup,join-by-list,text-days,page";

/// The default. A build for tests takes ten times as long for the same, and would look at a tenth of what users' do.
const BUDGET: &str = if cfg!(debug_assertions) { "30" } else { "3" };

/// What is said of a load: by a report, and by who has sent it.
struct Outcome {
    load: &'static str,
    report: Value,
    labels: Vec<Label>,
}

impl Drivers {
    /// Runs applications at the same time, through a proxy that is started with `arguments`.
    fn run(&self, load: &'static str, arguments: &[&str], applications: &[Application]) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let report_file = folder.path().join("report.json");
        let report = report_file.to_str().unwrap();
        let options = [
            "--window",
            "3600s",
            "--sequence-budget",
            BUDGET,
            "--report",
            report,
        ];
        let proxy = Proxy::launch(
            env!("CARGO_BIN_EXE_cqlens"),
            &[arguments, &options].concat(),
            &[],
            None,
        );
        let file = |application: &Application| folder.path().join(application.name);
        let running: Vec<Supervised> = applications
            .iter()
            .map(|application| self.start(application, proxy.address, &file(application)))
            .collect();
        for mut program in running {
            let ended = program.wait(LIMIT);
            let is_done = ended.is_some_and(|status| status.success());
            assert!(is_done, "{load}: {ended:?}\n{}\n{}", program.log(), proxy.log());
        }
        let ended = proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
        let report: Value = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();
        check_names(&report, applications);
        let mut outcome = Outcome {
            load,
            report,
            labels: Vec::new(),
        };
        for application in applications {
            let (labels, sent) = labels::read(&file(application));
            outcome.labels.extend(labels);
            application.say(load, &sent);
        }
        outcome
    }
}

/// The report knows applications by the names that they give themselves.
fn check_names(report: &Value, applications: &[Application]) {
    let clients = report["clients"].as_object().unwrap();
    let of_python = applications
        .iter()
        .filter(|application| application.language == Language::Python);
    for application in of_python {
        let is_known = clients.keys().any(|name| name.contains(application.name));
        assert!(is_known, "{clients:?}");
    }
}

/// Loads wait for those of other tests: together they would be more than the machine can send.
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

async fn fill(node: SocketAddr) {
    data::fill(node, "python_shop").await;
    data::fill(node, "go_shop").await;
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
    let few = [Application::python(1, 10, 30), Application::go(1, 10, 30)].map(|one| one.does(SHORT));
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
    outcomes.push(run("most", &most));
    Score::of(&outcomes).check(20);
}

const NODES: usize = 3;

/// What users do is spread over the nodes: each application is one all the same.
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

#[test]
fn what_drivers_send_together_to_cassandra_is_found() {
    let Some(drivers) = Drivers::new() else { return };
    let Some(node) = node() else { return };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(fill(node.address()));
    let [listen, upstream] = [free_address(), node.address()].map(|address| address.to_string());
    let applications = [
        Application::python(8, 300, 12),
        Application::go(8, 300, 12).speaks(5, Compression::Lz4),
    ];
    let _alone = alone();
    let outcome = drivers.run(
        "Cassandra",
        &["--listen", &listen, "--upstream", &upstream],
        &applications,
    );
    // All others of that node would read this schema, too.
    for keyspace in ["python_shop", "go_shop"] {
        runtime.block_on(data::clear(node.address(), keyspace));
    }
    Score::of(&[outcome]).check(12);
}
