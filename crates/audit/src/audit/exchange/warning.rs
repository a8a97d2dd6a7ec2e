//! What the texts of server warnings and errors say: of tombstones, and which of the known warnings it is.
//!
//! The texts are Cassandra's own (`ReadCommand`, `WarningsSnapshot`, 3.0 to 5.0); numbers are read from their
//! constant parts only. The query that they quote is never kept: it holds the client's values, and Cassandra
//! appends `ALLOW FILTERING` to it by itself.

use std::borrow::Cow;

/// Tombstones that the server speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TombstoneText {
    /// `Read <live> live rows and <tombstones> tombstone cells for query …`: what one replica read.
    Read {
        /// Live rows.
        live_rows: u64,
        /// Tombstones.
        tombstones: u64,
    },
    /// `<k> nodes scanned up to <tombstones> tombstones and issued tombstone warnings …`.
    ScannedUpTo {
        /// The most that any replica scanned.
        tombstones: u64,
    },
    /// `<k> nodes scanned over <tombstones> tombstones and aborted the query …`.
    Aborted {
        /// The failure threshold.
        tombstones: u64,
    },
}

/// Reads a warning or an error message; none if it does not speak of tombstones.
pub(crate) fn tombstones(text: &str) -> Option<TombstoneText> {
    read(text).or_else(|| scanned(text))
}

fn read(text: &str) -> Option<TombstoneText> {
    let mut words = text.split_whitespace();
    let live_rows = number_between(&mut words, &["Read"], &["live", "rows", "and"])?;
    let tombstones = number_between(&mut words, &[], &["tombstone", "cells"])?;
    Some(TombstoneText::Read {
        live_rows,
        tombstones,
    })
}

fn scanned(text: &str) -> Option<TombstoneText> {
    let mut words = text.split_whitespace();
    number_between(&mut words, &[], &["nodes", "scanned"])?;
    match words.next()? {
        "up" => {
            let tombstones =
                number_between(&mut words, &["to"], &["tombstones", "and", "issued", "tombstone"])?;
            Some(TombstoneText::ScannedUpTo { tombstones })
        }
        "over" => {
            let tombstones = number_between(&mut words, &[], &["tombstones", "and", "aborted"])?;
            Some(TombstoneText::Aborted { tombstones })
        }
        _ => None,
    }
}

/// The number between two runs of words; none where any of them differs.
fn number_between<'a>(
    words: &mut impl Iterator<Item = &'a str>,
    before: &[&str],
    after: &[&str],
) -> Option<u64> {
    for expected in before {
        (words.next()? == *expected).then_some(())?;
    }
    let number = words.next()?.parse().ok()?;
    for expected in after {
        (words.next()? == *expected).then_some(())?;
    }
    Some(number)
}

/// A warning that does not speak of tombstones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Warning {
    /// One of the classes below, `guardrail NAME`, or `other`.
    pub(crate) class: Cow<'static, str>,
    /// The figure that it names, in the unit of its class; 0 where it names none.
    pub(crate) figure: u64,
}

/// Reads a warning; none if it speaks of tombstones.
pub(crate) fn warning(text: &str) -> Option<Warning> {
    if tombstones(text).is_some() {
        return None;
    }
    if let Some(rest) = text.trim_start().strip_prefix("Guardrail ") {
        let name = rest.split_whitespace().next().unwrap_or_default();
        let is_name = name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let class = match is_name {
            true => format!("guardrail {name}").into(),
            false => OTHER.into(),
        };
        let figures = GUARDED.iter().filter_map(|before| figure(rest, before));
        return Some(Warning {
            class,
            figure: figures.max().unwrap_or(0),
        });
    }
    let known = CLASSES
        .iter()
        .find(|class| class.parts.iter().all(|part| text.contains(part)));
    Some(match known {
        Some(class) => Warning {
            class: class.name.into(),
            figure: class.before.and_then(|before| figure(text, before)).unwrap_or(0),
        },
        None => Warning {
            class: OTHER.into(),
            figure: 0,
        },
    })
}

