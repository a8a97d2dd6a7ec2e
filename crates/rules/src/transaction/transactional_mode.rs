//! Tables whose `transactional_mode` does not fit how they are used.

use super::{About, Findings, GROUP, Severity, Threshold};
use crate::{
    Context, Finding, Rule, by_table::PatternList, figures::is_steady, severity::Impact,
    statement::TableWrite,
};
use cqlens_cql::schema::{Table, TableName};
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct TransactionalMode;

impl Rule for TransactionalMode {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, table) in context.tables() {
            let Some(mode) = table.transactional_mode() else {
                continue;
            };
            let uses = Uses::of(&name, context);
            let finding = match mode.as_str() {
                "mixed_reads" => uses.of_mixed_reads(&name, context),
                "full" => None,
                _ => uses.of_unsafe_mode(&name, &mode, context),
            };
            let finding = finding.or_else(|| uses.of_no_transaction(&name, table, context, found));
            if let Some(finding) = finding {
                found.push(finding);
            }
        }
    }
}

/// How a table is used.
struct Uses<'a> {
    transactions: PatternList<'a>,
    plain_reads: PatternList<'a>,
    /// Without a condition: those with one are Accord's in all modes.
    plain_writes: PatternList<'a>,
    has_conditional_writes: bool,
}

