//! Statements that are sent as text again and again.

use super::{About, Finding, Findings, Severity, executions, user_statements};
use crate::{
    number,
    rules::{
        Rule,
        figures::{OFTEN_PER_SECOND, STEADY_PER_HOUR, by_load, often, share, table},
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::schema::Schema;

pub(in crate::rules) struct UnpreparedStatement;

impl Rule for UnpreparedStatement {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_statements(window) {
            let severity = by_load(found, &ABOUT, pattern.unprepared, window);
            // What is sent now and then is not worth preparing.
            if severity > Severity::Info {
                found.push(finding(severity, id, pattern, window));
            }
        }
    }
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let share = share(pattern.unprepared, pattern.count);
    let title = format!(
        "{} {} are sent as text instead of prepared: {} of them{}",
        executions(pattern),
        table(pattern),
        number::percent(share),
        often(pattern.unprepared, window)
    );
    Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .first("prepared", pattern.prepared)
        .first("unprepared_share", share)
        .first("unprepared", pattern.unprepared)
        .suggest([format!("-- prepare once, bind the values\n{};", pattern.head.cql)])
}

const ABOUT: About = About {
    id: "unprepared-statement",
    group: "client habits",
    summary: "A statement is sent as text each time instead of being prepared once.",
    why: "\
        The coordinator parses and checks the text for every execution. Worse, the driver does not know which \
        values are the partition key, so it cannot send the request to a replica: every one takes a hop more. \
        Where values are written into the text, what a user typed becomes part of the statement.",
    fix: "Prepare the statement once when the application starts, and bind the values.",
    before: "SELECT name FROM shop.users WHERE id = 7;\nSELECT name FROM shop.users WHERE id = 8;",
    after: "-- prepared once\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        Low from `steady_per_hour` executions an hour that were sent as text, medium from `often_per_second` \
        a second. Below, nothing.",
    thresholds: &[STEADY_PER_HOUR, OFTEN_PER_SECOND],
    needs: "Requests: QUERY and EXECUTE tell.",
    source: "\
        Scylla Monitoring, CQL optimization: non-prepared statements; native protocol v4 §4.1.5, PREPARE",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn as_text(times: u64) -> Pattern {
        let cql = "SELECT name FROM shop.users WHERE id = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, times);
        (pattern.prepared, pattern.unprepared) = (0, times);
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&UnpreparedStatement, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_rate() {
        assert_eq!(severity(as_text(59)), None);
        assert_eq!(severity(as_text(60)), Some(Severity::Low));
        assert_eq!(severity(as_text(360_000)), Some(Severity::Medium));
    }

    #[test]
    fn prepared_statements_and_drivers_own_are_fine() {
        let cql = "SELECT name FROM shop.users WHERE id = ?";
        assert_eq!(severity(read(cql, &[], PartitionClass::Single, 1_000_000)), None);
        let mut system = as_text(1_000_000);
        system.head.system = true;
        assert_eq!(severity(system), None);
    }

    #[test]
    fn the_title_says_which_part_is_not_prepared() {
        let mut half = as_text(60);
        half.count = 120;
        half.prepared = 60;
        let judgement = run(&UnpreparedStatement, &window([half]));
        assert_eq!(
            judgement.findings[0].title,
            "Reads of `shop.users` are sent as text instead of prepared: 50 % of them, 1 a minute"
        );
    }
}
