//! Writes whose timestamp is not the time at which they are written.

use super::{About, Findings, Patterns, Severity, Threshold, application, by_application, user_statements};
use crate::{
    number,
    rules::{Context, Finding, Rule, figures::often, severity::Impact},
    window::{Pattern, WriteTimes},
};

pub(in crate::rules) struct FutureTimestamp;

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
    origin: "cassandra.yaml `maximum_timestamp_warn_threshold`, which is off by default: a minute is no drift of a clock",
};

const ABOUT: About = About {
    id: "future-timestamp",
    group: "client habits",
    summary: "Writes carry timestamps of the future, or in another unit than microseconds.",
    why: "\
        Of two values of a cell the one with the higher timestamp stays, whenever it came. What was written with a time of the future cannot be \
        overwritten or deleted until then, without any error; milliseconds where microseconds are meant lose against every other write, \
        nanoseconds win for thousands of years.",
    fix: "\
        Synchronise the clocks of clients (chrony, ntpd): drivers set timestamps by them. Leave `USING TIMESTAMP` to loads that replay history, \
        in microseconds since 1970. What was written wrongly has to be deleted with a timestamp that is as high.",
    before: "-- milliseconds\nINSERT INTO shop.orders (id, total) VALUES (?, ?) USING TIMESTAMP 1795000000000;",
    after: "-- the server or the driver sets the time\nINSERT INTO shop.orders (id, total) VALUES (?, ?);",
    severity: "\
        High from `far_ahead_seconds` or in another unit, else medium: more than a second is no difference between clocks that are kept. \
        What it costs does not matter, since writes are lost; a few writes are one step less.",
    thresholds: &[FAR_AHEAD],
    needs: "Requests: their timestamp or that of `USING TIMESTAMP`, beside the clock of cqlens.",
    source: "Cassandra guardrail `maximum_timestamp` (5.0); native protocol v4 §4.1.4, default timestamp",
};

const _: () = assert!(WriteTimes::TOLERATED_US == 1_000_000, "the page says a second");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{run, window, write};
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
