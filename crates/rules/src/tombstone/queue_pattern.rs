//! Tables that are used as queues: rows are appended at one end, read at the other and deleted there.

mod by_state;

use std::collections::{BTreeMap, BTreeSet};

use cqlens_cql::syntax::ast::{Modification, NativeType, RelationOperator, Select, Subject};

use super::{by_hour, reports};
use crate::{
    About, Cause, Context, EvidenceValue, Finding, Findings, KnownFrom, Quantity, Rule, Severity, Threshold,
    definition::{TIME_WINDOW, compaction, is_time},
    figures::{at_rate, is_steady, share},
    read::user_reads,
    severity::Impact,
    statement::{TableWrite, executions, patterns, selected, table_of},
};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::Flag,
    schema::{DataType, Table, TableName},
};
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct QueuePattern;

impl Rule for QueuePattern {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let mut queues = BTreeSet::new();
        for (name, queue) in by_table(context) {
            if let Some(severity) = severity(found, &queue, &name, context) {
                found.push(finding(severity, &name, queue, context));
                queues.insert(name);
            }
        }
        let by_state = by_state::findings(found, &queues, context);
        by_state.into_iter().for_each(|finding| found.push(finding));
    }
}

/// What speaks for a table's being a queue.
#[derive(Default)]
struct QueueEvidence<'a> {
    /// Reads from the old end of a partition, a few rows at a time.
    head_reads: Vec<(PatternId, &'a Pattern)>,
    deleting: Vec<(PatternId, &'a Pattern)>,
    /// Executions.
    reads: u64,
    appends: u64,
    deletes: u64,
    /// Appends of rows that expire by themselves.
    expiring: u64,
}

impl QueueEvidence<'_> {
    /// Rows that went, or will go.
    fn gone(&self) -> u64 {
        self.deletes.max(self.expiring)
    }

    /// Reads in which the server reported tombstones.
    fn reported(&self) -> u64 {
        let reads = self.head_reads.iter();
        reads.map(|(_, pattern)| pattern.tombstones.reported()).sum()
    }

    /// Always from what is written; that no server warns of it proves nothing.
    fn known_from(&self) -> Vec<KnownFrom> {
        let mut ways = vec![KnownFrom::Writes];
        let reads = self.head_reads.iter();
        for way in reads.flat_map(|(_, pattern)| reports(&pattern.tombstones)) {
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        ways
    }
}

fn by_table<'a>(context: &Context<'a>) -> BTreeMap<TableName, QueueEvidence<'a>> {
    let schema = context.schema;
    let mut tables: BTreeMap<TableName, QueueEvidence<'a>> = BTreeMap::new();
    for (id, pattern) in user_reads(context) {
        let Some((name, select)) = table_of(pattern).zip(selected(id, context)) else {
            continue;
        };
        let table = schema.table(&name.keyspace, &name.table);
        if table.is_some_and(|table| is_head_read(pattern, &select, table)) {
            let queue = tables.entry(name).or_default();
            queue.reads += pattern.logical_reads;
            queue.head_reads.push((id, pattern));
        }
    }
    if tables.is_empty() {
        return tables;
    }
    for (name, writes) in context.writes() {
        if let Some(queue) = tables.get_mut(name) {
            queue.count(writes, schema.table(&name.keyspace, &name.table));
        }
    }
    tables
}

