//! Where something stands in a CQL text.
//!
//! Spans are byte offsets into the text that was parsed, never line and column: who draws an error has the
//! text and can count lines itself.

use std::fmt;
use std::ops::Range;

/// A range of bytes of a CQL text: `start` is the first byte, `end` the one after the last.
///
/// 32 bits are enough: a statement on the wire is at most 2 GiB, and longer texts are refused before lexing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset of the byte after the last one.
    pub end: u32,
}

impl Span {
    /// The span from `start` to `end`.
    #[must_use]
    pub const fn new(start: u32, end: u32) -> Self {
        Self { start, end }
    }

    /// The smallest span that covers `self` and `last`, which must not begin before `self`.
    #[must_use]
    pub const fn to(self, last: Self) -> Self {
        Self {
            start: self.start,
            end: if last.end > self.end { last.end } else { self.end },
        }
    }

    /// The bytes covered, as indices for slicing the text.
    #[must_use]
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The number of bytes covered.
    #[must_use]
    pub const fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether no byte is covered, as for an error at the end of the text.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The covered part of `text`, empty where the span does not fit it.
    #[must_use]
    pub fn of(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or_default()
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}..{}", self.start, self.end)
    }
}
