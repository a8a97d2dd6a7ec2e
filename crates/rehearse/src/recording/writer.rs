//! Writes a recording, file after file.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use serde::Serialize;

use super::{
    folder::{self, Limits},
    format::{ColumnsLine, End, EndLine, ExchangeLine, FORMAT, Header, RecordedValues, StatementLine},
    hidden::ValueKey,
    value_line::{Hex64, Hex128},
};
use crate::{
    column_types::ColumnTypes,
    digest::{DigestKey, ResponseDigest, random},
    exchange::RecordedExchange,
    left_out::LeftOut,
};

/// What a recording is to be.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where its files are.
    pub folder: PathBuf,
    /// The proxy or captures that it is of.
    pub source: String,
    /// Whether values can be read.
    pub values: RecordedValues,
    /// The key of the digests in the exchanges that will come.
    pub digest_key: DigestKey,
    /// How much is kept.
    pub limits: Limits,
}

/// A recording that is being written.
pub struct RecordingWriter {
    settings: Settings,
    run: u64,
    value_key: ValueKey,
    file: Option<OpenFile>,
    removed: u64,
}

impl RecordingWriter {
    /// Makes the folder where it is missing, and begins with the first exchange.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn open(settings: Settings) -> io::Result<Self> {
        folder::make(&settings.folder)?;
        let (high, low) = (random(), random());
        Ok(Self {
            settings,
            run: random(),
            value_key: ValueKey((u128::from(high) << 64 | u128::from(low)).to_le_bytes()),
            file: None,
            removed: 0,
        })
    }

    /// Writes an exchange, into another file if it is time for one; `left_out` is what the last one was to say
    /// of the requests that are missing.
    ///
    /// # Errors
    /// Any error of writing. The file is left as it is, and the next exchange begins another one.
    pub fn write(
        &mut self,
        exchange: &RecordedExchange,
        left_out: impl FnOnce() -> BTreeMap<LeftOut, u64>,
    ) -> io::Result<()> {
        let limits = &self.settings.limits;
        if self
            .file
            .as_ref()
            .is_some_and(|file| file.is_full(exchange, limits))
        {
            self.end(left_out())?;
        }
        let written = self.write_to_file(exchange);
        if written.is_err() {
            self.file = None;
        }
        written
    }

    fn write_to_file(&mut self, exchange: &RecordedExchange) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.begin(exchange)?,
        };
        match self.settings.values {
            RecordedValues::Clear => file.write(exchange)?,
            RecordedValues::Hashed => {
                let (hidden, cut) = self.value_key.hide(exchange);
                file.write(&hidden)?;
                file.statements_cut += cut;
            }
        }
        self.file = Some(file);
        Ok(())
    }

    fn begin(&mut self, first: &RecordedExchange) -> io::Result<OpenFile> {
        let Settings {
            folder,
            source,
            values,
            digest_key,
            limits,
        } = &self.settings;
        let started = Timestamp::from_microsecond(first.at_us).unwrap_or_default();
        let file = folder::create(folder, source, started)?;
        // Files are dated by the clock of the file system, which may be another machine's.
        let now = file.metadata()?.modified()?;
        self.removed += folder::remove_surplus(folder, source, limits, limits.file_bytes(), now)?;
        let header = Header {
            format: FORMAT.to_owned(),
            cqlens: env!("CARGO_PKG_VERSION").to_owned(),
            source: source.clone(),
            started,
            run: Hex64(self.run),
            values: *values,
            digest_key: (*values == RecordedValues::Clear).then_some(Hex128(digest_key.0)),
        };
        OpenFile::begin(file, &header, first.at_us)
    }

    /// Hands what was written so far to the file system, so that a crash cuts off no more than what comes.
    ///
    /// # Errors
    /// Any error of writing.
    pub fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.as_mut().map_or(Ok(()), |file| file.out.flush());
        if flushed.is_err() {
            self.file = None;
        }
        flushed
    }

    /// Ends the file, if one was begun, with the counts of what was left out since the one before.
    ///
    /// # Errors
    /// Any error of writing.
    pub fn end(&mut self, left_out: BTreeMap<LeftOut, u64>) -> io::Result<()> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let left_out = left_out.into_iter();
        file.end(End {
            left_out: left_out
                .map(|(why, count)| (why.name().to_owned(), count))
                .collect(),
            files_removed: self.removed,
            ..End::default()
        })
    }
}

