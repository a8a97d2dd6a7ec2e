//! A window with the schema under which it was seen, as one versioned JSON document.
//!
//! The schema is carried as CQL text, so that a report needs nothing but snapshots and a reader can see what
//! was in force.
//!
//! A version is a promise to readers: fields may be added with a default, none is renamed or removed and none
//! changes its meaning. Anything else is another version, and the one before is still read. The files in
//! `tests/golden` hold every version to that.

mod plausible;

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};

use cqlens_cql::Product;
use flate2::read::GzDecoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Window, sketch::meter};
use plausible::Implausible;

/// The format's name and version, the first field of every snapshot.
const FORMAT: &str = "cqlens.snapshot.v1";

/// What the names of all versions begin with; their numbers follow.
const ANY_VERSION: &str = "cqlens.snapshot.v";

/// What a snapshot file holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Always `cqlens.snapshot.v1`.
    pub format: String,
    /// The version of cqlens that wrote it.
    pub version: String,
    /// What was seen.
    pub window: Window,
    /// The cluster, as far as known.
    pub cluster: Cluster,
    /// The schema in force at the end of the window, as CQL statements; empty where it is not known.
    pub schema: String,
    /// Tells windows whose partition hashes compare from those with another key: a hash of the key.
    pub key_id: String,
    /// When the windows began that had files of their own and were merged into this one, the first left out. A
    /// snapshot of the same source that begins then is counted here. Empty where nothing was merged.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "meter::list"
    )]
    pub parts: Vec<Timestamp>,
}

/// Facts about the observed cluster, from `system.local` and `system.peers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Cluster {
    /// The cluster's name.
    pub name: Option<String>,
    /// The coordinator's `release_version`.
    pub release_version: Option<String>,
    /// Whose software the coordinator runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<Product>,
    /// The version of that software, if it is not `release_version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_version: Option<String>,
    /// The partitioner's class name without its package.
    pub partitioner: Option<String>,
    /// The number of nodes, the coordinator included.
    pub nodes: Option<usize>,
    /// The number of nodes in each datacenter, without nodes whose datacenter is unknown.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "meter::map")]
    pub data_centers: BTreeMap<String, usize>,
    /// Whether the demo's embedded node responded: its latencies say nothing about a cluster.
    #[serde(skip_serializing_if = "is_false")]
    pub is_embedded: bool,
}

impl Cluster {
    /// Product and version as people say them, `ScyllaDB 6.2.0`; none where the version is not known.
    pub fn software(&self) -> Option<String> {
        let version = self.product_version.as_ref().or(self.release_version.as_ref())?;
        match self.product {
            Some(product) => Some(format!("{} {version}", product.name())),
            // What ScyllaDB calls itself where nobody looked closer.
            None if version == "3.0.8" => Some("Cassandra 3.0.8 or ScyllaDB".to_owned()),
            None => Some(format!("{} {version}", Product::Cassandra.name())),
        }
    }

    /// Takes over what `later` knows.
    pub fn update(&mut self, later: Self) {
        self.name = later.name.or(self.name.take());
        self.release_version = later.release_version.or(self.release_version.take());
        self.product = later.product.or(self.product);
        self.product_version = later.product_version.or(self.product_version.take());
        self.partitioner = later.partitioner.or(self.partitioner.take());
        self.nodes = later.nodes.or(self.nodes);
        if !later.data_centers.is_empty() {
            self.data_centers = later.data_centers;
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Why a snapshot could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The text is no snapshot of this format.
    #[error("not a cqlens snapshot: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A snapshot of a later version.
    #[error(
        "the snapshot has the format {0:?}, which a later version of cqlens wrote; this one reads {FORMAT:?}: read it with \
         that version"
    )]
    LaterFormat(String),
    /// Something else than a snapshot.
    #[error("unknown snapshot format {0:?}, this version reads {FORMAT:?}")]
    UnknownFormat(String),
    /// A count that no traffic has, at this path: the file is damaged, or made up.
    #[error("the snapshot is damaged: no traffic has as much as {0} says")]
    Implausible(String),
    /// Counts that do not add up, see [`Coverage::check`](super::Coverage::check).
    #[error("the snapshot is damaged: its coverage does not add up ({0})")]
    Sums(String),
    /// More than is read again.
    #[error("snapshot larger than {MAX_BYTES} bytes")]
    TooLarge,
}