impl<'a> QueueEvidence<'a> {
    fn count(&mut self, writes: &[TableWrite<'a>], table: Option<&Table>) {
        let appending = appending(writes);
        self.appends = executions(appending.iter().copied());
        // In time windows what has expired goes in whole files, without tombstones.
        let is_dropped_whole = table.is_some_and(|table| compaction(table) == TIME_WINDOW);
        let all_expire = table.is_some_and(|table| table.default_time_to_live() > 0);
        // What expires is what is oldest, which is at the head only where rows are in the order of their writing.
        let is_in_order =
            table.is_some_and(|table| table.clustering().iter().any(|column| grows(&column.data_type)));
        if is_in_order && !is_dropped_whole {
            let expiring = appending.into_iter();
            self.expiring = executions(expiring.filter(|write| all_expire || write.ttl().is_some()));
        }
        let deleting = || writes.iter().filter(|write| deletes_rows(write));
        self.deletes = executions(deleting());
        self.deleting = patterns(deleting());
    }
}

/// Whether values of later rows are usually larger: times and numbers, not names.
fn grows(data_type: &DataType) -> bool {
    let is_number = matches!(
        data_type,
        DataType::Native(NativeType::Int | NativeType::Bigint | NativeType::Varint)
    );
    is_number || is_time(data_type)
}

/// The writes that append rows: INSERTs, and where there are none UPDATEs, which write rows as well.
fn appending<'w, 'a>(writes: &'w [TableWrite<'a>]) -> Vec<&'w TableWrite<'a>> {
    let has_inserts = writes.iter().any(TableWrite::is_insert);
    let appends = |write: &&TableWrite<'_>| match has_inserts {
        true => write.is_insert(),
        false => write.is_update(),
    };
    writes.iter().filter(appends).collect()
}

/// Whether it deletes one row, or a range of rows that are done: not columns, and not a whole partition.
fn deletes_rows(write: &TableWrite<'_>) -> bool {
    matches!(&write.modification, Modification::Delete(delete)
        if delete.deletions.is_empty() && delete.where_clause.relations.len() > 1)
}

/// Whether a few rows are read from the end of a partition (or of rows that begin alike) at which the oldest
/// ones are, where values grow. A read that begins after the last row that was done passes no tombstones.
fn is_head_read(pattern: &Pattern, select: &Select<'_>, table: &Table) -> bool {
    if !takes_few(pattern) || pattern.class() != PartitionClass::Single {
        return false;
    }
    let is_fixed = |name: &str| {
        let mut relations = select.where_clause.relations.iter();
        relations.any(|relation| {
            matches!(&relation.subject, Subject::Column(column) if column.as_str() == name)
                && relation.operator == RelationOperator::Equal
        })
    };
    let Some(ordered) = table.clustering().iter().find(|column| !is_fixed(&column.name)) else {
        return false;
    };
    let mut relations = select.where_clause.relations.iter();
    let begins_later = relations.any(|relation| {
        relation
            .subject
            .columns()
            .iter()
            .any(|column| column.as_str() == ordered.name)
            && !matches!(
                relation.operator,
                RelationOperator::LessThan | RelationOperator::LessOrEqual
            )
    });
    let oldest_first = ordered.is_descending() == pattern.is(Flag::Reversed);
    oldest_first && !begins_later
}

/// Whether it says LIMIT, or takes the first rows of a small page, which is the other way to say it.
fn takes_few(pattern: &Pattern) -> bool {
    let abandoned = pattern.paging.abandoned;
    pattern.is(Flag::Limit) || (abandoned > 0 && abandoned >= pattern.logical_reads / 2)
}

fn severity(
    found: &Findings<'_>,
    queue: &QueueEvidence<'_>,
    name: &TableName,
    context: &Context<'_>,
) -> Option<Severity> {
    let each = [queue.appends, queue.reads, queue.gone()];
    let watch = context.watch_table(name);
    if each.iter().any(|&times| !is_steady(found, times, watch)) {
        return None;
    }
    let each = by_share(found, share(queue.gone(), queue.appends))?;
    let reported = queue.reported() > 0;
    let each = if reported { each.raised() } else { each };
    let statements = queue.head_reads.iter().chain(&queue.deleting);
    let impact = statements.fold(Impact::each(each), |impact, (_, pattern)| impact.of(pattern));
    Some(context.severity(found, &impact.grows(reported)))
}

/// How bad it is that this part of what is appended is done with again; none of a small part.
fn by_share(found: &Findings<'_>, gone: f64) -> Option<Severity> {
    let reached = |threshold: &Threshold| gone >= found.threshold(&ABOUT, threshold);
    if reached(&MANY_SHARE) {
        Some(Severity::Medium)
    } else {
        reached(&SOME_SHARE).then_some(Severity::Low)
    }
}

