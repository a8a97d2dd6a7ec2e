//! What is asked: a statement or a BATCH message, and where it comes from.

/// A statement or message to compare.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) group: Group,
    pub(crate) text: Text,
}

/// Where a case comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// `reference.cql`: written by hand.
    Reference,
    Select,
    Insert,
    Update,
    Delete,
    /// `BEGIN … BATCH` in text.
    Batch,
    /// `BEGIN TRANSACTION`.
    Transaction,
    /// A BATCH message.
    Message,
    /// DDL, roles, permissions, `USE`, `DESCRIBE`.
    Definition,
    /// Statements with a fault.
    Broken,
}

#[derive(Debug, Clone)]
pub(crate) enum Text {
    Statement(String),
    /// The kind as BATCH has it; statements, and whether each is sent prepared.
    Message {
        kind: u8,
        statements: Vec<(String, bool)>,
    },
}

impl Case {
    /// The statements, one or those of the message.
    pub(crate) fn statements(&self) -> Vec<&str> {
        match &self.text {
            Text::Statement(statement) => vec![statement],
            Text::Message { statements, .. } => statements
                .iter()
                .map(|(statement, _)| statement.as_str())
                .collect(),
        }
    }
}
