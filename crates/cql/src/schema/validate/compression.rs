//! The property `compression` (`CompressionParams`).

use super::compaction::SubOption;
use super::{Validated, is_of_a_jar, refused};
use crate::ServerVersion;
use crate::syntax::ast::{Literal, Property};

const OF_ALL: &[&str] = &["class", "enabled", "chunk_length_in_kb", "min_compress_ratio"];
/// What they were called before; servers of 4 still read it.
const OF_OLD: &[&str] = &["sstable_compression", "chunk_length_kb", "crc_check_chance"];

/// `ZstdCompressor.FAST_COMPRESSION_LEVEL` to `BEST_COMPRESSION_LEVEL`
const ZSTD_LEVELS: std::ops::RangeInclusive<i64> = -131_072..=22;

pub(super) fn check(option: &Property<'_>, entries: &[SubOption<'_>], version: ServerVersion) -> Validated {
    let find = |name: &str| {
        entries
            .iter()
            .find(|(key, _)| key.decoded() == name)
            .map(|(_, value)| value)
    };
    let is_disabled = find("enabled").is_some_and(|value| value.decoded().eq_ignore_ascii_case("false"));
    if is_disabled && entries.len() > 1 {
        return Err(refused(
            option.name.span,
            "If the 'enabled' option is set to false no other options must be specified",
        ));
    }
    let reads_old = version < ServerVersion::V5_0;
    let old = find("sstable_compression").filter(|_| reads_old);
    if entries.is_empty() || is_disabled || old.is_some_and(|class| class.decoded().is_empty()) {
        return Ok(());
    }
    let Some(class) = find("class").or(old) else {
        return Err(refused(
            option.name.span,
            "Missing sub-option 'class' for the 'compression' option.",
        ));
    };
    let text = class.decoded();
    let compressor = text
        .strip_prefix("org.apache.cassandra.io.compress.")
        .unwrap_or(&text);
    let own: &[&str] = match compressor {
        "ZstdCompressor" => &["compression_level"],
        "LZ4Compressor" => &["lz4_compressor_type", "lz4_high_compressor_level"],
        "SnappyCompressor" | "DeflateCompressor" | "NoopCompressor" => &[],
        _ if is_of_a_jar(&text) => return Ok(()),
        compressor => {
            return Err(refused(
                class.span,
                format!(
                    "Could not create Compression for type org.apache.cassandra.io.compress.{compressor}"
                ),
            ));
        }
    };
    for (key, value) in entries {
        let name = key.decoded();
        let known = [OF_ALL, own, if reads_old { OF_OLD } else { &[] }];
        if !known.iter().any(|names| names.contains(&&*name)) {
            return Err(refused(key.span, format!("Unknown compression options {name}")));
        }
        check_value(&name, value)?;
    }
    Ok(())
}

fn check_value(name: &str, value: &Literal<'_>) -> Validated {
    let text = value.decoded();
    let number = text.parse::<i64>();
    let message = match name {
        "chunk_length_in_kb" | "chunk_length_kb" => match number {
            Err(_) => format!("Invalid value for {name}"),
            Ok(..=0) => format!("Invalid negative or null {name}"),
            Ok(length) if length & (length - 1) != 0 => format!("{name} must be a power of 2"),
            Ok(_) => return Ok(()),
        },
        "min_compress_ratio" if text.parse::<f64>().is_ok_and(|ratio| ratio != 0.0 && ratio < 1.0) => {
            "min_compress_ratio can either be 0 or greater than or equal to 1".to_owned()
        }
        "compression_level" if !number.as_ref().is_ok_and(|level| ZSTD_LEVELS.contains(level)) => {
            format!("compression_level={text} is invalid")
        }
        "lz4_compressor_type" if !["fast", "high"].contains(&&*text) => {
            format!("Invalid compressor type '{text}' specified for LZ4 parameter 'lz4_compressor_type'.")
        }
        _ => return Ok(()),
    };
    Err(refused(value.span, message))
}
