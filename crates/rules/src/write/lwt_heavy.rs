//! Tables whose writes are lightweight transactions for the most part.

mod crowded;

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Findings, Severity, Threshold, user_writes};
use crate::{
    Cause, Context, Finding, Quantity, Rule, application, error_code,
    figures::{often, share, table, user_patterns},
    severity::Impact,
    statement::{modifications, table_of},
};
use cqlens_cql::{plan::Flag, syntax::ast::Modification};
use cqlens_window::{Distribution, Pattern, PatternId, number};
use crowded::{CROWDED, Crowded};

pub(crate) struct LwtHeavy;

impl Rule for LwtHeavy {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        if context.is_text() {
            return in_text(context, found);
        }
        let mut tables = by_table(context);
        tables.retain(|_, writes| !writes.conditional.is_empty());
        let serial_reads = serial_reads(context);
        let conditional = tables
            .values()
            .flat_map(|writes| writes.conditional.iter().copied());
        for (application, patterns) in application::by_application(conditional) {
            let names: BTreeSet<_> = patterns.iter().map(|(_, pattern)| table(pattern)).collect();
            let written = names.iter().filter_map(|name| tables.get(name));
            let mut all = ConditionalWrites::default();
            let mut each = Severity::Info;
            for writes in written {
                each = each.max(writes.each(found));
                all.merge(writes);
            }
            all.conditional = patterns;
            let impact = all.conditional.iter();
            // Who writes on a condition has chosen to: what it costs is worth a plan, what fails is wrong.
            let at_most = match each {
                Severity::Info => Severity::Info,
                _ => Severity::Medium,
            };
            let impact = impact.fold(Impact::each(each).at_most(at_most), |impact, (_, pattern)| {
                impact.of(pattern).failed(timed_out(pattern), pattern.count)
            });
            let severity = context.severity(found, &impact);
            found.push(finding(
                found,
                severity,
                (&application, all),
                (&serial_reads, context),
            ));
        }
    }
}

/// Of a text it is known what each execution costs, and not how many of the table's writes are like it.
fn in_text(context: &Context<'_>, found: &mut Findings<'_>) {
    for (id, pattern) in user_writes(context).filter(|(_, pattern)| pattern.is(Flag::Lwt)) {
        let title = format!(
            "Each execution of this write to {} is a lightweight transaction",
            table(pattern)
        );
        let finding = Finding::on(&ABOUT, Severity::Info, (id, pattern), context).title(title);
        found.push(match Use::of(&[(id, pattern)], context).advice() {
            Some((advice, in_short)) => finding.advice(advice).fix_in_short(in_short),
            None => finding,
        });
    }
}

/// What writes some tables: conditional patterns, and the numbers of both kinds.
#[derive(Default)]
struct ConditionalWrites<'a> {
    conditional: Vec<(PatternId, &'a Pattern)>,
    conditional_count: u64,
    plain_count: u64,
    conditional_latency: Distribution,
    plain_latency: Distribution,
}

fn by_table<'a>(context: &Context<'a>) -> BTreeMap<String, ConditionalWrites<'a>> {
    let mut tables: BTreeMap<String, ConditionalWrites<'_>> = BTreeMap::new();
    for (id, pattern) in user_writes(context) {
        let writes = tables.entry(table(pattern)).or_default();
        if pattern.is(Flag::Lwt) {
            writes.conditional.push((id, pattern));
            writes.conditional_count += pattern.count;
            writes.conditional_latency.merge(&pattern.latency_us);
        } else {
            writes.plain_count += pattern.count;
            writes.plain_latency.merge(&pattern.latency_us);
        }
    }
    tables
}

impl ConditionalWrites<'_> {
    /// How bad one execution is: by how much of the table's writes works by consensus.
    fn each(&self, found: &Findings<'_>) -> Severity {
        if self.share() < found.threshold(&ABOUT, &SOME_SHARE) {
            Severity::Info
        } else if self.share() < found.threshold(&ABOUT, &MOST_SHARE) {
            Severity::Low
        } else {
            Severity::Medium
        }
    }

    fn merge(&mut self, other: &Self) {
        self.conditional_count += other.conditional_count;
        self.plain_count += other.plain_count;
        self.conditional_latency.merge(&other.conditional_latency);
        self.plain_latency.merge(&other.plain_latency);
    }

    fn share(&self) -> f64 {
        share(self.conditional_count, self.conditional_count + self.plain_count)
    }
}

