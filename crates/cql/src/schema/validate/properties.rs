//! Properties of tables: which ones there are, and which values they take (`TableAttributes`, `TableParams.validate`).

use std::borrow::Cow;

use super::{MAX_TTL, Validated, compaction, compression, is_one_of, refused};
use crate::ServerVersion;
use crate::schema::error::{SchemaError, SchemaErrorKind};
use crate::syntax::Span;
use crate::syntax::ast::{Property, PropertyValue};

/// The properties of tables, with what they take and the first version that has them.
const PROPERTIES: &[(&str, Takes, ServerVersion)] = {
    use ServerVersion::{V4_0, V6_0};
    use Takes::{Anything, Boolean, Integer, Map, Number, Policy, Text, Uuid, Word};
    &[
        ("additional_write_policy", Policy, V4_0),
        ("allow_auto_snapshot", Boolean, V4_0),
        ("auto_repair", Anything, V6_0),
        ("bloom_filter_fp_chance", Number, V4_0),
        ("caching", Map, V4_0),
        ("cdc", Boolean, V4_0),
        ("comment", Text, V4_0),
        ("compaction", Map, V4_0),
        ("compression", Map, V4_0),
        ("crc_check_chance", Number, V4_0),
        ("default_time_to_live", Integer(0), V4_0),
        ("extensions", Map, V4_0),
        ("fast_path", Word(&["keyspace", "simple", "up"]), V6_0),
        ("gc_grace_seconds", Integer(0), V4_0),
        ("id", Uuid, V4_0),
        ("incremental_backups", Boolean, V4_0),
        ("max_index_interval", Integer(1), V4_0),
        ("memtable", Text, V4_0),
        ("memtable_flush_period_in_ms", Integer(0), V4_0),
        ("min_index_interval", Integer(1), V4_0),
        ("pending_drop", Anything, V6_0),
        ("read_repair", Word(&["none", "blocking"]), V4_0),
        ("speculative_retry", Policy, V4_0),
        ("transactional_migration_from", Anything, V6_0),
        ("transactional_mode", Word(MODES), V6_0),
    ]
};

/// `TransactionalMode`
const MODES: &[&str] = &[
    "off",
    "mixed_reads",
    "full",
    "test_unsafe_writes",
    "test_unsafe",
    "test_interop_read",
];

/// What a property takes.
#[derive(Debug, Clone, Copy)]
enum Takes {
    /// A map; what is in it is checked elsewhere.
    Map,
    Boolean,
    /// Not less than that.
    Integer(i32),
    /// Checked elsewhere.
    Number,
    Text,
    Uuid,
    /// `99p`, `50ms`, `MIN(99p, 50ms)`, `ALWAYS`, `NEVER`
    Policy,
    /// One of these, in any case.
    Word(&'static [&'static str]),
    Anything,
}

/// `BloomCalculations.minSupportedBloomFilterFpChance`
const MIN_FP_CHANCE: f64 = 6.71e-5;

/// `TableParams.DEFAULT_MIN_INDEX_INTERVAL` and `DEFAULT_MAX_INDEX_INTERVAL`
const INDEX_INTERVALS: [f64; 2] = [128.0, 2048.0];

/// Refuses properties that a table cannot have.
pub(super) fn of_table(options: &[Property<'_>], version: ServerVersion) -> Validated {
    for option in options {
        let name = option.name.as_str();
        let known = PROPERTIES
            .iter()
            .find(|(known, _, since)| *known == name && *since <= version);
        match known {
            Some((_, takes, _)) => check(option, *takes, version)?,
            None => return Err(unknown(option)),
        }
    }
    let intervals = ["min_index_interval", "max_index_interval"].map(|name| number_of(options, name));
    let [min, max] = [0, 1].map(|end| intervals[end].map_or(INDEX_INTERVALS[end], |(_, number)| number));
    match intervals[1].or(intervals[0]) {
        Some((place, _)) if max < min => Err(refused(
            place,
            format!(
                "max_index_interval must be greater than or equal to min_index_interval ({min}) (got {max})"
            ),
        )),
        _ => Ok(()),
    }
}

/// The names of all properties of tables.
pub fn table_properties() -> impl Iterator<Item = &'static str> {
    PROPERTIES.iter().map(|(name, ..)| *name)
}

pub(super) fn unknown(option: &Property<'_>) -> SchemaError {
    SchemaError {
        kind: SchemaErrorKind::PropertyUnknown(option.name.as_str().to_owned()),
        span: option.name.span,
    }
}

fn check(option: &Property<'_>, takes: Takes, version: ServerVersion) -> Validated {
    let name = option.name.as_str();
    match takes {
        Takes::Anything => Ok(()),
        Takes::Map => match &option.value {
            PropertyValue::Map(entries) => match name {
                "caching" => check_caching(entries),
                "compaction" => compaction::check(option, entries),
                "compression" => compression::check(option, entries, version),
                _ => Ok(()),
            },
            _ => Err(no_map(option)),
        },
        Takes::Boolean => check_boolean(option),
        Takes::Text => text(option).map(drop),
        Takes::Integer(least) => check_integer(option, least),
        Takes::Number => check_share(option),
        Takes::Uuid => {
            let text = text(option)?;
            let is_uuid =
                text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
            match is_uuid {
                true => Ok(()),
                false => Err(refused(option.name.span, "Invalid table id")),
            }
        }
        Takes::Policy => match is_policy(&text(option)?) {
            true => Ok(()),
            false => Err(refused(
                option.name.span,
                format!("Invalid value {} for option '{name}'", text(option)?),
            )),
        },
        Takes::Word(words) => {
            let text = text(option)?;
            match is_one_of(&text, words) {
                true => Ok(()),
                false => Err(refused(
                    option.name.span,
                    format!("Invalid value {text} for option '{name}'"),
                )),
            }
        }
    }
}

