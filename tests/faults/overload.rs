//! The audit is behind: whole requests are left out, the newest first, all are counted by opcode, and no
//! PREPARE is among them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex},
};

use cqlens_audit::audit::Watch;
use cqlens_capture::QueueLimits;
use cqlens_client::{Bind, Client, ClientOptions, Prepared, Run, RunOptions};
use cqlens_node::{Node, Options};
use cqlens_proto::envelope::{Envelope, Opcode, Version};
use cqlens_window::Window;

use crate::faults::rig::Rig;

/// Stops the auditor dead while it is closed.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    closed: bool,
    executes: u64,
}

impl Gate {
    fn watch(&self) -> Watch {
        let gate = self.clone();
        Watch::new(move |request: &Envelope| {
            let (state, changed) = &*gate.0;
            let mut state = changed
                .wait_while(state.lock().unwrap(), |state| state.closed)
                .unwrap();
            state.executes += u64::from(request.header.opcode == Opcode::EXECUTE);
        })
    }

    fn set_closed(&self, closed: bool) {
        self.0.0.lock().unwrap().closed = closed;
        self.0.1.notify_all();
    }

    fn executes(&self) -> u64 {
        self.0.0.lock().unwrap().executes
    }
}

/// What was asked, by opcode.
#[derive(Default)]
struct Sent(BTreeMap<&'static str, u64>);

impl Sent {
    async fn query(&mut self, client: &mut Client, cql: &str) {
        client.query(cql).await.unwrap();
        *self.0.entry("QUERY").or_default() += 1;
    }

    async fn execute(&mut self, client: &mut Client, prepared: &Prepared) {
        let keys = [Bind::int(1), Bind::int(2), Bind::int(1)];
        let run = Run::Prepared(prepared, &keys);
        client.run(run, &RunOptions::default()).await.unwrap();
        *self.0.entry("EXECUTE").or_default() += 1;
    }
}

const READ: &str = "SELECT v FROM k.t WHERE id IN (?, ?, ?)";
/// The same as a template.
const READ_TEMPLATE: &str = "SELECT v FROM k.t WHERE id IN ?";

async fn prepares_while_the_auditor_stands(version: Version) {
    let node = Node::start(Options::default()).await.unwrap();
    let gate = Gate::default();
    // So little room that it is full after some thirty exchanges.
    let limits = QueueLimits { bytes: 12 << 10 };
    let rig = Rig::start(node.address(), limits, gate.watch()).await;
    let options = ClientOptions {
        version,
        ..ClientOptions::default()
    };
    let mut client = Client::connect(rig.address, &options).await.unwrap();
    let mut sent = Sent::default();
    for cql in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (id int PRIMARY KEY, v int)",
    ] {
        sent.query(&mut client, cql).await;
    }
    gate.set_closed(true);
    for _ in 0..200 {
        sent.query(&mut client, "SELECT v FROM k.t WHERE id = 1").await;
    }
    let prepared = client.prepare(READ).await.unwrap();
    for _ in 0..100 {
        sent.execute(&mut client, &prepared).await;
    }
    gate.set_closed(false);
    // Executions find room again as soon as the auditor has made some.
    while gate.executes() < 50 {
        sent.execute(&mut client, &prepared).await;
    }
    drop(client);
    let window = rig.stop().await;
    check(&window, &sent);
    node.shutdown().await;
}

fn check(window: &Window, sent: &Sent) {
    let coverage = &window.coverage;
    let audited = |cql: &str| {
        let of = |pattern: &&cqlens_window::Pattern| pattern.head.cql == cql;
        window.patterns.values().find(of).unwrap()
    };
    let executes = audited(READ_TEMPLATE);
    assert!(executes.count >= 50, "{}", executes.count);
    assert_eq!(executes.partitions.max(), 2, "of three keys two are the same");
    assert_eq!(
        executes.classes.values().sum::<u64>(),
        executes.count,
        "{:?}",
        executes.classes
    );
    assert_eq!(coverage.partitions_unknown, 0, "{:?}", coverage.unknown_reasons);

    let queries: u64 = window.patterns.values().map(|pattern| pattern.unprepared).sum();
    let dropped = &coverage.dropped_by_opcode;
    let expected = BTreeMap::from([
        ("EXECUTE".to_owned(), sent.0["EXECUTE"] - executes.count),
        ("QUERY".to_owned(), sent.0["QUERY"] - queries),
    ]);
    assert_eq!(dropped, &expected, "no PREPARE is among them");
    assert!(dropped["QUERY"] > 100 && dropped["EXECUTE"] >= 100, "{dropped:?}");
    assert_eq!(coverage.dropped, dropped.values().sum::<u64>());
    // STARTUP and PREPARE beside those.
    let all = sent.0.values().sum::<u64>() + 2;
    assert_eq!((coverage.requests, coverage.undecoded), (all, 0), "{coverage:?}");
    println!(
        "of {all} requests {} were left out: {dropped:?}",
        coverage.dropped
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_prepared_while_the_auditor_stands_still_is_known_afterwards() {
    prepares_while_the_auditor_stands(Version::V4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_holds_in_segments() {
    prepares_while_the_auditor_stands(Version::V5).await;
}
