//! Single writes that are too large for a commit log segment, or nearly so.

use super::{About, Findings, Severity, Threshold, table, user_writes};
use crate::{
    rules::{
        Context, Finding, Rule,
        figures::{bytes, often},
        severity::Impact,
    },
    window::{Pattern, PatternId},
};
use cqlens_cql::plan::StatementKind;

pub(in crate::rules) struct LargeMutation;

impl Rule for LargeMutation {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // Of batches, `batch-too-large` speaks much earlier.
        let writes = user_writes(context).filter(|(_, pattern)| pattern.head.kind != StatementKind::Batch);
        for (id, pattern) in writes {
            let sizes = &pattern.request_bytes;
            let is_at_limit = sizes.max() as f64 >= found.threshold(&ABOUT, &NEAR_LIMIT);
            let is_large = sizes.quantile(0.99) as f64 >= found.threshold(&ABOUT, &LARGE);
            let each = match (is_at_limit, is_large) {
                (true, _) => Severity::Medium,
                (false, true) => Severity::Low,
                (false, false) => continue,
            };
            let severity = context.severity(found, &Impact::each(each).of(pattern));
            found.push(finding(severity, (id, pattern), context));
        }
    }
}

fn finding(severity: Severity, (id, pattern): (PatternId, &Pattern), context: &Context<'_>) -> Finding {
    let sizes = &pattern.request_bytes;
    let title = format!(
        "A write to {} sends {} (p99), up to {}{}",
        table(pattern),
        bytes(sizes.quantile(0.99)),
        bytes(sizes.max()),
        often(pattern.count, context.window)
    );
    let values = &pattern.large_values;
    // Most of its bytes are in one cell.
    let is_one_cell = values.max().saturating_mul(2) >= sizes.max();
    let title = match is_one_cell {
        true => format!("{title}; a single value has {}", bytes(values.max())),
        false => title,
    };
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context).title(title);
    let finding = match values.is_empty() {
        true => finding,
        false => finding.first("value_max_bytes", values.max()),
    };
    finding
        .first("request_max_bytes", sizes.max())
        .first("request_p99_bytes", sizes.quantile(0.99))
        .first("request_p50_bytes", sizes.quantile(0.5))
}

const LARGE: Threshold = Threshold {
    name: "large_bytes",
    unit: "bytes at p99",
    default: 1_048_576.0,
    origin: "ScyllaDB's large_data_handler: a cell of 1 MiB is called large",
};

const NEAR_LIMIT: Threshold = Threshold {
    name: "near_limit_bytes",
    unit: "bytes at most",
    default: 8_388_608.0,
    origin: "half of `max_mutation_size` of cassandra.yaml, which is half a commit log segment of 32 MiB",
};

const ABOUT: About = About {
    id: "large-mutation",
    group: "writes",
    summary: "Single writes carry megabytes.",
    why: "\
        A value is kept whole in the memory of the coordinator and of each replica, when it is written, read and compacted: it \
        goes into the heap, and requests behind it on the connection wait. A write of more than 16 MiB is refused.",
    fix: "\
        Cut large values into pieces of 256 KiB or so, rows of one partition with a number as the clustering column, and write them \
        one after the other; or keep them in an object store, and their address here.",
    before: "INSERT INTO shop.documents (id, content) VALUES (?, ?);",
    after: "INSERT INTO shop.document_parts (id, part, content) VALUES (?, ?, ?);",
    severity: "Low from `large_bytes` at p99, medium where one of them reaches `near_limit_bytes`.",
    thresholds: &[LARGE, NEAR_LIMIT],
    needs: "Requests: their size as it goes over the wire, which compression makes smaller.",
    source: "cassandra.yaml `max_mutation_size`; Cassandra guardrail `column_value_size` (4.1); ScyllaDB, large cells",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{amid, batch, run, write};

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
    fn kilobytes_and_batches_are_not_its_business() {
        assert_eq!(found(of_size(document(), 100 << 10)), []);
        assert_eq!(found(of_size(batch(&[], 1, 60), 12 << 20)), []);
    }
}
