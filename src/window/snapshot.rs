//! A window with the schema under which it was seen, as one versioned JSON document.
//!
//! The schema is carried as CQL text, so that a report needs nothing but snapshots and a reader can see what was
//! in force.

use std::io::{self, BufReader, Read, Write};

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};

use super::Window;

/// The format's name and version, the first field of every snapshot.
const FORMAT: &str = "cqlens.snapshot.v1";

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
}

/// Facts about the observed cluster, from `system.local` and `system.peers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cluster {
    /// The cluster's name.
    pub name: Option<String>,
    /// The coordinator's `release_version`.
    pub release_version: Option<String>,
    /// The partitioner's class name without its package.
    pub partitioner: Option<String>,
    /// The number of nodes, the coordinator included.
    pub nodes: Option<usize>,
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
    /// A snapshot of another version.
    #[error("unknown snapshot format {0:?}, this version reads {FORMAT:?}")]
    UnknownFormat(String),
    /// More than 512 MiB.
    #[error("snapshot larger than {MAX_BYTES} bytes")]
    TooLarge,
}

/// The largest snapshot that is read: 20,000 patterns with full histograms stay far below.
const MAX_BYTES: u64 = 512 << 20;

impl Snapshot {
    /// A snapshot of `window`.
    pub fn new(window: Window, cluster: Cluster, schema: String, key_id: String) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self {
            format: FORMAT.to_owned(),
            version,
            window,
            cluster,
            schema,
            key_id,
        }
    }

    /// Writes the snapshot as JSON.
    ///
    /// # Errors
    /// Whatever `to` fails with.
    pub fn write(&self, to: &mut dyn Write) -> Result<(), SnapshotError> {
        Ok(serde_json::to_writer(to, self)?)
    }

    /// Reads a snapshot, as JSON or as JSON compressed with gzip: its first bytes tell which.
    ///
    /// # Errors
    /// A document that is damaged, too large (once decompressed), of another format or of another version.
    pub fn read(from: impl Read) -> Result<Self, SnapshotError> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let text = text(from, MAX_BYTES)?;
        let head: Head = serde_json::from_slice(&text)?;
        if head.format != FORMAT {
            return Err(SnapshotError::UnknownFormat(head.format));
        }
        Ok(serde_json::from_slice(&text)?)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use flate2::{Compression, write::GzEncoder};

    use super::*;

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