/// The number after some words of a text, separators of thousands left out.
fn figure(text: &str, before: &str) -> Option<u64> {
    let (_, rest) = text.split_once(before)?;
    let number: String = rest
        .trim_start()
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == ',')
        .filter(char::is_ascii_digit)
        .collect();
    number.parse().ok()
}

/// What the figures of guardrails come after that count something: keys, combinations of keys, rows of a page. Sizes are
/// written in units that differ from version to version.
const GUARDED: [&str; 3] = ["number of partition keys ", " produces ", "with page size "];

/// A warning that nobody knows here.
const OTHER: &str = "other";

/// A warning that is known by parts of its text, which quotes no values before them.
struct Class {
    name: &'static str,
    parts: &'static [&'static str],
    /// What its figure comes after.
    before: Option<&'static str>,
}

const fn class(name: &'static str, parts: &'static [&'static str], before: Option<&'static str>) -> Class {
    Class { name, parts, before }
}

/// Cassandra 2.2 to 5.0 (`BatchStatement`, `SelectStatement`, `WarningsSnapshot`, `QueryProcessor`), ScyllaDB.
const CLASSES: &[Class] = &[
    class(
        "batch size",
        &["Batch", "is of size ", "exceeding specified threshold of "],
        Some("is of size "),
    ),
    class(
        "unlogged batch",
        &["Unlogged batch covering ", "partitions detected"],
        Some("Unlogged batch covering "),
    ),
    class(
        "logged batch, gc_grace_seconds 0",
        &["Executing a LOGGED BATCH", "gc_grace_seconds of 0"],
        None,
    ),
    class(
        "aggregate without partition key",
        &["Aggregation query used without partition key"],
        None,
    ),
    class(
        "aggregate over partitions",
        &["Aggregation query used on multiple partition keys"],
        None,
    ),
    class(
        "local read size",
        &["nodes loaded over ", "local read size"],
        Some("nodes loaded over "),
    ),
    class(
        "row index size",
        &["nodes loaded over ", "RowIndexEntry"],
        Some("nodes loaded over "),
    ),
    class(
        "read size",
        &["Read on table ", "has exceeded the size warning threshold of "],
        Some("size warning threshold of "),
    ),
    class(
        "index parts",
        &["nodes referenced more than allowed number of indexes"],
        Some("maximum on a node being "),
    ),
    class(
        "replica filtering protection",
        &["Replica filtering protection has cached over "],
        Some("has cached over "),
    ),
    class(
        "USE with prepared statements",
        &["with prepared statements is considered to be an anti-pattern"],
        None,
    ),
    class(
        "TTL beyond 2038",
        &["exceeds maximum supported expiration date"],
        None,
    ),
    class(
        "top-k consistency",
        &["Top-K queries can only be run with consistency level"],
        None,
    ),
    class(
        "literal values",
        &["The query contains only literal values and no bind markers"],
        None,
    ),
    class(
        "filtering without ALLOW FILTERING",
        &["This query should use ALLOW FILTERING"],
        None,
    ),
    class(
        "consistency level",
        &["listed on the write_consistency_levels_warned"],
        None,
    ),
    class("large data", &["Large data guardrail"], None),
];

/// Whether an error message names the tombstone threshold as the reason of a failure (version 4 has no reason
/// codes).
pub(crate) fn names_too_many_tombstones(message: &str) -> bool {
    message.contains("READ_TOO_MANY_TOMBSTONES")
        || matches!(tombstones(message), Some(TombstoneText::Aborted { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_all_versions_are_read() {
        for (text, expected) in [
            (
                "Read 10 live rows and 250 tombstone cells for query SELECT * FROM probe.q WHERE q = 'a' LIMIT 10 \
                 ALLOW FILTERING; token -8839064797231613815 (see tombstone_warn_threshold)",
                TombstoneText::Read {
                    live_rows: 10,
                    tombstones: 250,
                },
            ),
            (
                "Read 0 live rows and 1001 tombstone cells for query SELECT (see tombstone_warn_threshold)",
                TombstoneText::Read {
                    live_rows: 0,
                    tombstones: 1001,
                },
            ),
            (
                "3 nodes scanned up to 1500 tombstones and issued tombstone warnings for query SELECT  \
                 (see tombstone_warn_threshold)",
                TombstoneText::ScannedUpTo { tombstones: 1500 },
            ),
            (
                "1 nodes scanned over 100001 tombstones and aborted the query SELECT (see tombstone_failure_threshold)",
                TombstoneText::Aborted { tombstones: 100_001 },
            ),
        ] {
            assert_eq!(tombstones(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn warnings_have_their_class_and_figure() {
        for (text, class, figure) in [
            (
                "Batch for [shop.orders] is of size 61440, exceeding specified threshold of 5120 by 56320.",
                "batch size",
                61_440,
            ),
            (
                "Batch of prepared statements for [s.t] is of size 5121, exceeding specified threshold of 5120 by 1.",
                "batch size",
                5_121,
            ),
            (
                "Unlogged batch covering 12 partitions detected against table [s.t]. You should use a logged batch for \
              atomicity, or asynchronous writes for performance.",
                "unlogged batch",
                12,
            ),
            (
                "Aggregation query used without partition key",
                "aggregate without partition key",
                0,
            ),
            (
                "2 nodes loaded over 4096 bytes and issued local read size warnings for query SELECT",
                "local read size",
                4_096,
            ),
            (
                "Read on table s.t has exceeded the size warning threshold of 1,048,576 bytes with 1, 2",
                "read size",
                1_048_576,
            ),
            (
                "Guardrail page_size violated: Query for table t with page size 9000 exceeds warning threshold of 5000.",
                "guardrail page_size",
                9_000,
            ),
            (
                "Guardrail partition_keys_in_select violated: Query with partition keys in IN clause on table t, with number of \
                 partition keys 25 exceeds warning threshold of 20.",
                "guardrail partition_keys_in_select",
                25,
            ),
            (
                "Guardrail in_select_cartesian_product violated: The cartesian product of the IN restrictions on t produces 30 \
                 values, this exceeds warning threshold of 25.",
                "guardrail in_select_cartesian_product",
                30,
            ),
            (
                "Guardrail column_value_size violated: Value of column 'v' has size 1.5MiB, this exceeds the warning threshold of 1MiB.",
                "guardrail column_value_size",
                0,
            ),
            ("Guardrail 'x' violated", "other", 0),
            ("something new about 'secret'", "other", 0),
        ] {
            let expected = Warning {
                class: class.into(),
                figure,
            };
            assert_eq!(warning(text), Some(expected), "{text}");
        }
        assert_eq!(
            warning("Read 0 live rows and 1001 tombstone cells for query SELECT"),
            None
        );
    }

    #[test]
    fn other_texts_and_texts_that_only_quote_the_words_are_not_read() {
        for text in [
            "",
            "Aggregation query used without partition key",
            "Read many live rows and 250 tombstone cells",
            "2 nodes loaded over 4096 bytes and issued local read size warnings for query SELECT 'Read 1 live rows'",
            "Read 1 live rows and 18446744073709551616 tombstone cells for query",
        ] {
            assert_eq!(tombstones(text), None, "{text}");
        }
    }

    #[test]
    fn a_version_4_failure_names_its_reason_in_the_message() {
        let message = "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES from /127.0.0.1:7000";
        assert!(names_too_many_tombstones(message));
        assert!(!names_too_many_tombstones(
            "Operation failed - received 0 responses and 1 failures: TIMEOUT"
        ));
    }
}
