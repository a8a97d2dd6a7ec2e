//! Mistakes in the file of settings: all of them at once, each with its place.

use std::{error::Error, fmt, ops::Range, path::Path};

use toml::de::DeValue;

/// The number of the line that has this byte.
pub(super) fn line(text: &str, byte: usize) -> usize {
    text.get(..byte)
        .map_or(1, |before| before.matches('\n').count() + 1)
}

/// The number of the character in its line that begins at this byte.
fn column(text: &str, byte: usize) -> usize {
    let before = text.get(..byte).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.chars().count() + 1
}

/// A mistake in the file, and where it is (bytes).
#[derive(Debug)]
pub(super) struct FileFault {
    pub(super) at: Range<usize>,
    pub(super) what: String,
}

impl FileFault {
    pub(super) fn new(at: Range<usize>, what: String) -> Self {
        Self { at, what }
    }
}

/// Mistakes, as they are found.
#[derive(Debug, Default)]
pub(super) struct FileFaults(Vec<FileFault>);

impl FileFaults {
    /// What was read; a mistake is kept, and reading goes on without it.
    pub(super) fn keep<T>(&mut self, read: Result<T, FileFault>) -> Option<T> {
        read.map_err(|fault| self.0.push(fault)).ok()
    }

    /// The same where there is nothing to be had but that it was right.
    pub(super) fn add(&mut self, fault: FileFault) {
        self.0.push(fault);
    }

    /// The mistakes in the order of the file, if there are any.
    pub(super) fn in_order(mut self, text: &str, path: &Path) -> Option<SettingsFaults> {
        self.0.sort_by_key(|fault| fault.at.start);
        let told = self.0.iter().map(|FileFault { at, what }| {
            let (line, column) = (line(text, at.start), column(text, at.start));
            format!("{}:{line}:{column}: {what}", path.display())
        });
        let told: Vec<_> = told.collect();
        (!told.is_empty()).then_some(SettingsFaults(told))
    }
}

/// Everything that is wrong with the file of settings, in its order.
#[derive(Debug)]
pub(in crate::cli) struct SettingsFaults(Vec<String>);

impl SettingsFaults {
    /// Mistakes that are told already.
    pub(super) fn of_lines(lines: Vec<String>) -> Self {
        Self(lines)
    }

    /// One mistake a line, each with its place.
    pub(in crate::cli) fn into_lines(self) -> impl Iterator<Item = String> {
        self.0.into_iter()
    }
}

impl fmt::Display for SettingsFaults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("; "))
    }
}

impl Error for SettingsFaults {}

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
