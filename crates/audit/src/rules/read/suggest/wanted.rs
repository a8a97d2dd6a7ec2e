//! The key and the columns that a query asks for.

use std::collections::{BTreeMap, BTreeSet};

use cqlens_cql::{
    schema::{Column, ColumnKind, Order, Schema, Table},
    syntax::ast::{
        Body, Direction, Modification, QualifiedName, RelationOperator, Select, Selection, Subject, Term,
    },
};

use super::{
    bucket::{BucketColumn, rows_of_a_read},
    definition::free_name,
    migration::Writing,
};
use crate::{
    rules::{
        Context,
        definition::most_partitions,
        figures,
        statement::{modifications, restricted},
    },
    window::Pattern,
};

/// What the application asks of a table, and how it writes it.
#[derive(Debug, Default)]
pub(in crate::rules) struct Asked {
    /// By the keys that tables would need to serve the queries.
    pub(super) needs: BTreeMap<NeededKey, Need>,
    pub(super) writing: Writing,
}

/// What queries that need one key have in common: they share a table.
#[derive(Debug, Clone, Default)]
pub(in crate::rules) struct Need {
    /// The columns that any of them selects.
    pub(super) columns: BTreeSet<String>,
    /// The columns that any of them restricts.
    pub(super) restricted: BTreeSet<String>,
    /// Rows of a read (p99), of the query that gets most.
    pub(super) rows: u64,
}

/// The primary key that a query needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::rules) struct NeededKey {
    partition: Vec<String>,
    /// With whether it is descending.
    clustering: Vec<(String, bool)>,
}

/// What the application's statements ask of tables like this one.
pub(in crate::rules) fn asked(table: &Table, context: &Context<'_>) -> Asked {
    let mut asked = Asked::default();
    asked.writing.expires = table.default_time_to_live() > 0;
    for (id, pattern) in figures::user_patterns(context) {
        let Some(statement) = context.statement(id) else {
            continue;
        };
        let keyspace = pattern.head.keyspace.as_deref();
        match &statement.body {
            Body::Select(select) if is_of(&select.table, keyspace, table) => {
                if let Some(wanted) = Wanted::of(select, table) {
                    let need = asked.needs.entry(wanted.key()).or_default();
                    need.add(&wanted, select, pattern);
                }
            }
            _ => {
                let writes = modifications(&statement);
                let of_table = writes
                    .iter()
                    .filter(|write| is_of(write.table(), keyspace, table));
                of_table.for_each(|write| asked.writing.add(write));
            }
        }
    }
    asked
}

fn is_of(name: &QualifiedName<'_>, keyspace: Option<&str>, table: &Table) -> bool {
    name.name.as_str() == table.name && name.keyspace_or(keyspace) == Some(table.keyspace.as_str())
}

impl Need {
    /// Adds a query with this key.
    pub(super) fn add(&mut self, wanted: &Wanted<'_>, select: &Select<'_>, pattern: &Pattern) {
        let columns = wanted.others.iter().map(|column| column.name.clone());
        self.columns.extend(columns);
        self.restricted.extend(restricted(select));
        self.rows = self.rows.max(rows_of_a_read(pattern));
    }
}

impl Writing {
    fn add(&mut self, write: &Modification<'_>) {
        let (ttl, condition) = match write {
            Modification::Insert(insert) => (insert.using.ttl.is_some(), insert.if_not_exists),
            Modification::Update(update) => (update.using.ttl.is_some(), update.condition.is_some()),
            Modification::Delete(delete) => (false, delete.condition.is_some()),
        };
        self.expires |= ttl;
        self.is_conditional |= condition;
    }
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
        // Rows of a counter table are added to: they cannot be written twice in one batch, nor copied.
        let is_of_rows = !select.distinct && select.group_by.is_empty() && !asks_for_age(select);
        if table.is_counter() || !is_of_rows {
            return None;
        }
        let restricted = Restricted::of(select, table)?;
        let of_key = |column: &&Column| column.kind == ColumnKind::PartitionKey;
        let given: Vec<_> = restricted.equal.iter().copied().filter(of_key).collect();
        let names_partition = given.len() == table.partition_key().len();
        let mut key = table.columns.iter().filter(|column| column.is_primary_key());
        // One row is found by its key, whatever else is asked of it.
        if key.all(|column| restricted.equal.contains(&column)) {
            return None;
        }
        // Of two partitions each is too large, whatever its order.
        let is_narrow = most_partitions(given.iter().copied()).is_some();
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
        let sliced: Vec<_> = restricted.listed.into_iter().chain(restricted.ranges).collect();
        if !is_in_order(select, &sliced) {
            return None;
        }
        first.extend(sliced);
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

