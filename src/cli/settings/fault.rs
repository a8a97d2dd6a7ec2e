//! Mistakes in the file of settings.

use std::ops::Range;

use toml::de::DeValue;

/// The number of the line that has this byte.
pub(super) fn line(text: &str, byte: usize) -> usize {
    text.get(..byte)
        .map_or(1, |before| before.matches('\n').count() + 1)
}

/// A mistake in the file, and where it is (bytes).
pub(super) struct FileFault {
    pub(super) at: Range<usize>,
    pub(super) what: String,
}

impl FileFault {
    pub(super) fn new(at: Range<usize>, what: String) -> Self {
        Self { at, what }
    }
}

/// The type of a value, in words for a message.
pub(super) fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
