//! Transactions that meet on one partition, and wait for each other.

use super::{About, Findings, GROUP, Severity, Threshold};
use crate::{
    Cause, Context, Finding, Quantity, Rule, error_code,
    figures::{often, share},
    severity::Impact,
};
use cqlens_cql::schema::TableName;
use cqlens_window::{Distribution, Pattern, PatternId, number};

pub(crate) struct ContendedTransaction;

impl Rule for ContendedTransaction {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (table, transactions) in context.transactions() {
            if let Some(contention) = Contention::of(table, transactions, context, found) {
                found.push(contention.finding(table, transactions, context, found));
            }
        }
    }
}

/// What one partition has of the requests to its table, and what its transactions pay for that.
struct Contention {
    share: f64,
    transactions: u64,
    timeouts: u64,
    p50_us: u64,
    p99_us: u64,
}

impl Contention {
    fn of(
        table: &TableName,
        transactions: &[(PatternId, &Pattern)],
        context: &Context<'_>,
        found: &Findings<'_>,
    ) -> Option<Self> {
        let traffic = context.window.tables.get(table)?;
        let (_, hottest) = traffic.top_partitions.top(1).pop()?;
        let patterns = || transactions.iter().map(|(_, pattern)| *pattern);
        let mut latency = Distribution::default();
        patterns().for_each(|pattern| latency.merge(&pattern.latency_us));
        let contention = Self {
            share: share(hottest.at_least(), traffic.top_partitions.total()),
            transactions: patterns().map(|pattern| pattern.count).sum(),
            timeouts: patterns().map(timed_out).sum(),
            p50_us: latency.quantile(0.5),
            p99_us: latency.quantile(0.99),
        };
        let reaches = |value: f64, threshold: &Threshold| value >= found.threshold(&ABOUT, threshold);
        let waits = context.has_latencies() && reaches(contention.slowdown(), &SLOWDOWN);
        let fails = reaches(share(contention.timeouts, contention.transactions), &TIMEOUTS);
        (reaches(contention.share, &SHARE) && (waits || fails) && contention.transactions >= FEWEST)
            .then_some(contention)
    }

    /// How many times as long as most the slowest take.
    fn slowdown(&self) -> f64 {
        self.p99_us as f64 / self.p50_us.max(1) as f64
    }

    fn finding(
        &self,
        table: &TableName,
        transactions: &[(PatternId, &Pattern)],
        context: &Context<'_>,
        found: &Findings<'_>,
    ) -> Finding {
        let impact = transactions
            .iter()
            .fold(Impact::each(Severity::Medium), |impact, (_, pattern)| {
                impact.of(pattern)
            });
        let severity = context.severity(found, &impact.failed(self.timeouts, self.transactions));
        let mut title = format!(
            "Transactions meet on one partition of `{table}`, which gets {} of its reads and writes{}",
            number::percent(self.share),
            often(self.transactions, context.watch_table(table))
        );
        if context.has_latencies() {
            title += &format!(
                "; the slowest of a hundred take {}, half of them {} or less",
                number::micros(self.p99_us),
                number::micros(self.p50_us)
            );
        }
        if self.timeouts > 0 {
            title += &format!(
                "; {} timed out",
                number::plural(self.timeouts, "transaction", "transactions")
            );
        }
        Finding::on_all(&ABOUT, severity, transactions.to_vec(), context)
            .of_table(table)
            .title(title)
            .first("timeouts", self.timeouts)
            .first("latency_p99_us", self.p99_us)
            .first("latency_p50_us", self.p50_us)
            .first("share_of_the_partition", self.share)
    }
}

/// Transactions that were not decided in time.
fn timed_out(pattern: &Pattern) -> u64 {
    error_code::count(
        pattern,
        &[
            error_code::READ_TIMEOUT,
            error_code::WRITE_TIMEOUT,
            error_code::CAS_WRITE_UNKNOWN,
        ],
    )
}

/// Of fewer transactions the slowest of a hundred is one that was slow by chance.
const FEWEST: u64 = 100;

const SHARE: Threshold = Threshold {
    name: "share",
    unit: "of the reads and writes of the table that name a partition",
    default: 0.25,
    origin: "the same as for `hot-partition`",
};

const SLOWDOWN: Threshold = Threshold {
    name: "slowdown",
    unit: "times the median latency, at p99",
    default: 10.0,
    origin: "cqlens default: who waits for nine others takes ten times as long",
};

