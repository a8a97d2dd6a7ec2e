//! An entry of a dump, line by line.

use cqlens_proto::message::BatchKind;

use super::{
    ending::Ending,
    hex::{HexLine, HexValue},
    trimmed,
};

/// A request of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// When it came, in milliseconds since 1970.
    pub start_ms: i64,
    /// The write timestamp that the node gave it, in microseconds since 1970.
    pub timestamp: Option<i64>,
    /// The kind of batch; none for a single statement.
    pub batch: Option<BatchKind>,
    /// One statement, or those of a batch.
    pub statements: Vec<LoggedStatement>,
}

/// A statement with its values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoggedStatement {
    /// Its text.
    pub cql: String,
    /// In their order.
    pub values: Vec<LoggedValue>,
}

/// A value, as far as it is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedValue {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// The first 1,024 bytes of a longer one.
    Cut,
    /// Null.
    Null,
    /// Nothing is printed: an empty value, or one that was not set.
    Empty,
}

/// What a line has brought.
#[derive(Debug)]
pub(super) enum Step {
    GoesOn,
    /// The entry before is complete.
    Entry(Entry),
    /// The entry before cannot be read.
    Damaged,
}

/// An entry that is being read.
#[derive(Debug, Default)]
pub(super) struct Building {
    entry: Entry,
    place: Place,
    /// Of its statements and values so far.
    bytes: usize,
    /// What is open in the statement that is being read.
    ending: Ending,
    value: Option<HexValue>,
    /// The value before its end was printed in words, not digits.
    is_said: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first entry, or behind the end of one.
    #[default]
    Nowhere,
    Head,
    Text,
    Values,
    /// Something in it was not understood.
    Damaged,
}

/// Bytes of statements and values of one entry.
const MOST_BYTES: usize = 64 << 20;
/// `Long.MIN_VALUE`: there is none.
const NO_TIMESTAMP: i64 = i64::MIN;

impl Building {
    /// Whether a line may be a part of a statement's text.
    pub(super) fn is_in_text(&self) -> bool {
        self.place == Place::Text
    }

    /// Ends the entry before and begins one of a type, if there is one.
    pub(super) fn begin(&mut self, of_type: Option<&[u8]>) -> Step {
        let step = self.end();
        *self = Self::default();
        self.place = match of_type.map(trimmed) {
            Some(b"single-query") => Place::Head,
            Some(b"batch") => {
                // Until its kind is said.
                self.entry.batch = Some(BatchKind::Logged);
                Place::Head
            }
            Some(_) => Place::Damaged,
            None => Place::Nowhere,
        };
        step
    }

    fn end(&mut self) -> Step {
        self.end_value();
        match self.place {
            Place::Nowhere => Step::GoesOn,
            Place::Values => Step::Entry(std::mem::take(&mut self.entry)),
            Place::Head | Place::Text | Place::Damaged => Step::Damaged,
        }
    }

    /// Adds a line that begins no entry.
    pub(super) fn add(&mut self, line: &[u8]) -> Step {
        let is_understood = match self.place {
            Place::Nowhere | Place::Damaged => true,
            Place::Head => self.add_to_head(line),
            Place::Text => self.add_to_text(line),
            Place::Values if line.is_empty() => {
                let step = self.end();
                *self = Self::default();
                return step;
            }
            Place::Values => self.add_to_values(line),
        };
        if !is_understood || self.bytes > MOST_BYTES {
            self.damage();
        }
        Step::GoesOn
    }

    /// The entry cannot be read. Nothing of it is kept.
    pub(super) fn damage(&mut self) {
        if self.place != Place::Nowhere {
            *self = Self {
                place: Place::Damaged,
                ..Self::default()
            };
        }
    }

    fn add_to_head(&mut self, line: &[u8]) -> bool {
        if let Some(text) = line.strip_prefix(b"Query: ") {
            self.begin_text(text);
            return true;
        }
        let line = String::from_utf8_lossy(trimmed(line));
        let Some((name, value)) = line.split_once(':') else {
            return false;
        };
        let number = || value.trim().parse::<i64>().ok();
        match name {
            "Query start time" => number().is_some_and(|start| {
                self.entry.start_ms = start;
                true
            }),
            "Generated timestamp" => number().is_some_and(|timestamp| {
                self.entry.timestamp = (timestamp != NO_TIMESTAMP).then_some(timestamp);
                true
            }),
            "Batch type" => {
                let kind = match value.trim() {
                    "LOGGED" => BatchKind::Logged,
                    "UNLOGGED" => BatchKind::Unlogged,
                    "COUNTER" => BatchKind::Counter,
                    _ => return false,
                };
                self.entry.batch = Some(kind);
                true
            }
            // Of a later version.
            _ => true,
        }
    }

    fn begin_text(&mut self, text: &[u8]) {
        let cql = String::from_utf8_lossy(text).into_owned();
        self.bytes += cql.len() + size_of::<LoggedStatement>();
        self.ending = Ending::default();
        self.ending.read(cql.as_bytes());
        self.entry.statements.push(LoggedStatement {
            cql,
            values: Vec::new(),
        });
        self.place = Place::Text;
    }

    /// A text goes on until a line that says that values come; such a line in a comment, a string or brackets is a part of it.
    fn add_to_text(&mut self, line: &[u8]) -> bool {
        self.ending.read(b"\n");
        if (line == b"Values: " || line == b"Values:") && self.ending.is_possible() {
            self.place = Place::Values;
            return true;
        }
        self.ending.read(line);
        let Some(statement) = self.entry.statements.last_mut() else {
            return false;
        };
        let line = String::from_utf8_lossy(line);
        statement.cql.push('\n');
        statement.cql.push_str(&line);
        self.bytes += line.len() + 1;
        true
    }

    fn add_to_values(&mut self, line: &[u8]) -> bool {
        if let Some(text) = line.strip_prefix(b"Query: ")
            && self.entry.batch.is_some()
        {
            self.end_value();
            self.is_said = false;
            self.begin_text(text);
            return true;
        }
        match trimmed(line) {
            // Since 4.1 behind each value, before behind each but the first.
            b"-----" => {
                if !self.end_value() && !self.is_said {
                    self.push(LoggedValue::Empty);
                }
                self.is_said = false;
                true
            }
            b"null" => {
                self.push(LoggedValue::Null);
                self.is_said = true;
                true
            }
            b"... truncated" => {
                let has_value = self.value.take().is_some();
                self.push(LoggedValue::Cut);
                self.is_said = true;
                has_value
            }
            b"........" => self.value.as_mut().is_some_and(|value| {
                value.repeat();
                true
            }),
            _ => self.add_digits(line),
        }
    }

    fn add_digits(&mut self, line: &[u8]) -> bool {
        let Some(line) = HexLine::read(line) else {
            return false;
        };
        if self.value.as_ref().is_some_and(|value| !value.goes_on(&line)) {
            self.end_value();
        }
        self.is_said = false;
        self.value.get_or_insert_default().add(line)
    }

    /// Whether there was one.
    fn end_value(&mut self) -> bool {
        let value = self.value.take();
        let is_there = value.is_some();
        if let Some(value) = value {
            self.push(LoggedValue::Bytes(value.bytes));
        }
        is_there
    }

    fn push(&mut self, value: LoggedValue) {
        let own = match &value {
            LoggedValue::Bytes(bytes) => bytes.len(),
            LoggedValue::Cut | LoggedValue::Null | LoggedValue::Empty => 0,
        };
        self.bytes += own + size_of::<LoggedValue>();
        if let Some(statement) = self.entry.statements.last_mut() {
            statement.values.push(value);
        }
    }
}
