//! Reads recordings: the exchanges of all files of a folder, in the order of their times.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    mem,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use flate2::bufread::MultiGzDecoder;

use super::{
    folder,
    format::{End, FORMAT, Header, Line, RecordedValues},
};
use crate::{
    column_types::ColumnTypes,
    digest::DigestKey,
    exchange::{Page, RecordedExchange},
    left_out::LeftOut,
    target::weight,
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

/// What is kept of a recording while it is read, whatever its files expand to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingLimits {
    /// Bytes of a line. One that is longer is none of ours: the audit keeps no request as long.
    pub line: u64,
    /// Bytes of the lines with the texts and columns that exchanges refer to, and of the next exchange of each run;
    /// also of the distinct texts of [`RecordingReader::statements`].
    pub texts: usize,
}

impl Default for ReadingLimits {
    fn default() -> Self {
        Self {
            line: 32 << 20,
            texts: 96 << 20,
        }
    }
}

/// As many as a writer numbers, and more.
const MOST_NUMBERED: usize = 1 << 17;

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
            match Lines::open(&path, &Arc::default(), &kept) {
                Ok((header, _)) => {
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
                Err(reason) => reader.faults.push(Fault { path, reason }),
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
                bytes += statement.cql.len();
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
                    Err(reason) => faults.push(Fault { path, reason }),
                }
                continue;
            };
            match lines.exchange(ends) {
                Ok(Some(exchange)) => {
                    lines.forget_line();
                    let bytes = weight(&exchange);
                    if self.kept.take(bytes) {
                        self.next_bytes = bytes;
                        self.next = Some(numbered_from(self.base, exchange));
                    } else {
                        let (path, reason) = (lines.path.clone(), "its requests are too long".to_owned());
                        faults.push(Fault { path, reason });
                        self.lines = None;
                    }
                }
                Ok(None) => self.lines = None,
                Err(reason) => {
                    let path = lines.path.clone();
                    faults.push(Fault { path, reason });
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
            file: File::open(path).map_err(|error| error.to_string())?,
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
        if !lines.read_line()? {
            return Err("it contains no complete line".to_owned());
        }
        let header = header(&lines.line)?;
        Ok((header, lines))
    }

    /// Reads a line, if a whole one is there.
    fn read_line(&mut self) -> Result<bool, String> {
        let mut bytes = mem::take(&mut self.line).into_bytes();
        bytes.clear();
        let most = self.kept.limits.line;
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
        while !self.has_ended && self.read_line()? {
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
            Line::Columns(columns) => self
                .columns
                .put(columns.columns, columns.types.into(), line.len())?,
            Line::End(end) => {
                ends.push(end.end);
                self.has_ended = true;
            }
            Line::Other => {}
        }
        Ok(None)
    }
}

/// How much the files that are being read keep together.
struct Kept {
    bytes: AtomicUsize,
    limits: ReadingLimits,
}

impl Kept {
    fn new(limits: ReadingLimits) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            limits,
        }
    }

    /// Counts so many bytes more, if there is room for them.
    fn take(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before + bytes <= self.limits.texts;
        if !has_room {
            self.give_back(bytes);
        }
        has_room
    }

    fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What exchanges refer to by number.
struct Numbered<T> {
    all: Vec<T>,
    /// Of the lines.
    bytes: usize,
    kept: Arc<Kept>,
}

impl<T> Numbered<T> {
    fn new(kept: &Arc<Kept>) -> Self {
        Self {
            all: Vec::new(),
            bytes: 0,
            kept: Arc::clone(kept),
        }
    }

    /// Numbers count up, or begin anew.
    fn put(&mut self, id: u32, one: T, bytes: usize) -> Result<(), String> {
        let id = id as usize;
        if id == 0 {
            self.clear();
        }
        if id != self.all.len() || id >= MOST_NUMBERED {
            return Err(format!("number {id} is out of order"));
        }
        if !self.kept.take(bytes) {
            return Err("the texts of its statements are too long together".to_owned());
        }
        self.bytes += bytes;
        self.all.push(one);
        Ok(())
    }

    fn clear(&mut self) {
        self.all.clear();
        self.kept.give_back(mem::take(&mut self.bytes));
    }
}

impl<T> Drop for Numbered<T> {
    fn drop(&mut self) {
        self.clear();
    }
}

