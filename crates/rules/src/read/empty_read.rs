//! Reads that find nothing.

use super::{About, Findings, Impact, Severity, Threshold, how_often, is_sweep, table, user_reads};
use crate::{Context, Finding, Rule, figures::share, statement::table_of};
use cqlens_window::{Distribution, Pattern, PatternId, number};

pub(crate) struct EmptyRead;

impl Rule for EmptyRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // Pieces of a walk over the ring are empty where the table has few rows.
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| !is_sweep(pattern)) {
            if !is_habit(pattern, context, found) {
                continue;
            }
            let emptiness = emptiness(pattern, context);
            let impact = Impact::each(Severity::Low).of(pattern).times(of(pattern).0);
            let impact = impact.at_most(Severity::Medium);
            let severity = context.severity(found, &impact);
            // A key without a row is worth a word only where looking for it costs something.
            if emptiness != Emptiness::Missing || severity > Severity::Info {
                found.push(finding(severity, (id, pattern), emptiness, context).weighing(impact));
            }
        }
    }
}

/// Whether so many of the reads find nothing, for a while: a table that was just created is empty at first.
fn is_habit(pattern: &Pattern, context: &Context<'_>, found: &Findings<'_>) -> bool {
    let (empty, reads) = of(pattern);
    let reaches = |figure: f64, threshold: &Threshold| figure >= found.threshold(&ABOUT, threshold);
    reaches(empty as f64, &READS)
        && reaches(share(empty, reads), &SHARE)
        && reaches(context.watch(pattern).seconds(), &SECONDS)
}

/// Reads that found nothing, of so many; the pages of one read counted once where they could be put together.
fn of(pattern: &Pattern) -> (u64, u64) {
    let of = |rows: &Distribution| (rows.count() - rows.at_least(1), rows.count());
    match pattern.paging.rows.is_empty() {
        true => of(&pattern.rows),
        false => of(&pattern.paging.rows),
    }
}

/// What is known of reads that find nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Emptiness {
    /// No read of the table found anything, and something writes it.
    Written,
    /// No read of the table found anything, and nothing writes it.
    Unwritten,
    /// The same few partitions are read again and again.
    Polled,
    /// Most keys have no row.
    Missing,
}

fn emptiness(pattern: &Pattern, context: &Context<'_>) -> Emptiness {
    let Some(table) = table_of(pattern) else {
        return Emptiness::Missing;
    };
    let traffic = context.window.tables.get(&table);
    let finds_rows = |(_, read): (PatternId, &Pattern)| of(read).0 < of(read).1;
    let is_always_empty = !context.reads_of(&table).any(finds_rows);
    let writes = traffic.map_or(0, |traffic| traffic.writes);
    // What writes it may have gone past the proxy, or was left out.
    let is_unwritten = traffic.is_some() && writes == 0 && !context.may_have_missed();
    let partitions = traffic.map_or(0, |traffic| traffic.distinct_partitions.estimate());
    match is_always_empty {
        true if writes > 0 => Emptiness::Written,
        true if is_unwritten => Emptiness::Unwritten,
        _ if partitions > 0 && of(pattern).0 >= POLLS * partitions => Emptiness::Polled,
        _ => Emptiness::Missing,
    }
}

/// Reads of each partition, from which on they are a poll.
const POLLS: u64 = 10;

fn finding(
    severity: Severity,
    (id, pattern): (PatternId, &Pattern),
    emptiness: Emptiness,
    context: &Context<'_>,
) -> Finding {
    let (empty, reads) = of(pattern);
    let name = table(pattern);
    let what = match emptiness {
        Emptiness::Written => format!("{name} is written, but its reads find nothing"),
        Emptiness::Unwritten => format!("Reads of {name} find nothing, and nothing writes it"),
        Emptiness::Polled => format!("Polls of {name} find nothing"),
        Emptiness::Missing => format!("Reads of {name} find nothing"),
    };
    let title = format!(
        "{what}: {} of {}{}",
        number::count(empty),
        number::count(reads),
        how_often(pattern, context)
    );
    let advice = match emptiness {
        Emptiness::Written => {
            "Compare the keys that are written with those that are read: a prefix, a type or a bucket may \
             differ, or rows may expire before they are read. If nobody needs the rows, drop the reads and \
             the writes."
        }
        Emptiness::Unwritten => {
            "Find out whether something still fills the table: it may be left from an older version of the \
             application. If nothing does, drop the read, then the table."
        }
        Emptiness::Polled => {
            "Poll less often, and more seldom the longer nothing comes; or let what writes the row say so, \
             by a message or a queue made for that."
        }
        Emptiness::Missing => {
            "Do not read what the application can know: keep known keys, or a Bloom filter of them, in \
             memory, or remember for a while that there was nothing. Before an INSERT, write without \
             reading."
        }
    };
    Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .advice(advice)
        .first("empty_reads_share", share(empty, reads))
        .first("empty_reads", empty)
}

const READS: Threshold = Threshold {
    name: "reads",
    unit: "reads that return no row",
    default: 50.0,
    origin: "cqlens default: what happens less often during a report is not a habit",
};

const SHARE: Threshold = Threshold {
    name: "share",
    unit: "of the reads that return no row",
    default: 0.9,
    origin: "cqlens default: below that, the statement is needed for the rows that it finds",
};

