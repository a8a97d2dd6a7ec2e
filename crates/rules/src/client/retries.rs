//! Requests that are sent again after errors, and those that are sent twice at once.

use super::{About, Findings, Patterns, Severity, Threshold, application, by_application, user_statements};
use crate::{
    Cause, Context, Finding, Quantity, Rule,
    figures::{often, share},
};
use cqlens_window::{Pattern, RetryCause, number};

pub(crate) struct Retries;

impl Rule for Retries {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (application, patterns) in by_application(user_statements(context)) {
            let executions = application::sum(&patterns, |pattern| pattern.count);
            let again = application::sum(&patterns, retried);
            let twice = application::sum(&patterns, |pattern| pattern.repeats.in_flight);
            let reaches = |times: u64, threshold| {
                times as f64 >= found.threshold(&ABOUT, &FEWEST)
                    && share(times, executions) >= found.threshold(&ABOUT, threshold)
            };
            let (each, most) = if reaches(again, &STORM_SHARE) {
                (Severity::Medium, Severity::High)
            } else if reaches(again, &SOME_SHARE) {
                (Severity::Low, Severity::Medium)
            } else if reaches(twice, &TWICE_SHARE) {
                (Severity::Info, Severity::Info)
            } else {
                continue;
            };
            let impact = application::impact(each, &patterns).times(again.max(twice));
            let severity = context.severity(found, &impact.at_most(most));
            let with = |pattern: &Pattern| retried(pattern) + pattern.repeats.in_flight > 0;
            let repeated: Patterns<'_> = patterns
                .into_iter()
                .filter(|(_, pattern)| with(pattern))
                .collect();
            let counts = (again, twice, executions);
            found.push(finding(severity, counts, (&application, repeated), context));
        }
    }
}

/// Executions that came again after an error or a lost connection; what the server had forgotten how to execute
/// is left to `prepare-churn`.
fn retried(pattern: &Pattern) -> u64 {
    let retries = pattern.repeats.retries.iter();
    retries
        .filter(|(cause, _)| **cause != RetryCause::Unprepared)
        .map(|(_, count)| count)
        .sum()
}

fn finding(
    severity: Severity,
    (retried, twice, executions): (u64, u64, u64),
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let subject = application::subject(application, context);
    let title = if retried > 0 && retried >= twice {
        format!(
            "{subject} sends {} of its requests again after errors{}",
            number::percent(share(retried, executions)),
            often(retried, application::watch(&patterns, context))
        )
    } else {
        format!(
            "{subject} sends {} of its requests while an identical one is in flight{}",
            number::percent(share(twice, executions)),
            often(twice, application::watch(&patterns, context))
        )
    };
    application::finding(&ABOUT, severity, (application, patterns), context)
        .title(title)
        .first("in_flight_already", twice)
        .first("sent_again", retried)
        .first("sent_again_share", share(retried, executions))
}

const FEWEST: Threshold = Threshold {
    name: "fewest",
    unit: "repeated executions",
    default: 10.0,
    origin: "cqlens default: a handful is an event, such as the restart of a node",
};

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "of the executions",
    default: 0.01,
    origin: "cqlens default: one in a hundred shows in the p99 of every page that makes a few requests",
};

const STORM_SHARE: Threshold = Threshold {
    name: "storm_share",
    unit: "of the executions",
    default: 0.1,
    origin: "cqlens default: a tenth more load on nodes that have just failed to respond",
};

const TWICE_SHARE: Threshold = Threshold {
    name: "twice_share",
    unit: "of the executions",
    default: 0.1,
    origin: "drivers' manuals: a speculative execution is meant for the slowest few in a hundred",
};

const ABOUT: About = About {
    id: "retries",
    group: "client habits",
    summary: "An application repeats many of its requests.",
    why: "A node that times out is already overloaded, and every retry adds to its load. If each of forty \
        services tries three times, a slow minute becomes an outage. Requests sent while an identical one is \
        in flight are speculative executions, or threads that run the same query at once: both make the \
        nodes do the work twice.",
    fix: "Find out what fails first (`timeouts`, `server-error`). Retry once, on another node, after a pause \
        that grows and differs between clients. Start speculative executions at the p99 latency; cache what \
        many threads query.",
    fix_in_short: "Find the cause",
    before: "-- retried at once, up to ten times\nSELECT name FROM shop.users WHERE id = ?;",
    after: "-- retried once, on the next node\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        Low from `some_share`, medium from `storm_share` of an application's executions, if they are at \
        least `fewest`; info for identical requests in flight, from `twice_share`.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[FEWEST, SOME_SHARE, STORM_SHARE, TWICE_SHARE],
    needs: "\
        Requests and responses: the same statement, values and page, from the same host within one second.",
    source: "Drivers' manuals, retry policies and speculative execution; Cassandra metrics `SpeculativeRetries`",
    cause: Some(Cause::FAILURES),
    quantity: Some(Quantity::LATENCY),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run};
    use cqlens_cql::footprint::PartitionClass;

    fn found(retries: &[(RetryCause, u64)], in_flight: u64) -> Vec<(Severity, String)> {
        let cql = "SELECT name FROM shop.users WHERE id = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, 1_000);
        pattern.repeats.retries = retries.iter().copied().collect();
        pattern.repeats.in_flight = in_flight;
        pattern.count_client("shop 1.2 (gocql) 10.0.0.1", 1_000);
        let findings = run(&Retries, &amid([pattern])).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn severity_follows_the_share() {
        let some = found(&[(RetryCause::ReadTimeout, 20)], 0);
        assert_eq!(some[0].0, Severity::Info, "a part of a small load");
        let storm = found(&[(RetryCause::ReadTimeout, 60), (RetryCause::Overloaded, 60)], 0);
        assert_eq!(
            storm,
            [(
                Severity::Low,
                "`shop` sends 12 % of its requests again after errors, 2 a second".to_owned()
            )]
        );
    }

    #[test]
    fn speculative_executions_are_worth_knowing() {
        let told = found(&[], 300);
        assert_eq!(
            told,
            [(
                Severity::Info,
                "`shop` sends 30 % of its requests while an identical one is in flight, 5 a second"
                    .to_owned()
            )]
        );
    }

    #[test]
    fn a_handful_and_unprepared_statements_are_fine() {
        assert_eq!(found(&[(RetryCause::ReadTimeout, 9)], 20), []);
        assert_eq!(found(&[(RetryCause::Unprepared, 600)], 0), []);
    }
}
