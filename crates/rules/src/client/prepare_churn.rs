//! Statements that are prepared again and again instead of once.

use std::collections::BTreeSet;

use super::{About, Findings, Patterns, Severity, Threshold, application, by_application};
use crate::{
    Context, Finding, Rule, error_code,
    figures::{is_steady, often, per_hour, user_patterns},
};
use cqlens_window::{Pattern, number};

pub(crate) struct PrepareChurn;

impl Rule for PrepareChurn {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let few = found.threshold(&ABOUT, &FEW_EXECUTIONS);
        let churns = |pattern: &Pattern| {
            forgotten(pattern) > 0 || (pattern.prepared_again > 0 && per_prepare(pattern) < few)
        };
        let patterns = user_patterns(context).filter(|(_, pattern)| churns(pattern));
        for (application, patterns) in by_application(patterns) {
            if let Some(severity) = severity(found, &patterns, context) {
                found.push(finding(severity, (&application, patterns), context));
            }
        }
    }
}

fn severity(found: &Findings<'_>, patterns: &Patterns<'_>, context: &Context<'_>) -> Option<Severity> {
    let again = application::sum(patterns, |pattern| pattern.prepared_again);
    let forgotten = application::sum(patterns, forgotten);
    let clients = patterns.iter().flat_map(|(_, pattern)| pattern.clients.keys());
    let clients: BTreeSet<_> = clients.collect();
    // Each client prepares at each node when it starts: what counts is what one of them does.
    let each_client = (again / (clients.len() as u64).max(1)).max(forgotten);
    if !is_steady(found, each_client, application::watch(patterns, context)) {
        return None;
    }
    let storm = found.threshold(&ABOUT, &STORM_PER_SECOND) * 3_600.0;
    let prepares = again.max(forgotten);
    let is_storm = per_hour(prepares, application::watch(patterns, context)) >= storm;
    let each = if is_storm { Severity::Medium } else { Severity::Low };
    // A PREPARE costs about what an execution costs, whatever the statement does.
    let impact = application::impact(each, patterns).times(prepares);
    Some(context.severity(found, &impact.at_most(Severity::Medium)))
}

/// Executions that the server answered with UNPREPARED: it had evicted the statement, or was restarted.
fn forgotten(pattern: &Pattern) -> u64 {
    let answers = pattern.error_codes.get(&error_code::UNPREPARED).copied();
    answers.unwrap_or_default()
}

/// Executions of the prepared statement for each PREPARE of it.
fn per_prepare(pattern: &Pattern) -> f64 {
    pattern.prepared as f64 / pattern.prepared_again.max(1) as f64
}

fn finding(
    severity: Severity,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let again = application::sum(&patterns, |pattern| pattern.prepared_again);
    let forgotten = application::sum(&patterns, forgotten);
    let executions = application::sum(&patterns, |pattern| pattern.prepared);
    let per_prepare = executions as f64 / again.max(forgotten).max(1) as f64;
    let subject = application::subject(application, context);
    let on = application::on_tables(&patterns);
    let watch = application::watch(&patterns, context);
    let finding = application::finding(&ABOUT, severity, (application, patterns), context)
        .first("executions_per_prepare", per_prepare)
        .first("unprepared_responses", forgotten)
        .first("prepared_again", again);
    if forgotten <= again / 2 {
        return finding.title(format!(
            "{subject} prepares {on} again for every {} executions{}",
            number::decimal(per_prepare),
            often(again, watch)
        ));
    }
    finding
        .title(format!(
            "The server evicts prepared statements: {} UNPREPARED responses for {on}{}",
            number::count(forgotten),
            often(forgotten, watch)
        ))
        .advice(
            "The server's cache of prepared statements is too small for the number of distinct texts: bind \
             values instead of writing them into the text, bind lists as a whole (`IN ?`), and share \
             statements between instances. Raise `prepared_statements_cache_size` only after that.",
        )
}

