//! Transactions on one partition that a plain statement or a conditional one would serve as well.

use super::{About, Findings, GROUP, Severity, Transacted, user_transactions};
use crate::{
    Cause, Context, Finding, Rule,
    figures::{definition, often, table},
    severity::Impact,
};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::reads_itself,
    syntax::ast::{AssignmentOperation, Modification, Returning},
};
use cqlens_window::Pattern;

pub(crate) struct SinglePartitionTransaction;

impl Rule for SinglePartitionTransaction {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let transactions = user_transactions(context);
        for transacted in transactions.filter(|transacted| is_of_one_partition(transacted.pattern)) {
            if let Some(instead) = Instead::of(&transacted, context) {
                found.push(finding(instead, &transacted, context, found));
            }
        }
    }
}

/// Whether each execution is known to touch one partition of one table.
fn is_of_one_partition(pattern: &Pattern) -> bool {
    pattern.partitions.max() == 1 && !pattern.classes.contains_key(&PartitionClass::Unknown)
}

/// What does the same without `BEGIN TRANSACTION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instead {
    Select,
    /// A statement, or an unlogged batch of several.
    Write,
    /// `IF` of a statement, or of a batch.
    Condition,
}

impl Instead {
    fn of(transacted: &Transacted<'_>, context: &Context<'_>) -> Option<Self> {
        let transaction = transacted.transaction()?;
        if transaction.updates.is_empty() {
            // Several rows that are read together are a snapshot, which two SELECTs are not.
            let reads = transaction.lets.len() + usize::from(has_rows(transaction.returning.as_ref()));
            return (reads == 1).then_some(Self::Select);
        }
        let depends_on_rows = transaction.returning.is_some()
            || !transaction.written_references().is_empty()
            || transaction
                .updates
                .iter()
                .any(|update| changes_what_is_stored(update, transacted.pattern, context));
        match (depends_on_rows, transaction.conditions.is_empty()) {
            (true, _) => None,
            (false, true) => Some(Self::Write),
            (false, false) => Some(Self::Condition),
        }
    }
}

fn has_rows(returning: Option<&Returning<'_>>) -> bool {
    matches!(returning, Some(Returning::Select(_)))
}

/// Of a table that is not known, all that adds or takes away may.
fn changes_what_is_stored(update: &Modification<'_>, pattern: &Pattern, context: &Context<'_>) -> bool {
    match (definition(pattern, context.schema), update) {
        (Some(table), _) => reads_itself(update, table),
        (None, Modification::Update(update)) => update
            .assignments
            .iter()
            .any(|assignment| !matches!(assignment.operation, AssignmentOperation::Set(_))),
        (None, _) => false,
    }
}

fn finding(
    instead: Instead,
    transacted: &Transacted<'_>,
    context: &Context<'_>,
    found: &Findings<'_>,
) -> Finding {
    let pattern = transacted.pattern;
    let (verb, how, advice) = match instead {
        Instead::Select => ("read", "and write nothing", READ),
        Instead::Write => ("write", "whatever is stored there", WRITE),
        Instead::Condition => ("write", "on a condition", CONDITION),
    };
    let title = format!(
        "Transactions {verb} one partition of {} {how}{}",
        table(pattern),
        often(pattern.count, context.watch(pattern))
    );
    // In mode `full` Accord executes plain statements, too, and a condition costs consensus in any case.
    let mode = definition(pattern, context.schema).and_then(|table| table.transactional_mode());
    let severity = match (instead, mode.as_deref()) {
        (Instead::Condition, _) | (_, Some("full")) => Severity::Info,
        _ => {
            let impact = Impact::each(Severity::Low).of(pattern);
            context.severity(found, &impact.at_most(Severity::Medium))
        }
    };
    Finding::on(&ABOUT, severity, transacted.on(), context)
        .title(title)
        .advice(advice)
}

const READ: &str = "\
    Send the SELECT by itself. In a table with `transactional_mode = 'full'` Accord executes it as well, so that it sees \
    all that was committed before; in one with `mixed_reads` read and write at QUORUM.";

const WRITE: &str = "\
    Send the statement by itself, or several of the same partition as an unlogged batch: all of a batch on one partition \
    is applied together and seen together. In a table with a `transactional_mode` Accord orders it among the \
    transactions in any case.";

const CONDITION: &str = "\
    If the condition is on the row that is written, `UPDATE … IF` or `INSERT … IF NOT EXISTS` says the same in one \
    statement, also on tables without a `transactional_mode` and on servers before 6.0, and its response says whether it \
    was applied, which that of a transaction does not.";

