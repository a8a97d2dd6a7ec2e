//! How far reading has come, with its rate and the time that is left: for people at a terminal, on standard error.

use std::{
    io::{IsTerminal, stderr},
    thread::{self, JoinHandle},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::sniff::Progress;

/// Shows progress where somebody sees it.
pub(super) struct Bar(Option<(ProgressBar, JoinHandle<()>)>);

const OFTEN: Duration = Duration::from_millis(200);

impl Bar {
    /// Begins to show it.
    pub(super) fn begin(progress: Progress) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let (bar, template) = match progress.total {
            Some(total) => (
                ProgressBar::new(total),
                "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
            ),
            None => (
                ProgressBar::no_length(),
                "{spinner} {bytes} read, {bytes_per_sec}",
            ),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let shown = bar.clone();
        let showing = thread::spawn(move || {
            while !shown.is_finished() {
                shown.set_position(progress.read());
                thread::sleep(OFTEN);
            }
        });
        Self(Some((bar, showing)))
    }

    /// Takes it away.
    pub(super) fn end(&mut self) {
        if let Some((bar, showing)) = self.0.take() {
            bar.finish_and_clear();
            // It ends by itself, and what it drew is gone.
            drop(showing);
        }
    }
}
