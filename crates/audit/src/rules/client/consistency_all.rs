//! Requests at consistency level ALL.

use super::{
    About, Finding, Findings, Severity, at_level, executions, replicas, user_statements, with_errors,
};
use crate::{
    number,
    rules::{
        Rule, error_code,
        figures::{OFTEN_PER_SECOND, STEADY_PER_HOUR, by_load, often, share, table},
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::schema::Schema;

pub(in crate::rules) struct ConsistencyAll;

impl Rule for ConsistencyAll {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_statements(window).filter(|(_, pattern)| at_level(pattern, "ALL") > 0) {
            let copies = replicas(pattern, schema).map(|all| all.iter().map(|(_, count)| count).sum());
            // All of one replica is one of one.
            if copies != Some(1) {
                found.push(finding(
                    severity(found, pattern, window),
                    (id, pattern),
                    copies,
                    window,
                ));
            }
        }
    }
}

/// Executions for which not enough replicas were alive.
fn unavailable(pattern: &Pattern) -> u64 {
    with_errors(pattern, &[error_code::UNAVAILABLE])
}

fn severity(found: &Findings<'_>, pattern: &Pattern, window: &Window) -> Severity {
    let severity = by_load(found, &ABOUT, at_level(pattern, "ALL"), window).raised();
    if unavailable(pattern) > 0 {
        severity.raised()
    } else {
        severity
    }
}

fn finding(
    severity: Severity,
    (id, pattern): (PatternId, &Pattern),
    copies: Option<u64>,
    window: &Window,
) -> Finding {
    let times = at_level(pattern, "ALL");
    let copies = copies.map_or_else(String::new, |copies| format!(" {copies}"));
    let mut title = format!(
        "{} {} wait for all{copies} replicas{}",
        executions(pattern),
        table(pattern),
        often(times, window)
    );
    let failed = unavailable(pattern);
    if failed > 0 {
        title += &format!("; {} found one of them down", number::count(failed));
    }
    Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .first("unavailable", failed)
        .first("consistency_all_share", share(times, pattern.count))
        .first("consistency_all", times)
}

const ABOUT: About = About {
    id: "consistency-all",
    group: "client habits",
    summary: "Requests wait for all replicas: one node that is down or slow fails or delays all of them.",
    why: "\
        At ALL the coordinator answers when every replica has, those in other data centres included. The \
        slowest of them sets the latency, and while one is down, restarted or being repaired every request \
        for its partitions fails: more replicas make the table less available instead of more.",
    fix: "\
        Read and write at LOCAL_QUORUM: whatever a quorum has written, a quorum reads, and one replica may be \
        away. To have stale replicas mended, repair.",
    before: "-- CONSISTENCY ALL\nSELECT name FROM shop.users WHERE id = ?;",
    after: "-- CONSISTENCY LOCAL_QUORUM\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        Low, medium from `steady_per_hour` executions an hour at ALL, high from `often_per_second` a second; \
        one step up where replicas were found down. Nothing for keyspaces of one replica.",
    thresholds: &[STEADY_PER_HOUR, OFTEN_PER_SECOND],
    needs: "Requests; the keyspaces' replication, to leave out those of one replica.",
    source: "\
        Scylla Monitoring, CQL optimization: consistency level ALL; Cassandra guardrails \
        `read_consistency_levels_warned` and `write_consistency_levels_warned` (4.1)",
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

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&ConsistencyAll, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_rate_and_failures() {
        assert_eq!(severity(at("ALL", 59)), Some(Severity::Low));
        assert_eq!(severity(at("ALL", 60)), Some(Severity::Medium));
        assert_eq!(severity(at("ALL", 360_000)), Some(Severity::High));
        let mut down = at("ALL", 60);
        down.count_error(0x1000);
        assert_eq!(severity(down), Some(Severity::High));
    }

    #[test]
    fn other_levels_are_fine() {
        assert_eq!(severity(at("LOCAL_QUORUM", 1_000_000)), None);
        assert_eq!(severity(at("QUORUM", 1_000_000)), None);
    }

    #[test]
    fn of_one_replica_all_is_one_and_of_three_it_says_three() {
        let judge = |replicas: u64| {
            let schema = format!(
                "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': {replicas}}};"
            );
            run_with(
                &ConsistencyAll,
                &window([at("ALL", 60)]),
                &Schema::from_cql(&schema).unwrap(),
            )
        };
        assert_eq!(judge(1).findings, []);
        assert_eq!(
            judge(3).findings[0].title,
            "Reads of `shop.users` wait for all 3 replicas, 1 a minute"
        );
    }
}
