//! Text made fit for a place in Markdown: CQL and names hold whatever a client sends.

use std::io::{self, Write};

/// A sentence: what stands between backticks stays code, everything else loses its meaning in Markdown and
/// HTML.
pub(crate) fn prose(text: &str) -> String {
    let pieces: Vec<_> = text.split('`').collect();
    // An odd number of backticks is no code at all.
    let paired = pieces.len() % 2 == 1;
    let mut prose = String::with_capacity(text.len() + 8);
    for (at, piece) in pieces.iter().enumerate() {
        match (at % 2 == 1 && paired, at) {
            (true, _) => prose += &code(piece),
            (false, 0) => prose += &escaped(piece),
            (false, _) if paired => prose += &escaped(piece),
            (false, _) => prose += &format!("\\`{}", escaped(piece)),
        }
    }
    prose
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '@' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// Inline code, fenced by more backticks than it holds in a row.
pub(crate) fn code(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    let fence = "`".repeat(longest_run(&text) + 1);
    // A blank keeps a backtick at either end apart from the fence; Markdown takes it off again.
    let pad = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Inline code in a table: the only place where a bar inside code must be escaped.
pub(crate) fn code_cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// A sentence in a table.
pub(crate) fn prose_cell(text: &str) -> String {
    // Outside of code they are escaped already.
    prose(text).replace('|', "\\|").replace("\\\\|", "\\|")
}

pub(crate) fn fenced(cql: &str, to: &mut dyn Write) -> io::Result<()> {
    let fence = "`".repeat(longest_run(cql).max(2) + 1);
    writeln!(to, "{fence}sql\n{cql}\n{fence}")
}

fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        assert_eq!(
            prose("a|b <script> *x* `c|d`"),
            "a\\|b &lt;script&gt; \\*x\\* `c|d`"
        );
        assert_eq!(prose("an odd ` backtick"), "an odd \\` backtick");
        assert_eq!(code("a``b"), "```a``b```");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(code_cell("a|b\nc"), "`a\\|b c`");
        let mut fence = Vec::new();
        fenced("x ``` y", &mut fence).unwrap();
        assert_eq!(String::from_utf8(fence).unwrap(), "````sql\nx ``` y\n````\n");
    }
}
