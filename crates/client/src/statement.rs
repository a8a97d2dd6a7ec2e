//! Statements with values, one after the other, many at once, in pages or in a batch.

use bytes::Bytes;
use cqlens_proto::{
    envelope::StreamId,
    error::EncodeError,
    message::{
        Batch, BatchKind, BatchQuery, BatchStatement, Consistency, Execute, Extensions, PagingState, Prepare,
        PreparedId, Query, QueryParameters, QueryResult, Request, Response, ResultMetadataId, Value,
        ValuesBuf,
    },
    types::{CqlType, CqlValue},
};

use super::{
    Client, ClientError,
    answer::{Answer, Column, answer, columns},
};

/// How a statement is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// How many replicas have to answer.
    pub consistency: Consistency,
    /// Rows a page; `None`: all rows at once.
    pub page_size: Option<i32>,
    /// Where the page starts: [`Answer::paging_state`] of the page before.
    pub paging_state: Option<Vec<u8>>,
    /// The time of writes, in microseconds since 1970; `None`: the server's.
    pub timestamp: Option<i64>,
    /// The keyspace of unqualified names; version 5.
    pub keyspace: Option<String>,
    /// Leave the columns of prepared statements out of their results, as drivers do.
    pub skip_metadata: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            consistency: Consistency::LocalOne,
            page_size: None,
            paging_state: None,
            timestamp: None,
            keyspace: None,
            skip_metadata: false,
        }
    }
}

/// A value to bind: serialized, null, or not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bind {
    /// The bytes of a value.
    Bytes(Bytes),
    /// Null.
    Null,
    /// Not set; version 4 and later.
    NotSet,
}

impl Bind {
    /// A text.
    pub fn text(text: impl AsRef<str>) -> Bind {
        Bind::Bytes(Bytes::copy_from_slice(text.as_ref().as_bytes()))
    }

    /// An `int`.
    pub fn int(number: i32) -> Bind {
        Bind::Bytes(Bytes::copy_from_slice(&number.to_be_bytes()))
    }

    /// A value of a type.
    ///
    /// # Errors
    /// A value that is none of that type.
    pub fn value(value: &CqlValue, cql_type: &CqlType) -> Result<Bind, EncodeError> {
        Ok(value
            .to_bytes(cql_type)?
            .map_or(Bind::Null, |bytes| Bind::Bytes(bytes.into())))
    }

    fn on_the_wire(&self) -> Value<'_> {
        match self {
            Bind::Bytes(bytes) => Value::Bytes(bytes),
            Bind::Null => Value::Null,
            Bind::NotSet => Value::NotSet,
        }
    }
}

