//! What a statement gave, taken out of its response.

use bytes::Bytes;
use cqlens_proto::{
    envelope::Envelope,
    message::{ColumnSpec, Extensions, QueryResult, Response},
    types::{CqlType, CqlValue},
};

use super::ClientError;

/// A name, and the type of what has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Of the column or marker.
    pub name: String,
    /// Of its values.
    pub column_type: CqlType,
}

/// What a statement gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The columns of the rows; empty if the server left them out.
    pub columns: Vec<Column>,
    /// The cells of each row; `None` is null.
    pub rows: Vec<Vec<Option<Bytes>>>,
    /// Where the next page starts.
    pub paging_state: Option<Vec<u8>>,
    /// What the server warned about.
    pub warnings: Vec<String>,
    /// The keyspace that `USE` set.
    pub keyspace: Option<String>,
    /// What changed in the schema: `CREATED TABLE`.
    pub schema_change: Option<String>,
    /// The columns are others than PREPARED said, and this is their new name; version 5.
    pub new_metadata_id: Option<Vec<u8>>,
}

impl Answer {
    /// The rows as cqlsh would show their values.
    #[must_use]
    pub fn shown(&self) -> Vec<Vec<String>> {
        let cell = |(cell, column): (&Option<Bytes>, &Column)| match cell {
            None => "null".to_owned(),
            Some(bytes) => CqlValue::decode(&column.column_type, bytes)
                .map_or_else(|error| error.to_string(), |value| value.to_string()),
        };
        self.rows
            .iter()
            .map(|row| row.iter().zip(&self.columns).map(cell).collect())
            .collect()
    }

    /// The place of a column.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

pub(super) fn answer(envelope: &Envelope) -> Result<Answer, ClientError> {
    let decoded = Response::decode(envelope, Extensions::NONE)?;
    let mut answer = Answer {
        warnings: decoded
            .extras
            .warnings
            .iter()
            .map(|warning| (*warning).to_owned())
            .collect(),
        ..Answer::default()
    };
    match decoded.message {
        Response::Result(QueryResult::Void) => {}
        Response::Result(QueryResult::Rows(rows)) => {
            answer.columns = rows.metadata.columns.map(columns).unwrap_or_default();
            answer.paging_state = rows.metadata.paging_state.map(|state| state.0.to_vec());
            answer.new_metadata_id = rows.metadata.new_metadata_id.map(|id| id.0.to_vec());
            for row in rows {
                answer
                    .rows
                    .push(row?.iter().map(|cell| cell.map(Bytes::copy_from_slice)).collect());
            }
        }
        Response::Result(QueryResult::SetKeyspace { keyspace }) => {
            answer.keyspace = Some(keyspace.to_owned())
        }
        Response::Result(QueryResult::SchemaChange(change)) => {
            answer.schema_change = Some(format!("{} {}", change.change, change.object.target()));
        }
        response => return Err(ClientError::from_response(&response)),
    }
    Ok(answer)
}

/// The columns that specifications describe.
pub(super) fn columns<'a>(specs: impl IntoIterator<Item = ColumnSpec<'a>>) -> Vec<Column> {
    specs
        .into_iter()
        .map(|spec| Column {
            name: spec.name.to_owned(),
            column_type: spec.column_type,
        })
        .collect()
}
