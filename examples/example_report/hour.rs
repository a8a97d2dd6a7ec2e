//! What one proxy sees in an hour, as the audit would have counted it.

use std::collections::BTreeMap;

use cqlens_cql::{
    footprint::PartitionClass,
    plan::{Flag, Plan, StatementKind},
    schema::{Schema, TableName},
    syntax::{self, Template},
};
use cqlens_window::{Pattern, PatternHead, PatternId, Window};
use jiff::{SignedDuration, Timestamp};

use crate::{
    distribution::{hash, part, spread, whole},
    relations,
    statements::{APPLICATIONS, Application, BACKOFFICE, NEW_BACKOFFICE, Statement},
    week::NODES,
};

/// A statement as the audit analyses it.
pub(crate) struct Analysed {
    pub(crate) statement: &'static Statement,
    pub(crate) id: PatternId,
    head: PatternHead,
    flags: std::collections::BTreeSet<Flag>,
    tables: Vec<(TableName, u64)>,
}

impl Analysed {
    pub(crate) fn of(statement: &'static Statement, schema: &Schema) -> Self {
        let parsed = syntax::parse(statement.cql).expect("the statements of the example are CQL");
        let template = Template::of(&parsed, None);
        let plan = Plan::of(&parsed, None, schema);
        assert_eq!(plan.refusal(), None, "{}", statement.cql);
        let tables: Vec<_> = plan.tables().iter().collect();
        let first = tables.first().map(|(name, _)| name);
        Self {
            statement,
            id: PatternId(template.fingerprint.0),
            head: PatternHead {
                kind: plan.facts().statement_kind(),
                keyspace: first.map(|name| name.keyspace.clone()),
                table: first.map(|name| name.table.clone()),
                cql: template.text,
                system: false,
            },
            flags: plan.flags(),
            tables: tables
                .iter()
                .map(|(name, statements)| (name.as_ref().clone(), u64::from(*statements)))
                .collect(),
        }
    }

    fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    pub(crate) fn class(&self) -> PartitionClass {
        if self.has(Flag::FilteringNeeded) && !self.has(Flag::FullPartitionKey) {
            PartitionClass::Scan
        } else if self.has(Flag::Index) {
            PartitionClass::Index
        } else if self.statement.partitions.1 > 1 {
            PartitionClass::Multi
        } else {
            PartitionClass::Single
        }
    }

    fn names_keys(&self) -> bool {
        matches!(self.class(), PartitionClass::Single | PartitionClass::Multi)
    }
}

/// The window of an hour.
pub(crate) struct Hour {
    window: Window,
    proxy: usize,
    is_deployed: bool,
}

impl Hour {
    pub(crate) fn new(start: Timestamp, (proxy, name): (usize, &str), is_deployed: bool) -> Self {
        let mut window = Window::new(start, name);
        window.close(start + SignedDuration::from_hours(1));
        Self {
            window,
            proxy,
            is_deployed,
        }
    }

    /// Counts executions at `rate` in the hour of this number, in which answers take `strain` times as long as else.
    pub(crate) fn send(&mut self, analysed: &Analysed, rate: f64, (number, strain): (u64, f64)) {
        let times = whole(rate * 3_600.0);
        let pattern = self.pattern(analysed, times, strain);
        for (name, statements) in &analysed.tables {
            self.count_table(name, (analysed, &pattern), (times, *statements), number);
        }
        self.count_coverage(analysed, times);
        self.count_nodes(analysed, &pattern, number);
        relations::relate(&mut self.window, analysed, (times, number));
        self.window.patterns.insert(analysed.id, pattern);
    }

    /// Ends the hour; drivers have asked on all of their connections whether somebody is there, twice a minute.
    pub(crate) fn end(mut self) -> Window {
        for application in &APPLICATIONS {
            for (client, heartbeats) in self.clients(application.name, application.clients * 120) {
                self.window.count_client(&client, heartbeats);
                self.window.coverage.requests += heartbeats;
                self.window.coverage.audited += heartbeats;
            }
        }
        self.window
    }

    fn pattern(&mut self, analysed: &Analysed, times: u64, strain: f64) -> Pattern {
        let statement = analysed.statement;
        let mut pattern = Pattern::new(analysed.head.clone(), analysed.flags.clone());
        let (p50, p99) = statement.latency_us;
        let strained = |latency: u64| whole(latency as f64 * strain);
        pattern.count = times;
        pattern.prepared = times;
        pattern.on_known_table = true;
        pattern.latency_us = spread((strained(p50), strained(p99)), times);
        pattern.classes.insert(analysed.class(), times);
        pattern.consistency.insert("LOCAL_QUORUM".to_owned(), times);
        if analysed.names_keys() {
            pattern.partitions = spread(statement.partitions, times);
        }
        let is_read = analysed.head.kind == StatementKind::Select;
        let request = if is_read { 70 } else { 60 + statement.row_bytes };
        pattern.request_bytes = spread((request, request * 11 / 10), times);
        if statement.rows.1 > 0 {
            pattern.rows = spread(statement.rows, times);
            let [least, most] =
                [statement.rows.0, statement.rows.1].map(|rows| 90 + rows * statement.row_bytes);
            pattern.response_bytes = spread((least, most), times);
        }
        if is_read {
            pattern.logical_reads = times;
            pattern.page_sizes = Some((5_000, 5_000));
            pattern.paging.rows = pattern.rows.clone();
            pattern.paging.pages.record_n(1, times);
        }
        let window = &self.window;
        pattern.seen = Some((window.start, window.end));
        (statement.more)(&mut pattern, times);
        for (client, requests) in self.clients(statement.from, times) {
            self.window.count_client(&client, requests);
            pattern.clients.insert(client, requests);
        }
        pattern
    }