const STORM_PER_SECOND: Threshold = Threshold {
    name: "storm_per_second",
    unit: "PREPARE requests per second",
    default: 10.0,
    origin: "cqlens default: parsing and checking ten texts per second is noticeable work for a coordinator",
};

const FEW_EXECUTIONS: Threshold = Threshold {
    name: "few_executions",
    unit: "executions per PREPARE",
    default: 10.0,
    origin: "\
        cqlens default: preparing costs a round trip and a parse, which is hardly noticeable when spread \
        over ten executions",
};

const ABOUT: About = About {
    id: "prepare-churn",
    group: "client habits",
    summary: "A statement is prepared again for nearly every execution.",
    why: "PREPARE takes a round trip, is parsed and checked, and drivers send it to every node as well. \
        Preparing for each execution costs more than sending the text. If the texts differ, because they \
        contain values or lists of varying length, each takes an entry in the server's cache and evicts \
        others: their next execution fails with UNPREPARED, and the driver prepares them again.",
    fix: "Prepare once per session and keep the prepared statement. Bind values instead of writing them into \
        the text; bind a list as a whole (`IN ?`).",
    fix_in_short: "Prepare once",
    before: "-- prepared in the function that executes it\nSELECT name FROM shop.users WHERE id = 7;",
    after: "-- prepared when the application starts\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        If there are fewer than `few_executions` per PREPARE, or the server responds UNPREPARED, steadily \
        and for one client: low, medium from `storm_per_second`, raised or lowered by the share of time that \
        as many executions take, medium at most. Nothing below: clients prepare when they start. The \
        statements of one application are one finding.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[FEW_EXECUTIONS, STORM_PER_SECOND],
    needs: "\
        PREPARE requests of statements that were executed before in the same window. Clients are identified \
        by what they send in STARTUP and by their address.",
    source: "Scylla Monitoring, CQL optimization: prepared statements cache evictions; cassandra.yaml \
        `prepared_statements_cache_size`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn prepared(prepares: u64, executions: u64, clients: u64) -> Pattern {
        let cql = "SELECT name FROM shop.users WHERE id = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, executions);
        pattern.prepared_again = prepares;
        (0..clients).for_each(|client| pattern.count_client(&format!("client {client}"), 1));
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&PrepareChurn, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_rate() {
        assert_eq!(severity(prepared(9, 9, 1)), None);
        assert_eq!(severity(prepared(60, 60, 1)), Some(Severity::Low));
        assert_eq!(severity(prepared(360_000, 360_000, 1)), Some(Severity::Medium));
    }

    #[test]
    fn a_server_that_forgets_is_told_however_often_statements_are_executed() {
        let mut storm = prepared(0, 60_000, 1);
        storm.error_codes.insert(error_code::UNPREPARED, 12_000);
        let judgement = run(&PrepareChurn, &window([storm.clone()]));
        assert_eq!(
            judgement.findings[0].title,
            "The server evicts prepared statements: 12,000 UNPREPARED responses for 1 statement on \
                `shop.users`, 3.3 a second"
        );
        assert_eq!(severity(storm.clone()), Some(Severity::Medium));
        storm.error_codes.insert(error_code::UNPREPARED, 6_000);
        assert_eq!(severity(storm), Some(Severity::Low), "a tenth of its executions");
    }

    #[test]
    fn what_is_executed_often_enough_is_fine() {
        assert_eq!(severity(prepared(60, 600, 1)), None);
        assert_eq!(severity(prepared(0, 1_000_000, 1)), None);
    }

    #[test]
    fn a_fleet_that_starts_is_no_churn() {
        assert_eq!(severity(prepared(90, 90, 30)), None);
    }

    #[test]
    fn the_title_says_how_few_executions_there_are() {
        let judgement = run(&PrepareChurn, &window([prepared(60, 90, 1)]));
        assert_eq!(
            judgement.findings[0].title,
            "`client` prepares 1 statement on `shop.users` again for every 1.5 executions, 1 a minute"
        );
    }
}
