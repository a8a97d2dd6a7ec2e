//! The key and the columns that a query asks for.

use std::collections::{BTreeMap, BTreeSet};

use cqlens_cql::{
    schema::{Column, ColumnKind, Order, Schema, Table},
    syntax::ast::{Body, Direction, RelationOperator, Select, Selection, Subject, Term},
};

use super::{
    bucket::{Bucket, is_boolean},
    definition::{LONGEST_NAME, plain},
};
use crate::rules::{Context, figures};

/// The keys that tables would need to serve the queries of one, with the columns that each query selects.
pub(in crate::rules) type Asked = BTreeMap<NeededKey, BTreeSet<String>>;

/// The primary key that a query needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::rules) struct NeededKey {
    partition: Vec<String>,
    /// With whether it is descending.
    clustering: Vec<(String, bool)>,
}

/// What the application's queries ask of tables like this one.
pub(in crate::rules) fn asked(table: &Table, context: &Context<'_>) -> Asked {
    let mut asked = Asked::new();
    for (id, pattern) in figures::user_patterns(context) {
        let head = &pattern.head;
        let is_of_table = head.table.as_deref() == Some(table.name.as_str())
            && head.keyspace.as_deref() == Some(table.keyspace.as_str());
        let Some(statement) = context
            .statement(id)
            .filter(|_| is_of_table && head.kind.is_read())
        else {
            continue;
        };
        if let Body::Select(select) = &statement.body
            && let Some(wanted) = Wanted::of(select, table)
        {
            let columns = wanted.others.iter().map(|column| column.name.clone());
            asked.entry(wanted.key()).or_default().extend(columns);
        }
    }
    asked
}

/// The key and the columns that a query asks for.
pub(super) struct Wanted<'a> {
    pub(super) partition_key: Vec<&'a Column>,
    /// With their direction.
    pub(super) clustering: Vec<(&'a Column, Direction)>,
    pub(super) others: Vec<&'a Column>,
}

impl<'a> Wanted<'a> {
    pub(super) fn of(select: &Select<'_>, table: &'a Table) -> Option<Self> {
        let restricted = Restricted::of(select, table)?;
        let of_key = |column: &&Column| column.kind == ColumnKind::PartitionKey;
        let given: Vec<_> = restricted.equal.iter().copied().filter(of_key).collect();
        let names_partition = given.len() == table.partition_key().len();
        // Of two partitions each is too large, whatever its order.
        let is_narrow = given.iter().all(|column| is_boolean(column));
        let (partition_key, mut first) = if names_partition && !is_narrow {
            // The query names its partition: only the order inside it must change.
            let rest = restricted.equal.iter().copied().filter(|column| !of_key(column));
            (given, rest.collect::<Vec<_>>())
        } else {
            (restricted.equal, Vec::new())
        };
        if partition_key.is_empty() || (first.is_empty() && partition_key == all(table.partition_key())) {
            return None;
        }
        first.extend(restricted.listed);
        first.extend(restricted.ranges);
        let mut wanted = Self {
            partition_key,
            clustering: Vec::new(),
            others: Vec::new(),
        };
        first.into_iter().for_each(|column| wanted.cluster(column, None));
        for order in &select.order_by {
            wanted.cluster(table.column(order.column.as_str())?, Some(order.direction));
        }
        // Without the whole old key, two rows could fall into one.
        let old_key = table.columns.iter().filter(|column| column.is_primary_key());
        old_key.for_each(|column| wanted.cluster(column, None));
        let has_room = |column: &&Column| !wanted.is_key(column) && selects(select, column);
        wanted.others = table.columns.iter().filter(has_room).collect();
        wanted.is_possible().then_some(wanted)
    }

    fn cluster(&mut self, column: &'a Column, direction: Option<Direction>) {
        let stored = if column.is_descending() {
            Direction::Descending
        } else {
            Direction::Ascending
        };
        if !self.is_key(column) {
            self.clustering.push((column, direction.unwrap_or(stored)));
        } else if let Some(direction) = direction {
            let same = self
                .clustering
                .iter_mut()
                .filter(|(other, _)| other.name == column.name);
            same.for_each(|(_, other)| *other = direction);
        }
    }

    pub(super) fn is_key(&self, column: &Column) -> bool {
        let mut key = self
            .partition_key
            .iter()
            .chain(self.clustering.iter().map(|(column, _)| column));
        key.any(|other| other.name == column.name)
    }

    /// Counters and columns of several cells cannot be part of a key, and counters live among counters only.
    fn is_possible(&self) -> bool {
        let mut key = self
            .partition_key
            .iter()
            .chain(self.clustering.iter().map(|(column, _)| column));
        let fits = key.all(|column| !column.data_type.is_multi_cell() && column.kind != ColumnKind::Static);
        fits && !self.others.iter().any(|column| column.data_type.is_counter())
    }

