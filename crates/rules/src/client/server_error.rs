//! Errors other than timeouts: the cluster could not, or the client should not have asked.

use std::collections::BTreeMap;

use super::{About, Findings, Patterns, Severity, Threshold, application, by_application, user_statements};
use crate::{
    Cause, Context, Finding, Rule, error_code,
    example::level,
    figures::{often, per_hour, share},
    severity::Impact,
};
use cqlens_window::{Pattern, number};

pub(crate) struct ServerError;

impl Rule for ServerError {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let fails = |pattern: &Pattern| of_cluster(pattern) + of_client(pattern) > 0;
        let failing = user_statements(context).filter(|(_, pattern)| fails(pattern));
        for (application, patterns) in by_application(failing) {
            let impact = application::impact(Severity::Info, &patterns).at_most(Severity::Info);
            let impact = patterns.iter().fold(impact, |impact, (_, pattern)| {
                impact.failed(of_cluster(pattern), pattern.count)
            });
            let of_cluster = context.severity(found, &impact);
            let severity = of_cluster.max(refusals(found, &patterns, context));
            found.push(finding(severity, (&application, patterns), context));
        }
    }
}

/// What is wrong with a statement costs its sender, not the cluster, unless the sender asks again and again. Of
/// nothing refused it is the least.
fn refusals(found: &Findings<'_>, patterns: &Patterns<'_>, context: &Context<'_>) -> Severity {
    let refused = application::sum(patterns, of_client);
    let per_second = per_hour(refused, application::watch(patterns, context)) / 3_600.0;
    let each = if per_second >= found.threshold(&ABOUT, &REFUSED_PER_SECOND) {
        Severity::Medium
    } else {
        Severity::Low
    };
    context.severity(found, &Impact::beside_cost(each, refused))
}

/// The client asked for something wrong or forbidden.
fn is_clients(code: u32) -> bool {
    matches!(code, 0x000A | 0x0100 | 0x2000..=0x24FF)
}

/// Whether another rule speaks of it: time-outs, and UNPREPARED, after which drivers prepare again.
fn is_of_another_rule(code: u32) -> bool {
    let others = [
        error_code::READ_TIMEOUT,
        error_code::WRITE_TIMEOUT,
        error_code::CAS_WRITE_UNKNOWN,
        error_code::UNPREPARED,
    ];
    others.contains(&code)
}

/// Executions that the cluster could not do: every error that is nobody else's, such as those that a vendor
/// has negotiated. Reads that were given up for their tombstones have a rule of their own.
fn of_cluster(pattern: &Pattern) -> u64 {
    let its = |code: u32| !is_clients(code) && !is_of_another_rule(code);
    errors(pattern, its).saturating_sub(pattern.tombstones.aborted)
}

fn of_client(pattern: &Pattern) -> u64 {
    errors(pattern, is_clients)
}

fn errors(pattern: &Pattern, is_its: impl Fn(u32) -> bool) -> u64 {
    let codes = pattern.error_codes.iter();
    codes
        .filter(|(code, _)| is_its(**code))
        .map(|(_, count)| count)
        .sum()
}

/// The errors by name, the most frequent first.
fn names(patterns: &Patterns<'_>) -> String {
    let mut codes: BTreeMap<u32, u64> = BTreeMap::new();
    for (_, pattern) in patterns {
        for (&code, &count) in &pattern.error_codes {
            let of_tombstones = match code {
                error_code::READ_FAILURE => pattern.tombstones.aborted,
                _ => 0,
            };
            *codes.entry(code).or_default() += count.saturating_sub(of_tombstones);
        }
    }
    codes.retain(|code, count| *count > 0 && !is_of_another_rule(*code));
    let mut codes: Vec<_> = codes.into_iter().collect();
    codes.sort_by_key(|&(code, count)| (std::cmp::Reverse(count), code));
    let names: Vec<_> = codes
        .iter()
        .map(|&(code, count)| format!("{} {}", number::count(count), error_code::name(code)))
        .collect();
    names.join(", ")
}

fn finding(
    severity: Severity,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let (server, client) = (
        application::sum(&patterns, of_cluster),
        application::sum(&patterns, of_client),
    );
    let all = server + client;
    let limited = application::sum(&patterns, |pattern| {
        errors(pattern, |code| code == error_code::RATE_LIMIT)
    });
    let share = share(all, application::sum(&patterns, |pattern| pattern.count));
    let title = format!(
        "{} gets errors on {}: {}, {}{}",
        application::subject(application, context),
        application::on_tables(&patterns),
        names(&patterns),
        number::percent(share),
        often(all, application::watch(&patterns, context))
    );
    let finding = application::finding(&ABOUT, severity, (application, patterns), context)
        .title(title)
        .first("failures_share", share)
        .first("refused_requests", client)
        .first("failures_of_the_cluster", server);
    if limited > 0 {
        return finding.advice(
            "ScyllaDB refuses reads or writes of single partitions beyond the `per_partition_rate_limit` of \
             their table, and drivers do not retry those. Spread the hot key: add a bucket to it, or cache \
             its rows. Raise the limit only if the load is intended.",
        );
    }
    if server > 0 {
        return finding;
    }
    finding.advice(
        "The server refuses the client's statement, its values or its permissions. The server's message in \
         the application's log says which.",
    )
}

