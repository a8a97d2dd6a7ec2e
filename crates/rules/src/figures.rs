//! What rules of all groups ask of patterns, and say of them in the same words and numbers.

use super::{Context, Findings, severity, watch::WatchedTime};
use cqlens_cql::{
    plan::Flag,
    schema::{Schema, Table},
};
use cqlens_window::{Pattern, PatternId, number};

/// The application's own patterns: drivers' and tools' statements on system keyspaces are never judged.
pub(super) fn user_patterns<'a>(context: &Context<'a>) -> impl Iterator<Item = (PatternId, &'a Pattern)> {
    let patterns = context.window.patterns.iter().map(|(&id, pattern)| {
        context.count_steps(1);
        (id, pattern)
    });
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

/// The tables of a batch or a transaction, as a title writes them.
pub(super) fn tables(pattern: &Pattern) -> String {
    if pattern.is(Flag::SeveralTables) {
        format!("{} and other tables", table(pattern))
    } else {
        table(pattern)
    }
}

/// `12 partitions (p99)`.
pub(super) fn partitions(pattern: &Pattern) -> String {
    let partitions = &pattern.partitions;
    let p99 = if partitions.count() > 1 { " (p99)" } else { "" };
    format!(
        "{}{p99}",
        number::plural(partitions.quantile(0.99), "partition", "partitions")
    )
}

/// The definition of the pattern's table, where it is known.
pub(super) fn definition<'a>(pattern: &Pattern, schema: &'a Schema) -> Option<&'a Table> {
    schema.table(pattern.head.keyspace.as_deref()?, pattern.head.table.as_deref()?)
}

/// How often an hour something happened that was counted so many times: what severities go by, and the same as titles
/// say ([`often`]). A handful makes no load, and a moment that of a minute.
pub(super) fn per_hour(times: u64, watch: impl Into<WatchedTime>) -> f64 {
    number::load(times, watch.into().seconds()).unwrap_or_default() * 3_600.0
}

/// Whether something that was counted so many times is a part of the load (`steady_per_hour` of `[severity]`).
pub(super) fn is_steady(found: &Findings<'_>, times: u64, watch: impl Into<WatchedTime>) -> bool {
    per_hour(times, watch) >= found.severity_threshold(severity::STEADY)
}

/// The rate of a title, `, 3 a minute`, or the count where it makes none; nothing where no time was observed, as of a
/// statement that was only read.
pub(super) fn often(times: u64, watch: impl Into<WatchedTime>) -> String {
    let seconds = watch.into().seconds();
    if seconds <= 0.0 {
        return String::new();
    }
    format!(", {}", number::frequency(times, seconds))
}

/// The same where the title has said the count: `, 3 a minute`, or ` in 20 s`.
pub(super) fn at_rate(times: u64, watch: impl Into<WatchedTime>) -> String {
    let seconds = watch.into().seconds();
    match number::per_second(times, seconds) {
        Some(rate) => format!(", {}", number::rate(rate)),
        None if seconds > 0.0 => format!(" in {}", number::seconds(seconds)),
        None => String::new(),
    }
}

/// A part of a whole as JSON and titles have it, 0.0..=1.0; 0 of nothing.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

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
    use crate::{Settings, testing};

    #[test]
    fn title_and_severity_go_by_the_same_figure() {
        let mut window = testing::window([]);
        let mut of = |times, seconds| {
            window.observed_seconds = seconds;
            (per_hour(times, &window), often(times, &window))
        };
        assert_eq!(of(60, 3_600.0), (60.0, ", 1 a minute".to_owned()));
        assert_eq!(of(10, 600.0), (60.0, ", 1 a minute".to_owned()));
        assert_eq!(of(9, 540.0), (0.0, ", 9 times in 9 min".to_owned()), "a handful");
        // Nobody knows what comes before and after a second.
        assert_eq!(of(60, 1.0), (3_600.0, ", 60 times in 1 s".to_owned()));
        assert_eq!(of(60, 0.0), (0.0, String::new()));
    }

    #[test]
    fn a_count_is_not_said_twice() {
        let mut window = testing::window([]);
        assert_eq!(at_rate(60, &window), ", 1 a minute");
        assert_eq!(at_rate(9, &window), " in 1 h");
        window.observed_seconds = 20.0;
        assert_eq!(at_rate(60, &window), " in 20 s");
        window.observed_seconds = 0.0;
        assert_eq!(at_rate(60, &window), "");
    }

    #[test]
    fn steady_is_what_comes_once_a_minute_and_more_than_a_handful_of_times() {
        let settings = Settings::default();
        let found = Findings::new(&settings);
        let mut window = testing::window([]);
        let mut steady = |times, seconds| {
            window.observed_seconds = seconds;
            is_steady(&found, times, &window)
        };
        assert!(steady(60, 3_600.0) && steady(10, 600.0) && steady(10, 5.0));
        assert!(!steady(59, 3_600.0) && !steady(9, 5.0));
    }

    #[test]
    fn bytes_have_the_units_of_the_yaml_file() {
        assert_eq!(bytes(900), "900 bytes");
        assert_eq!(bytes(5_120), "5 KiB");
        assert_eq!(bytes(3 << 20), "3 MiB");
    }
}
