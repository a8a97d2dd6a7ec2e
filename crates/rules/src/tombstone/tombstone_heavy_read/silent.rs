//! Reads of which no answer says that they pass tombstones: what the nodes count, and pages that end early.

use std::collections::BTreeMap;

use super::{
    ABOUT, EvidenceValue, HIGH_TOMBSTONES, KnownFrom, MEDIUM_EMPTY_PAGES, MEDIUM_TOMBSTONES, severity,
    with_counters, writers,
};
use crate::{
    Context, Finding, Findings, Severity, Threshold, figures::table, read::user_reads, severity::Impact,
    statement::table_of,
};
use cqlens_cql::schema::{Schema, TableName};
use cqlens_window::{Pattern, PatternId, number};

/// Tables of which no answer has said anything, but whose nodes count many tombstones: for all reads of the
/// table together, since they do not say of which.
pub(super) fn by_counters(found: &mut Findings<'_>, context: &Context<'_>) {
    let mut tables: BTreeMap<TableName, Vec<(PatternId, &Pattern)>> = BTreeMap::new();
    for (id, pattern) in user_reads(context) {
        if let Some(name) = table_of(pattern) {
            tables.entry(name).or_default().push((id, pattern));
        }
    }
    for (name, reads) in tables {
        let Some(nodes) = context
            .window
            .tables
            .get(&name)
            .and_then(|traffic| traffic.node_reads)
        else {
            continue;
        };
        if reads
            .iter()
            .any(|(_, pattern)| severity(found, pattern, context).is_some())
        {
            continue;
        }
        let passed = nodes.tombstones_p99 as f64;
        let reached = |threshold: &Threshold| passed >= found.threshold(&ABOUT, threshold);
        let each = if reached(&HIGH_TOMBSTONES) {
            Severity::High
        } else if reached(&MEDIUM_TOMBSTONES) {
            Severity::Medium
        } else {
            continue;
        };
        let impact = reads
            .iter()
            .fold(Impact::each(each), |impact, (_, pattern)| impact.of(pattern));
        let severity = context.severity(found, &impact);
        let title = format!(
            "One read in a hundred of `{name}` scans {} tombstones or more, according to its nodes",
            number::count(nodes.tombstones_p99)
        );
        let finding = Finding::on_all(&ABOUT, severity, reads, context).title(title);
        let known_from = EvidenceValue::KnownFrom(vec![KnownFrom::NodeCounters]);
        found.push(with_counters(finding, Some(nodes)).first("known_from", known_from));
    }
}

/// Reads of which nobody said anything, but whose pages ended early: something was passed that is not in
/// them.
pub(super) fn by_short_pages(found: &mut Findings<'_>, context: &Context<'_>, schema: &Schema) {
    let is_known = |pattern: &Pattern| severity(found, pattern, context).is_some();
    let short: Vec<_> = user_reads(context)
        .filter(|(_, pattern)| pattern.tombstones.short_pages > 0 && !is_known(pattern))
        .collect();
    if short.is_empty() {
        return;
    }
    let writers = writers::by_table(context, schema);
    for (id, pattern) in short {
        let tombstones = &pattern.tombstones;
        let empty = tombstones.empty_pages as f64 >= found.threshold(&ABOUT, &MEDIUM_EMPTY_PAGES);
        let each = if empty { Severity::Medium } else { Severity::Low };
        let severity = context.severity(found, &Impact::each(each).of(pattern));
        let of_table = table_of(pattern).and_then(|table| writers.get(&table));
        let writers = of_table.map_or(&[][..], Vec::as_slice);
        let title = format!(
            "{} of {} ended before {}, {} empty, although more rows followed",
            number::plural(tombstones.short_pages, "page", "pages"),
            table(pattern),
            if tombstones.short_pages == 1 {
                "it was full"
            } else {
                "they were full"
            },
            number::count(tombstones.empty_pages)
        );
        let finding = Finding::on(&ABOUT, severity, (id, pattern), context).title(title);
        let mut finding = writers::named_in(finding, writers)
            .first("empty_pages", tombstones.empty_pages)
            .first("short_pages", tombstones.short_pages)
            .first(
                "known_from",
                EvidenceValue::KnownFrom(vec![KnownFrom::ShortPages]),
            );
        finding
            .patterns
            .extend(writers.iter().take(writers::MOST).map(|writer| writer.id));
        found.push(finding);
    }
}
