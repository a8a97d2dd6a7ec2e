//! `cqlens explain`: the static half alone. CQL text in; template, footprint and what Cassandra would refuse out.
//!
//! Reads files of statements, or with `--json` one statement a line; never a network. A statement that is wrong is
//! answered as such, and the next one is read.

mod answer;
mod human;
mod json;

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use super::schema_file;
use crate::catalog::Schema;

/// Explain CQL statements without a cluster: what they touch, and what Cassandra would refuse.
#[derive(Debug, clap::Args)]
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
    /// CQL files; `-` or none: standard input.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Explains everything that was given. The exit code is 2 if a statement is no CQL or would be refused.
///
/// # Errors
/// A file that cannot be read, or output that cannot be written; a reader that has gone away is no error.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let schema = args.schema.as_deref().map(schema_file::read).transpose()?;
    let outcome = explain(args, schema.as_ref());
    match outcome {
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

fn explain(args: &Args, schema: Option<&Schema>) -> anyhow::Result<ExitCode> {
    let stdout = io::stdout();
    let colour = stdout.is_terminal();
    let mut out = io::BufWriter::new(stdout.lock());
    let mut refused = 0;
    for path in inputs(&args.files) {
        let keyspace = args.keyspace.as_deref();
        if args.json {
            read_with(path, |input| {
                json::explain(io::BufReader::new(input), &mut out, keyspace, schema)
            })?;
        } else {
            let mut text = String::new();
            read_with(path, |input| input.read_to_string(&mut text))?;
            let source = human::Source {
                name: &name(path),
                text: &text,
                colour,
            };
            refused += human::explain(&source, &mut out, keyspace, schema).context("cannot write")?;
        }
    }
    out.flush().context("cannot write")?;
    Ok(if refused == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    })
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

fn read_with<T>(path: Option<&Path>, read: impl FnOnce(&mut dyn Read) -> io::Result<T>) -> anyhow::Result<T> {
    let result = match path {
        None => read(&mut io::stdin().lock()),
        Some(path) => std::fs::File::open(path).and_then(|mut file| read(&mut file)),
    };
    result.with_context(|| format!("cannot explain {}", name(path)))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
