//! What the answer to a request may say of nodes, and whether it is held until it is whole.

use std::sync::Arc;

use super::{hold_budget::HeldBytes, select_shape::SelectShape};

/// A response that has not come yet, and what it may say about nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PendingResponse {
    /// Rows of nodes.
    Rows(Arc<SelectShape>),
    /// It may have rows of nodes: its statement was prepared on another connection, or its text was not
    /// understood.
    Undetermined {
        /// The prepared id, for an EXECUTE.
        id: Option<Box<[u8]>>,
    },
    /// PREPARED of a statement that reads nodes.
    PreparedReader(Arc<SelectShape>),
    /// PREPARED of a statement that reads none.
    PreparedNotAboutNodes,
    /// PREPARED of a text that was not understood.
    PreparedUndetermined,
    /// SUPPORTED.
    Supported,
    /// EVENT.
    Event,
}

impl PendingResponse {
    /// Whether it surely names nodes.
    pub(super) fn is_about_nodes(&self) -> bool {
        match self {
            Self::Rows(_) | Self::Supported | Self::Event => true,
            Self::Undetermined { .. }
            | Self::PreparedReader(_)
            | Self::PreparedNotAboutNodes
            | Self::PreparedUndetermined => false,
        }
    }
}

/// Holds a response until it is whole.
#[derive(Debug)]
pub(super) struct HoldRequest {
    pub(super) pending: PendingResponse,
    /// Its share of the budget; none where the response is too long, or the budget is used up: then its body
    /// is dropped.
    pub(super) budget: Option<HeldBytes>,
}
