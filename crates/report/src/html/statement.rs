//! Statements on the page: at most four lines before a fold, batches as lists of what they hold.

use askama::filters::Safe;

use super::escaped;
use cqlens_window::number;

/// About four lines of a column.
const SHOWN: usize = 340;
/// What a line of a list holds.
const LINE: usize = 120;
/// Longer statements are cut on the page.
const MOST: usize = 6_000;
/// Statements of a batch before the fold.
const SHOWN_OF_BATCH: usize = 4;
const MOST_OF_BATCH: usize = 60;

/// A statement as a block; a batch as the list of its statements.
pub(super) fn statement(cql: &str) -> Safe<String> {
    match Batch::of(cql) {
        Some(batch) => batch.drawn(),
        None => Safe(block(cql)),
    }
}

/// The beginning of a statement for a line of a list.
pub(super) fn line(cql: &str) -> String {
    let text = match Batch::of(cql) {
        Some(batch) => {
            let statements = number::plural(batch.count() as u64, "statement", "statements");
            let first = batch.statements.first().map_or("", |(_, cql)| cql);
            format!("{} of {statements}: {first}", batch.kind())
        }
        None => cql.to_owned(),
    };
    match text.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Whether [`line`] leaves anything of a statement out.
pub(super) fn is_cut(cql: &str) -> bool {
    line(cql) != cql
}

fn block(cql: &str) -> String {
    let Some((end, _)) = cql.char_indices().nth(SHOWN) else {
        return format!("<pre>{}</pre>", escaped(cql));
    };
    format!(
        "<pre>{}…</pre><details><summary>The whole statement</summary><pre>{}</pre></details>",
        escaped(&cql[..end]),
        escaped(&cut(cql))
    )
}

fn cut(cql: &str) -> String {
    match cql.char_indices().nth(MOST) {
        Some((end, _)) => {
            let more = number::exact((cql.len() - end) as u64);
            format!("{}… {more} more bytes are in the JSON form", &cql[..end])
        }
        None => cql.to_owned(),
    }
}

/// A batch: the word before BATCH, and its statements, those that follow each other and are the same counted.
struct Batch<'c> {
    word: &'c str,
    statements: Vec<(usize, &'c str)>,
}

impl<'c> Batch<'c> {
    fn of(cql: &'c str) -> Option<Self> {
        let begun = cql.strip_prefix("BEGIN ")?;
        let (head, rest) = begun.split_once("BATCH")?;
        let word = head.trim();
        if !matches!(word, "" | "UNLOGGED" | "COUNTER") {
            return None;
        }
        let inner = rest
            .trim_end()
            .trim_end_matches(';')
            .strip_suffix("APPLY BATCH")?;
        let mut statements: Vec<(usize, &str)> = Vec::new();
        for statement in separated(inner) {
            match statements.last_mut() {
                Some((times, last)) if *last == statement => *times += 1,
                _ => statements.push((1, statement)),
            }
        }
        (!statements.is_empty()).then_some(Self { word, statements })
    }

    fn kind(&self) -> &'static str {
        match self.word {
            "UNLOGGED" => "Unlogged batch",
            "COUNTER" => "Counter batch",
            _ => "Logged batch",
        }
    }

    fn count(&self) -> usize {
        self.statements.iter().map(|(times, _)| times).sum()
    }

    fn drawn(&self) -> Safe<String> {
        let (first, more) = self
            .statements
            .split_at(SHOWN_OF_BATCH.min(self.statements.len()));
        let list = |statements: &[(usize, &str)]| -> String {
            let items = statements.iter().map(|(times, cql)| {
                format!(
                    "<li><span>{times} ×</span><code>{}</code></li>",
                    escaped(&cut(cql))
                )
            });
            format!("<ul>{}</ul>", items.collect::<String>())
        };
        let count = number::plural(self.count() as u64, "statement", "statements");
        let mut html = format!(
            "<div class=\"batch\"><div>{}, {count}</div>{}",
            self.kind(),
            list(first)
        );
        if !more.is_empty() {
            let shown = more.len().min(MOST_OF_BATCH);
            let summary = number::plural(more.len() as u64, "more statement", "more statements");
            html += &format!(
                "<details><summary>{summary}</summary>{}</details>",
                list(&more[..shown])
            );
        }
        html += "</div>";
        Safe(html)
    }
}

/// The statements between semicolons that are no part of a quoted name.
fn separated(text: &str) -> impl Iterator<Item = &str> {
    let mut is_name = false;
    let pieces = text.split(move |letter| {
        is_name ^= letter == '"';
        letter == ';' && !is_name
    });
    pieces.map(str::trim).filter(|piece| !piece.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_a_list_of_its_statements() {
        let cql = "BEGIN BATCH UPDATE a.b SET c = ? WHERE d = ? IF c = ?; DELETE FROM a.\"x;y\" WHERE d = ?; \
                   DELETE FROM a.\"x;y\" WHERE d = ?; APPLY BATCH";
        let html = statement(cql).0;
        assert!(html.contains("Logged batch, 3 statements"), "{html}");
        assert!(
            html.contains("<li><span>2 ×</span><code>DELETE FROM a.&#34;x;y&#34; WHERE d = ?</code></li>"),
            "{html}"
        );
        assert_eq!(html.matches("<li>").count(), 2);
        assert_eq!(
            line("BEGIN UNLOGGED BATCH INSERT INTO a.b (c) VALUES (?); APPLY BATCH"),
            "Unlogged batch of 1 statement: INSERT INTO a.b (c) VALUES (?)"
        );
    }

    #[test]
    fn long_statements_and_batches_fold() {
        let long = format!("SELECT {} FROM a.b", "c, ".repeat(300));
        let html = statement(&long).0;
        assert!(html.contains("The whole statement") && html.starts_with("<pre>SELECT c, "));
        assert!(line(&long).chars().count() <= LINE + 1);
        let many: String = (0..9)
            .map(|at| format!("DELETE FROM a.t{at} WHERE d = ?; "))
            .collect();
        let html = statement(&format!("BEGIN BATCH {many}APPLY BATCH")).0;
        assert!(html.contains("<summary>5 more statements</summary>"), "{html}");
    }

    #[test]
    fn what_only_looks_like_a_batch_stays_as_it_is() {
        for cql in [
            "BEGIN BATCH",
            "BEGIN </pre>BATCH x APPLY BATCH",
            "BEGIN BATCH ; APPLY BATCH",
        ] {
            assert_eq!(statement(cql).0, format!("<pre>{}</pre>", escaped(cql)));
        }
    }
}
