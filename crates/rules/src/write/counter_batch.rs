//! Batches of counter updates.

use super::{
    About, Findings, HIGH_PARTITIONS, MEDIUM_PARTITIONS, Severity, by_partitions, user_batches,
    with_partitions,
};
use crate::{
    Context, Finding, Rule,
    figures::{is_steady, often, partitions, share, tables},
    severity::Impact,
};
use cqlens_cql::plan::Flag;
use cqlens_window::{Pattern, PatternId, RetryCause, number};

pub(crate) struct CounterBatch;

impl Rule for CounterBatch {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (id, pattern) in user_batches(context).filter(|(_, pattern)| pattern.is(Flag::Counter)) {
            let severity = by_partitions(found, &ABOUT, pattern, context, Severity::Low);
            let severity = severity.or_else(|| one_partition(found, pattern, context));
            if let Some(severity) = severity {
                found.push(finding(severity, id, pattern, context));
            }
        }
    }
}

/// Counters of one partition cost what they cost anywhere, but a batch that timed out may have counted.
fn one_partition(found: &Findings<'_>, pattern: &Pattern, context: &Context<'_>) -> Option<Severity> {
    let twice = counted_twice(pattern);
    if twice > 0 {
        let impact = Impact::each(Severity::Low)
            .of(pattern)
            .failed(twice, pattern.count);
        return Some(context.severity(found, &impact));
    }
    is_steady(found, pattern.count, context.watch(pattern)).then_some(Severity::Info)
}

/// Those that were sent again although the first one may have been applied.
fn counted_twice(pattern: &Pattern) -> u64 {
    let causes = [
        RetryCause::WriteTimeout,
        RetryCause::ServerError,
        RetryCause::ConnectionLost,
    ];
    causes
        .iter()
        .filter_map(|cause| pattern.repeats.retries.get(cause))
        .sum()
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, context: &Context<'_>) -> Finding {
    let mut title = format!(
        "Batches update counters in {} of {}{}",
        partitions(pattern),
        tables(pattern),
        often(pattern.count, context.watch(pattern))
    );
    let retried = counted_twice(pattern);
    if retried > 0 {
        let times = number::plural(retried, "time", "times");
        title += &format!("; sent again {times}, which may have counted twice");
    }
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .first("retried_share", share(retried, pattern.count))
        .first("retried", retried);
    with_partitions(finding, pattern)
}

const ABOUT: About = About {
    id: "counter-batch",
    group: "writes",
    summary: "A batch updates counters.",
    why: "\
        A counter update is not a plain write: one replica takes a lock, reads the counter's current value, \
        writes the new one and sends it to the others. For a batch, the coordinator does that for every \
        partition at once and responds when the slowest is done. Counters add: a batch that timed out may \
        have been counted in part, and a client that sends it again counts that part twice.",
    fix: "\
        Send counter updates separately, or add up in the application and write one update per partition and \
        second. Do not let the driver retry them. If the number must be exact, write events under their own \
        ids and count those.",
    fix_in_short: "Single counter updates",
    before: "BEGIN COUNTER BATCH\n  UPDATE shop.clicks SET n = n + 1 WHERE page = ?;\n  UPDATE shop.clicks SET n = n + 1 WHERE page = ?;\n\
             APPLY BATCH;",
    after: "UPDATE shop.clicks SET n = n + 12 WHERE page = ?;",
    severity: "\
        Over several partitions, by their number at p99: low from two on, medium from `medium_partitions`, \
        high from `high_partitions`. Over one partition: if batches were sent again after a failure, by \
        their share, as for failures; else info, if they come steadily.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[MEDIUM_PARTITIONS, HIGH_PARTITIONS],
    needs: "The tables' schemas, to know counters; bound values, to count distinct partitions.",
    source: "Cassandra class `CounterMutation`; CASSANDRA-6504, counters; Cassandra documentation, BATCH: COUNTER",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, batch, run, window};

    fn counters(partitions: u64, times: u64) -> Pattern {
        batch(&[Flag::Counter], partitions, times)
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&CounterBatch, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_rises_with_the_number_of_partitions() {
        assert_eq!(severity(counters(2, 60)), Some(Severity::Low));
        assert_eq!(severity(counters(10, 60)), Some(Severity::Medium));
        assert_eq!(severity(counters(50, 60)), Some(Severity::High));
    }

    #[test]
    fn in_one_partition_they_are_worth_knowing_until_they_are_sent_again() {
        assert_eq!(severity(counters(1, 60)), Some(Severity::Info));
        assert_eq!(severity(counters(1, 9)), None);
        let mut again = counters(1, 100);
        again.repeats.retries.insert(RetryCause::WriteTimeout, 3);
        let judgement = run(&CounterBatch, &window([again]));
        assert_eq!(judgement.findings[0].severity, Severity::Medium);
        assert!(
            judgement.findings[0]
                .title
                .ends_with("sent again 3 times, which may have counted twice")
        );
    }

    #[test]
    fn batches_without_counters_are_not_its_business() {
        assert_eq!(severity(batch(&[Flag::UnloggedBatch], 50, 60)), None);
    }
}