fn finding(
    found: &Findings<'_>,
    severity: Severity,
    (application, writes): (&str, ConditionalWrites<'_>),
    (serial_reads, context): (&BTreeMap<String, u64>, &Context<'_>),
) -> Finding {
    let name = application::tables(&writes.conditional);
    let conditional_share = writes.share();
    let (conditional, plain) = (&writes.conditional_latency, &writes.plain_latency);
    let mut title = format!(
        "{} of the writes to {name} are lightweight transactions{}",
        number::percent(conditional_share),
        often(writes.conditional_count, context.watch_application(application))
    );
    if !conditional.is_empty() && !plain.is_empty() && context.has_latencies() {
        // Waiting in queues is in the mean of both.
        let [with, without] = [conditional, plain].map(|latency| latency.quantile(0.5).max(1));
        title += &format!(
            "; their median latency of {} is {} times that of plain writes",
            number::micros(with),
            number::decimal(with as f64 / without as f64)
        );
    }
    let crowded = Crowded::of(&writes.conditional, found, context);
    if let Some(crowded) = &crowded {
        title += &format!("; {crowded}");
    }
    let use_of = Use::of(&writes.conditional, context);
    let tables: BTreeSet<_> = writes
        .conditional
        .iter()
        .filter_map(|(_, pattern)| table_of(pattern))
        .collect();
    let on = (application, writes.conditional);
    let mut finding = application::finding(&ABOUT, severity, on, context).title(title);
    if let Some((advice, in_short)) = use_of.advice() {
        finding = finding.advice(advice).fix_in_short(in_short);
    }
    finding = finding.or_in_a_transaction(tables.iter(), IN_A_TRANSACTION, context);
    for (p50, p99, latency) in [
        ("plain_latency_p50_us", "plain_latency_p99_us", plain),
        (
            "conditional_latency_p50_us",
            "conditional_latency_p99_us",
            conditional,
        ),
    ] {
        if !latency.is_empty() {
            finding = finding
                .first(p99, latency.quantile(0.99))
                .first(p50, latency.quantile(0.5));
        }
    }
    let serial_reads = of_tables(serial_reads, &finding, context);
    if serial_reads > 0 {
        finding = finding.first("serial_reads", serial_reads);
    }
    let timeouts = sum(&finding, context, timed_out);
    if timeouts > 0 {
        let of_all = share(timeouts, writes.conditional_count);
        if of_all >= found.threshold(&ABOUT, &MANY_TIMEOUTS) {
            finding.title += &format!("; {} timed out", number::percent(of_all));
        }
        finding = finding.first("conditional_writes_timed_out", timeouts);
    }
    // The row was there already, or another client was first.
    let failed = sum(&finding, context, |pattern| pattern.not_applied);
    if failed > 0 {
        let of_all = share(failed, writes.conditional_count);
        if of_all >= found.threshold(&ABOUT, &MANY_NOT_APPLIED) {
            finding.title += &format!("; the condition failed for {}", number::percent(of_all));
        }
        finding = finding.first("not_applied", failed);
    }
    if let Some(crowded) = crowded {
        finding = finding.first("partitions", crowded.partitions).first(
            "conditional_writes_per_partition_per_second",
            crowded.each_per_second,
        );
    }
    finding
        .first("plain_writes", writes.plain_count)
        .first("conditional_writes", writes.conditional_count)
        .first("conditional_share", conditional_share)
}

const IN_A_TRANSACTION: &str = "\
    Accord decides conditions on these tables in one round trip where nobody else writes the partition. Several conditional \
    writes that belong together, or one that follows a read, may become one transaction.";

/// What conditions are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// A row is created once: a name is claimed.
    Claims,
    /// The same, and it is deleted under a condition, too: a lock, or a lease.
    Locks,
    /// A write depends on what the row has: a client that has lost its turn is fenced off.
    Fences,
}

impl Use {
    fn of(conditional: &[(PatternId, &Pattern)], context: &Context<'_>) -> Self {
        let (mut creates, mut deletes, mut compares) = (false, false, false);
        for statement in conditional.iter().filter_map(|(id, _)| context.statement(*id)) {
            for write in modifications(&statement) {
                match &write {
                    Modification::Insert(insert) => creates |= insert.if_not_exists,
                    Modification::Update(update) => compares |= update.condition.is_some(),
                    Modification::Delete(delete) => deletes |= delete.condition.is_some(),
                }
            }
        }
        match (creates, deletes, compares) {
            (true, true, _) => Self::Locks,
            (_, _, true) | (false, true, _) => Self::Fences,
            _ => Self::Claims,
        }
    }

    /// What to do, and the same in short, where that is not the rule's own advice.
    fn advice(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Claims => None,
            Self::Locks => Some((LOCKS, "Fewer, longer leases")),
            Self::Fences => Some((FENCES, "More partitions")),
        }
    }
}

