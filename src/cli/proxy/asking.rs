//! What cqlens asks the cluster beside the control connection, where the settings want it.

use std::sync::Arc;

use super::{args::Args, poll::Polling, trace_sample::Tracing};
use crate::{audit::Audit, catalog::Live, cli::tls::Tls};

/// Whoever asks; ends when dropped.
#[derive(Debug, Default)]
pub(super) struct Asking {
    _tracing: Tracing,
    _polling: Polling,
}

impl Asking {
    /// The settings that it depends on, beside those of the control connection.
    pub(super) const SETTINGS: &[&str] = &["trace-sample", "poll-system-views"];

    /// Begins to ask, as `args` have it.
    pub(super) fn begin(args: &Args, tls: &Tls, live: &Arc<Live>, audit: &Audit) -> Self {
        Self {
            _tracing: Tracing::begin(args, tls, live, audit),
            _polling: Polling::begin(args, tls, live, audit),
        }
    }
}
