//! Requests of cqlens' own beside the control connection: traces and `system_views`,
//! if the settings want them.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{args::Args, poll, trace_sample};
use crate::cli::tls::Tls;
use cqlens_audit::{audit::Audit, catalog::Live};

/// The tasks that send them; they end when this is dropped.
#[derive(Debug, Default)]
pub(super) struct SideQueries {
    _tasks: JoinSet<()>,
}

impl SideQueries {
    /// The settings that it depends on, beside those of the control connection.
    pub(super) const SETTINGS: &[&str] = &["trace-sample", "poll-system-views"];

    /// Begins to ask, as `args` have it.
    pub(super) fn begin(args: &Args, tls: &Tls, live: &Arc<Live>, audit: &Audit) -> Self {
        let mut tasks = JoinSet::new();
        if let Some(tracing) = trace_sample::trace(args, tls, live, audit) {
            tasks.spawn(tracing);
        }
        if let Some(polling) = poll::poll(args, tls, live, audit) {
            tasks.spawn(polling);
        }
        Self { _tasks: tasks }
    }
}
