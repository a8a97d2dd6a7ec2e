//! Folds exchanges into a window.

use std::time::Duration;

use super::{
    Count, HashKey, Keys,
    exchange::{Exchange, Execution, Outcome},
    warning::TombstoneText,
};
use crate::window::{Coverage, Pattern, TableName, Tombstones, Window};

/// Adds `exchange` to `window`; `keys` are the partitions that it named.
pub(super) fn record(window: &mut Window, exchange: &Exchange<'_>, keys: &Keys, key: HashKey) {
    window.coverage.audited += 1;
    window.count_client(exchange.client);
    if matches!(exchange.outcome, Outcome::Unanswered) {
        window.coverage.unanswered += 1;
    }
    let Some(execution) = &exchange.execution else {
        return;
    };
    let system = execution.analysis.head.system;
    if system {
        window.coverage.system_requests += 1;
    } else if !exchange.outcome.is_refused() {
        cover(&mut window.coverage, execution);
    }
    if execution.analysis.unparsed {
        window.coverage.unparsed += 1;
    }
    let analysis = &execution.analysis;
    let pattern = window.pattern_mut(analysis.id, || (analysis.head.clone(), analysis.flags.clone()));
    record_pattern(pattern, exchange, execution);
    if !system && !exchange.outcome.is_refused() {
        record_tables(window, exchange, execution, keys, key);
    }
}

fn cover(coverage: &mut Coverage, execution: &Execution) {
    if !execution.analysis.touches_partitions() {
        return;
    }
    match execution.footprint.count {
        Count::Exact(_) => coverage.partitions_exact += 1,
        Count::AtLeast(..) => coverage.partitions_bounded += 1,
        Count::Scan | Count::TokenRange { .. } | Count::Index => coverage.partitions_scan += 1,
        Count::Unknown(_) => coverage.partitions_unknown += 1,
    }
    if let Count::AtLeast(_, reason) | Count::Unknown(reason) = execution.footprint.count {
        *coverage
            .unknown_reasons
            .entry(reason.name().to_owned())
            .or_default() += 1;
    }
}

fn record_pattern(pattern: &mut Pattern, exchange: &Exchange<'_>, execution: &Execution) {
    pattern.count += 1;
    pattern.see(exchange.at.timestamp());
    pattern.count_client(exchange.client);
    pattern.warnings += exchange.warnings;
    pattern.request_bytes.record(exchange.request_bytes);
    if let Some(bytes) = exchange.response_bytes {
        pattern.response_bytes.record(bytes);
    }
    if let Some(latency) = exchange.latency {
        pattern.latency_us.record(microseconds(latency));
    }
    if execution.prepared {
        pattern.prepared += 1;
    } else {
        pattern.unprepared += 1;
    }
    if let Some(consistency) = execution.consistency {
        *pattern.consistency.entry(consistency.to_string()).or_default() += 1;
    }
    record_outcome(pattern, exchange, execution);
    record_tombstones(&mut pattern.tombstones, exchange);
}

fn record_outcome(pattern: &mut Pattern, exchange: &Exchange<'_>, execution: &Execution) {
    match exchange.outcome {
        Outcome::Error { code, .. } => {
            pattern.errors += 1;
            *pattern.error_codes.entry(code).or_default() += 1;
        }
        Outcome::Rows { count, more } => {
            pattern.rows.record(count);
            pattern.pages += u64::from(more || !execution.first_page);
        }
        Outcome::Done | Outcome::Unanswered => {}
    }
    if exchange.outcome.is_refused() || !execution.analysis.touches_partitions() {
        return;
    }
    if execution.analysis.head.kind.is_read() {
        pattern.logical_reads += u64::from(execution.first_page);
    }
    *pattern.classes.entry(execution.footprint.class()).or_default() += 1;
    if let Count::Exact(count) | Count::AtLeast(count, _) = execution.footprint.count {
        pattern.partitions.record(count);
    }
}

fn record_tombstones(tombstones: &mut Tombstones, exchange: &Exchange<'_>) {
    for text in &exchange.tombstones {
        match *text {
            TombstoneText::Read {
                live_rows,
                tombstones: scanned,
            } => {
                tombstones.warned += 1;
                tombstones.live_rows.record(live_rows);
                tombstones.scanned.record(scanned);
            }
            TombstoneText::ScannedUpTo { tombstones: scanned } => {
                tombstones.warned += 1;
                tombstones.scanned.record(scanned);
            }
            TombstoneText::Aborted { tombstones: scanned } => {
                tombstones.scanned.record(scanned);
            }
        }
    }
    if matches!(
        exchange.outcome,
        Outcome::Error {
            too_many_tombstones: true,
            ..
        }
    ) {
        tombstones.aborted += 1;
    }
}

/// A read counts on its table; a write (and each write of a batch) on every table that it names.
fn record_tables(
    window: &mut Window,
    exchange: &Exchange<'_>,
    execution: &Execution,
    keys: &Keys,
    key: HashKey,
) {
    let head = &execution.analysis.head;
    let read = head.kind.is_read();
    for (name, statements) in &execution.tables {
        let table = window.tables.entry(TableName::clone(name)).or_default();
        if read {
            table.reads += 1;
            if let Count::Exact(count) | Count::AtLeast(count, _) = execution.footprint.count {
                table.partitions_per_read.record(count);
            }
            record_tombstones(&mut table.tombstones, exchange);
        } else {
            table.writes += u64::from(*statements);
        }
    }
    for named in keys.iter() {
        let table = window.tables.entry(TableName::clone(named.table)).or_default();
        let hash = key.hash(named.table, named.bytes);
        table.distinct_partitions.insert(hash);
        if read {
            table.top_partitions.read(hash)
        } else {
            table.top_partitions.write(hash)
        }
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
