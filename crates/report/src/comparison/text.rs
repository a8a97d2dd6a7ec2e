//! A comparison for terminals.

use std::io::{self, Write};

use super::Comparison;
use crate::text::escaped;

/// Patterns that a terminal shows.
const MOST_PATTERNS: usize = 10;

pub(super) fn render(comparison: &Comparison, to: &mut dyn Write) -> io::Result<()> {
    let about = &comparison.about;
    writeln!(
        to,
        "{} compared with {}",
        escaped(&about.first),
        escaped(&about.other)
    )?;
    writeln!(to, "{}\n", comparison.headline())?;
    for line in comparison.coverage() {
        writeln!(to, "  {}", escaped(&line))?;
    }
    for pattern in comparison.differing().take(MOST_PATTERNS) {
        writeln!(to, "\n{}", pattern.title())?;
        writeln!(to, "  {}", cut(&pattern.cql, 300))?;
        if let Some(id) = &pattern.id {
            writeln!(to, "  pattern {}", cut(id, 80))?;
        }
        if let (Some(example), Some(words)) = (&pattern.example, pattern.example()) {
            writeln!(
                to,
                "  exchange {}: the other cluster gave {}",
                example.exchange,
                escaped(&words)
            )?;
        }
    }
    let more = comparison.differing().count().saturating_sub(MOST_PATTERNS);
    if more > 0 {
        writeln!(to, "\nand {more} more: .md and .json have all")?;
    }
    Ok(())
}

fn cut(text: &str, most: usize) -> String {
    let text = escaped(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}