    /// Columns of several cells and durations, which have no order, cannot be part of a key; static ones would have to
    /// move all rows of their partition.
    fn is_possible(&self) -> bool {
        let mut key = self
            .partition_key
            .iter()
            .chain(self.clustering.iter().map(|(column, _)| column));
        key.all(|column| {
            let has_order = !column.data_type.to_string().contains("duration");
            has_order && !column.data_type.is_multi_cell() && column.kind != ColumnKind::Static
        })
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

    pub(super) fn columns(&self, bucket: Option<&BucketColumn>, table: &Table) -> Vec<Column> {
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
        let others = others.map(|column| match column.kind {
            // Of the same partition as before.
            ColumnKind::Static if bucket.is_none() && self.names_partition(table) => (*column).clone(),
            _ => of_kind(column, ColumnKind::Regular),
        });
        let bucket = bucket.map(BucketColumn::column);
        key.chain(bucket).chain(clustering).chain(others).collect()
    }

    /// Whether the key is the one that the table has: the query names its partition.
    pub(super) fn names_partition(&self, table: &Table) -> bool {
        self.partition_key == all(table.partition_key())
    }

    /// `orders_by_status`, and by what else where another query needs another order of it or that is taken; none where
    /// all are.
    pub(super) fn free_name(&self, table: &Table, schema: &Schema, asked: &Asked) -> Option<String> {
        let own = self.key();
        let mut taken = BTreeSet::new();
        let mut free = |key: &NeededKey| {
            let mut names = key.names(table).into_iter();
            let name =
                names.find_map(|by| free_name(table, &by, schema).filter(|name| !taken.contains(name)))?;
            taken.insert(name.clone());
            Some(name)
        };
        let before = asked.needs.keys().take_while(|key| **key != own);
        before.for_each(|key| drop(free(key)));
        free(&own)
    }
}

impl NeededKey {
    /// What tables with this key are called by, the shortest first.
    fn names(&self, table: &Table) -> Vec<String> {
        let is_same = self
            .partition
            .iter()
            .eq(table.partition_key().iter().map(|column| &column.name));
        let mut parts = match is_same {
            true => Vec::new(),
            false => self.partition.clone(),
        };
        let mut names = Vec::new();
        if !is_same {
            names.push(parts.join("_and_"));
        }
        for (column, is_descending) in &self.clustering {
            let direction = if *is_descending && !parts.is_empty() {
                "_desc"
            } else {
                ""
            };
            parts.push(format!("{column}{direction}"));
            names.push(parts.join("_and_"));
        }
        names
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
        // The same columns are the same key, in whatever order a query has them.
        let place = |column: &&Column| table.columns.iter().position(|other| other == *column);
        restricted.equal.sort_by_key(place);
        // Rows can be sliced along one column only.
        (restricted.ranges.len() <= 1).then_some(restricted)
    }
}

/// Whether it asks when cells were written, or how long they live: a key has neither, and copies have their own.
fn asks_for_age(select: &Select<'_>) -> bool {
    let Selection::Selectors(selectors) = &select.selection else {
        return false;
    };
    let mut selectors = selectors.iter();
    selectors.any(|selector| matches!(selector.term, Term::Metadata { .. }))
}

/// Whether rows that are sliced along these columns lie in the order that the query wants: by the same columns.
fn is_in_order(select: &Select<'_>, sliced: &[&Column]) -> bool {
    let mut pairs = select.order_by.iter().zip(sliced);
    let is_by_distance = select.order_by.iter().any(|order| order.ann_of.is_some());
    !is_by_distance && pairs.all(|(order, column)| order.column.as_str() == column.name)
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
