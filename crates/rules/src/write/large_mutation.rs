//! Single writes that are too large for a commit log segment, or nearly so, and large values wherever they are.

use super::{About, Findings, Severity, Threshold, table, user_writes};
use crate::{
    Context, Finding, Quantity, Rule, Unit,
    figures::{bytes, often},
    severity::Impact,
};
use cqlens_cql::plan::StatementKind;
use cqlens_window::{Distribution, Pattern, PatternId, number};

pub(crate) struct LargeMutation;

impl Rule for LargeMutation {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (id, pattern) in user_writes(context) {
            let large = Large::of(found, pattern);
            if let Some((each, times)) = large.judged() {
                let impact = Impact::each(each).of(pattern).times(times);
                let severity = context.severity(found, &impact);
                found.push(finding(severity, &large, (id, pattern), context).weighing(impact));
            }
        }
    }
}

/// What of a statement is large, in executions.
struct Large {
    /// Whether one execution in a hundred is at the limit, or large.
    is_near_limit: bool,
    is_large: bool,
    at_limit: u64,
    requests: u64,
    /// With a value that is large by itself, also in batches.
    cells: u64,
    least: u64,
}

impl Large {
    fn of(found: &Findings<'_>, pattern: &Pattern) -> Self {
        let [large, limit] = [&LARGE, &NEAR_LIMIT].map(|threshold| {
            let bytes = found.threshold(&ABOUT, threshold);
            number::rounded(bytes)
        });
        // Of whole batches, `batch-too-large` speaks much earlier.
        let nothing = Distribution::default();
        let sizes = match pattern.head.kind {
            StatementKind::Batch => &nothing,
            _ => &pattern.request_bytes,
        };
        Self {
            is_near_limit: sizes.quantile(0.99) >= limit,
            is_large: sizes.quantile(0.99) >= large,
            at_limit: sizes.at_least(limit),
            requests: sizes.at_least(large),
            cells: pattern.large_values.at_least(large),
            least: large,
        }
    }

    /// How bad one execution is, and how many are so.
    fn judged(&self) -> Option<(Severity, u64)> {
        if self.is_near_limit {
            Some((Severity::Medium, self.at_limit))
        } else if self.is_large {
            Some((Severity::Low, self.requests))
        } else {
            // A few among many: of the whole statement nothing is large.
            let times = self.cells.max(self.at_limit);
            (times > 0).then_some((Severity::Low, times))
        }
    }
}

fn finding(
    severity: Severity,
    large: &Large,
    (id, pattern): (PatternId, &Pattern),
    context: &Context<'_>,
) -> Finding {
    let (sizes, values) = (&pattern.request_bytes, &pattern.large_values);
    let title = if large.is_large || large.at_limit > large.cells {
        let title = format!(
            "A write to {} sends {} (p99), up to {}{}",
            table(pattern),
            bytes(sizes.quantile(0.99)),
            bytes(sizes.max()),
            often(pattern.count, context.watch(pattern))
        );
        // Most of its bytes are in one cell.
        match values.max().saturating_mul(2) >= sizes.max() {
            true => format!("{title}; a single value has {}", bytes(values.max())),
            false => title,
        }
    } else {
        format!(
            "{} of {} to {} contain a value of {} or more, up to {}",
            number::count(large.cells),
            number::plural(pattern.count, "write", "writes"),
            table(pattern),
            bytes(large.least),
            bytes(values.max())
        )
    };
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context).title(title);
    let finding = match values.is_empty() {
        true => finding,
        false => finding
            .first("writes_with_large_values", large.cells)
            .first("value_max_bytes", values.max()),
    };
    finding
        .first("request_max_bytes", sizes.max())
        .first("request_p99_bytes", sizes.quantile(0.99))
        .first("request_p50_bytes", sizes.quantile(0.5))
}

const LARGE: Threshold = Threshold {
    name: "large_bytes",
    unit: "bytes",
    default: 1_048_576.0,
    origin: "ScyllaDB's large_data_handler: a cell of 1 MiB is called large",
};

