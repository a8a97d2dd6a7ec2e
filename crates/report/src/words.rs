//! What stands in one line of a list: a problem without what the other columns say, and its fix in a few words.

use cqlens_window::number;

/// What to do about a rule's findings, in about three words: the advice has the rest.
pub(super) fn fix(rule: &str) -> &'static str {
    let at = FIXES.binary_search_by_key(&rule, |&(rule, _)| rule);
    at.ok()
        .and_then(|at| FIXES.get(at))
        .map_or("See the advice", |&(_, words)| words)
}

/// By rule, in the order of the alphabet.
const FIXES: &[(&str, &str)] = &[
    ("aggregate-without-partition-key", "Count while writing"),
    ("allow-filtering", "Table by these columns"),
    ("batch-too-large", "Smaller batches"),
    ("bucket-fan-out", "Fewer buckets"),
    ("client-join", "Copy the columns"),
    ("collection-overwrite", "Change single elements"),
    ("compact-storage", "Drop COMPACT STORAGE"),
    ("connection-churn", "Keep connections open"),
    ("consistency-all", "Use LOCAL_QUORUM"),
    ("counter-batch", "Single counter updates"),
    ("cross-dc-consistency", "Use LOCAL_QUORUM"),
    ("delete-heavy", "Delete whole partitions"),
    ("dual-write-without-batch", "One logged batch"),
    ("few-partitions", "Split the partitions"),
    ("full-scan", "Read by key"),
    ("future-timestamp", "Correct the clocks"),
    ("gc-grace-zero", "Raise gc_grace_seconds"),
    ("growing-collection", "Rows, not elements"),
    ("hot-partition", "Add a bucket"),
    ("in-cartesian-product", "One read per key"),
    ("in-clustering", "Read a range"),
    ("in-partition-key", "One read per key"),
    ("index-high-cardinality", "Table by this column"),
    ("index-low-cardinality", "Table by value, bucketed"),
    ("index-on-updated-column", "Table by this column"),
    ("index-table-lookup", "Copy the columns"),
    ("large-mutation", "Store in chunks"),
    ("large-pages", "Smaller pages"),
    ("large-partition", "Add a bucket"),
    ("large-partition-key", "Shorter keys"),
    ("large-result", "Read less, page"),
    ("list-modification", "Set or map"),
    ("logged-batch-multi-partition", "Single async writes"),
    ("lwt-heavy", "Fewer conditions"),
    ("many-connections", "Share one session"),
    ("many-tables", "Fewer tables"),
    ("materialized-view-read", "A table instead"),
    ("materialized-view-write", "A table instead"),
    ("mixed-conditional-writes", "Always write with IF"),
    ("mixed-serial-consistency", "One serial level"),
    ("no-compression", "Turn on LZ4"),
    ("not-token-aware", "Token-aware policy"),
    ("null-insert", "Leave columns unset"),
    ("old-driver", "Upgrade the driver"),
    ("old-protocol", "Upgrade the driver"),
    ("overwriting-insert", "Make keys unique"),
    ("past-timestamp", "Correct the clocks"),
    ("prepare-churn", "Prepare once"),
    ("query-without-table", "Table for this query"),
    ("queue-pattern", "Bucket by time"),
    ("read-before-write", "Write without reading"),
    ("read-update-ratio", "Keep the join"),
    ("redundant-reads", "Read once"),
    ("replication-factor", "Three replicas"),
    ("retried-increment", "Do not retry"),
    ("retries", "Find the cause"),
    ("reversed-read", "Reverse the order"),
    ("sasi-index", "Replace the index"),
    ("schema-change", "Deploy separately"),
    ("schema-disagreement", "Wait for agreement"),
    ("secondary-index-read", "Table by this column"),
    ("select-star", "List the columns"),
    ("server-error", "Fix the statement"),
    ("server-warning", "Stay below thresholds"),
    ("simple-strategy", "List the datacenters"),
    ("small-pages", "Larger pages"),
    ("static-column", "A separate table"),
    ("time-bucket-walk", "Wider buckets"),
    ("time-window-misuse", "Change the compaction"),
    ("timeouts", "Make it cheaper"),
    ("token-range-scan", "Run it off-peak"),
    ("tombstone-heavy-read", "Bucket by time"),
    ("traced-requests", "Stop tracing"),
    ("ttl-without-windows", "Compact by time window"),
    ("unbounded-read", "Add a LIMIT"),
    ("uneven-token-load", "Spread the keys"),
    ("unlogged-batch-multi-partition", "Single async writes"),
    ("unpaged-read", "Set a page size"),
    ("unprepared-statement", "Prepare it"),
    ("unused-index", "Drop the index"),
    ("unused-table", "Drop the table"),
    ("weak-consistency", "Use LOCAL_QUORUM"),
    ("writetime-read", "A separate column"),
];