const ABOUT: About = About {
    id: "single-partition-transaction",
    group: GROUP,
    summary: "A transaction does what a statement on one partition does as well.",
    why: "\
        A transaction is agreed on by the replicas in one more round trip than a plain write takes, waits for \
        others on the same partition, and needs tables with a `transactional_mode`. Statements and batches on \
        one partition are atomic and isolated without it, and `IF` compares and writes one partition.",
    fix: "\
        Use a plain statement, an unlogged batch of one partition, or `IF` where that says the same. Keep \
        transactions for several partitions or tables, for `+=`, and for values of one row that are written \
        to another.",
    fix_in_short: "A plain statement",
    before: "\
        BEGIN TRANSACTION\n  UPDATE shop.carts SET note = ? WHERE customer = ? AND item = ?;\n  UPDATE \
        shop.carts SET note = ? WHERE customer = ? AND item = ?;\nCOMMIT TRANSACTION",
    after: "\
        BEGIN UNLOGGED BATCH\n  UPDATE shop.carts SET note = ? WHERE customer = ? AND item = ?;\n  UPDATE \
        shop.carts SET note = ? WHERE customer = ? AND item = ?;\nAPPLY BATCH;",
    severity: "\
        Low, or medium by its part of the load. Info for a condition, and where the table's mode is `full`: \
        Accord executes all statements there.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "\
        Bound values and the schema, to count partitions; the schema also says which columns `+=` reads.",
    source: "\
        Cassandra documentation, Accord transactions and lightweight transactions; Cassandra class \
        `TransactionStatement` (6.0)",
    cause: Some(Cause::TRANSACTIONS),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, run, run_with, transaction};
    use cqlens_cql::schema::Schema;

    fn judged(text: &str, mode: &str) -> Option<(Severity, String)> {
        let schema = format!(
            "CREATE KEYSPACE s WITH replication = {{'class': 'SimpleStrategy'}};
             CREATE TABLE s.acct (id int PRIMARY KEY, cents int, tags set<text>, note text)
                WITH transactional_mode = '{mode}';"
        );
        let schema = Schema::from_cql(&schema).expect("a schema");
        let cql = format!("BEGIN TRANSACTION {text} COMMIT TRANSACTION");
        let judgement = run_with(
            &SinglePartitionTransaction,
            &amid([transaction(&cql, &[], 1, 600)]),
            &schema,
        );
        let finding = judgement.findings.into_iter().next()?;
        Some((finding.severity, finding.title))
    }

    #[test]
    fn what_a_statement_does_as_well_needs_no_transaction() {
        let title = |what: &str| format!("Transactions {what}, 10 a second");
        assert_eq!(
            judged("SELECT cents FROM s.acct WHERE id = ?;", "mixed_reads"),
            Some((
                Severity::Low,
                title("read one partition of `s.acct` and write nothing")
            ))
        );
        assert_eq!(
            judged(
                "UPDATE s.acct SET note = ?, tags += ? WHERE id = ?;",
                "mixed_reads"
            ),
            Some((
                Severity::Low,
                title("write one partition of `s.acct` whatever is stored there")
            ))
        );
        assert_eq!(
            judged(
                "LET a = (SELECT cents FROM s.acct WHERE id = ?); IF a.cents > ? THEN \
                 UPDATE s.acct SET note = ? WHERE id = ?; END IF",
                "mixed_reads"
            ),
            Some((
                Severity::Info,
                title("write one partition of `s.acct` on a condition")
            ))
        );
    }

    #[test]
    fn accord_executes_all_statements_of_a_table_in_mode_full() {
        let severity = |text: &str| judged(text, "full").map(|(severity, _)| severity);
        assert_eq!(
            severity("SELECT cents FROM s.acct WHERE id = ?;"),
            Some(Severity::Info)
        );
    }

    #[test]
    fn what_depends_on_stored_values_needs_one() {
        for text in [
            "UPDATE s.acct SET cents -= ? WHERE id = ?;",
            "LET a = (SELECT cents FROM s.acct WHERE id = ?); UPDATE s.acct SET cents = a.cents WHERE id = ?;",
            "LET a = (SELECT cents FROM s.acct WHERE id = ?); SELECT a.cents; \
             UPDATE s.acct SET note = ? WHERE id = ?;",
            "LET a = (SELECT cents FROM s.acct WHERE id = ?); LET b = (SELECT note FROM s.acct WHERE id = ?); \
             SELECT a.cents, b.note;",
        ] {
            assert_eq!(judged(text, "mixed_reads"), None, "{text}");
        }
    }

    #[test]
    fn several_partitions_need_one() {
        let cql = "BEGIN TRANSACTION UPDATE s.acct SET note = ? WHERE id = ?; \
            UPDATE s.acct SET note = ? WHERE id = ?; COMMIT TRANSACTION";
        let judgement = run(
            &SinglePartitionTransaction,
            &amid([transaction(cql, &[], 2, 600)]),
        );
        assert_eq!(judgement.findings, []);
    }
}
