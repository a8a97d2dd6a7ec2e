//! The words of the rules: what their pages, thresholds and findings say is in the field's own terms (see CONTRIBUTING.md).

use cqlens_audit::rules::{RULES, SEVERITY_THRESHOLDS, Threshold};

use crate::cases;

/// What no text says, and what it says instead.
const AVOIDED: [(&str, &str); 12] = [
    ("asked by", "queried by"),
    ("whoever", "the client, the writer"),
    ("somebody", "the client, the application"),
    ("lately", "recently, in the last minutes"),
    (" bears ", "accepts"),
    (" bear ", "accept"),
    ("all the same", "still, nevertheless"),
    ("answers nothing", "returns nothing"),
    ("answer nothing", "return nothing"),
    ("different values", "distinct values"),
    ("different partitions", "distinct partitions"),
    ("different keys", "distinct keys"),
];

/// Words of "to tell … apart", which is "to distinguish" or "to identify".
const TELL: [&str; 4] = ["tell ", "tells ", "told ", "telling "];

/// What a text says that another word says better.
fn complaints(place: &str, text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let avoided = AVOIDED.iter().filter(|(words, _)| text.contains(words));
    let mut complaints: Vec<_> = avoided
        .map(|(words, instead)| format!("{place}: \"{words}\" is {instead}"))
        .collect();
    let mut clauses = text.split(['.', ';', ':']);
    if clauses.any(|clause| clause.contains(" apart") && TELL.iter().any(|word| clause.contains(word))) {
        complaints.push(format!("{place}: \"tell … apart\" is distinguish, identify"));
    }
    complaints
}

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

#[test]
fn words_that_are_avoided_are_named_with_better_ones() {
    let said = |text| complaints("a", text);
    assert_eq!(
        said("A table that is asked by city."),
        ["a: \"asked by\" is queried by"]
    );
    assert_eq!(
        said("What tells rows apart."),
        ["a: \"tell … apart\" is distinguish, identify"]
    );
    assert_eq!(said("No error tells. Keep large values apart."), [""; 0]);
}
