//! A comparison in Markdown: a document of its own. Its section of a report is `report/markdown/comparison`.

use std::io::{self, Write};

use super::{Comparison, MEANING};
use crate::{
    markdown::{code_cell, fenced, prose},
    text::Lines,
};

/// Patterns whose latency a page shows.
const MOST_LATENCIES: usize = 50;
/// Letters of a statement in a table.
const MOST_LETTERS: usize = 80;

pub(super) fn render(comparison: &Comparison, to: &mut dyn Write) -> io::Result<()> {
    let to: &mut dyn Write = &mut Lines::new(to);
    let about = &comparison.about;
    let (first, other) = (prose(&about.first), prose(&about.other));
    writeln!(to, "# Comparison of {first} with {other}\n")?;
    writeln!(to, "**{}**\n", comparison.headline())?;
    for line in comparison.coverage() {
        writeln!(to, "- {}", prose(&line))?;
    }
    for pattern in comparison.differing() {
        writeln!(to, "\n## {}\n", pattern.title())?;
        fenced(&pattern.cql, to)?;
        writeln!(to)?;
        if let Some(id) = &pattern.id {
            writeln!(to, "- pattern {}", prose(id))?;
        }
        if let (Some(example), Some(words)) = (&pattern.example, pattern.example()) {
            let words = prose(&words);
            writeln!(
                to,
                "- exchange {}: the other cluster gave {words}",
                example.exchange
            )?;
        }
    }
    latencies(comparison, to)
}

fn latencies(comparison: &Comparison, to: &mut dyn Write) -> io::Result<()> {
    let mut measured = comparison.measured().take(MOST_LATENCIES).peekable();
    if measured.peek().is_none() {
        return Ok(());
    }
    writeln!(
        to,
        "\n## Latency\n\n| pattern | first p50 | other p50 | other : first | first p99 | other p99 |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |"
    )?;
    for pattern in measured {
        let [p50, other_p50, p99, other_p99] = pattern.latency_us.cells();
        let (cql, times) = (cell(&pattern.cql), pattern.latency_us.times_cell());
        writeln!(
            to,
            "| {cql} | {p50} | {other_p50} | {times} | {p99} | {other_p99} |"
        )?;
    }
    writeln!(to, "\n{MEANING}")
}

/// The beginning of a statement in a table.
pub(crate) fn cell(cql: &str) -> String {
    match cql.char_indices().nth(MOST_LETTERS) {
        Some((end, _)) => code_cell(&format!("{}…", &cql[..end])),
        None => code_cell(cql),
    }
}