impl<'a> Uses<'a> {
    fn of(name: &TableName, context: &Context<'a>) -> Self {
        let (conditional, plain): (Vec<&TableWrite<'a>>, Vec<_>) = context
            .writes_to(name)
            .iter()
            .partition(|write| write.is_conditional());
        Self {
            transactions: context.transactions_on(name).to_vec(),
            plain_reads: context.reads_of(name).collect(),
            plain_writes: plain.iter().map(|write| (write.id, write.pattern)).collect(),
            has_conditional_writes: !conditional.is_empty(),
        }
    }

    fn of_mixed_reads(&self, name: &TableName, context: &Context<'_>) -> Option<Finding> {
        if self.transactions.is_empty() {
            return None;
        }
        let title = match count(&self.plain_reads) {
            0 => format!("`{name}` is in mode `mixed_reads`, and no plain read of it was seen"),
            reads => format!(
                "`{name}` is in mode `mixed_reads`, and {} outside of transactions",
                number::plural(reads, "read is", "reads are")
            ),
        };
        let patterns = [&self.transactions[..], &self.plain_reads[..]].concat();
        let finding = Finding::on_all(&ABOUT, Severity::Info, patterns, context);
        Some(self.counted(finding.of_table(name).title(title)))
    }

    fn of_unsafe_mode(&self, name: &TableName, mode: &str, context: &Context<'_>) -> Option<Finding> {
        if self.transactions.is_empty() || self.plain_writes.is_empty() {
            return None;
        }
        let writes = count(&self.plain_writes);
        let title = format!(
            "`{name}` is in mode `{mode}` and gets {} beside transactions, which may end differently on each replica",
            number::plural(writes, "plain write", "plain writes")
        );
        let patterns = [&self.plain_writes[..], &self.transactions[..]].concat();
        let finding = Finding::on_all(&ABOUT, Severity::High, patterns, context)
            .of_table(name)
            .title(title)
            .advice(UNSAFE)
            .suggest([format!(
                "ALTER TABLE {} WITH transactional_mode = 'full';",
                crate::definition::in_cql(name)
            )]);
        Some(self.counted(finding))
    }

    /// Written with consensus that nothing seen needs.
    fn of_no_transaction(
        &self,
        name: &TableName,
        table: &Table,
        context: &Context<'_>,
        found: &Findings<'_>,
    ) -> Option<Finding> {
        let writes = count(&self.plain_writes);
        let is_used = !self.transactions.is_empty() || self.has_conditional_writes;
        let hours = context.window.seconds() / 3_600.0;
        let is_judged = hours >= found.threshold(&ABOUT, &SOME_HOURS);
        if is_used || !is_judged || !is_steady(found, writes, context.watch_table(name)) {
            return None;
        }
        let impact = self.plain_writes.iter();
        let impact = impact.fold(Impact::each(Severity::Low), |impact, (_, pattern)| {
            impact.of(pattern)
        });
        let severity = context.severity(found, &impact.at_most(Severity::Medium));
        let title = format!(
            "`{name}` has `transactional_mode = '{}'`, and neither a transaction nor a condition was seen in {}",
            table.transactional_mode().unwrap_or_default(),
            number::seconds(context.window.seconds())
        );
        let finding = Finding::on_all(&ABOUT, severity, self.plain_writes.clone(), context);
        Some(
            self.counted(
                finding
                    .of_table(name)
                    .title(title)
                    .advice(UNUSED)
                    .fix_in_short("Mode off"),
            ),
        )
    }

    fn counted(&self, finding: Finding) -> Finding {
        finding
            .first("plain_writes", count(&self.plain_writes))
            .first("plain_reads", count(&self.plain_reads))
            .first("transactions", count(&self.transactions))
    }
}

fn count(patterns: &[(PatternId, &Pattern)]) -> u64 {
    patterns.iter().map(|(_, pattern)| pattern.count).sum()
}

const UNSAFE: &str = "\
    Set the mode to `full`, in which Accord executes all statements, and finish the migration with `nodetool \
    consensus_admin` and a repair. Until then send no plain writes to rows that transactions read: replicas that see them \
    at different moments decide the same transaction differently.";

const UNUSED: &str = "\
    Ask who needs it. Plain reads and writes of one row are linearizable in mode `full`, which may be why it was set; if \
    nobody relies on that, `off` makes each write one round trip again. Changing the mode migrates the table (`nodetool \
    consensus_admin`), so look at a whole week first.";

const SOME_HOURS: Threshold = Threshold {
    name: "some_hours",
    unit: "hours of observation",
    default: 1.0,
    origin: "cqlens default: transactions of an application come more often than once an hour",
};

const ABOUT: About = About {
    id: "transactional-mode",
    group: GROUP,
    summary: "A table's `transactional_mode` does not fit how the table is used.",
    why: "\
        The mode decides which statements Accord executes. In `full` it executes all of them, and reads from a \
        single replica. In `mixed_reads` plain reads go past it, so that transactions must commit at the \
        consistency level of the request, read from a quorum and repair what they read. In the unsafe modes \
        plain writes go past it, and replicas may decide one transaction differently. In each of them a write \
        takes consensus, whether or not a transaction ever reads the row.",
    fix: "\
        Migrate the table to `full` once all that reads it may go through Accord; Cassandra's documentation \
        recommends it for all but a time of transition. Use `off` for tables without transactions and \
        conditions.",
    fix_in_short: "Mode full",
    before: "\
        CREATE TABLE shop.stock (item text PRIMARY KEY, left int)\n  WITH transactional_mode = \
        'mixed_reads';\nBEGIN TRANSACTION\n  UPDATE shop.stock SET left -= 1 WHERE item = ?;\nCOMMIT TRANSACTION",
    after: "\
        CREATE TABLE shop.stock (item text PRIMARY KEY, left int)\n  WITH transactional_mode = 'full';\nBEGIN \
        TRANSACTION\n  UPDATE shop.stock SET left -= 1 WHERE item = ?;\nCOMMIT TRANSACTION",
    severity: "\
        High for plain writes beside transactions in an unsafe mode. Info for transactions in `mixed_reads`. \
        Low, or medium by its part of the load, for a table that is written steadily for `some_hours` without \
        a transaction or a condition.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[SOME_HOURS],
    needs: "\
        The definition of the table, which the node gives with `DESCRIBE SCHEMA`: `system_schema` of Cassandra \
        6.0 alpha 2 does not have the mode.",
    source: "\
        Cassandra class `TransactionalMode` (6.0); Cassandra documentation, Accord transactions: transactional \
        modes",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{read, run_with, transaction, window, write};
    use cqlens_cql::{
        footprint::PartitionClass,
        plan::{Flag, StatementKind},
        schema::Schema,
    };

    const TAKE: &str = "BEGIN TRANSACTION LET s = (SELECT left FROM s.stock WHERE item = ?); IF s.left > ? THEN \
        UPDATE s.stock SET left -= ? WHERE item = ?; END IF COMMIT TRANSACTION";

    fn take() -> Pattern {
        transaction(TAKE, &[], 1, 600)
    }

    fn plain_write(flags: &[Flag]) -> Pattern {
        let condition = if flags.is_empty() { "" } else { " IF EXISTS" };
        let cql = format!("UPDATE s.stock SET left = ? WHERE item = ?{condition}");
        write(&cql, StatementKind::Update, flags, 6_000)
    }

    fn judged(mode: &str, patterns: impl IntoIterator<Item = Pattern>) -> Option<(Severity, String)> {
        let schema = format!(
            "CREATE KEYSPACE s WITH replication = {{'class': 'SimpleStrategy'}};
             CREATE TABLE s.stock (item text PRIMARY KEY, left int) WITH transactional_mode = '{mode}';"
        );
        let schema = Schema::from_cql(&schema).expect("a schema");
        let mut window = window(patterns);
        let name = TableName {
            keyspace: "s".to_owned(),
            table: "stock".to_owned(),
        };
        window.tables.entry(name).or_default().writes += 1;
        let finding = run_with(&TransactionalMode, &window, &schema)
            .findings
            .into_iter()
            .next()?;
        Some((finding.severity, finding.title))
    }

    #[test]
    fn plain_writes_beside_transactions_are_wrong_where_accord_does_not_see_them() {
        assert_eq!(
            judged("unsafe", [take(), plain_write(&[])]),
            Some((
                Severity::High,
                "`s.stock` is in mode `unsafe` and gets 6,000 plain writes beside transactions, which may end \
                 differently on each replica"
                    .to_owned()
            ))
        );
        assert_eq!(judged("unsafe", [take()]), None);
        assert_eq!(judged("unsafe", [take(), plain_write(&[Flag::Lwt])]), None);
        assert_eq!(judged("full", [take(), plain_write(&[])]), None);
    }

    #[test]
    fn mixed_reads_is_for_a_time_of_transition() {
        let plain_read = read(
            "SELECT left FROM s.stock WHERE item = ?",
            &[],
            PartitionClass::Single,
            600,
        );
        assert_eq!(
            judged("mixed_reads", [take(), plain_read]),
            Some((
                Severity::Info,
                "`s.stock` is in mode `mixed_reads`, and 600 reads are outside of transactions".to_owned()
            ))
        );
    }

    #[test]
    fn a_mode_that_neither_transactions_nor_conditions_use_is_said_after_an_hour() {
        let found = judged("full", [plain_write(&[])]).expect("a finding");
        assert_eq!(
            found.1,
            "`s.stock` has `transactional_mode = 'full'`, and neither a transaction nor a condition was seen in 1 h"
        );
        assert_eq!(judged("full", [plain_write(&[Flag::Lwt])]), None);
        assert_eq!(judged("full", [take(), plain_write(&[])]), None);
        assert_eq!(judged("off", [plain_write(&[])]), None);
    }
}
