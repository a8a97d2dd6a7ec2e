//! The table that would serve a query: its partition key is what the query gives.
//!
//! Written from the template and the schema. Where either is not known, or a column cannot be part of a key,
//! nothing is suggested rather than something wrong. Queries that need the same key share a table: it has the
//! columns that any of them selects.

mod bucketed;

use std::collections::{BTreeMap, BTreeSet};

use cqlens_cql::syntax::{
    self,
    ast::{Body, Direction, NativeType, RelationOperator, Select, Selection, Subject, Term},
};

use crate::{
    rules::{Context, definition, figures},
    window::Pattern,
};
pub(in crate::rules) use bucketed::{BucketSpan, BucketWidth, by_hour, with_bucket};
use cqlens_cql::plan::Flag;
use cqlens_cql::schema::{
    Column, ColumnKind, ColumnName, DataType, OptionValue, Order, Schema, Table, TableName, quote,
};

/// What would serve a query.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::rules) struct Suggestion {
    /// A table that is there already, as `keyspace.table`; else the first statement creates one.
    pub(in crate::rules) existing: Option<String>,
    /// Whether the table has a bucket in its partition key.
    pub(in crate::rules) has_bucket: bool,
    /// The statements, each with its semicolon: the table where it is missing, the query on it.
    pub(in crate::rules) cql: Vec<String>,
}

/// The table that would serve the pattern's query by reading one partition, and the query on it.
pub(in crate::rules) fn table_for(pattern: &Pattern, context: &Context<'_>) -> Option<Suggestion> {
    let statement = syntax::parse(&pattern.head.cql).ok()?;
    let Body::Select(select) = &statement.body else {
        return None;
    };
    let schema = context.schema;
    let keyspace = pattern.head.keyspace.as_deref()?;
    let table = schema.table(keyspace, pattern.head.table.as_deref()?)?;
    let mut wanted = Wanted::of(select, table)?;
    let mut siblings = schema.keyspace(keyspace)?.tables.values();
    if let Some(existing) = siblings.find(|other| wanted.is_served_by(other, table)) {
        return Some(Suggestion {
            existing: Some(format!("{keyspace}.{}", existing.name)),
            has_bucket: false,
            cql: vec![query(&pattern.head.cql, select, existing, None)],
        });
    }
    let asked = context.asked(table);
    if let Some(columns) = asked.get(&wanted.key()) {
        wanted.others = table
            .columns
            .iter()
            .filter(|column| !wanted.is_key(column) && columns.contains(&column.name))
            .collect();
    }
    let bucket = wanted.bucket(pattern, table, context);
    let created = Table {
        name: wanted.free_name(table, schema, &asked)?,
        columns: wanted.columns(bucket.as_ref()),
        indexes: Default::default(),
        view: None,
        options: kept(table),
        ..table.clone()
    };
    Some(Suggestion {
        existing: None,
        has_bucket: bucket.is_some(),
        cql: vec![
            format!(
                "-- 1. create the table\n{}{}",
                bucket.as_ref().map(Bucket::comment).unwrap_or_default(),
                definition(&created)
            ),
            format!(
                "-- 2. write it with every write of {}, in one logged batch\n-- 3. copy the rows that are there\n\
                 -- 4. then read from it{}\n{}",
                name(table),
                bucket.as_ref().map(Bucket::reads).unwrap_or_default(),
                query(&pattern.head.cql, select, &created, bucket.as_ref())
            ),
        ],
    })
}

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

