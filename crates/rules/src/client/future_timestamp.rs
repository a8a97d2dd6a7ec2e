//! Writes whose timestamp is not the time at which they are written.

use super::{About, Findings, Patterns, Severity, Threshold, application, by_application, user_statements};
use crate::{Context, Finding, Rule, example::write_time, figures::often, severity::Impact};
use cqlens_window::{Pattern, WriteTimes, number};

pub(crate) struct FutureTimestamp;

impl Rule for FutureTimestamp {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let odd = |pattern: &Pattern| pattern.write_times.ahead + pattern.write_times.other_units > 0;
        let writes = user_statements(context).filter(|(_, pattern)| odd(pattern));
        for (application, patterns) in by_application(writes) {
            let other_units = application::sum(&patterns, |pattern| pattern.write_times.other_units);
            let far = found.threshold(&ABOUT, &FAR_AHEAD) * 1e6;
            let each = if other_units > 0 || most_ahead(&patterns) as f64 >= far {
                Severity::High
            } else {
                Severity::Medium
            };
            let times = application::sum(&patterns, |pattern| {
                pattern.write_times.ahead + pattern.write_times.other_units
            });
            let severity = context.severity(found, &Impact::beside_cost(each, times));
            found.push(finding(severity, other_units, (&application, patterns), context));
        }
    }
}

fn most_ahead(patterns: &Patterns<'_>) -> u64 {
    let most = patterns
        .iter()
        .map(|(_, pattern)| pattern.write_times.most_ahead_us);
    most.max().unwrap_or_default()
}

fn finding(
    severity: Severity,
    other_units: u64,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let ahead = application::sum(&patterns, |pattern| pattern.write_times.ahead);
    let stated = application::sum(&patterns, |pattern| pattern.write_times.stated);
    let (subject, tables) = (application::subject(application), application::tables(&patterns));
    let most = most_ahead(&patterns);
    let title = if other_units > 0 {
        format!(
            "{subject} writes to {tables} with timestamps that are not in microseconds{}",
            often(other_units, application::watch(&patterns, context))
        )
    } else {
        format!(
            "{subject} writes to {tables} with timestamps up to {} in the future{}",
            number::seconds(most as f64 / 1e6),
            often(ahead, application::watch(&patterns, context))
        )
    };
    application::finding(&ABOUT, severity, (application, patterns), context)
        .title(title)
        .first("with_using_timestamp", stated)
        .first("not_microseconds", other_units)
        .first("most_ahead_us", most)
        .first("ahead", ahead)
}

const FAR_AHEAD: Threshold = Threshold {
    name: "far_ahead_seconds",
    unit: "seconds",
    default: 60.0,
    origin: "\
        cassandra.yaml `maximum_timestamp_warn_threshold`, which is off by default: clocks do not drift by a \
        minute",
};

const ABOUT: About = About {
    id: "future-timestamp",
    group: "client habits",
    summary: "Writes carry timestamps in the future, or in a unit other than microseconds.",
    why: "Of two values for a cell, the one with the higher timestamp wins, whenever it arrived. A value \
        written with a timestamp in the future cannot be overwritten or deleted until that time has come, \
        and no error is raised; milliseconds instead of microseconds lose against every other write, \
        nanoseconds win for thousands of years.",
    fix: "Synchronise the clients' clocks (chrony, ntpd): drivers take timestamps from them. Leave `USING \
        TIMESTAMP` to jobs that replay history, in microseconds since 1970. To remove what was written with \
        a wrong timestamp, delete it with a timestamp at least as high.",
    fix_in_short: "Correct the clocks",
    before: "-- milliseconds\nINSERT INTO shop.orders (id, total) VALUES (?, ?) USING TIMESTAMP 1795000000000;",
    after: "-- the server or the driver sets the time\nINSERT INTO shop.orders (id, total) VALUES (?, ?);",
    severity: "\
        High from `far_ahead_seconds` or in another unit, else medium: synchronised clocks do not differ by \
        more than a second. Cost does not matter, because writes are lost; one step less for a few writes.",
    severities: &[Severity::Medium, Severity::High],
    thresholds: &[FAR_AHEAD],
    needs: "The timestamps of requests or of `USING TIMESTAMP`, compared with the clock of cqlens.",
    source: "Cassandra guardrail `maximum_timestamp` (5.0); native protocol v4 §4.1.4, default timestamp",
    cause: None,
    quantity: None,
    rewrite: Some(|patterns, context| write_time::kept(patterns.first()?, context)),
};

const _: () = assert!(WriteTimes::TOLERATED_US == 1_000_000, "the page says a second");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, window, write};
    use cqlens_cql::plan::StatementKind;

    fn found(write_times: WriteTimes) -> Vec<(Severity, String)> {
        let cql = "INSERT INTO shop.orders (id, total) VALUES (?, ?)";
        let mut pattern = write(cql, StatementKind::Insert, &[], 60);
        pattern.write_times = write_times;
        let findings = run(&FutureTimestamp, &window([pattern])).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn the_future_is_medium_and_far_ahead_or_in_other_units_high() {
        let ahead = |most_ahead_us| WriteTimes {
            ahead: 60,
            most_ahead_us,
            ..WriteTimes::default()
        };
        assert_eq!(
            found(ahead(2_000_000)),
            [(
                Severity::Medium,
                "A client writes to `shop.orders` with timestamps up to 2 s in the future, 1 a minute"
                    .to_owned()
            )]
        );
        assert_eq!(found(ahead(3_600_000_000))[0].0, Severity::High);
        let other_units = WriteTimes {
            other_units: 60,
            ..WriteTimes::default()
        };
        assert_eq!(
            found(other_units),
            [(
                Severity::High,
                "A client writes to `shop.orders` with timestamps that are not in microseconds, 1 a minute"
                    .to_owned()
            )]
        );
    }

    #[test]
    fn a_few_writes_are_one_step_less() {
        let ahead = |ahead| WriteTimes {
            ahead,
            most_ahead_us: 3_600_000_000,
            ..WriteTimes::default()
        };
        assert_eq!(found(ahead(10))[0].0, Severity::High);
        assert_eq!(found(ahead(9))[0].0, Severity::Medium);
    }

    #[test]
    fn the_present_and_the_past_are_fine() {
        let stated = WriteTimes {
            stated: 60,
            ..WriteTimes::default()
        };
        assert_eq!(found(stated), []);
    }
}
