//! Logged batches over several partitions.
//!
//! The atomic write of one fact to a few tables is what they are for, and only worth knowing. Over one
//! partition Cassandra leaves out the batch log by itself.

use super::{
    About, Findings, HIGH_PARTITIONS, MEDIUM_PARTITIONS, Severity, by_partitions, user_batches,
    with_partitions,
};
use crate::{
    Cause, Context, Finding, Quantity, Rule,
    figures::{often, partitions, tables},
    statement::{modifications, written},
};
use cqlens_cql::plan::Flag;
use cqlens_window::{Pattern, PatternId};

pub(crate) struct LoggedBatchMultiPartition;

impl Rule for LoggedBatchMultiPartition {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (id, pattern) in user_batches(context).filter(|(_, pattern)| pattern.is(Flag::LoggedBatch)) {
            let lowest = if pattern.is(Flag::SeveralTables) {
                Severity::Info
            } else {
                Severity::Low
            };
            if let Some(severity) = by_partitions(found, &ABOUT, pattern, context, lowest) {
                found.push(finding(severity, id, pattern, context));
            }
        }
    }
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, context: &Context<'_>) -> Finding {
    let title = format!(
        "Logged batches write {} of {}{}",
        partitions(pattern),
        tables(pattern),
        often(pattern.count, context.watch(pattern))
    );
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context).title(title);
    let finding = with_partitions(finding, pattern);
    let finding = match severity {
        Severity::Info => finding.advice(
            "This is the right way to keep a few tables with the same data consistent. All data is written \
             twice, so keep batches to tables that hold the same data.",
        ),
        _ => finding,
    };
    let statement = context.statement(id);
    let writes = statement.map_or_else(Vec::new, |statement| modifications(&statement));
    let keyspace = pattern.head.keyspace.as_deref();
    let tables: Vec<_> = writes
        .iter()
        .filter_map(|write| written(write, keyspace))
        .collect();
    finding.or_in_a_transaction(tables.iter(), IN_A_TRANSACTION, context)
}

const IN_A_TRANSACTION: &str = "\
    A batch is applied in the end, and readers may see a part of it before. A transaction is seen as a whole: use one where \
    that matters, for a few partitions.";

const ABOUT: About = About {
    id: "logged-batch-multi-partition",
    group: "writes",
    summary: "A logged batch writes several partitions.",
    why: "Before it writes anything, the coordinator stores the whole batch on two other nodes and waits for \
        them; then it sends each partition's writes to its replicas, waits for all of them, and deletes the \
        stored batch. Everything is written twice, one slow replica delays the batch, and the deleted \
        batches are tombstones. In return all statements are applied eventually; it is not faster.",
    fix: "Batch only rows that must stay consistent: copies of the same data in the tables that serve its \
        queries. Send everything else as separate statements in parallel; the driver routes each to its \
        replicas.",
    fix_in_short: "Single async writes",
    before: "BEGIN BATCH\n  INSERT INTO shop.orders (id, amount) VALUES (?, ?);\n  INSERT INTO shop.orders (id, amount) VALUES (?, ?);\n  \
             INSERT INTO shop.orders (id, amount) VALUES (?, ?);\nAPPLY BATCH;",
    after: "-- separate statements, several at a time\nINSERT INTO shop.orders (id, amount) VALUES (?, ?);",
    severity: "\
        By the partitions per batch at p99: nothing for one; from two on low, or info if they are in several \
        tables; medium from `medium_partitions`, high from `high_partitions`.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[MEDIUM_PARTITIONS, HIGH_PARTITIONS],
    needs: "Bound values and the tables' schemas, to count distinct partitions.",
    source: "\
        Cassandra classes `BatchlogManager` and `StorageProxy.mutateAtomically`; Cassandra documentation, \
        BATCH; Data Modeling in Cassandra: batches for atomic denormalised writes",
    cause: Some(Cause::BATCHES),
    quantity: Some(Quantity::PARTITIONS_PER_BATCH.limited(&[
        (Severity::High, HIGH_PARTITIONS),
        (Severity::Medium, MEDIUM_PARTITIONS),
    ])),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, batch, run, window};
    use cqlens_cql::plan::StatementKind;

    fn logged(flags: &[Flag], partitions: u64, times: u64) -> Pattern {
        let mut all = vec![Flag::LoggedBatch];
        all.extend(flags);
        batch(&all, partitions, times)
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&LoggedBatchMultiPartition, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn a_few_partitions_of_several_tables_are_only_worth_knowing() {
        assert_eq!(
            severity(logged(&[Flag::SeveralTables], 2, 1_000_000)),
            Some(Severity::Info)
        );
        assert_eq!(
            severity(logged(&[Flag::SeveralTables], 9, 1_000_000)),
            Some(Severity::Info)
        );
    }

    #[test]
    fn severity_rises_with_the_number_of_partitions() {
        assert_eq!(severity(logged(&[], 2, 60)), Some(Severity::Low));
        assert_eq!(severity(logged(&[], 10, 60)), Some(Severity::Medium));
        assert_eq!(
            severity(logged(&[Flag::SeveralTables], 10, 60)),
            Some(Severity::Medium)
        );
        assert_eq!(severity(logged(&[], 50, 60)), Some(Severity::High));
        let mut month = window([logged(&[], 50, 60)]);
        month.observed_seconds = 86_400.0 * 30.0;
        let judgement = run(&LoggedBatchMultiPartition, &month);
        assert_eq!(judgement.findings[0].severity, Severity::Low);
    }

    #[test]
    fn one_partition_is_fine_and_other_batches_are_not_its_business() {
        assert_eq!(severity(logged(&[], 1, 1_000_000)), None);
        assert_eq!(severity(batch(&[Flag::UnloggedBatch], 50, 60)), None);
        let mut single = logged(&[], 50, 60);
        single.head.kind = StatementKind::Insert;
        assert_eq!(severity(single), None);
    }

    #[test]
    fn the_title_says_how_many_partitions_of_which_tables() {
        let judgement = run(
            &LoggedBatchMultiPartition,
            &window([logged(&[Flag::SeveralTables], 3, 60)]),
        );
        assert_eq!(
            judgement.findings[0].title,
            "Logged batches write 3 partitions (p99) of `shop.orders` and other tables, 1 a minute"
        );
    }
}
