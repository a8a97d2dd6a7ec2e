//! What is seen in the values that a write binds: nulls, a large value, a collection of many elements.

use cqlens_cql::plan::StatementKind;
use cqlens_proto::message::{Value, Values};

use crate::audit::statement::analysis::Analysis;
use cqlens_window::Pattern;

/// What the values of an INSERT or UPDATE are, its first 64 if there are more.
#[derive(Clone, Copy, Default)]
pub(super) struct Written {
    /// Which of them are null, a bit for each. A value with a name stands for the column of that name; the last bit
    /// where there is none.
    pub(super) nulls: u64,
    /// Bytes of the largest one.
    largest: usize,
    /// Elements of the largest collection among them.
    items: u64,
}

impl Written {
    #[inline]
    pub(super) fn of(analysis: &Analysis, values: &Values<'_>) -> Self {
        if !matches!(analysis.head.kind, StatementKind::Insert | StatementKind::Update) {
            return Self::default();
        }
        if values.is_named() {
            return Self::of_named(analysis, values);
        }
        let mut written = Self::default();
        for (at, (_, value)) in values.iter().take(64).enumerate() {
            written.add(at, value);
        }
        if analysis.whole_collections != 0 {
            for (at, (_, value)) in values.iter().take(64).enumerate() {
                written.add_items(at, value, analysis);
            }
        }
        written
    }

    #[cold]
    fn of_named(analysis: &Analysis, values: &Values<'_>) -> Self {
        let mut written = Self::default();
        for (name, value) in values.iter() {
            let columns = &analysis.marker_columns;
            let at = name.and_then(|name| columns.iter().position(|column| **column == *name));
            let at = at.unwrap_or(63).min(63);
            written.add(at, value);
            written.add_items(at, value, analysis);
        }
        written
    }

    /// The largest of both; the nulls are those of a statement.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            nulls: 0,
            largest: self.largest.max(other.largest),
            items: self.items.max(other.items),
        }
    }

    pub(super) fn is_large(self) -> bool {
        self.large_value().is_some() || self.many_items().is_some()
    }

    /// The size of a value that is counted by its size.
    #[inline]
    pub(super) fn large_value(self) -> Option<u64> {
        (self.largest >= Pattern::LARGE_VALUE).then_some(self.largest as u64)
    }

    /// The elements of a collection that is counted by them.
    #[inline]
    pub(super) fn many_items(self) -> Option<u64> {
        (self.items >= Pattern::MANY_ITEMS).then_some(self.items)
    }

    /// A collection begins with the number of its elements (protocol v3 §6: \[int\]). There are no more than have the
    /// length that each of them begins with.
    fn add_items(&mut self, at: usize, value: Value<'_>, analysis: &Analysis) {
        let Value::Bytes(bytes) = value else { return };
        if analysis.whole_collections >> at & 1 == 1
            && let Some(count) = bytes.first_chunk()
        {
            let count = u64::try_from(i32::from_be_bytes(*count)).unwrap_or(0);
            let most = bytes.len() / size_of::<i32>() - 1;
            self.items = self.items.max(count.min(most as u64));
        }
    }

    #[inline]
    fn add(&mut self, at: usize, value: Value<'_>) {
        match value {
            Value::Null => self.nulls |= 1 << at,
            Value::Bytes(bytes) => self.largest = self.largest.max(bytes.len()),
            Value::NotSet => {}
        }
    }
}
