//! What a second cluster has answered, in short: the patterns that differ, and what was looked at.

use std::io::{self, Write};

use super::{prose, prose_cell};
use crate::{
    Report,
    comparison::{MEANING, markdown::cell},
};
use cqlens_window::number;

/// Patterns that a comment has room for.
const MOST_PATTERNS: usize = 20;

pub(super) fn comparison(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let Some(comparison) = &report.comparison else {
        return Ok(());
    };
    let about = &comparison.about;
    writeln!(to, "\n## Compared with {}\n", prose(&about.other))?;
    writeln!(to, "**{}**\n", comparison.headline())?;
    for line in comparison.coverage() {
        writeln!(to, "- {}", prose(&line))?;
    }
    let shown: Vec<_> = comparison.shown().take(MOST_PATTERNS).collect();
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(
        to,
        "\n| pattern | differ | in which way | for example | first p50 | other p50 | other : first |\n\
         | --- | ---: | --- | --- | ---: | ---: | ---: |"
    )?;
    for pattern in shown {
        let [first, other, ..] = pattern.latency_us.cells();
        writeln!(
            to,
            "| {} | {} of {} | {} | {} | {first} | {other} | {} |",
            cell(&pattern.cql),
            number::count(pattern.differing),
            number::count(pattern.compared),
            pattern.ways(),
            prose_cell(&pattern.example().unwrap_or_default()),
            pattern.latency_us.times_cell(),
        )?;
    }
    writeln!(to, "\n{MEANING}")
}
