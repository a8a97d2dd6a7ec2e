//! Reads recordings: the exchanges of all files of a folder, in the order of their times.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    mem,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use flate2::bufread::MultiGzDecoder;

use super::{
    folder,
    format::{End, FORMAT, Header, Line, RecordedValues},
    kept::{Kept, MOST_NUMBERED, MOST_SHORT, Numbered, ReadingLimits},
};
use crate::{
    column_types::{self, ColumnTypes},
    digest::DigestKey,
    exchange::{Page, RecordedExchange},
    left_out::LeftOut,
};

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// A file or folder cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There are no files of a recording.
    #[error("{}: not a recording: no files that end with {}", .0.display(), folder::ENDING)]
    Empty(PathBuf),
    /// Of all files none can be read.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Unreadable(Vec<Fault>),
}

/// A file of which something could not be read, which is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
}

impl Fault {
    /// Bytes of a reason; the rest is cut. It may quote the file, at any length.
    const LONGEST: usize = 500;

    fn new(path: &Path, reason: impl Into<String>) -> Self {
        let (path, mut reason) = (path.to_owned(), reason.into());
        if reason.len() > Self::LONGEST {
            reason.truncate(reason.floor_char_boundary(Self::LONGEST));
            reason.push('…');
            reason.shrink_to_fit();
        }
        Self { path, reason }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.path.display(), self.reason)
    }
}

/// The text of a statement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Statement {
    /// The keyspace of unqualified names.
    pub keyspace: Option<Arc<str>>,
    /// The text.
    pub cql: Arc<str>,
}

impl Statement {
    /// What it takes up, about, were its keyspace its own.
    fn weight(&self) -> usize {
        let keyspace = self.keyspace.as_ref().map_or(0, |keyspace| keyspace.len());
        size_of::<Self>() + self.cql.len() + keyspace
    }
}

/// Exchanges of a recording: of each run in the order in which they were written, which is that of their
/// responses; of several runs by their times. Numbers and connections of several runs do not collide.
pub struct RecordingReader {
    path: PathBuf,
    runs: Vec<Run>,
    headers: Vec<Header>,
    faults: Vec<Fault>,
    ends: Vec<End>,
    bytes: u64,
    bytes_read: Arc<AtomicU64>,
    limits: ReadingLimits,
}

/// Bits of a number that count within a run.
const RUN_SHIFT: u32 = 48;

impl RecordingReader {
    /// Opens a file, or all files of a folder. Those whose beginning cannot be read are left out:
    /// [`Self::faults`].
    ///
    /// # Errors
    /// A path that cannot be read, or without any file that can.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Self::open_within(path, ReadingLimits::default())
    }

    /// The same with other limits.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_within(path: &Path, limits: ReadingLimits) -> Result<Self, RecordingError> {
        let kept = Arc::new(Kept::new(limits));
        let failed = |error| RecordingError::Io {
            path: path.to_owned(),
            error,
        };
        let is_folder = std::fs::metadata(path).map_err(failed)?.is_dir();
        let files = match is_folder {
            true => folder::files(path).map_err(failed)?,
            false => vec![path.to_owned()],
        };
        if files.is_empty() {
            return Err(RecordingError::Empty(path.to_owned()));
        }
        let mut reader = Self {
            path: path.to_owned(),
            runs: Vec::new(),
            headers: Vec::new(),
            faults: Vec::new(),
            ends: Vec::new(),
            bytes: 0,
            bytes_read: Arc::default(),
            limits,
        };
        let mut by_run = BTreeMap::new();
        for path in files {
            let header = Lines::open(&path, &Arc::default(), &kept).map(|(header, _)| header);
            match header {
                Ok(header) if !kept.take(header.weight()) => {
                    reader
                        .faults
                        .push(Fault::new(&path, "it is one of too many files"));
                }
                Ok(header) => {
                    reader.bytes += std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
                    let next = by_run.len();
                    let run = *by_run.entry(header.run.0).or_insert(next);
                    if run == reader.runs.len() {
                        let bytes_read = Arc::clone(&reader.bytes_read);
                        reader.runs.push(Run::new(run, bytes_read, Arc::clone(&kept)));
                    }
                    reader.runs[run].files.push(path);
                    reader.headers.push(header);
                }
                Err(reason) => reader.faults.push(Fault::new(&path, reason)),
            }
        }
        if reader.runs.is_empty() {
            return Err(RecordingError::Unreadable(reader.faults));
        }
        reader.runs.iter_mut().for_each(|run| run.files.reverse());
        Ok(reader)
    }

    /// How many bytes all files have, as they are.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many of them have been read; goes on while it is read.
    pub fn bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes_read)
    }

    /// What the files say of themselves, in the order of their names.
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// Whether values can be read in all files.
    pub fn has_values(&self) -> bool {
        let mut headers = self.headers.iter();
        headers.all(|header| header.values == RecordedValues::Clear)
    }

    /// What could not be read, so far.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The counts of the files that were read to their ends, so far.
    pub fn ends(&self) -> &[End] {
        &self.ends
    }

    /// Requests that the recording lacks although they had their effect, by reason: of the files that were read to
    /// their ends, so far.
    pub fn losses(&self) -> BTreeMap<String, u64> {
        let mut losses = BTreeMap::new();
        let left_out = self.ends.iter().flat_map(|end| &end.left_out);
        for (why, count) in left_out.filter(|(why, _)| LeftOut::is_loss_of_name(why)) {
            *losses.entry(why.clone()).or_default() += count;
        }
        losses
    }

    /// The next exchange, with the key of the digest of its response; none at the end.
    pub fn next_keyed(&mut self) -> Option<(RecordedExchange, Option<DigestKey>)> {
        let (faults, ends) = (&mut self.faults, &mut self.ends);
        for run in &mut self.runs {
            run.fill(faults, ends);
        }
        let next = self.runs.iter_mut().filter(|run| run.next.is_some());
        let first = next.min_by_key(|run| run.next.as_ref().map(|exchange| exchange.at_us))?;
        let exchange = first.take_next()?;
        Some((exchange, first.key))
    }

    /// The distinct texts of its statements, with the keyspaces of their requests, in the order of their first
    /// appearance.
    pub fn statements(self) -> (Vec<Statement>, Vec<Fault>) {
        let mut reader = self;
        let mut seen = std::collections::HashSet::new();
        let mut statements = Vec::new();
        let mut bytes = 0;
        while let Some((exchange, _)) = reader.next_keyed() {
            for statement in exchange.request.statements {
                let statement = Statement {
                    keyspace: exchange.request.keyspace.clone(),
                    cql: statement.cql,
                };
                if seen.contains(&statement) {
                    continue;
                }
                bytes += statement.weight();
                if seen.len() >= MOST_NUMBERED || bytes > reader.limits.texts {
                    reader.faults.push(too_many_texts(&reader.path, reader.limits));
                    return (statements, reader.faults);
                }
                seen.insert(statement.clone());
                statements.push(statement);
            }
        }
        (statements, reader.faults)
    }
}

