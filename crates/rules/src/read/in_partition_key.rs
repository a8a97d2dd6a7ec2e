//! `IN` on the partition key: one statement, many partitions, one coordinator that waits for all of them.

use super::{
    About, Findings, LOW_PARTITIONS, MEDIUM_PARTITIONS, Severity, Threshold, at_p99, blind_on_unknown,
    by_partitions, how_many, how_often, table, user_reads, with_partitions,
};
use crate::{
    Cause, Context, Finding, Quantity, Rule, Wish, figures::user_writes, sequence::lists_of_right_joins,
};
use cqlens_cql::plan::{Flag, StatementKind};
use cqlens_window::Pattern;

pub(crate) struct InPartitionKey;

impl Rule for InPartitionKey {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let is_in =
            |pattern: &Pattern| pattern.is(Flag::InPartitionKey) && !pattern.is(Flag::InCartesianProduct);
        let right = lists_of_right_joins(context, found);
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| is_in(pattern)) {
            let Some(impact) = by_partitions(found, (&ABOUT, &HIGH_PARTITIONS), pattern) else {
                continue;
            };
            let is_right = right.contains(&id);
            let impact = match is_right {
                true => impact.at_most(Severity::Medium),
                false => impact,
            };
            let severity = context.severity(found, &impact);
            let title = format!(
                "Reads of {} fetch {} partitions at once{}{}",
                table(pattern),
                how_many(pattern, context),
                at_p99(pattern),
                how_often(pattern, context)
            );
            let finding = Finding::on(&ABOUT, severity, (id, pattern), context)
                .title(title)
                .weighing(impact)
                .wish(Wish::OfOneKey(id));
            let finding = match is_right {
                true => finding.advice(OF_A_RIGHT_JOIN),
                false => finding,
            };
            found.push(with_partitions(finding, pattern));
        }
        writes(context, found);
        blind_on_unknown(found, &ABOUT, context);
    }
}

/// UPDATEs and DELETEs: the coordinator makes one write for each key.
fn writes(context: &Context<'_>, found: &mut Findings<'_>) {
    let is_in =
        |pattern: &Pattern| pattern.is(Flag::InPartitionKey) && pattern.head.kind != StatementKind::Batch;
    for (id, pattern) in user_writes(context).filter(|(_, pattern)| is_in(pattern)) {
        let Some(impact) = by_partitions(found, (&ABOUT, &HIGH_PARTITIONS), pattern) else {
            continue;
        };
        let severity = context.severity(found, &impact);
        let title = format!(
            "Writes to {} change {} partitions at once{}{}",
            table(pattern),
            how_many(pattern, context),
            at_p99(pattern),
            how_often(pattern, context)
        );
        let finding = Finding::on(&ABOUT, severity, (id, pattern), context)
            .title(title)
            .advice(OF_WRITES)
            .fix_in_short("One write per key")
            .weighing(impact);
        found.push(with_partitions(finding, pattern));
    }
}

const OF_WRITES: &str = "\
    Send one prepared write per key, a few at a time: each goes straight to its replicas, and after a failure only \
    one of them is repeated. The coordinator turns the list into one write per key and waits for all of them; if \
    one times out, it is unknown which were applied, and counters must not be repeated.";

/// What `client-join` says of the operation must not be contradicted here.
const OF_A_RIGHT_JOIN: &str = "\
    The keys come from the rows of another read, and the joined rows change so often that copies would cost \
    more: keep the join. Replace the list by one prepared read per key, a few at a time: each goes straight \
    to its replica, and after a failure only one of them is repeated.";

const HIGH_PARTITIONS: Threshold = Threshold {
    name: "high_partitions",
    unit: "partitions at p99",
    default: 20.0,
    origin: "guardrail `partition_keys_in_select`: off by default in Apache Cassandra (4.1 and later), fails \
        above 20 in DataStax's GuardrailsConfig; Scylla refuses more than 100 \
        (`max_partition_key_restrictions_per_query`)",
};

