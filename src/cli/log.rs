//! What goes to standard error.

use std::io::{IsTerminal, Write};

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// Starts logging to standard error, with colour on a terminal only.
///
/// # Errors
/// A filter that cannot be read.
pub(super) fn start(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).context("--log")?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    Ok(())
}

/// Prints an error that ends the program, in one line with its causes.
pub(super) fn failed(error: &anyhow::Error) {
    // Without standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "cqlens: {error:#}");
}
