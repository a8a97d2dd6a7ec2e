//! SARIF 2.1.0, the form of code scanning services and editors.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use cqlens_cql::syntax::Template;
use cqlens_report::text::Lines;
use cqlens_rules::Severity;
use serde_json::{Value, json};

use crate::cli::explain::input::STANDARD_INPUT;
use crate::cli::explain::print::{KeptRemarks, PlacedRemark};
use crate::cli::explain::remark::RemarkLevel;

pub(super) fn write(kept: &KeptRemarks, out: &mut impl Write) -> io::Result<()> {
    let ids: BTreeSet<&'static str> = kept.remarks.iter().map(|placed| placed.remark.id).collect();
    let ids: Vec<_> = ids.into_iter().collect();
    let mut seen = BTreeMap::new();
    let results: Vec<_> = kept
        .remarks
        .iter()
        .map(|placed| result(placed, &ids, &mut seen))
        .collect();
    let rules: Vec<_> = ids.iter().copied().map(rule).collect();
    let document = json!({
        "version": "2.1.0",
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "runs": [{
            "tool": {"driver": {"name": "cqlens", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    serde_json::to_writer_pretty(Lines::of_json(&mut *out), &document)?;
    out.write_all(b"\n")
}

/// A rule, or a stage at which statements are refused.
fn rule(id: &'static str) -> Value {
    let Some(about) = cqlens_rules::find(id).map(|rule| rule.about()) else {
        return json!({
            "id": id,
            "shortDescription": {"text": error(id)},
            "defaultConfiguration": {"level": "error"},
        });
    };
    let help = format!("{}\n\n{}\n\nSource: {}", about.why, about.fix, about.source);
    let markdown = format!(
        "{}\n\n{}\n\n```sql\n{}\n```\n\nBetter:\n\n```sql\n{}\n```\n\nSource: {}",
        about.why, about.fix, about.before, about.after, about.source
    );
    json!({
        "id": id,
        "shortDescription": {"text": plain(about.summary)},
        "fullDescription": {"text": plain(about.why)},
        "help": {"text": plain(&help), "markdown": plain(&markdown)},
        "properties": {"tags": [about.group]},
    })
}

fn error(id: &str) -> &'static str {
    match id {
        "parse" => "The text is not CQL.",
        "definition" => "The definition conflicts with the schema.",
        "bind" => "Cassandra would reject a value.",
        _ => "Cassandra would reject the statement.",
    }
}

fn result(placed: &PlacedRemark, ids: &[&str], seen: &mut BTreeMap<(String, String), usize>) -> Value {
    let remark = &placed.remark;
    let sentences = [remark.sentence()]
        .into_iter()
        .chain(remark.advice.iter().cloned());
    let text = sentences.collect::<Vec<_>>().join("\n");
    let (start, end) = (placed.start, placed.end);
    json!({
        "ruleId": remark.id,
        "ruleIndex": ids.binary_search(&remark.id).unwrap_or_default(),
        "level": level(remark.level),
        "message": {"text": plain(&text)},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": uri(&placed.file)},
            "region": {
                "startLine": start.line,
                "startColumn": start.column,
                "endLine": end.line,
                "endColumn": end.column,
            },
        }}],
        "partialFingerprints": {"cqlensFinding/v1": fingerprint(placed, seen)},
        "properties": {
            "severity": remark.level.as_str(),
            "cql": placed.cql,
            "suggested_cql": remark.suggested_cql,
        },
    })
}

/// The text of a message, in which braces stand for arguments (§3.11.5) and `[text](address)` for a link (§3.11.6).
fn plain(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}").replace("](", "] (")
}

fn level(level: RemarkLevel) -> &'static str {
    match level {
        RemarkLevel::Error | RemarkLevel::Finding(Severity::High) => "error",
        RemarkLevel::Finding(Severity::Medium) => "warning",
        RemarkLevel::Finding(Severity::Low | Severity::Info) => "note",
    }
}

/// What identifies a result from run to run, wherever in its file it stands: its rule and what that speaks of, or the words
/// of the statement. The second of the same kind in a file ends with `:2`.
fn fingerprint(placed: &PlacedRemark, seen: &mut BTreeMap<(String, String), usize>) -> String {
    let remark = &placed.remark;
    let subject = match remark.subject.as_str() {
        "" => Template::unparsed(&placed.cql).fingerprint.to_string(),
        subject => subject.to_owned(),
    };
    let print = format!("{}/{subject}", remark.id);
    let times = seen
        .entry((placed.file.to_string(), print.clone()))
        .and_modify(|times| *times += 1)
        .or_insert(1);
    format!("{print}:{times}")
}

/// A relative path as a relative reference, an absolute one as a URI.
fn uri(file: &str) -> String {
    if file == STANDARD_INPUT {
        return "stdin".to_owned();
    }
    let path = file.strip_prefix("./").unwrap_or(file);
    let mut uri = String::with_capacity(path.len());
    if path.starts_with('/') {
        uri.push_str("file://");
    }
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::hostile;
    use super::*;

    fn written(kept: &KeptRemarks) -> Value {
        let mut out = Vec::new();
        write(kept, &mut out).unwrap();
        assert!(!out.contains(&0x1b) && !out.contains(&0));
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn paths_are_uris_and_texts_are_read_back_as_they_were() {
        let sarif = written(&hostile());
        let results = &sarif["runs"][0]["results"];
        let uri = |at: usize| &results[at]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert_eq!(uri(0), "a%20b%2Cc%3Ad%25/%3Cx%3E.cql");
        assert_eq!(uri(1), "second.cql");
        let suggested = results[0]["properties"]["suggested_cql"][0].as_str().unwrap();
        assert!(suggested.contains("\u{1b}[2J"), "{suggested}");
        assert_eq!(plain("{0} [here](https://x)"), "{{0}} [here] (https://x)");
        assert_eq!(
            (&results[0]["level"], &results[1]["level"]),
            (&json!("warning"), &json!("error"))
        );
        let rules = &sarif["runs"][0]["tool"]["driver"]["rules"];
        for result in results.as_array().unwrap() {
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(rules[index]["id"], result["ruleId"]);
        }
        assert_eq!(super::uri("/a/b.cql"), "file:///a/b.cql");
    }

    #[test]
    fn a_fingerprint_outlives_a_move_and_tells_equals_apart() {
        let mut kept = hostile();
        let before = written(&kept);
        kept.remarks[0].start.line += 10;
        kept.remarks.swap(0, 1);
        let after = written(&kept);
        let print = |sarif: &Value, at: usize| sarif["runs"][0]["results"][at]["partialFingerprints"].clone();
        assert_eq!(print(&before, 0), print(&after, 1));
        let again = hostile().remarks.remove(0);
        kept.remarks.push(again);
        let twice = written(&kept);
        assert_ne!(print(&twice, 1), print(&twice, 2));
    }
}
