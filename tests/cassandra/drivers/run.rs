//! One run of a driver's program: what it was asked to check, what it said, where it connected to.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use crate::support::cache;
use crate::support::cassandra::Cassandra;
use crate::support::process::Supervised;

use super::certificates::Certificates;
use super::fixtures::RunKeyspace;
use super::mode::{Front, Mode};
use super::place::Place;
use super::programs::{Dialect, Leaves, Program};
use super::sockets::Watch;

/// Far beyond what a run takes on a busy machine (about 20 s).
pub(super) const DONE_WITHIN: Duration = Duration::from_secs(900);

/// Which run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) program: &'a Program,
    pub(super) dialect: Dialect,
    pub(super) place: Place,
    pub(super) mode: Mode,
}

/// What one check found; the detail depends on nothing but the driver, so that it compares with another
/// mode's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Line {
    pub(super) check: String,
    pub(super) outcome: Outcome,
    pub(super) detail: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// The driver does not have it, or not in this version.
    Absent,
}

/// What came of a run.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) job: Job<'a>,
    pub(super) lines: Vec<Line>,
    /// Nodes that it reached past the proxy.
    pub(super) gone_around: Vec<SocketAddr>,
    /// Whether it was part of an outage.
    pub(super) outage: bool,
    /// Whether it was done before, and is done again because of what came of that.
    pub(super) again: bool,
    /// All that the program wrote.
    pub(super) log: std::path::PathBuf,
    pub(super) took: Duration,
}

/// A run to come: the nodes, what it checks, and its keyspace, which no other run has.
pub(super) struct Order<'a> {
    pub(super) job: Job<'a>,
    pub(super) nodes: Vec<SocketAddr>,
    pub(super) keyspace: String,
    checks: &'static str,
    replication: usize,
}

/// A program that runs.
pub(super) struct Running<'a, 'f> {
    order: &'f Order<'a>,
    front: &'f Front,
    outage: bool,
    process: Supervised,
    watch: Watch,
    started: Instant,
}

impl Job<'_> {
    /// Whether the driver may ask for a table before the node that it asks knows of it: in front of several
    /// nodes nothing tells drivers of the address of a proxy that changes none, and some do not wait for the
    /// node behind it. It is no sign of how busy the machine is.
    pub(super) fn may_hurry(&self) -> bool {
        (self.mode, self.place) == (Mode::Passthrough, Place::Ring)
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let what = |job: &Self| (job.program.name, job.dialect, job.place, job.mode);
        what(self) == what(other)
    }

    /// A driver that goes to the node's own address, without the certificate that only the node asks for,
    /// gets nowhere; nor does one that does not tell nodes apart by their ports, or cannot translate
    /// addresses, where that is the way.
    pub(super) fn is_pointless(&self) -> bool {
        match self.mode {
            Mode::Passthrough => self.program.leaves == Leaves::AtOnce && self.place == Place::Tls,
            Mode::Ports => !self.program.knows_ports,
            Mode::Routes => !self.program.translates,
            Mode::Direct | Mode::Cluster | Mode::Shared | Mode::Redirected(_) => false,
        }
    }
}

impl Seen<'_> {
    /// Where a proxy that changes nothing cannot help it: other nodes, and a node's own idea of its address,
    /// lead past it.
    pub(super) fn may_go_around(&self) -> bool {
        let leaves = match self.job.program.leaves {
            Leaves::Never => false,
            Leaves::AfterOutage => self.outage,
            Leaves::AtOnce => true,
        };
        match self.job.mode {
            Mode::Direct => true,
            Mode::Passthrough => self.job.place == Place::Ring || leaves,
            Mode::Cluster | Mode::Ports | Mode::Shared | Mode::Routes | Mode::Redirected(_) => false,
        }
    }
}

impl<'a> Order<'a> {
    pub(super) fn of_session(job: Job<'a>, cluster: &Cassandra) -> Self {
        Self {
            job,
            nodes: cluster.nodes().iter().map(|node| node.address).collect(),
            keyspace: keyspace(),
            checks: job.place.checks(),
            replication: 1,
        }
    }

    /// All nodes have all data: while one of them is down, nothing is missing.
    pub(super) fn of_outage(job: Job<'a>, cluster: &Cassandra) -> Self {
        Self {
            checks: job.place.checks_of_outage(),
            replication: job.place.nodes(),
            ..Self::of_session(job, cluster)
        }
    }

