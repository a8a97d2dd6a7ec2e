//! `cqlens completions SHELL`: what a shell must know to complete commands, options and their values.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::command::Cli;

/// Print a shell's completion script
#[derive(Debug, clap::Args)]
#[command(after_long_help = ENDING)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

const ENDING: &str = "Examples:
  Bash, for yourself:
      folder=~/.local/share/bash-completion/completions
      mkdir -p $folder && cqlens completions bash > $folder/cqlens
  Zsh, in a folder of $fpath:
      cqlens completions zsh > ~/.zfunc/_cqlens
  Fish:
      cqlens completions fish > ~/.config/fish/completions/cqlens.fish

Exit codes:
  0  done
  2  a shell that is not supported, or standard output that cannot be written";

/// Prints the script to standard output.
///
/// # Errors
/// Standard output that cannot be written; a reader that has gone away is no error.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match io::stdout().lock().write_all(&script(args.shell, Cli::command())) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.context("cannot write to standard output")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The script. It goes through memory, since the generator takes a reader that has gone away for a reason to panic.
fn script(shell: Shell, mut command: Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "cqlens", &mut script);
    script
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_shell_learns_every_command() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell, Cli::command())).unwrap();
            for command in Cli::command().get_subcommands() {
                assert!(
                    script.contains(command.get_name()),
                    "{shell}: {}",
                    command.get_name()
                );
            }
            assert!(!script.contains('\u{1b}'), "{shell}: an escape sequence");
        }
    }
}
