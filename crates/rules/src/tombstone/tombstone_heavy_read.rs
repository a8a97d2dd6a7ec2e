//! Reads of which the server said that they passed too many tombstones.

mod silent;

use std::collections::BTreeMap;

use super::{
    by_hour, reports,
    writers::{self, Writer},
};
use crate::{
    About, Cause, Context, EvidenceValue, Finding, Findings, KnownFrom, Quantity, Rule, Severity, Threshold,
    figures::{share, table},
    read::user_reads,
    severity::Impact,
    statement::table_of,
};
use cqlens_window::{NodeReads, Pattern, PatternId, number};

pub(crate) struct TombstoneHeavyRead;

impl Rule for TombstoneHeavyRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let schema = context.schema;
        let heavy = user_reads(context)
            .filter_map(|(id, pattern)| Some((severity(found, pattern, context)?, id, pattern)))
            .collect::<Vec<_>>();
        // Every template is read again for it.
        let writers = match heavy.is_empty() {
            true => BTreeMap::new(),
            false => writers::by_table(context, schema),
        };
        for (severity, id, pattern) in heavy {
            let of_table = table_of(pattern).and_then(|table| writers.get(&table));
            let writers = of_table.map_or(&[][..], Vec::as_slice);
            found.push(finding(severity, (id, pattern), writers, context));
        }
        silent::by_counters(found, context);
        silent::by_short_pages(found, context, schema);
        blind_without_reports(found, context);
    }
}

/// By what a reported read passes, and how many of the reads are reported: one in a month is an occasion.
fn severity(found: &Findings<'_>, pattern: &Pattern, context: &Context<'_>) -> Option<Severity> {
    let tombstones = &pattern.tombstones;
    let passed = tombstones.scanned.quantile(0.99) as f64;
    let reached = |threshold: &Threshold| passed >= found.threshold(&ABOUT, threshold);
    let each = if tombstones.aborted > 0 || reached(&HIGH_TOMBSTONES) {
        Severity::High
    } else if reached(&MEDIUM_TOMBSTONES) || (tombstones.warned > 0 && passed == 0.0) {
        Severity::Medium
    } else if tombstones.warned > 0 {
        // A server that warns of fewer has been told to.
        Severity::Low
    } else {
        return None;
    };
    let reported = share(tombstones.observed(), pattern.count);
    let is_rare = reported < found.threshold(&ABOUT, &RARE_SHARE);
    let each = if is_rare { each.lowered().lowered() } else { each };
    let impact = Impact::each(each)
        .of(pattern)
        .grows(each > Severity::Low)
        .failed(tombstones.aborted, pattern.count);
    Some(context.severity(found, &impact))
}

/// With what the nodes count of all reads of the table.
fn with_counters(finding: Finding, nodes: Option<NodeReads>) -> Finding {
    let Some(nodes) = nodes else { return finding };
    finding
        .first("node_rows_max", nodes.rows_max)
        .first("node_rows_p99", nodes.rows_p99)
        .first("node_tombstones_max", nodes.tombstones_max)
        .first("node_tombstones_p99", nodes.tombstones_p99)
}

/// The read first, then who writes what it passes.
fn finding(
    severity: Severity,
    (id, pattern): (PatternId, &Pattern),
    writers: &[Writer<'_>],
    context: &Context<'_>,
) -> Finding {
    let tombstones = &pattern.tombstones;
    // Other partitions have as many nulls and collections that are replaced.
    let removes_rows = writers.is_empty() || writers.iter().any(Writer::removes_rows);
    let divided = table_of(pattern).filter(|_| removes_rows);
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context).title(title(pattern));
    let finding = match divided {
        Some(name) => by_hour(finding, &name, context),
        None => finding,
    };
    let mut finding = writers::named_in(finding, writers)
        .first(
            "known_from",
            EvidenceValue::KnownFrom(reports(tombstones).collect()),
        )
        .first("reads_aborted", tombstones.aborted)
        .first("reads_warned", tombstones.warned);
    if tombstones.traced > 0 {
        finding = finding.first("reads_traced", tombstones.traced);
    }
    if !tombstones.live_rows.is_empty() {
        finding = finding.first("live_rows_p50", tombstones.live_rows.quantile(0.5));
    }
    if !tombstones.scanned.is_empty() {
        finding = finding
            .first("tombstones_max", tombstones.scanned.max())
            .first("tombstones_p99", tombstones.scanned.quantile(0.99))
            .first("tombstones_p50", tombstones.scanned.quantile(0.5));
    }
    let table = table_of(pattern).and_then(|name| context.window.tables.get(&name));
    finding = with_counters(finding, table.and_then(|table| table.node_reads));
    let named = writers.iter().take(writers::MOST).map(|writer| writer.id);
    finding.patterns.extend(named);
    finding
}