/// A finding's title without its table and rates, which lists have columns for, and without what follows a semicolon:
/// `` Reads of `shop.orders` filter row by row, 54 a minute `` becomes `Reads filter row by row`.
pub(super) fn what(title: &str, table: Option<&str>) -> String {
    let mut text = main_clause(title).to_owned();
    if let Some(table) = table {
        text = without_table(&text, &format!("`{table}`"));
    }
    let kept: Vec<_> = text.split(", ").filter(|clause| !is_rate(clause)).collect();
    capitalized(&kept.join(", "))
}

/// Up to the first semicolon that is no part of a name.
fn main_clause(title: &str) -> &str {
    let mut is_name = false;
    let end = title.char_indices().find(|&(_, letter)| {
        is_name ^= letter == '`';
        letter == ';' && !is_name
    });
    end.map_or(title, |(at, _)| &title[..at])
}

/// Takes the table out where the sentence does not need it: `of the table`, and the table as its subject.
fn without_table(text: &str, table: &str) -> String {
    if let Some(rest) = text.strip_prefix(table) {
        let rest = rest.trim_start();
        return match rest.strip_prefix("is ") {
            Some(rest) => rest.to_owned(),
            // A subject that the sentence cannot do without, or another name that begins like the table.
            None => text.to_owned(),
        };
    }
    for word in ["of", "to", "over", "on", "from"] {
        let phrase = format!(" {word} {table}");
        let Some((before, after)) = text.split_once(&phrase) else {
            continue;
        };
        let ends = after.is_empty() || after.starts_with([' ', ',']) && !after.starts_with(" and ");
        if ends {
            return format!("{before}{after}");
        }
    }
    text.to_owned()
}

/// `54 a minute`, `3 times in 20 s`, `once in 7 s`.
fn is_rate(clause: &str) -> bool {
    let is_number = clause.starts_with(|first: char| first.is_ascii_digit());
    let units = [" a second", " a minute", " an hour", " a day"];
    is_number && (units.iter().any(|unit| clause.ends_with(unit)) || clause.contains(" times in "))
        || clause.starts_with("once in ")
}

/// With a capital letter at its beginning.
pub(super) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// A rate in a column: `13/s`, `54/min`, `6.9/h`; `3 ×` where it was seen too rarely to speak of one.
pub(super) fn rate(times: u64, in_seconds: f64) -> String {
    let Some(per_second) = number::per_second(times, in_seconds) else {
        return format!("{} ×", number::count(times));
    };
    let units = [(1.0, "s"), (60.0, "min"), (3_600.0, "h"), (86_400.0, "day")];
    let fitting = units.iter().find(|(seconds, _)| per_second * seconds >= 0.995);
    let (seconds, unit) = fitting.unwrap_or(&units[3]);
    format!("{}/{unit}", number::decimal(per_second * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_fix_in_a_few_words() {
        assert!(FIXES.is_sorted_by_key(|&(rule, _)| rule));
        let without: Vec<_> = cqlens_rules::RULES
            .iter()
            .map(|rule| rule.about().id)
            .filter(|id| fix(id) == "See the advice")
            .collect();
        assert_eq!(without, Vec::<&str>::new(), "say what to do in three words");
        for (rule, words) in FIXES {
            assert!(
                words.len() <= 24 && words.split(' ').count() <= 4,
                "{rule}: {words}"
            );
        }
    }

    #[test]
    fn a_line_leaves_out_what_its_columns_say() {
        let said = |title| what(title, Some("shop.orders"));
        for (title, line) in [
            (
                "Reads of `shop.orders` filter the whole table row by row, 54 a minute",
                "Reads filter the whole table row by row",
            ),
            (
                "Full table scan of `shop.orders`, 54 a minute, 600 rows per query",
                "Full table scan, 600 rows per query",
            ),
            (
                "`shop.orders` is used as a queue: 1,400 rows appended, 20 a second, and more",
                "Used as a queue: 1,400 rows appended, and more",
            ),
            (
                "One partition of `shop.orders` got 3 rows, once in 7 s; and 1 more statement",
                "One partition got 3 rows",
            ),
            (
                "Batches write 2 partitions of `shop.orders` and other tables, 3 times in 20 s",
                "Batches write 2 partitions of `shop.orders` and other tables",
            ),
            (
                "The index on `shop.orders.status` has 4 values",
                "The index on `shop.orders.status` has 4 values",
            ),
            ("`a;b` is large; very", "`a;b` is large"),
            ("`shop.orders` grows", "`shop.orders` grows"),
        ] {
            assert_eq!(said(title), line);
        }
    }

    #[test]
    fn a_rate_is_short_and_of_the_unit_that_fits() {
        assert_eq!(rate(1_000, 100.0), "10/s");
        assert_eq!(rate(540, 600.0), "54/min");
        assert_eq!(rate(69, 36_000.0), "6.9/h");
        assert_eq!(rate(30, 1_000_000.0), "2.6/day");
        assert_eq!(rate(3, 7.0), "3 ×");
    }
}