    /// The clients of an application in the zone of the proxy, with what each of them sends.
    fn clients(&mut self, name: &str, times: u64) -> Vec<(String, u64)> {
        let (at, application) = (0..)
            .zip(&APPLICATIONS)
            .find(|(_, application)| application.name == name)
            .expect("each statement has an application");
        let Application {
            version,
            driver,
            clients,
            ..
        } = application;
        let version = match name == BACKOFFICE && self.is_deployed {
            true => NEW_BACKOFFICE,
            false => version,
        };
        let sent = (0..*clients).map(|client| {
            let address = format!("10.2{}.{}.{}", self.proxy + 1, at + 10_u64, client + 21);
            let of_client = times / clients + u64::from(client < times % clients);
            (format!("{name} {version} ({driver}) {address}"), of_client)
        });
        let sent: Vec<_> = sent.collect();
        for (client, _) in &sent {
            let connections = self.window.connections_mut(client);
            if connections.opened == 0 {
                connections.open(if driver.starts_with("Node") { 4 } else { 5 }, true);
                connections.are_open(NODES[self.proxy * 2].0, 1);
            }
        }
        sent
    }

    fn count_table(
        &mut self,
        name: &TableName,
        (analysed, pattern): (&Analysed, &Pattern),
        (times, statements): (u64, u64),
        number: u64,
    ) {
        let statement = analysed.statement;
        let partitions = match analysed.tables.len() {
            1 => pattern.partitions.total(),
            _ => times * statements,
        };
        self.window.count_table(name, |table| {
            table.known = true;
            if analysed.head.kind == StatementKind::Select {
                table.reads += times;
                table.partitions_per_read.merge(&pattern.partitions);
                table.tombstones.scanned.merge(&pattern.tombstones.scanned);
                table.tombstones.live_rows.merge(&pattern.tombstones.live_rows);
                table.tombstones.warned += pattern.tombstones.warned;
            } else {
                table.writes += partitions.max(times * statements);
            }
            if !analysed.names_keys() {
                return;
            }
            for (key, weight) in keys(name, statement, (partitions, number)) {
                match analysed.head.kind {
                    StatementKind::Select => table.top_partitions.read_many(key, weight),
                    _ => table.top_partitions.write_many(key, weight),
                }
                table.distinct_partitions.insert(key);
            }
            if analysed.head.kind != StatementKind::Select {
                return;
            }
            let new = statement.keys / 504 + 1;
            let fresh = (0..new).map(|at| (number * new + at) % statement.keys);
            fresh.for_each(|key| table.distinct_partitions.insert(key_of(name, key)));
        });
    }

    fn count_coverage(&mut self, analysed: &Analysed, times: u64) {
        let coverage = &mut self.window.coverage;
        coverage.requests += times;
        coverage.audited += times;
        match analysed.names_keys() {
            true => coverage.partitions_exact += times,
            false => coverage.partitions_scan += times,
        }
    }

    /// Each node holds half of all partitions: three of six do.
    fn count_nodes(&mut self, analysed: &Analysed, pattern: &Pattern, number: u64) {
        let load = &mut self.window.load;
        let partitions = pattern.partitions.total();
        if !analysed.names_keys() {
            load.without_keys += pattern.count;
        }
        for (node, (address, rack, weight)) in (0..).zip(NODES) {
            let noise = 0.99 + 0.02 * part(number * 10 + node);
            let held = whole(partitions as f64 / 2.0 * weight * noise);
            let host = format!("{:08x}-5a1f-4c0e-9d3b-0000000000{:02x}", hash(node) >> 32, node);
            let node = load.nodes.entry(host).or_default();
            node.address = Some(format!("{address}:9042"));
            node.data_center = Some("eu-north".to_owned());
            node.rack = Some(rack.to_owned());
            node.coordinated += pattern.count / 6;
            match analysed.head.kind {
                StatementKind::Select => node.reads += held,
                _ => node.writes += held,
            }
            node.in_ring.own += held;
            node.in_ring.mean += partitions / 2;
        }
    }
}

/// The keys that get most in an hour; they change from hour to hour where there are many.
fn keys(name: &TableName, statement: &Statement, (times, number): (u64, u64)) -> BTreeMap<u64, u64> {
    let hot = whole(times as f64 * statement.hottest);
    let each = (times - hot) / BUSY;
    let mut keys = BTreeMap::from([(key_of(name, 0), hot + (times - hot) % BUSY)]);
    for at in 0..BUSY {
        *keys
            .entry(key_of(name, (number * BUSY + at) % statement.keys))
            .or_default() += each;
    }
    keys
}

const BUSY: u64 = 48;

/// The keyed hash of a partition key.
pub(crate) fn key_of(name: &TableName, key: u64) -> u64 {
    let of_name = name
        .table
        .bytes()
        .fold(0, |all, byte| hash(all ^ u64::from(byte)));
    hash(of_name ^ key)
}
