//! Tables from which rows or parts of them are deleted all the time, while they are read.

use std::collections::BTreeMap;

use cqlens_cql::syntax::ast::{Body, Delete, Modification, RelationOperator, Subject};

use super::{by_hour, reports};
use crate::{
    About, Cause, Context, EvidenceValue, Finding, Findings, KnownFrom, Quantity, Rule, Severity, Threshold,
    application::Patterns,
    figures::{is_steady, often, share},
    read::suggest::{Obstacle, against_hours},
    severity::Impact,
    statement::{TableWrite, patterns, restricted},
};
use cqlens_cql::schema::{Schema, TableName};
use cqlens_window::{Pattern, PatternId, TableTraffic, number};

pub(crate) struct DeleteHeavy;

impl Rule for DeleteHeavy {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let schema = context.schema;
        for (name, writes) in by_table(context, schema) {
            let traffic = context.window.tables.get(&name).cloned().unwrap_or_default();
            let reads = passing_reads(&name, context);
            if let Some(severity) = severity(found, &writes, (&traffic, &reads), (&name, context)) {
                found.push(finding(severity, &name, writes, (&traffic, &reads), context));
            }
        }
    }
}

/// What is written to a table. Statements inside of batches count once for each batch and template, however
/// many of them it holds: a template is all that a pattern keeps of them.
#[derive(Default)]
struct TableWrites<'a> {
    /// The patterns that delete.
    deleting: Vec<(PatternId, &'a Pattern)>,
    /// Deletions inside of partitions.
    inside: u64,
    /// Deletions of whole partitions, which only those pass who read the partition that is gone.
    whole: u64,
    others: u64,
}

impl TableWrites<'_> {
    fn share(&self) -> f64 {
        share(self.inside, self.inside + self.whole + self.others)
    }
}

fn by_table<'a>(context: &Context<'a>, schema: &Schema) -> BTreeMap<TableName, TableWrites<'a>> {
    let writes = context.writes().iter().map(|(name, all)| {
        let mut writes = TableWrites::default();
        let is_inside = |write: &&TableWrite<'_>| match &write.modification {
            Modification::Delete(delete) => is_inside(delete, name, schema),
            _ => false,
        };
        writes.deleting = patterns(all.iter().filter(is_inside));
        for write in all {
            let times = match (write.is_delete(), is_inside(&write)) {
                (false, _) => &mut writes.others,
                (true, false) => &mut writes.whole,
                (true, true) => &mut writes.inside,
            };
            *times += write.pattern.count;
        }
        (name.clone(), writes)
    });
    writes.collect()
}

/// Whether something stays of the partition: columns are named, or other than partition key columns are
/// restricted. Without a schema more than one relation is taken for that.
fn is_inside(delete: &Delete<'_>, name: &TableName, schema: &Schema) -> bool {
    let relations = &delete.where_clause.relations;
    let Some(table) = schema.table(&name.keyspace, &name.table) else {
        return !delete.deletions.is_empty() || relations.len() > 1;
    };
    // A row of a table without clustering columns is a partition.
    if table.clustering().is_empty() && delete.deletions.is_empty() {
        return false;
    }
    let of_key = |subject: &Subject<'_>| match subject {
        Subject::Column(column) => table
            .partition_key()
            .iter()
            .any(|key| key.name == column.as_str()),
        _ => false,
    };
    !delete.deletions.is_empty() || !relations.iter().all(|relation| of_key(&relation.subject))
}

fn severity(
    found: &Findings<'_>,
    writes: &TableWrites<'_>,
    (traffic, reads): (&TableTraffic, &Patterns<'_>),
    (name, context): (&TableName, &Context<'_>),
) -> Option<Severity> {
    let watch = context.watch_table(name);
    let enough = writes.share() >= found.threshold(&ABOUT, &SOME_SHARE);
    if !enough || !is_steady(found, writes.inside, watch) {
        return None;
    }
    let table = context.schema.table(&name.keyspace, &name.table);
    if table.and_then(|table| against_hours(table, context)) == Some(Obstacle::FewRows) {
        return Some(Severity::Info);
    }
    let many = writes.share() >= found.threshold(&ABOUT, &MANY_SHARE);
    let each = if !is_steady(found, times(reads), watch) {
        return Some(Severity::Info);
    } else if many {
        Severity::Medium
    } else {
        Severity::Low
    };
    let reported = traffic.tombstones.reported() > 0;
    let each = if reported { each.raised() } else { each };
    let statements = reads.iter().chain(&writes.deleting);
    let impact = statements.fold(Impact::each(each), |impact, (_, pattern)| impact.of(pattern));
    Some(context.severity(found, &impact.grows(reported)))
}

/// Reads of the table that may pass several tombstones: those of single rows, by their whole primary key, pass
/// at most one. Without a schema all of them may.
fn passing_reads<'a>(name: &TableName, context: &Context<'a>) -> Patterns<'a> {
    let table = context.schema.table(&name.keyspace, &name.table);
    let is_of_one_row = |id: PatternId| {
        let (Some(table), Some(statement)) = (table, context.statement(id)) else {
            return false;
        };
        let Body::Select(select) = &statement.body else {
            return false;
        };
        let restricted = restricted(select);
        let equal = |column: &str| {
            select.where_clause.relations.iter().any(|relation| {
                relation.operator == RelationOperator::Equal
                    && matches!(&relation.subject, Subject::Column(name) if name.as_str() == column)
            })
        };
        let mut key = table.columns.iter().filter(|column| column.is_primary_key());
        key.all(|column| restricted.contains(&column.name) && equal(&column.name))
    };
    context
        .reads_of(name)
        .filter(|(id, _)| !is_of_one_row(*id))
        .collect()
}

