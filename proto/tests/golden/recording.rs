//! Reads the recorded sessions: files of chunks in the order in which they passed, all connections of a
//! driver's run together.
//!
//! ```text
//! recording = chunk*
//! chunk     = connection [byte] · direction [byte]: 0 request, 1 response · length [int, big-endian] · bytes
//! ```
#![allow(dead_code, clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use cqlens_proto::cutter::Negotiated;
use cqlens_proto::envelope::{Direction, Envelope};
use cqlens_proto::stream::{EnvelopeStream, StreamItem};

/// One run of a driver.
pub(crate) struct Recording {
    /// `<driver>-<version>-<compression>[-<what it is about>]`.
    pub(crate) name: String,
    pub(crate) chunks: Vec<Chunk>,
}

/// What one read of the recording relay gave.
pub(crate) struct Chunk {
    /// Counts from 0 in the order of connecting.
    pub(crate) connection: u8,
    pub(crate) direction: Direction,
    pub(crate) bytes: Bytes,
}

/// All recordings, by name.
pub(crate) fn recordings() -> Vec<Recording> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rec"));
    files.sort();
    files.iter().map(|file| Recording::read(file)).collect()
}

/// Where the recordings are, from this crate and from `fuzz/` and the tests of `cqlens`, which take this file
/// in.
pub(crate) fn folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [
        "proto/tests/golden",
        "../proto/tests/golden",
        "../../proto/tests/golden",
    ];
    let mut folders = folders.iter().map(|folder| here.join(folder));
    folders.find(|folder| folder.is_dir()).unwrap()
}

impl Recording {
    fn read(file: &Path) -> Recording {
        let mut bytes = Bytes::from(std::fs::read(file).unwrap());
        let mut chunks = Vec::new();
        while bytes.has_remaining() {
            let connection = bytes.get_u8();
            let direction = if bytes.get_u8() == 0 {
                Direction::Request
            } else {
                Direction::Response
            };
            let length = bytes.get_u32() as usize;
            chunks.push(Chunk {
                connection,
                direction,
                bytes: bytes.split_to(length),
            });
        }
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        Recording { name, chunks }
    }

    /// The connections, each with its chunks in the order in which they passed.
    pub(crate) fn connections(&self) -> Vec<Vec<&Chunk>> {
        let mut connections: BTreeMap<u8, Vec<&Chunk>> = BTreeMap::new();
        for chunk in &self.chunks {
            connections.entry(chunk.connection).or_default().push(chunk);
        }
        connections.into_values().collect()
    }

    /// Every envelope, in the order in which it was complete.
    ///
    /// # Panics
    /// If a byte belongs to none.
    pub(crate) fn envelopes(&self) -> Vec<Envelope> {
        self.connections()
            .iter()
            .flat_map(|connection| self.join(connection))
            .collect()
    }

    fn join(&self, chunks: &[&Chunk]) -> Vec<Envelope> {
        let negotiated = Arc::new(Negotiated::new());
        let mut requests = EnvelopeStream::new(Direction::Request, negotiated.clone());
        let mut responses = EnvelopeStream::new(Direction::Response, negotiated);
        let mut envelopes = Vec::new();
        for chunk in chunks {
            let stream = match chunk.direction {
                Direction::Request => &mut requests,
                Direction::Response => &mut responses,
            };
            stream.feed(chunk.bytes.clone());
            while let Some(item) = stream.next_item() {
                let StreamItem::Envelope(envelope) = item else {
                    unreachable!("{}: {item:?}", self.name)
                };
                envelopes.push(envelope);
            }
        }
        assert!(
            !requests.is_joining() && !responses.is_joining(),
            "{} ends within an envelope",
            self.name
        );
        envelopes
    }
}
