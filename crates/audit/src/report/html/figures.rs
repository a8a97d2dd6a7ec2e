//! The five figures of the first screen.

use crate::{
    number,
    report::{Report, Totals},
};

/// One of the figures of the first screen.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) exact: String,
}

/// What stands where nothing was counted.
fn none() -> String {
    "–".to_owned()
}

/// The figures, in the order of the page.
pub(super) fn figures(report: &Report) -> [Figure; 5] {
    let totals = &report.totals;
    let share = |share: Option<f64>| share.map_or_else(none, number::percent);
    [
        partitions_per_read(totals),
        Figure {
            name: "of reads touch one partition",
            value: share(totals.single_partition_share()),
            exact: "of the reads of which anything is known".to_owned(),
        },
        Figure {
            name: "of reads have no partition key",
            value: share(totals.ring_share()),
            exact: "scans, token ranges and index reads".to_owned(),
        },
        rates(report),
        read_latency(totals),
    ]
}

fn partitions_per_read(totals: &Totals) -> Figure {
    let partitions = &totals.partitions_per_read;
    Figure {
        name: "partitions per read, mean",
        value: match partitions.steps.is_empty() {
            true => none(),
            false => number::decimal(partitions.mean),
        },
        exact: format!(
            "p99 {}, most {}",
            number::exact(partitions.p99),
            number::exact(partitions.max)
        ),
    }
}

fn rates(report: &Report) -> Figure {
    let totals = &report.totals;
    let seconds = report.seconds().max(f64::MIN_POSITIVE);
    let writes = totals.writes + totals.batches;
    Figure {
        name: "reads / writes per second",
        value: format!(
            "{} / {}",
            number::decimal(totals.reads as f64 / seconds),
            number::decimal(writes as f64 / seconds)
        ),
        exact: format!(
            "{} reads, {} writes",
            number::exact(totals.reads),
            number::exact(writes)
        ),
    }
}

fn read_latency(totals: &Totals) -> Figure {
    let latency = &totals.read_latency_us;
    Figure {
        name: "read latency, p50 / p99",
        value: match latency.steps.is_empty() {
            true => none(),
            false => format!(
                "{} / {}",
                number::micros(latency.p50),
                number::micros(latency.p99)
            ),
        },
        exact: format!(
            "p999 {}, slowest {}",
            number::micros(latency.p999),
            number::micros(latency.max)
        ),
    }
}
