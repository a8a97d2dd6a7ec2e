//! Plans of `SELECT` (`SelectStatement.RawStatement.prepare`).

use crate::syntax::ast::{Direction, Select, Term};

use super::cells::CellPlan;
use super::clustering::RowCheck;
use super::compile::Receiver;
use super::facts::SchemaFacts;
use super::hints::IndexHints;
use super::keys::{KeyColumn, KeyPlan};
use super::refusal::Refusal;
use super::restrictions::{Purpose, Restrictions};
use super::selector;
use super::shape::{ReadPlan, Reads};
use super::target::Target;
use super::term::{CompiledTerm, Fault};
use super::token::TokenRange;
use crate::schema::{Column, ColumnKind, Table, is_virtual};
use cqlens_proto::types::CqlType;

/// Plans a read of a known table.
pub(super) fn plan(select: &Select<'_>, target: &Target<'_>) -> Result<(SchemaFacts, ReadPlan), Refusal> {
    let table = target.table;
    let selected = selector::columns(&select.selection, table)?;
    let only_static = selects_only_static(&selected, table);
    let ann = ann_column(select, target)?;
    let hints = IndexHints::of(select, table)?;
    let restrict = |allow_filtering: bool| {
        let purpose = Purpose::Select { allow_filtering };
        Restrictions::with_hints(
            &target.translator(),
            &select.where_clause,
            purpose,
            ann,
            only_static,
            &hints.excluded,
        )
    };
    let restrictions = restrict(select.allow_filtering)?;
    let is_aggregate = selector::is_aggregate(&select.selection, target.keyspace);
    check_distinct(select, &restrictions, &selected)?;
    check_grouping(select, &restrictions)?;
    if is_aggregate && select.group_by.is_empty() && select.per_partition_limit.is_some() {
        return Err(Refusal::new(
            "PER PARTITION LIMIT is not allowed with aggregate queries.",
        ));
    }
    let reversed = reversed(select, &restrictions, ann.is_some())?;
    let facts = SchemaFacts {
        filtering_needed: select.allow_filtering && restrict(false).is_err(),
        full_partition_key: !restrictions.is_key_range,
        names_rows: restrictions.names_rows(),
        reversed,
        aggregate: is_aggregate,
        ..target.facts(&restrictions)
    };
    let limit = |term: &Option<Term<'_>>, name: &str| {
        let receiver = Receiver {
            name,
            cql_type: &CqlType::Int,
        };
        term.as_ref()
            .map(|term| target.compiler().term(term, receiver))
            .transpose()
    };
    let refusal = hints.refusal(&restrictions.indexes);
    let plan = ReadPlan {
        refusal,
        filters: restrictions
            .others
            .iter()
            .flat_map(|other| other.filters.clone())
            .collect(),
        reads: reads(select, target, &restrictions, &selected),
        limit: limit(&select.limit, "[limit]")?,
        per_partition_limit: limit(&select.per_partition_limit, "[per_partition_limit]")?,
        cells: CellPlan::of_read(&restrictions, target),
    };
    Ok((facts, plan))
}

fn reads(
    select: &Select<'_>,
    target: &Target<'_>,
    restrictions: &Restrictions<'_>,
    selected: &[&Column],
) -> Reads {
    let looks_anyway = select.distinct || reads_static_row(restrictions, selected);
    let row_check = if looks_anyway {
        None
    } else {
        RowCheck::of(restrictions, target.keyspace)
    };
    let virtual_table = is_virtual(&target.table.keyspace);
    let token = restrictions.token.clone().map(TokenRange::from);
    // Tokens of virtual tables are not computed.
    let token = token.filter(|_| !virtual_table || !restrictions.is_key_range);
    let not_computed = || TokenRange::Equal(CompiledTerm::Unknown(Fault::NotFollowed));
    let token = token.map(|token| if virtual_table { not_computed() } else { token });
    if !restrictions.is_key_range {
        let columns = restrictions.partition.iter().flatten().zip(&target.key_types);
        let columns =
            columns.filter_map(|(restriction, cql_type)| KeyColumn::of(restriction, cql_type.clone()));
        let keys = KeyPlan {
            table: target.name.clone(),
            columns: columns.collect(),
            token,
        };
        return Reads::Keys { keys, row_check };
    }
    Reads::Range {
        token,
        by_index: restrictions.uses_index,
        row_check,
    }
}