fn title(pattern: &Pattern) -> String {
    let (table, tombstones) = (table(pattern), &pattern.tombstones);
    let aborted = number::plural(tombstones.aborted, "read", "reads");
    if tombstones.scanned.is_empty() && tombstones.aborted > 0 {
        return format!("The server aborted {aborted} of {table} because of tombstones");
    }
    if tombstones.scanned.is_empty() {
        return format!(
            "The server warned of tombstones in {} reads of {table}",
            number::count(tombstones.warned)
        );
    }
    let passed = number::count(tombstones.scanned.quantile(0.99));
    let mut title = format!("Reads of {table} scan {passed} tombstones (p99)");
    if !tombstones.live_rows.is_empty() {
        let live = tombstones.live_rows.quantile(0.5);
        title += &format!(" for {}", number::plural(live, "live row", "live rows"));
    }
    if tombstones.aborted > 0 {
        title += &format!("; the server aborted {aborted}");
    }
    title
}

/// Silence of the server proves nothing: says so where it said nothing at all.
fn blind_without_reports(found: &mut Findings<'_>, context: &Context<'_>) {
    let (mut reads, mut observed) = (0, 0);
    for (_, pattern) in user_reads(context) {
        reads += pattern.count;
        observed += pattern.tombstones.observed();
    }
    let is_counted = context
        .window
        .tables
        .values()
        .any(|table| table.node_reads.is_some());
    if reads > 0 && observed == 0 && !is_counted {
        found.blind(
            &ABOUT,
            "no tombstone warnings were seen, which is no evidence of absence: without \
             `read_thresholds_enabled` (off by default), a coordinator reports only its own reads, and \
             Scylla never reports any"
                .to_owned(),
        );
    }
}

const MEDIUM_TOMBSTONES: Threshold = Threshold {
    name: "medium_tombstones",
    unit: "tombstones in one read",
    default: 1_000.0,
    origin: "`tombstone_warn_threshold` of cassandra.yaml: 1000",
};

const HIGH_TOMBSTONES: Threshold = Threshold {
    name: "high_tombstones",
    unit: "tombstones in one read",
    default: 10_000.0,
    origin: "a tenth of `tombstone_failure_threshold` of cassandra.yaml (100000), where reads begin to fail",
};

const RARE_SHARE: Threshold = Threshold {
    name: "rare_share",
    unit: "of the pattern's reads",
    default: 0.001,
    origin: "\
        cqlens default: one in a thousand is an occasional event, such as the first read after a clean-up",
};

const MEDIUM_EMPTY_PAGES: Threshold = Threshold {
    name: "medium_empty_pages",
    unit: "empty pages that are not the last",
    default: 1.0,
    origin: "ScyllaDB returns an empty page after `query_tombstone_page_limit` tombstones: 10000",
};

