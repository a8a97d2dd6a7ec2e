//! Partitions that are read just before they are written.

use super::{
    About, Context, Finding, Findings, GROUP, Impact, Pattern, PatternId, Rule, Severity, TableName,
    Threshold, number, often, rounded, share, table_of,
};
use cqlens_cql::plan::Flag;
use cqlens_window::Rewrites;

pub(crate) struct ReadBeforeWrite;

impl Rule for ReadBeforeWrite {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (write, reads) in &context.window.sequences.rewrites {
            let most = reads.iter().max_by_key(|(id, writes)| (writes.writes, **id));
            let pair = most.and_then(|(read, writes)| Pair::of((*read, *write), writes, context));
            if let Some(pair) = pair.filter(|pair| pair.is_habit(found)) {
                judge(&pair, context, found);
            }
        }
    }
}

/// A read, and the write that comes after it.
struct Pair<'a> {
    read: (PatternId, &'a Pattern),
    write: (PatternId, &'a Pattern),
    table: TableName,
    writes: &'a Rewrites,
    /// Executions of the write that were looked at.
    requests: u64,
}

/// Writes of which more is explained by chance come by chance.
const MOST_BY_CHANCE: f64 = 0.2;

impl<'a> Pair<'a> {
    fn of(
        (read, write): (PatternId, PatternId),
        writes: &'a Rewrites,
        context: &Context<'a>,
    ) -> Option<Self> {
        let window = context.window;
        let (before, after) = window.patterns.get(&read).zip(window.patterns.get(&write))?;
        let table = table_of(after)?;
        let definition = context.schema.table(&table.keyspace, &table.table)?;
        // A partition of several rows may be read for one and written for another. A counter is added to.
        if definition.is_counter() || !definition.clustering().is_empty() {
            return None;
        }
        Some(Self {
            read: (read, before),
            write: (write, after),
            table,
            writes,
            requests: window.sequences.requests.get(&write).copied().unwrap_or(0),
        })
    }

    /// Writes after a read, of all that were looked at.
    fn share(&self) -> f64 {
        share(self.writes.writes, self.requests).min(1.0)
    }

    fn is_habit(&self, found: &Findings<'_>) -> bool {
        let writes = self.writes.writes as f64;
        let of = |threshold: &Threshold| found.threshold(&ABOUT, threshold);
        writes >= of(&OPERATIONS)
            && self.share() >= of(&SHARE)
            && self.writes.late as f64 <= MOST_BY_CHANCE * writes
    }

    fn is_conditional(&self) -> bool {
        self.write.1.is(Flag::Lwt)
    }
}

fn judge(pair: &Pair<'_>, context: &Context<'_>, found: &mut Findings<'_>) {
    let times = rounded(pair.write.1.count as f64 * pair.share());
    // What a condition reads anyway is read for nothing; else it may be right.
    let each = match pair.is_conditional() {
        true => Severity::Low,
        false => Severity::Info,
    };
    let impact = Impact::each(each).of(pair.read.1).times(times);
    let severity = context.severity(found, &impact.at_most(Severity::Medium));
    let because = match pair.is_conditional() {
        true => "conditional writes, which read it themselves",
        false => "writes; if two clients do so concurrently, the second overwrites the first",
    };
    let title = format!(
        "The client reads a partition of `{}` just before it writes it, in {} of these {because}{}",
        pair.table,
        number::percent(pair.share()),
        often(times, context.watch(pair.write.1))
    );
    let finding = Finding::on_all(&ABOUT, severity, vec![pair.write, pair.read], context)
        .of_table(&pair.table)
        .about(pair.write.0.to_string())
        .title(title)
        .first("elapsed_p50_us", pair.writes.elapsed_us.quantile(0.5))
        .first("share", pair.share())
        .first("operations", times);
    found.push(match pair.is_conditional() {
        true => finding.advice(ADVICE_FOR_CONDITIONS),
        false => finding.or_in_a_transaction([&pair.table].into_iter(), IN_A_TRANSACTION, context),
    });
}

const IN_A_TRANSACTION: &str = "\
    Where the write depends on what was read, one transaction does both: `LET row = (SELECT …); IF row.value = ? THEN \
    UPDATE … END IF`, or `SET value += ?`, which reads the value itself.";

const ADVICE_FOR_CONDITIONS: &str = "\
    Write without reading first: a conditional write that is not applied returns the current values, and the \
    client can decide by those. Keep the read only if the client needs it for something other than the \
    condition.";

const OPERATIONS: Threshold = Threshold {
    name: "operations",
    unit: "sampled writes after a read",
    default: 20.0,
    origin: "cqlens default: what happens less often during a report is not a habit",
};

const SHARE: Threshold = Threshold {
    name: "share",
    unit: "of the writes that follow a read of their partition",
    default: 0.5,
    origin: "cqlens default: below that, most writes of the statement need no read",
};

const ABOUT: About = About {
    id: "read-before-write",
    group: GROUP,
    summary: "The client reads a partition and then writes it.",
    why: "Between the read and the write, another client may write the same row. Cassandra keeps the write \
        with the highest timestamp, so one of the two changes is lost without an error. The read also loads \
        replicas and makes the client wait before a write that needs no read: INSERT and UPDATE do not check \
        whether the row exists.",
    fix: "\
        If the new value does not depend on the old one, write without reading. If it does, express that in \
        the write: a condition (`IF stock = ?`) for values that must not be lost, a counter for numbers that \
        are added up, an element added to a set or map for values that are collected. A condition costs \
        about four times as much as a plain write: use it only for writes that need it.",
    fix_in_short: "Write without reading",
    before: "SELECT pieces FROM shop.stock WHERE item = ?;\nUPDATE shop.stock SET pieces = ? WHERE item = ?;",
    after: "UPDATE shop.stock SET pieces = ? WHERE item = ? IF pieces = ?;  -- returns pieces if it differs",
    severity: "\
        From `operations` and a `share` of the writes: info, low if the reads take a large share of time or \
        work. Before conditional writes, where the read is unnecessary: low, by the share of time and work \
        that the reads take.",
    severities: &[Severity::Info, Severity::Low],
    thresholds: &[OPERATIONS, SHARE],
    needs: "\
        Reads of one partition, followed within 50 ms by INSERTs and UPDATEs of the same partition in the \
        same session (or from the same application and address). Not seen: what a user edits in a form, \
        which takes longer; writes in batches. Left out: DELETE, counters, keys that are polled, and tables \
        with clustering columns, where the row that is read and the one that is written may differ.",
    source: "Cassandra documentation, lightweight transactions; Things you should be doing when using Cassandra drivers: read-before-write as an anti-pattern",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run_with, write};
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind, schema::Schema};

    const READ: &str = "SELECT pieces FROM shop.stock WHERE item = ?";
    const UPDATE: &str = "UPDATE shop.stock SET pieces = ? WHERE item = ?";

    /// A hundred writes that were looked at, of which so many came after a read, and so many late.
    fn found(cql: &str, flags: &[Flag], counts: (u64, u64)) -> Vec<(Severity, String)> {
        found_with("item text PRIMARY KEY, pieces int", cql, flags, counts)
    }

    /// The same of a table with these columns.
    fn found_with(
        columns: &str,
        cql: &str,
        flags: &[Flag],
        (writes, late): (u64, u64),
    ) -> Vec<(Severity, String)> {
        let schema = Schema::from_cql(&format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
             CREATE TABLE shop.stock ({columns});"
        ));
        let before = read(READ, &[], PartitionClass::Single, 100);
        let after = write(cql, StatementKind::Update, flags, 100);
        let mut window = amid([before, after]);
        let id = |cql: &str| {
            let mut patterns = window.patterns.iter();
            patterns
                .find(|(_, pattern)| pattern.head.cql == cql)
                .map(|(id, _)| *id)
        };
        let (read, write) = id(READ).zip(id(cql)).unwrap_or((PatternId(0), PatternId(0)));
        let counted = Rewrites {
            writes,
            late,
            ..Rewrites::default()
        };
        window
            .sequences
            .rewrites
            .entry(write)
            .or_default()
            .insert(read, counted);
        window.sequences.requests.insert(write, 100);
        let findings = run_with(&ReadBeforeWrite, &window, &schema.unwrap())
            .findings
            .into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn a_habit_of_reading_first_is_found() {
        let titles = found(UPDATE, &[], (80, 0));
        assert_eq!(
            titles,
            [(
                Severity::Info,
                "The client reads a partition of `shop.stock` just before it writes it, in 80 % of these \
                 writes; if two clients do so concurrently, the second overwrites the first, 1.3 a second"
                    .to_owned()
            )]
        );
    }

    #[test]
    fn before_a_condition_it_is_for_nothing() {
        let cql = "UPDATE shop.stock SET pieces = ? WHERE item = ? IF pieces = ?";
        let found = found(cql, &[Flag::Lwt], (80, 0));
        assert!(
            found
                .iter()
                .any(|(_, title)| title.contains("conditional writes, which read it themselves")),
            "{found:?}"
        );
    }

    #[test]
    fn of_a_partition_of_several_rows_nothing_is_said() {
        let rows = "item text, place text, pieces int, PRIMARY KEY (item, place)";
        assert_eq!(found_with(rows, UPDATE, &[], (80, 0)), []);
        let row = "item text, place text, pieces int, PRIMARY KEY ((item, place))";
        assert_eq!(found_with(row, UPDATE, &[], (80, 0)).len(), 1);
    }

    #[test]
    fn chance_and_exceptions_are_no_habit() {
        assert_eq!(found(UPDATE, &[], (50, 10)).len(), 1);
        assert_eq!(found(UPDATE, &[], (50, 11)), [], "by chance");
        assert_eq!(found(UPDATE, &[], (49, 0)), [], "less than half");
        assert_eq!(found(UPDATE, &[], (19, 0)), []);
    }
}