const REFUSED_PER_SECOND: Threshold = Threshold {
    name: "refused_per_second",
    unit: "refused executions per second",
    default: 1.0,
    origin: "cqlens default: a mistake happens once; every second, the application ignores the response",
};

const ABOUT: About = About {
    id: "server-error",
    group: "client habits",
    summary: "The server responds to executions with errors.",
    why: "\
        UNAVAILABLE: fewer replicas are alive than the consistency level requires. OVERLOADED: a node sheds \
        load. READ_FAILURE and WRITE_FAILURE: a replica failed to execute the request, for example because \
        of too many tombstones. Each such request is retried or lost. Client-side errors (INVALID, \
        SYNTAX_ERROR, UNAUTHORIZED) cost the cluster little, but the application does not get its result.",
    fix: "If the cluster fails requests, check its nodes and the other findings for the pattern; a lower \
        consistency level tolerates more nodes that are down. If the request itself is refused, the server's \
        message in the application's log says why.",
    fix_in_short: "Fix the statement",
    before: "-- CONSISTENCY ALL while a replica is down: UNAVAILABLE\nSELECT name FROM shop.users WHERE id = ?;",
    after: "-- CONSISTENCY LOCAL_QUORUM\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        Failures of the cluster, as all failures, by their share of a statement's executions; the worst \
        statement decides. Requests that are refused as wrong cost the cluster next to nothing, but the \
        application gets no result: low, medium from `refused_per_second`, info if there are only a few. The \
        statements of one application are one finding.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[REFUSED_PER_SECOND],
    needs: "The server's errors.",
    source: "native protocol v4 §9, error codes",
    cause: Some(Cause::FAILURES),
    quantity: None,
    rewrite: Some(|patterns, _| level::with_replicas_down(patterns)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn failing(code: u32, failures: u64, times: u64) -> Pattern {
        let cql = "SELECT at FROM shop.events WHERE sensor = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, times);
        (0..failures).for_each(|_| pattern.count_error(code));
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&ServerError, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn failures_of_the_cluster_follow_their_share() {
        assert_eq!(severity(failing(0x1000, 10, 100_000)), Some(Severity::Low));
        assert_eq!(severity(failing(0x1300, 10, 10_000)), Some(Severity::Medium));
        assert_eq!(severity(failing(0x0000, 10, 1_000)), Some(Severity::High));
    }

    #[test]
    fn a_rate_limit_is_about_single_partitions() {
        let judgement = run(&ServerError, &amid([failing(Pattern::RATE_LIMIT, 10, 1_000)]));
        let finding = &judgement.findings[0];
        assert!(finding.title.contains("10 RATE_LIMIT_ERROR"), "{}", finding.title);
        assert!(finding.advice.contains("per_partition_rate_limit"));
    }

    #[test]
    fn requests_that_are_wrong_are_low_until_they_come_every_second() {
        // In a minute.
        assert_eq!(severity(failing(0x2200, 9, 9)), Some(Severity::Info));
        assert_eq!(severity(failing(0x2200, 59, 59)), Some(Severity::Low));
        assert_eq!(severity(failing(0x2200, 60, 60)), Some(Severity::Medium));
        let judgement = run(&ServerError, &window([failing(0x2200, 60, 60)]));
        assert!(judgement.findings[0].advice.starts_with("The server refuses"));
    }

    #[test]
    fn codes_that_nobody_knows_are_failures_and_tombstones_are_told_elsewhere() {
        assert_eq!(severity(failing(0x4321, 100, 1_000)), Some(Severity::High));
        let mut aborted = failing(0x1300, 100, 1_000);
        aborted.tombstones.aborted = 100;
        assert_eq!(severity(aborted), None);
    }

    #[test]
    fn timeouts_and_forgotten_statements_are_not_its_business() {
        assert_eq!(severity(failing(0x1200, 500, 1_000)), None);
        assert_eq!(severity(failing(0x2500, 500, 1_000)), None);
        assert_eq!(severity(failing(0x1000, 0, 1_000)), None);
    }

    #[test]
    fn the_title_names_the_errors() {
        let mut both = failing(0x1000, 59, 600);
        both.count_error(0x2200);
        let judgement = run(&ServerError, &window([both]));
        assert_eq!(
            judgement.findings[0].title,
            "A client gets errors on 1 statement on `shop.events`: 59 UNAVAILABLE, 1 INVALID, 10 %, 1 a minute"
        );
    }
}
