//! The rules of `examples/deploy`, to the letter, before a transparent cqlens and real nodes: drivers connect
//! to the nodes' own addresses, find all nodes at theirs, and nothing that they send reaches a node but
//! through cqlens.
//!
//! Nodes, cqlens and drivers are in a network of their own, with a list of users of its own, and of three
//! different users.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::support::cassandra::{Cassandra, Options};
use crate::support::namespace::{
    CQLENS, IPTABLES, NFTABLES, Users, as_user, run, run_all, run_inside, with_users,
};
use crate::support::{available, with_everything};

use super::certificates::Certificates;
use super::fixtures;
use super::mode::{Front, Mode};
use super::place::Place;
use super::programs::Program;
use super::run::{Job, Order, Seen};
use super::sockets::callers;
use super::table::Table;
use super::{Choice, Scope, repeat, run_together, write};

/// What makes the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rules {
    Nftables,
    Iptables,
}

impl Rules {
    const ALL: [Self; 2] = [Self::Nftables, Self::Iptables];

    fn make(self) {
        match self {
            Self::Nftables => run(&format!("nft -f {NFTABLES}")),
            Self::Iptables => script("add"),
        }
    }

    fn undo(self) {
        match self {
            Self::Nftables => run("nft delete table inet cqlens"),
            Self::Iptables => script("delete"),
        }
    }
}

fn script(action: &str) {
    // The lock is the machine's.
    run(&format!("env XTABLES_LOCKFILE=/dev/null sh {IPTABLES} {action}"));
}

/// The port that the rules lead away from.
const PORT: u16 = 9042;

/// The user that drivers are.
const APPLICATION: u32 = 4243;

#[test]
fn no_driver_notices_that_it_is_redirected() {
    let scope = Scope::from_environment();
    if !Place::Ring.is_chosen() || !scope.has_sessions() {
        println!("something else was asked for");
        return;
    }
    if scope == Scope::Bounded && !with_everything("drivers that are redirected to cqlens by the kernel") {
        return;
    }
    let tools = run_all(&[
        ("nft", &["--version"]),
        ("iptables", &["--version"]),
        ("ip", &["-V"]),
    ]);
    if let Some(way) = available("drivers that are redirected", tools.and_then(|()| with_users())) {
        println!(
            "{}",
            run_inside(way, "drivers::redirected::inside_a_network_of_its_own")
        );
    }
}

#[test]
#[ignore = "it changes the rules of the network that it is in: the test above runs it in one of its own"]
fn inside_a_network_of_its_own() {
    run("ip link set lo up");
    let Some(scene) = Scene::set() else { return };
    let programs: Vec<Program> = programs().into_iter().map(of_an_application).collect();
    let modes = [Mode::Direct].into_iter();
    let modes = modes.chain(Rules::ALL.map(Mode::Redirected));
    let mut table = Table::default();
    for mode in modes {
        let job = |program| Job {
            program,
            dialect: program.dialects[0],
            place: Place::Ring,
            mode,
        };
        table.add(scene.run(mode, programs.iter().map(job).collect()));
    }
    repeat(&mut table, |job| scene.run(job.mode, vec![job]).remove(0));
    write(&table);
    assert!(table.runs() > 0, "nothing was run");
    let complaints = table.complaints();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Nodes, and who may be in front of them.
struct Scene {
    ring: Cassandra,
    users: Users,
    certificates: Certificates,
}

impl Scene {
    fn set() -> Option<Self> {
        let users = Users::with_cqlens(env!("CARGO_BIN_EXE_cqlens"));
        let certificates = Certificates::make();
        let options = Options {
            native_port: Some(PORT),
            ..Place::Ring.options(&certificates, false)
        };
        let ring = available("a ring", Cassandra::start(&options))?;
        Some(Self {
            ring,
            users,
            certificates,
        })
    }

    fn run<'a>(&self, mode: Mode, jobs: Vec<Job<'a>>) -> Vec<Seen<'a>> {
        let orders = jobs.into_iter().map(|job| Order::of_session(job, &self.ring));
        let orders: Vec<Order<'a>> = orders.collect();
        fixtures::create_for(&orders);
        match mode {
            Mode::Redirected(rules) => self.run_behind(rules, &orders),
            _ => self.run_at(&orders, |_| {
                Front::start(mode, Place::Ring, &self.ring, &self.certificates)
            }),
        }
    }

    fn run_at<'a>(&self, orders: &[Order<'a>], start: impl Fn(&Job<'a>) -> Front + Send) -> Vec<Seen<'a>> {
        run_together(orders, start, &self.certificates)
    }

    /// Runs behind rules, which are there for as long as it takes.
    ///
    /// # Panics
    /// If a node has had a connection of anybody else than cqlens, or none.
    fn run_behind<'a>(&self, rules: Rules, orders: &[Order<'a>]) -> Vec<Seen<'a>> {
        let program = self.users.cqlens().display().to_string();
        let mode = Mode::Redirected(rules);
        let start = |_: &Job<'a>| {
            let front = Front::start_program(&program, mode, Place::Ring, &self.ring, &self.certificates);
            rules.make();
            front
        };
        let nodes: Vec<SocketAddr> = self.ring.nodes().iter().map(|node| node.address).collect();
        let (seen, callers) = callers(&nodes, || self.run_at(orders, start));
        rules.undo();
        let only_cqlens = |&node| (node, BTreeSet::from([CQLENS]));
        let expected: BTreeMap<_, _> = nodes.iter().map(only_cqlens).collect();
        assert_eq!(callers, expected, "{rules:?}, and the user of cqlens is {CQLENS}");
        seen
    }
}

/// The Python driver, or those that `CQLENS_DRIVERS` names.
fn programs() -> Vec<Program> {
    let scope = match Scope::from_environment() {
        Scope::Bounded => Scope::Some(vec![Choice::of("python")]),
        scope => scope,
    };
    scope.programs()
}

/// Of a user who may only read what is the tests': the drivers are in their cache.
fn of_an_application(program: Program) -> Program {
    let reads_all = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"].map(str::to_owned);
    Program {
        command: [as_user(APPLICATION), reads_all.to_vec(), program.command].concat(),
        ..program
    }
}

#[test]
fn whose_connections_a_server_has_is_seen() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let look = || std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(callers(&[address], look).1, BTreeMap::new());
    let _client = std::net::TcpStream::connect(address).unwrap();
    let own = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    assert_eq!(
        callers(&[address], look).1,
        BTreeMap::from([(address, BTreeSet::from([own]))])
    );
}
