//! The rows of a result: selected, grouped, sorted and cut at the limit.

use bytes::Bytes;

use super::limits::RowLimits;
use super::projection::{Group, Projection};
use super::row_order::RowOrder;
use crate::layout::RowView;

/// ResultRows on their way into the result.
pub(super) struct ResultRows<'p> {
    projection: &'p Projection,
    is_aggregate: bool,
    group_by: Vec<usize>,
    group: Option<(Vec<Option<Bytes>>, Group<'p>)>,
    /// With the position in their partition, for ORDER BY over several partitions.
    rows: Vec<(Vec<u8>, Vec<Option<Bytes>>)>,
}

impl<'p> ResultRows<'p> {
    /// No rows yet.
    pub(super) fn new(projection: &'p Projection, is_aggregate: bool, group_by: Vec<usize>) -> Self {
        ResultRows {
            projection,
            is_aggregate,
            group_by,
            group: None,
            rows: Vec::new(),
        }
    }

    /// Takes a row in.
    pub(super) fn add(&mut self, row: &RowView<'_>, position: &[u8]) {
        if !self.is_aggregate {
            self.rows.push((position.to_vec(), self.projection.row(row)));
            return;
        }
        let key = self
            .group_by
            .iter()
            .map(|index| row.value(&row.layout.columns[*index]).cloned());
        let key: Vec<_> = key.collect();
        if self.group.as_ref().is_none_or(|(present, _)| *present != key) {
            self.close_group();
            self.group = Some((key, self.projection.group()));
        }
        if let Some((_, group)) = &mut self.group {
            group.add(row);
        }
    }

    fn close_group(&mut self) {
        if let Some((_, group)) = self.group.take() {
            self.rows.push((Vec::new(), group.finish()));
        }
    }

    /// The rows of the result, sorted and cut at the limit.
    pub(super) fn finish(mut self, limits: &RowLimits, order: RowOrder) -> Vec<Vec<Option<Bytes>>> {
        self.close_group();
        if self.is_aggregate && self.group_by.is_empty() && self.rows.is_empty() {
            self.rows.push((Vec::new(), self.projection.group().finish()));
        }
        if order.sorts {
            // A stable sort: rows of one position stay in the order of their keys.
            self.rows.sort_by(|(left, _), (right, _)| left.cmp(right));
        }
        if order.sorts && order.reversed {
            self.rows.reverse();
        }
        let limit = usize::try_from(limits.limit).unwrap_or(usize::MAX);
        self.rows.into_iter().map(|(_, row)| row).take(limit).collect()
    }
}
