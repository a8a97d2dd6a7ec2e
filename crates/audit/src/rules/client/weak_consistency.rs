//! Tables that are read and written at levels which do not overlap: R + W ≤ N.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{About, Findings, Patterns, Severity, application, by_application, replicas, user_statements};
use crate::{
    number,
    rules::{Context, Finding, Rule, figures::table},
    window::{Pattern, PatternId},
};

pub(in crate::rules) struct WeakConsistency;

impl Rule for WeakConsistency {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let statements = user_statements(context).filter(|(_, pattern)| pattern.is_confirmed());
        for (application, patterns) in by_application(statements) {
            let mut tables: BTreeMap<String, Patterns<'_>> = BTreeMap::new();
            for (id, pattern) in patterns {
                tables.entry(table(pattern)).or_default().push((id, pattern));
            }
            let mut weak: Vec<_> = tables
                .into_values()
                .filter_map(|patterns| Some((Overlap::of(&patterns, context)?, patterns)))
                .filter(|(overlap, _)| overlap.is_weak())
                .collect();
            // What pays for a quorum on one side says most.
            weak.sort_by_key(|(overlap, _)| Reverse(overlap.is_half()));
            if let Some((overlap, _)) = weak.first() {
                let overlap = overlap.clone();
                let patterns = weak.into_iter().flat_map(|(_, patterns)| patterns).collect();
                found.push(finding(&overlap, (&application, patterns), context));
            }
        }
    }
}

/// The replicas that the reads and the writes of a table wait for, of those that it has.
#[derive(Clone)]
struct Overlap {
    read: (String, u64),
    written: (String, u64),
    replicas: u64,
}

impl Overlap {
    /// By the levels that most reads and most writes have; nothing where it is read or written alone, or where the
    /// replicas are not known.
    fn of(patterns: &[(PatternId, &Pattern)], context: &Context<'_>) -> Option<Self> {
        let (_, first) = patterns.first()?;
        let replicas = replicas(first, context.schema)?;
        let level = |is: fn(&Pattern) -> bool| {
            let mut levels: BTreeMap<&str, u64> = BTreeMap::new();
            let of_side = patterns.iter().filter(|(_, pattern)| is(pattern));
            for (level, count) in of_side.flat_map(|(_, pattern)| &pattern.consistency) {
                *levels.entry(level).or_default() += count;
            }
            let (level, _) = levels
                .into_iter()
                .max_by_key(|&(level, count)| (count, Reverse(level)))?;
            Some((level.to_owned(), waited_for(level, &replicas)?))
        };
        Some(Self {
            read: level(|pattern| pattern.head.kind.is_read())?,
            written: level(|pattern| pattern.head.kind.is_write())?,
            replicas: replicas.iter().map(|(_, count)| *count).min()?,
        })
    }

    fn is_weak(&self) -> bool {
        self.replicas > 1 && self.read.1 + self.written.1 <= self.replicas
    }

    /// Whether one side waits for several replicas, and the other makes that worthless.
    fn is_half(&self) -> bool {
        self.read.1.max(self.written.1) > 1
    }
}

/// The replicas of one data centre that a level waits for. Levels that count all data centres together are left
/// out where there are several.
fn waited_for(level: &str, replicas: &[(&str, u64)]) -> Option<u64> {
    let least = replicas.iter().map(|(_, count)| *count).min()?;
    match level {
        "LOCAL_ONE" => Some(1),
        "LOCAL_QUORUM" | "EACH_QUORUM" => Some(least / 2 + 1),
        "ALL" => Some(least),
        _ if replicas.len() > 1 => None,
        "ANY" => Some(0),
        "ONE" => Some(1),
        "TWO" => Some(2),
        "THREE" => Some(3),
        "QUORUM" | "SERIAL" | "LOCAL_SERIAL" => Some(least / 2 + 1),
        _ => None,
    }
}

