//! `cqlens top`: what a running proxy sees, as a screen of a terminal.

use std::{
    env,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use cqlens_top::{Http, HttpSettings, ScreenOptions, Source};

use super::{colour, config::positive_duration};

/// Watch a running proxy, or a folder of snapshots, in the terminal
///
/// Statements, findings, tables and applications, by their share of time and work, their rate, latency and errors. A
/// proxy updates its report after each window: with --window 10s, every ten seconds.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ENDING)]
pub(in crate::cli) struct Args {
    /// The admin listener of a proxy, or a folder of snapshots
    #[arg(value_name = "URL|DIR", default_value = "http://127.0.0.1:9143")]
    from: String,
    /// How often to read the report
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = positive_duration)]
    every: Duration,
    /// Read the token of the admin listener from a file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// CA certificates to verify the admin listener, in PEM; needed for https
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Print the screen once, as plain text
    #[arg(long)]
    once: bool,
    /// Columns and lines of that text
    #[arg(long, value_name = "COLUMNSxLINES", default_value = "120x40", value_parser = size, requires = "once")]
    size: (u16, u16),
}

const ENDING: &str = "Examples:
  Watch a proxy that was started with --admin 127.0.0.1:9143:
      cqlens top
  Watch a proxy on another machine:
      cqlens top https://cqlens-1:9143 --token-file admin.token --tls-ca ca.pem
  Print what the snapshots of a proxy say:
      cqlens top snapshots --once

Keys:
  1 2 3 4  statements, findings, tables, applications
  Enter    open; Esc goes back
  s        sort by the next column
  /        filter
  Space    pause
  ?        help
  q        quit

Exit codes:
  0  done
  2  a URL or folder that cannot be used, no terminal, or no report with --once";

/// Shows the screen until a key or a signal ends it.
///
/// # Errors
/// A URL or certificates that cannot be used, no terminal; with --once, no report.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut source: Box<dyn Source> = match args.from.contains("://") {
        true => Box::new(Http::new(HttpSettings {
            url: args.from,
            token_file: args.token_file,
            tls_ca: args.tls_ca,
        })?),
        false => Box::new(Snapshots::new(&args.from)?),
    };
    if args.once {
        let mut out = io::stdout().lock();
        cqlens_top::once(source.as_mut(), args.size, &mut out).context("cannot print the screen")?;
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(
        io::stdout().is_terminal() && io::stdin().is_terminal(),
        "this is no terminal; --once prints the screen as text"
    );
    let options = ScreenOptions {
        every: args.every,
        has_colours: colour::is_on(&io::stdout()),
    };
    cqlens_top::run(source, options).context("cannot use the terminal")?;
    Ok(ExitCode::SUCCESS)
}

/// A folder of snapshots, merged and judged by `cqlens report`: as another process, whose progress and notices are not
/// on the screen.
struct Snapshots {
    folder: PathBuf,
}

impl Snapshots {
    fn new(folder: &str) -> anyhow::Result<Self> {
        let folder = Path::new(folder);
        ensure!(
            folder.is_dir(),
            "{} is neither a folder nor the http:// or https:// URL of an admin listener",
            folder.display()
        );
        Ok(Self {
            folder: folder.to_owned(),
        })
    }
}

impl Source for Snapshots {
    fn name(&self) -> String {
        self.folder.display().to_string()
    }

    fn report(&mut self) -> Result<Vec<u8>, String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let output = Command::new(program)
            .args(["report", "--format", "json"])
            .arg(&self.folder)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(last_line(&output.stderr)),
        }
    }
}

fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().last().unwrap_or("cqlens report failed");
    line.trim_start_matches("cqlens: ").to_owned()
}

/// `120x40`.
fn size(text: &str) -> Result<(u16, u16), String> {
    let numbers = text.split_once('x').and_then(|(columns, lines)| {
        let number = |text: &str| {
            text.parse::<u16>()
                .ok()
                .filter(|number| (1..=1_000).contains(number))
        };
        Some((number(columns)?, number(lines)?))
    });
    numbers.ok_or_else(|| "columns and lines, such as 80x24, each from 1 to 1000".to_owned())
}
