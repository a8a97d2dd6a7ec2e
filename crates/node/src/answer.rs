//! What a request gives, owned, and how it becomes an envelope.

use bytes::Bytes;
use cqlens_proto::envelope::{Envelope, Header, Opcode, StreamId, Version};
use cqlens_proto::error::EncodeError;
use cqlens_proto::message::query::PagingState;
use cqlens_proto::message::result::{ColumnSpecsBuf, RowsContent};
use cqlens_proto::message::{
    BindMetadata, ColumnSpec, Dialect, Event, Extras, Prepared, PreparedId, QueryResult, Response,
    ResultMetadata, ResultMetadataId, Rows, SchemaChange, SchemaObject,
};
use cqlens_proto::types::CqlType;

use super::failure::Failure;

/// What a statement gave, with the warnings for its client.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    /// What it gave.
    pub(super) outcome: Outcome,
    /// Texts for the client; versions before 4 cannot carry them.
    pub(super) warnings: Vec<String>,
}

/// What a statement gave.
#[derive(Debug, Clone, Default)]
pub(super) enum Outcome {
    /// Nothing: a write.
    #[default]
    Void,
    /// Rows of a read, or of a conditional write.
    Rows(RowSet),
    /// The connection's keyspace from now on.
    SetKeyspace(String),
    /// A statement to execute.
    Prepared(PreparedAnswer),
    /// The schema is another one now.
    SchemaChange(DefinitionChange),
}

/// Rows to send.
#[derive(Debug, Clone)]
pub(super) struct RowSet {
    /// What the columns are.
    pub(super) columns: Vec<ResultColumn>,
    /// The rows; `None` is null.
    pub(super) rows: Vec<Vec<Option<Bytes>>>,
    /// Where the next page starts; `None` on the last one.
    pub(super) paging_state: Option<Vec<u8>>,
    /// What the metadata says about the columns.
    pub(super) described: Described,
}

/// Whether the metadata of rows names the columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Described {
    /// It does.
    #[default]
    Fully,
    /// The client knows them from PREPARED and asked to leave them out.
    Not,
    /// The client knows other columns than there are now: version 5 names the new ones and their id.
    Anew([u8; 16]),
}

/// A column of a result, or a bind marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResultColumn {
    /// Of the table.
    pub(super) keyspace: String,
    /// Of the column.
    pub(super) table: String,
    /// Column, alias, selector or marker.
    pub(super) name: String,
    /// Its type.
    pub(super) column_type: CqlType,
}

/// What PREPARED says.
#[derive(Debug, Clone)]
pub(super) struct PreparedAnswer {
    /// What EXECUTE will name.
    pub(super) id: [u8; 16],
    /// The name of `columns`.
    pub(super) metadata_id: [u8; 16],
    /// The bind markers.
    pub(super) markers: Vec<ResultColumn>,
    /// For each partition key column its marker; empty if not each has one.
    pub(super) partition_key_indices: Vec<u16>,
    /// The columns of the result; `None` for a write.
    pub(super) columns: Option<Vec<ResultColumn>>,
}

/// A change of the schema, for the one who made it and for those who registered for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DefinitionChange {
    /// `CREATED`, `UPDATED` or `DROPPED`.
    pub(super) change: &'static str,
    /// The keyspace of what changed, or itself.
    pub(super) keyspace: String,
    /// What changed.
    pub(super) object: Changed,
}

/// The object of a change, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Changed {
    /// The keyspace.
    Keyspace,
    /// A table, its indexes, or a view.
    Table(String),
    /// A user-defined type.
    Type(String),
}

/// The envelope that answers a request.
///
/// # Errors
/// What has no form on the wire, such as a cell of more than 2 GiB.
pub(super) fn envelope(
    result: &Result<Answer, Failure>,
    version: Version,
    stream_id: StreamId,
) -> Result<Envelope, EncodeError> {
    let dialect = Dialect::new(version);
    match result {
        Err(failure) => {
            Response::Error(failure.message(version)).to_envelope(dialect, stream_id, &Extras::default())
        }
        Ok(answer) => {
            let warnings = match version {
                Version::V3 => Vec::new(),
                _ => answer.warnings.iter().map(String::as_str).collect(),
            };
            let extras = Extras {
                warnings,
                ..Extras::default()
            };
            answer.outcome.envelope(dialect, stream_id, &extras)
        }
    }
}

