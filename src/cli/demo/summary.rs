//! What the demo says on the terminal: what was sent, the worst of what was found, and where the report is.

use std::{
    io::{self, BufWriter, IsTerminal, Stdout, Write},
    path::Path,
    time::Duration,
};

use cqlens_report::Report;
use cqlens_window::number;

use crate::cli::{colour, screen::ScreenSummary};

/// Standard output, with what only a terminal gets.
pub(super) struct TourOutput {
    writer: BufWriter<Stdout>,
    is_terminal: bool,
    has_colours: bool,
}

/// Standard output.
pub(super) fn out() -> TourOutput {
    TourOutput {
        writer: BufWriter::new(io::stdout()),
        is_terminal: io::stdout().is_terminal(),
        has_colours: colour::is_on(&io::stdout()),
    }
}

impl TourOutput {
    /// Shows the current step on a terminal, over the one before; elsewhere nothing.
    pub(super) fn progress(&mut self, text: &str) {
        if self.is_terminal {
            // Progress that cannot be shown is no reason to stop.
            let _ = write!(self.writer, "\r\x1b[2K{text}").and_then(|()| self.writer.flush());
        }
    }

    fn heading(&self, text: &str) -> String {
        if self.has_colours {
            format!("\x1b[1m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

impl Write for TourOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// What was sent.
#[derive(Debug)]
pub(super) struct Tour {
    /// How many scenarios were run.
    pub(super) scenarios: usize,
    /// What they sent.
    pub(super) requests: u64,
}

/// What there is to say at the end.
pub(super) struct RunSummary<'a> {
    /// What was sent.
    pub(super) tour: &'a Tour,
    /// How long they took.
    pub(super) took: Duration,
    /// What the audit says of them.
    pub(super) report: &'a Report,
    /// Where the report is.
    pub(super) path: &'a Path,
}

impl RunSummary<'_> {
    /// Prints it.
    ///
    /// # Errors
    /// Those of standard output.
    pub(super) fn print(&self, out: &mut TourOutput) -> io::Result<()> {
        let heading = out.heading("cqlens demo");
        writeln!(
            out,
            "{heading}: {} scenarios, {} requests in {:.1} s, through the real proxy to an in-memory node.",
            self.tour.scenarios,
            number::count(self.tour.requests),
            self.took.as_secs_f64()
        )?;
        writeln!(
            out,
            "The node is a stand-in, not Cassandra: read the counts, not the latencies.\n"
        )?;
        let coverage = &self.report.coverage;
        writeln!(
            out,
            "Seen {} requests, audited {}, dropped {}, undecoded {}.\n",
            number::count(coverage.requests),
            number::count(coverage.audited),
            number::count(coverage.dropped),
            number::count(coverage.undecoded)
        )?;
        let has_colours = out.has_colours;
        ScreenSummary {
            report: self.report,
            written: &[("Report", self.path)],
            has_colours,
        }
        .print(out)?;
        writeln!(
            out,
            "To audit your own: cqlens proxy --upstream HOST:9042 --report report.html"
        )
    }
}
