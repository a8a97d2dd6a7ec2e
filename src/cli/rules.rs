//! `cqlens rules [ID]`: the catalogue, and each rule's page; `docs/rules.md` is both in one document.

mod columns;
mod json;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::{Context, bail};

use super::nearest;
use cqlens_rules::{About, RULES, SEVERITY_THRESHOLDS, Settings, Threshold};

/// List the rules, or explain one
#[derive(Debug, clap::Args)]
#[command(after_long_help = ENDING)]
pub(super) struct Args {
    /// The rule to explain
    ///
    /// What it means, why it costs, an example, what to do, its thresholds.
    id: Option<String>,

    /// Format of the rules
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: RulesFormat,

    /// The same as --format md
    #[arg(long, conflicts_with_all = ["id", "format"], hide = true)]
    markdown: bool,
}

/// Format of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum RulesFormat {
    /// For terminals: a line for each rule, or the page of one
    Text,
    /// The pages as one Markdown document
    #[value(alias = "markdown")]
    Md,
    /// For programs: everything that the pages say, and the thresholds in force
    Json,
}

const ENDING: &str = "Examples:
  Explain a rule:
      cqlens rules allow-filtering
  Thresholds in force, for a script:
      cqlens rules --format json --config cqlens.toml

Exit codes:
  0  done
  2  a rule that does not exist, standard output that cannot be written";

/// Prints the catalogue, or the page of one rule with the thresholds that are set.
///
/// # Errors
/// A rule that does not exist, standard output that cannot be written.
pub(super) fn run(args: &Args, settings: &Settings) -> anyhow::Result<ExitCode> {
    let format = if args.markdown {
        RulesFormat::Md
    } else {
        args.format
    };
    let chosen = args.id.as_deref().map(find).transpose()?;
    let text = match (format, chosen) {
        (RulesFormat::Text, None) => catalogue(settings),
        (RulesFormat::Md, None) => document(),
        (RulesFormat::Text | RulesFormat::Md, Some(about)) => page(about, 1, settings),
        (RulesFormat::Json, None) => json::catalogue(settings)?,
        (RulesFormat::Json, Some(about)) => json::rule(about, settings)?,
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        // The reader of the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.context("cannot write to standard output")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn find(id: &str) -> anyhow::Result<&'static About> {
    match cqlens_rules::find(id) {
        Some(rule) => Ok(rule.about()),
        None => bail!(unknown(id)),
    }
}

/// The table of all rules, with what is set.
fn catalogue(settings: &Settings) -> String {
    columns::text(settings)
        + "\nThresholds are settings: `name = value` below `[rules.ID]` in cqlens.toml. `cqlens rules ID` explains a rule.\n"
}

/// All pages behind a table of contents, by group.
fn document() -> String {
    let settings = Settings::default();
    let rules = columns::groups().into_iter().flat_map(|(_, rules)| rules);
    let pages: String = rules
        .map(|about| format!("\n{}", page(about, 2, &settings)))
        .collect();
    format!(
        "# The rules of cqlens\n\n{}\n{}\n{}{pages}",
        wrapped(INTRODUCTION, ""),
        columns::markdown(&settings),
        severities(&settings)
    )
}

/// How severities come about, and what they depend on.
fn severities(settings: &Settings) -> String {
    let thresholds = thresholds("severity", "severity", SEVERITY_THRESHOLDS, settings);
    format!("## Severity\n\n{}\n\n{thresholds}\n", wrapped(SEVERITIES, ""))
}

const SEVERITIES: &str = "Each rule rates a single execution. One function for all rules then derives the \
     severity from the statements' share of the measured time (executions × mean latency) or of the work \
     (partitions, rows and tombstones touched), whichever is greater: one step up above `large_share`, one \
     step down below `small_share`, two below `negligible_share`, or if the statements keep the cluster busy \
     for less than `idle_ms_per_second` and touch less than `idle_work_per_second`. A finding whose cost \
     grows with the data, or that is slow (`slow_ms`), and that comes at least `steady_per_hour`, is at \
     least medium. Failures count by their share of the executions (`failed_share_high`, \
     `failed_share_medium`), one step less if there are fewer than `few_failures`. To switch a rule off or \
     to limit its severity, set `severity = \"off\"` (or `\"info\"`, `\"low\"`, `\"medium\"`) in \
     `[rules.ID]`.";

const INTRODUCTION: &str = "What `cqlens` reports about traffic, and why. Every finding carries its figures; its severity follows its \
     cost in that traffic, as each page explains. `cqlens rules --format md` prints this document, `cqlens rules ID` a single page.";

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// A page as the best linters have it; Markdown that also reads well as plain text. Its
/// own heading has the level.
fn page(about: &About, level: usize, settings: &Settings) -> String {
    let mark = "#".repeat(level);
    let mut text = format!("{mark} {}\n\n{}\n", about.id, wrapped(about.summary, ""));
    let section = |text: &mut String, heading: &str, body: &str| {
        if !body.is_empty() {
            *text += &format!("\n{mark}# {heading}\n\n{body}\n");
        }
    };
    section(&mut text, "Why it costs", &wrapped(about.why, ""));
    section(&mut text, "Example", &indented(about.before));
    section(&mut text, "Better", &indented(about.after));
    section(&mut text, "What to do", &wrapped(about.fix, ""));
    section(&mut text, "Severity", &wrapped(about.severity, ""));
    section(
        &mut text,
        "Thresholds and where their defaults come from",
        &thresholds(
            &format!("rules.{}", about.id),
            about.id,
            about.thresholds,
            settings,
        ),
    );
    section(&mut text, "What it needs", &wrapped(about.needs, ""));
    section(&mut text, "Source", &wrapped(about.source, ""));
    text
}

/// The table of settings that they stand in, and a line for each; nothing where there are none.
fn thresholds(table: &str, id: &str, thresholds: &[Threshold], settings: &Settings) -> String {
    if thresholds.is_empty() {
        return String::new();
    }
    let line = |threshold: &Threshold| {
        let Threshold {
            name,
            unit,
            default,
            origin,
        } = threshold;
        let set = settings.thresholds.get(&(id.to_owned(), (*name).to_owned()));
        let line = match set {
            Some(value) if value != default => {
                format!("- `{name}` = {value} {unit}, as set (default {default}): {origin}")
            }
            _ => format!("- `{name}` = {default} {unit}: {origin}"),
        };
        wrapped(&line, "  ")
    };
    let lines: Vec<_> = thresholds.iter().map(line).collect();
    let place = format!("In the settings file, in `[{table}]`:");
    format!("{place}\n\n{}", lines.join("\n"))
}

fn indented(cql: &str) -> String {
    let lines: Vec<_> = cql.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

/// Lines of at most this many characters.
const WIDTH: usize = 96;

/// The text in lines of [`WIDTH`]; lines after the first begin with `indent`.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    wrapped_at(WIDTH, text, indent)
}

/// The same in lines of another width.
fn wrapped_at(line_width: usize, text: &str, indent: &str) -> String {
    let mut wrapped = String::with_capacity(text.len() + text.len() / line_width * (1 + indent.len()));
    let mut width = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > line_width {
            wrapped += "\n";
            wrapped += indent;
            width = indent.len();
        } else if width > 0 {
            wrapped += " ";
            width += 1;
        }
        wrapped += word;
        width += length;
    }
    wrapped
}

