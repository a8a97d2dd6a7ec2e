//! `ORDER BY`: the order in which rows are read, and whether they are sorted afterwards.

use cqlens_cql::syntax::ast::{Direction, Select};

use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::restriction::{Restrictions, Source};

/// The order of the rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowOrder {
    /// Against the order in which the table is stored.
    pub(super) reversed: bool,
    /// Rows of several partitions are put in one order.
    pub(super) sorts: bool,
}

impl RowOrder {
    /// Reads `ORDER BY`.
    ///
    /// # Errors
    /// Orders that Cassandra refuses.
    pub(super) fn of(
        select: &Select<'_>,
        layout: &Layout,
        restrictions: &Restrictions,
        execution: &Execution<'_>,
    ) -> Result<RowOrder, Failure> {
        let Some(first) = select.order_by.first() else {
            return Ok(RowOrder {
                reversed: false,
                sorts: false,
            });
        };
        if first.ann_of.is_some() {
            return Err(Failure::invalid("This stand-in node has no vector search"));
        }
        let Source::Keys(keys) = &restrictions.source else {
            return Err(Failure::invalid(
                "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
            ));
        };
        let mut reversed = None;
        // Columns fixed by equality may be left out of ORDER BY, or named.
        let named = layout
            .clustering()
            .iter()
            .position(|column| column.name == first.column.as_str());
        let left_out = restrictions.fixed_clustering().min(named.unwrap_or(0));
        let mut expected = layout.clustering().iter().skip(left_out);
        for ordering in &select.order_by {
            let column = layout.column(ordering.column.as_str())?;
            if !column.is_clustering() {
                return Err(Failure::invalid(format!(
                    "RowOrder by is currently only supported on the clustered columns of the PRIMARY KEY, got {}",
                    column.name
                )));
            }
            let is_against = column.is_descending() != (ordering.direction == Direction::Descending);
            if expected.next().is_none_or(|next| next.index != column.index) {
                return Err(Failure::invalid(
                    "RowOrder by currently only supports the ordering of columns following their declared order in the \
                     PRIMARY KEY",
                ));
            }
            if reversed.is_some_and(|reversed| reversed != is_against) {
                return Err(Failure::invalid("Unsupported order by relation"));
            }
            reversed = Some(is_against);
        }
        let sorts = keys.len() > 1;
        if sorts && execution.page_size.is_some() {
            return Err(Failure::invalid(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either \
                 remove the ORDER BY or the IN and sort client side, or disable paging for this query",
            ));
        }
        Ok(RowOrder {
            reversed: reversed.unwrap_or(false),
            sorts,
        })
    }
}
