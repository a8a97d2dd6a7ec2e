//! Cassandra's full query log, as `fqltool dump` prints it.
//!
//! The log itself is a queue of Chronicle, whose files only Java reads. What is printed has texts, values and times; it
//! does not have clients, keyspaces, consistency levels, pages, responses and latencies. Source: Cassandra's
//! `tools/fqltool/…/commands/Dump.java`, 4.0 to 5.0.

mod convert;
mod ending;
mod entry;
mod hex;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use flate2::bufread::MultiGzDecoder;

pub use convert::FromLog;
use entry::{Building, Step};
pub use entry::{Entry, LoggedStatement, LoggedValue};

/// Entries of a dump, in its order: that in which requests ended.
pub struct FullQueryLog<R> {
    from: R,
    line: Vec<u8>,
    building: Building,
    damaged: u64,
}

/// What the first line of an entry begins with.
const FIRST: &[u8] = b"Type: ";

/// No line of a dump is longer: Cassandra takes requests up to 16 MiB, unless its settings allow more.
const MOST_LINE: u64 = 32 << 20;

/// How far the first entry may be from the beginning: the JVM may log there.
const PREAMBLE: usize = 64 << 10;

/// What a file is, by its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Entries of a full query log.
    Dump,
    /// Nothing: of a node that had no request, or of any other program.
    Empty,
    /// Something else.
    Other,
}

impl Content {
    /// What a file is, packed with gzip or not.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        Ok(Self::of(unpacked(BufReader::new(File::open(path)?))?))
    }

    /// What begins with these bytes, packed with gzip or not.
    pub fn of_beginning(bytes: &[u8]) -> Self {
        unpacked(bytes).map_or(Self::Other, Self::of)
    }

    fn of(from: impl Read) -> Self {
        let mut beginning = Vec::with_capacity(PREAMBLE);
        let read = from.take(PREAMBLE as u64).read_to_end(&mut beginning);
        let mut lines = beginning.split(|byte| *byte == b'\n');
        match lines.any(|line| matches!(trimmed(line), b"Type: single-query" | b"Type: batch")) {
            // What comes before the end of a packed file is there, also where that is missing.
            true => Self::Dump,
            false if beginning.is_empty() && read.is_ok() => Self::Empty,
            false => Self::Other,
        }
    }
}

/// What is in a dump that may be packed with gzip.
///
/// # Errors
/// Those of the reader.
pub fn unpacked<'r>(mut from: impl BufRead + 'r) -> io::Result<Box<dyn BufRead + 'r>> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    Ok(match from.fill_buf()?.starts_with(&GZIP) {
        true => Box::new(BufReader::new(MultiGzDecoder::new(from))),
        false => Box::new(from),
    })
}

impl<R: BufRead> FullQueryLog<R> {
    /// Reads a dump.
    pub fn new(from: R) -> Self {
        Self {
            from,
            line: Vec::new(),
            building: Building::default(),
            damaged: 0,
        }
    }

    /// Entries that could not be read so far.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The next entry that can be read.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        loop {
            self.line.clear();
            let read = (&mut self.from)
                .take(MOST_LINE)
                .read_until(b'\n', &mut self.line)?;
            if read as u64 == MOST_LINE && !self.line.ends_with(b"\n") {
                self.building.damage();
                self.from.skip_until(b'\n')?;
                continue;
            }
            let line = without_end(&self.line);
            let is_end = read == 0;
            // A text may have such a line, but no other begins an entry.
            let step = match is_end || (line.starts_with(FIRST) && !self.building.is_in_text()) {
                true => self.building.begin(line.get(FIRST.len()..).filter(|_| !is_end)),
                false => self.building.add(line),
            };
            match step {
                Step::GoesOn => {}
                Step::Entry(entry) => return Ok(Some(entry)),
                Step::Damaged => self.damaged += 1,
            }
            if is_end {
                return Ok(None);
            }
        }
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.trim_ascii_end()
}
