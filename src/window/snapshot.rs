//! A window with the schema under which it was seen, as one versioned JSON document.
//!
//! The schema is carried as CQL text, so that a report needs nothing but snapshots and a reader can see what was
//! in force.

use std::io::{Read, Write};

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
    Io(#[from] std::io::Error),
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

    /// Reads a snapshot.
    ///
    /// # Errors
    /// A document that is damaged, too large, of another format or of another version.
    pub fn read(from: impl Read) -> Result<Self, SnapshotError> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let mut text = Vec::new();
        if from.take(MAX_BYTES + 1).read_to_end(&mut text)? as u64 > MAX_BYTES {
            return Err(SnapshotError::TooLarge);
        }
        let head: Head = serde_json::from_slice(&text)?;
        if head.format != FORMAT {
            return Err(SnapshotError::UnknownFormat(head.format));
        }
        Ok(serde_json::from_slice(&text)?)
    }
}
