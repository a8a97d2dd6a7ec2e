//! SELECT: from the statement to a read and from its rows to a result.

use bytes::Bytes;
use cqlens_cql::syntax::ast::{Direction, Select, Selection, Term};
use cqlens_proto::types::CqlType;

use super::answer::{Answer, Outcome, ResultColumn, RowSet};
use super::bind::{self, Bound};
use super::execution::Execution;
use super::failure::Failure;
use super::layout::{Layout, RowView};
use super::paging::Mark;
use super::projection::{Group, Projection};
use super::read::{Read, Thresholds};
use super::restriction::{Restrictions, Source};
use super::store::Table;
use cqlens_cql::schema::ColumnKind;

/// Runs a SELECT on its table.
///
/// # Errors
/// What Cassandra refuses, what this node does not have, and reads that pass too many tombstones.
pub(crate) fn run(
    select: &Select<'_>,
    layout: &Layout,
    table: &Table,
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
    let order = Order::of(select, layout, &restrictions, execution)?;
    let is_aggregate = projection.is_aggregate() || !select.group_by.is_empty();
    let limits = Limits::of(select, is_aggregate || order.sorts, execution)?;
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
    let mut rows = Rows::new(&projection, is_aggregate, group_by);
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

/// In which order rows come.
#[derive(Debug, Clone, Copy)]
struct Order {
    /// Against the order in which the table is stored.
    reversed: bool,
    /// Rows of several partitions are put in one order.
    sorts: bool,
}

impl Order {
    fn of(
        select: &Select<'_>,
        layout: &Layout,
        restrictions: &Restrictions,
        execution: &Execution<'_>,
    ) -> Result<Order, Failure> {
        let Some(first) = select.order_by.first() else {
            return Ok(Order {
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
                    "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {}",
                    column.name
                )));
            }
            let is_against = column.is_descending() != (ordering.direction == Direction::Descending);
            if expected.next().is_none_or(|next| next.index != column.index) {
                return Err(Failure::invalid(
                    "Order by currently only supports the ordering of columns following their declared order in the \
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
        Ok(Order {
            reversed: reversed.unwrap_or(false),
            sorts,
        })
    }
}

/// How many rows come.
#[derive(Debug)]
pub(crate) struct Limits {
    /// LIMIT, less what earlier pages took.
    pub(crate) limit: u64,
    /// PER PARTITION LIMIT.
    pub(crate) per_partition: u64,
    /// Rows of this page.
    pub(crate) page: u64,
    /// Whether all rows are read before LIMIT is looked at.
    pub(crate) reads_all: bool,
    /// Where the page before this one ended.
    pub(crate) resume: Option<Mark>,
}

impl Limits {
    fn of(select: &Select<'_>, reads_all: bool, execution: &Execution<'_>) -> Result<Limits, Failure> {
        let limit = row_count(select.limit.as_ref(), "LIMIT", execution)?;
        let per_partition = row_count(
            select.per_partition_limit.as_ref(),
            "PER PARTITION LIMIT",
            execution,
        )?;
        let page = execution
            .page_size
            .filter(|_| !reads_all)
            .map_or(u64::MAX, |rows| rows as u64);
        let resume = execution.paging_state.map(Mark::decode).transpose()?;
        let limit = resume.as_ref().map_or(limit, |mark| mark.rows_left);
        Ok(Limits {
            limit,
            per_partition,
            page,
            reads_all,
            resume,
        })
    }
}

/// The number behind LIMIT; without one, or not set, there is no limit.
fn row_count(term: Option<&Term<'_>>, what: &str, execution: &Execution<'_>) -> Result<u64, Failure> {
    let Some(term) = term else { return Ok(u64::MAX) };
    let bytes = match bind::term(term, &CqlType::Int, execution)? {
        Bound::NotSet => return Ok(u64::MAX),
        bound => bound.required(what)?,
    };
    let rows = bytes[..].try_into().map(i32::from_be_bytes).unwrap_or(0);
    match u64::try_from(rows) {
        Ok(rows @ 1..) => Ok(rows),
        _ => Err(Failure::invalid(format!("{what} must be strictly positive"))),
    }
}

/// Rows on their way into the result.
pub(crate) struct Rows<'p> {
    projection: &'p Projection,
    is_aggregate: bool,
    group_by: Vec<usize>,
    group: Option<(Vec<Option<Bytes>>, Group<'p>)>,
    /// With the position in their partition, for ORDER BY over several partitions.
    rows: Vec<(Vec<u8>, Vec<Option<Bytes>>)>,
}

impl<'p> Rows<'p> {
    fn new(projection: &'p Projection, is_aggregate: bool, group_by: Vec<usize>) -> Self {
        Rows {
            projection,
            is_aggregate,
            group_by,
            group: None,
            rows: Vec::new(),
        }
    }

    /// Takes a row in.
    pub(crate) fn add(&mut self, row: &RowView<'_>, position: &[u8]) {
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

    fn finish(mut self, limits: &Limits, order: Order) -> Vec<Vec<Option<Bytes>>> {
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
