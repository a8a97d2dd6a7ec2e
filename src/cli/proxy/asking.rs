//! What cqlens asks the cluster beside the control connection, where the settings want it.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{args::Args, poll, trace_sample};
use crate::cli::tls::Tls;
use cqlens_audit::{audit::Audit, catalog::Live};

/// Whoever asks; ends when dropped.
#[derive(Debug, Default)]
pub(super) struct Asking {
    _tasks: JoinSet<()>,
}

impl Asking {
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
