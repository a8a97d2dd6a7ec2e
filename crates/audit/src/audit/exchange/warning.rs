//! What the texts of server warnings and errors say of tombstones.
//!
//! The texts are Cassandra's own (`ReadCommand`, `WarningsSnapshot`, 3.0 to 5.0); numbers are read from their
//! constant parts only. The query that they quote is never kept: it holds the client's values, and Cassandra
//! appends `ALLOW FILTERING` to it by itself.

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
