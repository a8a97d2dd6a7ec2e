//! `cqlens explain`: the static half alone. CQL text in; template, footprint, findings and what
//! Cassandra would refuse out.
//!
//! Reads files of statements, or with `--json` one statement a line; never a network. A statement that is
//! wrong is answered as such, and the next one is read.

mod answer;
mod definitions;
mod draw;
mod fields;
mod human;
mod json;
mod lint;
mod touched;

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use jiff::Timestamp;

use self::draw::SourceText;
use self::lint::{Judge, LintOutcome};
use super::{colour, log, output::today, schema_file};
use cqlens_audit::number;
use cqlens_audit::rules::{Judging, Severity};
use cqlens_audit::text::Lines;
use cqlens_cql::schema::Schema;
use cqlens_proxy::files::{self, Limit};

/// Explain CQL statements without a cluster: what they touch, what the rules find, and
/// what Cassandra would refuse.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AS_A_LINTER)]
pub(super) struct Args {
    /// Definitions of the tables, as `DESCRIBE SCHEMA` prints them; without it only the text is explained.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// The keyspace of names without one, until a USE says another.
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Read one JSON record a line (`{"id", "keyspace", "query", "values"}`), answer one JSON object a line.
    #[arg(long)]
    json: bool,
    /// Exit with code 1 if a finding that is not accepted is of this severity or above.
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<Severity>,
    /// Let --fail-on pass although statements could not be judged, since there is no schema.
    #[arg(long, requires = "fail_on")]
    allow_unjudged: bool,
    /// CQL files; `-` or none: standard input.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

const AS_A_LINTER: &str = "\
Examples:
  A linter for CQL in source trees and CI:
      cqlens explain --schema schema.cql --fail-on medium queries/*.cql

The definitions of --schema are judged themselves (not with --json, which answers records). Each statement is judged as if it ran \
once: by its shape, since only traffic tells how often it runs (cqlens proxy). cqlens rules lists what is looked for.

Exit codes: 0 done; 1 a finding at or above --fail-on; 2 a file that cannot be read, a text that is no CQL, a statement that \
Cassandra would refuse, with --fail-on also one that could not be judged without a schema (unless --allow-unjudged). With --json the last two are answers, and change the exit code only where --fail-on is given.";

/// Explains all inputs. A file that cannot be read is reported, and the next one is read.
///
/// # Errors
/// A schema that cannot be read, or output that cannot be written; a reader that has gone away is no error.
pub(super) fn run(args: &Args, judging: &Judging) -> anyhow::Result<ExitCode> {
    let schema = args
        .schema
        .as_deref()
        .map(schema_file::read_with_text)
        .transpose()?;
    let judge = Judge::new(judging, today(Timestamp::now()));
    let outcome = explain(args, schema.as_ref(), &judge);
    match outcome {
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

fn explain(args: &Args, schema: Option<&(Schema, String)>, judge: &Judge<'_>) -> anyhow::Result<ExitCode> {
    let stdout = io::stdout();
    let colour = colour::is_on(&stdout);
    let mut out = io::BufWriter::new(stdout.lock());
    let mut outcome = LintOutcome::default();
    let mut unread = false;
    if let (Some(path), Some((schema, text)), false) = (&args.schema, schema, args.json) {
        let name = name(Some(path));
        let source = SourceText::new(&name, text, colour);
        let explained = definitions::explain(&source, schema, &mut out, judge);
        outcome.add(explained.with_context(|| format!("cannot explain {name}"))?);
    }
    let schema = schema.map(|(schema, _)| schema);
    for path in inputs(&args.files) {
        let keyspace = args.keyspace.as_deref();
        let input = open(path).and_then(|input| match args.json {
            true => Ok(StatementInput::Lines(input)),
            false => text(path, input).map(StatementInput::Script),
        });
        let explained = match input {
            Ok(StatementInput::Lines(input)) => {
                json::explain(input, &mut Lines::of_json(&mut out), keyspace, schema, judge)
            }
            Ok(StatementInput::Script(text)) => {
                let name = name(path);
                let source = SourceText::new(&name, &text, colour);
                let mut out = Lines::with_colours(&mut out, colour);
                human::explain(&source, &mut out, keyspace, schema, judge)
            }
            Err(error) => {
                out.flush().context("cannot write")?;
                log::failed(&error);
                unread = true;
                continue;
            }
        };
        outcome.add(explained.with_context(|| format!("cannot explain {}", name(path)))?);
    }
    out.flush().context("cannot write")?;
    if args.json && args.fail_on.is_none() {
        // With --json, errors are answers.
        outcome.wrong = 0;
    }
    outcome.wrong += usize::from(unread);
    if args.fail_on.is_some() && outcome.unjudged > 0 {
        log::failed(&anyhow::anyhow!(
            "{} of {} could not be judged: their tables are not known without --schema. Give one, or --allow-unjudged",
            outcome.unjudged,
            number::plural(outcome.statements as u64, "statement", "statements"),
        ));
        outcome.wrong += usize::from(!args.allow_unjudged);
    }
    Ok(outcome.exit_code(args.fail_on))
}

/// What is to be explained.
enum StatementInput {
    Lines(io::BufReader<Box<dyn Read>>),
    Script(String),
}

/// What to read; none stands for standard input.
fn inputs(files: &[PathBuf]) -> Vec<Option<&Path>> {
    if files.is_empty() {
        return vec![None];
    }
    files
        .iter()
        .map(|file| (file != Path::new("-")).then_some(file.as_path()))
        .collect()
}

fn name(path: Option<&Path>) -> String {
    path.map_or_else(|| "<stdin>".to_owned(), |path| path.display().to_string())
}

fn open(path: Option<&Path>) -> anyhow::Result<io::BufReader<Box<dyn Read>>> {
    let input: Box<dyn Read> = match path {
        None => Box::new(io::stdin()),
        Some(path) => Box::new(fs::File::open(path).with_context(|| cannot_read(Some(path)))?),
    };
    Ok(io::BufReader::new(input))
}

/// What is read as a whole.
const LIMIT: Limit = Limit::new("statements", 64 << 20);

fn text(path: Option<&Path>, input: impl Read) -> anyhow::Result<String> {
    files::text_from(input, LIMIT).with_context(|| cannot_read(path))
}

fn cannot_read(path: Option<&Path>) -> String {
    format!("cannot read {}", name(path))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
