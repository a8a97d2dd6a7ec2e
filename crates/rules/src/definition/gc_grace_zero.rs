//! Tables whose tombstones may go before all replicas have them.

use super::{About, Findings, GROUP, Rule, Severity, in_cql};
use crate::{Context, DefinitionPart, Finding};
use cqlens_cql::schema::Table;

pub(crate) struct GcGraceZero;

impl Rule for GcGraceZero {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // With one node there is no replica that could have missed a delete.
        if context.is_single_node() {
            return;
        }
        for (name, table) in context
            .tables()
            .filter(|(_, table)| table.gc_grace_seconds() == 0)
        {
            let expires = table.default_time_to_live() > 0;
            let severity = if expires { Severity::Low } else { Severity::Medium };
            let what = if expires {
                "no hints are kept for it"
            } else {
                "deleted rows can come back, and no hints are kept for it"
            };
            let seconds = if expires {
                HINT_WINDOW
            } else {
                Table::GC_GRACE_SECONDS
            };
            let set = format!("ALTER TABLE {} WITH gc_grace_seconds = {seconds};", in_cql(&name));
            let finding = Finding::on_definition(&ABOUT, severity, context)
                .of_table(&name)
                .of_part(DefinitionPart::Option("gc_grace_seconds"))
                .title(format!("`{name}` has `gc_grace_seconds` 0: {what}"))
                .first("default_time_to_live_seconds", table.default_time_to_live())
                .suggest([set]);
            found.push(match expires {
                true => finding.advice(OF_EXPIRING),
                false => finding,
            });
        }
    }
}

/// `max_hint_window` of cassandra.yaml: three hours.
const HINT_WINDOW: u64 = 10_800;

/// Where rows go by themselves.
const OF_EXPIRING: &str = "\
    Set it to `max_hint_window` (three hours), so that hints are kept. More is not needed as long as no statement \
    deletes: rows expire on every replica by themselves, and stay on disk for `gc_grace_seconds` after that.";

const ABOUT: About = About {
    id: "gc-grace-zero",
    group: GROUP,
    summary: "A table has `gc_grace_seconds` 0.",
    why: "A tombstone must be kept until every replica has it; otherwise a replica that missed the delete \
        brings the row back with the next repair or read repair. Hints live no longer than \
        `gc_grace_seconds`: at 0 no hints are kept, so that a replica that was down misses its writes until \
        the next repair. A logged batch on such a table is not replayed, and the server warns of that.",
    fix: "\
        Set it to ten days (the default), or at least to the time between two repairs and `max_hint_window`. \
        If tombstones must go sooner, repair more often and set it to twice that interval.",
    fix_in_short: "Raise gc_grace_seconds",
    before: "ALTER TABLE shop.sessions WITH gc_grace_seconds = 0;\nDELETE FROM shop.sessions WHERE id = ?;",
    after: "ALTER TABLE shop.sessions WITH gc_grace_seconds = 864000;\nDELETE FROM shop.sessions WHERE id = ?;",
    severity: "Medium; low if all rows expire by `default_time_to_live`. Nothing in a cluster of one node.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "The schema.",
    source: "Cassandra class `BatchStatement`, warning on gc_grace_seconds of 0; Cassandra documentation, hints and tombstones",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::{cluster, in_cluster, in_file};
    use super::*;

    const ZERO: &str = "CREATE TABLE shop.t (id int PRIMARY KEY) WITH gc_grace_seconds = 0;";

    #[test]
    fn zero_is_medium_and_low_where_all_expires() {
        assert_eq!(in_file(&GcGraceZero, ZERO)[0].severity, Severity::Medium);
        let expires = "CREATE TABLE shop.t (id int PRIMARY KEY) WITH gc_grace_seconds = 0 AND default_time_to_live = 60;";
        assert_eq!(in_file(&GcGraceZero, expires)[0].severity, Severity::Low);
    }

    #[test]
    fn the_default_short_times_and_single_nodes_are_fine() {
        let tables = "CREATE TABLE shop.a (id int PRIMARY KEY);
                      CREATE TABLE shop.b (id int PRIMARY KEY) WITH gc_grace_seconds = 3600;";
        assert_eq!(in_file(&GcGraceZero, tables), []);
        assert_eq!(in_cluster(&GcGraceZero, ZERO, &cluster(&[("dc1", 1)])), []);
    }
}