const SECONDS: Threshold = Threshold {
    name: "seconds",
    unit: "seconds of observation",
    default: 60.0,
    origin: "cqlens default: a table that was just created is empty at first, as in a test",
};

const ABOUT: About = About {
    id: "empty-read",
    group: "read shape",
    summary: "Nearly all reads of a statement find nothing.",
    why: "\
        A read that finds nothing takes a round trip and a thread of the coordinator and of each replica. \
        Bloom filters keep most of them from the disk, but not where rows were deleted or expired: \
        there, replicas read tombstones for nothing. And often it is a mistake that nothing else shows: a \
        key that is written in another form, a table that nothing fills any more.",
    fix: "\
        Find out why there is nothing: wrong keys, a table that is no longer written, a poll for a state that \
        seldom comes. Then drop the read, or send it less often.",
    fix_in_short: "Drop the read",
    before: "SELECT hash FROM shop.seen WHERE id = ?;  -- before each insert, finds nothing\nINSERT INTO shop.seen (id, hash) VALUES (?, ?);",
    after: "INSERT INTO shop.seen (id, hash) VALUES (?, ?);",
    severity: "\
        From so many `reads` and such a `share` of the statement's reads, in `seconds` or more: by the share of time and work \
        that these take; medium at most. What takes hardly any is mentioned only if the table is always empty, or polled.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[READS, SHARE, SECONDS],
    needs: "\
        The number of rows of responses. Reads of token ranges are left out: their pieces are empty where a \
        table has few rows.",
    source: "Cassandra documentation, Bloom filters; DataStax documentation, tombstones",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run};
    use cqlens_cql::{footprint::PartitionClass, schema::TableName};
    use cqlens_window::{TableTraffic, Window};

    const READ: &str = "SELECT hash FROM shop.seen WHERE id = ?";

    /// So many of a hundred reads find nothing.
    fn with_empty(empty: u64) -> Pattern {
        let mut pattern = read(READ, &[], PartitionClass::Single, 100);
        pattern.rows = Distribution::default();
        pattern.rows.record_n(0, empty);
        pattern.rows.record_n(1, 100 - empty);
        pattern
    }

    fn title(window: &Window) -> Option<String> {
        let mut found = run(&EmptyRead, window).findings;
        assert!(found.len() <= 1);
        found.pop().map(|finding| finding.title)
    }

    /// With a table that is written so often, and has so many partitions.
    fn window(empty: u64, writes: u64, partitions: u64) -> Window {
        let mut window = amid([with_empty(empty)]);
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: "seen".to_owned(),
        };
        let mut traffic = TableTraffic {
            writes,
            ..TableTraffic::default()
        };
        (1..=partitions).for_each(|key| {
            traffic
                .distinct_partitions
                .insert(key.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        });
        window.tables.insert(name, traffic);
        window
    }

    #[test]
    fn nearly_all_have_to_find_nothing() {
        assert_eq!(title(&window(89, 10, 100)), None);
        let title = title(&window(90, 10, 100)).unwrap();
        assert!(
            title.starts_with("Reads of `shop.seen` find nothing: 90 of 100"),
            "{title}"
        );
    }

    #[test]
    fn a_few_are_no_habit() {
        let mut few = read(READ, &[], PartitionClass::Single, 49);
        few.rows = Distribution::default();
        few.rows.record_n(0, 49);
        assert_eq!(title(&amid([few])), None);
    }

    #[test]
    fn it_says_what_the_table_shows() {
        let title = |window: Window| title(&window).unwrap();
        let written = title(window(100, 10, 100));
        assert!(written.starts_with("`shop.seen` is written, but its reads find nothing: 100 of 100"));
        let unwritten = title(window(100, 0, 100));
        assert!(
            unwritten.starts_with("Reads of `shop.seen` find nothing, and nothing writes it: 100 of 100")
        );
        let polled = title(window(98, 10, 2));
        assert!(polled.starts_with("Polls of `shop.seen` find nothing: 98 of 100"));
    }

    #[test]
    fn a_moment_shows_nothing() {
        let mut moment = window(100, 0, 100);
        moment.observed_seconds = 59.0;
        assert_eq!(title(&moment), None);
    }

    #[test]
    fn what_takes_no_time_is_mentioned_where_the_table_is_always_empty() {
        let beside_others = |mut window: Window| {
            let busy = window.patterns.get_mut(&PatternId(u64::MAX)).unwrap();
            busy.count = 1_000_000;
            busy.latency_us.record_n(2_000, 1_000_000);
            busy.partitions.record_n(1, 1_000_000);
            run(&EmptyRead, &window)
                .findings
                .pop()
                .map(|finding| finding.severity)
        };
        assert_eq!(beside_others(window(98, 10, 100)), None);
        assert_eq!(beside_others(window(100, 10, 100)), Some(Severity::Info));
    }

    #[test]
    fn what_was_not_seen_may_write_it() {
        let mut partly = window(100, 0, 100);
        partly.coverage.dropped = 1;
        let title = title(&partly).unwrap();
        assert!(
            title.starts_with("Reads of `shop.seen` find nothing: 100 of 100"),
            "{title}"
        );
    }

    #[test]
    fn pieces_of_the_ring_may_be_empty() {
        let mut piece = with_empty(100);
        piece.classes = [(PartitionClass::TokenRange, 100)].into();
        assert_eq!(title(&amid([piece])), None);
    }
}
