//! The log, on standard error. That may be a pipe that nothing reads, so only the
//! log's own thread waits for it.
//!
//! Lines are queued, at most [`MOST_LINES`] of [`MOST_BYTES`](super::log_line::MOST_BYTES) each. Lines beyond
//! that are dropped and counted, and the log says how many as soon as it can be written again. Text that
//! clients and servers chose is escaped here, for every field of every line, so that no call has to remember
//! it. Panics go the same way.

use std::{
    cell::Cell,
    io::{Write, stderr},
    panic,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder};
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    reload,
    util::SubscriberInitExt,
};

use super::{colour, log_json, log_line::Fields};
use cqlens_audit::audit::failure;
use cqlens_report::text;

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// What is logged, which may change while the process runs.
#[derive(Debug, Clone)]
pub(super) struct Log(reload::Handle<Targets, Registry>);

/// More of them wait for standard error only if it stands still.
const MOST_LINES: usize = 1_024;
/// How long the end of the process waits for lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the log says that lines were dropped.
const SAY_EVERY: Duration = Duration::from_secs(10);

static QUEUE: OnceLock<NonBlocking> = OnceLock::new();
static FORMAT: OnceLock<LogFormat> = OnceLock::new();
/// Given to the queue, the dropped ones included.
static LOGGED: AtomicUsize = AtomicUsize::new(0);
/// Taken from the queue and written, or refused by standard error.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// Starts logging to standard error, text with colours where [`colour`] wants them.
///
/// # Errors
/// A filter that cannot be read.
pub(super) fn start(filter: &str, format: LogFormat) -> anyhow::Result<Log> {
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let (queue, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(MOST_LINES)
        .thread_name("log")
        .finish(StandardError::default());
    // If the queue is full, dropping the guard prints to standard output, which may be the same
    // pipe. `flush` waits instead.
    std::mem::forget(guard);
    let queue = QUEUE.get_or_init(|| queue);
    // The first format counts, as the first queue does.
    let _ = FORMAT.set(format);
    let lines = fmt::layer().with_writer(|| LogLine(queue.clone()));
    let lines = match format {
        LogFormat::Text => lines
            .fmt_fields(Fields)
            .with_ansi(colour::is_on(&stderr()))
            .with_target(false)
            .boxed(),
        LogFormat::Json => lines.event_format(log_json::Json).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    panic::set_hook(Box::new(|panic| {
        let (place, message) = (failure::place(panic), failure::message(panic.payload()));
        tracing::error!(thread = thread::current().name(), %place, "\
            a thread has panicked, which is a bug in cqlens: {message}");
    }));
    Ok(Log(handle))
}

/// Reads a filter.
///
/// # Errors
/// A filter that cannot be read.
pub(super) fn parse(filter: &str) -> anyhow::Result<Targets> {
    let directives: Vec<_> = filter.split(',').map(str::trim).collect();
    if let Some(misspelt) = directives.iter().find(|directive| !is_directive(directive)) {
        // A word that is no level would be taken for a part of the program, and all others would be silent.
        bail!("--log: {misspelt:?} is neither a level (error, warn, info, debug, trace, off) nor PART=LEVEL");
    }
    let is_about_cqlens = |directive: &&str| !directive.contains('=') || directive.starts_with("cqlens");
    ensure!(
        directives.iter().any(is_about_cqlens),
        "--log: nothing of cqlens would be logged; name a level as well, such as info,{filter}"
    );
    directives.join(",").parse().context("--log")
}

/// Whether it is a level, or a part of the program with one.
fn is_directive(directive: &str) -> bool {
    let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
    !level.is_empty() && level.parse::<LevelFilter>().is_ok()
}

impl Log {
    /// What is logged: a level, or a filter.
    pub(super) fn level(&self) -> String {
        // It fails only where logging has ended.
        self.0.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Logs what `filter` lets through, from now on.
    pub(super) fn filter(&self, filter: Targets) {
        // It fails only where logging has ended.
        let _ = self.0.reload(filter);
    }
}

/// Prints an error that ends the program, in one line with its causes.
pub(super) fn failed(error: &anyhow::Error) {
    let error = format!("{error:#}");
    match FORMAT.get() {
        Some(LogFormat::Json) => write(&log_json::error(&text::escaped(&error))),
        _ => said(&format!("cqlens: {error}")),
    }
}

/// Prints a line beside what goes to standard output.
pub(super) fn said(line: &str) {
    write(&format!("{}\n", text::escaped(line)));
}

fn write(line: &str) {
    // If standard error fails, there is no other place for it.
    let _ = match QUEUE.get() {
        Some(queue) => LogLine(queue.clone()).write_all(line.as_bytes()),
        None => stderr().write_all(line.as_bytes()),
    };
    flush();
}

/// Lines of the log that were dropped because standard error was not read in time, since
/// the start of the process.
pub(super) fn dropped() -> usize {
    QUEUE
        .get()
        .map_or(0, |queue| queue.error_counter().dropped_lines())
}

/// Waits until all lines are written, or for a second: a standard error that is not
/// read keeps no process alive.
pub(super) fn flush() {
    let deadline = Instant::now() + PATIENCE;
    let is_written = || WRITTEN.load(Ordering::Acquire) + dropped() >= LOGGED.load(Ordering::Acquire);
    while !is_written() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(2));
    }
}

/// [`flush`]es at the end of a scope, a panic included.
pub(super) struct Flush;

impl Drop for Flush {
    fn drop(&mut self) {
        flush();
    }
}

thread_local! {
    /// Whether this is the thread that writes the log: its own lines go past the queue, which may be full.
    static WRITES: Cell<bool> = const { Cell::new(false) };
}

/// Where a line is queued.
struct LogLine(NonBlocking);

impl Write for LogLine {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if WRITES.get() {
            return stderr().write_all(line).map(|()| line.len());
        }
        LOGGED.fetch_add(1, Ordering::AcqRel);
        self.0.write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Standard error, as the log's own thread sees it: `write_all` for each line, `flush`
/// when no more lines wait.
#[derive(Debug, Default)]
struct StandardError {
    /// How many dropped lines the log has reported, and when.
    said: usize,
    at: Option<Instant>,
}

impl StandardError {
    fn say_dropped(&mut self) {
        let dropped = dropped();
        if dropped > self.said {
            WRITES.set(true);
            tracing::warn!(
                lines = dropped - self.said,
                "log lines were dropped: standard error was not read in time"
            );
            self.said = dropped;
            self.at = Some(Instant::now());
        }
    }
}

impl Write for StandardError {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let written = stderr().write_all(line);
        WRITTEN.fetch_add(1, Ordering::AcqRel);
        if self.at.is_none_or(|at| at.elapsed() > SAY_EVERY) {
            self.say_dropped();
        }
        written.map(|()| line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.say_dropped();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::process::Command;

    use super::*;

    #[test]
    fn a_misspelt_level_is_refused_and_does_not_silence_the_log() {
        for filter in [
            "info",
            "off",
            "DEBUG",
            "cqlens_proxy=debug",
            "cqlens_proxy=debug,info",
            " warn , rustls=trace",
        ] {
            assert!(parse(filter).is_ok(), "{filter}");
        }
        for (filter, why) in [
            ("", "is neither a level"),
            ("debgu", "\"debgu\" is neither a level"),
            ("cqlens_proxy=debgu", "is neither a level"),
            ("info,", "is neither a level"),
            ("rustls=debug", "nothing of cqlens would be logged"),
        ] {
            let error = parse(filter).unwrap_err().to_string();
            assert!(error.contains(why), "{filter}: {error}");
        }
    }

    /// Set for the process that panics: it takes over the log and the panics of all its threads.
    const ALONE: &str = "CQLENS_TEST_PANIC";

    /// Not a test: what the test below runs in a process of its own. Without its
    /// variable there is nothing to do.
    #[test]
    fn panic_with_a_value() {
        if std::env::var_os(ALONE).is_none() {
            return;
        }
        let _last_lines = Flush;
        start("info", LogFormat::Text).unwrap();
        let secret = "hunter2";
        let ended = thread::spawn(move || panic!("a value\n{secret}")).join();
        assert!(ended.is_err());
        failed(&anyhow::anyhow!("cannot open x\n\x1b[2Jforged"));
    }

    #[test]
    fn a_panic_is_a_line_of_the_log_without_values() {
        let ran = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "cli::log::tests::panic_with_a_value"])
            .env(ALONE, "")
            .output()
            .unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.success(), "{said}");
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines.len(), 2, "{said}");
        assert!(
            lines[0].contains("ERROR a thread has panicked") && lines[0].contains("src/cli/log.rs:"),
            "{said}"
        );
        assert!(!said.contains("hunter2"), "{said}");
        assert_eq!(lines[1], r"cqlens: cannot open x\n\u{1b}[2Jforged");
    }
}
