//! The loop: reports come on one side, keys on the other.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

use ratatui::{
    DefaultTerminal, Terminal,
    backend::TestBackend,
    crossterm::event::{self, Event},
};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

use crate::{draw, keys, model::Screen, report::Report, source::Source};

/// How the screen is run.
#[derive(Debug, Clone, Copy)]
pub struct ScreenOptions {
    /// Between two reports.
    pub every: Duration,
    /// Whether severities have colours, too.
    pub has_colours: bool,
}

/// A signal is noticed within this time.
const TICK: Duration = Duration::from_millis(100);

/// Shows reports of `source` until a key or a signal ends it; the terminal is then as it was before, after a panic too.
///
/// # Errors
/// A terminal that cannot be used.
pub fn run(source: Box<dyn Source>, options: ScreenOptions) -> io::Result<()> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    // SIGHUP ends the process at once: its terminal has gone, and crossterm would wait for keys of it forever.
    for signal in [SIGTERM, SIGINT] {
        flag::register(signal, Arc::clone(&is_stopped))?;
    }
    let mut screen = Screen::new(source.name());
    let reports = reports(source, options.every)?;
    let mut terminal = ratatui::try_init()?;
    let ended = show(&mut terminal, &mut screen, &reports, &is_stopped, options);
    let restored = ratatui::try_restore();
    ended.and(restored)
}

fn show(
    terminal: &mut DefaultTerminal,
    screen: &mut Screen,
    reports: &Receiver<Result<Report, String>>,
    is_stopped: &AtomicBool,
    options: ScreenOptions,
) -> io::Result<()> {
    while !screen.is_done && !is_stopped.load(Ordering::Relaxed) {
        reports.try_iter().for_each(|report| screen.take(report));
        terminal.draw(|frame| draw::screen(frame, screen, options.has_colours))?;
        if !event::poll(TICK)? {
            continue;
        }
        // Another size is drawn by the next round.
        if let Event::Key(key) = event::read()? {
            keys::action(key, screen)
                .into_iter()
                .for_each(|action| screen.apply(action));
        }
    }
    Ok(())
}

/// Reads reports in a thread of its own, which ends with the process: a proxy that does not respond stops no key.
fn reports(mut source: Box<dyn Source>, every: Duration) -> io::Result<Receiver<Result<Report, String>>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::Builder::new().name("reports".to_owned()).spawn(move || {
        while sender.send(read(source.as_mut())).is_ok() {
            thread::sleep(every);
        }
    })?;
    Ok(receiver)
}

fn read(source: &mut dyn Source) -> Result<Report, String> {
    let json = source.report()?;
    serde_json::from_slice(&json).map_err(|error| format!("the response is not a report: {error}"))
}

/// Writes the screen once, as plain text of `size` (columns, lines).
///
/// # Errors
/// No report, or an output that cannot be written.
pub fn once(source: &mut dyn Source, size: (u16, u16), to: &mut dyn Write) -> io::Result<()> {
    let mut screen = Screen::new(source.name());
    screen.take(Ok(read(source).map_err(io::Error::other)?));
    write!(to, "{}", plain(&screen, size)?)
}

pub(crate) fn plain(screen: &Screen, (width, height): (u16, u16)) -> io::Result<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).map_err(io::Error::other)?;
    terminal
        .draw(|frame| draw::screen(frame, screen, false))
        .map_err(io::Error::other)?;
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(usize::from(width)).map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        format!("{}\n", line.trim_end())
    });
    Ok(lines.collect())
}
