//! What goes to standard error.

use std::io::{IsTerminal, Write};

use anyhow::Context;
use tracing_subscriber::{EnvFilter, Registry, fmt, layer::SubscriberExt, reload, util::SubscriberInitExt};

/// What is logged, which may change while the process runs.
#[derive(Debug, Clone)]
pub(super) struct Log(reload::Handle<EnvFilter, Registry>);

/// Starts logging to standard error, with colour on a terminal only.
///
/// # Errors
/// A filter that cannot be read.
pub(super) fn start(filter: &str) -> anyhow::Result<Log> {
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    Ok(Log(handle))
}

/// Reads a filter.
///
/// # Errors
/// A filter that cannot be read.
pub(super) fn parse(filter: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(filter).context("--log")
}

impl Log {
    /// Logs what `filter` lets through, from now on.
    pub(super) fn filter(&self, filter: EnvFilter) {
        // It fails only where logging has ended.
        let _ = self.0.reload(filter);
    }
}

/// Prints an error that ends the program, in one line with its causes.
pub(super) fn failed(error: &anyhow::Error) {
    // Without standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "cqlens: {error:#}");
}