/// The largest snapshot that is written or read. A window of
/// [`Limits::MOST_BYTES`](super::Limits::MOST_BYTES) stays below: numbers and histograms take up less as text
/// than in memory, and names are a small part.
const MAX_BYTES: u64 = 512 << 20;

/// What is made of it in memory, at most: a few characters may stand for a histogram of 50 KiB.
const MAX_MEMORY: u64 = 512 << 20;

/// A longer schema is neither written nor taken from a document: 20,000 tables take less.
const MAX_SCHEMA: usize = 32 << 20;

impl Snapshot {
    /// A snapshot of `window`.
    pub fn new(mut window: Window, cluster: Cluster, mut schema: String, key_id: String) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        leave_out_too_large(&mut schema, &mut window);
        Self {
            format: FORMAT.to_owned(),
            version,
            window,
            cluster,
            schema,
            key_id,
            parts: Vec::new(),
        }
    }

    /// Whether both are of the same source and the same cluster, with hashes of partition keys that compare: only
    /// then one file can stand for both.
    pub fn continues(&self, earlier: &Self) -> bool {
        let names = (&self.cluster.name, &earlier.cluster.name);
        let is_same_cluster = !matches!(names, (Some(mine), Some(other)) if mine != other);
        is_same_cluster && self.window.sources == earlier.window.sources && self.key_id == earlier.key_id
    }

    /// Adds the next window, which has a file of its own and [continues](Self::continues) this one.
    pub fn append(&mut self, next: Self) {
        self.parts.push(next.window.start);
        self.cluster.update(next.cluster);
        if !next.schema.is_empty() {
            self.schema = next.schema;
        }
        self.window.merge(&next.window);
    }

    /// Writes the snapshot as JSON.
    ///
    /// # Errors
    /// Whatever `to` fails with, and a snapshot that is too large to be read.
    pub fn write(&self, to: &mut dyn Write) -> Result<(), SnapshotError> {
        self.write_up_to(MAX_BYTES, to)
    }

    fn write_up_to(&self, most: u64, to: &mut dyn Write) -> Result<(), SnapshotError> {
        let mut bounded = Bounded {
            to,
            left: most,
            is_over: false,
        };
        let written = serde_json::to_writer(&mut bounded, self);
        match bounded.is_over {
            true => Err(SnapshotError::TooLarge),
            false => Ok(written?),
        }
    }

    /// Reads a snapshot, as JSON or as JSON compressed with gzip: its first bytes tell which.
    ///
    /// # Errors
    /// A document that is damaged, too large (once decompressed), of another format or of another version.
    pub fn read(from: impl Read) -> Result<Self, SnapshotError> {
        Self::read_within(MAX_MEMORY, from)
    }

    /// As [`read`](Self::read), with so many bytes for what is made of it.
    pub(super) fn read_within(memory: u64, from: impl Read) -> Result<Self, SnapshotError> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            #[serde(default)]
            window: Implausible,
        }
        let text = text(from, MAX_BYTES)?;
        let head: Head = serde_json::from_slice(&text)?;
        if head.format != FORMAT {
            return Err(other_format(head.format));
        }
        if let Some(path) = head.window.0 {
            return Err(SnapshotError::Implausible(path));
        }
        let mut snapshot: Self = meter::within(memory, || serde_json::from_slice(&text))?;
        let sums = snapshot.window.coverage.check();
        sums.map_err(SnapshotError::Sums)?;
        leave_out_too_large(&mut snapshot.schema, &mut snapshot.window);
        snapshot.window.sequences.keep_within_limits();
        snapshot.window.assume_observed();
        Ok(snapshot)
    }
}

/// Leaves out a schema that is longer than one is written, and says so.
fn leave_out_too_large(schema: &mut String, window: &mut Window) {
    if schema.len() > MAX_SCHEMA {
        let notice = "The schema is too large for a snapshot: reports that are made from snapshots lack it.";
        window.coverage.notices.insert(notice.to_owned());
        *schema = String::new();
    }
}

