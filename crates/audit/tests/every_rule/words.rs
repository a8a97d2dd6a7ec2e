//! The words of the rules: what their pages, thresholds and findings say is in the field's own terms (see CONTRIBUTING.md).

use cqlens_audit::rules::{RULES, SEVERITY_THRESHOLDS, Threshold};

use crate::{avoided::complaints, cases};

fn of_threshold(place: &str, threshold: &Threshold) -> Vec<String> {
    let place = format!("{place}, {}", threshold.name);
    [threshold.unit, threshold.origin]
        .iter()
        .flat_map(|text| complaints(&place, text))
        .collect()
}

#[test]
fn the_pages_of_rules_are_in_the_fields_own_words() {
    let mut found = Vec::new();
    for about in RULES.iter().map(|rule| rule.about()) {
        for text in [about.summary, about.why, about.fix, about.severity, about.needs] {
            found.extend(complaints(about.id, text));
        }
        found.extend(
            about
                .thresholds
                .iter()
                .flat_map(|threshold| of_threshold(about.id, threshold)),
        );
    }
    found.extend(
        SEVERITY_THRESHOLDS
            .iter()
            .flat_map(|threshold| of_threshold("severity", threshold)),
    );
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn titles_and_advice_are_in_the_fields_own_words() {
    let mut found = Vec::new();
    for case in cases::all() {
        for finding in case.guilty.sent().findings(case.seconds) {
            found.extend(complaints(&format!("title of {}", finding.rule), &finding.title));
            found.extend(complaints(
                &format!("advice of {}", finding.rule),
                &finding.advice,
            ));
        }
    }
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
