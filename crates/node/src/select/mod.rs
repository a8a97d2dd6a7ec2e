//! SELECT: from the statement to a read and from its rows to a result.

mod limits;
pub(super) mod projection;
pub(super) mod read;
mod result_rows;
mod row_order;

use cqlens_cql::syntax::ast::{Select, Selection, Term};

use crate::answer::{Answer, Outcome, ResultColumn, RowSet};
use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::restriction::{Restrictions, Source};
use crate::store::StoredTable;
use cqlens_cql::schema::ColumnKind;
use limits::RowLimits;
use projection::Projection;
use read::{Read, Thresholds};
use result_rows::ResultRows;
use row_order::RowOrder;

/// Runs a SELECT on its table.
///
/// # Errors
/// What Cassandra refuses, what this node does not have, and reads that pass too many tombstones.
pub(super) fn run(
    select: &Select<'_>,
    layout: &Layout,
    table: &StoredTable,
    execution: &Execution<'_>,
    thresholds: Thresholds,
) -> Result<Answer, Failure> {
    if select.json {
        return Err(Failure::invalid(
            "SELECT JSON is not supported by this stand-in node",
        ));
    }
    let restrictions = Restrictions::of(&select.where_clause.relations, layout, execution)?;
    let projection = Projection::of(&select.selection, layout, execution)?;
    check_distinct(select, layout, &projection)?;
    if !select.allow_filtering {
        restrictions.check_filtering(layout)?;
    }
    let order = RowOrder::of(select, layout, &restrictions, execution)?;
    let is_aggregate = projection.is_aggregate() || !select.group_by.is_empty();
    let limits = RowLimits::of(select, is_aggregate || order.sorts, execution)?;
    let group_by = group_columns(select, layout)?;
    let read = Read {
        layout,
        restrictions: &restrictions,
        limits: &limits,
        thresholds,
        execution,
        reversed: order.reversed,
        is_distinct: select.distinct,
        selects_all: matches!(select.selection, Selection::All),
    };
    let mut rows = ResultRows::new(&projection, is_aggregate, group_by);
    let (mut warnings, mark) = read.run(table, &mut rows)?;
    if is_aggregate && execution.page_size.is_some() {
        warnings.extend(aggregation_warning(&restrictions.source).map(str::to_owned));
    }
    let rows = rows.finish(&limits, order);
    let paging_state = mark.map(|mark| mark.encode());
    let rows = RowSet {
        paging_state,
        ..RowSet::new(projection.columns, rows)
    };
    Ok(Answer {
        outcome: Outcome::Rows(rows),
        warnings,
    })
}

fn aggregation_warning(source: &Source) -> Option<&'static str> {
    match source {
        Source::Ring(_) => Some("Aggregation query used without partition key"),
        Source::Keys(keys) if keys.len() > 1 => {
            Some("Aggregation query used on multiple partition keys (IN restriction)")
        }
        Source::Keys(_) => None,
    }
}

fn check_distinct(select: &Select<'_>, layout: &Layout, projection: &Projection) -> Result<(), Failure> {
    if !select.distinct {
        return Ok(());
    }
    let is_refused = |(index, _): &(Option<usize>, &ResultColumn)| {
        index.is_none_or(|index| {
            let column = &layout.columns[index];
            !column.is_partition_key() && column.kind != ColumnKind::Static
        })
    };
    match projection
        .plain_columns()
        .zip(&projection.columns)
        .find(is_refused)
    {
        None => Ok(()),
        Some((_, column)) => Err(Failure::invalid(format!(
            "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
            column.name
        ))),
    }
}

fn group_columns(select: &Select<'_>, layout: &Layout) -> Result<Vec<usize>, Failure> {
    let column = |term: &Term<'_>| match term {
        Term::Column(name) => {
            let column = layout.column(name.as_str())?;
            if !column.is_primary_key() {
                return Err(Failure::invalid(format!(
                    "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
                    column.name
                )));
            }
            Ok(column.index)
        }
        _ => Err(Failure::invalid("This stand-in node groups by columns only")),
    };
    select.group_by.iter().map(column).collect()
}
