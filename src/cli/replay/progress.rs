//! How far a replay has come, for people at a terminal who wait.

use std::{
    io::{IsTerminal, Write, stderr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use cqlens_rehearse::replay::ReplayProgress;
use cqlens_window::number;

/// One line on standard error that is written over; nothing where that is no terminal. A thread of its own writes,
/// since the terminal may block.
pub(super) struct ProgressLine(Option<(Sender<()>, JoinHandle<()>)>);

const OFTEN: Duration = Duration::from_millis(200);
/// Back to the beginning of the line, and without what is in it (ECMA-48, EL).
const CLEAR: &str = "\r\x1b[K";

impl ProgressLine {
    /// Begins to show it: of `bytes` of the recording, `read` have been read.
    pub(super) fn begin(progress: &Arc<ReplayProgress>, bytes: u64, read: Arc<AtomicU64>) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let (end, until) = channel::<()>();
        let progress = Arc::clone(progress);
        let begun = Instant::now();
        let drawing = thread::spawn(move || {
            let mut to = stderr();
            while until.recv_timeout(OFTEN) == Err(RecvTimeoutError::Timeout) {
                let share = (read.load(Ordering::Relaxed), bytes);
                // A terminal that does not take it is no reason not to replay.
                let _ = write!(to, "{CLEAR}{}", line(&progress, share, begun.elapsed()))
                    .and_then(|()| to.flush());
            }
            let _ = write!(to, "{CLEAR}").and_then(|()| to.flush());
        });
        Self(Some((end, drawing)))
    }

    /// Takes it away.
    pub(super) fn end(self) {
        if let Some((end, drawing)) = self.0 {
            drop(end);
            let _ = drawing.join();
        }
    }
}

fn line(progress: &ReplayProgress, (read, bytes): (u64, u64), passed: Duration) -> String {
    let sent = progress.sent.load(Ordering::Relaxed);
    let failed = progress.failed.load(Ordering::Relaxed);
    let seconds = passed.as_secs_f64();
    let rate = number::rate(sent as f64 / seconds.max(0.001));
    let failed = match failed {
        0 => String::new(),
        failed => format!(", {} failed", number::count(failed)),
    };
    // The recording is read some seconds ahead: of a short one nothing is foretold.
    let left = match read {
        1.. if read < bytes => {
            let left = seconds * (bytes - read) as f64 / read as f64;
            format!(", about {} left", number::seconds(left.ceil()))
        }
        _ => String::new(),
    };
    format!("{} sent, {rate}{failed}{left}", number::count(sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_follows_from_what_was_read() {
        let progress = ReplayProgress::default();
        progress.sent.store(5_000, Ordering::Relaxed);
        assert_eq!(
            line(&progress, (25, 100), Duration::from_secs(10)),
            "5,000 sent, 500 a second, about 30 s left"
        );
        progress.failed.store(3, Ordering::Relaxed);
        assert_eq!(
            line(&progress, (100, 100), Duration::from_secs(10)),
            "5,000 sent, 500 a second, 3 failed"
        );
    }
}
