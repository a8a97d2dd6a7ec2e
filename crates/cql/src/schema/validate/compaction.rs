//! The property `compaction` (`CompactionParams`, the strategies' `validateOptions`).

use super::{Validated, is_of_a_jar, is_one_of, refused};
use crate::syntax::ast::{Literal, Property};

/// One of a map's.
pub(super) type SubOption<'text> = (Literal<'text>, Literal<'text>);

/// What every strategy has.
const OF_ALL: &[&str] = &[
    "class",
    "enabled",
    "log_all",
    "only_purge_repaired_tombstones",
    "provide_overlapping_tombstones",
    "tombstone_compaction_interval",
    "tombstone_threshold",
    "unchecked_tombstone_compaction",
];
/// `SizeTieredCompactionStrategyOptions`, which the levels and windows have as well.
const OF_SIZES: &[&str] = &[
    "bucket_high",
    "bucket_low",
    "max_threshold",
    "min_sstable_size",
    "min_threshold",
];
/// `LeveledCompactionStrategy`
const OF_LEVELS: &[&str] = &["fanout_size", "single_sstable_uplevel", "sstable_size_in_mb"];
/// `unified.Controller`
const OF_UNIFIED: &[&str] = &[
    "base_shard_count",
    "expired_sstable_check_frequency_seconds",
    "flush_size_override",
    "max_sstables_to_compact",
    "min_sstable_size",
    "overlap_inclusion_method",
    "scaling_parameters",
    "sstable_growth",
    "target_sstable_size",
    "unsafe_aggressive_sstable_expiration",
];
/// `TimeWindowCompactionStrategyOptions`
const OF_WINDOWS: &[&str] = &[
    "compaction_window_size",
    "compaction_window_unit",
    "expired_sstable_check_frequency_seconds",
    "timestamp_resolution",
    "unsafe_aggressive_sstable_expiration",
];

const WINDOW_UNITS: &[&str] = &["MINUTES", "HOURS", "DAYS"];
/// `java.util.concurrent.TimeUnit`
const TIME_UNITS: &[&str] = &[
    "NANOSECONDS",
    "MICROSECONDS",
    "MILLISECONDS",
    "SECONDS",
    "MINUTES",
    "HOURS",
    "DAYS",
];

const BOOLEANS: &[&str] = &[
    "enabled",
    "log_all",
    "unchecked_tombstone_compaction",
    "unsafe_aggressive_sstable_expiration",
];

pub(super) fn check(option: &Property<'_>, entries: &[SubOption<'_>]) -> Validated {
    let class = entries.iter().find(|(key, _)| key.decoded() == "class");
    let Some((_, class)) = class else {
        return Err(refused(
            option.name.span,
            "Missing sub-option 'class' for the 'compaction' option",
        ));
    };
    let text = class.decoded();
    let strategy = text
        .strip_prefix("org.apache.cassandra.db.compaction.")
        .unwrap_or(&text);
    let own: &[&[&str]] = match strategy {
        "SizeTieredCompactionStrategy" => &[OF_ALL, OF_SIZES],
        "LeveledCompactionStrategy" => &[OF_ALL, OF_SIZES, OF_LEVELS],
        "TimeWindowCompactionStrategy" => &[OF_ALL, OF_SIZES, OF_WINDOWS],
        "UnifiedCompactionStrategy" => &[OF_ALL, OF_UNIFIED],
        _ if is_of_a_jar(&text) => return Ok(()),
        strategy => {
            return Err(refused(
                class.span,
                format!(
                    "Unable to find compaction strategy class 'org.apache.cassandra.db.compaction.{strategy}'"
                ),
            ));
        }
    };
    for (key, value) in entries {
        let name = key.decoded();
        if !own.iter().any(|names| names.contains(&&*name)) {
            return Err(refused(
                key.span,
                format!("Properties specified [{name}] are not understood by {strategy}"),
            ));
        }
        // Those of shards are sizes with units.
        if strategy != "UnifiedCompactionStrategy" {
            check_value(&name, value)?;
        }
    }
    check_thresholds(entries)?;
    check_buckets(entries)?;
    check_scaling(entries)
}

