//! Draws what is wrong or was found into the text, in the manner of rustc.

use std::io::{self, Write};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::remark::{Remark, RemarkLevel};
use super::source::{PlacedStatement, SourceText, char_start};
use cqlens_cql::syntax::Span;
use cqlens_report::text;
use cqlens_rules::Severity;

/// How many bytes of a line are drawn before and after what is wrong in it, of a script in one
/// line that may be all of it.
const MAX_BESIDE: usize = 256;

/// Draws a remark on a statement.
pub(super) fn draw(
    out: &mut impl Write,
    remark: &Remark,
    statement: &PlacedStatement,
    colour: bool,
) -> io::Result<()> {
    let source = &*statement.source;
    let whole = [statement.place.span];
    let marked = match remark.spans.as_slice() {
        [] => &whole,
        spans => spans,
    };
    let all = marked
        .iter()
        .fold(statement.place.span, |all, span| all.to(*span));
    let lines = lines(source, all);
    let text = source.text.get(lines.clone()).unwrap_or_default();
    let annotations = marked.iter().map(|span| {
        let start = char_start(text, span.range().start.saturating_sub(lines.start));
        let end = char_start(text, span.range().end.saturating_sub(lines.start)).max(start);
        AnnotationKind::Primary
            .span(start..end)
            .label(remark.label.as_str())
    });
    let name = text::escaped(&source.name);
    let snippet = Snippet::source(text)
        .line_start(statement.place.start.line)
        .path(name.as_ref())
        .annotations(annotations);
    let message = text::escaped(&remark.title);
    let title = level(remark.level).primary_title(message.as_ref());
    let group = title.id(remark.id).element(snippet);
    let help = remark.help();
    let help = (!help.is_empty()).then(|| Level::HELP.message(help.as_str()));
    let report = &[group.elements(help)];
    let renderer = if colour {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    writeln!(out, "{}\n", renderer.render(report))
}

fn level(level: RemarkLevel) -> Level<'static> {
    match level {
        RemarkLevel::Error => Level::ERROR,
        RemarkLevel::Finding(Severity::High) => Level::ERROR.with_name("high"),
        RemarkLevel::Finding(Severity::Medium) => Level::WARNING.with_name("medium"),
        RemarkLevel::Finding(Severity::Low) => Level::NOTE.with_name("low"),
        RemarkLevel::Finding(Severity::Info) => Level::INFO.with_name("info"),
    }
}

/// The bytes of all lines that a span touches, of long ones a part.
fn lines(source: &SourceText, span: Span) -> Range<usize> {
    let text = source.text.as_str();
    let begin = char_start(text, span.range().start);
    let end = char_start(text, span.range().end).max(begin);
    let from = char_start(text, begin.saturating_sub(MAX_BESIDE));
    let first = text[from..begin]
        .rfind('\n')
        .map_or(from, |newline| from + newline + 1);
    let upto = char_start(text, end.saturating_add(MAX_BESIDE).min(text.len()));
    let last = text[end..upto].find('\n').map_or(upto, |newline| end + newline);
    let without_return = text[end..last].trim_end_matches('\r').len();
    first..end + without_return
}