fn finding(severity: Severity, name: &TableName, queue: QueueEvidence<'_>, context: &Context<'_>) -> Finding {
    let (reads, appends, deletes, reported) = (queue.reads, queue.appends, queue.deletes, queue.reported());
    let known_from = queue.known_from();
    let gone = if deletes >= queue.expiring {
        "deleted"
    } else {
        "expiring"
    };
    let mut empty = cqlens_window::Distribution::default();
    queue
        .head_reads
        .iter()
        .for_each(|(_, pattern)| empty.merge(&pattern.rows));
    let title = format!(
        "`{name}` is used as a queue: {} appended, {} {gone}{}, and each read from its head scans their \
            tombstones",
        number::plural(appends, "row", "rows"),
        number::count(queue.gone()),
        at_rate(queue.gone(), context.watch_table(name))
    );
    let mut patterns = queue.head_reads;
    patterns.extend(queue.deleting);
    let finding = Finding::on_all(&ABOUT, severity, patterns, context)
        .of_table(name)
        .title(title)
        .first("known_from", EvidenceValue::KnownFrom(known_from))
        .first("reads_with_tombstones_reported", reported)
        .first("rows_of_head_reads_p50", empty.quantile(0.5))
        .first("head_reads", reads)
        .first("expiring", queue.expiring)
        .first("deletes", deletes)
        .first("appends", appends)
        .first("deletes_of_appends_share", share(deletes, appends));
    by_hour(finding, name, context)
}

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "deletes or changes of state per appended row",
    default: 0.3,
    origin: "cqlens default: a part of the appended rows is processed and removed",
};

const MANY_SHARE: Threshold = Threshold {
    name: "many_share",
    unit: "deletes or changes of state per appended row",
    default: 0.7,
    origin: "cqlens default: nearly all appended rows are removed again",
};