const NEAR_LIMIT: Threshold = Threshold {
    name: "near_limit_bytes",
    unit: "bytes at p99",
    default: 8_388_608.0,
    origin: "half of `max_mutation_size` of cassandra.yaml, which is half a commit log segment of 32 MiB",
};

const ABOUT: About = About {
    id: "large-mutation",
    group: "writes",
    summary: "Single writes, or single values, carry megabytes.",
    why: "The coordinator and each replica hold a value in memory as a whole when it is written, read and \
        compacted: it fills the heap, and requests behind it on the connection wait. A write of more than 16 \
        MiB is refused.",
    fix: "Split large values into chunks of about 256 KiB, stored as rows of one partition with a number as \
        the clustering column, and write them one after the other; or put them into an object store, and \
        store their address here.",
    fix_in_short: "Store in chunks",
    before: "INSERT INTO shop.documents (id, content) VALUES (?, ?);",
    after: "INSERT INTO shop.document_parts (id, part, content) VALUES (?, ?, ?);",
    severity: "\
        Low from `large_bytes` at p99, medium if the p99 reaches `near_limit_bytes`; low if a few executions \
        have a value of `large_bytes`, also in a batch, or reach the limit. By the cost of those executions, \
        not of the whole statement.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[LARGE, NEAR_LIMIT],
    needs: "\
        Requests: their size on the wire, which compression reduces, and the largest bound value of each.",
    source: "cassandra.yaml `max_mutation_size`; Cassandra guardrail `column_value_size` (4.1); ScyllaDB, large cells",
    cause: None,
    quantity: Some(Quantity::new(
        "size of the largest value",
        Unit::Bytes,
        |pattern| &pattern.large_values,
    )),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, batch, run, write};

    fn of_size(mut pattern: Pattern, bytes: u64) -> Pattern {
        pattern.request_bytes.record_n(bytes, pattern.count);
        pattern
    }

    fn document() -> Pattern {
        let cql = "INSERT INTO shop.documents (id, content) VALUES (?, ?)";
        write(cql, StatementKind::Insert, &[], 60)
    }

    fn found(pattern: Pattern) -> Vec<(Severity, String)> {
        let judgement = run(&LargeMutation, &amid([pattern]));
        let told = judgement.findings.into_iter();
        told.map(|finding| (finding.severity, finding.title)).collect()
    }

    #[test]
    fn megabytes_are_low_and_medium_near_the_limit() {
        let large = found(of_size(document(), 2 << 20));
        assert_eq!(large[0].0, Severity::Low);
        assert!(
            large[0].1.starts_with("A write to `shop.documents` sends 2"),
            "{large:?}"
        );
        assert_eq!(found(of_size(document(), 12 << 20))[0].0, Severity::Medium);
    }

    #[test]
    fn a_few_large_values_are_found_among_many_small_ones_also_in_batches() {
        let with_values = |mut pattern: Pattern, bytes: u64, times: u64| {
            pattern.large_values.record_n(bytes, times);
            pattern
        };
        let mut document = document();
        document.count = 600;
        let rare = found(with_values(document, 3 << 20, 2));
        assert_eq!(
            rare[0].1,
            "2 of 600 writes to `shop.documents` contain a value of 1 MiB or more, up to 3 MiB"
        );
        assert_eq!(
            found(with_values(batch(&[], 1, 60), 2 << 20, 60))[0].0,
            Severity::Low
        );
        assert_eq!(found(with_values(batch(&[], 1, 60), (1 << 20) - 1, 60)), []);
    }

    #[test]
    fn one_write_a_month_is_no_load() {
        let mut pattern = document();
        pattern.request_bytes.record_n(1_000, 9_999);
        pattern.request_bytes.record(12 << 20);
        pattern.count = 10_000;
        pattern.latency_us.record_n(2_000, 9_940);
        let found = found(pattern);
        assert_eq!(found[0].0, Severity::Info);
        assert!(found[0].1.ends_with("up to 12 MiB, 167 a second"), "{found:?}");
    }

    #[test]
    fn kilobytes_and_batches_are_not_its_business() {
        assert_eq!(found(of_size(document(), 100 << 10)), []);
        assert_eq!(found(of_size(batch(&[], 1, 60), 12 << 20)), []);
    }
}