pub(super) const ABOUT: About = About {
    id: "tombstone-heavy-read",
    group: "tombstones",
    summary: "A read scans many deleted cells or rows before it finds live ones.",
    why: "A delete, a null or an expired TTL leaves a tombstone that stays until compaction may drop it, at \
        the earliest after `gc_grace_seconds` (ten days by default). Until then, every read of that range \
        loads the tombstones from disk, keeps them in memory and sends them to the coordinator, which needs \
        them to overrule replicas that missed the delete. Beyond `tombstone_failure_threshold`, the read is \
        aborted.",
    fix: "Avoid reading ranges that have been deleted: put a time or a bucket into the partition key so that \
        whole partitions age together, start reading after the last row that was processed, or delete whole \
        partitions instead of rows. Do not bind nulls. For data with a single TTL, use \
        TimeWindowCompactionStrategy.",
    fix_in_short: "Bucket by time",
    before: "CREATE TABLE work.jobs (lane text, at timeuuid, what text, PRIMARY KEY ((lane), at));\n\
             SELECT * FROM work.jobs WHERE lane = ? LIMIT 5;\nDELETE FROM work.jobs WHERE lane = ? AND at = ?;",
    after: "CREATE TABLE work.jobs_by_hour (lane text, hour timestamp, at timeuuid, what text,\n  PRIMARY KEY ((lane, hour), at));\n\
            SELECT * FROM work.jobs_by_hour WHERE lane = ? AND hour = ? AND at > ? LIMIT 5;",
    severity: "\
        By the tombstones of reported reads at p99, two steps less if those are fewer than `rare_share`: \
        high from `high_tombstones` or if the server aborted reads, medium from `medium_tombstones` or if \
        the server warned without a number; low if it warned of fewer. If only the nodes' counters are \
        available, the number that one read in a hundred scans counts. Without either, pages that ended \
        early are low, and medium from `medium_empty_pages` empty pages.",
    severities: &[Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[MEDIUM_TOMBSTONES, HIGH_TOMBSTONES, RARE_SHARE, MEDIUM_EMPTY_PAGES],
    needs: "The server's warnings (protocol v4 and later) and READ_TOO_MANY_TOMBSTONES failures. They are \
        complete only with `read_thresholds_enabled`; their absence proves nothing. With `--trace-sample`, \
        also the traces of some reads that cqlens repeats; with `--poll-system-views`, the nodes' own \
        counters; the finding names its source. If a server reports nothing: pages that end early although \
        more rows follow. ScyllaDB's do when there are many tombstones to scan, Cassandra's do not.",
    source: "\
        cassandra.yaml `tombstone_warn_threshold`, `tombstone_failure_threshold`; Cassandra documentation, \
        data modeling: the queue anti-pattern",
    cause: Some(Cause::DELETES),
    quantity: Some(Quantity::TOMBSTONES_PER_READ.limited(&[
        (Severity::High, HIGH_TOMBSTONES),
        (Severity::Medium, MEDIUM_TOMBSTONES),
    ])),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run, window, write};
    use cqlens_cql::{
        footprint::PartitionClass,
        plan::{Flag, StatementKind},
    };

    fn known_from(way: KnownFrom) -> (&'static str, EvidenceValue) {
        ("known_from", EvidenceValue::KnownFrom(vec![way]))
    }

    fn head_of_queue() -> Pattern {
        let cql = "SELECT * FROM work.jobs WHERE lane = ? LIMIT ?";
        read(
            cql,
            &[Flag::FullPartitionKey, Flag::Limit],
            PartitionClass::Single,
            100,
        )
    }

    fn warned(scanned: u64) -> Pattern {
        let mut pattern = head_of_queue();
        pattern.tombstones.warned = 3;
        pattern.tombstones.scanned.record_n(scanned, 3);
        pattern.tombstones.live_rows.record_n(5, 3);
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&TombstoneHeavyRead, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_tombstones_of_a_read() {
        assert_eq!(severity(warned(250)), Some(Severity::Low));
        assert_eq!(severity(warned(999)), Some(Severity::Low));
        assert_eq!(severity(warned(1_000)), Some(Severity::Medium));
        assert_eq!(severity(warned(9_999)), Some(Severity::Medium));
        assert_eq!(severity(warned(10_000)), Some(Severity::High));
        let mut once_in_a_month = warned(10_000);
        once_in_a_month.count = 1_000_000_000;
        assert_eq!(severity(once_in_a_month), Some(Severity::Low));
    }

    #[test]
    fn the_title_puts_tombstones_beside_live_rows() {
        let mut usual = warned(1_204);
        usual.tombstones.scanned.record_n(1_204, 1_000);
        usual.tombstones.scanned.record(90_000);
        let judgement = run(&TombstoneHeavyRead, &window([usual]));
        let passed = judgement.findings[0].evidence.iter();
        let passed: Vec<_> = passed.filter(|(name, _)| *name == "tombstones_max").collect();
        assert_eq!(passed, [&("tombstones_max", 90_000.into())]);
        assert_eq!(
            judgement.findings[0].title,
            "Reads of `work.jobs` scan 1,204 tombstones (p99) for 5 live rows"
        );
    }

    #[test]
    fn the_statements_that_wrote_them_are_named_after_the_read() {
        let delete = "DELETE FROM work.jobs WHERE lane = ? AND at = ?";
        let delete = write(delete, StatementKind::Delete, &[], 40);
        let insert = write(
            "INSERT INTO work.jobs (lane, at) VALUES (?, ?)",
            StatementKind::Insert,
            &[],
            40,
        );
        let elsewhere = write(
            "DELETE FROM work.done WHERE lane = ?",
            StatementKind::Delete,
            &[],
            40,
        );
        let judgement = run(
            &TombstoneHeavyRead,
            &window([insert, warned(2_000), elsewhere, delete]),
        );
        let finding = &judgement.findings[0];
        assert_eq!(finding.patterns, [PatternId(2), PatternId(4)]);
        let said = finding
            .evidence
            .iter()
            .find(|(name, _)| *name == "tombstone_writers");
        assert_eq!(
            said.map(|(_, writers)| writers.words()).as_deref(),
            Some("`DELETE FROM work.jobs WHERE lane = ? AND at = ?` deletes (40 times)")
        );
    }

    #[test]
    fn a_read_that_the_server_gave_up_is_a_failure_even_without_a_number() {
        let mut pattern = head_of_queue();
        pattern.tombstones.aborted = 1;
        let judgement = run(&TombstoneHeavyRead, &window([pattern]));
        assert_eq!(judgement.findings[0].severity, Severity::Medium);
        assert_eq!(
            judgement.findings[0].title,
            "The server aborted 1 read of `work.jobs` because of tombstones"
        );
    }

    #[test]
    fn a_warning_without_a_number_is_medium() {
        let mut pattern = head_of_queue();
        pattern.tombstones.warned = 2;
        assert_eq!(severity(pattern), Some(Severity::Medium));
    }

    #[test]
    fn counters_of_the_nodes_speak_where_no_answer_does() {
        let counted = |tombstones_p99, patterns: Vec<Pattern>| {
            let mut window = amid(patterns);
            let name = table_of(&head_of_queue()).unwrap();
            let nodes = NodeReads {
                tombstones_p99,
                tombstones_max: 50_000,
                ..NodeReads::default()
            };
            window.tables.entry(name).or_default().node_reads = Some(nodes);
            run(&TombstoneHeavyRead, &window)
        };
        assert_eq!(counted(999, vec![head_of_queue()]).findings, []);
        assert_eq!(counted(999, vec![head_of_queue()]).blind_spots, []);
        let judgement = counted(2_000, vec![head_of_queue()]);
        let finding = &judgement.findings[0];
        assert_eq!(finding.severity, Severity::Medium);
        assert_eq!(
            finding.title,
            "One read in a hundred of `work.jobs` scans 2,000 tombstones or more, according to its nodes"
        );
        assert!(finding.evidence.contains(&known_from(KnownFrom::NodeCounters)));
        assert_eq!(
            counted(20_000, vec![head_of_queue()]).findings[0].severity,
            Severity::High
        );
        // What answers say is said once, of the statement.
        let judgement = counted(20_000, vec![warned(2_000)]);
        assert_eq!(judgement.findings.len(), 1);
        assert!(
            judgement.findings[0]
                .evidence
                .contains(&("node_tombstones_p99", 20_000.into()))
        );
        let warnings = known_from(KnownFrom::ServerWarnings);
        assert!(judgement.findings[0].evidence.contains(&warnings));
    }

    #[test]
    fn pages_that_end_early_speak_where_nobody_else_does() {
        let short = |short_pages, empty_pages| {
            let mut pattern = head_of_queue();
            pattern.tombstones.short_pages = short_pages;
            pattern.tombstones.empty_pages = empty_pages;
            pattern
        };
        assert_eq!(severity(short(0, 0)), None);
        assert_eq!(severity(short(3, 0)), Some(Severity::Low));
        assert_eq!(severity(short(3, 1)), Some(Severity::Medium));
        let judgement = run(&TombstoneHeavyRead, &window([short(1, 1)]));
        let finding = &judgement.findings[0];
        assert_eq!(
            finding.title,
            "1 page of `work.jobs` ended before it was full, 1 empty, although more rows followed"
        );
        assert!(finding.evidence.contains(&known_from(KnownFrom::ShortPages)));
        // What the server says goes before.
        let mut said = warned(2_000);
        said.tombstones.short_pages = 3;
        let judgement = run(&TombstoneHeavyRead, &window([said]));
        assert_eq!(judgement.findings.len(), 1);
        let warnings = known_from(KnownFrom::ServerWarnings);
        assert!(judgement.findings[0].evidence.contains(&warnings));
    }

    #[test]
    fn numbers_below_the_threshold_without_a_warning_are_fine() {
        let mut pattern = head_of_queue();
        pattern.tombstones.scanned.record_n(999, 10);
        assert_eq!(severity(pattern), None);
    }

    #[test]
    fn silence_of_the_server_is_reported_and_proves_nothing() {
        let judgement = run(&TombstoneHeavyRead, &window([head_of_queue()]));
        assert_eq!(judgement.findings, []);
        assert!(judgement.blind_spots[0].text.contains("no evidence of absence"));
        assert_eq!(run(&TombstoneHeavyRead, &window([warned(2_000)])).blind_spots, []);
    }
}