fn finding(
    overlap: &Overlap,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    // To read at ONE what is written at ONE is a decision; half of a quorum is a mistake.
    let severity = if overlap.is_half() {
        Severity::Low
    } else {
        Severity::Info
    };
    let title = format!(
        "{} may not read what it has written to {}: written at {}, read at {}, {}",
        application::subject(application),
        application::tables(&patterns),
        overlap.written.0,
        overlap.read.0,
        number::plural(overlap.replicas, "replica", "replicas")
    );
    application::finding(&ABOUT, severity, (application, patterns), context)
        .title(title)
        .first("replicas", overlap.replicas)
        .first("replicas_written", overlap.written.1)
        .first("replicas_read", overlap.read.1)
}

const ABOUT: About = About {
    id: "weak-consistency",
    group: "client habits",
    summary: "An application reads and writes a table at levels that do not overlap (R + W ≤ N).",
    why: "\
        A read is sure to see the last write only if the replicas that answered both have one in common: with three of them, \
        a quorum (two) on both sides, or all on one. At ONE and ONE the read may ask a replica that has not got the write yet; \
        a quorum on one side alone costs latency and promises nothing.",
    fix: "\
        LOCAL_QUORUM for both where a user must see what was just saved; ONE for both where a moment later will do, such as counts and \
        recommendations. Say which of the two each table needs.",
    before: "-- written at LOCAL_QUORUM, read at LOCAL_ONE, {'dc1': 3}\nSELECT amount FROM shop.accounts WHERE id = ?;",
    after: "-- written and read at LOCAL_QUORUM\nSELECT amount FROM shop.accounts WHERE id = ?;",
    severity: "Low where one side waits for more than one replica, else info. The tables of one application are one finding.",
    thresholds: &[],
    needs: "Requests, and the keyspaces' replication; the level that most reads and most writes of a table have.",
    source: "Cassandra documentation, Dynamo: tunable consistency, W + R > RF",
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rules::testing::{read, run_with, window, write};
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind, schema::Schema};

    fn found(read_at: &str, written_at: &str, replication: &str) -> Vec<(Severity, String)> {
        let schema = format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', {replication}}};"
        );
        let cql = "SELECT amount FROM shop.accounts WHERE id = ?";
        let mut select = read(cql, &[], PartitionClass::Single, 600);
        select.count_consistency(read_at, 600);
        let cql = "INSERT INTO shop.accounts (id, amount) VALUES (?, ?)";
        let mut insert = write(cql, StatementKind::Insert, &[], 60);
        insert.count_consistency(written_at, 60);
        let schema = Schema::from_cql(&schema).unwrap();
        let judgement = run_with(&WeakConsistency, &window([select, insert]), &schema);
        let findings = judgement.findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn a_quorum_on_one_side_is_low_and_ones_are_info() {
        assert_eq!(
            found("LOCAL_ONE", "LOCAL_QUORUM", "'dc1': 3"),
            [(
                Severity::Low,
                "A client may not read what it has written to `shop.accounts`: written at LOCAL_QUORUM, read at \
                 LOCAL_ONE, 3 replicas"
                    .to_owned()
            )]
        );
        assert_eq!(found("ONE", "ONE", "'dc1': 3")[0].0, Severity::Info);
        assert_eq!(
            found("LOCAL_ONE", "LOCAL_ONE", "'dc1': 3, 'dc2': 3")[0].0,
            Severity::Info
        );
    }

    #[test]
    fn quorums_all_and_one_replica_are_fine() {
        assert_eq!(found("LOCAL_QUORUM", "LOCAL_QUORUM", "'dc1': 3, 'dc2': 3"), []);
        assert_eq!(found("ONE", "ALL", "'dc1': 3"), []);
        assert_eq!(found("ONE", "ONE", "'dc1': 1"), []);
        assert_eq!(found("ONE", "QUORUM", "'dc1': 2"), []);
    }
}
