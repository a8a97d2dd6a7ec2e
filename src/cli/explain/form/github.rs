//! Workflow commands of GitHub Actions: `::warning file=…,line=…::…`, one a line.

use std::io::{self, Write};

use cqlens_report::text;
use cqlens_rules::Severity;

use crate::cli::explain::input::STANDARD_INPUT;
use crate::cli::explain::print::{KeptRemarks, PlacedRemark};
use crate::cli::explain::remark::RemarkLevel;

pub(super) fn write(kept: &KeptRemarks, out: &mut impl Write) -> io::Result<()> {
    for placed in &kept.remarks {
        write_command(placed, out)?;
    }
    Ok(())
}

fn write_command(placed: &PlacedRemark, out: &mut impl Write) -> io::Result<()> {
    let remark = &placed.remark;
    let (start, end) = (placed.start, placed.end);
    write!(out, "::{} ", command(remark.level))?;
    if *placed.file != *STANDARD_INPUT {
        let file = placed.file.strip_prefix("./").unwrap_or(&placed.file);
        write!(out, "file={},", property(file))?;
    }
    write!(out, "line={},endLine={}", start.line, end.line)?;
    // Columns of several lines are refused.
    if start.line == end.line {
        write!(out, ",col={},endColumn={}", start.column, end.column)?;
    }
    let title = property(&format!("cqlens {} ({})", remark.id, remark.level.as_str()));
    let lines: Vec<_> = [remark.sentence(), remark.help()]
        .iter()
        .flat_map(|text| text.lines())
        .map(data)
        .collect();
    writeln!(out, ",title={title}::{}", lines.join("%0A"))
}

/// The three that there are.
fn command(level: RemarkLevel) -> &'static str {
    match level {
        RemarkLevel::Error | RemarkLevel::Finding(Severity::High) => "error",
        RemarkLevel::Finding(Severity::Medium) => "warning",
        RemarkLevel::Finding(Severity::Low | Severity::Info) => "notice",
    }
}

/// `escapeData` of the actions toolkit, after the characters that move a cursor.
fn data(line: &str) -> String {
    text::escaped(line).replace('%', "%25")
}

/// `escapeProperty`: also what separates properties.
fn property(value: &str) -> String {
    data(value).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::hostile;
    use super::*;

    #[test]
    fn a_text_cannot_begin_a_command_or_a_property_of_its_own() {
        let mut out = Vec::new();
        write(&hostile(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(
            lines,
            [
                "::warning file=a b%2Cc%3Ad%25/<x>.cql,line=2,endLine=2,col=3,endColumn=9,title=cqlens full-scan (medium)::\
                 A \"title\", 100 %25%0A::set-env::x%0A50 %25 & more:%0A::error::fake%0ASELECT ']]>' \\u{1b}[2J \\u{0};",
                "::error file=second.cql,line=1,endLine=3,title=cqlens parse (error)::unexpected token: expected `<`",
            ]
        );
    }
}
