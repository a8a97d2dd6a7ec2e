//! Requests that the coordinator gave up because replicas did not answer in time.

use super::{
    About, FEW, Finding, Findings, HIGH_SHARE, MEDIUM_SHARE, Severity, by_share, executions, user_statements,
    with_errors,
};
use crate::{
    number,
    rules::{
        Rule, error_code,
        figures::{often, share, table},
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::schema::Schema;

pub(in crate::rules) struct Timeouts;

impl Rule for Timeouts {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_statements(window) {
            if let Some(severity) = by_share(found, &ABOUT, timed_out(pattern), pattern.count) {
                found.push(finding(severity, id, pattern, window));
            }
        }
    }
}

const CODES: [u32; 3] = [
    error_code::WRITE_TIMEOUT,
    error_code::READ_TIMEOUT,
    error_code::CAS_WRITE_UNKNOWN,
];

fn timed_out(pattern: &Pattern) -> u64 {
    with_errors(pattern, &CODES)
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let (times, share) = (timed_out(pattern), share(timed_out(pattern), pattern.count));
    let title = format!(
        "{} {} time out: {}, {}{}",
        executions(pattern),
        table(pattern),
        number::count(times),
        number::percent(share),
        often(times, window)
    );
    Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .first("latency_max_us", pattern.latency_us.max())
        .first("retried", pattern.repeats.retried())
        .first("timeouts_share", share)
        .first("timeouts", times)
}

const ABOUT: About = About {
    id: "timeouts",
    group: "client habits",
    summary: "Replicas do not answer in time, and the coordinator gives requests up.",
    why: "\
        A timeout says that replicas were too busy, stopped by their garbage collector, or asked for too \
        much: many partitions, many tombstones, large rows. The replicas go on with what was asked of them, \
        and a retry is asked on top of that. A write that timed out may have been applied all the same.",
    fix: "\
        Look at what else is said of the same pattern and table first: fewer partitions, rows and tombstones \
        for each read. Then at the nodes: pauses, disks, compaction. Retry reads and idempotent writes only, \
        and not at once.",
    before: "SELECT * FROM shop.events WHERE sensor IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);",
    after: "SELECT at, value FROM shop.events WHERE sensor = ? AND day = ? LIMIT 100;",
    severity: "\
        By their share of the executions: high from `high_share`, medium from `medium_share`, low below; one \
        step down where there were fewer than `few`.",
    thresholds: &[HIGH_SHARE, MEDIUM_SHARE, FEW],
    needs: "The server's errors. Timeouts of the client itself do not show on the wire.",
    source: "\
        native protocol v4 §9, READ_TIMEOUT and WRITE_TIMEOUT; cassandra.yaml `read_request_timeout` (5 s), \
        `write_request_timeout` (2 s)",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn failing(code: u32, failures: u64, times: u64) -> Pattern {
        let cql = "SELECT at FROM shop.events WHERE sensor = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, times);
        (0..failures).for_each(|_| pattern.count_error(code));
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&Timeouts, &window([pattern]));
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
            "Reads of `shop.events` time out: 60, 10 %, 1 a minute"
        );
    }
}