/// Statements and kinds of rows that a file tells apart before it begins to number them anew.
const MOST_TEXTS: usize = 20_000;
const MOST_TEXT_BYTES: usize = 16 << 20;
const MOST_COLUMNS: usize = 4_096;

/// A file that is being written.
struct OpenFile {
    out: GzEncoder<CountingWriter>,
    /// When its first exchange was.
    began_us: i64,
    exchanges: u64,
    statements_cut: u64,
    statements: HashMap<Arc<str>, u32>,
    /// Of their texts.
    statement_bytes: usize,
    columns: HashMap<ColumnTypes, u32>,
    line: Vec<u8>,
}

impl OpenFile {
    fn begin(file: File, header: &Header, began_us: i64) -> io::Result<Self> {
        // Recorded while the clients' processors are the audit's: twice the bytes for a third of the work.
        let out = GzEncoder::new(CountingWriter { file, bytes: 0 }, Compression::fast());
        let mut begun = Self {
            out,
            began_us,
            exchanges: 0,
            statements_cut: 0,
            statements: HashMap::new(),
            statement_bytes: 0,
            columns: HashMap::new(),
            line: Vec::new(),
        };
        begun.write_line(header)?;
        Ok(begun)
    }

    fn is_full(&self, next: &RecordedExchange, limits: &Limits) -> bool {
        let age = u64::try_from(next.at_us.saturating_sub(self.began_us)).unwrap_or(0);
        self.out.get_ref().bytes >= limits.file_bytes() || Duration::from_micros(age) >= limits.file_age
    }

    fn write(&mut self, exchange: &RecordedExchange) -> io::Result<()> {
        let children = exchange.request.statements.iter();
        // In one batch, all texts have numbers of one count.
        if self.statements.len() >= MOST_TEXTS || self.statement_bytes >= MOST_TEXT_BYTES {
            self.statements.clear();
            self.statement_bytes = 0;
        }
        let mut statements = Vec::with_capacity(children.len());
        for child in children {
            statements.push(self.statement(&child.cql)?);
        }
        let columns = match &exchange.response {
            ResponseDigest::Rows(rows) => match &rows.column_types {
                Some(types) => Some(self.columns(types)?),
                None => None,
            },
            _ => None,
        };
        self.write_line(&ExchangeLine::of(exchange, &statements, columns))?;
        self.exchanges += 1;
        Ok(())
    }

    /// The number of a text, which the file has from here on.
    fn statement(&mut self, cql: &Arc<str>) -> io::Result<u32> {
        if let Some(&id) = self.statements.get(cql) {
            return Ok(id);
        }
        let id = number(self.statements.len());
        self.statements.insert(Arc::clone(cql), id);
        self.statement_bytes += cql.len();
        self.write_line(&StatementLine {
            statement: id,
            cql: (&**cql).into(),
        })?;
        Ok(id)
    }

    fn columns(&mut self, types: &ColumnTypes) -> io::Result<u32> {
        if let Some(&id) = self.columns.get(types) {
            return Ok(id);
        }
        if self.columns.len() >= MOST_COLUMNS {
            self.columns.clear();
        }
        let id = number(self.columns.len());
        self.columns.insert(Arc::clone(types), id);
        self.write_line(&ColumnsLine {
            columns: id,
            types: types.to_vec(),
        })?;
        Ok(id)
    }

    fn write_line(&mut self, line: &impl Serialize) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.out.write_all(&self.line)
    }

    fn end(mut self, end: End) -> io::Result<()> {
        let end = End {
            exchanges: self.exchanges,
            statements_cut: self.statements_cut,
            ..end
        };
        self.write_line(&EndLine { end })?;
        self.out.finish()?;
        Ok(())
    }
}

fn number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// A file, and how much was written to it.
struct CountingWriter {
    file: File,
    bytes: u64,
}

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