impl Iterator for RecordingReader {
    type Item = RecordedExchange;

    fn next(&mut self) -> Option<RecordedExchange> {
        self.next_keyed().map(|(exchange, _)| exchange)
    }
}

/// The files of one run of a proxy.
struct Run {
    /// Added to numbers and connections.
    base: u64,
    /// The next one last.
    files: Vec<PathBuf>,
    lines: Option<Lines>,
    key: Option<DigestKey>,
    next: Option<RecordedExchange>,
    /// Of the next one.
    next_bytes: usize,
    bytes_read: Arc<AtomicU64>,
    kept: Arc<Kept>,
}

impl Run {
    fn new(place: usize, bytes_read: Arc<AtomicU64>, kept: Arc<Kept>) -> Self {
        Self {
            base: (place as u64) << RUN_SHIFT,
            files: Vec::new(),
            lines: None,
            key: None,
            next: None,
            next_bytes: 0,
            bytes_read,
            kept,
        }
    }

    /// Reads the next exchange, if it was taken.
    fn fill(&mut self, faults: &mut Vec<Fault>, ends: &mut Vec<End>) {
        while self.next.is_none() {
            let Some(lines) = &mut self.lines else {
                let Some(path) = self.files.pop() else { return };
                match Lines::open(&path, &self.bytes_read, &self.kept) {
                    Ok((header, lines)) => {
                        self.key = header.digest_key();
                        self.lines = Some(lines);
                    }
                    Err(reason) => faults.push(Fault::new(&path, reason)),
                }
                continue;
            };
            match lines.exchange(ends) {
                Ok(Some(exchange)) => {
                    lines.forget_line();
                    let bytes = exchange.weight();
                    if self.kept.take(bytes) {
                        self.next_bytes = bytes;
                        self.next = Some(numbered_from(self.base, exchange));
                    } else {
                        faults.push(Fault::new(&lines.path, "its requests are too long"));
                        self.lines = None;
                    }
                }
                Ok(None) => self.lines = None,
                Err(reason) => {
                    faults.push(Fault::new(&lines.path, reason));
                    self.lines = None;
                }
            }
        }
    }
}

impl Run {
    fn take_next(&mut self) -> Option<RecordedExchange> {
        self.kept.give_back(mem::take(&mut self.next_bytes));
        self.next.take()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.take_next();
    }
}

fn numbered_from(base: u64, exchange: RecordedExchange) -> RecordedExchange {
    let mut exchange = exchange;
    exchange.number = exchange.number.wrapping_add(base);
    exchange.connection = exchange.connection.wrapping_add(base);
    if let Page::After(number) = &mut exchange.request.page {
        *number = number.wrapping_add(base);
    }
    exchange
}

