//! Consistency levels that wait for other data centres.

use super::{About, Finding, Findings, Severity, at_level, executions, replicas, user_statements};
use crate::{
    number,
    rules::{
        Rule,
        figures::{OFTEN_PER_SECOND, STEADY_PER_HOUR, by_load, often, share, table},
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::schema::Schema;

pub(in crate::rules) struct CrossDcConsistency;

impl Rule for CrossDcConsistency {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, schema: &Schema, found: &mut Findings<'_>) {
        let mut unknown = 0;
        for (id, pattern) in user_statements(window).filter(|(_, pattern)| waiting(pattern) > 0) {
            match replicas(pattern, schema) {
                None => unknown += waiting(pattern),
                Some(replicas) if replicas.len() > 1 => {
                    let severity = by_load(found, &ABOUT, waiting(pattern), window);
                    found.push(finding(severity, (id, pattern), &replicas, window));
                }
                Some(_) => {}
            }
        }
        if unknown > 0 {
            let executions = number::plural(unknown, "execution", "executions");
            let text = format!(
                "of {executions} at QUORUM and the like it is not known how many data centres there are"
            );
            found.blind(&ABOUT, text);
        }
    }
}

/// Levels that count replicas wherever they are. ALL is judged by itself; ONE is answered by the nearest.
const LEVELS: [&str; 4] = ["QUORUM", "EACH_QUORUM", "TWO", "THREE"];

/// Executions that may have to wait for another data centre.
fn waiting(pattern: &Pattern) -> u64 {
    LEVELS.iter().map(|level| at_level(pattern, level)).sum()
}

fn finding(
    severity: Severity,
    (id, pattern): (PatternId, &Pattern),
    replicas: &[(&str, u64)],
    window: &Window,
) -> Finding {
    let used = LEVELS.iter().filter(|level| at_level(pattern, level) > 0);
    let levels: Vec<_> = used.copied().collect();
    let places: Vec<_> = replicas
        .iter()
        .map(|(name, count)| format!("{name}: {count}"))
        .collect();
    let title = format!(
        "{} {} wait for other data centres ({}){}",
        executions(pattern),
        table(pattern),
        levels.join(", "),
        often(waiting(pattern), window)
    );
    Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .first("replicas", places.join(", "))
        .first("cross_dc_share", share(waiting(pattern), pattern.count))
        .first("cross_dc", waiting(pattern))
}

const ABOUT: About = About {
    id: "cross-dc-consistency",
    group: "client habits",
    summary: "Requests wait for replicas in other data centres.",
    why: "\
        QUORUM counts the replicas of all data centres together: with two times three, four have to answer, \
        so at least one of them is far away, and every request takes a round trip between the sites. When \
        the connection between them is cut, neither side has a quorum.",
    fix: "\
        LOCAL_QUORUM, if each user's requests go to one data centre: it is as consistent there, and the others \
        follow within moments. EACH_QUORUM only for writes that must have arrived everywhere.",
    before: "-- CONSISTENCY QUORUM, with {'dc1': 3, 'dc2': 3}\nSELECT name FROM shop.users WHERE id = ?;",
    after: "-- CONSISTENCY LOCAL_QUORUM\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        Info; low from `steady_per_hour` such executions an hour, medium from `often_per_second` a second. \
        Nothing where the keyspace has one data centre.",
    thresholds: &[STEADY_PER_HOUR, OFTEN_PER_SECOND],
    needs: "Requests, and the keyspaces' replication.",
    source: "\
        Scylla Monitoring, CQL optimization: QUORUM with several data centres, cross-DC reads; Cassandra \
        class `ConsistencyLevel`",
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rules::testing::{read, run, run_with, window};
    use cqlens_cql::footprint::PartitionClass;

    fn at(level: &str, times: u64) -> Pattern {
        let cql = "SELECT name FROM shop.users WHERE id = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, times);
        pattern.consistency.insert(level.to_owned(), times);
        pattern
    }

    fn severity(pattern: Pattern, replication: &str) -> Option<Severity> {
        let schema = format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', {replication}}};"
        );
        let judgement = run_with(
            &CrossDcConsistency,
            &window([pattern]),
            &Schema::from_cql(&schema).unwrap(),
        );
        judgement.findings.first().map(|finding| finding.severity)
    }

    const TWO: &str = "'dc1': 3, 'dc2': 3";

    #[test]
    fn severity_follows_the_rate() {
        assert_eq!(severity(at("QUORUM", 59), TWO), Some(Severity::Info));
        assert_eq!(severity(at("QUORUM", 60), TWO), Some(Severity::Low));
        assert_eq!(severity(at("EACH_QUORUM", 360_000), TWO), Some(Severity::Medium));
    }

    #[test]
    fn one_data_centre_and_local_levels_are_fine() {
        assert_eq!(severity(at("QUORUM", 1_000_000), "'dc1': 3"), None);
        assert_eq!(severity(at("LOCAL_QUORUM", 1_000_000), TWO), None);
        assert_eq!(severity(at("ONE", 1_000_000), TWO), None);
    }

    #[test]
    fn without_a_schema_it_says_what_it_does_not_know() {
        let judgement = run(&CrossDcConsistency, &window([at("QUORUM", 60)]));
        assert_eq!(judgement.findings, []);
        assert!(
            judgement.blind_spots[0]
                .text
                .starts_with("of 60 executions at QUORUM")
        );
    }
}
