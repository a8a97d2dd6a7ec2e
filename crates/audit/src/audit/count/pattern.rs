//! What of an exchange stands in the pattern of its statement.

use std::time::Duration;

use crate::audit::exchange::{Exchange, Execution, outcome::Outcome, warning::TombstoneText};
use crate::window::{Pattern, Routed, Tombstones};

/// Counts an execution in its pattern.
pub(crate) fn record_pattern(
    pattern: &mut Pattern,
    exchange: &Exchange<'_>,
    routed: Option<Routed>,
    execution: &Execution,
) {
    pattern.count += 1;
    pattern.unconfirmed += u64::from(!exchange.is_confirmed());
    pattern.on_known_table |= execution.analysis.is_known;
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
    if let Some(routed) = routed {
        pattern.routing.count(routed);
    }
    if execution.nulls != 0 && !exchange.refused {
        count_nulls(pattern, execution);
    }
    record_outcome(pattern, exchange, execution);
    record_tombstones(&mut pattern.tombstones, exchange);
}

fn count_nulls(pattern: &mut Pattern, execution: &Execution) {
    pattern.nulls.executions += 1;
    let columns = &execution.analysis.marker_columns;
    for at in (0..64).filter(|at| execution.nulls >> at & 1 == 1) {
        pattern.nulls.count(columns.get(at).map(AsRef::as_ref), 1);
    }
}

fn record_outcome(pattern: &mut Pattern, exchange: &Exchange<'_>, execution: &Execution) {
    match exchange.outcome {
        Outcome::Error { code, .. } => pattern.count_error(code),
        Outcome::Rows { count, more } => {
            pattern.rows.record(count);
            pattern.pages += u64::from(more || !execution.first_page);
        }
        Outcome::Failed => pattern.errors += 1,
        Outcome::Done | Outcome::Unread | Outcome::Unanswered => {}
    }
    if exchange.touching().is_none() {
        return;
    }
    if execution.analysis.head.kind.is_read() {
        if let (None, Outcome::Rows { count, .. }) = (execution.page_size, exchange.outcome) {
            pattern.unpaged += 1;
            pattern.unpaged_rows.record(count);
        }
        if let Outcome::Rows { count, more: true } = exchange.outcome
            && execution.ends_short(count, exchange.response_bytes.unwrap_or(0))
        {
            pattern.tombstones.short_pages += 1;
            pattern.tombstones.empty_pages += u64::from(count == 0);
        }
        pattern.logical_reads += u64::from(execution.first_page);
    }
    if let Some(count) = execution.footprint.number() {
        pattern.partitions.record(count);
    }
}

/// Most answers say nothing of them.
#[inline]
pub(crate) fn record_tombstones(tombstones: &mut Tombstones, exchange: &Exchange<'_>) {
    let is_aborted = matches!(
        exchange.outcome,
        Outcome::Error {
            too_many_tombstones: true,
            ..
        }
    );
    tombstones.aborted += u64::from(is_aborted);
    if !exchange.tombstones.is_empty() {
        record_texts(tombstones, &exchange.tombstones);
    }
}

fn record_texts(tombstones: &mut Tombstones, texts: &[TombstoneText]) {
    for text in texts {
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
}

fn microseconds(duration: Duration) -> u64 {
    duration.as_secs() * 1_000_000 + u64::from(duration.subsec_micros())
}
