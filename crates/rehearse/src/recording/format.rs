//! What the lines of a recording look like.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use cqlens_proto::message::{BatchKind, Consistency, SerialConsistency};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::value_line::{Hex64, Hex128, ValueLine};
use crate::{
    column_types::ColumnTypes,
    digest::{DigestKey, ResponseDigest, RowsDigest},
    exchange::{Effect, Page, RecordedExchange, RecordedRequest, RecordedStatement, RecordedValue},
};

/// The format that this version writes, and reads.
pub const FORMAT: &str = "cqlens.recording.v1";

/// The first line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// The version of cqlens that wrote it.
    pub cqlens: String,
    /// The proxy or captures that the exchanges are of.
    pub source: String,
    /// When the file was begun.
    pub started: Timestamp,
    /// The same in all files of one run: numbers of exchanges and connections count up within it.
    pub run: Hex64,
    /// Whether values can be read.
    pub values: RecordedValues,
    /// The key of the digests of responses; only where values can be read anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_key: Option<Hex128>,
}

impl Header {
    /// What it takes up, about.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.format.len() + self.cqlens.len() + self.source.len()
    }

    /// The key of the digests, if it was written.
    pub fn digest_key(&self) -> Option<DigestKey> {
        self.digest_key.map(|key| DigestKey(key.0))
    }
}

/// How values are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedValues {
    /// As they are: such a recording can be replayed.
    Clear,
    /// Keyed hashes in their place. The key is not kept.
    Hashed,
}

/// The last line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct End {
    /// Exchanges of the file.
    pub exchanges: u64,
    /// Requests that were left out since the file before, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Statements of the file of which only keywords, signs and a table are kept: their texts do not parse, and values are not
    /// recorded.
    #[serde(default)]
    pub statements_cut: u64,
    /// Files that have gone since the recording began, because it was too large or they were too old.
    #[serde(default)]
    pub files_removed: u64,
}

impl End {
    /// What it takes up, about.
    pub(super) fn weight(&self) -> usize {
        const EACH: usize = 64;
        let reasons = self.left_out.keys().map(|why| EACH + why.len());
        size_of::<Self>() + reasons.sum::<usize>()
    }
}

/// Any line after the first: its first member says which.
#[derive(Debug)]
pub(super) enum Line<'a> {
    Exchange(Box<ExchangeLine<'a>>),
    Statement(StatementLine<'a>),
    Columns(ColumnsLine),
    End(EndLine),
    /// Of a later version that calls itself the same format.
    Other,
}

impl<'a> Line<'a> {
    pub(super) fn read(text: &'a str) -> serde_json::Result<Self> {
        let first = text.strip_prefix("{\"").and_then(|rest| rest.split_once('"'));
        Ok(match first.map(|(member, _)| member) {
            Some("n") => Self::Exchange(serde_json::from_str(text)?),
            Some("statement") => Self::Statement(serde_json::from_str(text)?),
            Some("columns") => Self::Columns(serde_json::from_str(text)?),
            Some("end") => Self::End(serde_json::from_str(text)?),
            _ => {
                serde_json::from_str::<IgnoredAny>(text)?;
                Self::Other
            }
        })
    }
}

/// The text of a statement.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StatementLine<'a> {
    pub(super) statement: u32,
    #[serde(borrow)]
    pub(super) cql: Cow<'a, str>,
}

/// The names and types of the columns of rows.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ColumnsLine {
    pub(super) columns: u32,
    pub(super) types: Vec<(String, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EndLine {
    pub(super) end: End,
}

/// An exchange. Members that are not there have their usual value.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExchangeLine<'a> {
    n: u64,
    connection: u64,
    actor: Hex64,
    at_us: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_us: Option<u64>,
    #[serde(borrow)]
    statements: Vec<BoundLine<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch: Option<NumberOrName>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    keyspace: Option<Cow<'a, str>>,
    consistency: NumberOrName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    serial_consistency: Option<NumberOrName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    now_in_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page_size: Option<i32>,
    #[serde(default, skip_serializing_if = "PageLine::is_first")]
    page: PageLine,
    effect: Effect,
    #[serde(default, skip_serializing_if = "is_false")]
    ordered: bool,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pattern: Option<Cow<'a, str>>,
    response: ResponseLine,
}

