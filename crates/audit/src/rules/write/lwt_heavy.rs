//! Tables whose writes are lightweight transactions for the most part.

use std::collections::BTreeMap;

use super::{About, Findings, Severity, Threshold, user_writes};
use crate::{
    number,
    rules::{
        Finding, Rule,
        figures::{OFTEN_PER_SECOND, STEADY_PER_HOUR, often, per_hour, share, table},
    },
    window::{Distribution, Pattern, PatternId, Window},
};
use cqlens_cql::{plan::Flag, schema::Schema};

pub(in crate::rules) struct LwtHeavy;

impl Rule for LwtHeavy {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        for writes in by_table(window)
            .into_values()
            .filter(|writes| !writes.conditional.is_empty())
        {
            let severity = severity(found, &writes, window);
            found.push(finding(severity, writes, window));
        }
    }
}

/// What writes a table: conditional patterns, and the numbers of both kinds.
#[derive(Default)]
struct Writes<'a> {
    conditional: Vec<(PatternId, &'a Pattern)>,
    conditional_count: u64,
    plain_count: u64,
    conditional_latency: Distribution,
    plain_latency: Distribution,
}

fn by_table(window: &Window) -> BTreeMap<String, Writes<'_>> {
    let mut tables: BTreeMap<String, Writes<'_>> = BTreeMap::new();
    for (id, pattern) in user_writes(window) {
        let writes = tables.entry(table(pattern)).or_default();
        if pattern.is(Flag::Lwt) {
            writes.conditional.push((id, pattern));
            writes.conditional_count += pattern.count;
            writes.conditional_latency.merge(&pattern.latency_us);
        } else {
            writes.plain_count += pattern.count;
            writes.plain_latency.merge(&pattern.latency_us);
        }
    }
    tables
}

impl Writes<'_> {
    fn share(&self) -> f64 {
        share(self.conditional_count, self.conditional_count + self.plain_count)
    }
}

fn severity(found: &Findings<'_>, writes: &Writes<'_>, window: &Window) -> Severity {
    let per_hour = per_hour(writes.conditional_count, window);
    let most = writes.share() >= found.threshold(&ABOUT, &MOST_SHARE);
    if per_hour < found.threshold(&ABOUT, &STEADY_PER_HOUR)
        || writes.share() < found.threshold(&ABOUT, &SOME_SHARE)
    {
        Severity::Info
    } else if !most {
        Severity::Low
    } else if per_hour >= found.threshold(&ABOUT, &OFTEN_PER_SECOND) * 3_600.0 {
        Severity::High
    } else {
        Severity::Medium
    }
}

fn finding(severity: Severity, writes: Writes<'_>, window: &Window) -> Finding {
    let name = writes
        .conditional
        .first()
        .map_or_else(String::new, |(_, pattern)| table(pattern));
    let share = writes.share();
    let (conditional, plain) = (&writes.conditional_latency, &writes.plain_latency);
    let mut title = format!(
        "{} of the writes to {name} are lightweight transactions{}",
        number::percent(share),
        often(writes.conditional_count, window)
    );
    if !conditional.is_empty() && !plain.is_empty() {
        let times = conditional.mean() / plain.mean().max(1.0);
        title += &format!(
            "; they take {} times as long as the others",
            number::decimal(times)
        );
    }
    let mut finding = Finding::on_all(&ABOUT, severity, writes.conditional, window).title(title);
    for (p50, p99, latency) in [
        ("plain_latency_p50_us", "plain_latency_p99_us", plain),
        (
            "conditional_latency_p50_us",
            "conditional_latency_p99_us",
            conditional,
        ),
    ] {
        if !latency.is_empty() {
            finding = finding
                .first(p99, latency.quantile(0.99))
                .first(p50, latency.quantile(0.5));
        }
    }
    finding
        .first("plain_writes", writes.plain_count)
        .first("conditional_writes", writes.conditional_count)
        .first("conditional_share", share)
}

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "of the table's writes",
    default: 0.1,
    origin: "own choice: below a tenth they are exceptions, such as the claim of a name",
};

