//! Requests that the coordinator gave up because replicas did not answer in time.

use super::{About, Findings, Patterns, Severity, application, by_application, user_statements};
use crate::{
    Cause, Context, Finding, Quantity, Rule, error_code,
    example::timeout,
    figures::{often, share},
};
use cqlens_window::{Pattern, number};

pub(crate) struct Timeouts;

impl Rule for Timeouts {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let failing = user_statements(context).filter(|(_, pattern)| timed_out(pattern) > 0);
        for (application, patterns) in by_application(failing) {
            let impact = application::impact(Severity::Info, &patterns).at_most(Severity::Info);
            let impact = patterns.iter().fold(impact, |impact, (_, pattern)| {
                impact.failed(timed_out(pattern), pattern.count)
            });
            let severity = context.severity(found, &impact);
            found.push(finding(severity, (&application, patterns), context));
        }
    }
}

const CODES: [u32; 3] = [
    error_code::WRITE_TIMEOUT,
    error_code::READ_TIMEOUT,
    error_code::CAS_WRITE_UNKNOWN,
];

fn timed_out(pattern: &Pattern) -> u64 {
    error_code::count(pattern, &CODES)
}

fn finding(
    severity: Severity,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let times = application::sum(&patterns, timed_out);
    let executions = application::sum(&patterns, |pattern| pattern.count);
    let title = format!(
        "{} runs into timeouts: {} of {} of {}{}",
        application::subject(application, context),
        number::count(times),
        number::plural(executions, "execution", "executions"),
        application::on_tables(&patterns),
        often(times, application::watch(&patterns, context))
    );
    let longest = patterns.iter().map(|(_, pattern)| pattern.latency_us.max()).max();
    let retried = application::sum(&patterns, |pattern| pattern.repeats.retried());
    application::finding(&ABOUT, severity, (application, patterns), context)
        .title(title)
        .first("latency_max_us", longest.unwrap_or_default())
        .first("retried", retried)
        .first("timeouts_share", share(times, executions))
        .first("timeouts", times)
}

const ABOUT: About = About {
    id: "timeouts",
    group: "client habits",
    summary: "Replicas do not respond in time, and the coordinator gives up.",
    why: "\
        A timeout means that replicas were overloaded, paused for garbage collection, or had too much to do \
        for one request: many partitions, many tombstones, large rows. The replicas go on working on the \
        request, and a retry adds to that. A write that timed out may still have been applied.",
    fix: "Start with the other findings for the same pattern and table: touch fewer partitions, rows and \
        tombstones per read. Then check the nodes: pauses, disks, compaction. Retry only reads and \
        idempotent writes, and not immediately.",
    fix_in_short: "Make it cheaper",
    before: "SELECT * FROM shop.events WHERE sensor IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);",
    after: "SELECT at, value FROM shop.events WHERE sensor = ? AND day = ? LIMIT 100;",
    severity: "\
        As for all failures, by their share of a statement's executions; the worst statement decides. The \
        statements of one application are one finding.",
    severities: &[Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[],
    needs: "The server's errors. Timeouts in the client itself are not visible on the wire.",
    source: "\
        native protocol v4 §9, READ_TIMEOUT and WRITE_TIMEOUT; cassandra.yaml `read_request_timeout` (5 s), \
        `write_request_timeout` (2 s)",
    cause: Some(Cause::FAILURES),
    quantity: Some(Quantity::LATENCY),
    rewrite: Some(timeout::of_less),
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
        let judgement = run(&Timeouts, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_share() {
        assert_eq!(severity(failing(0x1200, 10, 100_000)), Some(Severity::Low));
        assert_eq!(severity(failing(0x1200, 10, 10_000)), Some(Severity::Medium));
        assert_eq!(severity(failing(0x1100, 10, 1_000)), Some(Severity::High));
    }

    #[test]
    fn a_few_are_an_event_rather_than_a_state() {
        assert_eq!(severity(failing(0x1200, 9, 100)), Some(Severity::Medium));
        assert_eq!(severity(failing(0x1200, 1, 100_000)), Some(Severity::Info));
    }

    #[test]
    fn answers_and_other_errors_are_not_timeouts() {
        assert_eq!(severity(failing(0x1200, 0, 1_000)), None);
        assert_eq!(severity(failing(0x1000, 500, 1_000)), None);
    }

    #[test]
    fn the_title_says_how_many_and_how_often() {
        let judgement = run(&Timeouts, &window([failing(0x1200, 60, 600)]));
        assert_eq!(
            judgement.findings[0].title,
            "A client runs into timeouts: 60 of 600 executions of 1 statement on `shop.events`, 1 a minute"
        );
    }
}
