//! What the demo says on the terminal: a line for each scenario, the findings, and where the report is.

use std::{
    io::{self, BufWriter, IsTerminal, Stdout, Write},
    path::Path,
    time::Duration,
};

use cqlens_audit::{
    number,
    report::{FindingReport, Report},
    rules::Severity,
    text,
};

/// Standard output, with what only a terminal gets.
pub(super) struct Out {
    writer: BufWriter<Stdout>,
    is_terminal: bool,
}

/// Standard output.
pub(super) fn out() -> Out {
    Out {
        writer: BufWriter::new(io::stdout()),
        is_terminal: io::stdout().is_terminal(),
    }
}

impl Out {
    /// Says what is being done, over what was said before; not where somebody reads it later.
    pub(super) fn progress(&mut self, text: &str) {
        if self.is_terminal {
            // Progress that cannot be shown is no reason to stop.
            let _ = write!(self.writer, "\r\x1b[2K{text}").and_then(|()| self.writer.flush());
        }
    }

    /// A text in the colour of a severity, padded to a width.
    fn severity(&self, severity: Severity) -> String {
        let text = format!("{severity:<6}");
        let colour = match severity {
            Severity::High => "31",
            Severity::Medium => "33",
            Severity::Low => "36",
            Severity::Info => "2",
        };
        if self.is_terminal {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text
        }
    }

    fn heading(&self, text: &str) -> String {
        if self.is_terminal {
            format!("\x1b[1m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// A scenario that was run.
#[derive(Debug)]
pub(super) struct Chapter {
    /// Its name.
    pub(super) id: String,
    /// The keyspaces of its tables.
    pub(super) keyspaces: Vec<String>,
    /// A few words.
    pub(super) title: String,
    /// What it sent.
    pub(super) requests: u64,
}

/// What there is to say at the end.
pub(super) struct Summary<'a> {
    /// The scenarios in their order.
    pub(super) chapters: &'a [Chapter],
    /// How long they took.
    pub(super) took: Duration,
    /// What the audit says of them.
    pub(super) report: &'a Report,
    /// Where the report is.
    pub(super) path: &'a Path,
}

impl Summary<'_> {
    /// Prints it.
    ///
    /// # Errors
    /// Those of standard output.
    pub(super) fn print(&self, out: &mut Out) -> io::Result<()> {
        let requests: u64 = self.chapters.iter().map(|chapter| chapter.requests).sum();
        let heading = out.heading("cqlens demo");
        writeln!(
            out,
            "{heading}: {} scenarios, {} requests in {:.1} s, through the real proxy to an embedded in-memory node.",
            self.chapters.len(),
            number::count(requests),
            self.took.as_secs_f64()
        )?;
        writeln!(
            out,
            "The node is a stand-in, not Cassandra: read the counts, not the latencies.\n"
        )?;
        self.print_chapters(out)?;
        self.print_findings(out)?;
        let coverage = &self.report.coverage;
        writeln!(
            out,
            "Seen {} requests, audited {}, dropped {}, undecoded {}.",
            number::count(coverage.requests),
            number::count(coverage.audited),
            number::count(coverage.dropped),
            number::count(coverage.undecoded)
        )?;
        writeln!(out, "Report: {}", self.path.display())?;
        writeln!(
            out,
            "To audit your own: cqlens proxy --upstream HOST:9042 --report report.html"
        )
    }

    fn print_chapters(&self, out: &mut Out) -> io::Result<()> {
        let width = self
            .chapters
            .iter()
            .map(|chapter| chapter.id.len())
            .max()
            .unwrap_or(0);
        for chapter in self.chapters {
            let mut rules: Vec<_> = self.findings_of(chapter).map(|finding| finding.rule).collect();
            rules.sort_unstable();
            rules.dedup();
            let found = if rules.is_empty() {
                "nothing found".to_owned()
            } else {
                rules.join(", ")
            };
            writeln!(out, "  {:width$}  {}: {found}", chapter.id, chapter.title)?;
        }
        writeln!(out)
    }

    fn print_findings(&self, out: &mut Out) -> io::Result<()> {
        if self.report.findings.is_empty() {
            return writeln!(out, "{}\n", self.report.summary.headline);
        }
        let heading = out.heading("Findings, the most expensive first");
        writeln!(out, "{heading}")?;
        for finding in &self.report.findings {
            let severity = out.severity(finding.severity);
            let title = text::escaped(&finding.title);
            writeln!(out, "  {severity}  {:<21}  {title}", finding.rule)?;
        }
        writeln!(out)
    }

    fn findings_of(&self, chapter: &Chapter) -> impl Iterator<Item = &FindingReport> {
        let keyspaces = chapter.keyspaces.clone();
        self.report.findings.iter().filter(move |finding| {
            let of = finding.keyspace.as_ref();
            of.is_some_and(|keyspace| keyspaces.contains(keyspace))
        })
    }
}
