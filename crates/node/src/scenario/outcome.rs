//! What a scenario has sent, or why it did not run to its end.

use cqlens_client::ClientError;
use cqlens_proto::types::CqlType;

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Statements and batches; a page is one of its own only for the server.
    pub requests: u64,
    /// How many of them were sent once more, because the server had forgotten what was prepared.
    pub sent_again: u64,
    /// How many were refused where they may be.
    pub refused: u64,
    /// Rows that came back.
    pub rows: u64,
}

/// Why a scenario did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A statement of the schema was refused.
    #[error("the schema of {scenario}: {source}")]
    Schema {
        /// The scenario.
        scenario: String,
        /// What the server said.
        source: ClientError,
    },
    /// A step failed that may not.
    #[error("{scenario}, phase {phase:?}: {cql}: {source}")]
    Step {
        /// The scenario.
        scenario: String,
        /// The phase.
        phase: String,
        /// The statement.
        cql: String,
        /// What went wrong.
        source: StepError,
    },
    /// A connection's task ended in the middle.
    #[error("a client of the scenario was cut off")]
    CutOff,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The connection or the server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A value that is none of its marker's type.
    #[error("`{text}` is no value of type {cql_type}")]
    Value {
        /// The value.
        text: String,
        /// The type of the marker.
        cql_type: CqlType,
    },
    /// A step without a statement, or with too few values.
    #[error("{0}")]
    Malformed(&'static str),
}
