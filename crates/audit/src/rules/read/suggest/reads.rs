//! Queries that are written anew: on another table, of one key, of a range of the ring.

use cqlens_cql::{
    schema::{ColumnKind, Order, Schema, Table, quote},
    syntax::{
        self,
        ast::{Body, RelationOperator, Select, Subject},
    },
};

use super::{
    bucket::Bucket,
    definition::{LONGEST_NAME, create, kept, name, names, plain},
};
use crate::{
    rules::{Context, figures},
    window::Pattern,
};

/// The pattern's table with its rows in the opposite order, and the query on it; none where its name would be
/// too long or is taken.
pub(in crate::rules) fn in_reverse(pattern: &Pattern, schema: &Schema) -> Option<Vec<String>> {
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
            create(&reversed),
            query(&pattern.head.cql, select, &reversed, None),
        ]
    })
}

/// A read of the whole table as a job should do it: range after range.
pub(in crate::rules) fn in_ranges(pattern: &Pattern, context: &Context<'_>) -> Option<String> {
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
pub(in crate::rules) fn of_one_key(pattern: &Pattern, context: &Context<'_>) -> Option<String> {
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
    (cql != pattern.head.cql).then(|| format!("-- one statement for each key, sent at the same time\n{cql};"))
}

/// The same query on the other table, with its bucket and without `ALLOW FILTERING`.
pub(super) fn query(cql: &str, select: &Select<'_>, table: &Table, bucket: Option<&Bucket>) -> String {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{super::testing::said, *};

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
}