/// Whether the static row is looked for even where no other row can be
/// (`SelectStatement.makeClusteringIndexFilter`).
///
/// Named rows: if a static column is fetched, which all are where only the key is asked for. Slices: in a
/// range read, if a static column is selected; never in a named partition.
fn reads_static_row(restrictions: &Restrictions<'_>, selected: &[&Column]) -> bool {
    let is_static = |column: &&Column| column.kind == ColumnKind::Static;
    let selects_static = selected.iter().any(is_static);
    if restrictions.is_column_range() {
        return selects_static && restrictions.is_key_range;
    }
    let restricted = restrictions.others.iter().flat_map(|other| &other.columns);
    let mut fetched = selected
        .iter()
        .chain(restricted)
        .filter(|column| !column.is_primary_key())
        .peekable();
    let only_keys = fetched.peek().is_none();
    fetched.any(is_static)
        || (only_keys && restrictions.table.columns.iter().any(|column| is_static(&column)))
}

fn selects_only_static(selected: &[&Column], table: &Table) -> bool {
    let has_static = table
        .columns
        .iter()
        .any(|column| column.kind == ColumnKind::Static);
    has_static
        && selected.iter().any(|column| column.kind == ColumnKind::Static)
        && selected
            .iter()
            .all(|column| matches!(column.kind, ColumnKind::Static | ColumnKind::PartitionKey))
}

fn ann_column<'s>(select: &Select<'_>, target: &'s Target<'s>) -> Result<Option<&'s Column>, Refusal> {
    let translator = target.translator();
    let mut ann = None;
    for ordering in &select.order_by {
        let column = translator.column(ordering.column.as_str(), ordering.column.span)?;
        if let Some(vector) = &ordering.ann_of {
            let refuse = |message: &'static str| Err(Refusal::at(message, ordering.span));
            if select.order_by.len() > 1 {
                return refuse("Cannot combine ANN ordering with any other ordering");
            }
            if ordering.direction == Direction::Descending {
                return refuse("Descending ANN ordering is not supported");
            }
            let cql_type = target.keyspace.resolve(&column.data_type);
            target.compiler().term(
                vector,
                Receiver {
                    name: &column.name,
                    cql_type: &cql_type,
                },
            )?;
            ann = Some(column);
        }
    }
    Ok(ann)
}

fn check_distinct(
    select: &Select<'_>,
    restrictions: &Restrictions<'_>,
    selected: &[&Column],
) -> Result<(), Refusal> {
    if !select.distinct {
        return Ok(());
    }
    if select.per_partition_limit.is_some() {
        return Err(Refusal::new(
            "PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries",
        ));
    }
    let table = restrictions.table;
    let is_static = |kind: ColumnKind| kind == ColumnKind::Static || table.is_static_compact();
    let only_static = restrictions.others.iter().all(|other| is_static(other.kind()));
    if !restrictions.clustering.is_empty() || !only_static {
        let message = "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.";
        return Err(Refusal::new(message));
    }
    let fits = |column: &&Column| matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static);
    if !selected.iter().all(fits) {
        let message = "SELECT DISTINCT queries must only request partition key columns and/or static columns";
        return Err(Refusal::new(message));
    }
    // Columns that the coordinator sorts by are requested too.
    if restrictions.has_partition_in() && !select.order_by.is_empty() {
        return Err(Refusal::new(
            "SELECT DISTINCT queries must only request partition key columns and/or static columns",
        ));
    }
    let has = |column: &Column| selected.iter().any(|other| other.name == column.name);
    if restrictions.is_key_range && !restrictions.table.partition_key().iter().all(has) {
        return Err(Refusal::new(
            "SELECT DISTINCT queries must request all the partition key columns",
        ));
    }
    Ok(())
}

