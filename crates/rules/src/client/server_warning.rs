//! Warnings that the server attached to its answers.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{About, Findings, Patterns, Severity, application, by_application, user_statements};
use crate::{
    Context, EvidenceValue, Finding, Rule, WarningClass,
    figures::{at_rate, share},
};
use cqlens_window::{Pattern, Warned, number};

pub(crate) struct ServerWarning;

impl Rule for ServerWarning {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let warned = user_statements(context).filter(|(_, pattern)| others(pattern) > 0);
        for (application, patterns) in by_application(warned) {
            let warnings = application::sum(&patterns, others);
            found.push(finding(warnings, (&application, patterns), context));
        }
    }
}

/// Warnings that do not speak of tombstones: those have a rule of their own.
fn others(pattern: &Pattern) -> u64 {
    pattern.warnings.saturating_sub(pattern.tombstones.warned)
}

fn finding(warnings: u64, (application, patterns): (&str, Patterns<'_>), context: &Context<'_>) -> Finding {
    let whom = match application {
        "" => "clients".to_owned(),
        name => format!("`{name}`"),
    };
    let told = told(&patterns);
    let of = match told.first() {
        Some(warning) => warning.subject(),
        None => application::on_tables(&patterns),
    };
    let others = match told.len() {
        0 | 1 => String::new(),
        several => format!(
            " and {}",
            number::plural(several as u64 - 1, "other problem", "other problems")
        ),
    };
    let title = format!(
        "The server warns {whom} of {of}{others}: {}{}",
        number::plural(warnings, "warning", "warnings"),
        at_rate(warnings, application::watch(&patterns, context))
    );
    let executions = application::sum(&patterns, |pattern| pattern.count);
    let finding = application::finding(&ABOUT, Severity::Info, (application, patterns), context).title(title);
    let finding = match told.is_empty() {
        true => finding,
        false => finding.first("warning_classes", EvidenceValue::Warnings(told)),
    };
    finding
        .first("warnings_share", share(warnings, executions))
        .first("warnings", warnings)
}

/// What the server warned of, the most frequent first.
fn told(patterns: &Patterns<'_>) -> Vec<WarningClass> {
    let mut classes: BTreeMap<&str, Warned> = BTreeMap::new();
    for (class, warned) in patterns.iter().flat_map(|(_, pattern)| &pattern.warned) {
        let all = classes.entry(class).or_default();
        all.times += warned.times;
        all.largest = all.largest.max(warned.largest);
    }
    let mut told: Vec<_> = classes
        .into_iter()
        .map(|(class, warned)| WarningClass::of(class, warned))
        .collect();
    // By class where there are as many of several.
    told.sort_by_key(|warning| Reverse(warning.warnings));
    told
}

const ABOUT: About = About {
    id: "server-warning",
    group: "client habits",
    summary: "The server attaches warnings to its responses, which may go unread.",
    why: "\
        Cassandra warns of batches that are large or span many partitions, of aggregates without a partition \
        key, and of anything its guardrails are configured to warn of. The warning comes with the response, \
        the driver logs it at best, and a guardrail's next step is to refuse the request.",
    fix: "\
        Treat each warning as a refusal to come: above the warning threshold there is usually another one at \
        which the server refuses. The other findings on the same table mostly explain the warning.",
    fix_in_short: "Stay below thresholds",
    before: "SELECT COUNT(*) FROM shop.orders;",
    after: "SELECT COUNT(*) FROM shop.orders_by_day WHERE placed = ?;",
    severity: "Always info: other rules judge the cause. The statements of one application are one finding.",
    severities: &[Severity::Info],
    thresholds: &[],
    needs: "\
        Protocol version 4 or later. cqlens keeps the kind of each warning and its figure, but not the text, \
        which quotes the statement with its values. Guardrails never warn superusers.",
    source: "native protocol v4 §2.2, the warning flag; Cassandra class `ClientWarn`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn warned(warnings: u64) -> Pattern {
        let cql = "SELECT at FROM shop.events WHERE sensor = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, 600);
        pattern.warnings = warnings;
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&ServerWarning, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn warnings_are_worth_knowing_however_many_there_are() {
        assert_eq!(severity(warned(1)), Some(Severity::Info));
        let all = run(&ServerWarning, &window([warned(600_000)]));
        assert_eq!(all.findings[0].severity, Severity::Info);
    }

    #[test]
    fn warnings_of_tombstones_have_a_rule_of_their_own() {
        let mut tombstones = warned(60);
        tombstones.tombstones.warned = 60;
        assert_eq!(severity(tombstones), None);
        assert_eq!(severity(warned(0)), None);
    }

    #[test]
    fn the_title_says_what_the_server_said() {
        let mut pattern = warned(60);
        let class = |times, largest| Warned { times, largest };
        pattern.count_warned("batch size", class(50, 61_440));
        pattern.count_warned("guardrail page_size", class(10, 0));
        let judgement = run(&ServerWarning, &window([pattern]));
        let finding = &judgement.findings[0];
        assert_eq!(
            finding.title,
            "The server warns clients of batches of up to 60 KiB (`batch_size_warn_threshold`) and 1 \
                other problem: 60 warnings, 1 a minute"
        );
        let (_, classes) = finding
            .evidence
            .iter()
            .find(|(name, _)| *name == "warning_classes")
            .unwrap();
        assert_eq!(
            serde_json::to_value(classes).unwrap(),
            serde_json::json!([
                {"class": "batch-size", "warnings": 50, "largest_bytes": 61_440},
                {"class": "guardrail", "guardrail": "page_size", "warnings": 10},
            ])
        );
        assert_eq!(
            classes.words(),
            "batches of up to 60 KiB (`batch_size_warn_threshold`) (50); the guardrail `page_size` (10)"
        );
    }

    #[test]
    fn the_title_counts_them() {
        let judgement = run(&ServerWarning, &window([warned(60)]));
        assert_eq!(
            judgement.findings[0].title,
            "The server warns clients of 1 statement on `shop.events`: 60 warnings, 1 a minute"
        );
    }
}