/// A statement with its values.
#[derive(Debug, Clone)]
pub enum Run<'a> {
    /// CQL text.
    Text(&'a str, &'a [Bind]),
    /// CQL text with values by the names of its markers.
    Named(&'a str, &'a [(&'a str, Bind)]),
    /// A prepared statement.
    Prepared(&'a Prepared, &'a [Bind]),
}

/// What PREPARED said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The server's name for the statement.
    pub id: Vec<u8>,
    /// The server's name for the result's columns; version 5.
    pub result_metadata_id: Option<Vec<u8>>,
    /// The bind markers.
    pub markers: Vec<Column>,
    /// Which markers are the partition key; version 4 and later.
    pub partition_key_indices: Vec<u16>,
    /// The columns of the result.
    pub columns: Vec<Column>,
}

impl Client {
    /// Runs CQL text without values.
    ///
    /// # Errors
    /// The connection's and the server's.
    pub async fn query(&mut self, cql: &str) -> Result<Answer, ClientError> {
        self.run(Run::Text(cql, &[]), &RunOptions::default()).await
    }

    /// Runs the statements of a script; what stands between semicolons is sent as it is.
    ///
    /// # Errors
    /// Of the first statement that fails.
    pub async fn script(&mut self, script: &str) -> Result<(), ClientError> {
        for (span, _) in cqlens_cql::syntax::statements(script) {
            let statement = script
                .get(span.start as usize..span.end as usize)
                .unwrap_or(script);
            self.query(statement).await?;
        }
        Ok(())
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// The connection's and the server's.
    pub async fn run(&mut self, run: Run<'_>, options: &RunOptions) -> Result<Answer, ClientError> {
        let stream_id = self.send_run(&run, options)?;
        self.flush().await?;
        let envelope = self.receive(stream_id).await?;
        answer(&envelope)
    }

    /// Runs many statements at once, and gives their answers in the order of the statements.
    ///
    /// # Errors
    /// The connection's; what the server says of each statement is in its place.
    pub async fn run_all(
        &mut self,
        runs: &[Run<'_>],
        options: &RunOptions,
    ) -> Result<Vec<Result<Answer, ClientError>>, ClientError> {
        let stream_ids = runs.iter().map(|run| self.send_run(run, options));
        let stream_ids: Vec<StreamId> = stream_ids.collect::<Result<_, _>>()?;
        self.flush().await?;
        let mut answers: Vec<_> = stream_ids.iter().map(|_| None).collect();
        for _ in &stream_ids {
            let envelope = self.next_envelope().await?;
            let place = stream_ids
                .iter()
                .position(|stream_id| *stream_id == envelope.header.stream_id);
            let place =
                place.ok_or_else(|| ClientError::Unexpected("a stream id of no request".to_owned()))?;
            answers[place] = Some(answer(&envelope));
        }
        Ok(answers
            .into_iter()
            .map(|answer| answer.unwrap_or(Err(ClientError::Closed)))
            .collect())
    }

    /// All pages of a read as one answer.
    ///
    /// # Errors
    /// The connection's and the server's.
    pub async fn run_paged(&mut self, run: Run<'_>, options: &RunOptions) -> Result<Answer, ClientError> {
        let mut all = self.run(run.clone(), options).await?;
        while let Some(paging_state) = all.paging_state.take() {
            let options = RunOptions {
                paging_state: Some(paging_state),
                ..options.clone()
            };
            let page = self.run(run.clone(), &options).await?;
            all.rows.extend(page.rows);
            all.warnings.extend(page.warnings);
            all.paging_state = page.paging_state;
        }
        Ok(all)
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// The connection's and the server's.
    pub async fn prepare(&mut self, cql: &str) -> Result<Prepared, ClientError> {
        self.prepare_in(cql, None).await
    }

    /// Prepares a statement whose unqualified names are a keyspace's; version 5.
    ///
    /// # Errors
    /// The connection's and the server's.
    pub async fn prepare_in(&mut self, cql: &str, keyspace: Option<&str>) -> Result<Prepared, ClientError> {
        let request = Request::Prepare(Prepare {
            query: cql,
            keyspace,
            other_flags: 0,
        });
        let envelope = self.request(&request).await?;
        match Response::decode(&envelope, Extensions::NONE)?.message {
            Response::Result(QueryResult::Prepared(prepared)) => Ok(Prepared {
                id: prepared.id.0.to_vec(),
                result_metadata_id: prepared.result_metadata_id.map(|id| id.0.to_vec()),
                markers: columns(prepared.bind.markers),
                partition_key_indices: prepared.bind.partition_key_indices,
                columns: prepared.result.columns.map(columns).unwrap_or_default(),
            }),
            response => Err(ClientError::from_response(&response)),
        }
    }

    /// Runs a batch of statements; values by name are not allowed in it.
    ///
    /// # Errors
    /// The connection's and the server's.
    pub async fn batch(
        &mut self,
        kind: BatchKind,
        runs: &[Run<'_>],
        options: &RunOptions,
    ) -> Result<Answer, ClientError> {
        let mut statements = Vec::with_capacity(runs.len());
        let mut buffers = Vec::with_capacity(runs.len());
        for run in runs {
            let (query, values) = match run {
                Run::Text(text, values) => (BatchQuery::Text(text), *values),
                Run::Prepared(prepared, values) => (BatchQuery::Prepared(PreparedId(&prepared.id)), *values),
                Run::Named(..) => {
                    return Err(EncodeError::Unsupported {
                        what: "named values in a batch",
                    }
                    .into());
                }
            };
            statements.push(query);
            buffers.push(ValuesBuf::positional(values.iter().map(Bind::on_the_wire))?);
        }
        let statements = statements
            .into_iter()
            .zip(&buffers)
            .map(|(query, values)| BatchStatement {
                query,
                values: values.values(),
            });
        let batch = Batch {
            kind,
            statements: statements.collect(),
            consistency: options.consistency,
            serial_consistency: None,
            timestamp: options.timestamp,
            keyspace: options.keyspace.as_deref(),
            now_in_seconds: None,
            other_flags: 0,
        };
        let envelope = self.request(&Request::Batch(batch)).await?;
        answer(&envelope)
    }

    fn send_run(&mut self, run: &Run<'_>, options: &RunOptions) -> Result<StreamId, ClientError> {
        let values = match run {
            Run::Text(_, values) | Run::Prepared(_, values) => {
                ValuesBuf::positional(values.iter().map(Bind::on_the_wire))?
            }
            Run::Named(_, values) => {
                ValuesBuf::by_name(values.iter().map(|(name, value)| (*name, value.on_the_wire())))?
            }
        };
        let mut parameters = QueryParameters {
            values: values.values(),
            page_size: options.page_size,
            paging_state: options.paging_state.as_deref().map(PagingState),
            timestamp: options.timestamp,
            keyspace: options.keyspace.as_deref(),
            ..QueryParameters::new(options.consistency)
        };
        let request = match run {
            Run::Text(query, _) | Run::Named(query, _) => Request::Query(Query { query, parameters }),
            Run::Prepared(prepared, _) => {
                parameters.skip_metadata = options.skip_metadata;
                // The keyspace of a prepared statement is PREPARE's.
                parameters.keyspace = None;
                Request::Execute(Execute {
                    id: PreparedId(&prepared.id),
                    result_metadata_id: prepared.result_metadata_id.as_deref().map(ResultMetadataId),
                    parameters,
                })
            }
        };
        self.send(&request)
    }
}
