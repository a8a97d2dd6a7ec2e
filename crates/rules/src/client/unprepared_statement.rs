//! Statements that are sent as text again and again.

use super::{About, Findings, Patterns, Severity, application, by_application, user_statements};
use crate::{
    Context, Finding, Rule,
    example::commented,
    figures::{often, share},
    read::is_sweep,
};
use cqlens_window::{Pattern, number};

pub(crate) struct UnpreparedStatement;

impl Rule for UnpreparedStatement {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // Each piece of a walk over a table is sent once.
        let as_text = |pattern: &Pattern| pattern.unprepared > 0 && !is_sweep(pattern);
        let statements = user_statements(context).filter(|(_, pattern)| as_text(pattern));
        for (application, patterns) in by_application(statements) {
            let times = application::sum(&patterns, |pattern| pattern.unprepared);
            let impact = application::impact(Severity::Low, &patterns).times(times);
            let severity = context.severity(found, &impact.at_most(Severity::Medium));
            // What is sent now and then is not worth preparing.
            if severity > Severity::Info {
                found.push(finding(severity, times, (&application, patterns), context));
            }
        }
    }
}

fn finding(
    severity: Severity,
    times: u64,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let executions = application::sum(&patterns, |pattern| pattern.count);
    let share = share(times, executions);
    let title = format!(
        "{} sends {} as text, not prepared: {} of the executions{}",
        application::subject(application, context),
        application::on_tables(&patterns),
        number::percent(share),
        often(times, application::watch(&patterns, context))
    );
    let finding = application::finding(&ABOUT, severity, (application, patterns), context);
    let costliest = finding.patterns.first();
    let costliest = costliest.and_then(|id| context.window.patterns.get(id));
    let prepared =
        costliest.map(|pattern| format!("-- prepare once, bind the values\n{};", pattern.head.cql));
    finding
        .title(title)
        .first("prepared", executions.saturating_sub(times))
        .first("unprepared_share", share)
        .first("unprepared", times)
        .suggest(prepared)
}

const ABOUT: About = About {
    id: "unprepared-statement",
    group: "client habits",
    summary: "A statement is sent as text for each execution instead of being prepared once.",
    why: "The coordinator parses and checks the text for every execution. Worse, the driver cannot identify \
        the partition key values and so cannot route the request to a replica: every request takes an extra \
        hop. If values are written into the text, user input becomes part of the statement.",
    fix: "Prepare the statement once when the application starts, and bind the values.",
    fix_in_short: "Prepare it",
    before: "SELECT name FROM shop.users WHERE id = 7;\nSELECT name FROM shop.users WHERE id = 8;",
    after: "-- prepared once\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        Low, medium at most; findings that would be info, because they take next to none of the time and \
        work, are left out. The statements of one application are one finding.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "Requests: QUERY or EXECUTE.",
    source: "\
        Scylla Monitoring, CQL optimization: non-prepared statements; native protocol v4 §4.1.5, PREPARE",
    cause: None,
    quantity: None,
    rewrite: Some(|patterns, _| {
        commented(
            patterns,
            "parsed by the server each time",
            "prepared once when the application starts, then executed with values",
        )
    }),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn as_text(times: u64) -> Pattern {
        let cql = "SELECT name FROM shop.users WHERE id = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, times);
        (pattern.prepared, pattern.unprepared) = (0, times);
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&UnpreparedStatement, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn it_is_low_and_nothing_where_it_costs_nothing() {
        assert_eq!(severity(as_text(100)), Some(Severity::Low));
        assert_eq!(run(&UnpreparedStatement, &window([as_text(60)])).findings, []);
        let all = run(&UnpreparedStatement, &window([as_text(360_000)]));
        assert_eq!(all.findings[0].severity, Severity::Medium);
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
        let mut half = as_text(120);
        (half.prepared, half.unprepared) = (60, 60);
        let judgement = run(&UnpreparedStatement, &amid([half]));
        assert_eq!(
            judgement.findings[0].title,
            "A client sends 1 statement on `shop.users` as text, not prepared: 50 % of the executions, 1 a second"
        );
    }
}
