//! Rules on the model as a whole: what of it is used, and how its tables fit the statements.

mod large_partition_key;
mod query_without_table;
mod read_update_ratio;
mod static_column;
mod unused_index;
mod unused_table;

use crate::Context;

use super::{About, Finding, Findings, Severity, Threshold};
use cqlens_window::number;

pub(super) use large_partition_key::LargePartitionKey;
pub(super) use query_without_table::QueryWithoutTable;
pub(super) use read_update_ratio::ReadUpdateRatio;
pub(super) use static_column::StaticColumn;
pub(super) use unused_index::UnusedIndex;
pub(super) use unused_table::UnusedTable;

/// The severity of something that was not used while the window was observed; none as long as that says
/// nothing.
///
/// The rule's thresholds must hold [`SOME_HOURS`] and [`LONG_HOURS`].
fn by_observation(found: &Findings<'_>, about: &About, context: &Context<'_>) -> Option<Severity> {
    let hours = context.window.seconds() / 3_600.0;
    let is_certain = !context.may_have_missed();
    if is_certain && hours >= found.threshold(about, &LONG_HOURS) {
        Some(Severity::Low)
    } else if hours >= found.threshold(about, &SOME_HOURS) {
        Some(Severity::Info)
    } else {
        None
    }
}

/// What to drop, as a comment: it cannot be undone. Nothing where it may be used unseen.
fn to_drop(what: &str, context: &Context<'_>) -> Option<String> {
    let text = format!("-- once you have checked that no application uses it:\n-- DROP {what};");
    (!context.may_have_missed()).then_some(text)
}

/// Says that the window is too short for what nobody used.
fn blind_on_short_observation(found: &mut Findings<'_>, about: &About, context: &Context<'_>, what: &str) {
    let needed = found.threshold(about, &SOME_HOURS) * 3_600.0;
    let (seen, needed) = (number::seconds(context.window.seconds()), number::seconds(needed));
    found.blind(about, format!("{what} in {seen}; this is judged after {needed}"));
}

/// The finding with how long was looked, and what was not seen meanwhile.
fn with_observation(finding: Finding, context: &Context<'_>) -> Finding {
    let coverage = &context.window.coverage;
    let unseen = coverage.dropped + coverage.undecoded + coverage.unparsed + coverage.partitions_unknown;
    finding
        .first("requests_of_which_the_table_may_be_unknown", unseen)
        .first(
            "observed_hours",
            (context.window.seconds() / 360.0).round() / 10.0,
        )
}

/// Earlier, nothing is said of what is not used.
const SOME_HOURS: Threshold = Threshold {
    name: "some_hours",
    unit: "hours of observation",
    default: 24.0,
    origin: "cqlens default: long enough for nightly jobs",
};

const LONG_HOURS: Threshold = Threshold {
    name: "long_hours",
    unit: "hours of observation",
    default: 168.0,
    origin: "cqlens default: a week, long enough for weekly jobs",
};

#[cfg(test)]
mod testing {
    #![allow(clippy::unwrap_used)]
    use cqlens_cql::schema::{Schema, TableName};

    use crate::testing;
    use cqlens_window::Pattern;
    use cqlens_window::Window;

    pub(super) fn schema() -> Schema {
        Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.users (id int PRIMARY KEY, email text, city text, age int);
             CREATE INDEX by_email ON shop.users (email);
             CREATE TABLE shop.old (id int PRIMARY KEY, v int);
             CREATE TABLE other.elsewhere (id int PRIMARY KEY);
             CREATE MATERIALIZED VIEW shop.by_city AS SELECT * FROM shop.users
               WHERE city IS NOT NULL AND id IS NOT NULL PRIMARY KEY (city, id);",
        )
        .unwrap()
    }

    /// So many hours with these patterns, and reads and writes of `shop.users`.
    pub(super) fn window(
        hours: u32,
        (reads, writes): (u64, u64),
        patterns: impl IntoIterator<Item = Pattern>,
    ) -> Window {
        let mut window = testing::window(patterns);
        window.observed_seconds = 3_600.0 * f64::from(hours);
        window.count_table(&name("users"), |table| {
            (table.reads, table.writes) = (reads, writes)
        });
        window
    }

    pub(super) fn name(table: &str) -> TableName {
        TableName {
            keyspace: "shop".to_owned(),
            table: table.to_owned(),
        }
    }
}
