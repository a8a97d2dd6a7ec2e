//! How far reading has come, with its rate and the time that is left: for people at a
//! terminal, on standard error.

use std::{
    io::{IsTerminal, stderr},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use cqlens_sniff::Progress;

/// Shows progress on a terminal. A thread of its own draws, since the terminal may block.
pub(super) struct CaptureProgress(Option<Drawing>);

struct Drawing {
    /// Closed when there is nothing more to show.
    end: SyncSender<()>,
    /// Closed when nothing is shown any more.
    ended: Receiver<()>,
}

const OFTEN: Duration = Duration::from_millis(200);
/// A terminal that has not taken the bar away by then stands still.
const PATIENCE: Duration = Duration::from_millis(500);

impl CaptureProgress {
    /// Begins to show it.
    pub(super) fn begin(progress: Progress) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let ((end, until), (done, ended)) = (sync_channel(0), sync_channel::<()>(0));
        thread::spawn(move || {
            draw(&progress, &until);
            drop(done);
        });
        Self(Some(Drawing { end, ended }))
    }

    /// Takes it away.
    pub(super) fn end(&mut self) {
        if let Some(Drawing { end, ended }) = self.0.take() {
            drop(end);
            // Either way it is closed, or the terminal is not waited for.
            let _ = ended.recv_timeout(PATIENCE);
        }
    }
}

fn draw(progress: &Progress, until: &Receiver<()>) {
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
    loop {
        // At once: what is short is shown, too.
        bar.set_position(progress.read());
        if until.recv_timeout(OFTEN) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    bar.finish_and_clear();
}
