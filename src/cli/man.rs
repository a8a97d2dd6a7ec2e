//! `cqlens man`: the manual pages, out of the same arguments as the help.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use super::{command::Cli, help};

/// Print the manual page, or install the pages of all commands
#[derive(Debug, clap::Args)]
#[command(after_long_help = ENDING)]
pub(super) struct Args {
    /// Write cqlens.1, cqlens-proxy.1 and so on into this folder
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

const ENDING: &str = "Examples:
  Read the manual page without installing it:
      cqlens man | man -l -
  Install the pages of all commands, for yourself:
      cqlens man -o ~/.local/share/man/man1

Exit codes:
  0  done
  2  a folder or standard output that cannot be written";

/// Prints the page of `cqlens`, or writes all pages.
///
/// # Errors
/// A folder or standard output that cannot be written; a reader that has gone away is no error.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let pages = pages(Cli::command())?;
    if let Some(folder) = &args.output {
        write_all(&pages, folder)
            .with_context(|| format!("cannot write manual pages to {}", folder.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let first = pages.first().map_or(&[][..], |page| &page.roff);
    match io::stdout().lock().write_all(first) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.context("cannot write to standard output")?,
    }
    Ok(ExitCode::SUCCESS)
}

struct Page {
    /// `cqlens-proxy.1`
    file: String,
    roff: Vec<u8>,
}

fn write_all(pages: &[Page], folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    pages
        .iter()
        .try_for_each(|page| fs::write(folder.join(&page.file), &page.roff))
}

/// The page of the program, then those of its commands.
fn pages(mut program: Command) -> io::Result<Vec<Page>> {
    program = program.disable_help_subcommand(true);
    program.build();
    let commands: Vec<_> = program.get_subcommands().cloned().collect();
    [program].into_iter().chain(commands).map(page).collect()
}

fn page(command: Command) -> io::Result<Page> {
    let ending = command.get_after_long_help().map(ToString::to_string);
    let has_commands = command.has_subcommands();
    let man = Man::new(command)
        .manual("cqlens")
        .source(concat!("cqlens ", env!("CARGO_PKG_VERSION")));
    let mut roff = Vec::new();
    man.render_title(&mut roff)?;
    man.render_name_section(&mut roff)?;
    man.render_synopsis_section(&mut roff)?;
    man.render_description_section(&mut roff)?;
    man.render_options_section(&mut roff)?;
    if has_commands {
        man.render_subcommands_section(&mut roff)?;
    }
    sections(&ending.unwrap_or_default()).to_writer(&mut roff)?;
    Ok(Page {
        file: man.get_filename(),
        roff,
    })
}

/// The end of the long help, with a section for each of its headings: clap_mangen would call all of it "extra".
fn sections(ending: &str) -> Roff {
    let mut roff = Roff::new();
    for line in ending.lines() {
        match help::heading(line) {
            Some(heading) => roff.control("SH", [heading.to_uppercase().as_str()]),
            None if line.is_empty() => roff.control("PP", []),
            None => roff.text([roman(line)]),
        };
    }
    roff
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let pages = pages(Cli::command()).unwrap();
        let files: Vec<_> = pages.iter().map(|page| page.file.as_str()).collect();
        assert_eq!(files[..2], ["cqlens.1", "cqlens-proxy.1"]);
        assert_eq!(files.len(), 1 + Cli::command().get_subcommands().count());
        let proxy = String::from_utf8(pages[1].roff.clone()).unwrap();
        for part in [
            ".TH cqlens-proxy 1",
            r"\-\-upstream",
            "CQLENS_UPSTREAM",
            ".SH EXAMPLES",
            ".SH \"EXIT CODES\"",
        ] {
            assert!(proxy.contains(part), "{part}: {proxy}");
        }
        assert!(!proxy.contains('\u{1b}'), "an escape sequence");
    }
}