fn times(patterns: &Patterns<'_>) -> u64 {
    patterns.iter().map(|(_, pattern)| pattern.count).sum()
}

fn finding(
    severity: Severity,
    name: &TableName,
    writes: TableWrites<'_>,
    (traffic, passing): (&TableTraffic, &Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let share = writes.share();
    let reads = match (traffic.reads, times(passing)) {
        (0, _) => "; no read of the table was seen".to_owned(),
        (_, 0) => "; all reads are of single rows and scan at most one tombstone".to_owned(),
        (_, reads) => format!(
            "; {} may have to scan their tombstones",
            number::plural(reads, "read", "reads")
        ),
    };
    let title = format!(
        "{} of the writes to `{name}` delete{}{reads}",
        number::percent(share),
        often(writes.inside, context.watch_table(name))
    );
    let observed = traffic.tombstones.reported();
    let known_from = [KnownFrom::Writes]
        .into_iter()
        .chain(reports(&traffic.tombstones));
    // A batch may delete from several tables, this is of one.
    let finding = Finding::on_all(&ABOUT, severity, writes.deleting, context)
        .of_table(name)
        .title(title)
        .first("known_from", EvidenceValue::KnownFrom(known_from.collect()))
        .first("reads_with_tombstones_reported", observed)
        .first("reads_of_the_table", traffic.reads)
        .first("whole_partitions_deleted", writes.whole)
        .first("deletes", writes.inside)
        .first("deletes_of_writes_share", share);
    by_hour(finding, name, context)
}

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "of the table's writes",
    default: 0.1,
    origin: "cqlens default: from a tenth on, deleting is part of the table's purpose",
};

const MANY_SHARE: Threshold = Threshold {
    name: "many_share",
    unit: "of the table's writes",
    default: 0.3,
    origin: "cqlens default: every second or third row that is written is deleted again",
};

