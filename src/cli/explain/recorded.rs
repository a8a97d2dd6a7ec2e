//! The statements of recordings, as scripts and as records; and the schema that was in force.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cqlens_cql::schema::Schema;
use cqlens_proto::message::BatchKind;
use cqlens_proxy::files;
use cqlens_rehearse::exchange::{RecordedExchange, RecordedStatement, RecordedValue, ValueContent};
use cqlens_rehearse::recording::{RecordingError, RecordingReader, SNAPSHOTS, Statement};
use cqlens_window::Snapshot;
use serde_json::{Value, json};

use super::{source::SourceText, touched::hex};
use crate::{cli::log, sink::snapshots_in};

/// The distinct statements of a recording: one script for each keyspace of unqualified names, since nothing ends a USE.
///
/// # Errors
/// A recording that cannot be read.
pub(super) fn scripts(path: &Path) -> anyhow::Result<Vec<Rc<SourceText>>> {
    let (mut statements, faults) = RecordingReader::open(path)?.statements();
    for fault in faults {
        log::failed(&anyhow::anyhow!("{fault}"));
    }
    statements.sort_by(|one, other| one.keyspace.cmp(&other.keyspace));
    let name = path.display().to_string();
    let mut line = 1;
    let of_keyspaces = statements.chunk_by(|one, other| one.keyspace == other.keyspace);
    let scripts = of_keyspaces.map(|statements| {
        let text = script(statements);
        let source = SourceText::at_line(&name, &text, line);
        line += text.matches('\n').count();
        Rc::new(source)
    });
    Ok(scripts.collect())
}

fn script(statements: &[Statement]) -> String {
    let keyspace = statements
        .first()
        .and_then(|statement| statement.keyspace.as_deref());
    let mut script = String::new();
    if let Some(keyspace) = keyspace {
        script += &format!("USE \"{}\";\n", keyspace.replace('"', "\"\""));
    }
    for statement in statements {
        let cql = statement.cql.trim().trim_end_matches(';');
        script += cql;
        // Behind a comment that goes to the end of its line, a semicolon would belong to it.
        let may_hide = cql
            .lines()
            .last()
            .is_some_and(|last| last.contains("--") || last.contains("//"));
        script += if may_hide { "\n;\n" } else { ";\n" };
    }
    script
}

/// The schema of the latest snapshot of a recording that has one: its file and its text.
pub(super) fn schema(recording: &Path) -> Option<(PathBuf, String)> {
    let paths = snapshots_in(&recording.join(SNAPSHOTS)).ok()?;
    let mut schemas = paths.into_iter().rev().take(MOST_LOOKED_AT).filter_map(|path| {
        let text = Snapshot::read(files::open(&path).ok()?).ok()?.schema;
        let (schema, _) = Schema::read_cql(&text);
        (!schema.keyspaces.is_empty()).then_some((path, text))
    });
    schemas.next()
}

/// Snapshots that are read for a schema; the first ones of a recording may have none.
const MOST_LOOKED_AT: usize = 8;

/// The requests of a recording as records of `--json`, one a line, with the numbers of their exchanges as ids.
pub(super) struct RecordLines {
    reader: RecordingReader,
    line: io::Cursor<Vec<u8>>,
    has_ended: bool,
}

impl RecordLines {
    /// Opens a recording.
    ///
    /// # Errors
    /// One that cannot be read.
    pub(super) fn open(path: &Path) -> Result<Self, RecordingError> {
        Ok(Self {
            reader: RecordingReader::open(path)?,
            line: io::Cursor::default(),
            has_ended: false,
        })
    }
}

impl Read for RecordLines {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.line.read(to)?;
            if read > 0 || to.is_empty() {
                return Ok(read);
            }
            let Some((exchange, _)) = self.reader.next_keyed() else {
                if !std::mem::replace(&mut self.has_ended, true) {
                    let faults = self.reader.faults().iter();
                    faults.for_each(|fault| log::failed(&anyhow::anyhow!("{fault}")));
                }
                return Ok(0);
            };
            self.line = io::Cursor::new(format!("{}\n", record(&exchange)).into_bytes());
        }
    }
}

fn record(exchange: &RecordedExchange) -> Value {
    let request = &exchange.request;
    let statements = || request.statements.iter().map(statement).collect::<Vec<_>>();
    let mut record = match request.batch {
        Some(kind) => {
            let kind = match kind {
                BatchKind::Unlogged => "unlogged",
                BatchKind::Counter => "counter",
                _ => "logged",
            };
            json!({ "batch": { "kind": kind, "statements": statements() } })
        }
        None => statements().pop().unwrap_or_default(),
    };
    record["id"] = exchange.number.into();
    record["keyspace"] = request.keyspace.as_deref().into();
    record
}

/// Values are left out where they cannot be said: by name, and as hashes.
fn statement(statement: &RecordedStatement) -> Value {
    let values: Option<Vec<_>> = statement.values.iter().map(bound).collect();
    match values {
        Some(values) if !values.is_empty() => json!({ "query": &*statement.cql, "values": values }),
        _ => json!({ "query": &*statement.cql }),
    }
}

fn bound(value: &RecordedValue) -> Option<Value> {
    if value.name.is_some() {
        return None;
    }
    Some(match &value.content {
        ValueContent::Bytes(bytes) => hex(bytes).into(),
        ValueContent::Null => Value::Null,
        ValueContent::NotSet => "unset".into(),
        ValueContent::Hashed { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn statements_end_and_have_their_keyspace() {
        let statement = |cql: &str| Statement {
            keyspace: Some("A\"b".into()),
            cql: cql.into(),
        };
        assert_eq!(
            script(&[statement("SELECT 1;"), statement("SELECT 2 -- two")]),
            "USE \"A\"\"b\";\nSELECT 1;\nSELECT 2 -- two\n;\n"
        );
    }

    /// Opening one waits for a writer.
    #[test]
    fn a_named_pipe_among_the_snapshots_of_a_recording_is_passed_over() {
        let recording = tempfile::tempdir().unwrap();
        let folder = recording.path().join(SNAPSHOTS);
        std::fs::create_dir(&folder).unwrap();
        let mut snapshot = crate::cli::report::tests::snapshot("a", "2026-11-21T06:00:00Z");
        snapshot.schema = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy'};".to_owned();
        let mut file = std::fs::File::create(folder.join("1.cqlens.json")).unwrap();
        snapshot.write(&mut file).unwrap();
        let pipe = folder.join("2.cqlens.json");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let (path, schema) = schema(recording.path()).unwrap();
        let (schema, _) = Schema::read_cql(&schema);
        assert!(path.ends_with("1.cqlens.json"));
        assert!(schema.keyspaces.contains_key("shop"));
    }
}
