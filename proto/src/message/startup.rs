//! STARTUP (v5 §4.1.1): the first message of a connection, which describes the client.
//!
//! Options mean what Cassandra takes them for, since a client may write them as it likes: keys are the same in
//! any case, and of a key that comes several times the last one counts.

mod scan;

pub(crate) use self::scan::StartupScan;
use crate::compress::Compression;
use crate::cursor::{Cursor, Writer};
use crate::envelope::Version;
use crate::error::{DecodeError, EncodeError};
use crate::notation;

/// STARTUP: `[string map]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Startup<'a> {
    /// Keys and values in the order of the body, such as `CQL_VERSION`, `COMPRESSION`, `DRIVER_NAME`,
    /// `CLIENT_ID`.
    pub options: Vec<(&'a str, &'a str)>,
}

impl<'a> Startup<'a> {
    /// The value of an option, whose key is in capitals here.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.values(key).next_back()
    }

    fn values(&self, key: &str) -> impl DoubleEndedIterator<Item = &'a str> {
        let is_meant = move |(its_key, _): &&(&str, &str)| is_key(its_key, key);
        self.options.iter().filter(is_meant).map(|(_, value)| *value)
    }

    /// The compression that a connection of `version` will use, if the server accepts it.
    pub fn compression(&self, version: Version) -> Compression {
        let named = self.values(COMPRESSION).map(Compression::from_name);
        named.fold(Compression::None, |before, named| {
            overrule(before, named, version)
        })
    }

    /// Reads a body that has nothing before the message.
    ///
    /// # Errors
    /// A body that is not a `[string map]`.
    pub(crate) fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let count = cursor.read("number of options", notation::short)?;
        let mut option = |_| {
            Ok((
                cursor.read("option", notation::string)?,
                cursor.read("option value", notation::string)?,
            ))
        };
        Ok(Startup {
            options: (0..count).map(&mut option).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.short_count("options", self.options.len())?;
        for (key, value) in &self.options {
            writer.string("option", key)?;
            writer.string("option value", value)?;
        }
        Ok(())
    }
}

const COMPRESSION: &str = "COMPRESSION";

/// Whether a client's `key` is the option whose key is `option`, in capitals.
fn is_key(key: &str, option: &str) -> bool {
    key.chars().flat_map(char::to_uppercase).eq(option.chars())
}

/// The compression after one more option names one. A name that the server refuses overrules nothing: it is
/// not the one that counts where the server has accepted the STARTUP. Which one counts of keys in several
/// cases only the server knows.
fn overrule(before: Compression, named: Compression, version: Version) -> Compression {
    match named {
        Compression::None => before,
        Compression::Snappy if version.uses_segments() => before,
        named => named,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::BytesMut;

    use super::*;
    use crate::envelope::{Envelope, Flags, StreamId};
    use crate::message::{Dialect, Extras, Request};

    fn envelope(version: Version, options: &[(&'static str, &'static str)], extras: &Extras<'_>) -> Envelope {
        let options = options.to_vec();
        let request = Request::Startup(Startup { options });
        request
            .to_envelope(Dialect::new(version), StreamId(1), extras)
            .unwrap()
    }

    /// What a scan of the body, in parts of so many bytes, finds.
    fn scanned(envelope: &Envelope, part: usize) -> Option<Compression> {
        let mut scan = StartupScan::new(envelope.header);
        envelope.body.chunks(part).for_each(|part| scan.add(part));
        assert!(scan.is_done());
        scan.compression()
    }

    #[test]
    fn options_are_those_that_cassandra_reads() {
        use Compression::{Lz4, None, Snappy};
        let (v4, v5) = (Version::V4, Version::V5);
        let cases: [(_, &[_], _); 11] = [
            (v4, &[], None),
            (v4, &[("CQL_VERSION", "3.0.0"), ("COMPRESSION", "LZ4")], Lz4),
            (v5, &[("compression", "lz4")], Lz4),
            (v4, &[("Compression", "snappy"), ("X", "")], Snappy),
            // The long s and the sharp s have the capitals S and SS.
            (v4, &[("compre\u{17f}\u{17f}ion", "lz4")], Lz4),
            (v4, &[("compre\u{df}ion", "lz4")], Lz4),
            (v4, &[("COMPRESSION", "snappy"), ("COMPRESSION", "lz4")], Lz4),
            (v4, &[("COMPRESSION", "lz4"), ("COMPRESSION", "snappy")], Snappy),
            // No server accepts the other one.
            (v5, &[("COMPRESSION", "lz4"), ("compression", "snappy")], Lz4),
            (v4, &[("COMPRESSION", "lz4"), ("compression", "none")], Lz4),
            (
                v4,
                &[("", ""), ("COMPRESSIONS", "lz4"), ("DRIVER_NAME", "lz4")],
                None,
            ),
        ];
        let payload = Extras {
            custom_payload: vec![
                ("COMPRESSION", Some(b"lz4")),
                ("", Option::None),
                ("k", Some(b"")),
            ],
            ..Extras::default()
        };
        for (version, options, compression) in cases {
            let startup = Startup {
                options: options.to_vec(),
            };
            assert_eq!(startup.compression(version), compression, "{options:?}");
            for extras in [&Extras::default(), &payload] {
                let envelope = envelope(version, options, extras);
                for part in [1, 3, 1_000] {
                    assert_eq!(scanned(&envelope, part), Some(compression), "{options:?}");
                }
            }
        }
    }

    #[test]
    fn any_option_is_found_in_any_case_and_the_last_one_counts() {
        let options = vec![("application_name", "first"), ("APPLICATION_NAME", "last")];
        assert_eq!(Startup { options }.get("APPLICATION_NAME"), Some("last"));
    }

    #[test]
    fn a_long_startup_is_read_without_being_kept() {
        let long: &'static str = "x".repeat(60_000).leak();
        let mut options = vec![("COMPRESSION", "snappy"), (long, "1"), ("DRIVER_NAME", long)];
        options.extend(vec![("compression", "lz4"); 10_000]);
        let envelope = envelope(Version::V4, &options, &Extras::default());
        for part in [7, 1_400, 1 << 20] {
            assert_eq!(scanned(&envelope, part), Some(Compression::Lz4));
        }
    }

    #[test]
    fn a_body_that_ends_early_names_nothing() {
        let mut envelope = envelope(Version::V4, &[("COMPRESSION", "lz4")], &Extras::default());
        for length in 0..envelope.body.len() {
            let mut cut = envelope.clone();
            cut.body.truncate(length);
            cut.header.body_len = u32::try_from(length).unwrap();
            assert_eq!(scanned(&cut, 5), None, "{length}");
        }
        // Bytes behind the options mean nothing.
        let mut longer = BytesMut::from(&envelope.body[..]);
        longer.extend_from_slice(b"\0\x01");
        envelope.header.body_len += 2;
        envelope.body = longer.freeze();
        assert_eq!(scanned(&envelope, 5), Some(Compression::Lz4));
        envelope.header.flags = Flags::CUSTOM_PAYLOAD;
        assert_eq!(scanned(&envelope, 5), None);
    }
}
