//! The key and the columns that a query asks for.

use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use cqlens_cql::{
    schema::{Column, ColumnKind, Order, Schema, Table, TableName},
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
    Context,
    definition::most_partitions,
    figures,
    statement::{modifications, restricted},
};
use cqlens_window::Pattern;

/// What the application asks of a table, and how it writes it.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// By the keys that tables would need to serve the queries.
    pub(super) needs: BTreeMap<NeededKey, Need>,
    pub(super) writing: Writing,
    /// What the tables are called that these keys need; none where all names are taken.
    names: OnceCell<Names>,
}

/// Names of tables that are suggested.
#[derive(Debug, Default)]
struct Names {
    by_key: BTreeMap<NeededKey, Option<String>>,
    taken: BTreeSet<String>,
}

/// What tables are called that were suggested in one run, over all of its statements: two keys never get one name.
#[derive(Debug, Default)]
pub struct SuggestedNames(RefCell<BTreeMap<TableName, Names>>);

impl SuggestedNames {
    /// The name of a table like this one with that key: the one that it was given before, else one that is free.
    fn name(&self, key: NeededKey, table: &Table, schema: &Schema) -> Option<String> {
        let mut tables = self.0.borrow_mut();
        let names = tables.entry(super::bucket::name_of(table)).or_default();
        if let Some(name) = names.by_key.get(&key) {
            return name.clone();
        }
        let name = key.free_name(table, schema, &names.taken);
        names.taken.extend(name.clone());
        names.by_key.insert(key, name.clone());
        name
    }
}

/// What queries that need one key have in common: they share a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Need {
    /// The columns that any of them selects.
    pub(super) columns: BTreeSet<String>,
    /// The columns that any of them restricts.
    pub(super) restricted: BTreeSet<String>,
    /// Rows of a read (p99), of the query that gets most.
    pub(super) rows: u64,
}

/// The primary key that a query needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NeededKey {
    partition: Vec<String>,
    /// With whether it is descending.
    clustering: Vec<(String, bool)>,
}

/// What the application's statements ask of each table.
pub(crate) fn asked(context: &Context<'_>) -> BTreeMap<TableName, Rc<Asked>> {
    let mut tables: BTreeMap<TableName, Asked> = BTreeMap::new();
    for (id, pattern) in figures::user_patterns(context) {
        let Some(statement) = context.statement(id) else {
            continue;
        };
        let keyspace = pattern.head.keyspace.as_deref();
        if let Body::Select(select) = &statement.body {
            let name = named(&select.table, keyspace);
            let table =
                name.and_then(|name| Some((context.schema.table(&name.keyspace, &name.table)?, name)));
            let wanted = table.and_then(|(table, name)| Some((Wanted::of(select, table)?, name)));
            if let Some((wanted, name)) = wanted {
                let needs = &mut tables.entry(name).or_default().needs;
                needs
                    .entry(wanted.key())
                    .or_default()
                    .add(&wanted, select, pattern);
            }
            continue;
        }
        for write in modifications(&statement) {
            if let Some(name) = named(write.table(), keyspace) {
                tables.entry(name).or_default().writing.add(&write);
            }
        }
    }
    tables
        .into_iter()
        .map(|(name, asked)| (name, Rc::new(asked)))
        .collect()
}

fn named(name: &QualifiedName<'_>, keyspace: Option<&str>) -> Option<TableName> {
    Some(TableName {
        keyspace: name.keyspace_or(keyspace)?.to_owned(),
        table: name.name.as_str().to_owned(),
    })
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
    pub(super) fn free_name(&self, table: &Table, context: &Context<'_>, asked: &Asked) -> Option<String> {
        let (own, schema) = (self.key(), context.schema);
        if let Some(run) = context.names() {
            return run.name(own, table, schema);
        }
        let names = asked.names.get_or_init(|| {
            let mut names = Names::default();
            for key in asked.needs.keys() {
                let name = key.free_name(table, schema, &names.taken);
                names.taken.extend(name.clone());
                names.by_key.insert(key.clone(), name);
            }
            names
        });
        let known = names.by_key.get(&own).cloned();
        known.unwrap_or_else(|| own.free_name(table, schema, &names.taken))
    }
}

impl NeededKey {
    /// What a table with this key is called: by as few columns as tell it from those that are there and those that
    /// were named before.
    fn free_name(&self, table: &Table, schema: &Schema, taken: &BTreeSet<String>) -> Option<String> {
        let is_same = self
            .partition
            .iter()
            .eq(table.partition_key().iter().map(|column| &column.name));
        let mut by = match is_same {
            true => String::new(),
            false => self.partition.join("_and_"),
        };
        let free = |by: &str| free_name(table, by, schema).filter(|name| !taken.contains(name));
        if !is_same && let Some(name) = free(&by) {
            return Some(name);
        }
        self.clustering
            .iter()
            .take(MOST_NAMES)
            .find_map(|(column, is_descending)| {
                let direction = if *is_descending && !by.is_empty() {
                    "_desc"
                } else {
                    ""
                };
                let and = if by.is_empty() { "" } else { "_and_" };
                by += &format!("{and}{column}{direction}");
                free(&by)
            })
    }
}

/// Names that are tried: what is longer is cut, and differs by its hash.
const MOST_NAMES: usize = 32;

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