/// The options of a table that one with the same rows needs as well.
fn kept(table: &Table) -> BTreeMap<String, OptionValue> {
    let differs = |name: &str| match name {
        "default_time_to_live" => table.default_time_to_live() > 0,
        "gc_grace_seconds" => table.gc_grace_seconds() != Table::GC_GRACE_SECONDS,
        "compaction" => definition::compaction(table) != definition::SIZE_TIERED,
        _ => false,
    };
    let options = table.options.iter().filter(|(name, _)| differs(name));
    options
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// A column of the partition key that spreads the rows of one value over several partitions.
struct Bucket {
    name: String,
    data_type: DataType,
    /// What it is computed from.
    of: String,
}

impl Bucket {
    /// Into how many partitions a value is spread where no time tells them apart.
    const COUNT: u32 = 16;

    fn is_day(&self) -> bool {
        self.data_type == DataType::Native(NativeType::Date)
    }

    fn comment(&self) -> String {
        let Self { name, of, .. } = self;
        match self.is_day() {
            true => format!("-- {name}: the day of {of}\n"),
            false => format!("-- {name}: hash of {of} modulo {}\n", Self::COUNT),
        }
    }

    fn reads(&self) -> String {
        match self.is_day() {
            true => ", day by day".to_owned(),
            false => format!(", all {} buckets at the same time", Self::COUNT),
        }
    }
}

/// The pattern's table with its rows in the opposite order, and the query on it; none where its name would be
/// too long or is taken.
pub(super) fn in_reverse(pattern: &Pattern, schema: &Schema) -> Option<Vec<String>> {
    let statement = syntax::parse(&pattern.head.cql).ok()?;
    let Body::Select(select) = &statement.body else {
        return None;
    };
    let keyspace = pattern.head.keyspace.as_deref()?;
    let table = schema.table(keyspace, pattern.head.table.as_deref()?)?;
    let mut reversed = Table {
        indexes: Default::default(),
        view: None,
        options: kept(table),
        ..table.clone()
    };
    for column in &mut reversed.columns {
        column.kind = match column.kind {
            ColumnKind::Clustering(Order::Ascending) => ColumnKind::Clustering(Order::Descending),
            ColumnKind::Clustering(Order::Descending) => ColumnKind::Clustering(Order::Ascending),
            other => other,
        };
    }
    let first = reversed.clustering().first()?;
    let order = if first.is_descending() { "desc" } else { "asc" };
    reversed.name = plain(&format!("{}_by_{}_{order}", table.name, first.name));
    let is_free = schema.table(keyspace, &reversed.name).is_none();
    let fits = is_free && reversed.name.len() <= LONGEST_NAME;
    fits.then(|| {
        vec![
            definition(&reversed),
            query(&pattern.head.cql, select, &reversed, None),
        ]
    })
}

/// A read of the whole table as a job should do it: range after range.
pub(super) fn in_ranges(pattern: &Pattern, context: &Context<'_>) -> Option<String> {
    let cql = pattern.head.cql.as_str();
    let statement = syntax::parse(cql).ok()?;
    let Body::Select(select) = &statement.body else {
        return None;
    };
    let table = figures::definition(pattern, context.schema)?;
    let is_whole = select.where_clause.relations.is_empty() && select.order_by.is_empty();
    let end = select.table.span().range().end;
    let token = format!("token({})", names(table.partition_key()));
    is_whole.then(|| {
        format!(
            "-- by a job that needs all rows, range after range of the ring\n{} WHERE {token} > ? AND {token} <= ?{};",
            &cql[..end],
            &cql[end..]
        )
    })
}

/// A read of one of the partitions that the pattern asks for at once.
pub(super) fn of_one_key(pattern: &Pattern, context: &Context<'_>) -> Option<String> {
    let mut cql = pattern.head.cql.clone();
    let statement = syntax::parse(&pattern.head.cql).ok()?;
    let Body::Select(select) = &statement.body else {
        return None;
    };
    let table = figures::definition(pattern, context.schema)?;
    for relation in select.where_clause.relations.iter().rev() {
        if let (Subject::Column(column), RelationOperator::In) = (&relation.subject, relation.operator)
            && all(table.partition_key())
                .iter()
                .any(|key| key.name == column.as_str())
        {
            cql.replace_range(relation.span.range(), &format!("{} = ?", quote(column.as_str())));
        }
    }
    (cql != pattern.head.cql).then(|| format!("-- one statement for each key, sent at the same time\n{cql};"))
}

/// A name that needs no quotes.
fn plain(name: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() {
            character.to_ascii_lowercase()
        } else {
            '_'
        }
    };
    name.chars().map(plain).collect()
}

