//! For people: errors drawn into the text in the manner of rustc, and a line or two on every statement.

use std::cell::Cell;
use std::io::{self, Write};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use cqlens_proto::cql::ast::{Body, Kind, Statement};
use cqlens_proto::cql::{self, ParseError, Span, Template};
use cqlens_proto::message::Values;

use super::answer::{extension_error, says_nothing};
use crate::audit::plan::{Plan, Refusal};
use crate::audit::{Count, Footprint, Keys};
use crate::catalog::Schema;
use crate::window::{PartitionClass, Reason};

/// A text to explain, and what it is called.
pub(super) struct Source<'s> {
    pub(super) name: &'s str,
    pub(super) text: &'s str,
    pub(super) colour: bool,
}

/// Explains every statement of a script; the number of those that are wrong.
///
/// `USE` and definitions in the script count for what follows them.
pub(super) fn explain(
    source: &Source<'_>,
    out: &mut impl Write,
    keyspace: Option<&str>,
    schema: Option<&Schema>,
) -> io::Result<usize> {
    let mut script = Script {
        source,
        keyspace: keyspace.map(ToOwned::to_owned),
        schema: schema.cloned().unwrap_or_default(),
        has_schema: schema.is_some(),
        keys: Keys::new(),
        line: Cell::new((0, 1)),
    };
    let mut wrong = 0;
    for (span, statement) in cql::statements(source.text) {
        let is_right = match statement {
            Ok(statement) => script.statement(&statement, out)?,
            Err(error) => {
                script.draw(out, &Problem::of_parse(&error), span)?;
                false
            }
        };
        wrong += usize::from(!is_right);
    }
    Ok(wrong)
}

/// A script that is being explained, and what its statements have changed so far.
struct Script<'s> {
    source: &'s Source<'s>,
    keyspace: Option<String>,
    schema: Schema,
    has_schema: bool,
    keys: Keys,
    /// An offset and the number of its line, from which the next one is counted.
    line: Cell<(usize, usize)>,
}

/// Something that is wrong, and where.
struct Problem {
    stage: &'static str,
    message: String,
    label: String,
    span: Option<Span>,
}

impl Script<'_> {
    /// Whether nothing is wrong with the statement.
    fn statement(&mut self, statement: &Statement<'_>, out: &mut impl Write) -> io::Result<bool> {
        if let Some(error) = extension_error(statement) {
            let span = statement.extension.as_ref().map(|extension| extension.span);
            let problem = Problem {
                stage: error.stage,
                message: error.message,
                label: String::new(),
                span,
            };
            self.draw(out, &problem, statement.span)?;
            return Ok(false);
        }
        if let Body::Use(using) = &statement.body {
            self.keyspace = Some(using.keyspace.as_str().to_owned());
            return Ok(true);
        }
        if self.schema.apply(statement, self.keyspace.as_deref()).is_ok() {
            self.has_schema = true;
            return Ok(true);
        }
        let plan = Plan::of(statement, self.keyspace.as_deref(), &self.schema);
        let touches = !matches!(
            plan.facts().kind,
            Kind::Select | Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch
        );
        if touches {
            return Ok(true);
        }
        let values = statement.bind_markers.is_empty().then_some(&Values::NONE);
        self.keys.clear();
        match plan.execute(values, &mut self.keys) {
            // Without a schema every table is unknown, which says nothing of the statement.
            Err(refusal) if self.has_schema || !says_nothing(&refusal) => {
                self.draw(out, &Problem::of_refusal(&refusal), statement.span)?;
                Ok(false)
            }
            executed => {
                let footprint = executed.unwrap_or_else(|_| Footprint::unknown(Reason::SchemaUnknown));
                self.describe(out, statement, &plan, &footprint)?;
                Ok(true)
            }
        }
    }

    /// `file:line: select on shop.kv: 2 partitions`, its properties, and its template.
    fn describe(
        &self,
        out: &mut impl Write,
        statement: &Statement<'_>,
        plan: &Plan,
        footprint: &Footprint,
    ) -> io::Result<()> {
        let facts = plan.facts();
        let (line, _) = self.place(statement.span);
        let table = match (&facts.keyspace, &facts.table) {
            (Some(keyspace), Some(table)) => format!(" on {keyspace}.{table}"),
            (None, Some(table)) => format!(" on {table}"),
            _ => String::new(),
        };
        let touched = in_words(footprint, plan.class());
        writeln!(
            out,
            "{}:{line}: {}{table}: {touched}",
            self.source.name, facts.kind
        )?;
        let flags: Vec<String> = facts.flags().map(|flag| serde_name(&flag)).collect();
        if !flags.is_empty() {
            writeln!(out, "    {}", flags.join(", "))?;
        }
        let template = Template::of(statement, self.keyspace.as_deref());
        writeln!(out, "    {}  {}", template.fingerprint, template.text)
    }

    fn draw(&self, out: &mut impl Write, problem: &Problem, statement: Span) -> io::Result<()> {
        let (line, lines) = self.place(statement.to(problem.span.unwrap_or(statement)));
        let text = self.source.text.get(lines.clone()).unwrap_or_default();
        let marked = problem.span.unwrap_or(statement);
        let start = char_start(text, marked.range().start.saturating_sub(lines.start));
        let end = char_start(text, marked.range().end.saturating_sub(lines.start)).max(start);
        let annotation = AnnotationKind::Primary
            .span(start..end)
            .label(problem.label.as_str());
        let snippet = Snippet::source(text)
            .line_start(line)
            .path(self.source.name)
            .annotation(annotation);
        let report = &[Level::ERROR
            .primary_title(problem.message.as_str())
            .id(problem.stage)
            .element(snippet)];
        let renderer = if self.source.colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        writeln!(out, "{}\n", renderer.render(report))
    }

    /// The number of the line in which a span begins, and the bytes of all lines that it touches.
    fn place(&self, span: Span) -> (usize, Range<usize>) {
        let text = self.source.text;
        let begin = char_start(text, span.range().start);
        let end = char_start(text, span.range().end).max(begin);
        let first = text[..begin].rfind('\n').map_or(0, |newline| newline + 1);
        let last = text[end..].find('\n').map_or(text.len(), |newline| end + newline);
        (self.line_of(begin), first..last)
    }
}

