//! Batches of many bytes: beyond what Cassandra warns of, or refuses.

use super::{About, Findings, Severity, Threshold, with_partitions};
use crate::{
    Cause, Context, Finding, Quantity, Rule, Unit, error_code,
    example::batch,
    figures::{bytes, often, partitions, tables, user_patterns},
    severity::Impact,
};
use cqlens_cql::plan::StatementKind;
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct BatchTooLarge;

impl Rule for BatchTooLarge {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // Those that the server always refused are what this looks for.
        let is_batch = |pattern: &Pattern| pattern.head.kind == StatementKind::Batch;
        for (id, pattern) in user_patterns(context).filter(|(_, pattern)| is_batch(pattern)) {
            if let Some(severity) = severity(found, pattern, context) {
                found.push(finding(severity, id, pattern, context));
            }
        }
    }
}

fn severity(found: &Findings<'_>, pattern: &Pattern, context: &Context<'_>) -> Option<Severity> {
    // Cassandra measures batches over several partitions only: those of one are a single mutation.
    if pattern.partitions.max() <= 1 && refused(pattern) == 0 {
        return None;
    }
    let p99 = pattern.request_bytes.quantile(0.99) as f64;
    let (warn, fail) = if context.is_scylladb() {
        (&SCYLLADB_WARN_BYTES, &SCYLLADB_FAIL_BYTES)
    } else {
        (&WARN_BYTES, &FAIL_BYTES)
    };
    let (warn, fail) = (found.threshold(&ABOUT, warn), found.threshold(&ABOUT, fail));
    let each = if p99 >= fail {
        Severity::High
    } else if p99 >= fail / 2.0 {
        // The last stretch before batches are refused.
        Severity::Medium
    } else if p99 >= warn {
        Severity::Low
    } else {
        return None;
    };
    let impact = Impact::each(each)
        .of(pattern)
        .failed(refused(pattern), pattern.count);
    Some(context.severity(found, &impact))
}

/// How many the server called invalid: `Batch too large` is the only reason that depends on the size.
fn refused(pattern: &Pattern) -> u64 {
    pattern
        .error_codes
        .get(&error_code::INVALID)
        .copied()
        .unwrap_or_default()
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, context: &Context<'_>) -> Finding {
    let mut title = format!(
        "Batches on {} reach {} at p99{}",
        tables(pattern),
        bytes(pattern.request_bytes.quantile(0.99)),
        often(pattern.count, context.watch(pattern))
    );
    let refused = refused(pattern);
    if refused > 0 {
        title += &format!("; the server refused {}", number::count(refused));
    } else if !pattern.partitions.is_empty() {
        title += &format!(", over {}", partitions(pattern));
    }
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context).title(title);
    with_partitions(finding, pattern)
        .first("server_warnings", pattern.warnings)
        .first("refused", refused)
        .first("request_max_bytes", pattern.request_bytes.max())
}

const WARN_BYTES: Threshold = Threshold {
    name: "warn_bytes",
    unit: "bytes at p99",
    default: 5_120.0,
    origin: "`batch_size_warn_threshold` of cassandra.yaml: 5 KiB",
};

const SCYLLADB_WARN_BYTES: Threshold = Threshold {
    name: "scylladb_warn_bytes",
    unit: "bytes at p99",
    default: 131_072.0,
    origin: "`batch_size_warn_threshold_in_kb` of scylla.yaml: 128",
};

const SCYLLADB_FAIL_BYTES: Threshold = Threshold {
    name: "scylladb_fail_bytes",
    unit: "bytes at p99",
    default: 1_048_576.0,
    origin: "`batch_size_fail_threshold_in_kb` of scylla.yaml: 1024",
};

const FAIL_BYTES: Threshold = Threshold {
    name: "fail_bytes",
    unit: "bytes at p99",
    default: 51_200.0,
    origin: "`batch_size_fail_threshold` of cassandra.yaml: 50 KiB",
};

const ABOUT: About = About {
    id: "batch-too-large",
    group: "writes",
    summary: "A batch over several partitions exceeds Cassandra's warning threshold.",
    why: "The coordinator holds the whole batch in memory, a logged batch is also stored on two other nodes, \
        and every replica set has to respond before the client gets a response. Large batches cause garbage \
        collection pauses on the nodes, and beyond `batch_size_fail_threshold` Cassandra refuses them.",
    fix: "\
        Send the statements separately, several at a time. Batch only rows that belong together; if a batch \
        is meant for one partition, make sure that all of its statements use the same key.",
    fix_in_short: "Smaller batches",
    before: "BEGIN BATCH\n  INSERT INTO shop.events (sensor, at, value) VALUES (?, ?, ?);\n  -- and 200 more, of other sensors\nAPPLY BATCH;",
    after: "\
        -- separate statements, several at a time\nINSERT INTO shop.events (sensor, at, value) VALUES (?, ?, \
        ?);",
    severity: "\
        By the size of requests at p99, if they touch more than one partition or the server refused some: \
        low from `warn_bytes`, medium from half of `fail_bytes`, high from `fail_bytes`; in ScyllaDB, \
        `scylladb_warn_bytes` and `scylladb_fail_bytes`. Refused batches count as failures. Cassandra \
        measures the resulting mutations, not the request, so its sizes differ somewhat.",
    severities: &[Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[WARN_BYTES, FAIL_BYTES, SCYLLADB_WARN_BYTES, SCYLLADB_FAIL_BYTES],
    needs: "Requests; bound values and the tables' schemas, to leave out batches over one partition.",
    source: "cassandra.yaml `batch_size_warn_threshold`, `batch_size_fail_threshold`; Cassandra class \
        `BatchStatement.verifyBatchSize`",
    cause: Some(Cause::BATCHES),
    quantity: Some(Quantity::new("size per batch", Unit::Bytes, |pattern| {
        &pattern.request_bytes
    })),
    rewrite: Some(|patterns, _| batch::split(patterns)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, batch, run, run_in, window};
    use cqlens_cql::{Product, plan::Flag, schema::Schema};
    use cqlens_window::Cluster;

    fn sized(bytes: u64, partitions: u64) -> Pattern {
        let mut pattern = batch(&[Flag::LoggedBatch], partitions, 60);
        pattern.request_bytes.record_n(bytes, 60);
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&BatchTooLarge, &amid([pattern]));
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
    fn scylladb_has_its_own_limits() {
        let severity = |bytes| {
            let (window, schema) = (amid([sized(bytes, 2)]), Schema::default());
            let cluster = Cluster {
                product: Some(Product::ScyllaDb),
                ..Cluster::default()
            };
            let judgement = run_in(&BatchTooLarge, &Context::new(&window, &schema, &cluster));
            judgement.findings.first().map(|finding| finding.severity)
        };
        assert_eq!(severity(60_000), None);
        assert_eq!(severity(150_000), Some(Severity::Low));
        assert_eq!(severity(600_000), Some(Severity::Medium));
        assert_eq!(severity(1_200_000), Some(Severity::High));
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