/// Of rows that are created and deleted under conditions.
const LOCKS: &str = "\
    Keep the conditions: this is a lock or a lease, which is only safe with them. To make it cheaper, hold leases \
    longer and renew them less often, let clients wait after a failed attempt, and give leases a TTL so that those of \
    clients that died expire.";

/// Of rows that are changed if they still have a value.
const FENCES: &str = "\
    Keep the conditions if they fence off writers that have lost their turn (a version, an owner, a range). Writes to \
    one partition wait for each other: spread them over more partitions, group several changes of a partition into \
    one conditional batch, and write without a condition what the last writer may win.";

/// What is counted of the conditional writes of the finding, together.
fn sum(finding: &Finding, context: &Context<'_>, of: impl Fn(&Pattern) -> u64) -> u64 {
    let patterns = finding
        .patterns
        .iter()
        .filter_map(|id| context.window.patterns.get(id));
    patterns.map(of).sum()
}

/// Rounds that were not decided in time: of a conditional write a WRITE_TIMEOUT is one of its consensus or of its
/// commit, and nobody knows whether it was applied.
fn timed_out(pattern: &Pattern) -> u64 {
    error_code::count(
        pattern,
        &[error_code::WRITE_TIMEOUT, error_code::CAS_WRITE_UNKNOWN],
    )
}

/// Reads at a serial level, by the table as a title has it.
fn serial_reads(context: &Context<'_>) -> BTreeMap<String, u64> {
    let serial = |pattern: &Pattern| -> u64 {
        let levels = ["SERIAL", "LOCAL_SERIAL"];
        levels
            .iter()
            .filter_map(|level| pattern.consistency.get(*level))
            .sum()
    };
    let mut tables = BTreeMap::new();
    for (_, pattern) in user_patterns(context).filter(|(_, pattern)| pattern.head.kind.is_read()) {
        *tables.entry(table(pattern)).or_default() += serial(pattern);
    }
    tables
}

/// Those of the tables that the finding's patterns write.
fn of_tables(serial_reads: &BTreeMap<String, u64>, finding: &Finding, context: &Context<'_>) -> u64 {
    let patterns = finding.patterns.iter();
    let patterns = patterns.filter_map(|id| context.window.patterns.get(id));
    let written: BTreeSet<_> = patterns.map(table).collect();
    written.iter().filter_map(|table| serial_reads.get(table)).sum()
}

const MANY_NOT_APPLIED: Threshold = Threshold {
    name: "many_not_applied",
    unit: "of the conditions",
    default: 0.1,
    origin: "\
        cqlens default: a tenth of the rounds change nothing, which is contention or a check before a write",
};

const MANY_TIMEOUTS: Threshold = Threshold {
    name: "many_timeouts",
    unit: "of the conditional writes",
    default: 0.001,
    origin: "`failed_share_medium` of all severities: one in a thousand",
};

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "of the table's writes",
    default: 0.1,
    origin: "cqlens default: below a tenth they are exceptions, such as claiming a name",
};

const MOST_SHARE: Threshold = Threshold {
    name: "most_share",
    unit: "of the table's writes",
    default: 0.5,
    origin: "cqlens default: from half of the writes on, the table works by consensus",
};

