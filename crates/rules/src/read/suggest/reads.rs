//! Queries that are written anew: on another table, of one key, of a range of the ring.

use std::collections::BTreeMap;

use cqlens_cql::{
    plan::{Flag, Plan},
    schema::{ColumnKind, Keyspace, Order, Schema, Table, UserType, quote},
    syntax::{
        self,
        ast::{Body, RelationOperator, Select, Subject},
    },
};

use super::{
    bucket::{BucketColumn, LARGE_PARTITION, largest_partition},
    definition::{free_name, kept, name, names},
    migration::Migration,
};
use crate::{Context, definition::most_partitions, figures, statement::table_of};
use cqlens_window::Pattern;

/// The pattern's table with its rows in the opposite order, and the way there; none where its name is taken, and for
/// counters, which nobody can write into a second table without counting twice.
pub(crate) fn in_reverse(pattern: &Pattern, context: &Context<'_>) -> Option<Vec<String>> {
    let statement = syntax::parse(&pattern.head.cql).ok()?;
    let Body::Select(select) = &statement.body else {
        return None;
    };
    let schema = context.schema;
    let table = figures::definition(pattern, schema).filter(|table| !table.is_counter())?;
    // In the opposite order partitions would be as large: to divide them comes first.
    let is_narrow = most_partitions(table.partition_key()).is_some();
    if is_narrow || largest_partition(table, context) >= LARGE_PARTITION {
        return None;
    }
    let mut reversed = Table {
        indexes: Default::default(),
        view: None,
        compact_storage: false,
        options: kept(table, schema),
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
    reversed.name = free_name(table, &format!("{}_{order}", first.name), schema)?;
    let migration = Migration {
        from: table,
        to: &reversed,
        computed: "",
        replaces: context.is_read_backwards(&table_of(pattern)?),
        reads: "",
    };
    let query = query(&pattern.head.cql, select, &reversed, None);
    is_served(&query, &reversed, schema).then(|| migration.steps(vec![query], context))
}

/// A read of the whole table as a job should do it: range after range.
pub(crate) fn in_ranges(pattern: &Pattern, context: &Context<'_>) -> Option<String> {
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
pub(crate) fn of_one_key(pattern: &Pattern, context: &Context<'_>) -> Option<String> {
    let mut cql = pattern.head.cql.clone();
    let statement = syntax::parse(&pattern.head.cql).ok()?;
    let Body::Select(select) = &statement.body else {
        return None;
    };
    let table = figures::definition(pattern, context.schema)?;
    for relation in select.where_clause.relations.iter().rev() {
        if let (Subject::Column(column), RelationOperator::In) = (&relation.subject, relation.operator)
            && table
                .partition_key()
                .iter()
                .any(|key| key.name == column.as_str())
        {
            cql.replace_range(relation.span.range(), &format!("{} = ?", quote(column.as_str())));
        }
    }
    let is_changed = cql != pattern.head.cql;
    let cql = unfiltered(&cql);
    (is_changed && is_served(cql, table, context.schema))
        .then(|| format!("-- one statement for each key, sent at the same time\n{cql};"))
}

/// Whether Cassandra accepts the query on the table and reads what it asks for only, within one partition.
pub(super) fn is_served(query: &str, table: &Table, schema: &Schema) -> bool {
    let Ok(statement) = syntax::parse(query.trim_end_matches(';')) else {
        return false;
    };
    // The table may be one that the schema does not have.
    let types = schema.keyspace(&table.keyspace).map(|keyspace| Keyspace {
        name: keyspace.name.clone(),
        types: types_of(table, keyspace),
        functions: keyspace.functions.clone(),
        aggregates: keyspace.aggregates.clone(),
        tables: [(table.name.clone(), table.clone())].into(),
        ..Keyspace::default()
    });
    let alone = Schema {
        keyspaces: types
            .map(|keyspace| (keyspace.name.clone(), keyspace))
            .into_iter()
            .collect(),
    };
    let plan = Plan::of(&statement, Some(&table.keyspace), &alone);
    let flags = plan.flags();
    let is_of_one = flags.contains(&Flag::FullPartitionKey) && !flags.contains(&Flag::InPartitionKey);
    is_of_one && plan.refusal().is_none() && !flags.contains(&Flag::FilteringNeeded)
}

/// The types that a table is made of; a keyspace may have far more.
fn types_of(table: &Table, keyspace: &Keyspace) -> BTreeMap<String, UserType> {
    let mut types = BTreeMap::new();
    let mut rest: Vec<&str> = Vec::new();
    table
        .columns
        .iter()
        .for_each(|column| column.data_type.for_each_name(&mut |name| rest.push(name)));
    while let Some(name) = rest.pop() {
        let (true, Some(user)) = (types.len() < MOST_TYPES, keyspace.types.get(name)) else {
            continue;
        };
        if types.insert(name.to_owned(), user.clone()).is_none() {
            let fields = user.fields.iter();
            fields.for_each(|(_, field)| field.for_each_name(&mut |name| rest.push(name)));
        }
    }
    types
}

/// A plan resolves no more of them, and none that is nested more deeply.
const MOST_TYPES: usize = 1_000;

/// The same query on the other table, with its bucket and without `ALLOW FILTERING`.
pub(super) fn query(cql: &str, select: &Select<'_>, table: &Table, bucket: Option<&BucketColumn>) -> String {
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
    format!("{};", unfiltered(&query))
}

/// Without what allows to filter, where nothing is left to filter.
fn unfiltered(cql: &str) -> &str {
    cql.trim_end().trim_end_matches(" ALLOW FILTERING")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{super::testing::said, *};
    use crate::testing::{read, window};
    use cqlens_cql::{footprint::PartitionClass, schema::TableName};
    use cqlens_window::Cluster;

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
    fn what_is_too_large_is_not_turned_round() {
        let reversed = |schema: &str, rows: u64| {
            let schema = format!(
                "CREATE KEYSPACE shop WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}; {schema}"
            );
            let schema = Schema::from_cql(&schema).unwrap();
            let cql = "SELECT * FROM shop.members WHERE team = ? ORDER BY joined DESC";
            let mut window = window([read(cql, &[Flag::FullPartitionKey], PartitionClass::Single, 1)]);
            let name = TableName {
                keyspace: "shop".to_owned(),
                table: "members".to_owned(),
            };
            let traffic = window.tables.entry(name).or_default();
            traffic.partition_reads.see(1, rows, 0);
            let cluster = Cluster::default();
            let pattern = window.patterns.values().next().unwrap();
            in_reverse(pattern, &Context::new(&window, &schema, &cluster)).is_some()
        };
        let by_team = "CREATE TABLE shop.members (team text, joined int, PRIMARY KEY (team, joined));";
        assert!(reversed(by_team, 99_000));
        assert!(!reversed(by_team, 100_000));
        assert!(
            !reversed(&by_team.replace("text", "boolean"), 0),
            "two partitions"
        );
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
}