fn check_value(name: &str, value: &Literal<'_>) -> Validated {
    let text = value.decoded();
    let (integer, number) = (text.parse::<i64>(), text.parse::<f64>());
    let message = match name {
        name if BOOLEANS.contains(&name) && !is_one_of(&text, &["true", "false"]) => {
            format!("{name} should either be 'true' or 'false', not {text}")
        }
        "min_threshold" | "max_threshold" if integer.is_err() => {
            format!("Invalid value {text} for '{name}' compaction sub-option - must be an integer")
        }
        "compaction_window_unit" if !WINDOW_UNITS.contains(&&*text) => {
            format!("{text} is not valid for compaction_window_unit")
        }
        "compaction_window_size" if integer.as_ref().is_ok_and(|size| *size < 1) => {
            format!("{text} must be greater than 1 for compaction_window_size")
        }
        "sstable_size_in_mb" | "fanout_size" if integer.as_ref().is_ok_and(|size| *size < 1) => {
            format!("{name} must be larger than 0, but was {text}")
        }
        "compaction_window_size"
        | "sstable_size_in_mb"
        | "fanout_size"
        | "min_sstable_size"
        | "tombstone_compaction_interval"
        | "expired_sstable_check_frequency_seconds"
            if integer.is_err() =>
        {
            format!("{text} is not a parsable int (base10) for {name}")
        }
        "tombstone_threshold" | "bucket_low" | "bucket_high" if number.is_err() => {
            format!("{text} is not a parsable float for {name}")
        }
        "tombstone_threshold" | "tombstone_compaction_interval"
            if number.as_ref().is_ok_and(|number| *number < 0.0) =>
        {
            format!("{name} must be greater than 0, but was {text}")
        }
        "min_sstable_size" if integer.as_ref().is_ok_and(|size| *size < 0) => {
            format!("min_sstable_size must be non negative: {text}")
        }
        "provide_overlapping_tombstones" if !is_one_of(&text, &["NONE", "ROW", "CELL"]) => format!(
            "Invalid value {text} for 'provide_overlapping_tombstones' compaction sub-option - must be one of the following [NONE, \
             ROW, CELL]."
        ),
        "timestamp_resolution" if !TIME_UNITS.contains(&&*text) => {
            format!("{text} is not valid for timestamp_resolution")
        }
        _ => return Ok(()),
    };
    Err(refused(value.span, message))
}

/// `CompactionParams.validate`: at least two, and the upper end not below the lower one.
fn check_thresholds(entries: &[SubOption<'_>]) -> Validated {
    let [min, max] = [("min_threshold", 4.0), ("max_threshold", 32.0)]
        .map(|(name, default)| number(entries, name, default));
    let message = match (min.1, max.1) {
        (min, max) if max <= 0.0 || min <= 0.0 => {
            "Disabling compaction by setting min_threshold or max_threshold to 0 has been removed, set the compaction option \
             'enabled' to false instead."
                .to_owned()
        }
        (min, _) if min < 2.0 => format!("Min compaction threshold cannot be less than 2 (got {min})"),
        (min, max) if min > max => format!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
        ),
        _ => return Ok(()),
    };
    Err(refused(
        min.0
            .or(max.0)
            .map_or_else(Default::default, |literal| literal.span),
        message,
    ))
}

fn check_buckets(entries: &[SubOption<'_>]) -> Validated {
    let [low, high] =
        [("bucket_low", 0.5), ("bucket_high", 1.5)].map(|(name, default)| number(entries, name, default));
    match low.0.or(high.0) {
        Some(place) if high.1 <= low.1 => Err(refused(
            place.span,
            format!(
                "bucket_high value ({}) is less than or equal to the bucket_low value ({})",
                high.1, low.1
            ),
        )),
        _ => Ok(()),
    }
}

/// A sub-option's number, and where it stands if it is not the default.
fn number<'e, 'text>(
    entries: &'e [SubOption<'text>],
    name: &str,
    default: f64,
) -> (Option<&'e Literal<'text>>, f64) {
    let entry = entries.iter().find(|(key, _)| key.decoded() == name);
    match entry {
        Some((_, value)) => (Some(value), value.decoded().parse().unwrap_or(default)),
        None => (None, default),
    }
}

/// `UnifiedCompactionStrategy`: `T4, L10, N, -2` for the levels.
fn check_scaling(entries: &[SubOption<'_>]) -> Validated {
    let scaling = entries
        .iter()
        .find(|(key, _)| key.decoded() == "scaling_parameters");
    let Some((_, scaling)) = scaling else {
        return Ok(());
    };
    let text = scaling.decoded();
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_parameter = |parameter: &str| match parameter.as_bytes() {
        b"N" => true,
        [b'T' | b'L' | b'+' | b'-', ..] => is_number(&parameter[1..]),
        _ => is_number(parameter),
    };
    match text
        .split(',')
        .map(str::trim)
        .find(|parameter| !is_parameter(parameter))
    {
        None => Ok(()),
        Some(parameter) => Err(refused(
            scaling.span,
            format!("Scaling parameter {parameter} must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+"),
        )),
    }
}
