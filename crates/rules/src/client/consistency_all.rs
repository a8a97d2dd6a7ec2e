//! Requests at consistency level ALL.

use super::{
    About, Findings, Patterns, Severity, application, at_level, by_application, replicas, user_statements,
};
use crate::{
    Cause, Context, Finding, Rule, error_code,
    example::commented,
    figures::{often, share},
};
use cqlens_window::{Pattern, number};

pub(crate) struct ConsistencyAll;

impl Rule for ConsistencyAll {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // All of one replica is one of one.
        let waits = |pattern: &Pattern| at_all(pattern) > 0 && copies(pattern, context) != Some(1);
        let statements = user_statements(context).filter(|(_, pattern)| waits(pattern));
        for (application, patterns) in by_application(statements) {
            let times = application::sum(&patterns, at_all);
            let impact = application::impact(Severity::Medium, &patterns).times(times);
            let impact = patterns.iter().fold(impact, |impact, (_, pattern)| {
                impact.failed(unavailable(pattern), pattern.count)
            });
            let severity = context.severity(found, &impact);
            found.push(finding(severity, times, (&application, patterns), context));
        }
    }
}

fn at_all(pattern: &Pattern) -> u64 {
    at_level(pattern, "ALL")
}

/// Replicas of the pattern's keyspace, in all datacenters; nothing where they are not known.
fn copies(pattern: &Pattern, context: &Context<'_>) -> Option<u64> {
    replicas(pattern, context.schema).map(|all| all.iter().map(|(_, count)| count).sum())
}

/// Executions for which not enough replicas were alive.
fn unavailable(pattern: &Pattern) -> u64 {
    error_code::count(pattern, &[error_code::UNAVAILABLE])
}

fn finding(
    severity: Severity,
    times: u64,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let most = patterns
        .iter()
        .filter_map(|(_, pattern)| copies(pattern, context))
        .max();
    let most = most.map_or_else(String::new, |copies| format!(" {copies}"));
    let mut title = format!(
        "{} waits for all{most} replicas (consistency ALL): {}{}",
        application::subject(application, context),
        application::on_tables(&patterns),
        often(times, application::watch(&patterns, context))
    );
    let failed = application::sum(&patterns, unavailable);
    if failed > 0 {
        title += &format!("; {} failed because a replica was down", number::count(failed));
    }
    let executions = application::sum(&patterns, |pattern| pattern.count);
    application::finding(&ABOUT, severity, (application, patterns), context)
        .title(title)
        .first("unavailable", failed)
        .first("consistency_all_share", share(times, executions))
        .first("consistency_all", times)
}

const ABOUT: About = About {
    id: "consistency-all",
    group: "client habits",
    summary: "\
        Requests wait for all replicas: a single node that is down or slow fails or delays all of them.",
    why: "\
        At ALL the coordinator responds only when every replica has responded, including those in other \
        datacenters. The slowest replica sets the latency, and while one is down or restarting, every request \
        for its partitions fails: more replicas make the table less available, not more.",
    fix: "\
        Read and write at LOCAL_QUORUM: a quorum reads whatever a quorum has written, and one replica may be \
        down. Use repair, not ALL, to bring stale replicas up to date.",
    fix_in_short: "Use LOCAL_QUORUM",
    before: "-- CONSISTENCY ALL\nSELECT name FROM shop.users WHERE id = ?;",
    after: "-- CONSISTENCY LOCAL_QUORUM\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        Medium; requests that failed because a replica was down count as failures. Nothing for keyspaces \
        with one replica. The statements of one application are one finding.",
    severities: &[Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[],
    needs: "Requests; the keyspaces' replication, to leave out those with one replica.",
    source: "Scylla Monitoring, CQL optimization: consistency level ALL; Cassandra guardrails \
        `read_consistency_levels_warned` and `write_consistency_levels_warned` (4.1)",
    cause: Some(Cause::CONSISTENCY_LEVELS),
    quantity: None,
    rewrite: Some(|patterns, _| {
        commented(
            patterns,
            "at consistency level ALL",
            "at consistency level LOCAL_QUORUM",
        )
    }),
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run, run_with, window};
    use cqlens_cql::footprint::PartitionClass;
    use cqlens_cql::schema::Schema;

    fn at(level: &str, times: u64) -> Pattern {
        let cql = "SELECT name FROM shop.users WHERE id = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, times);
        pattern.consistency.insert(level.to_owned(), times);
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&ConsistencyAll, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn it_is_medium_and_worse_where_replicas_were_down() {
        assert_eq!(severity(at("ALL", 100)), Some(Severity::Medium));
        let mut down = at("ALL", 100);
        (0..10).for_each(|_| down.count_error(0x1000));
        assert_eq!(severity(down), Some(Severity::High));
    }

    #[test]
    fn the_statements_of_an_application_are_one_finding() {
        let patterns = ["users", "orders", "items"].map(|table| {
            let mut pattern = at("ALL", 100);
            pattern.head.table = Some(table.to_owned());
            pattern
                .clients
                .insert("shop-api 2.0 (gocql) 10.0.0.1".to_owned(), 100);
            pattern
        });
        let findings = run(&ConsistencyAll, &window(patterns)).findings;
        let titles: Vec<_> = findings.iter().map(|finding| finding.title.as_str()).collect();
        assert_eq!(
            titles,
            ["`shop-api` waits for all replicas (consistency ALL): 3 statements on 3 tables, 5 a minute"]
        );
        assert_eq!(findings[0].subject.as_deref(), Some("shop-api"));
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
            "A client waits for all 3 replicas (consistency ALL): 1 statement on `shop.users`, 1 a minute"
        );
    }
}