fn other_format(format: String) -> SnapshotError {
    let version = format.strip_prefix(ANY_VERSION);
    let is_version = version.is_some_and(|version| version.parse::<u32>().is_ok_and(|number| number > 0));
    match is_version {
        true => SnapshotError::LaterFormat(format),
        false => SnapshotError::UnknownFormat(format),
    }
}

/// The JSON text, of at most `limit` bytes before and after decompression: 512 KiB of gzip expand to 512 MiB.
fn text(from: impl Read, limit: u64) -> Result<Vec<u8>, SnapshotError> {
    let mut from = BufReader::new(from);
    let mut head = Vec::new();
    (&mut from).take(GZIP.len() as u64).read_to_end(&mut head)?;
    let is_compressed = head == GZIP;
    let whole = io::Cursor::new(head).chain(from).take(limit + 1);
    let mut text = Vec::new();
    let read = if is_compressed {
        GzDecoder::new(whole).take(limit + 1).read_to_end(&mut text)?
    } else {
        { whole }.read_to_end(&mut text)?
    };
    if read as u64 > limit {
        return Err(SnapshotError::TooLarge);
    }
    Ok(text)
}

/// The first bytes of everything that gzip has written (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Takes a number of bytes and no more.
struct Bounded<'a> {
    to: &'a mut dyn Write,
    left: u64,
    is_over: bool,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            self.is_over = true;
            return Err(io::Error::other("too large"));
        };
        self.left = left;
        self.to.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use flate2::{Compression, write::GzEncoder};
    use jiff::Timestamp;

    use super::*;
    use crate::{Limits, PatternId};

    fn snapshot(window: Window) -> Snapshot {
        Snapshot::new(window, Cluster::default(), String::new(), String::new())
    }

    /// As full of everything as it can be: the most bytes, names that JSON makes six times as long,
    /// histograms with a count everywhere.
    #[test]
    fn a_full_window_is_written_and_read_again() {
        let limits = Limits::of_bytes(Limits::LEAST_BYTES);
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "test").with_limits(limits);
        for id in 10..500 {
            let mut head = super::super::overflow();
            head.cql = "\u{1}".repeat(8 << 10);
            let cql = head.cql.clone();
            let pattern = window.pattern_mut(PatternId(id), &cql, || (head, BTreeSet::new()));
            pattern.count += 1;
            for shift in 0..40 {
                (0..16_u64).for_each(|step| pattern.latency_us.record((16 + step) << shift));
            }
            pattern.count_client(&"\u{1}".repeat(160), 1);
        }
        window.make_room();
        let snapshot = snapshot(window);
        let mut text = Vec::new();
        snapshot.write(&mut text).unwrap();
        let largest = (text.len() as u64).saturating_mul((Limits::MOST_BYTES / Limits::LEAST_BYTES) as u64);
        assert!(largest <= MAX_BYTES, "{} bytes of {}", text.len(), limits.bytes);
        assert_eq!(Snapshot::read(&text[..]).unwrap(), snapshot);
    }

    /// As objects of a store may be damaged, or made up.
    #[test]
    fn mutated_snapshots_are_read_or_refused() {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "test");
        let head = || (super::super::overflow(), BTreeSet::new());
        let pattern = window.pattern_mut(PatternId(10), &super::super::overflow().cql, head);
        pattern.latency_us.record(1_000);
        pattern.count_client("a", 1);
        let mut whole = Vec::new();
        snapshot(window).write(&mut whole).unwrap();
        // A generator of its own, so that each run tries the same.
        let mut state = 46_u64;
        let mut below = |limit: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap_or_default() % limit
        };
        const PIECES: [&[u8]; 8] = [
            b"null",
            b"-1",
            b"1e308",
            b"18446744073709551615",
            b"[]",
            b"{}",
            b"\"\"",
            b"\"9999-12-31T23:59:59Z\"",
        ];
        let mut read = 0;
        for _ in 0..2_000 {
            let mut text = whole.clone();
            for _ in 0..=below(3) {
                let at = below(text.len());
                let end = (at + below(12)).min(text.len());
                let piece = PIECES[below(PIECES.len())];
                text.splice(at..end, piece.iter().copied());
            }
            if let Ok(snapshot) = Snapshot::read(&text[..]) {
                read += 1;
                let mut again = Vec::new();
                snapshot.write(&mut again).unwrap();
                assert_eq!(Snapshot::read(&again[..]).unwrap(), snapshot);
            }
        }
        assert!(read > 0, "not all are refused");
    }

    #[test]
    fn a_schema_that_is_too_large_is_left_out_and_said() {
        let window = Window::new(Timestamp::UNIX_EPOCH, "test");
        let snapshot = Snapshot::new(
            window,
            Cluster::default(),
            "x".repeat(MAX_SCHEMA + 1),
            String::new(),
        );
        assert_eq!(
            (snapshot.schema.len(), snapshot.window.coverage.notices.len()),
            (0, 1)
        );
    }

    /// A document that others have made may have any.
    #[test]
    fn a_schema_that_is_too_large_is_left_out_of_what_is_read_and_said() {
        let mut made_up = snapshot(Window::new(Timestamp::UNIX_EPOCH, "test"));
        made_up.schema = "a;".repeat(MAX_SCHEMA / 2 + 1);
        let mut text = Vec::new();
        made_up.write(&mut text).unwrap();
        let read = Snapshot::read(&text[..]).unwrap();
        assert_eq!((read.schema.len(), read.window.coverage.notices.len()), (0, 1));
    }

    #[test]
    fn what_could_not_be_read_is_not_written() {
        let snapshot = snapshot(Window::new(Timestamp::UNIX_EPOCH, "test"));
        let mut text = Vec::new();
        let written = snapshot.write_up_to(100, &mut text);
        assert!(matches!(written, Err(SnapshotError::TooLarge)), "{written:?}");
        assert!(text.len() <= 100);
    }

    /// A histogram of 40 KiB is some dozen characters long where it is nearly empty.
    #[test]
    fn a_small_file_does_not_unpack_to_gigabytes() {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "test");
        let head = || (super::super::overflow(), BTreeSet::new());
        let pattern = window.pattern_mut(PatternId(10), &super::super::overflow().cql, head);
        for value in (0..17).chain([1 << 42]) {
            pattern.latency_us.record(value);
            pattern.rows.record(value);
            pattern.unpaged_rows.record(value);
            pattern.request_bytes.record(value);
            pattern.response_bytes.record(value);
            pattern.partitions.record(value);
        }
        let mut text = serde_json::to_value(snapshot(window)).unwrap();
        let patterns = text["window"]["patterns"].as_object_mut().unwrap();
        let pattern = patterns.values().next().unwrap().clone();
        for id in 0..3_000 {
            patterns.insert(format!("{id:x}"), pattern.clone());
        }
        let text = text.to_string();
        assert!(text.len() < 16 << 20, "{}", text.len());
        let read = Snapshot::read(text.as_bytes());
        assert!(
            matches!(read, Err(SnapshotError::Malformed(_))),
            "{:?}",
            read.err()
        );
    }

    fn compressed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn content_tells_whether_it_is_compressed() {
        for plain in [&b"{}"[..], b"", b"{"] {
            assert_eq!(text(plain, 10).unwrap(), plain);
            assert_eq!(text(&compressed(plain)[..], 30).unwrap(), plain);
        }
    }

    /// The attack: a kilobyte that expands a thousandfold.
    #[test]
    fn a_compression_bomb_is_refused_at_the_limit() {
        let limit = 1 << 20;
        let bomb = compressed(&vec![b' '; (1 << 20) + 1]);
        assert!(bomb.len() < 8 << 10, "{}", bomb.len());
        let error = text(&bomb[..], limit).unwrap_err();
        assert!(matches!(error, SnapshotError::TooLarge), "{error}");
        let cut = text(&bomb[..bomb.len() / 2], limit).unwrap_err();
        assert!(matches!(cut, SnapshotError::Io(_)), "{cut}");
        let endless = io::repeat(b' ');
        assert!(matches!(
            text(endless, limit).unwrap_err(),
            SnapshotError::TooLarge
        ));
        // A header whose file name never ends.
        let header = [&GZIP[..], &[8, 8, 0, 0, 0, 0, 0, 0]].concat();
        assert!(text((&header[..]).chain(io::repeat(b'a')), limit).is_err());
    }
}
