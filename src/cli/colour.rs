//! Whether output has colours: the only place that decides it.
//!
//! `--color` comes first, then `NO_COLOR` (<https://no-color.org>), `CLICOLOR_FORCE` and `CLICOLOR`; else a terminal has
//! colours and a pipe has none. clap asks in the same way before it prints help and errors.

use std::ffi::OsStr;

use clap::ValueEnum;

use anstream::{AutoStream, ColorChoice, stream::RawStream};

/// When output has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum When {
    /// On a terminal
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

impl When {
    /// What was typed; none if it is no such word, which is said elsewhere.
    pub(super) fn read(text: &OsStr) -> Option<Self> {
        Self::from_str(text.to_str()?, false).ok()
    }

    /// Decides for the whole process.
    pub(super) fn put_in_force(self) {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

/// Whether what is written to `stream` has colours.
pub(super) fn is_on(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}
