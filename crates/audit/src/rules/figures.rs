//! What rules of all groups ask of patterns, and say of them in the same words and numbers.

use super::{Context, Findings, severity};
use crate::{
    number,
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::schema::{Schema, Table};

/// The application's own patterns: drivers' and tools' statements on system keyspaces are never judged.
pub(super) fn user_patterns<'a>(context: &Context<'a>) -> impl Iterator<Item = (PatternId, &'a Pattern)> {
    let patterns = context.window.patterns.iter().map(|(&id, pattern)| (id, pattern));
    patterns.filter(|(_, pattern)| !pattern.head.system)
}

/// The application's own INSERTs, UPDATEs, DELETEs and batches, but for those that the server always refused.
pub(super) fn user_writes<'a>(context: &Context<'a>) -> impl Iterator<Item = (PatternId, &'a Pattern)> {
    user_patterns(context).filter(|(_, pattern)| pattern.head.kind.is_write() && !pattern.classes.is_empty())
}

/// The table as a title writes it.
pub(super) fn table(pattern: &Pattern) -> String {
    match (&pattern.head.keyspace, &pattern.head.table) {
        (Some(keyspace), Some(table)) => format!("`{keyspace}.{table}`"),
        (None, Some(table)) => format!("`{table}`"),
        _ => "a table".to_owned(),
    }
}

/// The definition of the pattern's table, where it is known.
pub(super) fn definition<'a>(pattern: &Pattern, schema: &'a Schema) -> Option<&'a Table> {
    schema.table(pattern.head.keyspace.as_deref()?, pattern.head.table.as_deref()?)
}

/// How often an hour something happened that was counted so many times, as far as that makes a rate.
pub(super) fn per_hour(times: u64, window: &Window) -> f64 {
    times as f64 * 3_600.0 / window.seconds().max(SHORTEST_OBSERVATION)
}

/// Whether something that was counted so many times is a part of the load (`steady_per_hour` of `[severity]`).
pub(super) fn is_steady(found: &Findings<'_>, times: u64, window: &Window) -> bool {
    per_hour(times, window) >= found.severity_threshold(severity::STEADY)
}

/// The rate of a title, `, 3 a minute`; nothing where no time was observed, as of a statement that was only
/// read.
pub(super) fn often(times: u64, window: &Window) -> String {
    if window.seconds() <= 0.0 {
        return String::new();
    }
    format!(", {}", number::frequency(times, window.seconds()))
}

/// A part of a whole as JSON and titles have it, 0.0..=1.0; 0 of nothing.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// A few executions in a few seconds are no rate: shorter observations count as ten minutes.
const SHORTEST_OBSERVATION: f64 = 600.0;

/// Bytes as titles write them, in the units of the thresholds of cassandra.yaml: `5.2 KiB`.
pub(super) fn bytes(value: u64) -> String {
    let value = value as f64;
    if value >= MIB {
        format!("{} MiB", number::decimal(value / MIB))
    } else if value >= KIB {
        format!("{} KiB", number::decimal(value / KIB))
    } else {
        format!("{value} bytes")
    }
}

const KIB: f64 = 1_024.0;

const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing;

    #[test]
    fn a_few_executions_in_a_few_seconds_are_no_rate() {
        let mut window = testing::window([]);
        assert_eq!(per_hour(60, &window), 60.0);
        window.observed_seconds = 1.0;
        assert_eq!(per_hour(60, &window), 360.0);
        window.observed_seconds = 0.0;
        assert_eq!(often(60, &window), "");
    }

    #[test]
    fn bytes_have_the_units_of_the_yaml_file() {
        assert_eq!(bytes(900), "900 bytes");
        assert_eq!(bytes(5_120), "5 KiB");
        assert_eq!(bytes(3 << 20), "3 MiB");
    }
}
