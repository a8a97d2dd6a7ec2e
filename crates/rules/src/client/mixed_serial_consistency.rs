//! Conditional writes to one table whose consensus is now local, now global, and reads that take part in it.

use std::collections::BTreeMap;

use super::{About, Findings, Patterns, Severity, application, at_level, replicas, user_statements};
use crate::{Context, Finding, Rule, example::level, figures::table, severity::Impact};
use cqlens_window::{Pattern, number};

pub(crate) struct MixedSerialConsistency;

impl Rule for MixedSerialConsistency {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let mut tables: BTreeMap<String, Patterns<'_>> = BTreeMap::new();
        for (id, pattern) in user_statements(context) {
            let several = replicas(pattern, context.schema).is_some_and(|replicas| replicas.len() > 1);
            let takes_part = LEVELS
                .iter()
                .any(|level| written(pattern, level) + read(pattern, level) > 0);
            if several && takes_part {
                tables.entry(table(pattern)).or_default().push((id, pattern));
            }
        }
        for (table, patterns) in tables {
            if let Some(mixed) = Mixed::of(&patterns) {
                found.push(finding(found, (&table, &mixed), patterns, context));
            }
        }
    }
}

const LEVELS: [&str; 2] = ["SERIAL", "LOCAL_SERIAL"];

/// Conditional writes whose consensus is at this level.
fn written(pattern: &Pattern, level: &str) -> u64 {
    pattern.serial_consistency.get(level).copied().unwrap_or_default()
}

/// Reads that take part in the consensus at this level.
fn read(pattern: &Pattern, level: &str) -> u64 {
    match pattern.head.kind.is_read() {
        true => at_level(pattern, level),
        false => 0,
    }
}

/// Executions on one table, at SERIAL and at LOCAL_SERIAL.
struct Mixed {
    written: [u64; 2],
    read: [u64; 2],
}

impl Mixed {
    /// Nothing where all are at one level, or nothing is written under a condition.
    fn of(patterns: &Patterns<'_>) -> Option<Self> {
        let sums = |of: fn(&Pattern, &str) -> u64| {
            LEVELS.map(|level| application::sum(patterns, |pattern| of(pattern, level)))
        };
        let mixed = Self {
            written: sums(written),
            read: sums(read),
        };
        let is_mixed = mixed.both().iter().all(|times| *times > 0);
        (is_mixed && mixed.written.iter().any(|times| *times > 0)).then_some(mixed)
    }

    fn both(&self) -> [u64; 2] {
        let ([global, local], [read_global, read_local]) = (self.written, self.read);
        [global + read_global, local + read_local]
    }

    /// Whether two writes can both be decided, not only a read miss one.
    fn is_written_at_both(&self) -> bool {
        self.written.iter().all(|times| *times > 0)
    }

    /// Those at the rarer level do not exclude the others, nor are they excluded: that is what a failure is here,
    /// whatever it costs.
    fn impact(&self) -> Impact<'_> {
        let times = if self.is_written_at_both() {
            self.written
        } else {
            self.both()
        };
        Impact::each(Severity::Info).failed(times[0].min(times[1]), times[0] + times[1])
    }
}

fn finding(
    found: &Findings<'_>,
    (table, mixed): (&str, &Mixed),
    patterns: Patterns<'_>,
    context: &Context<'_>,
) -> Finding {
    let severity = context.severity(found, &mixed.impact());
    let times = |times| number::plural(times, "time", "times");
    let (severity, title) = if mixed.is_written_at_both() {
        let title = format!(
            "Conditional writes to {table} reach consensus at SERIAL {} and at LOCAL_SERIAL {}: they do not exclude each other",
            times(mixed.written[0]),
            times(mixed.written[1]),
        );
        (severity, title)
    } else {
        let (write, read) = match mixed.written[0] {
            0 => (1, 0),
            _ => (0, 1),
        };
        let title = format!(
            "Conditional writes to {table} reach consensus at {}, while {} use {}: they may miss \
                committed writes",
            LEVELS[write],
            number::plural(mixed.read[read], "read", "reads"),
            LEVELS[read],
        );
        (severity.lowered(), title)
    };
    Finding::on_all(&ABOUT, severity, patterns, context)
        .title(title)
        .first("local_serial_reads", mixed.read[1])
        .first("serial_reads", mixed.read[0])
        .first("local_serial", mixed.written[1])
        .first("serial", mixed.written[0])
}