impl Script<'_> {
    /// The number of the line of an offset. Statements come in order, so that the text is counted through once.
    fn line_of(&self, offset: usize) -> usize {
        let (counted, line) = match self.line.get() {
            (counted, line) if counted <= offset => (counted, line),
            _ => (0, 1),
        };
        let line = line + self.source.text[counted..offset].matches('\n').count();
        self.line.set((offset, line));
        line
    }
}

/// The last place at or before an offset at which a character begins.
fn char_start(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset.min(text.len()))
}

impl Problem {
    fn of_parse(error: &ParseError) -> Self {
        let expected: Vec<String> = error.expected.iter().map(ToString::to_string).collect();
        let label = match expected.as_slice() {
            [] => String::new(),
            [only] => format!("expected {only}"),
            [others @ .., last] => format!("expected {} or {last}", others.join(", ")),
        };
        Self {
            stage: "parse",
            message: error.kind.to_string(),
            label,
            span: Some(error.span),
        }
    }

    fn of_refusal(refusal: &Refusal) -> Self {
        Self {
            stage: refusal.stage.name(),
            message: refusal.message.to_string(),
            label: String::new(),
            span: refusal.span,
        }
    }
}

fn in_words(footprint: &Footprint, class: PartitionClass) -> String {
    match (footprint.count, class) {
        (Count::Exact(0), _) => "no partition (nothing can match)".to_owned(),
        (Count::Exact(1), _) => "1 partition".to_owned(),
        (Count::Exact(count), _) => format!("{count} partitions"),
        (Count::AtLeast(count, reason), _) => format!("at least {count} partitions ({})", reason.name()),
        (Count::Scan, _) | (_, PartitionClass::Scan) => "a scan of the whole ring".to_owned(),
        (Count::TokenRange { share }, _) => format!("{:.1} % of the ring", share * 100.0),
        (_, PartitionClass::TokenRange) => "a part of the ring".to_owned(),
        (Count::Index, _) | (_, PartitionClass::Index) => {
            "an index read without the partition key".to_owned()
        }
        (Count::Unknown(Reason::Unbound), PartitionClass::Single) => {
            "1 partition for each execution".to_owned()
        }
        (Count::Unknown(Reason::Unbound), PartitionClass::Multi) => {
            "as many partitions as distinct keys are bound".to_owned()
        }
        (Count::Unknown(reason), _) => format!("partitions unknown ({})", reason.name()),
    }
}

/// The kebab-case name that a property has in JSON.
fn serde_name(flag: &crate::window::Flag) -> String {
    serde_json::to_value(flag)
        .ok()
        .and_then(|name| name.as_str().map(ToOwned::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn explained(text: &str) -> (String, usize) {
        let source = Source {
            name: "q.cql",
            text,
            colour: false,
        };
        let mut out = Vec::new();
        let wrong = explain(&source, &mut out, None, None).unwrap();
        (String::from_utf8(out).unwrap(), wrong)
    }

    const TABLE: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy'};\nUSE shop;\n\
                         CREATE TABLE kv (k int PRIMARY KEY, v int);\n";

    #[test]
    fn a_syntax_error_is_drawn_and_the_next_statement_is_read() {
        let (text, wrong) = explained("SELECT * FORM kv;\nSELECT * FROM kv");
        insta::assert_snapshot!(text);
        assert_eq!(wrong, 1);
    }

    #[test]
    fn a_refusal_is_drawn_where_it_belongs() {
        let (text, wrong) = explained(&format!(
            "{TABLE}SELECT * FROM kv\nWHERE é = 1;\nSELECT * FROM kv WHERE v = 1"
        ));
        insta::assert_snapshot!(text);
        assert_eq!(wrong, 2);
    }

    #[test]
    fn footprints_are_told_in_words() {
        let (text, wrong) = explained(&format!(
            "{TABLE}SELECT * FROM kv WHERE k IN (1, 2, 1);\nSELECT v FROM kv WHERE k = ?;\nSELECT v FROM kv WHERE k IN ?;\n\
             SELECT * FROM kv WHERE token(k) > 0;\nSELECT * FROM kv WHERE v = 1 ALLOW FILTERING;\nDELETE FROM kv WHERE k IN ();"
        ));
        insta::assert_snapshot!(text);
        assert_eq!(wrong, 0);
    }

    #[test]
    fn errors_at_the_end_and_odd_characters_do_no_harm() {
        for text in [
            "",
            "SELECT",
            "é",
            "SELECT * FROM t WHERE k = '",
            "\u{1F600};\u{0};",
            "--",
            "BEGIN BATCH",
        ] {
            let _ = explained(text);
        }
    }
}