fn too_many_texts(path: &Path, limits: ReadingLimits) -> Fault {
    Fault {
        path: path.to_owned(),
        reason: format!(
            "it has more than {MOST_NUMBERED} distinct statements, or {} bytes of them: the rest is left out",
            limits.texts
        ),
    }
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::{
        super::{
            format::{ExchangeLine, RecordedValues},
            writer::{RecordingWriter, Settings},
        },
        *,
    };
    use crate::{
        digest::ResponseDigest,
        exchange::{RecordedValue, ValueContent},
        testing::exchange,
    };

    /// Much smaller than the usual ones: what counts is that they hold.
    const LIMITS: ReadingLimits = ReadingLimits {
        line: 64 << 10,
        texts: 256 << 10,
    };

    /// A recording with these lines after its header.
    fn recording(lines: impl Iterator<Item = String>) -> tempfile::NamedTempFile {
        let file = tempfile::Builder::new()
            .suffix(folder::ENDING)
            .tempfile()
            .unwrap();
        let mut out = GzEncoder::new(file.reopen().unwrap(), Compression::fast());
        writeln!(
            out,
            r#"{{"format":"{FORMAT}","cqlens":"0","source":"a","started":"2026-11-21T06:00:00Z","run":"{:016x}","values":"clear"}}"#,
            1
        )
        .unwrap();
        lines.for_each(|line| writeln!(out, "{line}").unwrap());
        out.finish().unwrap();
        file
    }

    fn text(id: usize, length: usize) -> String {
        format!(r#"{{"statement":{id},"cql":"{}"}}"#, "a".repeat(length))
    }

    fn faults(file: &tempfile::NamedTempFile) -> String {
        let mut reader = RecordingReader::open_within(file.path(), LIMITS).unwrap();
        assert!(reader.next().is_none());
        assert!(
            reader
                .runs
                .iter()
                .all(|run| run.kept.bytes.load(Ordering::Relaxed) == 0)
        );
        let reasons = reader.faults().iter().map(|fault| fault.reason.clone());
        reasons.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_line_that_expands_beyond_the_limit_ends_the_file() {
        let file = recording([text(0, 32 << 20)].into_iter());
        assert!(file.as_file().metadata().unwrap().len() < 1 << 20);
        assert!(faults(&file).contains("a line is too long"));
    }

    #[test]
    fn texts_are_kept_up_to_a_number_of_bytes() {
        let file = recording((0..100).map(|id| text(id, 32 << 10)));
        assert!(faults(&file).contains("too long together"));
    }

    #[test]
    fn texts_that_are_numbered_anew_replace_those_before() {
        let file = recording((0..100).map(|_| text(0, 32 << 10)));
        assert_eq!(faults(&file), "");
    }

    /// The line of a read of the statement that has the number 0.
    fn line_of(exchange: &RecordedExchange) -> String {
        serde_json::to_string(&ExchangeLine::of(exchange, &[0], None)).unwrap()
    }

    #[test]
    fn texts_for_explain_are_limited_in_bytes() {
        let read = line_of(&exchange(0, "SELECT", ResponseDigest::Missing));
        // Numbered anew, so that each is forgotten but by who collects them.
        let texts = (0..20).map(|number| {
            let cql = format!("SELECT {number} {}", "a".repeat(32 << 10));
            format!("{}\n{read}", format_args!(r#"{{"statement":0,"cql":"{cql}"}}"#))
        });
        let file = recording(texts);
        let reader = RecordingReader::open_within(file.path(), LIMITS).unwrap();
        let (statements, faults) = reader.statements();
        let bytes: usize = statements.iter().map(|statement| statement.cql.len()).sum();
        assert!(bytes > LIMITS.texts / 2 && bytes <= LIMITS.texts, "{bytes}");
        assert!(faults[0].reason.contains("the rest is left out"), "{faults:?}");
    }

    #[test]
    fn requests_of_many_runs_are_kept_up_to_a_number_of_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut long = exchange(0, "SELECT v FROM k.t WHERE a = ?", ResponseDigest::Missing);
        long.request.statements[0].values.push(RecordedValue {
            name: None,
            content: ValueContent::Bytes(vec![0; 32 << 10].into()),
        });
        for _ in 0..20 {
            let mut writer = RecordingWriter::open(Settings {
                folder: folder.path().to_owned(),
                source: "a".to_owned(),
                values: RecordedValues::Clear,
                digest_key: DigestKey(1),
                limits: folder::Limits {
                    file_bytes: 1 << 20,
                    file_age: std::time::Duration::from_secs(60),
                    bytes: None,
                    age: None,
                },
            })
            .unwrap();
            writer.write(&long, BTreeMap::new).unwrap();
            writer.end(BTreeMap::new()).unwrap();
        }
        let mut reader = RecordingReader::open_within(folder.path(), LIMITS).unwrap();
        let read = reader.by_ref().count();
        let faults = reader.faults();
        assert!((2..20).contains(&read) && read + faults.len() == 20, "{read}");
        assert!(
            faults.iter().all(|fault| fault.reason.contains("too long")),
            "{faults:?}"
        );
    }
}