const MOST_SHARE: Threshold = Threshold {
    name: "most_share",
    unit: "of the table's writes",
    default: 0.5,
    origin: "own choice: from half of the writes on, the table works by consensus",
};

const ABOUT: About = About {
    id: "lwt-heavy",
    group: "writes",
    summary: "A large part of a table's writes are lightweight transactions.",
    why: "\
        A conditional write runs Paxos: four round trips between coordinator and replicas, or two with Paxos \
        v2 (4.1), a read of the row and three writes of Paxos state on each replica, where a plain write \
        needs one round trip and one write. Those that meet on one partition exclude each other and are \
        tried again after a random pause, so that contention multiplies the cost.",
    fix: "\
        Keep IF for what must be unique or must not be lost, such as the claim of a name. Where rows are \
        keyed by an id that nobody else makes (a UUID), write without a condition; where the last write may \
        win, let it; where values are added up, write events and sum them on reading.",
    before: "INSERT INTO shop.orders (id, placed, amount) VALUES (?, ?, ?) IF NOT EXISTS;",
    after: "-- id is a UUID that the client has made\nINSERT INTO shop.orders (id, placed, amount) VALUES (?, ?, ?);",
    severity: "\
        By table: info below `some_share` of its writes or below `steady_per_hour` writes an hour; low from \
        both; medium from `most_share`; high from `most_share` and `often_per_second` writes a second.",
    thresholds: &[SOME_SHARE, MOST_SHARE, STEADY_PER_HOUR, OFTEN_PER_SECOND],
    needs: "The statements' texts; their latencies, to put conditional writes beside plain ones.",
    source: "\
        Data Modeling in Cassandra, the pathology lab: lightweight transactions are several times slower; \
        Cassandra class `StorageProxy.cas`; CEP-14",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{run, window, write};
    use cqlens_cql::plan::StatementKind;

    fn conditional(times: u64) -> Pattern {
        let cql = "INSERT INTO shop.orders (id, placed) VALUES (?, ?) IF NOT EXISTS";
        let mut pattern = write(cql, StatementKind::Insert, &[Flag::Lwt], times);
        pattern.latency_us = Distribution::default();
        pattern.latency_us.record_n(8_000, times);
        pattern
    }

    fn plain(times: u64) -> Pattern {
        write(
            "INSERT INTO shop.orders (id, placed) VALUES (?, ?)",
            StatementKind::Insert,
            &[],
            times,
        )
    }

    fn severity(patterns: impl IntoIterator<Item = Pattern>) -> Option<Severity> {
        let judgement = run(&LwtHeavy, &window(patterns));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_share_and_the_rate() {
        assert_eq!(severity([conditional(100), plain(901)]), Some(Severity::Info));
        assert_eq!(severity([conditional(100), plain(900)]), Some(Severity::Low));
        assert_eq!(severity([conditional(100), plain(100)]), Some(Severity::Medium));
        assert_eq!(severity([conditional(360_000), plain(100)]), Some(Severity::High));
        assert_eq!(severity([conditional(59)]), Some(Severity::Info));
    }

    #[test]
    fn the_title_puts_their_latency_beside_plain_writes() {
        let judgement = run(&LwtHeavy, &window([conditional(60), plain(20)]));
        let finding = &judgement.findings[0];
        assert!(
            finding.title.starts_with(
                "75 % of the writes to `shop.orders` are lightweight transactions, 1 a minute; they take 4"
            ),
            "{}",
            finding.title
        );
        assert_eq!(finding.evidence[0], ("conditional_share", 0.75.into()));
        assert_eq!(finding.table.as_deref(), Some("orders"));
    }

    #[test]
    fn plain_writes_and_other_tables_are_fine() {
        assert_eq!(severity([plain(1_000_000)]), None);
        let other = write(
            "INSERT INTO shop.names (n) VALUES (?)",
            StatementKind::Insert,
            &[],
            1_000_000,
        );
        assert_eq!(severity([conditional(100), other]), Some(Severity::Medium));
    }

    #[test]
    fn drivers_own_statements_are_not_judged() {
        let mut system = conditional(1_000);
        system.head.system = true;
        assert_eq!(severity([system]), None);
    }
}
