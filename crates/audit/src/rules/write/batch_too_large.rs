//! Batches of many bytes: beyond what Cassandra warns of, or refuses.

use super::{About, Findings, Severity, Threshold, partitions, with_partitions, written_tables};
use crate::{
    number,
    rules::{
        Finding, Rule, error_code,
        figures::{bytes, often, user_patterns},
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::{plan::StatementKind, schema::Schema};

pub(in crate::rules) struct BatchTooLarge;

impl Rule for BatchTooLarge {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        // Those that the server always refused are what this looks for.
        let is_batch = |pattern: &Pattern| pattern.head.kind == StatementKind::Batch;
        for (id, pattern) in user_patterns(window).filter(|(_, pattern)| is_batch(pattern)) {
            if let Some(severity) = severity(found, pattern) {
                found.push(finding(severity, id, pattern, window));
            }
        }
    }
}

fn severity(found: &Findings<'_>, pattern: &Pattern) -> Option<Severity> {
    // Cassandra measures batches over several partitions only: those of one are a single mutation.
    if pattern.partitions.max() <= 1 && refused(pattern) == 0 {
        return None;
    }
    let p99 = pattern.request_bytes.quantile(0.99) as f64;
    let reached = |threshold: &Threshold| p99 >= found.threshold(&ABOUT, threshold);
    if reached(&FAIL_BYTES) {
        Some(Severity::High)
    } else if reached(&MEDIUM_BYTES) {
        Some(Severity::Medium)
    } else {
        reached(&WARN_BYTES).then_some(Severity::Low)
    }
}

/// How many the server called invalid: `Batch too large` is the only reason that depends on the size.
fn refused(pattern: &Pattern) -> u64 {
    pattern
        .error_codes
        .get(&error_code::INVALID)
        .copied()
        .unwrap_or_default()
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let mut title = format!(
        "Batches on {} are {} large (p99){}",
        written_tables(pattern),
        bytes(pattern.request_bytes.quantile(0.99)),
        often(pattern.count, window)
    );
    let refused = refused(pattern);
    if refused > 0 {
        title += &format!("; the server refused {}", number::count(refused));
    } else if !pattern.partitions.is_empty() {
        title += &format!(", over {}", partitions(pattern));
    }
    let finding = Finding::on(&ABOUT, severity, (id, pattern), window).title(title);
    with_partitions(finding, pattern)
        .first("server_warnings", pattern.warnings)
        .first("refused", refused)
        .first("request_max_bytes", pattern.request_bytes.max())
}

const WARN_BYTES: Threshold = Threshold {
    name: "warn_bytes",
    unit: "bytes at p99",
    default: 5_120.0,
    origin: "`batch_size_warn_threshold` of cassandra.yaml: 5 KiB (ScyllaDB: 128 KB)",
};

const MEDIUM_BYTES: Threshold = Threshold {
    name: "medium_bytes",
    unit: "bytes at p99",
    default: 25_600.0,
    origin: "own choice: half of `fail_bytes`, the last stretch before batches are refused",
};

const FAIL_BYTES: Threshold = Threshold {
    name: "fail_bytes",
    unit: "bytes at p99",
    default: 51_200.0,
    origin: "`batch_size_fail_threshold` of cassandra.yaml: 50 KiB (ScyllaDB: 1024 KB)",
};

const ABOUT: About = About {
    id: "batch-too-large",
    group: "writes",
    summary: "A batch over several partitions is larger than what Cassandra warns of.",
    why: "\
        The coordinator holds the whole batch in memory, a logged one is stored on two other nodes besides, \
        and every replica set has to answer before the client hears anything. Large batches make the nodes' \
        garbage collectors pause, and beyond `batch_size_fail_threshold` Cassandra refuses them.",
    fix: "\
        Send the statements by themselves, several at a time. Batch only the rows of one fact; where a batch \
        over one partition is meant, make sure that all of its statements name the same key.",
    before: "BEGIN BATCH\n  INSERT INTO shop.events (sensor, at, value) VALUES (?, ?, ?);\n  -- and 200 more, of other sensors\nAPPLY BATCH;",
    after: "-- each by itself, several at a time\nINSERT INTO shop.events (sensor, at, value) VALUES (?, ?, ?);",
    severity: "\
        By the size of requests at p99, as far as they touch more than one partition or the server refused \
        some: low from `warn_bytes`, medium from `medium_bytes`, high from `fail_bytes`. Cassandra measures \
        the rows to be written, not the request: its numbers are somewhat larger or smaller.",
    thresholds: &[WARN_BYTES, MEDIUM_BYTES, FAIL_BYTES],
    needs: "Requests; bound values and the tables' schemas, to leave out batches over one partition.",
    source: "\
        cassandra.yaml `batch_size_warn_threshold`, `batch_size_fail_threshold`; Cassandra class \
        `BatchStatement.verifyBatchSize`",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{batch, run, window};
    use cqlens_cql::plan::Flag;

    fn sized(bytes: u64, partitions: u64) -> Pattern {
        let mut pattern = batch(&[Flag::LoggedBatch], partitions, 60);
        pattern.request_bytes.record_n(bytes, 60);
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&BatchTooLarge, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_size() {
        // Sizes are kept with an error of a few per cent.
        assert_eq!(severity(sized(4_800, 2)), None);
        assert_eq!(severity(sized(5_500, 2)), Some(Severity::Low));
        assert_eq!(severity(sized(27_000, 2)), Some(Severity::Medium));
        assert_eq!(severity(sized(54_000, 2)), Some(Severity::High));
    }

    #[test]
    fn over_one_partition_size_does_not_matter() {
        assert_eq!(severity(sized(54_000, 1)), None);
    }

    #[test]
    fn what_the_server_refused_is_said() {
        let mut refused = sized(60_000, 2);
        refused.partitions = Default::default();
        refused.classes.clear();
        refused.errors = 60;
        refused.error_codes.insert(0x2200, 60);
        let judgement = run(&BatchTooLarge, &window([refused]));
        assert_eq!(judgement.findings[0].severity, Severity::High);
        assert!(judgement.findings[0].title.ends_with("; the server refused 60"));
    }

    #[test]
    fn large_single_statements_are_not_its_business() {
        let mut single = sized(54_000, 2);
        single.head.kind = StatementKind::Insert;
        assert_eq!(severity(single), None);
    }
}
