//! Warnings that the server attached to its answers.

use super::{About, Finding, Findings, Severity, executions, user_statements};
use crate::{
    number,
    rules::{
        Rule,
        figures::{OFTEN_PER_SECOND, often, per_hour, share, table},
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::schema::Schema;

pub(in crate::rules) struct ServerWarning;

impl Rule for ServerWarning {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_statements(window).filter(|(_, pattern)| others(pattern) > 0) {
            let often = found.threshold(&ABOUT, &OFTEN_PER_SECOND) * 3_600.0;
            let is_often = per_hour(others(pattern), window) >= often;
            let severity = if is_often { Severity::Low } else { Severity::Info };
            found.push(finding(severity, id, pattern, window));
        }
    }
}

/// Warnings that do not speak of tombstones: those have a rule of their own.
fn others(pattern: &Pattern) -> u64 {
    pattern.warnings.saturating_sub(pattern.tombstones.warned)
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let warnings = others(pattern);
    let title = format!(
        "The server warns of {} {}: {}{}",
        executions(pattern).to_lowercase(),
        table(pattern),
        number::plural(warnings, "warning", "warnings"),
        often(warnings, window)
    );
    Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .first("warnings_share", share(warnings, pattern.count))
        .first("warnings", warnings)
}

const ABOUT: About = About {
    id: "server-warning",
    group: "client habits",
    summary: "The server attaches warnings to its answers, and nobody may be reading them.",
    why: "\
        Cassandra warns of batches that are large or span many partitions, of aggregates without a partition \
        key, and of whatever guardrails were set to warn. A warning comes with the answer, the driver logs it \
        at best, and the next step of a guardrail is to refuse.",
    fix: "\
        Read the warnings in the driver's log: they name the table and the threshold. What the server says of \
        a statement, the other findings on the same pattern mostly explain.",
    before: "SELECT COUNT(*) FROM shop.orders;",
    after: "SELECT COUNT(*) FROM shop.orders_by_day WHERE placed = ?;",
    severity: "Info; low from `often_per_second` warnings a second. What they warn of is judged by other rules.",
    thresholds: &[OFTEN_PER_SECOND],
    needs: "\
        Protocol version 4 or later. The texts are counted and not kept, since they quote the statement with \
        its values. Guardrails never warn superusers.",
    source: "native protocol v4 §2.2, the warning flag; Cassandra class `ClientWarn`",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn warned(warnings: u64) -> Pattern {
        let cql = "SELECT at FROM shop.events WHERE sensor = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, 600);
        pattern.warnings = warnings;
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&ServerWarning, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn warnings_are_worth_knowing_and_many_a_second_are_low() {
        assert_eq!(severity(warned(1)), Some(Severity::Info));
        assert_eq!(severity(warned(359_999)), Some(Severity::Info));
        assert_eq!(severity(warned(360_000)), Some(Severity::Low));
    }

    #[test]
    fn warnings_of_tombstones_have_a_rule_of_their_own() {
        let mut tombstones = warned(60);
        tombstones.tombstones.warned = 60;
        assert_eq!(severity(tombstones), None);
        assert_eq!(severity(warned(0)), None);
    }

    #[test]
    fn the_title_counts_them() {
        let judgement = run(&ServerWarning, &window([warned(60)]));
        assert_eq!(
            judgement.findings[0].title,
            "The server warns of reads of `shop.events`: 60 warnings, 1 a minute"
        );
    }
}
