//! A text to explain, what it is called, and where its bytes stand for people: line and column.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use super::placeholder;
use crate::cli::schema_file::LineColumn;
use cqlens_cql::syntax::Span;

/// A text to explain. It may be a part of a file.
#[derive(Debug)]
pub(super) struct SourceText {
    /// The file, or what it is called.
    pub(super) name: Rc<str>,
    /// Without a byte order mark.
    pub(super) text: String,
    /// The text as it is read, if that is another: with markers in place of placeholders, byte for byte.
    read: Option<String>,
    /// Whether a USE in the part before it still applies.
    pub(super) goes_on: bool,
    /// An offset and its position, from which later ones are counted.
    counted: Cell<(usize, Position)>,
}

/// A line and a column, both from 1 on; a column is a character (Unicode code point), tabs and carriage returns included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl From<Position> for LineColumn {
    fn from(Position { line, column }: Position) -> Self {
        Self { line, column }
    }
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) span: Span,
    /// Of the first character.
    pub(super) start: Position,
    /// Of the one after the last.
    pub(super) end: Position,
}

/// A statement in its text.
#[derive(Debug, Clone)]
pub(super) struct PlacedStatement {
    pub(super) source: Rc<SourceText>,
    pub(super) place: Region,
}

impl SourceText {
    /// A whole file, or all of standard input.
    pub(super) fn new(name: &str, text: &str) -> Self {
        Self::at_line(name, text, 1)
    }

    /// A part of a file that begins in that line.
    pub(super) fn at_line(name: &str, text: &str, line: usize) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self {
            name: name.into(),
            text: text.to_owned(),
            read: match placeholder::as_markers(text) {
                Cow::Owned(read) => Some(read),
                Cow::Borrowed(_) => None,
            },
            goes_on: false,
            counted: Cell::new((0, Position { line, column: 1 })),
        }
    }

    /// The same, as a part that follows another one of its file.
    pub(super) fn going_on(self) -> Self {
        Self {
            goes_on: true,
            ..self
        }
    }

    /// The text as it is read.
    pub(super) fn cql(&self) -> &str {
        self.read.as_deref().unwrap_or(&self.text)
    }

    /// What a span covers.
    pub(super) fn covered(&self, span: Span) -> &str {
        let range = span.range();
        let end = char_start(&self.text, range.end);
        &self.text[char_start(&self.text, range.start).min(end)..end]
    }

    /// The statement at a span. Statements are asked for in order, so that the text is counted through once.
    pub(super) fn statement(self: &Rc<Self>, span: Span) -> PlacedStatement {
        let start = char_start(&self.text, span.range().start);
        self.counted.set((start, self.position(start)));
        PlacedStatement {
            source: Rc::clone(self),
            place: self.place(span),
        }
    }

    fn place(&self, span: Span) -> Region {
        let range = span.range();
        Region {
            span,
            start: self.position(range.start),
            end: self.position(range.end.max(range.start)),
        }
    }

    /// The position of an offset in the statement that was asked for last, or after it.
    fn position(&self, offset: usize) -> Position {
        let (counted, from) = self.counted.get();
        let end = char_start(&self.text, offset).max(counted);
        let passed = &self.text[counted..end];
        match passed.rfind('\n') {
            None => Position {
                column: from.column + passed.chars().count(),
                ..from
            },
            Some(last) => Position {
                line: from.line + passed.matches('\n').count(),
                column: passed[last + 1..].chars().count() + 1,
            },
        }
    }
}

impl PlacedStatement {
    /// The statement's text.
    pub(super) fn text(&self) -> &str {
        self.source.covered(self.place.span)
    }

    /// The place of a part of the statement, or just behind it.
    pub(super) fn part(&self, span: Span) -> Region {
        let (source, whole) = (&self.source, self.place);
        let begin = char_start(&source.text, whole.span.range().start);
        source.counted.set((begin, whole.start));
        source.place(span)
    }
}

/// The last place at or before an offset at which a character begins.
pub(super) fn char_start(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset.min(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(line: usize, column: usize) -> Position {
        Position { line, column }
    }

    #[test]
    fn columns_are_characters_and_carriage_returns_end_no_line() {
        let source = Rc::new(SourceText::new("a.cql", "\u{feff}é 'ü';\r\n\tUSE b;\r\n"));
        let first = source.statement(Span::new(0, 7));
        assert_eq!(
            (first.place.start, first.place.end),
            (position(1, 1), position(1, 6))
        );
        let second = source.statement(Span::new(11, 16));
        assert_eq!(second.text(), "USE b");
        assert_eq!(
            (second.place.start, second.place.end),
            (position(2, 2), position(2, 7))
        );
        assert_eq!(first.part(Span::new(3, 7)).start, position(1, 3), "and back");
    }

    #[test]
    fn a_part_of_a_file_counts_its_lines_on() {
        let source = Rc::new(SourceText::at_line("a.java", "USE a\nUSE b", 40));
        assert_eq!(source.statement(Span::new(6, 11)).place.start, position(41, 1));
    }
}
