//! One direction of TLS as records, also after missing bytes.

use bytes::{Buf, BytesMut};

use super::ciphers::HEADER;

/// The longest payload of a record: 16 KiB and what encryption may add (TLS 1.2, RFC 5246 §6.2.3).
const MAX_PAYLOAD: usize = (16 << 10) + 2_048;

pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION_DATA: u8 = 23;

/// A record as it was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TlsRecord {
    pub(super) header: [u8; HEADER],
    pub(super) payload: Vec<u8>,
    pub(super) state: RecordState,
}

/// How much of a record is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordState {
    /// It follows the one before it.
    Whole,
    /// So many bytes of its payload are missing.
    Damaged(usize),
    /// Records may be missing before it, and it may be none: bytes that look like a header are at hand, and only its
    /// key can tell.
    Candidate,
}

/// Cuts bytes into records.
#[derive(Debug, Default)]
pub(super) struct RecordReader {
    kept: BytesMut,
    /// Missing bytes of the record that has begun.
    damage: usize,
    /// Whether it is unknown where a record begins.
    is_lost: bool,
    /// Since then, captured bytes that were passed over.
    passed: usize,
    /// Since then, missing bytes.
    missing: usize,
}

/// What cannot be a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotTls;

impl RecordReader {
    /// Adds the next bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
    }

    /// Bytes that wait for the rest of their record.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Memory of them, unused capacity included.
    pub(super) fn held_bytes(&self) -> usize {
        self.kept.capacity()
    }

    /// Takes note of missing bytes. Inside a record they cost that record; elsewhere the place is lost.
    pub(super) fn skip(&mut self, length: usize) {
        let end = self.kept.first_chunk().map(|header| HEADER + length_of(*header));
        match end {
            Some(end) if !self.is_lost && self.kept.len() + length <= end => {
                self.damage += length;
                self.kept.resize(self.kept.len() + length, 0);
            }
            _ => {
                self.passed += self.kept.len().saturating_sub(self.damage);
                self.missing += length;
                self.kept.clear();
                self.is_lost = true;
                self.damage = 0;
            }
        }
    }

    /// The next record, if all of it is there.
    ///
    /// # Errors
    /// The bytes are no record.
    pub(super) fn next(&mut self) -> Result<Option<TlsRecord>, NotTls> {
        if self.is_lost {
            self.pass_over();
        }
        let Some(header) = self.kept.first_chunk::<HEADER>().copied() else {
            return Ok(None);
        };
        if !is_header(header) {
            return Err(NotTls);
        }
        let end = HEADER + length_of(header);
        let Some(payload) = self.kept.get(HEADER..end).map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        let state = match (self.is_lost, self.damage) {
            (true, _) => RecordState::Candidate,
            (false, 0) => RecordState::Whole,
            (false, damage) => RecordState::Damaged(damage),
        };
        if state != RecordState::Candidate {
            self.kept.advance(end);
            self.damage = 0;
        }
        Ok(Some(TlsRecord {
            header,
            payload,
            state,
        }))
    }

    /// The candidate is a record: the place is known again. How many captured bytes were passed over before it.
    pub(super) fn accept(&mut self, record: &TlsRecord) -> usize {
        self.kept
            .advance((HEADER + record.payload.len()).min(self.kept.len()));
        self.is_lost = false;
        self.missing = 0;
        std::mem::take(&mut self.passed)
    }

    /// The candidate is none.
    pub(super) fn refuse(&mut self) {
        self.kept.advance(1.min(self.kept.len()));
        self.passed += 1;
    }

    /// How many records may be missing before a candidate.
    pub(super) fn missing_at_most(&self) -> usize {
        (self.passed + self.missing) / (HEADER + 1)
    }

    /// Passes over bytes with which no record of application data begins.
    fn pass_over(&mut self) {
        let begins = |bytes: &[u8]| match bytes.first_chunk::<HEADER>() {
            Some(header) => header[0] == APPLICATION_DATA && is_header(*header),
            None => bytes
                .iter()
                .zip([APPLICATION_DATA, 3, 3])
                .all(|(byte, of_header)| *byte == of_header),
        };
        let place = (0..self.kept.len()).find(|at| self.kept.get(*at..).is_some_and(begins));
        let length = place.unwrap_or(self.kept.len());
        self.kept.advance(length);
        self.passed += length;
    }
}

fn length_of(header: [u8; HEADER]) -> usize {
    usize::from(u16::from_be_bytes([header[3], header[4]]))
}

fn is_header(header: [u8; HEADER]) -> bool {
    let [kind, major, minor, ..] = header;
    (CHANGE_CIPHER_SPEC..=24).contains(&kind) && major == 3 && minor <= 4 && length_of(header) <= MAX_PAYLOAD
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
        [&[kind, 3, 3][..], &length, payload].concat()
    }

    #[test]
    fn records_come_out_of_pieces_of_any_size() {
        let bytes = [
            record(22, &[1; 300]),
            record(20, &[1]),
            record(23, &[2; 40]),
            record(23, &[]),
        ]
        .concat();
        for size in 1..50 {
            let mut reader = RecordReader::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                reader.add(piece);
                while let Some(record) = reader.next().unwrap() {
                    assert_eq!(record.state, RecordState::Whole);
                    found.push((record.header[0], record.payload.len()));
                }
            }
            assert_eq!(found, [(22, 300), (20, 1), (23, 40), (23, 0)]);
        }
        let mut reader = RecordReader::default();
        reader.add(b"GET / HTTP/1.1");
        assert_eq!(reader.next(), Err(NotTls));
    }

    #[test]
    fn bytes_that_are_missing_inside_of_a_record_cost_that_record() {
        let bytes = [record(23, &[1; 100]), record(23, &[2; 30])].concat();
        let mut reader = RecordReader::default();
        reader.add(&bytes[..20]);
        reader.skip(60);
        reader.add(&bytes[80..]);
        assert_eq!(reader.next().unwrap().unwrap().state, RecordState::Damaged(60));
        let next = reader.next().unwrap().unwrap();
        assert_eq!((next.state, next.payload), (RecordState::Whole, vec![2; 30]));
    }

    #[test]
    fn elsewhere_the_next_record_is_searched() {
        let bytes = [record(23, &[1; 100]), record(23, &[2; 30]), record(23, &[3; 9])].concat();
        let mut reader = RecordReader::default();
        reader.add(&bytes[..20]);
        reader.skip(100);
        reader.add(&bytes[120..]);
        let candidate = reader.next().unwrap().unwrap();
        assert_eq!(
            (candidate.state, &candidate.payload[..]),
            (RecordState::Candidate, &[3; 9][..])
        );
        assert_eq!(reader.next().unwrap().unwrap(), candidate);
        assert_eq!(reader.accept(&candidate), 40);
        reader.add(&record(21, &[1, 0]));
        assert_eq!(reader.next().unwrap().unwrap().state, RecordState::Whole);
    }
}