/// The key and the columns that a query asks for.
struct Wanted<'a> {
    partition_key: Vec<&'a Column>,
    /// With their direction.
    clustering: Vec<(&'a Column, Direction)>,
    others: Vec<&'a Column>,
}

impl<'a> Wanted<'a> {
    fn of(select: &Select<'_>, table: &'a Table) -> Option<Self> {
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

    fn is_key(&self, column: &Column) -> bool {
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
    fn is_served_by(&self, other: &Table, table: &Table) -> bool {
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

    fn key(&self) -> NeededKey {
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

    /// The bucket that the partition key needs: where its columns have few values, or a value has many rows.
    fn bucket(&self, pattern: &Pattern, table: &Table, context: &Context<'_>) -> Option<Bucket> {
        // What names its partition is spread already.
        let names_partition = pattern.is(Flag::FullPartitionKey);
        let is_crowded = pattern.paging.rows.quantile(0.99) >= CROWDED_ROWS;
        let have_few = self
            .partition_key
            .iter()
            .all(|column| has_few_values(column, table, context));
        if !have_few && (names_partition || !is_crowded) {
            return None;
        }
        let free = ["bucket", "spread", "part"];
        let name = free.iter().find(|name| table.column(name).is_none())?;
        let time = self.clustering.first().map(|(column, _)| *column);
        let time = time.filter(|column| definition::is_time(&column.data_type));
        let of = time.or_else(|| table.columns.first())?;
        let data_type = match time {
            Some(_) => NativeType::Date,
            None => NativeType::Int,
        };
        Some(Bucket {
            name: (*name).to_owned(),
            data_type: DataType::Native(data_type),
            of: quote(&of.name).into_owned(),
        })
    }

    fn columns(&self, bucket: Option<&Bucket>) -> Vec<Column> {
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
    fn free_name(&self, table: &Table, schema: &Schema, asked: &Asked) -> Option<String> {
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

fn is_boolean(column: &Column) -> bool {
    column.data_type == DataType::Native(NativeType::Boolean)
}

/// Whether a column is known to have so few values that each is on many rows.
fn has_few_values(column: &Column, table: &Table, context: &Context<'_>) -> bool {
    if is_boolean(column) {
        return true;
    }
    let name = ColumnName {
        table: TableName {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
        },
        column: column.name.clone(),
    };
    let written = context.window.indexed.get(&name);
    written.is_some_and(|written| {
        let values = written.values.estimate();
        (1..=FEW_VALUES).contains(&values) && written.rows.estimate() >= values * CROWDED_VALUE
    })
}

/// Values of a column that are few.
const FEW_VALUES: u64 = 20;

/// Rows of each that are many, in the time of one observation.
const CROWDED_VALUE: u64 = 100;

/// Rows of one read that are many for a partition.
const CROWDED_ROWS: u64 = 10_000;

/// `SchemaConstants.NAME_LENGTH`.
const LONGEST_NAME: usize = 48;

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

/// `CREATE TABLE` in the way in which people write it.
fn definition(table: &Table) -> String {
    let columns: String = table
        .columns
        .iter()
        .map(|column| format!("  {} {},\n", quote(&column.name), column.data_type))
        .collect();
    let mut key = format!("({})", names(table.partition_key()));
    if !table.clustering().is_empty() {
        key += &format!(", {}", names(table.clustering()));
    }
    let mut with: Vec<String> = Vec::new();
    if table.clustering().iter().any(Column::is_descending) {
        let direction = |column: &Column| if column.is_descending() { "DESC" } else { "ASC" };
        let ordered = table.clustering().iter();
        let ordered: Vec<_> = ordered
            .map(|column| format!("{} {}", quote(&column.name), direction(column)))
            .collect();
        with.push(format!("CLUSTERING ORDER BY ({})", ordered.join(", ")));
    }
    let options = table.options.iter();
    with.extend(options.map(|(name, value)| format!("{name} = {value}")));
    let with = match with.is_empty() {
        true => String::new(),
        false => format!(" WITH {}", with.join("\n  AND ")),
    };
    format!(
        "CREATE TABLE {} (\n{columns}  PRIMARY KEY ({key})\n){with};",
        name(table)
    )
}

fn names(columns: &[Column]) -> String {
    let names: Vec<_> = columns.iter().map(|column| quote(&column.name)).collect();
    names.join(", ")
}

/// The same query on the other table, with its bucket and without `ALLOW FILTERING`.
fn query(cql: &str, select: &Select<'_>, table: &Table, bucket: Option<&Bucket>) -> String {
    let span = select.table.span().range();
    let end = select.where_clause.relations.last();
    let end = end.map_or(span.end, |relation| relation.span.range().end);
    let bucket = bucket.map(|bucket| format!(" AND {} = ?", bucket.name));
    let query = format!(
        "{}{}{}{}{}",
        &cql[..span.start],
        name(table),
        &cql[span.end..end],
        bucket.unwrap_or_default(),
        &cql[end..]
    );
    format!("{};", query.trim_end().trim_end_matches(" ALLOW FILTERING"))
}

fn name(table: &Table) -> String {
    format!("{}.{}", quote(&table.keyspace), quote(&table.name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        rules::testing::{read, window},
        window::Cluster,
    };
    use cqlens_cql::footprint::PartitionClass;

    const SHOP: &str = "
        CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.orders (id uuid PRIMARY KEY, status text, day date, amount decimal, tags set<text>);
        CREATE TABLE shop.events (user text, at timeuuid, kind text, note text, PRIMARY KEY (user, at))
            WITH CLUSTERING ORDER BY (at DESC);
        CREATE TABLE shop.users (id uuid PRIMARY KEY, email text, \"Full Name\" text);
        CREATE TABLE shop.users_by_email (email text PRIMARY KEY, id uuid, \"Full Name\" text);
        CREATE TABLE shop.flags (id uuid PRIMARY KEY, active boolean, note text)
            WITH default_time_to_live = 60 AND compaction = {'class': 'LeveledCompactionStrategy'} AND comment = 'x';
        CREATE TABLE shop.clicks (page text PRIMARY KEY, site text STATIC, count counter);";

    /// What is suggested for the first of these queries.
    fn suggested_beside(queries: &[&str]) -> Option<Suggestion> {
        // The static column of a table without clustering is refused: it must not spoil the others.
        let (schema, _) = Schema::read_cql(SHOP);
        let patterns = queries.iter().map(|cql| read(cql, &[], PartitionClass::Scan, 1));
        let (window, cluster) = (window(patterns), Cluster::default());
        let context = Context::new(&window, &schema, &cluster);
        table_for(window.patterns.values().next()?, &context)
    }

    fn suggested(cql: &str) -> Option<Suggestion> {
        suggested_beside(&[cql])
    }

    /// The statements without comments.
    fn cql(text: &str) -> String {
        let statements = suggested(text).unwrap().cql.join("\n");
        let lines: Vec<_> = statements
            .lines()
            .filter(|line| !line.starts_with("--"))
            .collect();
        lines.join("\n")
    }

    #[test]
    fn the_steps_of_the_migration_stand_with_the_statements() {
        let suggestion = suggested("SELECT id FROM shop.orders WHERE status = ? ALLOW FILTERING").unwrap();
        assert!(
            suggestion.cql[0].starts_with("-- 1. create the table\nCREATE TABLE shop.orders_by_status (\n")
        );
        assert_eq!(
            suggestion.cql[1],
            "-- 2. write it with every write of shop.orders, in one logged batch\n-- 3. copy the rows that are there\n\
             -- 4. then read from it\nSELECT id FROM shop.orders_by_status WHERE status = ?;"
        );
    }

    /// What `suggest` says of a query.
    fn said<T>(cql: &str, suggest: impl Fn(&Pattern, &Context<'_>) -> T) -> T {
        let (schema, _) = Schema::read_cql(SHOP);
        let window = window([read(cql, &[], PartitionClass::Scan, 1)]);
        let cluster = Cluster::default();
        let pattern = window.patterns.values().next().unwrap();
        suggest(pattern, &Context::new(&window, &schema, &cluster))
    }

    #[test]
    fn a_read_of_everything_is_cut_into_ranges() {
        assert_eq!(
            said("SELECT id FROM shop.orders LIMIT ?", in_ranges).unwrap(),
            "-- by a job that needs all rows, range after range of the ring\n\
             SELECT id FROM shop.orders WHERE token(id) > ? AND token(id) <= ? LIMIT ?;"
        );
        assert_eq!(said("SELECT id FROM shop.orders WHERE day = ?", in_ranges), None);
    }

    #[test]
    fn a_list_of_keys_becomes_one_key() {
        assert_eq!(
            said(
                "SELECT note FROM shop.events WHERE user IN ? AND at > ?",
                of_one_key
            )
            .unwrap(),
            "-- one statement for each key, sent at the same time\n\
             SELECT note FROM shop.events WHERE user = ? AND at > ?;"
        );
        assert_eq!(
            said(
                "SELECT note FROM shop.events WHERE user = ? AND at IN ?",
                of_one_key
            ),
            None
        );
    }

    #[test]
    fn rows_that_go_get_a_partition_for_each_hour() {
        let of_table = |cql| {
            said(cql, |pattern, context| {
                by_hour(figures::definition(pattern, context.schema).unwrap(), context)
            })
        };
        let cql = of_table("SELECT * FROM shop.events WHERE user = ?");
        assert_eq!(
            cql[0],
            "-- hour: when the row was written, cut to the hour\nCREATE TABLE shop.events_by_hour (\n  user text,\n  hour timestamp,\n  \
             at timeuuid,\n  kind text,\n  note text,\n  PRIMARY KEY ((user, hour), at)\n) WITH CLUSTERING ORDER BY (at DESC);"
        );
        assert!(
            cql[2].ends_with("DELETE FROM shop.events_by_hour WHERE user = ? AND hour = ?;"),
            "{cql:?}"
        );
        assert_eq!(
            of_table("SELECT * FROM shop.orders WHERE id = ?"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn queries_with_one_key_share_a_table() {
        let id = "SELECT id FROM shop.orders WHERE status = ? ALLOW FILTERING";
        let amount = "SELECT amount FROM shop.orders WHERE status = ? ALLOW FILTERING";
        let of_both = suggested_beside(&[id, amount]).unwrap().cql;
        assert!(of_both[0].contains("  amount decimal,"), "{of_both:?}");
        assert_eq!(of_both[0], suggested_beside(&[amount, id]).unwrap().cql[0]);
    }

    #[test]
    fn tables_that_differ_have_names_that_do() {
        let status = "SELECT id FROM shop.orders WHERE status = ? ALLOW FILTERING";
        let day = "SELECT id FROM shop.orders WHERE status = ? AND day > ? ALLOW FILTERING";
        let name = |first, second| {
            let cql = suggested_beside(&[first, second]).unwrap().cql;
            cql[0].split(' ').nth(6).map(str::to_owned)
        };
        assert_ne!(name(status, day), name(day, status));
    }

    #[test]
    fn what_has_few_values_gets_a_bucket() {
        let text = cql("SELECT * FROM shop.flags WHERE active = ? LIMIT 10 ALLOW FILTERING");
        assert_eq!(
            text,
            "CREATE TABLE shop.flags_by_active (\n  active boolean,\n  bucket int,\n  id uuid,\n  note text,\n  \
             PRIMARY KEY ((active, bucket), id)\n) WITH compaction = {'class': 'LeveledCompactionStrategy'}\n  AND default_time_to_live = 60;\n\
             SELECT * FROM shop.flags_by_active WHERE active = ? AND bucket = ? LIMIT 10;"
        );
        let by_time = suggested("SELECT * FROM shop.flags WHERE active = ? AND at > ? ALLOW FILTERING");
        assert_eq!(by_time, None, "no such column");
    }

    #[test]
    fn what_the_query_gives_becomes_the_partition_key() {
        assert_eq!(
            cql("SELECT id, amount FROM shop.orders WHERE status = ? AND day > ? ALLOW FILTERING"),
            "CREATE TABLE shop.orders_by_status (\n  status text,\n  day date,\n  id uuid,\n  amount decimal,\n  \
             PRIMARY KEY ((status), day, id)\n);\n\
             SELECT id, amount FROM shop.orders_by_status WHERE status = ? AND day > ?;"
        );
    }

    #[test]
    fn a_partition_that_is_named_keeps_its_key_and_changes_its_order() {
        assert_eq!(
            cql("SELECT * FROM shop.events WHERE user = ? AND kind = ? ALLOW FILTERING"),
            "CREATE TABLE shop.events_by_kind (\n  user text,\n  kind text,\n  at timeuuid,\n  note text,\n  \
             PRIMARY KEY ((user), kind, at)\n) WITH CLUSTERING ORDER BY (kind ASC, at DESC);\n\
             SELECT * FROM shop.events_by_kind WHERE user = ? AND kind = ?;"
        );
    }

    #[test]
    fn a_table_that_is_there_already_is_named_instead() {
        let suggestion = suggested("SELECT * FROM shop.users WHERE email = ?").unwrap();
        assert_eq!(suggestion.existing.as_deref(), Some("shop.users_by_email"));
        assert_eq!(
            suggestion.cql,
            ["SELECT * FROM shop.users_by_email WHERE email = ?;"]
        );
    }

    #[test]
    fn quoted_names_stay_quoted() {
        let text = cql("SELECT email FROM shop.users WHERE \"Full Name\" = ?");
        assert!(
            text.starts_with("CREATE TABLE shop.users_by_full_name (\n  \"Full Name\" text,"),
            "{text}"
        );
        assert!(text.contains("PRIMARY KEY ((\"Full Name\"), id)"), "{text}");
    }

    #[test]
    fn a_name_that_is_taken_is_not_suggested() {
        assert_eq!(
            suggested("SELECT * FROM shop.users WHERE email = ? AND \"Full Name\" > ?"),
            None
        );
    }

    #[test]
    fn an_order_becomes_the_clustering_order() {
        let text = cql("SELECT * FROM shop.orders WHERE status = ? ORDER BY day DESC ALLOW FILTERING");
        assert!(
            text.contains("WITH CLUSTERING ORDER BY (day DESC, id ASC)"),
            "{text}"
        );
    }

    #[test]
    fn where_no_key_would_serve_nothing_is_suggested() {
        for cql in [
            "SELECT * FROM shop.orders",
            "SELECT * FROM shop.orders WHERE id = ?",
            "SELECT * FROM shop.orders WHERE tags CONTAINS ? ALLOW FILTERING",
            "SELECT * FROM shop.orders WHERE tags = ? ALLOW FILTERING",
            "SELECT * FROM shop.orders WHERE amount > ? ALLOW FILTERING",
            "SELECT * FROM shop.orders WHERE status = ? AND amount > ? AND day > ? ALLOW FILTERING",
            "SELECT * FROM shop.orders WHERE token(id) > ?",
            "SELECT * FROM shop.nowhere WHERE a = ?",
            "SELECT * FROM shop.orders WHERE nothing = ?",
            "INSERT INTO shop.orders (id) VALUES (?)",
            "no CQL at all",
        ] {
            assert_eq!(suggested(cql), None, "{cql}");
        }
    }
}
