//! The table that would serve a query: its partition key is what the query gives.
//!
//! Written from the template and the schema. Where either is not known, or a column cannot be part of a key,
//! nothing is suggested rather than something wrong.

use cqlens_cql::syntax::{
    self,
    ast::{Body, Direction, RelationOperator, Select, Selection, Subject, Term},
};

use crate::window::Pattern;
use cqlens_cql::schema::{Column, ColumnKind, Order, Schema, Table, quote};

/// What would serve a query.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::rules) struct Suggestion {
    /// A table that is there already, as `keyspace.table`; else the first statement creates one.
    pub(in crate::rules) existing: Option<String>,
    /// The statements, each with its semicolon: the table where it is missing, the query on it.
    pub(in crate::rules) cql: Vec<String>,
}

/// The table that would serve the pattern's query by reading one partition, and the query on it.
pub(in crate::rules) fn table_for(pattern: &Pattern, schema: &Schema) -> Option<Suggestion> {
    let statement = syntax::parse(&pattern.head.cql).ok()?;
    let Body::Select(select) = &statement.body else {
        return None;
    };
    let keyspace = pattern.head.keyspace.as_deref()?;
    let table = schema.table(keyspace, pattern.head.table.as_deref()?)?;
    let wanted = Wanted::of(select, table)?;
    let mut siblings = schema.keyspace(keyspace)?.tables.values();
    if let Some(existing) = siblings.find(|other| wanted.is_served_by(other, table)) {
        return Some(Suggestion {
            existing: Some(format!("{keyspace}.{}", existing.name)),
            cql: vec![query(&pattern.head.cql, select, existing)],
        });
    }
    let created = Table {
        name: wanted.free_name(table, schema)?,
        columns: wanted.columns(),
        indexes: Default::default(),
        view: None,
        options: Default::default(),
        ..table.clone()
    };
    Some(Suggestion {
        existing: None,
        cql: vec![definition(&created), query(&pattern.head.cql, select, &created)],
    })
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
        options: Default::default(),
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
    fits.then(|| vec![definition(&reversed), query(&pattern.head.cql, select, &reversed)])
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
        let (partition_key, mut first) = if given.len() == table.partition_key().len() {
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

    fn columns(&self) -> Vec<Column> {
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
        key.chain(clustering).chain(others).collect()
    }

    /// `orders_by_status`; none where that is longer than Cassandra allows or taken.
    fn free_name(&self, table: &Table, schema: &Schema) -> Option<String> {
        let by: Vec<_> = self
            .partition_key
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        let by = match self.clustering.first() {
            Some((first, _)) if self.partition_key == all(table.partition_key()) => first.name.clone(),
            _ => by.join("_and_"),
        };
        let name = plain(&format!("{}_by_{by}", table.name));
        let is_free = schema.table(&table.keyspace, &name).is_none();
        (name.len() <= LONGEST_NAME && is_free).then_some(name)
    }
}

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
    let names = |columns: &[Column]| {
        let names: Vec<_> = columns
            .iter()
            .map(|column| quote(&column.name).into_owned())
            .collect();
        names.join(", ")
    };
    let mut key = format!("({})", names(table.partition_key()));
    if !table.clustering().is_empty() {
        key += &format!(", {}", names(table.clustering()));
    }
    let order = if table.clustering().iter().any(Column::is_descending) {
        let direction = |column: &Column| if column.is_descending() { "DESC" } else { "ASC" };
        let ordered = table.clustering().iter();
        let ordered: Vec<_> = ordered
            .map(|column| format!("{} {}", quote(&column.name), direction(column)))
            .collect();
        format!(" WITH CLUSTERING ORDER BY ({})", ordered.join(", "))
    } else {
        String::new()
    };
    format!(
        "CREATE TABLE {} (\n{columns}  PRIMARY KEY ({key})\n){order};",
        name(table)
    )
}

/// The same query on the other table, without `ALLOW FILTERING`.
fn query(cql: &str, select: &Select<'_>, table: &Table) -> String {
    let span = select.table.span().range();
    let query = format!("{}{}{}", &cql[..span.start], name(table), &cql[span.end..]);
    format!("{};", query.trim_end().trim_end_matches(" ALLOW FILTERING"))
}

fn name(table: &Table) -> String {
    format!("{}.{}", quote(&table.keyspace), quote(&table.name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rules::testing::read;
    use cqlens_cql::footprint::PartitionClass;

    const SHOP: &str = "
        CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.orders (id uuid PRIMARY KEY, status text, day date, amount decimal, tags set<text>);
        CREATE TABLE shop.events (user text, at timeuuid, kind text, note text, PRIMARY KEY (user, at))
            WITH CLUSTERING ORDER BY (at DESC);
        CREATE TABLE shop.users (id uuid PRIMARY KEY, email text, \"Full Name\" text);
        CREATE TABLE shop.users_by_email (email text PRIMARY KEY, id uuid, \"Full Name\" text);
        CREATE TABLE shop.clicks (page text PRIMARY KEY, site text STATIC, count counter);";

    fn suggested(cql: &str) -> Option<Suggestion> {
        // The static column of a table without clustering is refused: it must not spoil the others.
        let (schema, _) = Schema::read_cql(SHOP);
        table_for(&read(cql, &[], PartitionClass::Scan, 1), &schema)
    }

    fn cql(text: &str) -> String {
        suggested(text).unwrap().cql.join("\n")
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