/// A file that counts what is read of it.
struct CountingReader {
    file: File,
    bytes_read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bytes_read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Bytes that an entry of a line becomes, about: `null,` becomes a value.
const OF_ENTRY: usize = 64;

/// The entries of a line, at most; that of a text has one, whatever is in it.
fn entries(line: &str) -> usize {
    match line.starts_with("{\"statement\"") {
        true => 1,
        false => line.bytes().filter(|byte| *byte == b',').count(),
    }
}

/// The lines of one file.
struct Lines {
    path: PathBuf,
    input: BufReader<MultiGzDecoder<BufReader<CountingReader>>>,
    line: String,
    number: u64,
    statements: Numbered<Arc<str>>,
    columns: Numbered<ColumnTypes>,
    has_ended: bool,
    kept: Arc<Kept>,
}

impl Lines {
    fn open(path: &Path, bytes_read: &Arc<AtomicU64>, kept: &Arc<Kept>) -> Result<(Header, Self), String> {
        let file = CountingReader {
            file: folder::open(path).map_err(|error| error.to_string())?,
            bytes_read: Arc::clone(bytes_read),
        };
        let input = BufReader::new(MultiGzDecoder::new(BufReader::new(file)));
        let mut lines = Self {
            path: path.to_owned(),
            input,
            line: String::new(),
            number: 0,
            statements: Numbered::new(kept),
            columns: Numbered::new(kept),
            has_ended: false,
            kept: Arc::clone(kept),
        };
        if !lines.read_line(kept.limits.line.min(MOST_SHORT as u64))? {
            return Err("it contains no complete line".to_owned());
        }
        let header = header(&lines.line)?;
        Ok((header, lines))
    }

    /// Reads a line of no more than so many bytes, if a whole one is there.
    fn read_line(&mut self, most: u64) -> Result<bool, String> {
        let mut bytes = mem::take(&mut self.line).into_bytes();
        bytes.clear();
        let read = (&mut self.input).take(most).read_until(b'\n', &mut bytes);
        let is_cut = match read {
            Ok(_) => bytes.last() != Some(&b'\n'),
            // Cut off by a crash, or still being written.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => true,
            Err(error) => return Err(self.at_line(&error.to_string())),
        };
        if is_cut && bytes.len() as u64 >= most {
            return Err(self.at_line("a line is too long"));
        }
        if is_cut {
            return Ok(false);
        }
        self.number += 1;
        bytes.pop();
        self.line = String::from_utf8(bytes).map_err(|_| self.at_line("no UTF-8"))?;
        Ok(true)
    }

    fn at_line(&self, what: &str) -> String {
        format!("{what}, after line {}: the rest is left out", self.number)
    }

    /// The next exchange of the file; none at its end.
    fn exchange(&mut self, ends: &mut Vec<End>) -> Result<Option<RecordedExchange>, String> {
        while !self.has_ended && self.read_line(self.kept.limits.line)? {
            let line = mem::take(&mut self.line);
            let read = self.take_line(&line, ends);
            self.line = line;
            if let Some(exchange) = read.map_err(|what| self.at_line(&what))? {
                return Ok(Some(exchange));
            }
        }
        Ok(None)
    }

    /// Keeps no long line while others are read.
    fn forget_line(&mut self) {
        const SPARE: usize = 1 << 20;
        if self.line.capacity() > SPARE {
            self.line = String::new();
        }
    }

    fn take_line(&mut self, line: &str, ends: &mut Vec<End>) -> Result<Option<RecordedExchange>, String> {
        if entries(line) > self.kept.limits.texts / OF_ENTRY {
            return Err("a line has too many entries".to_owned());
        }
        match Line::read(line).map_err(|error| error.to_string())? {
            Line::Exchange(exchange) => {
                let statement = |id: u32| self.statements.all.get(id as usize).cloned();
                let columns = |id: u32| self.columns.all.get(id as usize).cloned();
                let exchange = exchange.exchange(statement, columns);
                return exchange
                    .map(Some)
                    .map_err(|_| "an exchange refers to a missing entry".to_owned());
            }
            Line::Statement(statement) => {
                self.statements
                    .put(statement.statement, statement.cql.into(), line.len())?;
            }
            Line::Columns(columns) => {
                let bytes = column_types::weight(&columns.types);
                self.columns.put(columns.columns, columns.types.into(), bytes)?;
            }
            Line::End(end) => {
                if line.len() > MOST_SHORT || !self.kept.take(end.end.weight()) {
                    return Err("its last line is too long".to_owned());
                }
                ends.push(end.end);
                self.has_ended = true;
            }
            Line::Other => {}
        }
        Ok(None)
    }
}

fn too_many_texts(path: &Path, limits: ReadingLimits) -> Fault {
    let reason = format!(
        "it has more than {MOST_NUMBERED} distinct statements, or {} bytes of them: the rest is left out",
        limits.texts
    );
    Fault::new(path, reason)
}

fn header(line: &str) -> Result<Header, String> {
    #[derive(serde::Deserialize)]
    struct OfFormat {
        format: String,
    }
    let of_format: OfFormat = serde_json::from_str(line).map_err(|_| "no recording of cqlens".to_owned())?;
    match of_format.format.as_str() {
        FORMAT => serde_json::from_str(line).map_err(|error| format!("an unreadable header: {error}")),
        other if other.starts_with("cqlens.recording.") => {
            Err(format!("its format is {other}, but this version reads {FORMAT}"))
        }
        _ => Err("no recording of cqlens".to_owned()),
    }
}

#[cfg(test)]
mod tests;