const TIMEOUTS: Threshold = Threshold {
    name: "timeouts",
    unit: "of the transactions",
    default: 0.001,
    origin: "`failed_share_medium` of all severities: one in a thousand",
};

const ABOUT: About = About {
    id: "contended-transaction",
    group: GROUP,
    summary: "Many transactions touch the same partition, and wait for each other.",
    why: "\
        Accord executes transactions that touch the same partition one after another. If most of them touch \
        one, it is a queue: each waits for those before it, on every replica of that partition, until the \
        last ones time out. More nodes do not help.",
    fix: "\
        Spread what is changed over several rows with keys of their own: ten counters of stock instead of one, \
        of which a transaction takes any that has some left. Keep a common row, such as a total or a \
        sequence, out of the transaction, or change it for many requests at once.",
    fix_in_short: "Split the partition",
    before: "\
        BEGIN TRANSACTION\n  LET s = (SELECT left FROM shop.stock WHERE item = 'ticket');\n  IF s.left > 0 \
        THEN\n    UPDATE shop.stock SET left -= 1 WHERE item = 'ticket';\n  END IF\nCOMMIT TRANSACTION",
    after: "\
        BEGIN TRANSACTION\n  LET s = (SELECT left FROM shop.stock WHERE item = 'ticket' AND part = ?);\n  IF \
        s.left > 0 THEN\n    UPDATE shop.stock SET left -= 1 WHERE item = 'ticket' AND part = ?;\n  END \
        IF\nCOMMIT TRANSACTION",
    severity: "\
        Medium by its part of the load, where one partition gets `share` of a table's requests and its \
        transactions show it: latency at p99 from `slowdown` times the median, or `timeouts`, which count as \
        failures. Nothing is said of fewer than 100 transactions.",
    severities: &[Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[SHARE, SLOWDOWN, TIMEOUTS],
    needs: "Bound values and the schema, to count the requests of each partition; latencies and errors.",
    source: "CEP-15, General purpose transactions; Cassandra documentation, Accord transactions: performance issues",
    cause: Some(Cause::TRANSACTIONS),
    quantity: Some(Quantity::LATENCY),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, run, transaction};
    use cqlens_window::{TableTraffic, Window};

    const TAKE: &str = "BEGIN TRANSACTION LET s = (SELECT left FROM s.stock WHERE item = ?); IF s.left > ? THEN \
        UPDATE s.stock SET left -= ? WHERE item = ?; END IF COMMIT TRANSACTION";

    /// A thousand transactions on so many partitions, the slowest of which take so long.
    fn taken(partitions: u64, slowest_us: u64, timeouts: u64) -> Window {
        let mut pattern = transaction(TAKE, &[], 1, 1_000);
        pattern.latency_us = Distribution::default();
        pattern.latency_us.record_n(2_000, 980);
        pattern.latency_us.record_n(slowest_us, 20);
        (0..timeouts).for_each(|_| pattern.count_error(error_code::WRITE_TIMEOUT));
        let mut window = amid([pattern]);
        let mut traffic = TableTraffic::default();
        for time in 0..1_000 {
            traffic.top_partitions.write(time % partitions);
        }
        let table = TableName {
            keyspace: "s".to_owned(),
            table: "stock".to_owned(),
        };
        window.tables.insert(table, traffic);
        window
    }

    fn titles(window: &Window) -> Vec<String> {
        let findings = run(&ContendedTransaction, window).findings;
        findings.into_iter().map(|finding| finding.title).collect()
    }

    #[test]
    fn transactions_of_one_partition_that_wait_are_contended() {
        assert_eq!(
            titles(&taken(2, 40_000, 0)),
            [
                "Transactions meet on one partition of `s.stock`, which gets 50 % of its reads and writes, \
              17 a second; the slowest of a hundred take 40 ms, half of them 2.0 ms or less"
            ]
        );
        assert_eq!(titles(&taken(2, 4_000, 2)).len(), 1, "timeouts show it as well");
    }

    #[test]
    fn a_hot_partition_without_waiting_and_waiting_without_one_are_no_contention() {
        assert_eq!(titles(&taken(2, 4_000, 0)), [""; 0]);
        assert_eq!(titles(&taken(100, 40_000, 0)), [""; 0]);
    }
}