/// The error for an id that no rule has, with those that it may have meant.
pub(super) fn unknown(id: &str) -> String {
    let close = nearest::names(id, RULES.iter().map(|rule| rule.about().id));
    let hint = nearest::question(&close).unwrap_or_else(|| "`cqlens rules` lists all".to_owned());
    format!("no rule is called {id:?}: {hint}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_catalogue_has_a_line_for_every_rule() {
        let text = catalogue(&Settings::default());
        for rule in RULES {
            let about = rule.about();
            let line = text.lines().find(|line| line.starts_with(about.id)).unwrap();
            let begins = about.summary.split(' ').take(4).collect::<Vec<_>>().join(" ");
            assert!(line.contains(&begins), "{line}");
        }
    }

    #[test]
    fn a_page_tells_everything_that_the_rule_says_of_itself() {
        insta::assert_snapshot!(page(
            cqlens_rules::find("in-partition-key").unwrap().about(),
            1,
            &Settings::default()
        ));
    }

    #[test]
    fn a_page_shows_what_is_set_beside_the_default() {
        let about = cqlens_rules::find("in-partition-key").unwrap().about();
        let threshold = &about.thresholds[0];
        let key = (about.id.to_owned(), threshold.name.to_owned());
        let page = page(
            about,
            1,
            &Settings {
                thresholds: [(key, 7.5)].into(),
                ..Settings::default()
            },
        );
        let line = format!(
            "- `{}` = 7.5 {}, as set (default {}): ",
            threshold.name, threshold.unit, threshold.default
        );
        assert!(page.replace("\n  ", " ").contains(&line), "{page}");
    }

    #[test]
    fn the_document_of_all_rules_is_what_the_rules_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rules.md");
        let kept = std::fs::read_to_string(path).unwrap();
        // Not assert_eq: it would print two documents of a thousand lines each.
        assert!(
            kept == document(),
            "docs/rules.md is not what the rules say: `cargo run -- rules --markdown > docs/rules.md`"
        );
    }

    #[test]
    fn the_document_has_a_link_and_a_page_for_every_rule() {
        let text = document();
        for rule in RULES {
            let id = rule.about().id;
            assert!(text.contains(&format!("](#{id})")), "{id} is not in the contents");
            assert_eq!(text.matches(&format!("\n## {id}\n")).count(), 1, "{id}");
        }
    }

    #[test]
    fn no_line_of_a_page_is_too_long_to_read() {
        for rule in RULES {
            let page = page(rule.about(), 1, &Settings::default());
            let long = page.lines().find(|line| line.chars().count() > WIDTH + 12);
            assert_eq!(long, None, "{}", rule.about().id);
        }
    }

    #[test]
    fn an_unknown_rule_is_an_error_with_the_names_that_come_close() {
        let error = |id: &str| {
            let args = Args {
                id: Some(id.to_owned()),
                format: RulesFormat::Text,
                markdown: false,
            };
            run(&args, &Settings::default()).unwrap_err().to_string()
        };
        assert_eq!(
            error("alow_filtering"),
            "no rule is called \"alow_filtering\": is it `allow-filtering`?"
        );
        assert_eq!(
            error("xyzzy"),
            "no rule is called \"xyzzy\": `cqlens rules` lists all"
        );
    }
}
