//! Conditional writes to one table whose consensus is now local, now global.

use std::collections::BTreeMap;

use super::{About, Findings, Patterns, Severity, application, replicas, user_statements};
use crate::{
    number,
    rules::{Context, Finding, Rule, figures::table},
    window::Pattern,
};

pub(in crate::rules) struct MixedSerialConsistency;

impl Rule for MixedSerialConsistency {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let mut tables: BTreeMap<String, Patterns<'_>> = BTreeMap::new();
        for (id, pattern) in user_statements(context) {
            let several = replicas(pattern, context.schema).is_some_and(|replicas| replicas.len() > 1);
            if several && !pattern.serial_consistency.is_empty() {
                tables.entry(table(pattern)).or_default().push((id, pattern));
            }
        }
        for (table, patterns) in tables {
            let [global, local] = ["SERIAL", "LOCAL_SERIAL"]
                .map(|level| application::sum(&patterns, |pattern| at(pattern, level)));
            if global > 0 && local > 0 {
                found.push(finding(&table, (global, local), patterns, context));
            }
        }
    }
}

fn at(pattern: &Pattern, level: &str) -> u64 {
    pattern.serial_consistency.get(level).copied().unwrap_or_default()
}

fn finding(
    table: &str,
    (global, local): (u64, u64),
    patterns: Patterns<'_>,
    context: &Context<'_>,
) -> Finding {
    let title = format!(
        "Conditional writes to {table} reach consensus at SERIAL {} and at LOCAL_SERIAL {}: they do not exclude each other",
        number::plural(global, "time", "times"),
        number::plural(local, "time", "times"),
    );
    Finding::on_all(&ABOUT, Severity::High, patterns, context)
        .title(title)
        .first("local_serial", local)
        .first("serial", global)
}

const ABOUT: About = About {
    id: "mixed-serial-consistency",
    group: "client habits",
    summary: "Conditional writes to one table use SERIAL and LOCAL_SERIAL.",
    why: "\
        A condition holds because its Paxos round asks a majority of replicas: of all data centres at SERIAL, of one at \
        LOCAL_SERIAL. A majority of the one need not meet a majority of the other, so that two rounds can both be decided: a \
        name is claimed twice, without an error.",
    fix: "\
        One serial consistency level for a table, in every application: LOCAL_SERIAL where one data centre alone writes the rows, \
        else SERIAL. It is a setting of the driver, apart from the consistency level.",
    before: "-- serial consistency SERIAL here, LOCAL_SERIAL in another service\nINSERT INTO shop.names (name, owner) VALUES (?, ?) IF NOT EXISTS;",
    after: "-- serial consistency SERIAL in both\nINSERT INTO shop.names (name, owner) VALUES (?, ?) IF NOT EXISTS;",
    severity: "High: it loses what the condition is for. Nothing where the keyspace has one data centre.",
    thresholds: &[],
    needs: "Requests, and the keyspaces' replication.",
    source: "Cassandra documentation, lightweight transactions: SERIAL and LOCAL_SERIAL; Cassandra class `Paxos`",
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rules::testing::{run_with, window, write};
    use cqlens_cql::{plan::StatementKind, schema::Schema};

    fn found(levels: &[&str], replication: &str) -> Vec<Finding> {
        let schema = format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', {replication}}};"
        );
        let claims = levels.iter().map(|level| {
            let cql = "INSERT INTO shop.names (name) VALUES (?) IF NOT EXISTS";
            let mut pattern = write(cql, StatementKind::Insert, &[], 60);
            pattern.count_serial_consistency(level, 60);
            pattern
        });
        let schema = Schema::from_cql(&schema).unwrap();
        run_with(&MixedSerialConsistency, &window(claims), &schema).findings
    }

    #[test]
    fn both_levels_on_one_table_are_high() {
        let findings = found(&["SERIAL", "LOCAL_SERIAL"], "'dc1': 3, 'dc2': 3");
        assert_eq!(findings[0].severity, Severity::High);
        assert_eq!(
            findings[0].title,
            "Conditional writes to `shop.names` reach consensus at SERIAL 60 times and at LOCAL_SERIAL 60 times: they do not exclude each other"
        );
    }

    #[test]
    fn one_level_and_one_data_centre_are_fine() {
        assert_eq!(found(&["SERIAL", "SERIAL"], "'dc1': 3, 'dc2': 3"), []);
        assert_eq!(found(&["SERIAL", "LOCAL_SERIAL"], "'dc1': 3"), []);
    }
}