/// Groups follow the primary key; columns that are fixed by `=` may be left out.
fn check_grouping(select: &Select<'_>, restrictions: &Restrictions<'_>) -> Result<(), Refusal> {
    if select.group_by.is_empty() {
        return Ok(());
    }
    let table = restrictions.table;
    let key: Vec<&Column> = table.partition_key().iter().chain(table.clustering()).collect();
    let mut next = 0;
    let mut groups_rows = false;
    for term in &select.group_by {
        let refuse = |message: &'static str| Err(Refusal::at(message, term.span()));
        let name = match term {
            Term::Column(name) => name.as_str(),
            // A function of one clustering column, such as floor(time, 1h).
            Term::Function(call) => match call.arguments.iter().find_map(selector::column_name) {
                Some(name) => name,
                None => {
                    return refuse("GROUP BY functions must have one clustering column name as parameter");
                }
            },
            _ => return Ok(()),
        };
        let order = "Group by currently only support groups of columns following their declared order in the PRIMARY KEY";
        let Some(column) = table.column(name) else {
            return refuse("GROUP BY names a column that does not exist");
        };
        if !column.is_primary_key() {
            return refuse("Group by is currently only supported on the columns of the PRIMARY KEY");
        }
        while key.get(next).is_some_and(|other| other.name != name) {
            if !restrictions.is_equal(key[next]) {
                return refuse(order);
            }
            next += 1;
        }
        if next == key.len() {
            return refuse(order);
        }
        next += 1;
        groups_rows = next > table.partition_key().len();
    }
    if next < table.partition_key().len() {
        return Err(Refusal::new(
            "Group by is not supported on only a part of the partition key",
        ));
    }
    if groups_rows && select.distinct {
        return Err(Refusal::new(
            "Grouping on clustering columns is not allowed for SELECT DISTINCT queries",
        ));
    }
    Ok(())
}

/// Whether rows are read from the end: all columns of `ORDER BY` go against their clustering order.
fn reversed(select: &Select<'_>, restrictions: &Restrictions<'_>, is_ann: bool) -> Result<bool, Refusal> {
    if select.order_by.is_empty() || is_ann {
        return Ok(false);
    }
    if restrictions.uses_index {
        let message = "ORDER BY with 2ndary indexes is not supported, except for ANN queries.";
        return Err(Refusal::new(message));
    }
    if restrictions.is_key_range {
        let message = "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.";
        return Err(Refusal::new(message));
    }
    let clustering = restrictions.table.clustering();
    let mut next = 0;
    let mut reversed = None;
    for ordering in &select.order_by {
        let refuse = |message: &'static str| Err(Refusal::at(message, ordering.span));
        let position = clustering
            .iter()
            .position(|column| ordering.column == *column.name);
        let Some(position) = position else {
            return refuse(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY",
            );
        };
        // A column that is named twice is ordered as it is the last time.
        if position < next
            && select
                .order_by
                .iter()
                .filter(|other| other.column.text == ordering.column.text)
                .count()
                > 1
        {
            continue;
        }
        while next != position {
            if next > position || !restrictions.is_equal(&clustering[next]) {
                let message =
                    "Order by currently only supports the ordering of columns following their declared order";
                return refuse(message);
            }
            next += 1;
        }
        next += 1;
        let against = (ordering.direction == Direction::Descending) != clustering[position].is_descending();
        if reversed.is_some_and(|reversed| reversed != against) {
            return refuse("Unsupported order by relation");
        }
        reversed = Some(against);
    }
    Ok(reversed.unwrap_or(false))
}
