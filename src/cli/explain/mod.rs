//! `cqlens explain`: the static half alone. CQL text in; template, footprint, findings and what
//! Cassandra would refuse out.
//!
//! Reads files of statements, or with `--json` one statement a line; never a network. A statement that is
//! wrong is answered as such, and the next one is read.

mod answer;
mod applied;
mod definitions;
mod draw;
mod fault;
mod fields;
mod form;
mod input;
mod json;
mod lint;
mod nearest;
mod order;
mod placeholder;
mod print;
mod recorded;
mod remark;
mod script;
mod server;
mod sites;
mod source;
mod together;
mod touched;
mod transaction;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::Context;
use jiff::Timestamp;

use self::definitions::Definitions;
use self::form::Form;
use self::lint::{Judge, LintOutcome};
use self::print::{Detail, Printer};
use self::remark::RemarkLevel;
use self::script::ScriptExplainer;
use self::server::Server;
use self::source::SourceText;
use super::{colour, log, output::today, schema_file};
use cqlens_cql::schema::Schema;
use cqlens_rehearse::recording::is_recording;
use cqlens_rules::{Judging, Severity};
use cqlens_window::number;

/// Explain CQL statements without a cluster: what they touch, what the rules find, and
/// what Cassandra would refuse.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AS_A_LINTER)]
pub(super) struct Args {
    /// Definitions of the tables, as printed by `DESCRIBE SCHEMA`; without it, only the text is explained.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Who reads the statements: 4.0, 4.1, 5.0 or 6.0 of Cassandra, scylladb, keyspaces or dse. What it does not know is an
    /// error. The default is the product that --schema shows, else 5.0.
    #[arg(long, value_name = "SERVER")]
    server: Option<Server>,
    /// The keyspace of unqualified names, until a USE.
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// In which form findings are written.
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<Form>,
    /// Read one JSON record per line (`{"id", "keyspace", "query", "values"}`) and write one JSON object per line; with
    /// --format, write findings in that format instead.
    #[arg(long)]
    json: bool,
    /// Each line begins with `file:line:` (or `file:line:column:`), as in the output of `grep -n`: findings refer to
    /// that place.
    #[arg(long, conflicts_with = "json")]
    located: bool,
    /// Exit with code 1 on findings of this severity or above that are not accepted.
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<Severity>,
    /// Let --fail-on pass even if statements could not be judged without a schema.
    #[arg(long, requires = "fail_on")]
    allow_unjudged: bool,
    /// Print only findings, errors and the summary.
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// Also print what is skipped, and why each finding matters.
    #[arg(long, short)]
    verbose: bool,
    /// CQL files, folders of `.cql` files, or recordings; `-` or none: standard input.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

const AS_A_LINTER: &str = "Examples:
  A linter for CQL in source trees and CI:
      cqlens explain --schema schema.cql --fail-on medium queries/*.cql
      cqlens explain --keyspace shop --fail-on medium migrations/

Files in a folder are read in the order of migration tools, without those that take a migration back. CREATE, ALTER and DROP apply to the statements \
after them, in later files too, and the final definitions are judged, including those of --schema (not with --json, which processes \
records). Each statement is judged as if it ran once: by its shape, because only traffic shows how often it runs (cqlens proxy). \
cqlens rules lists the rules.

Exit codes: 0 done; 1 a finding at or above --fail-on; 2 a file that cannot be read, a text that is not CQL, a statement that \
Cassandra would reject, with --fail-on also one that could not be judged without a schema (unless --allow-unjudged). With --json the \
last two are results, and change the exit code only if --fail-on is given.";

/// Explains all inputs. A file that cannot be read is reported, and the next one is read.
///
/// # Errors
/// A schema that cannot be read, or output that cannot be written; a reader that has gone away is no error.
pub(super) fn run(args: &Args, judging: &Judging) -> anyhow::Result<ExitCode> {
    let schema = known_schema(args)?;
    let of_schema = || Server::of_schema(&schema.as_ref()?.text);
    let server = args.server.or_else(of_schema).unwrap_or_default();
    let judge = Judge::new(judging, today(Timestamp::now())).for_server(server);
    let stdout = io::stdout();
    let colour = colour::is_on(&stdout);
    let out = io::BufWriter::new(stdout.lock());
    let printer = Printer::new(out, args.format.unwrap_or(Form::Text), colour, args.detail());
    let ended = match args.json {
        true => explain_records(args, schema, &judge, printer),
        false => explain_scripts(args, schema, &judge, printer),
    };
    match ended {
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error),
        Ok(outcome) => Ok(args.judged(outcome)),
    }
}

impl Args {
    fn detail(&self) -> Detail {
        match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (false, false) => Detail::Usual,
            (false, true) => Detail::Verbose,
        }
    }

    /// Whether a remark makes the job fail; without a limit, whether it asks for a change.
    fn fails(&self, level: RemarkLevel) -> bool {
        level >= RemarkLevel::Finding(self.fail_on.unwrap_or(Severity::Low))
    }

    /// The exit code; says what could not be judged where that matters.
    fn judged(&self, mut outcome: LintOutcome) -> ExitCode {
        if self.fail_on.is_some() && outcome.unjudged > 0 {
            log::failed(&anyhow::anyhow!("{}", unjudged(&outcome)));
            outcome.wrong += usize::from(!self.allow_unjudged);
        }
        outcome.exit_code(self.fail_on)
    }
}

fn unjudged(outcome: &LintOutcome) -> String {
    let statements = number::plural(outcome.statements as u64, "statement", "statements");
    let why = match outcome.without_keyspace {
        0 if outcome.undefined > 0 => {
            "definitions of their tables are not understood: correct these, or give --allow-unjudged"
        }
        0 => "their tables are not known without a schema: give --schema, or --allow-unjudged",
        _ => "their keyspace is not given: use --keyspace, or --allow-unjudged",
    };
    format!("{} of {statements} could not be judged: {why}", outcome.unjudged)
}

/// What is known of tables before any input.
struct KnownSchema {
    text: String,
    /// The file that it was read from.
    path: PathBuf,
    /// Whether the cluster may have tables that are not in it.
    may_lack_some: bool,
}

/// The schema of `--schema`, else that of the first recording that has one: the cluster's, as it was when the recording
/// ended, or what the traffic has shown of it.
fn known_schema(args: &Args) -> anyhow::Result<Option<KnownSchema>> {
    if let Some(path) = &args.schema {
        return Ok(Some(KnownSchema {
            text: schema_file::text(path)?,
            path: path.clone(),
            may_lack_some: false,
        }));
    }
    let recordings = args.files.iter().filter(|path| is_recording(path));
    let mut schemas = recordings.filter_map(|path| recorded::schema(path));
    Ok(schemas.next().map(|(path, text)| KnownSchema {
        text,
        path,
        may_lack_some: true,
    }))
}

impl KnownSchema {
    /// What it defines. Statements that are not understood are left out, with a warning.
    fn definitions(self, args: &Args, judge: &Judge<'_>) -> anyhow::Result<Definitions> {
        let source = Rc::new(SourceText::new(&input::name(Some(&self.path)), &self.text));
        let (definitions, left_out) = Definitions::of_schema(&source, args.keyspace.as_deref(), judge);
        let mistakes = left_out.iter().map(|left_out| schema_file::Mistake {
            place: left_out.place.part(left_out.error.span).start.into(),
            error: &left_out.error,
        });
        schema_file::warn_of(&self.path, mistakes, &definitions.schema)?;
        Ok(match self.may_lack_some {
            true => definitions.may_lack_some(),
            false => definitions,
        })
    }
}

fn explain_scripts<W: Write>(
    args: &Args,
    schema: Option<KnownSchema>,
    judge: &Judge<'_>,
    printer: Printer<W>,
) -> anyhow::Result<LintOutcome> {
    let definitions = match schema {
        Some(known) => known.definitions(args, judge)?,
        None => Definitions::default(),
    };
    let mut script = ScriptExplainer::new(judge, args.keyspace.as_deref(), definitions, printer);
    let mut unread = 0;
    for path in input::expanded(&args.files) {
        let sources = path.and_then(|path| Ok((sources(path.as_deref(), args.located)?, path)));
        match sources {
            Ok((sources, path)) => {
                let in_force = path.is_some_and(|path| is_same_file(&path, args.schema.as_deref()));
                script.begin_input();
                for source in sources {
                    let explained = script.explain(&source, in_force);
                    explained.with_context(|| format!("cannot explain {}", source.name))?;
                }
            }
            Err(error) => {
                script.printer().flush().context("cannot write")?;
                log::failed(&error);
                unread += 1;
            }
        }
    }
    let (mut outcome, printer) = script.finish().context("cannot explain definitions")?;
    outcome.wrong += unread;
    summarise(printer, args, &outcome)?;
    Ok(outcome)
}

/// An input, or its parts.
fn sources(path: Option<&Path>, located: bool) -> anyhow::Result<Vec<Rc<SourceText>>> {
    if let Some(path) = path.filter(|path| is_recording(path)) {
        return recorded::scripts(path);
    }
    let text = input::text(path)?;
    let name = input::name(path);
    match located {
        true => input::located(&text).with_context(|| format!("cannot read {name}")),
        false => Ok(applied::parts(&name, &text)),
    }
}

/// Whether a file is the one of `--schema`, whose definitions are in force already.
fn is_same_file(path: &Path, schema: Option<&Path>) -> bool {
    let canonical = |path: &Path| fs::canonicalize(path).ok();
    schema.is_some_and(|schema| {
        let schema = canonical(schema);
        schema.is_some() && canonical(path) == schema
    })
}

fn explain_records<W: Write>(
    args: &Args,
    known: Option<KnownSchema>,
    judge: &Judge<'_>,
    mut printer: Printer<W>,
) -> anyhow::Result<LintOutcome> {
    let has_schema = known.as_ref().is_some_and(|known| !known.may_lack_some);
    let schema = match known {
        Some(known) => known.definitions(args, judge)?.schema,
        None => Schema::default(),
    };
    let context = answer::Context {
        judge,
        keyspace: args.keyspace.as_deref(),
        schema: &schema,
        has_schema,
    };
    let as_remarks = args.format.is_some();
    let mut outcome = LintOutcome::default();
    let mut unread = 0;
    for path in input::expanded(&args.files) {
        let opened = path.and_then(|path| Ok((input::open(path.as_deref())?, path)));
        match opened {
            Ok((input, path)) => {
                let name = input::name(path.as_deref());
                let explained = json::explain(input, &name, &mut printer, as_remarks, context);
                outcome.add(explained.with_context(|| format!("cannot explain {name}"))?);
            }
            Err(error) => {
                printer.flush().context("cannot write")?;
                log::failed(&error);
                unread += 1;
            }
        }
    }
    if as_remarks {
        summarise(printer, args, &outcome)?;
    } else {
        printer.flush().context("cannot write")?;
    }
    if args.fail_on.is_none() && !as_remarks {
        // Errors are answers.
        outcome.wrong = 0;
    }
    outcome.wrong += unread;
    Ok(outcome)
}

/// Writes what was kept until now, and how many there were of what: to standard error where programs read the rest.
fn summarise<W: Write>(printer: Printer<W>, args: &Args, outcome: &LintOutcome) -> anyhow::Result<()> {
    let left_out = printer.left_out();
    let is_for_people = printer.form == Form::Text;
    printer
        .finish(outcome, |level| args.fails(level))
        .context("cannot write")?;
    if left_out > 0 {
        log::failed(&anyhow::anyhow!(
            "{} more findings are counted but not written",
            number::count(left_out as u64)
        ));
    }
    if !is_for_people {
        log::said(&outcome.to_string());
    }
    Ok(())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
