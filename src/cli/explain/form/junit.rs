//! JUnit XML: a suite for each input, a test case for each remark, and one that passes for an input without any.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cqlens_report::text;

use crate::cli::explain::print::{KeptRemarks, PlacedRemark};
use crate::cli::explain::remark::RemarkLevel;

pub(super) fn write(
    kept: &KeptRemarks,
    fails: &dyn Fn(RemarkLevel) -> bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut by_file: BTreeMap<&str, Vec<&PlacedRemark>> = BTreeMap::new();
    for file in &kept.inputs {
        by_file.entry(file).or_default();
    }
    for placed in &kept.remarks {
        by_file.entry(&placed.file).or_default().push(placed);
    }
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites name=\"cqlens\">")?;
    for (file, remarks) in by_file {
        write_suite(file, &remarks, fails, out)?;
    }
    writeln!(out, "</testsuites>")
}

fn write_suite(
    file: &str,
    remarks: &[&PlacedRemark],
    fails: &dyn Fn(RemarkLevel) -> bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let is_error = |placed: &&&PlacedRemark| placed.remark.level == RemarkLevel::Error;
    let errors = remarks.iter().filter(is_error).count();
    let failing = remarks.iter().filter(|placed| fails(placed.remark.level)).count();
    writeln!(
        out,
        "  <testsuite name=\"{}\" tests=\"{}\" errors=\"{errors}\" failures=\"{}\">",
        attribute(file),
        remarks.len().max(1),
        failing - errors
    )?;
    if remarks.is_empty() {
        let file = attribute(file);
        writeln!(out, "    <testcase name=\"{file}\" classname=\"cqlens\"/>")?;
    }
    for placed in remarks {
        write_case(placed, fails, out)?;
    }
    writeln!(out, "  </testsuite>")
}

fn write_case(
    placed: &PlacedRemark,
    fails: &dyn Fn(RemarkLevel) -> bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let remark = &placed.remark;
    let (line, column) = (placed.start.line, placed.start.column);
    let file = attribute(&placed.file);
    let element = match remark.level {
        RemarkLevel::Error => "error",
        level if fails(level) => "failure",
        _ => "system-out",
    };
    let message = match element {
        "system-out" => String::new(),
        _ => format!(
            " message=\"{}\" type=\"{}\"",
            attribute(&remark.sentence()),
            remark.level.as_str()
        ),
    };
    let name = attribute(&format!("{} ({})", remark.id, remark.level.as_str()));
    writeln!(
        out,
        "    <testcase name=\"{name} {file}:{line}:{column}\" classname=\"cqlens.{}\" file=\"{file}\" line=\"{line}\">",
        remark.id
    )?;
    let place = format!("{}:{line}:{column}: {}", placed.file, remark.sentence());
    let body = content(&place, &[&placed.cql, &remark.help()]);
    writeln!(out, "      <{element}{message}>{body}</{element}>")?;
    writeln!(out, "    </testcase>")
}

/// Text between elements: the place in one line, texts behind a margin. A job may print the file, and its platform takes a line
/// that begins with `::error::` for a command, even after blanks. Control characters, which XML does not have, and
/// those that cannot be seen become escapes.
fn content(place: &str, texts: &[&str]) -> String {
    let lines = texts.iter().flat_map(|text| text.lines());
    let lines = lines.map(|line| format!("\n| {}", in_xml(line)));
    in_xml(place) + &lines.collect::<String>()
}

/// The value of an attribute, in one line.
fn attribute(text: &str) -> String {
    in_xml(text)
}

fn in_xml(line: &str) -> String {
    let line = text::escaped(line);
    let mut escaped = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::hostile;
    use super::*;

    #[test]
    fn hostile_texts_are_xml_and_say_what_they_said() {
        let mut out = Vec::new();
        write(&hostile(), &|level| level == RemarkLevel::Error, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let document = roxmltree::Document::parse(&text).unwrap();
        let suites: Vec<_> = document
            .descendants()
            .filter(|node| node.has_tag_name("testsuite"))
            .map(|suite| ["name", "tests", "errors", "failures"].map(|name| suite.attribute(name).unwrap()))
            .collect();
        assert_eq!(
            suites,
            [
                ["./second.cql", "1", "1", "0"],
                ["a b,c:d%/<x>.cql", "1", "0", "0"],
                ["clean\\u{1b}.cql", "1", "0", "0"],
            ]
        );
        let said = document
            .descendants()
            .find(|node| node.has_tag_name("system-out"))
            .unwrap();
        let said = said.text().unwrap();
        assert!(said.contains("SELECT ']]>' \\u{1b}[2J \\u{0};"), "{said}");
        assert!(said.contains("SELECT '\\u{202e}\\u{0}<&>' FROM kv"), "{said}");
    }

    /// The attack: a file name and a text with line breaks, in a job that prints the file.
    #[test]
    fn no_line_begins_with_what_others_wrote() {
        let mut kept = hostile();
        for placed in &mut kept.remarks {
            placed.file = "a\n::error::b.cql".into();
            placed.cql = "SELECT\n::error::c\r\n  ::stop-commands::d".to_owned();
        }
        for fails in [true, false] {
            let mut out = Vec::new();
            write(&kept, &|level| fails || level == RemarkLevel::Error, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains("\n| ::error::c\n|   ::stop-commands::d"), "{text}");
            for line in text.lines() {
                assert!(
                    line.starts_with("| ") || line.trim_start().starts_with('<'),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn what_fails_the_job_is_a_failure() {
        let mut out = Vec::new();
        write(&hostile(), &|_| true, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains(
                "<failure message=\"A &quot;title&quot;, 100 %\\r\\n::set-env::x\" type=\"medium\">"
            ),
            "{text}"
        );
        assert!(!text.contains("system-out"), "{text}");
    }
}