    /// Whether the other table has this partition key, begins its rows with the columns that the query
    /// restricts, and holds what the query selects.
    pub(super) fn is_served_by(&self, other: &Table, table: &Table) -> bool {
        let names = |columns: &[&Column]| {
            let mut names: Vec<_> = columns.iter().map(|column| column.name.clone()).collect();
            names.sort();
            names
        };
        let old_key = |column: &Column| table.column(&column.name).is_some_and(Column::is_primary_key);
        let mut first = self.clustering.iter().take_while(|(column, _)| !old_key(column));
        let mut theirs = other.clustering().iter();
        other.name != table.name
            && names(&self.partition_key) == names(&all(other.partition_key()))
            && first.all(|(column, _)| theirs.next().is_some_and(|theirs| theirs.name == column.name))
            && self
                .others
                .iter()
                .all(|column| other.column(&column.name).is_some())
    }

    pub(super) fn key(&self) -> NeededKey {
        let clustering = self.clustering.iter();
        NeededKey {
            partition: self
                .partition_key
                .iter()
                .map(|column| column.name.clone())
                .collect(),
            clustering: clustering
                .map(|(column, direction)| (column.name.clone(), *direction == Direction::Descending))
                .collect(),
        }
    }

    pub(super) fn columns(&self, bucket: Option<&Bucket>) -> Vec<Column> {
        let of_kind = |column: &Column, kind| Column {
            kind,
            ..column.clone()
        };
        let key = self.partition_key.iter();
        let key = key.map(|column| of_kind(column, ColumnKind::PartitionKey));
        let clustering = self.clustering.iter().map(|(column, direction)| {
            let order = match direction {
                Direction::Ascending => Order::Ascending,
                Direction::Descending => Order::Descending,
            };
            of_kind(column, ColumnKind::Clustering(order))
        });
        let others = self.others.iter();
        let others = others.map(|column| of_kind(column, ColumnKind::Regular));
        let bucket = bucket.map(|bucket| Column {
            name: bucket.name.clone(),
            kind: ColumnKind::PartitionKey,
            data_type: bucket.data_type.clone(),
        });
        key.chain(bucket).chain(clustering).chain(others).collect()
    }

    /// `orders_by_status`, and by what else where other queries need another order of it; none where that is
    /// longer than Cassandra allows or taken.
    pub(super) fn free_name(&self, table: &Table, schema: &Schema, asked: &Asked) -> Option<String> {
        let by: Vec<_> = self
            .partition_key
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        let by = match self.clustering.first() {
            Some((first, _)) if self.partition_key == all(table.partition_key()) => first.name.clone(),
            _ => by.join("_and_"),
        };
        let key = self.key();
        let others: Vec<_> = asked
            .keys()
            .filter(|other| other.partition == key.partition)
            .collect();
        let is_first = others.first().is_none_or(|first| **first == key);
        let by = if self.partition_key == all(table.partition_key()) || is_first {
            by
        } else {
            let (column, is_descending) = key.clustering.first()?;
            let direction = if *is_descending { "_desc" } else { "" };
            format!("{by}_and_{column}{direction}")
        };
        let name = plain(&format!("{}_by_{by}", table.name));
        let is_free = schema.table(&table.keyspace, &name).is_none();
        (name.len() <= LONGEST_NAME && is_free).then_some(name)
    }
}

/// The columns that a WHERE clause restricts, by how.
#[derive(Default)]
struct Restricted<'a> {
    equal: Vec<&'a Column>,
    listed: Vec<&'a Column>,
    ranges: Vec<&'a Column>,
}

impl<'a> Restricted<'a> {
    /// None where a relation is of a kind that no key serves: `CONTAINS`, `LIKE`, `token()`, `!=`, an
    /// element, an index's own language.
    fn of(select: &Select<'_>, table: &'a Table) -> Option<Self> {
        let mut restricted = Self::default();
        if !select.where_clause.custom_index_expressions.is_empty() {
            return None;
        }
        for relation in &select.where_clause.relations {
            let Subject::Column(name) = &relation.subject else {
                return None;
            };
            let column = table.column(name.as_str())?;
            let columns = match relation.operator {
                RelationOperator::Equal => &mut restricted.equal,
                RelationOperator::In => &mut restricted.listed,
                RelationOperator::LessThan
                | RelationOperator::LessOrEqual
                | RelationOperator::GreaterThan
                | RelationOperator::GreaterOrEqual
                | RelationOperator::Between => &mut restricted.ranges,
                _ => return None,
            };
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        // Rows can be sliced along one column only.
        (restricted.ranges.len() <= 1).then_some(restricted)
    }
}

fn all(columns: &[Column]) -> Vec<&Column> {
    columns.iter().collect()
}

/// Whether the query needs the column; whatever is computed may need any.
fn selects(select: &Select<'_>, column: &Column) -> bool {
    let Selection::Selectors(selectors) = &select.selection else {
        return true;
    };
    selectors.iter().any(|selector| match &selector.term {
        Term::Column(name) => name.as_str() == column.name,
        _ => true,
    })
}
