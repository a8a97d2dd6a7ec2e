//! The same write with the right time.

use crate::{Context, figures::definition};
use cqlens_cql::{
    schema::{ColumnKind, DataType, Table, quote},
    syntax,
};
use cqlens_window::Pattern;

/// The write without a timestamp of its own, or from a clock that is right, and how to see what was written wrongly.
pub(crate) fn kept(pattern: &Pattern, context: &Context<'_>) -> Option<(String, String)> {
    let cql = &pattern.head.cql;
    let (before, after) = if cql.contains("TIMESTAMP ?") {
        let plain = without_timestamp(cql)?;
        (
            format!("-- with a timestamp that is not the present in microseconds\n{cql};"),
            format!("-- without one: the driver sets it\n{plain};"),
        )
    } else {
        (
            format!("-- from a host whose clock is wrong\n{cql};"),
            format!("-- from a host whose clock is kept by chrony or ntpd\n{cql};"),
        )
    };
    let check = definition(pattern, context.schema).and_then(time_of_row);
    Some((before, after + &check.unwrap_or_default()))
}

/// The statement, or all of a batch, without `USING TIMESTAMP`; templates name it first.
fn without_timestamp(cql: &str) -> Option<String> {
    let plain = cql.replace("USING TIMESTAMP ? AND ", "USING ");
    let plain = plain.replace(" USING TIMESTAMP ?", "");
    let is_whole = !plain.contains("TIMESTAMP ?") && syntax::parse(&plain).is_ok();
    is_whole.then_some(plain)
}

/// What shows the times of a row. Collections have one for each element, counters none.
fn time_of_row(table: &Table) -> Option<String> {
    let has_time = |data_type: &DataType| !data_type.is_multi_cell() && !data_type.is_counter();
    let column = table
        .columns
        .iter()
        .find(|column| column.kind == ColumnKind::Regular && has_time(&column.data_type))?;
    let key = table.columns.iter().filter(|column| column.is_primary_key());
    let key: Vec<_> = key.map(|column| format!("{} = ?", quote(&column.name))).collect();
    Some(format!(
        "\n-- whether a row has a time that is still to come: no write before that changes it\n\
         SELECT WRITETIME({}) FROM {}.{} WHERE {};",
        quote(&column.name),
        quote(&table.keyspace),
        quote(&table.name),
        key.join(" AND ")
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{window, write};
    use cqlens_cql::{plan::StatementKind, schema::Schema};
    use cqlens_window::Cluster;

    fn of(cql: &str) -> Option<(String, String)> {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};
             CREATE TABLE shop.orders (customer int, at int, tags set<text>, total int, PRIMARY KEY (customer, at));",
        )
        .unwrap();
        let (window, cluster) = (window([]), Cluster::default());
        let pattern = write(cql, StatementKind::Insert, &[], 60);
        kept(&pattern, &Context::new(&window, &schema, &cluster))
    }

    const CHECK: &str = "\n-- whether a row has a time that is still to come: no write before that changes it\n\
                         SELECT WRITETIME(total) FROM shop.orders WHERE customer = ? AND at = ?;";

    #[test]
    fn a_timestamp_of_the_statement_is_left_to_the_driver() {
        let plain = "INSERT INTO shop.orders (customer, at, total) VALUES (?, ?, ?)";
        for (using, left) in [
            (" USING TIMESTAMP ?", ""),
            (" USING TIMESTAMP ? AND TTL ?", " USING TTL ?"),
        ] {
            let (before, after) = of(&format!("{plain}{using}")).unwrap();
            assert_eq!(
                before,
                format!("-- with a timestamp that is not the present in microseconds\n{plain}{using};")
            );
            let expected = format!("-- without one: the driver sets it\n{plain}{left};{CHECK}");
            assert_eq!(after, expected);
        }
    }

    #[test]
    fn without_one_it_is_the_clock() {
        let cql = "INSERT INTO shop.orders (customer, at, total) VALUES (?, ?, ?)";
        let (_, after) = of(cql).unwrap();
        assert_eq!(
            after,
            format!("-- from a host whose clock is kept by chrony or ntpd\n{cql};{CHECK}")
        );
        let unknown = of("INSERT INTO shop.unknown (id) VALUES (?)").unwrap();
        assert!(!unknown.1.contains("WRITETIME"), "{unknown:?}");
    }
}