#[derive(Debug, Serialize, Deserialize)]
struct BoundLine<'a> {
    id: u32,
    #[serde(default, skip_serializing_if = "is_false")]
    prepared: bool,
    /// Of the values in order, where they are bound by name.
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    names: Vec<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<ValueLine>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PageLine {
    #[default]
    First,
    After(u64),
    Unknown,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ResponseLine {
    Rows(RowsLine),
    Void,
    SetKeyspace,
    SchemaChange,
    Error(i32),
    Missing,
}

#[derive(Debug, Serialize, Deserialize)]
struct RowsLine {
    count: u64,
    ordered: Hex128,
    unordered: Hex128,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    by_column: Vec<Hex128>,
    /// Which names and types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    columns: Option<u32>,
    #[serde(default, skip_serializing_if = "is_false")]
    more: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !value
}

impl PageLine {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    fn is_first(&self) -> bool {
        matches!(self, Self::First)
    }
}

/// A level or kind by its name, or by its number where it has none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum NumberOrName {
    Number(u16),
    Name(Cow<'static, str>),
}

impl NumberOrName {
    fn of_consistency(consistency: Consistency) -> Self {
        match consistency {
            Consistency::Unknown(number) => Self::Number(number),
            known => Self::Name(known.name().into()),
        }
    }

    fn of_batch(kind: BatchKind) -> Self {
        let name = BATCHES.into_iter().find(|(of, _)| *of == kind);
        name.map_or(Self::Number(kind.number().into()), |(_, name)| {
            Self::Name(name.into())
        })
    }
}

const BATCHES: [(BatchKind, &str); 3] = [
    (BatchKind::Logged, "logged"),
    (BatchKind::Unlogged, "unlogged"),
    (BatchKind::Counter, "counter"),
];

impl NumberOrName {
    fn consistency(&self) -> Option<Consistency> {
        match self {
            Self::Number(number) => Some(Consistency::from_number(*number)),
            Self::Name(name) => Consistency::ALL.into_iter().find(|level| level.name() == name),
        }
    }

    fn batch(&self) -> Option<BatchKind> {
        match self {
            Self::Number(number) => u8::try_from(*number).ok().map(BatchKind::from_number),
            Self::Name(name) => BATCHES
                .into_iter()
                .find(|(_, of)| of == name)
                .map(|(kind, _)| kind),
        }
    }
}

/// What a line says that names statements and columns by numbers which the file has not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadReference;

impl ExchangeLine<'_> {
    pub(super) fn of<'a>(
        exchange: &'a RecordedExchange,
        statements: &[u32],
        columns: Option<u32>,
    ) -> ExchangeLine<'a> {
        let RecordedExchange {
            request, response, ..
        } = exchange;
        let bound = request.statements.iter().zip(statements);
        ExchangeLine {
            n: exchange.number,
            connection: exchange.connection,
            actor: Hex64(exchange.actor),
            at_us: exchange.at_us,
            latency_us: exchange.latency.map(microseconds),
            statements: bound
                .map(|(statement, id)| BoundLine::of(statement, *id))
                .collect(),
            batch: request.batch.map(NumberOrName::of_batch),
            keyspace: request.keyspace.as_deref().map(Cow::Borrowed),
            consistency: NumberOrName::of_consistency(request.consistency),
            serial_consistency: request
                .serial_consistency
                .map(|level| NumberOrName::of_consistency(level.0)),
            timestamp: request.timestamp,
            now_in_seconds: request.now_in_seconds,
            page_size: request.page_size,
            page: match request.page {
                Page::First => PageLine::First,
                Page::After(number) => PageLine::After(number),
                Page::Unknown => PageLine::Unknown,
            },
            effect: request.effect,
            ordered: request.is_ordered,
            pattern: request.pattern.as_deref().map(Cow::Borrowed),
            response: ResponseLine::of(response, columns),
        }
    }

    /// The exchange, of which statements and columns are found by their numbers.
    pub(super) fn exchange(
        self,
        statement: impl Fn(u32) -> Option<Arc<str>>,
        columns: impl Fn(u32) -> Option<ColumnTypes>,
    ) -> Result<RecordedExchange, BadReference> {
        let bound = self.statements.into_iter();
        let statements = bound.map(|bound| {
            let cql = statement(bound.id)?;
            Some(bound.statement(cql))
        });
        let of_name = |name: Option<NumberOrName>| match name {
            Some(name) => name.consistency().map(Some).ok_or(BadReference),
            None => Ok(None),
        };
        let batch = match self.batch {
            Some(kind) => Some(kind.batch().ok_or(BadReference)?),
            None => None,
        };
        let request = RecordedRequest {
            statements: statements.collect::<Option<_>>().ok_or(BadReference)?,
            batch,
            keyspace: self.keyspace.map(|keyspace| Arc::from(&*keyspace)),
            consistency: self.consistency.consistency().ok_or(BadReference)?,
            serial_consistency: of_name(self.serial_consistency)?.map(SerialConsistency),
            timestamp: self.timestamp,
            now_in_seconds: self.now_in_seconds,
            page_size: self.page_size,
            page: match self.page {
                PageLine::First => Page::First,
                PageLine::After(number) => Page::After(number),
                PageLine::Unknown => Page::Unknown,
            },
            effect: self.effect,
            is_ordered: self.ordered,
            pattern: self.pattern.map(|pattern| Arc::from(&*pattern)),
        };
        Ok(RecordedExchange {
            number: self.n,
            connection: self.connection,
            actor: self.actor.0,
            at_us: self.at_us,
            request,
            latency: self.latency_us.map(Duration::from_micros),
            response: self.response.digest(columns)?,
        })
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl BoundLine<'_> {
    fn of(statement: &RecordedStatement, id: u32) -> BoundLine<'_> {
        let names = statement.values.iter();
        BoundLine {
            id,
            prepared: statement.is_prepared,
            names: names
                .map_while(|value| value.name.as_deref().map(Cow::Borrowed))
                .collect(),
            values: statement
                .values
                .iter()
                .map(|value| ValueLine(value.content.clone()))
                .collect(),
        }
    }

    fn statement(self, cql: Arc<str>) -> RecordedStatement {
        let mut names = self.names.into_iter();
        let values = self.values.into_iter().map(|value| RecordedValue {
            name: names.next().map(|name| name.into_owned().into()),
            content: value.0,
        });
        RecordedStatement {
            cql,
            is_prepared: self.prepared,
            values: values.collect(),
        }
    }
}