/// The envelope of an event.
///
/// # Errors
/// Names that are longer than the wire can say.
pub(super) fn event(change: &DefinitionChange, version: Version) -> Result<Envelope, EncodeError> {
    Response::Event(Event::SchemaChange(change.message())).to_envelope(
        Dialect::new(version),
        StreamId::EVENT,
        &Extras::default(),
    )
}

/// READY: the body is empty.
pub(super) fn ready(version: Version, stream_id: StreamId) -> Envelope {
    Envelope {
        header: Header::response(version, stream_id, Opcode::READY),
        body: Bytes::new(),
    }
}

impl Outcome {
    fn envelope(
        &self,
        dialect: Dialect,
        stream_id: StreamId,
        extras: &Extras<'_>,
    ) -> Result<Envelope, EncodeError> {
        let send = |result: QueryResult<'_>| Response::Result(result).to_envelope(dialect, stream_id, extras);
        match self {
            Outcome::Void => send(QueryResult::Void),
            Outcome::SetKeyspace(keyspace) => send(QueryResult::SetKeyspace { keyspace }),
            Outcome::SchemaChange(change) => send(QueryResult::SchemaChange(change.message())),
            Outcome::Rows(rows) => rows.with_message(|rows| send(QueryResult::Rows(rows))),
            Outcome::Prepared(prepared) => {
                prepared.with_message(dialect, |prepared| send(QueryResult::Prepared(prepared)))
            }
        }
    }
}

impl RowSet {
    /// Rows on one page that names its columns.
    pub(super) fn new(columns: Vec<ResultColumn>, rows: Vec<Vec<Option<Bytes>>>) -> RowSet {
        RowSet {
            columns,
            rows,
            paging_state: None,
            described: Described::Fully,
        }
    }

    fn with_message<T>(
        &self,
        send: impl FnOnce(Rows<'_>) -> Result<T, EncodeError>,
    ) -> Result<T, EncodeError> {
        let specs = specs(&self.columns)?;
        let mut content = RowsContent::new(self.columns.len());
        for row in &self.rows {
            content.push(row.iter().map(|cell| cell.as_deref()))?;
        }
        let columns = (self.described != Described::Not).then(|| specs.columns());
        let new_metadata_id = match &self.described {
            Described::Anew(id) => Some(ResultMetadataId(id)),
            Described::Fully | Described::Not => None,
        };
        let metadata = ResultMetadata {
            column_count: self.columns.len(),
            columns,
            paging_state: self.paging_state.as_deref().map(PagingState),
            new_metadata_id,
            ..ResultMetadata::none()
        };
        send(Rows::new(metadata, &content)?)
    }
}

impl PreparedAnswer {
    fn with_message<T>(
        &self,
        dialect: Dialect,
        send: impl FnOnce(Prepared<'_>) -> Result<T, EncodeError>,
    ) -> Result<T, EncodeError> {
        let markers = specs(&self.markers)?;
        let columns = self.columns.as_deref().map(specs).transpose()?;
        let partition_key_indices = match dialect.version {
            Version::V3 => Vec::new(),
            _ => self.partition_key_indices.clone(),
        };
        let bind = BindMetadata {
            markers: markers.columns(),
            partition_key_indices,
            other_flags: 0,
        };
        let result = columns.as_ref().map_or(ResultMetadata::none(), |columns| {
            ResultMetadata::new(columns.columns())
        });
        send(Prepared {
            id: PreparedId(&self.id),
            result_metadata_id: dialect
                .has_result_metadata_id()
                .then_some(ResultMetadataId(&self.metadata_id)),
            bind,
            result,
        })
    }
}

impl DefinitionChange {
    fn message(&self) -> SchemaChange<'_> {
        let object = match &self.object {
            Changed::Keyspace => SchemaObject::Keyspace,
            Changed::Table(name) => SchemaObject::Table(name),
            Changed::Type(name) => SchemaObject::Type(name),
        };
        SchemaChange {
            change: self.change,
            keyspace: &self.keyspace,
            object,
        }
    }
}

fn specs(columns: &[ResultColumn]) -> Result<ColumnSpecsBuf, EncodeError> {
    let columns: Vec<_> = columns
        .iter()
        .map(|column| ColumnSpec {
            keyspace: &column.keyspace,
            table: &column.table,
            name: &column.name,
            column_type: column.column_type.clone(),
        })
        .collect();
    ColumnSpecsBuf::new(&columns)
}
