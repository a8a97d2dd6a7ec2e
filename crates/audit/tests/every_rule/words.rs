//! The words of the rules: what their pages, thresholds and findings say is in the field's own terms (see CONTRIBUTING.md).
//! Stricter than for the documentation: a rule's text has no reason to personify a table, a client or a server.

use cqlens_rules::{RULES, SEVERITY_THRESHOLDS, Threshold};

use crate::{FOUND, avoided};

/// Whole words and phrases that no text of a rule has, and what it has instead.
const REFUSED: [(&[&str], &str); 14] = [
    (&["ask", "asks", "asked", "asking"], "query, read, request, use"),
    (&["answer", "answers", "answering"], "response, result, respond"),
    (&["tell", "tells", "told"], "report, distinguish"),
    (
        &["nobody", "everybody", "somebody"],
        "name the client or use the passive",
    ),
    (&["speaks", "speaks of"], "cover, report"),
    (&["anew"], "again"),
    (&["dearer"], "more expensive"),
    (&["for ever"], "forever"),
    (&["a hop more", "a node more"], "an extra hop, an extra node"),
    (&["belong into", "belongs into"], "belongs in, put into"),
    (&["and the like"], "and similar"),
    (
        &["looked at", "looked into", "looks at"],
        "sampled, checked, audited",
    ),
    (&["as it passes"], "during the observation"),
    (&["without need"], "unnecessarily"),
];

/// What the list of all texts and that of the rules refuse in this one. CQL is not prose.
fn complaints(place: &str, text: &str) -> Vec<String> {
    let prose = without_code(text);
    let mut found = avoided::complaints(place, &prose);
    let lower = format!(
        " {} ",
        prose
            .to_lowercase()
            .replace(|letter: char| !letter.is_alphanumeric(), " ")
    );
    for (words, instead) in REFUSED {
        let said = words.iter().filter(|word| lower.contains(&format!(" {word} ")));
        found.extend(said.map(|word| format!("{place}: \"{word}\" is {instead}")));
    }
    // A condition is an `if`; `where` is for places, and for WHERE.
    if prose.starts_with("Where ") || prose.contains(". Where ") {
        found.push(format!(
            "{place}: a sentence begins with \"Where\" in place of \"If\""
        ));
    }
    found
}

/// The text without what stands between backticks, such as names of settings.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
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

/// A title is a clause without a full stop, a summary one sentence with it, and advice whole sentences.
#[test]
fn titles_summaries_and_advice_have_their_shape() {
    let mut found = Vec::new();
    for about in RULES.iter().map(|rule| rule.about()) {
        for text in [about.summary, about.why, about.fix, about.severity, about.needs] {
            if !text.ends_with('.') || !text.starts_with(|first: char| !first.is_lowercase()) {
                found.push(format!("{}: no sentence: {text}", about.id));
            }
        }
        if about.summary.contains(". ") {
            found.push(format!("{}: a summary is one sentence", about.id));
        }
        let origins = about.thresholds.iter().map(|threshold| threshold.origin);
        found.extend(
            origins
                .filter(|origin| origin.ends_with('.'))
                .map(|origin| format!("{}: an origin has no full stop: {origin}", about.id)),
        );
    }
    for finding in FOUND.iter().flatten() {
        if finding.title.ends_with('.') || finding.title.starts_with(char::is_lowercase) {
            found.push(format!("title of {}: {}", finding.rule, finding.title));
        }
        if !finding.advice.ends_with('.') {
            found.push(format!("advice of {}: {}", finding.rule, finding.advice));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_is_refused_is_named_and_code_is_left_alone() {
    assert_eq!(
        complaints("a", "The index is asked, `answers` are not."),
        ["a: \"asked\" is query, read, request, use"]
    );
    assert_eq!(
        complaints("a", "Low. Where updates come, medium."),
        ["a: a sentence begins with \"Where\" in place of \"If\""]
    );
    assert_eq!(complaints("a", "A task that reads `asks`."), [""; 0]);
}

#[test]
fn titles_and_advice_are_in_the_fields_own_words() {
    let mut found = Vec::new();
    for finding in FOUND.iter().flatten() {
        found.extend(complaints(&format!("title of {}", finding.rule), &finding.title));
        found.extend(complaints(
            &format!("advice of {}", finding.rule),
            &finding.advice,
        ));
    }
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