impl ResponseLine {
    fn of(response: &ResponseDigest, columns: Option<u32>) -> Self {
        match response {
            ResponseDigest::Rows(rows) => Self::Rows(RowsLine {
                count: rows.count,
                ordered: Hex128(rows.ordered),
                unordered: Hex128(rows.unordered),
                by_column: rows.columns.iter().copied().map(Hex128).collect(),
                columns,
                more: rows.has_more,
            }),
            ResponseDigest::Void => Self::Void,
            ResponseDigest::SetKeyspace => Self::SetKeyspace,
            ResponseDigest::SchemaChange => Self::SchemaChange,
            ResponseDigest::Error(code) => Self::Error(*code),
            ResponseDigest::Missing => Self::Missing,
        }
    }

    fn digest(self, columns: impl Fn(u32) -> Option<ColumnTypes>) -> Result<ResponseDigest, BadReference> {
        Ok(match self {
            Self::Rows(rows) => ResponseDigest::Rows(RowsDigest {
                count: rows.count,
                ordered: rows.ordered.0,
                unordered: rows.unordered.0,
                columns: rows.by_column.into_iter().map(|digest| digest.0).collect(),
                column_types: match rows.columns {
                    Some(id) => Some(columns(id).ok_or(BadReference)?),
                    None => None,
                },
                has_more: rows.more,
            }),
            Self::Void => ResponseDigest::Void,
            Self::SetKeyspace => ResponseDigest::SetKeyspace,
            Self::SchemaChange => ResponseDigest::SchemaChange,
            Self::Error(code) => ResponseDigest::Error(code),
            Self::Missing => ResponseDigest::Missing,
        })
    }
}