const ABOUT: About = About {
    id: "queue-pattern",
    group: "tombstones",
    summary: "\
        A table is used as a queue: rows are appended, read from the head of their partition or by a state, \
        and then done.",
    why: "\
        A deleted row leaves a tombstone in its place, for at least `gc_grace_seconds`. The oldest rows are \
        at the head of the partition, and so are all tombstones: to find the first live row, a read starts \
        at the head and scans the tombstones of all completed jobs, on each replica involved. The shorter \
        the queue, the more tombstones per row, until `tombstone_failure_threshold` (100,000) aborts the \
        reads. If a column marks completed rows (`state = 'open'`), an index on it has such tombstones, one \
        per change; without an index, a read scans the rows themselves.",
    fix: "Start each read where the last one ended (`AND at > ?`), so that it skips the head. Or give each \
        span of time its own partition, delete a partition once all of its rows are done, and never read it \
        again. Or use a queue: logs and message brokers are made for this.",
    fix_in_short: "Bucket by time",
    before: "SELECT at, what FROM work.jobs WHERE lane = ? LIMIT 1;\nDELETE FROM work.jobs WHERE lane = ? AND at = ?;",
    after: "SELECT at, what FROM work.jobs_by_hour WHERE lane = ? AND hour = ? AND at > ? LIMIT 1;\n\
            DELETE FROM work.jobs_by_hour WHERE lane = ? AND hour = ?;",
    severity: "\
        If appends, reads of the head and deletes (or rows that expire) come steadily, from `some_share` \
        deletes per append: low, medium from `many_share`; one step up if the server reported tombstones in \
        these reads. The same for changes of a column by which a few rows are read, through an index or with \
        ALLOW FILTERING; one step less through a storage-attached index. Nothing for reads of all rows, from \
        the newest row, or from a given row on.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[SOME_SHARE, MANY_SHARE],
    needs: "The table's schema, and its writes and reads in the same window. Writing growing values, such as \
        times, counts as appending, by INSERT, or by UPDATE if there is no INSERT. Rows that expire do not count \
        in time windows, or if no clustering column is a time or a number. That deletes affect the rows that are \
        read is inferred from their numbers. The \
        finding says whether the server reported tombstones.",
    source: "Cassandra: The Definitive Guide, the queue anti-pattern; cassandra.yaml `tombstone_failure_threshold`",
    cause: Some(Cause::DELETES),
    quantity: Some(Quantity::TOMBSTONES_PER_READ),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run_with, window, write};
    use cqlens_cql::{plan::StatementKind, schema::Schema};

    const HEAD: &str = "SELECT at FROM work.jobs WHERE lane = ? LIMIT 1";

    fn schema() -> Schema {
        Schema::from_cql(
            "CREATE KEYSPACE work WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE work.jobs (lane text, at int, what text, PRIMARY KEY ((lane), at));
             CREATE TABLE work.brief (lane text, at int, what text, PRIMARY KEY ((lane), at)) WITH default_time_to_live = 600;
             CREATE TABLE work.names (lane text, at text, what text, PRIMARY KEY ((lane), at)) WITH default_time_to_live = 600;
             CREATE TABLE work.windows (lane text, at int, what text, PRIMARY KEY ((lane), at)) WITH default_time_to_live = 600
                 AND compaction = {'class': 'TimeWindowCompactionStrategy'};
             CREATE TABLE work.states (lane text, state text, at int, PRIMARY KEY ((lane), state, at));
             CREATE TABLE work.news (lane text, at int, what text, PRIMARY KEY ((lane), at)) WITH CLUSTERING ORDER BY (at DESC);",
        )
        .unwrap()
    }

    fn head(cql: &str, flags: &[Flag]) -> Pattern {
        let flags = [&[Flag::FullPartitionKey], flags].concat();
        read(cql, &flags, PartitionClass::Single, 600)
    }

    fn writes(table: &str, inserts: u64, deletes: u64) -> [Pattern; 2] {
        let insert = format!("INSERT INTO work.{table} (lane, at) VALUES (?, ?)");
        let delete = format!("DELETE FROM work.{table} WHERE lane = ? AND at = ?");
        [
            write(&insert, StatementKind::Insert, &[], inserts),
            write(&delete, StatementKind::Delete, &[], deletes),
        ]
    }

    fn severity(read: Pattern, writes: [Pattern; 2]) -> Option<Severity> {
        let [insert, delete] = writes;
        let judgement = run_with(&QueuePattern, &amid([read, insert, delete]), &schema());
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_deletes_and_what_the_server_reports() {
        let of = |deletes| severity(head(HEAD, &[Flag::Limit]), writes("jobs", 600, deletes));
        assert_eq!(of(600), Some(Severity::Medium));
        assert_eq!(of(180), Some(Severity::Low));
        assert_eq!(of(179), None);
        let mut reported = head(HEAD, &[Flag::Limit]);
        reported.tombstones.warned = 1;
        assert_eq!(severity(reported, writes("jobs", 600, 600)), Some(Severity::High));
    }

    #[test]
    fn it_takes_all_three_steadily() {
        let mut rare = head(HEAD, &[Flag::Limit]);
        rare.logical_reads = 9;
        assert_eq!(severity(rare, writes("jobs", 600, 600)), None);
        assert_eq!(severity(head(HEAD, &[Flag::Limit]), writes("jobs", 9, 9)), None);
        assert_eq!(severity(head(HEAD, &[Flag::Limit]), writes("jobs", 600, 0)), None);
    }

    #[test]
    fn reads_from_the_newest_row_or_after_the_last_one_pass_no_tombstones() {
        let after = "SELECT at FROM work.jobs WHERE lane = ? AND at > ? LIMIT 1";
        assert_eq!(
            severity(head(after, &[Flag::Limit]), writes("jobs", 600, 600)),
            None
        );
        let newest = "SELECT at FROM work.jobs WHERE lane = ? ORDER BY at DESC LIMIT 1";
        let flags = [Flag::Limit, Flag::Reversed];
        assert_eq!(severity(head(newest, &flags), writes("jobs", 600, 600)), None);
        let stored = HEAD.replace("jobs", "news");
        assert_eq!(
            severity(head(&stored, &[Flag::Limit]), writes("news", 600, 600)),
            None
        );
        let oldest = "SELECT at FROM work.news WHERE lane = ? ORDER BY at ASC LIMIT 1";
        assert_eq!(
            severity(head(oldest, &flags), writes("news", 600, 600)),
            Some(Severity::Medium)
        );
        let due = "SELECT at FROM work.jobs WHERE lane = ? AND at <= ? LIMIT 1";
        assert_eq!(
            severity(head(due, &[Flag::Limit]), writes("jobs", 600, 600)),
            Some(Severity::Medium)
        );
    }

    #[test]
    fn a_small_page_is_another_way_to_say_limit_and_a_ttl_another_way_to_delete() {
        let mut first_row = head("SELECT at FROM work.jobs WHERE lane = ?", &[]);
        first_row.paging.abandoned = 400;
        assert_eq!(
            severity(first_row, writes("jobs", 600, 600)),
            Some(Severity::Medium)
        );
        let mut expiring = writes("jobs", 600, 0);
        expiring[0].head.cql += " USING TTL ?";
        assert_eq!(
            severity(head(HEAD, &[Flag::Limit]), expiring),
            Some(Severity::Medium)
        );
    }

    #[test]
    fn all_rows_of_a_table_may_expire_but_in_time_windows_they_leave_no_tombstones() {
        let of = |table: &str| {
            severity(
                head(&HEAD.replace("jobs", table), &[Flag::Limit]),
                writes(table, 600, 0),
            )
        };
        assert_eq!(of("brief"), Some(Severity::Medium));
        assert_eq!(of("windows"), None);
        assert_eq!(of("names"), None, "the oldest name may be anywhere");
        assert_eq!(of("jobs"), None);
    }

    #[test]
    fn rows_may_be_appended_by_updates_where_there_are_no_inserts() {
        let of = |with_insert: u64| {
            let [insert, delete] = writes("jobs", with_insert, 600);
            let update = "UPDATE work.jobs SET what = ? WHERE lane = ? AND at = ?";
            let update = write(update, StatementKind::Update, &[], 600);
            let patterns = [Some(head(HEAD, &[Flag::Limit])), Some(update), Some(delete)];
            let insert = (with_insert > 0).then_some(insert);
            let window = amid(patterns.into_iter().chain([insert]).flatten());
            run_with(&QueuePattern, &window, &schema()).findings.len()
        };
        assert_eq!(of(0), 1);
        assert_eq!(of(3), 0, "rows are made by few INSERTs and updated");
    }

    #[test]
    fn a_state_in_the_clustering_key_makes_two_queues_of_a_partition() {
        let open = "SELECT at FROM work.states WHERE lane = ? AND state = ? LIMIT 1";
        let [mut insert, mut delete] = writes("states", 1_200, 600);
        insert.head.cql = "INSERT INTO work.states (lane, state, at) VALUES (?, ?, ?)".to_owned();
        delete.head.cql = "DELETE FROM work.states WHERE lane = ? AND state = ? AND at = ?".to_owned();
        assert_eq!(
            severity(head(open, &[Flag::Limit]), [insert, delete]),
            Some(Severity::Low)
        );
    }

    #[test]
    fn whole_lists_and_single_rows_are_no_queue() {
        assert_eq!(
            severity(
                head("SELECT at FROM work.jobs WHERE lane = ?", &[]),
                writes("jobs", 600, 600)
            ),
            None
        );
        let row = "SELECT at FROM work.jobs WHERE lane = ? AND at = ? LIMIT 1";
        assert_eq!(
            severity(head(row, &[Flag::Limit]), writes("jobs", 600, 600)),
            None
        );
    }

    #[test]
    fn the_finding_says_where_it_knows_it_from() {
        let [insert, delete] = writes("jobs", 600, 600);
        let window = window([head(HEAD, &[Flag::Limit]), insert, delete]);
        let judgement = run_with(&QueuePattern, &window, &schema());
        let finding = &judgement.findings[0];
        let known_from = finding.evidence.iter().find(|(name, _)| *name == "known_from");
        let inferred = EvidenceValue::KnownFrom(vec![KnownFrom::Writes]);
        assert_eq!(known_from, Some(&("known_from", inferred)));
        assert_eq!(
            finding.title,
            "`work.jobs` is used as a queue: 600 rows appended, 600 deleted, 10 a minute, and each read from \
             its head scans their tombstones"
        );
    }
}
