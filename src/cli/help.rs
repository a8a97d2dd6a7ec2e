//! Help as it is shown: `-h` on one screen, `--help` with everything.
//!
//! The words stand with the arguments: the first paragraph is for `-h`, the others are for `--help`, which ends with
//! examples and exit codes.

use clap::{Arg, Command, builder::Styles};

/// The command with its help as it is shown. `is_short`: without the names of environment variables, which take a line each.
pub(super) fn shown(command: Command, is_short: bool) -> Command {
    let command = match is_short {
        true => command.mut_args(without_environment),
        false => command,
    };
    let styles = command.get_styles().clone();
    let ending = command
        .get_after_long_help()
        .map(|text| headed(&text.to_string(), &styles));
    let command = match ending {
        Some(ending) => command.after_long_help(ending),
        None => command,
    };
    command.mut_subcommands(|command| shown(command, is_short))
}

fn without_environment(argument: Arg) -> Arg {
    argument.hide_env(true)
}

/// The heading that a line of the ending is: it ends in a colon and is not indented.
pub(super) fn heading(line: &str) -> Option<&str> {
    line.strip_suffix(':').filter(|heading| !heading.starts_with(' '))
}

/// The text with its headings in the style of all others.
fn headed(text: &str, styles: &Styles) -> String {
    let header = styles.get_header();
    let lines = text.lines().map(|line| match heading(line) {
        Some(_) => format!("{header}{line}{header:#}"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use clap::CommandFactory;

    use super::*;
    use crate::cli::command::Cli;

    /// Every command, with the name that it is typed by.
    fn commands(is_short: bool) -> Vec<Command> {
        let mut program = shown(Cli::command(), is_short).term_width(80);
        program.build();
        let commands: Vec<_> = program
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
            .cloned()
            .collect();
        [program].into_iter().chain(commands).collect()
    }

    #[test]
    fn short_help_is_one_screen() {
        for mut command in commands(true) {
            let help = command.render_help().to_string();
            let most = if command.get_name() == "proxy" { 60 } else { 50 };
            assert!(help.lines().count() <= most, "{}: {help}", help.lines().count());
            let wide = help.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{help}");
            assert!(!help.contains("[env"), "{help}");
        }
    }

    #[test]
    fn long_help_ends_with_examples_and_exit_codes() {
        for mut command in commands(false) {
            let help = command.render_long_help().to_string();
            let (_, ending) = help
                .split_once("\nExamples:\n")
                .unwrap_or_else(|| panic!("{help}"));
            let (examples, codes) = ending
                .split_once("\nExit codes:")
                .unwrap_or_else(|| panic!("{help}"));
            assert!(examples.contains("cqlens "), "{help}");
            assert!(codes.contains("0 ") && codes.contains('2'), "{help}");
            let typed = command
                .get_after_long_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let wide = typed.lines().find(|line| line.chars().count() > 80);
            assert!(wide.is_none() || command.get_name() == "explain", "{wide:?}");
        }
    }

    #[test]
    fn the_first_paragraph_of_every_option_is_one_sentence_without_a_full_stop() {
        for command in commands(false) {
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty(), "{}: {argument}", command.get_name());
                let is_plain = !help.ends_with('.') && !help.contains(". ") && help.chars().count() <= 80;
                assert!(
                    is_plain || command.get_name() == "explain",
                    "{}: {argument}: {help}",
                    command.get_name()
                );
            }
        }
    }

    #[test]
    fn headings_of_the_ending_look_like_all_others() {
        let command = shown(Cli::command(), false);
        let ending = command.get_after_long_help().unwrap().ansi().to_string();
        assert!(ending.contains("\u{1b}[4mExamples:\u{1b}["), "{ending:?}");
        assert!(ending.contains("without a cluster:\n"), "{ending:?}");
    }
}