/// The value of a property that is no map.
fn text<'o>(option: &'o Property<'_>) -> Validated<Cow<'o, str>> {
    match &option.value {
        PropertyValue::Literal(literal) => Ok(literal.decoded()),
        PropertyValue::Word(word) => Ok(Cow::Borrowed(word.as_str())),
        PropertyValue::Map(_) | PropertyValue::Indexes(_) => Err(refused(
            option.name.span,
            format!(
                "Invalid value for property '{}'. It should be a string",
                option.name
            ),
        )),
    }
}

pub(super) fn no_map(option: &Property<'_>) -> SchemaError {
    refused(
        option.name.span,
        format!(
            "Invalid value for property '{}'. It should be a map.",
            option.name
        ),
    )
}

pub(super) fn check_boolean(option: &Property<'_>) -> Validated {
    let text = text(option)?;
    match is_one_of(&text, &["true", "1", "yes", "false", "0", "no"]) {
        true => Ok(()),
        false => Err(refused(
            option.name.span,
            format!(
                "Invalid boolean value {text} for '{}'. Positive values can be '1', 'true' or 'yes'. Negative values can be '0', \
                 'false' or 'no'.",
                option.name
            ),
        )),
    }
}

fn check_integer(option: &Property<'_>, least: i32) -> Validated {
    let (name, text) = (&option.name, text(option)?);
    let message = match text.parse::<i32>() {
        Err(_) => format!("Invalid integer value {text} for '{name}'"),
        Ok(number) if number < least => {
            format!("{name} must be greater than or equal to {least} (got {number})")
        }
        Ok(number) if name.as_str() == "default_time_to_live" && number > MAX_TTL => {
            format!("default_time_to_live must be less than or equal to {MAX_TTL} (got {number})")
        }
        Ok(_) => return Ok(()),
    };
    Err(refused(name.span, message))
}

/// A probability; one of false positives cannot be as low as one likes.
fn check_share(option: &Property<'_>) -> Validated {
    let (name, text) = (&option.name, text(option)?);
    let is_of_filter = name.as_str() == "bloom_filter_fp_chance";
    let message = match text.parse::<f64>() {
        Err(_) => format!("Invalid double value {text} for '{name}'"),
        Ok(share) if is_of_filter && !(share > MIN_FP_CHANCE && share <= 1.0) => {
            format!("{name} must be larger than 6.71E-5 and less than or equal to 1.0 (got {share})")
        }
        Ok(share) if !is_of_filter && !(0.0..=1.0).contains(&share) => {
            format!("{name} must be larger than or equal to 0 and smaller than or equal to 1.0 (got {share})")
        }
        Ok(_) => return Ok(()),
    };
    Err(refused(name.span, message))
}

/// `SpeculativeRetryPolicy.fromString`
fn is_policy(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let both = ["min(", "max("]
        .iter()
        .find_map(|function| text.strip_prefix(function));
    match both
        .and_then(|rest| rest.strip_suffix(')'))
        .and_then(|inner| inner.split_once(','))
    {
        // One of each kind.
        Some((first, second)) => match (delay(first.trim()), delay(second.trim())) {
            (Some(first), Some(second)) => first != second,
            _ => false,
        },
        None => matches!(text.as_str(), "always" | "never" | "none") || delay(&text).is_some(),
    }
}

/// How long a coordinator waits before it asks another replica.
#[derive(PartialEq, Eq)]
enum Delay {
    /// `99p`, `99.9percentile`
    Percentile,
    /// `50ms`
    Fixed,
}

fn delay(text: &str) -> Option<Delay> {
    let percentile = text.strip_suffix("percentile").or_else(|| text.strip_suffix('p'));
    let number = |text: &str| text.parse::<f64>().ok();
    match percentile {
        Some(percent) => {
            let percent = number(percent)?;
            (percent > 0.0 && percent < 100.0).then_some(Delay::Percentile)
        }
        None => {
            let milliseconds = number(text.strip_suffix("ms")?)?;
            (milliseconds >= 0.0).then_some(Delay::Fixed)
        }
    }
}

/// `CachingParams.fromMap`
fn check_caching(entries: &[compaction::SubOption<'_>]) -> Validated {
    for (key, value) in entries {
        let text = value.decoded();
        let is_all_or_none = is_one_of(&text, &["all", "none"]);
        let message = match &*key.decoded() {
            "keys" if !is_all_or_none => {
                format!(
                    "Invalid value '{text}' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed"
                )
            }
            "rows_per_partition" if !is_all_or_none && text.parse::<u32>().is_err() => format!(
                "Invalid value '{text}' for caching sub-option 'rows_per_partition': only 'ALL', 'NONE', and integer values are \
                 allowed"
            ),
            "keys" | "rows_per_partition" => continue,
            other => format!(
                "Invalid caching sub-options [{other}]: only 'keys' and 'rows_per_partition' are allowed"
            ),
        };
        return Err(refused(key.span, message));
    }
    Ok(())
}

/// The number that a property has, and where it stands.
pub(super) fn number_of(options: &[Property<'_>], name: &str) -> Option<(Span, f64)> {
    let option = options.iter().find(|option| option.name.as_str() == name)?;
    let number = text(option).ok()?.parse().ok()?;
    Some((option.name.span, number))
}
