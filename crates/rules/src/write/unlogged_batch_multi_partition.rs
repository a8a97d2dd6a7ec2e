//! Unlogged batches over several partitions: batches for speed, which they do not give.

use super::{
    About, Findings, HIGH_PARTITIONS, MEDIUM_PARTITIONS, Severity, by_partitions, user_batches,
    with_partitions,
};
use crate::{
    Cause, Context, Finding, Quantity, Rule,
    example::batch,
    figures::{often, partitions, tables},
};
use cqlens_cql::plan::Flag;
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct UnloggedBatchMultiPartition;

impl Rule for UnloggedBatchMultiPartition {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // Counters cannot be in a logged batch: theirs are judged by themselves.
        let is_its = |pattern: &Pattern| pattern.is(Flag::UnloggedBatch) && !pattern.is(Flag::Counter);
        for (id, pattern) in user_batches(context).filter(|(_, pattern)| is_its(pattern)) {
            if let Some(severity) = by_partitions(found, &ABOUT, pattern, context, Severity::Low) {
                let few = pattern.partitions.quantile(0.99)
                    < number::rounded(found.threshold(&ABOUT, &MEDIUM_PARTITIONS));
                found.push(finding(severity, few, (id, pattern), context));
            }
        }
    }
}

/// `few`: a batch writes no more partitions than copies of a row have.
fn finding(
    severity: Severity,
    few: bool,
    (id, pattern): (PatternId, &Pattern),
    context: &Context<'_>,
) -> Finding {
    let title = format!(
        "Unlogged batches write {} of {}{}",
        partitions(pattern),
        tables(pattern),
        often(pattern.count, context.watch(pattern))
    );
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context).title(title);
    let finding = with_partitions(finding, pattern);
    // However much of the load it is: what to do depends on what is in the batch.
    if pattern.is(Flag::SeveralTables) && few {
        return finding.advice(
            "If the tables hold the same data, use a logged batch: an unlogged one may write some of them \
             and not the others. If not, send the statements separately.",
        );
    }
    finding
}

const ABOUT: About = About {
    id: "unlogged-batch-multi-partition",
    group: "writes",
    summary: "An unlogged batch writes several partitions.",
    why: "The coordinator splits the batch and sends each partition's writes to its replicas, as the driver \
        would have done, but alone and over an extra hop, and it responds when the slowest is done. While \
        separate statements spread over all nodes, a single node coordinates the whole batch. If it fails, \
        the client does not know which part was written and has to send all of it again.",
    fix: "Send the statements separately, prepared, several at a time; the driver sends each to a replica. \
        Batch only writes to one partition, which become a single mutation.",
    fix_in_short: "Single async writes",
    before: "BEGIN UNLOGGED BATCH\n  INSERT INTO shop.orders (id, amount) VALUES (?, ?);\n  INSERT INTO shop.orders (id, amount) VALUES (?, ?);\n\
             APPLY BATCH;",
    after: "-- separate statements, several at a time\nINSERT INTO shop.orders (id, amount) VALUES (?, ?);",
    severity: "By the partitions per batch at p99: nothing for one; low from two on, medium from \
        `medium_partitions`, high from `high_partitions`.",
    severities: &[Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[MEDIUM_PARTITIONS, HIGH_PARTITIONS],
    needs: "Bound values and the tables' schemas, to count distinct partitions.",
    source: "Cassandra's own warning `Unlogged batch covering … partitions detected` (CASSANDRA-9282, \
        CASSANDRA-11529); Data Modeling in Cassandra, the pathology lab: batches for speed",
    cause: Some(Cause::BATCHES),
    quantity: Some(Quantity::PARTITIONS_PER_BATCH.limited(&[
        (Severity::High, HIGH_PARTITIONS),
        (Severity::Medium, MEDIUM_PARTITIONS),
    ])),
    rewrite: Some(|patterns, _| batch::split(patterns)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, batch, run, window};
    use cqlens_cql::schema::Schema;
    use cqlens_window::Cluster;

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&UnloggedBatchMultiPartition, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_rises_with_the_number_of_partitions() {
        let of = |partitions| severity(batch(&[Flag::UnloggedBatch], partitions, 60));
        assert_eq!(of(2), Some(Severity::Low));
        assert_eq!(of(9), Some(Severity::Low));
        assert_eq!(of(10), Some(Severity::Medium));
        assert_eq!(of(50), Some(Severity::High));
    }

    #[test]
    fn one_partition_is_fine_and_so_are_logged_and_counter_batches_here() {
        assert_eq!(severity(batch(&[Flag::UnloggedBatch], 1, 1_000_000)), None);
        assert_eq!(severity(batch(&[Flag::LoggedBatch], 50, 60)), None);
        assert_eq!(
            severity(batch(&[Flag::UnloggedBatch, Flag::Counter], 50, 60)),
            None
        );
    }

    #[test]
    fn over_several_tables_it_may_have_been_meant_to_be_atomic() {
        let flags = [Flag::UnloggedBatch, Flag::SeveralTables];
        let judgement = run(&UnloggedBatchMultiPartition, &window([batch(&flags, 2, 60)]));
        let finding = &judgement.findings[0];
        assert!(finding.advice.contains("use a logged batch"));
        assert_eq!(
            finding.title,
            "Unlogged batches write 2 partitions (p99) of `shop.orders` and other tables, 1 a minute"
        );
    }

    #[test]
    fn the_advice_on_copies_does_not_depend_on_the_load() {
        let window = window([batch(&[Flag::UnloggedBatch, Flag::SeveralTables], 2, 60)]);
        let (schema, cluster) = (Schema::default(), Cluster::default());
        let context = Context::new(&window, &schema, &cluster);
        let (&id, pattern) = window.patterns.first_key_value().expect("one pattern");
        for severity in [Severity::Low, Severity::Medium] {
            let finding = |few| finding(severity, few, (id, pattern), &context);
            assert!(finding(true).advice.contains("use a logged batch"), "{severity}");
            assert!(
                !finding(false).advice.contains("use a logged batch"),
                "{severity}"
            );
        }
    }

    #[test]
    fn drivers_own_statements_are_not_judged() {
        let mut system = batch(&[Flag::UnloggedBatch], 50, 60);
        system.head.system = true;
        assert_eq!(severity(system), None);
    }
}
