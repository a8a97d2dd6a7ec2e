//! Draws what is wrong or was found into the text, in the manner of rustc.

use std::cell::Cell;
use std::io::{self, Write};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use cqlens_cql::syntax::{ParseError, Span};

use super::answer::StatementError;
use cqlens_audit::{
    rules::{Finding, Severity},
    text,
};
use cqlens_cql::plan::Refusal;

/// A text to explain, and what it is called.
pub(super) struct SourceText<'s> {
    pub(super) name: &'s str,
    pub(super) text: &'s str,
    colour: bool,
    /// An offset and the number of its line, from which the next one is counted.
    line: Cell<(usize, usize)>,
}

/// How many bytes of a line are drawn before and after what is wrong in it, of a script in one
/// line that may be all of it.
const MAX_BESIDE: usize = 256;

/// Something to draw.
pub(super) struct Remark {
    level: Level<'static>,
    /// The stage at which a statement is refused, or the rule.
    id: &'static str,
    message: String,
    label: String,
    /// Where; the whole statement if there is no place.
    spans: Vec<Span>,
    help: Option<String>,
}

impl<'s> SourceText<'s> {
    /// A text, to be drawn with colour or without.
    pub(super) fn new(name: &'s str, text: &'s str, colour: bool) -> Self {
        Self {
            name,
            text,
            colour,
            line: Cell::new((0, 1)),
        }
    }

    /// Draws a remark on a statement.
    pub(super) fn draw(&self, out: &mut impl Write, remark: &Remark, statement: Span) -> io::Result<()> {
        let whole = [statement];
        let marked = match remark.spans.as_slice() {
            [] => &whole,
            spans => spans,
        };
        let all = marked.iter().fold(statement, |all, span| all.to(*span));
        let (line, lines) = self.place(all);
        let text = self.text.get(lines.clone()).unwrap_or_default();
        let annotations = marked.iter().map(|span| {
            let start = char_start(text, span.range().start.saturating_sub(lines.start));
            let end = char_start(text, span.range().end.saturating_sub(lines.start)).max(start);
            AnnotationKind::Primary
                .span(start..end)
                .label(remark.label.as_str())
        });
        let snippet = Snippet::source(text)
            .line_start(line)
            .path(self.name)
            .annotations(annotations);
        let message = text::escaped(&remark.message);
        let title = remark.level.clone().primary_title(message.as_ref());
        let group = title.id(remark.id).element(snippet);
        let help = remark.help.as_deref().map(|help| Level::HELP.message(help));
        let report = &[group.elements(help)];
        let renderer = if self.colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        writeln!(out, "{}\n", renderer.render(report))
    }

    /// The number of the line in which a span begins.
    pub(super) fn line(&self, span: Span) -> usize {
        self.place(span).0
    }

    /// The number of the line in which a span begins, and the bytes of all lines that it touches.
    fn place(&self, span: Span) -> (usize, Range<usize>) {
        let text = self.text;
        let begin = char_start(text, span.range().start);
        let end = char_start(text, span.range().end).max(begin);
        let from = char_start(text, begin.saturating_sub(MAX_BESIDE));
        let first = text[from..begin]
            .rfind('\n')
            .map_or(from, |newline| from + newline + 1);
        let upto = char_start(text, end.saturating_add(MAX_BESIDE).min(text.len()));
        let last = text[end..upto].find('\n').map_or(upto, |newline| end + newline);
        (self.line_of(begin), first..last)
    }

    /// The number of the line of an offset. Statements come in order, so that the text
    /// is counted through once.
    fn line_of(&self, offset: usize) -> usize {
        let (counted, line) = match self.line.get() {
            (counted, line) if counted <= offset => (counted, line),
            _ => (0, 1),
        };
        let line = line + self.text[counted..offset].matches('\n').count();
        self.line.set((offset, line));
        line
    }
}

/// The last place at or before an offset at which a character begins.
fn char_start(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset.min(text.len()))
}

impl Remark {
    /// A text that is no CQL.
    pub(super) fn from_parse_error(error: &ParseError) -> Self {
        let expected: Vec<String> = error.expected.iter().map(ToString::to_string).collect();
        let label = match expected.as_slice() {
            [] => String::new(),
            [only] => format!("expected {only}"),
            [others @ .., last] => format!("expected {} or {last}", others.join(", ")),
        };
        Self {
            label,
            ..Self::error("parse", error.kind.to_string(), Some(error.span))
        }
    }

    /// A statement that Cassandra would refuse.
    pub(super) fn from_refusal(refusal: &Refusal) -> Self {
        Self::error(refusal.stage.name(), refusal.message.to_string(), refusal.span)
    }

    /// A statement of another dialect.
    pub(super) fn from_extension(error: StatementError, span: Option<Span>) -> Self {
        Self::error(error.stage, error.message, span)
    }

    fn error(id: &'static str, message: String, span: Option<Span>) -> Self {
        Self {
            level: Level::ERROR,
            id,
            message,
            label: String::new(),
            spans: span.into_iter().collect(),
            help: None,
        }
    }

    /// What a rule found, and what would help.
    pub(super) fn from_finding(finding: Finding, spans: Vec<Span>) -> Self {
        let level = match finding.severity {
            Severity::High => Level::ERROR.with_name("high"),
            Severity::Medium => Level::WARNING.with_name("medium"),
            Severity::Low => Level::NOTE.with_name("low"),
            Severity::Info => Level::INFO.with_name("info"),
        };
        let lapsed = finding.acceptance.map(|acceptance| acceptance.to_string());
        let help = lapsed
            .into_iter()
            .chain([finding.advice])
            .chain(finding.suggested_cql)
            .chain(finding.example.map(|example| {
                let (instead, write) = example.words();
                format!("{instead}:\n{}\n{write}:\n{}", example.before, example.after)
            }));
        Self {
            level,
            id: finding.rule,
            message: finding.title,
            label: String::new(),
            spans,
            help: Some(help.collect::<Vec<_>>().join("\n")),
        }
    }
}