const ABOUT: About = About {
    id: "delete-heavy",
    group: "tombstones",
    summary: "A large part of a table's writes delete rows or columns within partitions that remain in use.",
    why: "A delete writes a tombstone, and the tombstone stays for at least `gc_grace_seconds` (ten days by \
        default) so that a replica that missed the delete cannot bring the row back. Every read of that part \
        of the partition loads it, holds it in memory and skips it; after enough deletes, a read of ten rows \
        scans thousands of tombstones, and at 100,000 it is aborted.",
    fix: "Delete whole partitions: put data that is deleted together (a day, a job's batch) into one \
        partition. Or let rows expire by a table-wide TTL with TimeWindowCompactionStrategy, which drops \
        whole SSTables. Or write a state instead of deleting, and start reading after the last row that was \
        processed.",
    fix_in_short: "Delete whole partitions",
    before: "CREATE TABLE work.jobs (lane text, at timeuuid, what text, PRIMARY KEY ((lane), at));\n\
             DELETE FROM work.jobs WHERE lane = ? AND at = ?;",
    after: "CREATE TABLE work.jobs_by_hour (lane text, hour timestamp, at timeuuid, what text,\n  PRIMARY KEY ((lane, hour), at));\n\
            DELETE FROM work.jobs_by_hour WHERE lane = ? AND hour = ?;",
    severity: "\
        From `some_share` of the table's writes, if deletes come steadily: info if all steady reads are of \
        single rows by their whole key, else low, medium from `many_share`; one step up if the server \
        reported tombstones. Nothing for deletes of whole partitions.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[SOME_SHARE, MANY_SHARE],
    needs: "Writes and reads of the same window; the table's schema, to distinguish partitions from rows. \
        Inferred from writes: only the server knows whether reads scan the tombstones.",
    source: "\
        cassandra.yaml `tombstone_warn_threshold` and `tombstone_failure_threshold`; Cassandra documentation, \
        tombstones; Cassandra: The Definitive Guide, the queue anti-pattern",
    cause: Some(Cause::DELETES),
    quantity: Some(Quantity::TOMBSTONES_PER_READ),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run_with, write};
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind};

    const DELETE: &str = "DELETE FROM work.jobs WHERE lane = ? AND at = ?";

    fn insert(times: u64) -> Pattern {
        write(
            "INSERT INTO work.jobs (lane, at) VALUES (?, ?)",
            StatementKind::Insert,
            &[],
            times,
        )
    }

    fn delete(cql: &str, times: u64) -> Pattern {
        write(cql, StatementKind::Delete, &[], times)
    }

    fn schema() -> Schema {
        Schema::from_cql(
            "CREATE KEYSPACE work WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE work.jobs (lane text, at int, what text, PRIMARY KEY ((lane), at));",
        )
        .unwrap()
    }

    fn judged(patterns: impl IntoIterator<Item = Pattern>, reads: u64, reported: u64) -> Vec<Finding> {
        let list = "SELECT what FROM work.jobs WHERE lane = ?";
        let list = read(list, &[], PartitionClass::Single, reads);
        let mut window = amid(patterns.into_iter().chain((reads > 0).then_some(list)));
        let name = TableName {
            keyspace: "work".to_owned(),
            table: "jobs".to_owned(),
        };
        window.count_table(&name, |table| {
            table.reads = reads;
            table.tombstones.warned = reported;
        });
        run_with(&DeleteHeavy, &window, &schema()).findings
    }

    fn severity(patterns: impl IntoIterator<Item = Pattern>, reads: u64, reported: u64) -> Option<Severity> {
        judged(patterns, reads, reported)
            .first()
            .map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_share_the_reads_and_what_the_server_reports() {
        assert_eq!(severity([insert(900), delete(DELETE, 60)], 600, 0), None);
        assert_eq!(
            severity([insert(540), delete(DELETE, 60)], 600, 0),
            Some(Severity::Low)
        );
        assert_eq!(
            severity([insert(140), delete(DELETE, 60)], 600, 0),
            Some(Severity::Medium)
        );
        assert_eq!(
            severity([insert(140), delete(DELETE, 60)], 600, 3),
            Some(Severity::High)
        );
        assert_eq!(
            severity([insert(140), delete(DELETE, 60)], 0, 0),
            Some(Severity::Info)
        );
        assert_eq!(severity([insert(1), delete(DELETE, 9)], 600, 0), None);
    }

    #[test]
    fn whole_partitions_may_go() {
        let whole = "DELETE FROM work.jobs WHERE lane = ?";
        assert_eq!(severity([insert(60), delete(whole, 600)], 600, 0), None);
        let column = "DELETE what FROM work.jobs WHERE lane = ? AND at = ?";
        assert_eq!(
            severity([insert(60), delete(column, 600)], 600, 0),
            Some(Severity::Medium)
        );
    }

    #[test]
    fn deletes_in_batches_count() {
        let cql = "BEGIN BATCH INSERT INTO work.jobs (lane, at) VALUES (?, ?); \
                   DELETE FROM work.jobs WHERE lane = ? AND at = ?; APPLY BATCH";
        let mut pattern = write(cql, StatementKind::Batch, &[], 60);
        pattern.head.keyspace = Some("work".to_owned());
        let findings = judged([pattern], 600, 0);
        assert_eq!(findings[0].severity, Severity::Medium);
        assert_eq!(findings[0].table.as_deref(), Some("jobs"));
    }

    #[test]
    fn reads_of_single_rows_pass_one_tombstone_at_most() {
        let row = "SELECT what FROM work.jobs WHERE lane = ? AND at = ?";
        let window = amid([
            insert(600),
            delete(DELETE, 600),
            read(row, &[], PartitionClass::Single, 1_599),
        ]);
        let findings = run_with(&DeleteHeavy, &window, &schema()).findings;
        assert_eq!(findings[0].severity, Severity::Info);
    }

    #[test]
    fn the_title_names_the_share_and_the_reads() {
        let findings = judged([insert(60), delete(DELETE, 60)], 600, 0);
        assert_eq!(
            findings[0].title,
            "50 % of the writes to `work.jobs` delete, 1 a second; 600 reads may have to scan their \
                tombstones"
        );
    }
}
