//! Rows that a transaction reads and does not use.

use super::{About, Findings, GROUP, Severity, Transacted, user_transactions};
use crate::{
    Cause, Context, Finding, Rule,
    figures::{often, tables},
    severity::Impact,
};

pub(crate) struct UnusedTransactionRead;

impl Rule for UnusedTransactionRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for transacted in user_transactions(context) {
            let unused = unused_names(&transacted);
            if !unused.is_empty() {
                let impact = Impact::each(Severity::Low).of(transacted.pattern);
                let severity = context.severity(found, &impact.at_most(Severity::Medium));
                found.push(finding(severity, &unused, &transacted, context));
            }
        }
    }
}

fn unused_names(transacted: &Transacted<'_>) -> Vec<String> {
    let Some(transaction) = transacted.transaction() else {
        return Vec::new();
    };
    let unused = transaction.unused_lets();
    unused.map(|read| read.name.as_str().to_owned()).collect()
}

fn finding(
    severity: Severity,
    unused: &[String],
    transacted: &Transacted<'_>,
    context: &Context<'_>,
) -> Finding {
    let pattern = transacted.pattern;
    let names: Vec<_> = unused.iter().map(|name| format!("`{name}`")).collect();
    let title = format!(
        "Transactions on {} read {} and do not use {}{}",
        tables(pattern),
        names.join(" and "),
        if unused.len() == 1 { "it" } else { "them" },
        often(pattern.count, context.watch(pattern))
    );
    Finding::on(&ABOUT, severity, transacted.on(), context)
        .title(title)
        .first("unused_reads", unused.len() as u64)
}

const ABOUT: About = About {
    id: "unused-transaction-read",
    group: GROUP,
    summary: "A transaction reads rows that it does not use.",
    why: "\
        What `LET` reads is part of the transaction, used or not: its partition is one more that the replicas \
        must agree on, the transaction conflicts with all that write it, and a replica reads it before \
        anything is written.",
    fix: "\
        Remove each `LET` that no condition, write or response uses. If the row is only shown to a user, read \
        it with a SELECT before the transaction.",
    fix_in_short: "Remove the LET",
    before: "\
        BEGIN TRANSACTION\n  LET account = (SELECT cents FROM shop.accounts WHERE id = ?);\n  LET owner = (SELECT name \
        FROM shop.users WHERE id = ?);\n  IF account.cents > ? THEN\n    UPDATE shop.accounts SET cents -= ? \
        WHERE id = ?;\n  END IF\nCOMMIT TRANSACTION",
    after: "\
        BEGIN TRANSACTION\n  LET account = (SELECT cents FROM shop.accounts WHERE id = ?);\n  IF account.cents \
        > ? THEN\n    UPDATE shop.accounts SET cents -= ? WHERE id = ?;\n  END IF\nCOMMIT TRANSACTION",
    severity: "Low, or medium by its part of the load.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "The statement's text.",
    source: "Cassandra class `TransactionStatement` (6.0), which gives the keys of every `LET` to Accord",
    cause: Some(Cause::TRANSACTIONS),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, run, transaction};

    fn titles(cql: &str) -> Vec<String> {
        let judgement = run(&UnusedTransactionRead, &amid([transaction(cql, &[], 2, 600)]));
        judgement
            .findings
            .into_iter()
            .map(|finding| finding.title)
            .collect()
    }

    #[test]
    fn a_row_that_nothing_refers_to_is_named() {
        let cql = "BEGIN TRANSACTION LET a = (SELECT cents FROM s.acct WHERE id = ?); \
            LET b = (SELECT name FROM s.owner WHERE id = ?); IF a.cents > ? THEN \
            UPDATE s.acct SET cents -= ? WHERE id = ?; END IF COMMIT TRANSACTION";
        assert_eq!(
            titles(cql),
            ["Transactions on `s.acct` read `b` and do not use it, 10 a second"]
        );
    }

    #[test]
    fn what_is_compared_written_or_returned_is_used() {
        let read = "LET a = (SELECT cents FROM s.acct WHERE id = ?);";
        let write = "UPDATE s.acct SET cents = ? WHERE id = ?;";
        for cql in [
            format!("BEGIN TRANSACTION {read} IF a IS NULL THEN {write} END IF COMMIT TRANSACTION"),
            format!("BEGIN TRANSACTION {read} SELECT a.cents; {write} COMMIT TRANSACTION"),
            format!(
                "BEGIN TRANSACTION {read} UPDATE s.acct SET cents = a.cents WHERE id = ?; COMMIT TRANSACTION"
            ),
        ] {
            assert_eq!(titles(&cql), [""; 0], "{cql}");
        }
    }
}