    pub(super) fn run_keyspace(&self) -> RunKeyspace<'_> {
        RunKeyspace {
            keyspace: &self.keyspace,
            replication: self.replication,
            checks: self.checks,
        }
    }
}

impl<'a, 'f> Running<'a, 'f> {
    /// Starts it; `stage` is the file in which an outage proceeds.
    pub(super) fn start(
        order: &'f Order<'a>,
        front: &'f Front,
        certificates: &Certificates,
        stage: Option<&Path>,
    ) -> Self {
        let Job {
            program,
            dialect,
            place,
            mode,
        } = order.job;
        let contact = front.addresses[0];
        let mut command = program.command.clone();
        command.extend([
            format!("host={}", contact.ip()),
            format!("port={}", contact.port()),
            format!("version={}", dialect.version_name()),
            format!("compression={}", dialect.compression.name()),
            format!("keyspace={}", order.keyspace),
            format!("replication={}", order.replication),
            format!("nodes={}", place.nodes()),
            format!("checks={}", order.checks),
        ]);
        command.extend(place.program_arguments(mode, certificates));
        command.extend(mode.program_arguments(front));
        command.extend(stage.map(|file| format!("stage={}", file.display())));
        let log = cache::log_file(&format!("{}-{}", program.name, mode.name()));
        let process = Supervised::spawn(&command, &[], &log, None);
        let watch = Watch::start(process.supervisor());
        Self {
            order,
            front,
            outage: stage.is_some(),
            process,
            watch,
            started: Instant::now(),
        }
    }

    /// Whether the program has said that it has `reached` a stage, or cannot any more.
    pub(super) fn has_reached(&mut self, stage: &str) -> bool {
        let says_so =
            |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line["reached"] == stage);
        self.process.log().lines().any(says_so) || self.process.ended().is_some()
    }

    /// Waits for the end. A run that fails has its last words as a failed check of its own.
    pub(super) fn finish(mut self) -> Seen<'a> {
        let (order, front) = (self.order, self.front);
        let ended = self.process.wait(DONE_WITHIN);
        let took = self.started.elapsed();
        let log = self.process.log_path().to_owned();
        let output = self.process.log();
        let connected_to = self.watch.finish();
        drop(self.process);
        let mut names = front.names();
        names.push((order.keyspace.clone(), "KEYSPACE".to_owned()));
        let mut lines: Vec<Line> = output
            .lines()
            .map(|line| renamed(line, &names))
            .filter_map(|line| serde_json::from_str(&line).ok())
            .map(|line: Line| Line {
                detail: in_order(line.detail),
                ..line
            })
            .collect();
        if !ended.is_some_and(|status| status.success()) {
            lines.push(failed("end", &format!("{ended:?}, see {}", log.display())));
        }
        if connected_to.is_disjoint(&BTreeSet::from_iter(front.addresses.iter().copied())) {
            lines.push(failed("watched", &format!("connected to {connected_to:?} only")));
        }
        Seen {
            gone_around: front.gone_around(&connected_to),
            job: order.job,
            lines,
            outage: self.outage,
            again: false,
            log,
            took,
        }
    }
}

fn failed(check: &str, why: &str) -> Line {
    Line {
        check: check.to_owned(),
        outcome: Outcome::Failed,
        detail: why.into(),
    }
}

fn renamed(line: &str, names: &[(String, String)]) -> String {
    names
        .iter()
        .fold(line.to_owned(), |line, (from, to)| line.replace(from, to))
}

/// Lists of nodes by their names: programs sort them by addresses, which differ between modes.
pub(crate) fn in_order(detail: Value) -> Value {
    let is_of_node = |item: &Value| item.as_str().is_some_and(|text| text.starts_with("node"));
    match detail {
        Value::Array(mut items) if items.iter().all(is_of_node) => {
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Array(items) => items.into_iter().map(in_order).collect(),
        other => other,
    }
}

#[test]
fn nodes_have_one_order_whatever_their_addresses() {
    let sorted = |detail: &str| in_order(serde_json::from_str(detail).unwrap()).to_string();
    assert_eq!(
        sorted(r#"[5,["node2:1 dc","node1:1 dc"]]"#),
        r#"[5,["node1:1 dc","node2:1 dc"]]"#
    );
    assert_eq!(sorted(r#"["b","a"]"#), r#"["b","a"]"#);
}

/// One that no other run has.
fn keyspace() -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static USED: AtomicUsize = AtomicUsize::new(1);
    // As long as any other: sizes are in messages.
    format!("matrix_{:04}", USED.fetch_add(1, Ordering::Relaxed))
}
