//! How many snapshots are read, for people at a terminal who wait.

use std::{
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

/// One line on standard error that is written over; nothing where that is no terminal, and nothing of what takes less
/// than a second.
pub(in crate::cli) struct Progress {
    to: Option<Box<dyn Write>>,
    /// What is read, such as snapshots.
    what: &'static str,
    begun: Instant,
    shown: Option<Instant>,
}

const AFTER: Duration = Duration::from_secs(1);
const OFTEN: Duration = Duration::from_millis(200);

/// Back to the beginning of the line, and without what is in it (ECMA-48, EL).
const CLEAR: &str = "\r\x1b[K";

impl Progress {
    /// Of reading so many of `what`, which begins now.
    pub(in crate::cli) fn begin(what: &'static str) -> Self {
        let to = stderr()
            .is_terminal()
            .then(|| Box::new(stderr()) as Box<dyn Write>);
        Self::on(to, what, Instant::now())
    }

    fn on(to: Option<Box<dyn Write>>, what: &'static str, begun: Instant) -> Self {
        Self {
            to,
            what,
            begun,
            shown: None,
        }
    }

    /// Says that so many are done.
    pub(super) fn show(&mut self, done: usize, of: usize) {
        self.show_at(Instant::now(), done, of);
    }

    fn show_at(&mut self, now: Instant, done: usize, of: usize) {
        let Some(to) = &mut self.to else { return };
        let passed = now.duration_since(self.begun);
        let is_soon = self.shown.is_some_and(|shown| now.duration_since(shown) < OFTEN);
        if passed < AFTER || is_soon {
            return;
        }
        self.shown = Some(now);
        // A terminal that does not take it is no reason not to report.
        let _ = write!(to, "{CLEAR}{}", line(self.what, done, of, passed)).and_then(|()| to.flush());
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if let (Some(to), Some(_)) = (&mut self.to, self.shown.take()) {
            let _ = write!(to, "{CLEAR}").and_then(|()| to.flush());
        }
    }
}

fn line(what: &str, done: usize, of: usize, passed: Duration) -> String {
    let begun = format!("reading {what}: {done} of {of}");
    match done {
        0 => begun,
        _ => {
            let left = passed.as_secs_f64() * (of - done) as f64 / done as f64;
            format!("{begun}, about {} s left", left.ceil())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
        }
    }

    #[test]
    fn what_takes_longer_than_a_second_is_shown_in_one_line_that_goes_again() {
        let (screen, begun) = (Screen::default(), Instant::now());
        let mut progress = Progress::on(Some(Box::new(screen.clone())), "snapshots", begun);
        let at = |milliseconds| begun + Duration::from_millis(milliseconds);
        progress.show_at(at(900), 100, 720);
        assert_eq!(screen.take(), "");
        progress.show_at(at(2_000), 180, 720);
        assert_eq!(
            screen.take(),
            "\r\x1b[Kreading snapshots: 180 of 720, about 6 s left"
        );
        progress.show_at(at(2_100), 181, 720);
        assert_eq!(screen.take(), "", "no more than five times a second");
        progress.show_at(at(2_200), 182, 720);
        assert!(screen.take().contains("182 of 720"));
        progress.clear();
        assert_eq!(screen.take(), "\r\x1b[K");
        progress.clear();
        assert_eq!(screen.take(), "");
    }

    #[test]
    fn a_pipe_gets_nothing() {
        let mut progress = Progress::on(None, "snapshots", Instant::now());
        progress.show_at(Instant::now() + Duration::from_secs(9), 1, 2);
        progress.clear();
        assert!(progress.shown.is_none());
    }

    #[test]
    fn nothing_is_foretold_of_what_has_not_begun() {
        assert_eq!(
            line("snapshots", 0, 3, Duration::from_secs(2)),
            "reading snapshots: 0 of 3"
        );
        assert_eq!(
            line("snapshots", 3, 3, Duration::from_secs(2)),
            "reading snapshots: 3 of 3, about 0 s left"
        );
    }
}
