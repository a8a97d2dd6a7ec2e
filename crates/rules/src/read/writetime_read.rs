//! Reads of what Cassandra keeps for itself: when a value was written.

use super::{About, Findings, Severity, how_often, table, user_reads};
use crate::{Context, Finding, Rule};
use cqlens_cql::syntax::ast::{Body, MetadataFunction, Selection, Statement, Term};

pub(crate) struct WritetimeRead;

impl Rule for WritetimeRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(context) {
            if context.statement(id).is_some_and(|statement| asks(&statement)) {
                let title = format!(
                    "Reads of {} use WRITETIME{}",
                    table(pattern),
                    how_often(pattern, context)
                );
                found.push(Finding::on(&ABOUT, Severity::Info, (id, pattern), context).title(title));
            }
        }
    }
}

/// Whether `writetime` is selected, by itself.
fn asks(statement: &Statement<'_>) -> bool {
    let Body::Select(select) = &statement.body else {
        return false;
    };
    let Selection::Selectors(selectors) = &select.selection else {
        return false;
    };
    selectors.iter().any(|selector| {
        matches!(
            selector.term,
            Term::Metadata {
                function: MetadataFunction::WriteTime | MetadataFunction::MaxWriteTime,
                ..
            }
        )
    })
}

const ABOUT: About = About {
    id: "writetime-read",
    group: "read shape",
    summary: "A read uses the write timestamp of a value (WRITETIME).",
    why: "\
        The timestamp of a cell decides which of two writes wins; it is not part of the data model. It comes \
        from the writer's clock, changes with every write to the column and with restores and migrations, is \
        missing for keys and whole collections, and no query can select by it.",
    fix: "Store the time that the application needs in a regular column.",
    fix_in_short: "A separate column",
    before: "SELECT status, WRITETIME(status) FROM shop.orders WHERE id = ?;",
    after: "SELECT status, status_changed FROM shop.orders WHERE id = ?;",
    severity: "Info: for tools that copy tables it is right.",
    severities: &[Severity::Info],
    thresholds: &[],
    needs: "The statements' texts.",
    source: "Cassandra documentation, CQL: the WRITETIME function",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn found(cql: &str) -> usize {
        let window = window([read(cql, &[], PartitionClass::Single, 60)]);
        run(&WritetimeRead, &window).findings.len()
    }

    #[test]
    fn the_time_of_a_write_is_found_and_a_column_is_not() {
        assert_eq!(
            found("SELECT status, WRITETIME(status) FROM shop.orders WHERE id = ?"),
            1
        );
        assert_eq!(
            found("SELECT status, TTL(status) FROM shop.orders WHERE id = ?"),
            0
        );
        assert_eq!(found("SELECT writetime FROM shop.orders WHERE id = ?"), 0);
    }
}
