//! Transactions over many partitions: each of them adds its replicas to those that must agree.

use super::{About, Findings, GROUP, Severity, Threshold, Transacted, user_transactions};
use crate::{
    Cause, Context, Finding, Quantity, Rule, Unit,
    figures::{often, partitions, tables},
    write::{HIGH_PARTITIONS, MEDIUM_PARTITIONS, by_partitions, with_partitions},
};

pub(crate) struct MultiPartitionTransaction;

impl Rule for MultiPartitionTransaction {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for transacted in user_transactions(context) {
            let p99 = transacted.pattern.partitions.quantile(0.99) as f64;
            if p99 < found.threshold(&ABOUT, &SOME_PARTITIONS) {
                continue;
            }
            let severity = by_partitions(found, &ABOUT, transacted.pattern, context, Severity::Info);
            if let Some(severity) = severity {
                found.push(finding(severity, &transacted, context));
            }
        }
    }
}

fn finding(severity: Severity, transacted: &Transacted<'_>, context: &Context<'_>) -> Finding {
    let pattern = transacted.pattern;
    let title = format!(
        "Transactions touch {} of {}{}",
        partitions(pattern),
        tables(pattern),
        often(pattern.count, context.watch(pattern))
    );
    let [reads, writes] = transacted.transaction().map_or([0, 0], |transaction| {
        [transaction.lets.len(), transaction.updates.len()]
    });
    let finding = Finding::on(&ABOUT, severity, transacted.on(), context).title(title);
    let finding = with_partitions(finding, pattern)
        .first("writes", writes as u64)
        .first("reads", reads as u64);
    if severity > Severity::Info {
        return finding;
    }
    finding.advice(
        "This is what transactions are for: a few partitions that must change together. Keep them few, since \
         the replicas of each must agree, and keep out what may be written a moment later.",
    )
}

const SOME_PARTITIONS: Threshold = Threshold {
    name: "some_partitions",
    unit: "partitions at p99",
    default: 4.0,
    origin: "\
        Cassandra documentation, Accord transactions: about three partitions as a starting point, which is \
        no measured limit",
};

const ABOUT: About = About {
    id: "multi-partition-transaction",
    group: GROUP,
    summary: "A transaction touches many partitions.",
    why: "\
        Accord orders a transaction with all others that touch one of its partitions: the replicas of every \
        partition take part, the coordinator waits for a quorum of each, and the slowest decides. The more \
        partitions, the more nodes take part, and the more other transactions it meets and waits for.",
    fix: "\
        Read and write in the transaction only what the decision depends on. Write the rest as separate \
        statements once it has committed, or split it into transactions of a few partitions each. If the \
        same partitions always change together, put their rows into one partition.",
    fix_in_short: "Fewer partitions",
    before: "\
        BEGIN TRANSACTION\n  UPDATE shop.stock SET left -= 1 WHERE item = ?;\n  -- and 20 more items of the \
        order\nCOMMIT TRANSACTION",
    after: "\
        -- one transaction for each item\nBEGIN TRANSACTION\n  LET item = (SELECT left FROM shop.stock WHERE \
        item = ?);\n  IF item.left > 0 THEN\n    UPDATE shop.stock SET left -= 1 WHERE item = ?;\n  END \
        IF\nCOMMIT TRANSACTION",
    severity: "\
        By the partitions per transaction at p99, read and written ones together: info from \
        `some_partitions`, medium from `medium_partitions`, high from `high_partitions`.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[SOME_PARTITIONS, MEDIUM_PARTITIONS, HIGH_PARTITIONS],
    needs: "Bound values and the tables' schemas, to count distinct partitions.",
    source: "Cassandra documentation, Accord transactions: multi-partition coordination; CEP-15",
    cause: Some(Cause::TRANSACTIONS),
    quantity: Some(
        Quantity::new("partitions per transaction", Unit::Count, |pattern| {
            &pattern.partitions
        })
        .limited(&[
            (Severity::High, HIGH_PARTITIONS),
            (Severity::Medium, MEDIUM_PARTITIONS),
        ]),
    ),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, run, transaction};

    const TRANSFER: &str = "BEGIN TRANSACTION LET a = (SELECT cents FROM s.acct WHERE id = ?); IF a.cents > ? THEN \
        UPDATE s.acct SET cents -= ? WHERE id = ?; UPDATE s.acct SET cents += ? WHERE id = ?; END IF \
        COMMIT TRANSACTION";

    fn severity(partitions: u64) -> Option<Severity> {
        let judgement = run(
            &MultiPartitionTransaction,
            &amid([transaction(TRANSFER, &[], partitions, 600)]),
        );
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn a_transfer_is_what_transactions_are_for() {
        assert_eq!(severity(1), None);
        assert_eq!(severity(3), None);
        assert_eq!(severity(4), Some(Severity::Info));
    }

    #[test]
    fn severity_rises_with_the_number_of_partitions() {
        assert_eq!(severity(10), Some(Severity::Medium));
        assert_eq!(severity(50), Some(Severity::High));
    }

    #[test]
    fn the_title_counts_partitions_and_names_tables() {
        let pattern = transaction(TRANSFER, &[cqlens_cql::plan::Flag::SeveralTables], 12, 600);
        let judgement = run(&MultiPartitionTransaction, &amid([pattern]));
        assert_eq!(
            judgement.findings[0].title,
            "Transactions touch 12 partitions (p99) of `s.acct` and other tables, 10 a second"
        );
    }
}
