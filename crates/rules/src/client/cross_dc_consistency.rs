//! Consistency levels that wait for other datacenters.

use super::{
    About, Findings, Patterns, Severity, application, at_level, by_application, replicas, user_statements,
};
use crate::{
    Cause, Context, EvidenceValue, Finding, KeyspaceReplicas, Rule,
    figures::{often, share},
};
use cqlens_window::{Pattern, number};

pub(crate) struct CrossDcConsistency;

impl Rule for CrossDcConsistency {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let (mut unknown, mut crossing) = (0, Vec::new());
        for (id, pattern) in user_statements(context) {
            if waiting(pattern) + at_one(pattern) == 0 {
                continue;
            }
            match replicas(pattern, context.schema) {
                None => unknown += waiting(pattern),
                Some(replicas) if replicas.len() > 1 => crossing.push((id, pattern)),
                Some(_) => {}
            }
        }
        for (application, patterns) in by_application(crossing) {
            let times = application::sum(&patterns, waiting);
            let (each, most) = match times {
                0 => (Severity::Info, Severity::Info),
                _ => (Severity::Low, Severity::Medium),
            };
            let impact = application::impact(each, &patterns).times(times);
            let severity = context.severity(found, &impact.at_most(most));
            found.push(finding(severity, times, (&application, patterns), context));
        }
        if unknown > 0 {
            let executions = number::plural(unknown, "execution", "executions");
            let text = format!(
                "for {executions} at QUORUM and similar levels, the number of datacenters is not known"
            );
            found.blind(&ABOUT, text);
        }
    }
}

/// Levels that count replicas wherever they are. ALL is judged by itself.
const LEVELS: [&str; 5] = ["QUORUM", "EACH_QUORUM", "TWO", "THREE", "SERIAL"];

/// Executions that may have to wait for another datacenter: for their level, or for the consensus of their
/// condition.
fn waiting(pattern: &Pattern) -> u64 {
    let levels: u64 = LEVELS.iter().map(|level| at_level(pattern, level)).sum();
    levels.max(serial(pattern))
}

/// Conditional writes whose consensus takes replicas of all datacenters.
fn serial(pattern: &Pattern) -> u64 {
    let serial = pattern.serial_consistency.get("SERIAL").copied();
    serial.unwrap_or_default()
}

/// Executions that one replica answers, which may be one far away.
fn at_one(pattern: &Pattern) -> u64 {
    at_level(pattern, "ONE")
}

/// The levels of these statements that cross datacenters.
fn levels(patterns: &Patterns<'_>) -> String {
    let used = LEVELS
        .iter()
        .filter(|level| application::sum(patterns, |pattern| at_level(pattern, level)) > 0);
    let mut levels: Vec<_> = used.copied().collect();
    if application::sum(patterns, serial) > 0 {
        levels.push("serial consistency SERIAL");
    }
    if levels.is_empty() {
        levels.push("ONE");
    }
    levels.join(", ")
}

/// The keyspaces' replicas.
fn places(patterns: &Patterns<'_>, context: &Context<'_>) -> Vec<KeyspaceReplicas> {
    let of_keyspace = |pattern: &Pattern| {
        let replicas = replicas(pattern, context.schema)?.into_iter();
        Some(KeyspaceReplicas {
            keyspace: pattern.head.keyspace.clone()?,
            replicas: replicas.map(|(name, count)| (name.to_owned(), count)).collect(),
        })
    };
    let places = patterns.iter().filter_map(|(_, pattern)| of_keyspace(pattern));
    let mut places: Vec<_> = places.collect();
    places.sort_by(|left, right| left.keyspace.cmp(&right.keyspace));
    places.dedup();
    places
}

fn finding(
    severity: Severity,
    times: u64,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let (how, counted) = match times {
        0 => (
            "may read replicas in another datacenter",
            application::sum(&patterns, at_one),
        ),
        _ => ("waits for other datacenters", times),
    };
    let title = format!(
        "{} {how} ({}): {}{}",
        application::subject(application, context),
        levels(&patterns),
        application::on_tables(&patterns),
        often(counted, application::watch(&patterns, context))
    );
    let executions = application::sum(&patterns, |pattern| pattern.count);
    let replicas = places(&patterns, context);
    application::finding(&ABOUT, severity, (application, patterns), context)
        .title(title)
        .first("keyspace_replicas", EvidenceValue::Replicas(replicas))
        .first("cross_dc_share", share(times, executions))
        .first("cross_dc", times)
}