const ABOUT: About = About {
    id: "mixed-serial-consistency",
    group: "client habits",
    summary: "Conditional writes to one table, or reads that must see them, use both SERIAL and LOCAL_SERIAL.",
    why: "\
        A condition is safe because its Paxos round involves a majority of replicas: of all datacenters at \
        SERIAL, of one at LOCAL_SERIAL. The two majorities need not overlap, so two rounds can both succeed: \
        a name is claimed twice, without an error. A read at one of the levels may miss what was decided at \
        the other.",
    fix: "Use one serial consistency level per table, in every application: LOCAL_SERIAL if only one \
        datacenter writes the rows, else SERIAL. It is a driver setting of its own, independent of the \
        consistency level.",
    fix_in_short: "One serial level",
    before: "-- serial consistency SERIAL here, LOCAL_SERIAL in another service\nINSERT INTO shop.names (name, owner) VALUES (?, ?) IF NOT EXISTS;",
    after: "-- serial consistency SERIAL in both\nINSERT INTO shop.names (name, owner) VALUES (?, ?) IF NOT EXISTS;",
    severity: "\
        By the share of executions at the rarer level, as for failures: these executions lose the guarantee \
        of their condition, and a statement or two from a shell matter little. One step less if only reads \
        differ from the writes. Nothing if the keyspace has one datacenter.",
    severities: &[Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[],
    needs: "Requests, and the keyspaces' replication.",
    source: "Cassandra documentation, lightweight transactions: SERIAL and LOCAL_SERIAL; Cassandra class `Paxos`",
    cause: None,
    quantity: None,
    rewrite: Some(|patterns, _| level::same_for_all(patterns)),
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{read, run_with, window, write};
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind, schema::Schema};

    fn claim(level: &str, times: u64) -> Pattern {
        let cql = "INSERT INTO shop.names (name) VALUES (?) IF NOT EXISTS";
        let mut pattern = write(cql, StatementKind::Insert, &[], times);
        pattern.count_serial_consistency(level, times);
        pattern
    }

    fn judged(patterns: impl IntoIterator<Item = Pattern>, replication: &str) -> Vec<Finding> {
        let schema = format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', {replication}}};"
        );
        let schema = Schema::from_cql(&schema).unwrap();
        run_with(&MixedSerialConsistency, &window(patterns), &schema).findings
    }

    fn claims(levels: &[(&str, u64)], replication: &str) -> Vec<Finding> {
        judged(
            levels.iter().map(|(level, times)| claim(level, *times)),
            replication,
        )
    }

    fn found(levels: &[&str], replication: &str) -> Vec<Finding> {
        let levels: Vec<_> = levels.iter().map(|level| (*level, 60)).collect();
        claims(&levels, replication)
    }

    #[test]
    fn both_levels_on_one_table_are_high() {
        let findings = found(&["SERIAL", "LOCAL_SERIAL"], "'dc1': 3, 'dc2': 3");
        assert_eq!(findings[0].severity, Severity::High);
        assert_eq!(
            findings[0].title,
            "Conditional writes to `shop.names` reach consensus at SERIAL 60 times and at LOCAL_SERIAL 60 times: they do not exclude each other"
        );
    }

    #[test]
    fn a_statement_from_a_shell_is_no_reason_for_alarm() {
        let severity = |global, local| {
            let findings = claims(
                &[("SERIAL", global), ("LOCAL_SERIAL", local)],
                "'dc1': 3, 'dc2': 3",
            );
            findings[0].severity
        };
        assert_eq!(severity(1, 100_000), Severity::Info);
        assert_eq!(severity(99, 9_901), Severity::Medium);
        assert_eq!(severity(100, 9_900), Severity::High);
    }

    #[test]
    fn a_read_takes_part_in_the_consensus_at_its_own_level() {
        let of = |read_at: &str, serial: &str| {
            let mut select = read(
                "SELECT owner FROM shop.names WHERE name = ?",
                &[],
                PartitionClass::Single,
                60,
            );
            select.count_consistency(read_at, 60);
            judged([select, claim(serial, 60)], "'dc1': 3, 'dc2': 3")
        };
        let findings = of("SERIAL", "LOCAL_SERIAL");
        assert_eq!(findings[0].severity, Severity::Medium);
        assert_eq!(
            findings[0].title,
            "Conditional writes to `shop.names` reach consensus at LOCAL_SERIAL, while 60 reads use SERIAL: \
             they may miss committed writes"
        );
        assert_eq!(of("LOCAL_SERIAL", "SERIAL").len(), 1);
        assert_eq!(of("SERIAL", "SERIAL"), []);
        assert_eq!(of("LOCAL_QUORUM", "LOCAL_SERIAL"), []);
    }

    #[test]
    fn one_level_and_one_datacenter_are_fine() {
        assert_eq!(found(&["SERIAL", "SERIAL"], "'dc1': 3, 'dc2': 3"), []);
        assert_eq!(found(&["SERIAL", "LOCAL_SERIAL"], "'dc1': 3"), []);
    }
}