const ABOUT: About = About {
    id: "lwt-heavy",
    group: "writes",
    summary: "A large part of a table's writes are lightweight transactions.",
    why: "\
        A conditional write runs Paxos: four round trips between coordinator and replicas, or two with Paxos \
        v2 (4.1), a read of the row and three writes of Paxos state on each replica, where a plain write \
        needs one round trip and one write. Concurrent conditional writes to one partition exclude each \
        other and are retried after a random pause, so contention multiplies the cost.",
    fix: "\
        Keep IF for values that must be unique or must not be lost, such as a claimed name. If the key is a \
        generated id (a UUID), write without a condition; if the last write may win, let it; if values are \
        added up, write events and sum them on reading.",
    fix_in_short: "Fewer conditions",
    before: "INSERT INTO shop.orders (id, placed, amount) VALUES (?, ?, ?) IF NOT EXISTS;",
    after: "\
        -- id is a UUID generated by the client\nINSERT INTO shop.orders (id, placed, amount) VALUES (?, ?, \
        ?);",
    severity: "\
        By the share of a table's writes: info below `some_share`, low from there, medium from `most_share`; \
        never more whatever the cost, unless rounds time out, which count as failures. Info for a statement \
        that was analysed but not executed: the share is unknown. The tables of one \
        application are one finding. The title mentions failed conditions from `many_not_applied`, \
        timeouts from `many_timeouts`, and a table whose partitions get many from `crowded`.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[SOME_SHARE, MOST_SHARE, CROWDED, MANY_NOT_APPLIED, MANY_TIMEOUTS],
    needs: "The statements' texts; their latencies, to compare conditional writes with plain ones.",
    source: "\
        Data Modeling in Cassandra, the pathology lab: lightweight transactions are several times slower; \
        Cassandra class `StorageProxy.cas`; CEP-14",
    cause: Some(Cause::CONDITIONS),
    quantity: Some(Quantity::LATENCY),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, run, window, write};
    use cqlens_cql::{plan::StatementKind, schema::TableName};

    fn conditional(times: u64) -> Pattern {
        let cql = "INSERT INTO shop.orders (id, placed) VALUES (?, ?) IF NOT EXISTS";
        let mut pattern = write(cql, StatementKind::Insert, &[Flag::Lwt], times);
        pattern.latency_us = Distribution::default();
        pattern.latency_us.record_n(8_000, times);
        pattern
    }

    fn plain(times: u64) -> Pattern {
        write(
            "INSERT INTO shop.orders (id, placed) VALUES (?, ?)",
            StatementKind::Insert,
            &[],
            times,
        )
    }

    fn severity(patterns: impl IntoIterator<Item = Pattern>) -> Option<Severity> {
        let judgement = run(&LwtHeavy, &amid(patterns));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn rounds_that_meet_in_few_partitions_are_in_the_title() {
        let title = |partitions: u64| {
            let mut window = amid([conditional(3_600)]);
            let name = TableName {
                keyspace: "shop".to_owned(),
                table: "orders".to_owned(),
            };
            let traffic = window.tables.entry(name).or_default();
            (0..partitions).for_each(|key| {
                traffic
                    .distinct_partitions
                    .insert(key.wrapping_mul(0x9E37_79B9_7F4A_7C15))
            });
            run(&LwtHeavy, &window).findings[0].title.clone()
        };
        let [few, one, many] = [4, 1, 2_000].map(title);
        assert!(
            few.ends_with("; `shop.orders` has 4 partitions, which get 15 a second each"),
            "{few}"
        );
        assert!(
            one.ends_with("; `shop.orders` has one partition, which gets 60 a second"),
            "{one}"
        );
        assert!(!many.contains("which get"), "{many}");
    }

    #[test]
    fn conditions_of_locks_and_fences_are_kept() {
        let advice = |statements: &[&str]| {
            let patterns = statements.iter().map(|cql| {
                let kind = match cql.split(' ').next() {
                    Some("INSERT") => StatementKind::Insert,
                    Some("UPDATE") => StatementKind::Update,
                    _ => StatementKind::Delete,
                };
                write(cql, kind, &[Flag::Lwt], 100)
            });
            let judgement = run(&LwtHeavy, &amid(patterns));
            judgement.findings[0].advice.clone()
        };
        let claim = "INSERT INTO shop.locks (name, owner) VALUES (?, ?) IF NOT EXISTS";
        let free = "DELETE FROM shop.locks WHERE name = ? IF owner = ?";
        let renew = "UPDATE shop.locks SET owner = ? WHERE name = ? IF owner = ?";
        assert_eq!(advice(&[claim]), ABOUT.fix);
        assert_eq!(advice(&[claim, free]), LOCKS);
        assert_eq!(advice(&[claim, free, renew]), LOCKS);
        assert_eq!(advice(&[renew]), FENCES);
        assert_eq!(advice(&[claim, renew]), FENCES);
    }

    #[test]
    fn severity_follows_the_share_of_the_writes() {
        assert_eq!(severity([conditional(100), plain(901)]), Some(Severity::Info));
        assert_eq!(severity([conditional(100), plain(900)]), Some(Severity::Low));
        assert_eq!(severity([conditional(100), plain(100)]), Some(Severity::Medium));
        let idle = run(&LwtHeavy, &window([conditional(59)]));
        assert_eq!(idle.findings[0].severity, Severity::Info);
    }

    #[test]
    fn a_table_of_locks_is_medium_however_much_it_is_used_and_high_where_rounds_time_out() {
        let judged = |timeouts: u64| {
            let mut lock = conditional(10_000);
            (0..timeouts).for_each(|_| lock.count_error(error_code::WRITE_TIMEOUT));
            // All that the cluster does.
            run(&LwtHeavy, &window([lock])).findings[0].severity
        };
        assert_eq!(judged(0), Severity::Medium);
        assert_eq!(judged(99), Severity::Medium);
        assert_eq!(judged(100), Severity::High);
    }

    #[test]
    fn the_tables_of_an_application_are_one_finding() {
        let tables = ["locks", "leases", "claims", "names", "slots", "tokens", "owners"];
        let patterns = tables.map(|table| {
            let mut pattern = conditional(100);
            pattern.head.table = Some(table.to_owned());
            pattern
                .clients
                .insert("leader-election (gocql) 10.0.0.1".to_owned(), 100);
            pattern
        });
        let judgement = run(&LwtHeavy, &window(patterns));
        let titles: Vec<_> = judgement.findings.iter().map(|finding| &finding.title).collect();
        assert_eq!(
            titles,
            ["100 % of the writes to 7 tables are lightweight transactions, 12 a minute"]
        );
    }

    #[test]
    fn the_title_puts_their_latency_beside_plain_writes() {
        let judgement = run(&LwtHeavy, &window([conditional(60), plain(20)]));
        let finding = &judgement.findings[0];
        assert!(
            finding.title.starts_with(
                "75 % of the writes to `shop.orders` are lightweight transactions, 1 a minute; their median latency \
                 of 8.0 ms is 4 times that of plain writes"
            ),
            "{}",
            finding.title
        );
        assert_eq!(finding.evidence[0], ("conditional_share", 0.75.into()));
        assert_eq!(finding.table.as_deref(), Some("orders"));
    }

    #[test]
    fn conditions_that_do_not_hold_are_told_where_there_are_many() {
        let title = |not_applied| {
            let mut pattern = conditional(100);
            pattern.not_applied = not_applied;
            run(&LwtHeavy, &amid([pattern])).findings[0].title.clone()
        };
        assert!(
            title(40).ends_with("; the condition failed for 40 %"),
            "{}",
            title(40)
        );
        assert!(!title(5).contains("condition failed"));
    }

    #[test]
    fn rounds_that_time_out_and_reads_at_serial_are_told() {
        let judged = |timeouts: u64| {
            let mut claim = conditional(1_000);
            (0..timeouts).for_each(|_| claim.count_error(error_code::WRITE_TIMEOUT));
            let table = claim.head.table.clone().unwrap_or_default();
            let keyspace = claim.head.keyspace.clone().unwrap_or_default();
            let cql = format!("SELECT v FROM {keyspace}.{table} WHERE id = ?");
            let mut read = crate::testing::read(&cql, &[], cqlens_cql::footprint::PartitionClass::Single, 30);
            read.count_consistency("SERIAL", 30);
            run(&LwtHeavy, &amid([claim, read])).findings.remove(0)
        };
        let finding = judged(20);
        assert!(finding.title.ends_with("; 2.0 % timed out"), "{}", finding.title);
        let told = |name: &str| {
            let mut evidence = finding.evidence.iter();
            evidence
                .find(|(told, _)| *told == name)
                .and_then(|(_, value)| value.as_u64())
        };
        assert_eq!(told("conditional_writes_timed_out"), Some(20));
        assert_eq!(told("serial_reads"), Some(30));
        assert!(!judged(0).title.contains("timed out"));
    }

    #[test]
    fn plain_writes_and_other_tables_are_fine() {
        assert_eq!(severity([plain(1_000_000)]), None);
        let other = write(
            "INSERT INTO shop.names (n) VALUES (?)",
            StatementKind::Insert,
            &[],
            1_000_000,
        );
        let beside = run(&LwtHeavy, &window([conditional(100), other]));
        assert!(
            beside.findings[0]
                .title
                .starts_with("100 % of the writes to `shop.orders`")
        );
    }

    #[test]
    fn drivers_own_statements_are_not_judged() {
        let mut system = conditional(1_000);
        system.head.system = true;
        assert_eq!(severity([system]), None);
    }
}