const ABOUT: About = About {
    id: "cross-dc-consistency",
    group: "client habits",
    summary: "Requests wait for replicas in other datacenters.",
    why: "QUORUM counts the replicas of all datacenters together: with two datacenters of three replicas \
        each, four have to respond, so at least one of them is remote, and every request includes a round \
        trip between the sites. If the link between them is cut, neither side has a quorum.",
    fix: "Use LOCAL_QUORUM, LOCAL_ONE and LOCAL_SERIAL if each user's requests go to one datacenter: reads \
        there are just as consistent, and the other datacenters follow within moments. Use EACH_QUORUM only \
        for writes that must have reached every datacenter.",
    fix_in_short: "Use LOCAL_QUORUM",
    before: "-- CONSISTENCY QUORUM, with {'dc1': 3, 'dc2': 3}\nSELECT name FROM shop.users WHERE id = ?;",
    after: "-- CONSISTENCY LOCAL_QUORUM\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        Low, medium at most, for levels that wait for another datacenter (QUORUM, EACH_QUORUM, TWO, THREE, \
        SERIAL, and conditional writes at serial consistency SERIAL, the drivers' default); info if only ONE \
        is used. Nothing if the keyspace has one datacenter. The statements of one application are one \
        finding.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "Requests, and the keyspaces' replication.",
    source: "\
        Scylla Monitoring, CQL optimization: QUORUM with several datacenters, cross-DC reads; Cassandra \
        class `ConsistencyLevel`",
    cause: Some(Cause::CONSISTENCY_LEVELS),
    quantity: None,
    rewrite: None,
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

    fn severity(pattern: Pattern, replication: &str) -> Option<Severity> {
        let schema = format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', {replication}}};"
        );
        let judgement = run_with(
            &CrossDcConsistency,
            &amid([pattern]),
            &Schema::from_cql(&schema).unwrap(),
        );
        judgement.findings.first().map(|finding| finding.severity)
    }

    const TWO: &str = "'dc1': 3, 'dc2': 3";

    #[test]
    fn waiting_for_another_site_is_low_and_medium_where_all_do() {
        assert_eq!(severity(at("QUORUM", 100), TWO), Some(Severity::Low));
        assert_eq!(severity(at("SERIAL", 100), TWO), Some(Severity::Low));
        assert_eq!(severity(at("ONE", 100), TWO), Some(Severity::Info));
        let schema = Schema::from_cql(&format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', {TWO}}};"
        ));
        let all = window([at("EACH_QUORUM", 360_000)]);
        let judgement = run_with(&CrossDcConsistency, &all, &schema.unwrap());
        assert_eq!(judgement.findings[0].severity, Severity::Medium);
    }

    #[test]
    fn the_consensus_of_a_condition_crosses_too() {
        let mut conditional = at("LOCAL_QUORUM", 100);
        conditional.count_serial_consistency("SERIAL", 100);
        assert_eq!(severity(conditional, TWO), Some(Severity::Low));
        let mut local = at("LOCAL_QUORUM", 100);
        local.count_serial_consistency("LOCAL_SERIAL", 100);
        assert_eq!(severity(local, TWO), None);
    }

    #[test]
    fn one_datacenter_and_local_levels_are_fine() {
        assert_eq!(severity(at("QUORUM", 1_000_000), "'dc1': 3"), None);
        assert_eq!(severity(at("LOCAL_QUORUM", 1_000_000), TWO), None);
        assert_eq!(severity(at("LOCAL_ONE", 1_000_000), TWO), None);
    }

    #[test]
    fn without_a_schema_it_says_what_it_does_not_know() {
        let judgement = run(&CrossDcConsistency, &window([at("QUORUM", 60)]));
        assert_eq!(judgement.findings, []);
        assert!(
            judgement.blind_spots[0]
                .text
                .starts_with("for 60 executions at QUORUM")
        );
    }
}
