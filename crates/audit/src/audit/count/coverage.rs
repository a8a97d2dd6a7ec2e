//! What of an exchange stands in the coverage of its window.

use crate::audit::exchange::{Exchange, Execution};
use cqlens_cql::footprint::Count;
use cqlens_window::Coverage;

/// Counts an execution among those whose partitions are known, or are not.
pub(crate) fn cover(coverage: &mut Coverage, exchange: &Exchange<'_>, execution: &Execution) {
    let analysis = &execution.analysis;
    if analysis.unparsed {
        // The server may not have understood it either, such as what only a later version reads.
        match exchange.refused {
            true => coverage.refused += 1,
            false => coverage.unparsed += 1,
        }
    }
    if analysis.head.system {
        coverage.system_requests += 1;
        return;
    }
    if !analysis.touches_partitions {
        return;
    }
    coverage.markers_disagreed += u64::from(analysis.disagrees);
    if exchange.refused {
        coverage.refused += 1;
        return;
    }
    match execution.footprint.count {
        Count::Exact(_) => coverage.partitions_exact += 1,
        Count::AtLeast(..) | Count::Page { .. } => coverage.partitions_bounded += 1,
        Count::Scan | Count::TokenRange { .. } | Count::Index => coverage.partitions_scan += 1,
        Count::Unknown(_) => coverage.partitions_unknown += 1,
    }
    if let (Count::AtLeast(..) | Count::Page { .. } | Count::Unknown(_), Some(reason)) =
        (execution.footprint.count, execution.footprint.reason())
    {
        *coverage
            .unknown_reasons
            .entry(reason.name().to_owned())
            .or_default() += 1;
    }
}
