//! What of an exchange stands in the pattern of its statement.

use std::sync::Arc;

use crate::audit::exchange::{
    Exchange, Execution, PageSize, RareFacts, outcome::Outcome, warning::TombstoneText,
};
use cqlens_window::{Pattern, Routed, Tombstones, Warned};

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
    if let Some(latency) = exchange.latency_us() {
        pattern.latency_us.record(latency);
    }
    if execution.prepared {
        pattern.prepared += 1;
    } else {
        pattern.unprepared += 1;
    }
    if let Some(routed) = routed {
        pattern.routing.count(routed);
    }
    if !exchange.refused {
        count_nulls(pattern, execution);
        if let Some(timestamp) = execution.timestamp {
            let now = exchange.at.unix_nanoseconds() / 1_000;
            pattern.write_times.count(timestamp, now);
            pattern.write_times.stated += u64::from(execution.analysis.timestamp.is_some());
        }
    }
    if let Some(rare) = &execution.rare {
        if rare.listed_rows > 0 {
            pattern.listed_rows.record(rare.listed_rows);
        }
        if let Some(bytes) = rare.large_value {
            pattern.large_values.record(bytes);
        }
        if let Some(items) = rare.collection_items {
            pattern.collection_items.record(items);
        }
    }
    pattern.traced += u64::from(exchange.traced);
    pattern.not_applied += u64::from(exchange.not_applied);
    if let Some(messages) = &exchange.messages {
        for warning in &messages.warnings {
            let warned = Warned {
                times: 1,
                largest: warning.figure,
            };
            pattern.count_warned(&warning.class, warned);
        }
    }
    record_outcome(pattern, exchange, execution);
    record_tombstones(&mut pattern.tombstones, exchange);
}

#[inline]
fn count_nulls(pattern: &mut Pattern, execution: &Execution) {
    let writes_any = execution.rare.as_ref().is_some_and(|rare| rare.writes_nulls());
    if writes_any || !execution.analysis.null_columns.is_empty() {
        count_some_nulls(pattern, execution);
    }
}

#[cold]
fn count_some_nulls(pattern: &mut Pattern, execution: &Execution) {
    let nothing = RareFacts::default();
    let rare = execution.rare.as_deref().unwrap_or(&nothing);
    let (analysis, before) = (&execution.analysis, pattern.nulls.sum());
    for (analysis, nulls) in rare
        .batched_nulls
        .iter()
        .chain([&(Arc::clone(analysis), rare.nulls)])
    {
        let columns = &analysis.marker_columns;
        let nulls = nulls & !analysis.compared_markers;
        for at in (0..64).filter(|at| nulls >> at & 1 == 1) {
            let column = columns.get(at).map(AsRef::as_ref);
            pattern.nulls.count(column.filter(|name| !name.is_empty()), 1);
        }
        for column in &analysis.null_columns {
            pattern.nulls.count(Some(column), 1);
        }
    }
    for column in &rare.json_nulls {
        pattern.nulls.count(Some(column), 1);
    }
    pattern.nulls.executions += u64::from(pattern.nulls.sum() > before);
}

#[inline(always)]
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
        if let Some(PageSize::Rows(rows)) = execution.page_size {
            pattern.see_page_size(rows);
        }
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
    if let Some(messages) = &exchange.messages {
        record_texts(tombstones, &messages.tombstones);
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
