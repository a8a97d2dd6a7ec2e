//! Answers of many bytes.

use super::{About, Findings, Impact, Severity, Threshold, how_often, is_sweep, table, user_reads};
use crate::{Cause, Context, Finding, Quantity, Rule, Unit, figures::bytes};
use cqlens_window::{Pattern, PatternId};

pub(crate) struct LargeResult;

impl Rule for LargeResult {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(context) {
            if let Some(impact) = impact(found, pattern) {
                let severity = context.severity(found, &impact);
                found.push(finding(severity, id, pattern, context).weighing(impact));
            }
        }
    }
}

fn impact<'p>(found: &Findings<'_>, pattern: &'p Pattern) -> Option<Impact<'p>> {
    let p99 = pattern.response_bytes.quantile(0.99) as f64;
    let reached = |threshold: &Threshold| p99 >= found.threshold(&ABOUT, threshold);
    let severity = if reached(&HIGH_BYTES) {
        Severity::High
    } else if reached(&MEDIUM_BYTES) {
        Severity::Medium
    } else if reached(&LOW_BYTES) {
        Severity::Low
    } else {
        return None;
    };
    // Jobs read pages as large as they can take.
    let each = if is_sweep(pattern) {
        severity.lowered()
    } else {
        severity
    };
    Some(Impact::each(each).of(pattern))
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, context: &Context<'_>) -> Finding {
    let answers = &pattern.response_bytes;
    let page = if pattern.pages > 0 { "pages" } else { "responses" };
    let mut title = format!(
        "Reads of {} return {page} of {} (p99){}",
        table(pattern),
        bytes(answers.quantile(0.99)),
        how_often(pattern, context)
    );
    let each = bytes_per_read(pattern);
    if pattern.pages > 0 && each > answers.quantile(0.99) {
        title += &format!("; {} per read over all pages, on average", bytes(each));
    }
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .first("response_total_bytes", answers.total())
        .first("response_max_bytes", answers.max())
        .first("response_p99_bytes", answers.quantile(0.99))
        .first("response_p50_bytes", answers.quantile(0.5));
    if pattern.pages > 0 {
        let each = bytes_per_read(pattern);
        return finding
            .first("bytes_per_read", each)
            .first("pages", pattern.pages);
    }
    finding
}

/// What one read brings on average, all of its pages together.
fn bytes_per_read(pattern: &Pattern) -> u64 {
    pattern.response_bytes.total() / pattern.logical_reads.max(1)
}

const LOW_BYTES: Threshold = Threshold {
    name: "low_bytes",
    unit: "bytes at p99",
    default: 1_048_576.0,
    origin: "ScyllaDB's `query_page_size_in_bytes`, the maximum size of a page there whatever the client \
        requests: 1 MB",
};

const MEDIUM_BYTES: Threshold = Threshold {
    name: "medium_bytes",
    unit: "bytes at p99",
    default: 4_194_304.0,
    origin: "cqlens default: a quarter of `high_bytes`; Cassandra's `coordinator_read_size_warn_threshold` has no default",
};

const HIGH_BYTES: Threshold = Threshold {
    name: "high_bytes",
    unit: "bytes at p99",
    default: 16_777_216.0,
    origin: "`native_transport_max_frame_size` of cassandra.yaml (4.1): 16 MiB, the maximum for one request",
};

const ABOUT: About = About {
    id: "large-result",
    group: "read shape",
    summary: "Responses to a read are so large that coordinator and client hold megabytes for each.",
    why: "The coordinator collects the rows of a response from the replicas on its heap, and encodes them \
        again before it sends the first byte. Large responses become long-lived objects, cause garbage \
        collection pauses that delay all requests, and block the connection for small responses.",
    fix: "\
        Select fewer columns or fewer rows, set a page size that fits the rows (it counts rows, not bytes), \
        and store large values in a separate table from frequently read ones, or outside Cassandra.",
    fix_in_short: "Read less, page",
    before: "CREATE TABLE shop.documents (owner text, id uuid, title text, content blob, PRIMARY KEY ((owner), id));\n\
             SELECT * FROM shop.documents WHERE owner = ?;",
    after: "SELECT id, title FROM shop.documents WHERE owner = ?;\nSELECT content FROM shop.documents WHERE owner = ? AND id = ?;",
    severity: "\
        By the size of one response (a page, if paging is used) at p99: low from `low_bytes`, medium from \
        `medium_bytes`, high from `high_bytes`; one step down for walks of token ranges.",
    severities: &[Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[LOW_BYTES, MEDIUM_BYTES, HIGH_BYTES],
    needs: "Responses, measured as sent over the wire: compressed responses by their compressed size.",
    source: "\
        cassandra.yaml `coordinator_read_size_warn_threshold` (4.1) and `native_transport_max_frame_size`; \
        ScyllaDB `max_memory_for_unlimited_query_soft_limit`",
    cause: Some(Cause::LARGE_READS),
    quantity: Some(
        Quantity::new("size per response", Unit::Bytes, |pattern| {
            &pattern.response_bytes
        })
        .limited(&[
            (Severity::High, HIGH_BYTES),
            (Severity::Medium, MEDIUM_BYTES),
            (Severity::Low, LOW_BYTES),
        ]),
    ),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn answers(each: u64, class: PartitionClass, times: u64) -> Pattern {
        let mut pattern = read("SELECT * FROM shop.documents WHERE owner = ?", &[], class, times);
        pattern.response_bytes.record_n(each, times);
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&LargeResult, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_size() {
        let of = |each| severity(answers(each, PartitionClass::Single, 100));
        // Sizes are kept with an error of a few per cent.
        assert_eq!(of(900_000), None);
        assert_eq!(of(1_200_000), Some(Severity::Low));
        assert_eq!(of(5_000_000), Some(Severity::Medium));
        assert_eq!(of(18_000_000), Some(Severity::High));
    }

    #[test]
    fn what_happens_once_in_hours_and_what_jobs_read_costs_less() {
        assert_eq!(
            severity(answers(5_000_000, PartitionClass::TokenRange, 100)),
            Some(Severity::Low)
        );
        let mut day = window([answers(5_000_000, PartitionClass::Single, 3)]);
        day.observed_seconds = 86_400.0;
        assert_eq!(run(&LargeResult, &day).findings[0].severity, Severity::Info);
    }

    #[test]
    fn small_answers_are_fine_however_many_there_are() {
        assert_eq!(
            severity(answers(10_000, PartitionClass::Single, 10_000_000)),
            None
        );
    }

    #[test]
    fn a_read_of_many_pages_brings_more_than_one_of_them() {
        let cql = "SELECT content FROM shop.documents WHERE owner = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, 60);
        pattern.response_bytes.record_n(2 << 20, 600);
        pattern.pages = 600;
        pattern.count = 600;
        let title = run(&LargeResult, &window([pattern])).findings.remove(0).title;
        assert_eq!(
            title,
            "Reads of `shop.documents` return pages of 2 MiB (p99), 1 a minute; 20 MiB per read over all \
                pages, on average"
        );
    }

    #[test]
    fn the_title_says_how_large() {
        let judgement = run(
            &LargeResult,
            &window([answers(2 << 20, PartitionClass::Single, 60)]),
        );
        let title = &judgement.findings[0].title;
        assert!(
            title.starts_with("Reads of `shop.documents` return responses of "),
            "{title}"
        );
        assert!(title.ends_with("MiB (p99), 1 a minute"), "{title}");
    }
}
