//! What a statement does, in one word.

use serde::{Deserialize, Serialize};

/// What a statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StatementKind {
    /// SELECT.
    Select,
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// BATCH, as text or as a message.
    Batch,
    /// BEGIN TRANSACTION.
    Transaction,
    /// CREATE, ALTER, DROP, TRUNCATE.
    Ddl,
    /// Everything else, statements that were not understood included.
    Other,
}

impl StatementKind {
    /// Whether this is a read and does nothing else.
    pub fn is_read(self) -> bool {
        self == Self::Select
    }

    /// Whether executions touch partitions.
    pub fn touches_partitions(self) -> bool {
        self.is_read() || self.is_write() || self == Self::Transaction
    }

    /// Whether this writes rows and does nothing else.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Insert | Self::Update | Self::Delete | Self::Batch)
    }
}