const ABOUT: About = About {
    id: "in-partition-key",
    group: "read shape",
    summary: "A statement names several partitions with `IN` on the partition key.",
    why: "The coordinator turns the statement into one read per key, sends them to the replicas of every key \
        and holds all results until the slowest has arrived. So the latency is that of the slowest replica, \
        the coordinator carries the memory, a failure repeats everything, and a token-aware driver can route \
        to the replicas of one key at most.",
    fix: "If the keys belong together, make them one partition: group the rows under the key that the \
        application queries by. If they do not, send one prepared read per key, a few at a time: each goes \
        straight to its replica. If the IN only collects the buckets of one key, use fewer buckets.",
    fix_in_short: "One read per key",
    before: "SELECT * FROM shop.items WHERE item_id IN (?, ?, ?, ?);",
    after: "CREATE TABLE shop.items_by_cart (\n  cart_id uuid, item_id uuid, title text,\n  PRIMARY KEY ((cart_id), item_id));\n\
            SELECT * FROM shop.items_by_cart WHERE cart_id = ?;",
    severity: "By the distinct keys per statement at p99: info from two, low from `low_partitions`, medium from \
        `medium_partitions`, high from `high_partitions`; medium at most if `client-join` finds that the \
        list is a justified join. In a statement that was analysed but not executed, a list has as many keys as \
        markers; info for `IN ?`, whose number depends on bound values.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[LOW_PARTITIONS, MEDIUM_PARTITIONS, HIGH_PARTITIONS],
    needs: "The table's schema, and the bound values, to count the distinct keys of each execution.",
    source: "\
        Basic Rules of Cassandra Data Modeling, rule 2: minimize the number of partitions read; Cassandra \
        guardrail `partition_keys_in_select`",
    cause: Some(Cause::SEVERAL_PARTITIONS_A_READ),
    quantity: Some(Quantity::PARTITIONS_PER_READ.limited(&[
        (Severity::High, HIGH_PARTITIONS),
        (Severity::Medium, MEDIUM_PARTITIONS),
        (Severity::Low, LOW_PARTITIONS),
    ])),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        operations::{Taken, follow, taken},
        testing::{amid, read, run, run_with, window, with_partitions, write},
    };
    use cqlens_cql::{footprint::PartitionClass, schema::Schema};

    fn of(partitions: u64, times: u64) -> Pattern {
        let flags = [Flag::InPartitionKey, Flag::FullPartitionKey];
        let cql = "SELECT * FROM shop.items WHERE item_id IN ?";
        with_partitions(read(cql, &flags, PartitionClass::Multi, times), partitions)
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&InPartitionKey, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_number_of_keys() {
        assert_eq!(severity(of(1, 100)), None);
        assert_eq!(severity(of(2, 100)), Some(Severity::Info));
        assert_eq!(severity(of(5, 100)), Some(Severity::Low));
        assert_eq!(severity(of(9, 100)), Some(Severity::Low));
        assert_eq!(severity(of(10, 100)), Some(Severity::Medium));
        assert_eq!(severity(of(19, 100)), Some(Severity::Medium));
        assert_eq!(severity(of(20, 100)), Some(Severity::High));
    }

    #[test]
    fn a_list_that_a_join_calls_right_is_not_high() {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
             CREATE TABLE shop.carts (cart int, item_id int, PRIMARY KEY (cart, item_id));
             CREATE TABLE shop.items (item_id int PRIMARY KEY, price int);",
        )
        .unwrap();
        let judged = |updates: u64| {
            let carts = "SELECT item_id FROM shop.carts WHERE cart = ?";
            let update = "UPDATE shop.items SET price = ? WHERE item_id = ?";
            let mut window = amid([
                read(carts, &[], PartitionClass::Single, 100),
                of(20, 100),
                write(update, StatementKind::Update, &[], updates),
            ]);
            let lists = Taken {
                lists: 100,
                ..taken(20)
            };
            follow(&mut window, (1, 2), ("item_id", "item_id"), lists);
            let finding = run_with(&InPartitionKey, &window, &schema).findings.remove(0);
            (finding.severity, finding.advice.contains("keep the join"))
        };
        assert_eq!(judged(999), (Severity::High, false));
        assert_eq!(judged(1_000), (Severity::Medium, true));
    }

    #[test]
    fn the_finding_states_the_number_and_the_table() {
        let judgement = run(&InPartitionKey, &window([of(60, 7_200)]));
        let finding = &judgement.findings[0];
        assert_eq!(
            finding.title,
            "Reads of `shop.items` fetch 60 partitions at once (p99), 2 a second"
        );
        assert_eq!(finding.evidence[0], ("partitions_p50", 60.into()));
    }

    #[test]
    fn a_statement_that_was_only_read_has_no_rate_and_its_number_may_be_unknown() {
        let mut read_once = window([of(6, 1)]);
        read_once.observed_seconds = 0.0;
        let finding = &run(&InPartitionKey, &read_once).findings[0];
        assert_eq!(finding.title, "Reads of `shop.items` fetch 6 partitions at once");
        assert_eq!(finding.severity, Severity::Low);
        read_once
            .patterns
            .values_mut()
            .for_each(|pattern| pattern.partitions = Default::default());
        let finding = &run(&InPartitionKey, &read_once).findings[0];
        assert_eq!(
            finding.title,
            "Reads of `shop.items` fetch an unknown number of partitions at once"
        );
        assert_eq!(finding.severity, Severity::Info);
        assert!(
            finding
                .evidence
                .iter()
                .all(|(name, _)| !name.starts_with("partitions")),
            "{:?}",
            finding.evidence
        );
    }

    #[test]
    fn a_rare_read_costs_less() {
        let mut day = window([of(20, 23)]);
        day.observed_seconds = 86_400.0;
        assert_eq!(run(&InPartitionKey, &day).findings[0].severity, Severity::Low);
    }

    #[test]
    fn one_partition_that_holds_the_group_is_fine() {
        let cql = "SELECT * FROM shop.items_by_cart WHERE cart_id = ?";
        let repaired = read(cql, &[Flag::FullPartitionKey], PartitionClass::Single, 100);
        assert_eq!(severity(repaired), None);
    }

    #[test]
    fn in_on_a_clustering_column_and_cartesian_products_are_not_its_business() {
        let mut clustering = of(1, 100);
        clustering.flags = [Flag::InClustering, Flag::FullPartitionKey].into();
        assert_eq!(severity(clustering), None);
        let mut product = of(40, 100);
        product.flags.insert(Flag::InCartesianProduct);
        assert_eq!(severity(product), None);
    }

    #[test]
    fn keys_that_were_not_counted_are_reported() {
        let cql = "SELECT * FROM shop.items WHERE item_id IN ?";
        let unknown = read(cql, &[Flag::InPartitionKey], PartitionClass::Unknown, 3);
        let judgement = run(&InPartitionKey, &window([unknown]));
        assert_eq!(judgement.findings, []);
        assert_eq!(judgement.blind_spots.len(), 1);
    }
}
