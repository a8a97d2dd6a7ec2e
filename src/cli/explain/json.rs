//! `--json`: one record a line in, one answer a line out.

use std::io::{self, BufReader, Read, Write};
use std::rc::Rc;

use cqlens_cql::syntax::Span;
use cqlens_cql::syntax::ast::BatchKind;
use cqlens_proto::message::{Value, ValuesBuf};
use cqlens_report::text::Lines;
use serde::{Deserialize, Serialize};

use super::answer::{Context, StatementAnswer, StatementError};
use super::lint::{self, LintOutcome};
use super::print::Printer;
use super::remark::Remark;
use super::source::SourceText;
use cqlens_cql::footprint::Keys;
use cqlens_proxy::files::Limit;

/// A line.
const LIMIT: Limit = Limit::new("a record", 64 << 20);

/// A statement, or a batch of them.
#[derive(Debug, Deserialize)]
struct StatementRecord {
    #[serde(default)]
    id: serde_json::Value,
    #[serde(default)]
    keyspace: Option<String>,
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    values: Option<Vec<BoundValue>>,
    #[serde(default)]
    batch: Option<BatchRecord>,
}

#[derive(Debug, Deserialize)]
struct BatchRecord {
    #[serde(default)]
    kind: Option<String>,
    statements: Vec<BatchedStatement>,
}

#[derive(Debug, Deserialize)]
struct BatchedStatement {
    query: String,
    #[serde(default)]
    values: Option<Vec<BoundValue>>,
}

/// A bound value: hexadecimal bytes, null, or `"unset"`.
#[derive(Debug, Deserialize)]
struct BoundValue(Option<String>);

/// An answer beside the id of its record.
#[derive(Serialize)]
struct AnswerLine<'a> {
    id: serde_json::Value,
    #[serde(flatten)]
    answer: &'a StatementAnswer,
}

/// Explains every line of `input`, called `name`; names without a keyspace are the record's, else `keyspace`'s. Without
/// `as_remarks` each line is answered by one.
pub(super) fn explain<W: Write>(
    mut input: BufReader<impl Read>,
    name: &str,
    printer: &mut Printer<W>,
    as_remarks: bool,
    context: Context<'_>,
) -> io::Result<LintOutcome> {
    lint::warn_of_mistakes(context.schema);
    let mut keys = Keys::new();
    let mut line = Vec::new();
    let mut outcome = LintOutcome {
        inputs: 1,
        ..LintOutcome::default()
    };
    let mut number = 0;
    while LIMIT.read_line(&mut input, &mut line)? {
        number += 1;
        if !line.trim_ascii().is_empty() {
            let (id, query, answer) = answer(&line, context, &mut keys);
            outcome.add(outcome_of(&answer));
            if as_remarks {
                let source = Rc::new(SourceText::at_line(name, &query, number));
                say(answer, &source, printer)?;
            } else {
                let mut out = Lines::of_json(printer.output());
                serde_json::to_writer(&mut out, &AnswerLine { id, answer: &answer })?;
                out.write_all(b"\n")?;
            }
        }
        line.clear();
        // A client that waits for each answer gets it at once; one that sends many lines pays for one flush.
        if input.buffer().is_empty() {
            printer.flush()?;
        }
    }
    Ok(outcome)
}

fn outcome_of(answer: &StatementAnswer) -> LintOutcome {
    let mut outcome = LintOutcome {
        wrong: usize::from(answer.error.is_some()),
        accepted: answer.accepted_count,
        statements: 1,
        unjudged: usize::from(answer.is_unjudged),
        ..LintOutcome::default()
    };
    answer
        .open
        .iter()
        .for_each(|finding| outcome.found(finding.severity));
    outcome
}

/// Says of the statement of a line what is wrong or was found.
fn say<W: Write>(
    answer: StatementAnswer,
    source: &Rc<SourceText>,
    printer: &mut Printer<W>,
) -> io::Result<()> {
    let length = u32::try_from(source.text.len()).unwrap_or(u32::MAX);
    let place = source.statement(Span::new(0, length));
    if let Some(error) = answer.error {
        let span = error.offset.map(|offset| Span::new(offset, offset));
        printer.remark(Remark::error(error.stage, error.message, span), &place)?;
    }
    for finding in answer.open {
        printer.remark(Remark::from_finding(finding, Vec::new()), &place)?;
    }
    Ok(())
}

/// The id of a record, its statement in one line, and the answer.
fn answer(
    line: &[u8],
    context: Context<'_>,
    keys: &mut Keys,
) -> (serde_json::Value, String, StatementAnswer) {
    let record: StatementRecord = match serde_json::from_slice(line) {
        Ok(record) => record,
        Err(error) => {
            let answer = bad_input(error.to_string());
            return (serde_json::Value::Null, String::new(), answer);
        }
    };
    let context = Context {
        keyspace: record.keyspace.as_deref().or(context.keyspace),
        ..context
    };
    let answer = match (&record.query, &record.batch) {
        (Some(query), None) => answer_query(query, record.values.as_deref(), context, keys),
        (None, Some(batch)) => answer_batch(batch, context, keys),
        (None, None) => bad_input("a record needs a `query` or a `batch`".to_owned()),
        _ => bad_input("a record has either a query or a batch, not both".to_owned()),
    };
    let children = record.batch.iter().flat_map(|batch| &batch.statements);
    let texts: Vec<_> = record
        .query
        .iter()
        .chain(children.map(|child| &child.query))
        .map(|text| text.replace('\n', " "))
        .collect();
    (record.id, texts.join("; "), answer)
}

fn answer_query(
    query: &str,
    values: Option<&[BoundValue]>,
    context: Context<'_>,
    keys: &mut Keys,
) -> StatementAnswer {
    match values.map(bind).transpose() {
        Ok(values) => StatementAnswer::from_text(
            query,
            values.as_ref().map(ValuesBuf::values).as_ref(),
            context,
            keys,
        ),
        Err(message) => bad_input(message),
    }
}

fn answer_batch(batch: &BatchRecord, context: Context<'_>, keys: &mut Keys) -> StatementAnswer {
    let kind = match batch.kind.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("logged") => BatchKind::Logged,
        Some("unlogged") => BatchKind::Unlogged,
        Some("counter") => BatchKind::Counter,
        Some(other) => return bad_input(format!("unknown batch type {other}")),
    };
    let bound: Result<Vec<_>, String> = batch
        .statements
        .iter()
        .map(|statement| statement.values.as_deref().map(bind).transpose())
        .collect();
    match bound {
        Ok(bound) => {
            let values = bound.iter().map(|values| values.as_ref().map(ValuesBuf::values));
            let queries = batch.statements.iter().map(|statement| statement.query.as_str());
            let statements: Vec<_> = queries.zip(values).collect();
            StatementAnswer::from_batch(kind, &statements, context, keys)
        }
        Err(message) => bad_input(message),
    }
}

/// The values as EXECUTE would carry them.
fn bind(values: &[BoundValue]) -> Result<ValuesBuf, String> {
    let bytes: Result<Vec<_>, String> = values.iter().map(BoundValue::bytes).collect();
    let bytes = bytes?;
    let values = values
        .iter()
        .zip(&bytes)
        .map(|(bound, bytes)| match (&bound.0, bytes) {
            (Some(text), _) if text == UNSET => Value::NotSet,
            (Some(_), bytes) => Value::Bytes(bytes),
            (None, _) => Value::Null,
        });
    ValuesBuf::positional(values).map_err(|error| error.to_string())
}

const UNSET: &str = "unset";

impl BoundValue {
    fn bytes(&self) -> Result<Vec<u8>, String> {
        let Some(digits) = self.0.as_deref().filter(|text| *text != UNSET) else {
            return Ok(Vec::new());
        };
        let pairs = digits.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2);
            pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())
        });
        let bytes: Option<Vec<u8>> = pairs.collect();
        bytes.ok_or_else(|| "a value must be hexadecimal, null or \"unset\"".to_owned())
    }
}

fn bad_input(message: String) -> StatementAnswer {
    StatementAnswer::from_error(StatementError {
        stage: "input",
        message,
        offset: None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{form::Form, lint::Judge, print::Detail};
    use super::*;
    use cqlens_cql::schema::Schema;
    use cqlens_rules::Judging;

    const SCHEMA: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy'};
        CREATE TABLE shop.kv (k int PRIMARY KEY, v int);";

    fn answers(input: &str) -> Vec<serde_json::Value> {
        let schema = Schema::from_cql(SCHEMA).unwrap();
        let judging = Judging::default();
        let mut out = Vec::new();
        let context = Context {
            judge: &Judge::new(&judging, jiff::civil::date(2027, 1, 1)),
            keyspace: Some("shop"),
            schema: &schema,
            has_schema: true,
        };
        let mut printer = Printer::new(&mut out, Form::Text, false, Detail::Usual);
        explain(
            BufReader::new(input.as_bytes()),
            "r.jsonl",
            &mut printer,
            false,
            context,
        )
        .unwrap();
        let lines = std::str::from_utf8(&out).unwrap().lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_record_has_its_answer_and_bad_ones_do_not_stop_the_next() {
        let answers = answers(
            "{\"id\": 1, \"query\": \"SELECT * FROM kv WHERE k IN (1, 2, 1)\"}\nnot json\n\n\
             {\"id\": 2, \"query\": \"SELECT FROM\"}\n{\"id\": 3, \"query\": \"SELECT * FROM kv\", \"batch\": {\"statements\": []}}\n\
             {\"id\": 4, \"query\": \"SELECT * FROM kv\"}",
        );
        assert_eq!(answers.len(), 5);
        assert_eq!(answers[0]["partitions"], 2);
        assert_eq!(answers[0]["error"], serde_json::Value::Null);
        assert_eq!(answers[1]["error"]["stage"], "input");
        assert_eq!(answers[2]["error"]["stage"], "parse");
        assert_eq!(answers[3]["error"]["stage"], "input");
        assert_eq!(
            (answers[4]["id"].as_u64(), answers[4]["partitions_class"].as_str()),
            (Some(4), Some("scan"))
        );
    }

    #[test]
    fn nothing_bound_is_not_knowable_and_null_is_refused() {
        let answers = answers(
            "{\"query\": \"SELECT * FROM kv WHERE k = ?\"}\n{\"query\": \"SELECT * FROM kv WHERE k = ?\", \"values\": [null]}\n\
             {\"query\": \"SELECT * FROM kv WHERE k = ?\", \"values\": [\"0000002a\"]}\n\
             {\"query\": \"SELECT * FROM kv WHERE k = ?\", \"values\": [\"zz\"]}",
        );
        assert_eq!(answers[0]["partitions"], serde_json::Value::Null);
        assert_eq!(answers[0]["reason"], "unbound");
        assert_eq!(answers[1]["error"]["stage"], "bind");
        assert_eq!(answers[2]["partition_keys"], serde_json::json!(["0000002a"]));
        assert_eq!(answers[3]["error"]["stage"], "input");
    }

    #[test]
    fn a_batch_message_counts_distinct_partitions() {
        let answers = answers(
            "{\"batch\": {\"kind\": \"unlogged\", \"statements\": [{\"query\": \"DELETE FROM kv WHERE k = 1\"}, \
             {\"query\": \"INSERT INTO kv (k, v) VALUES (?, 2)\", \"values\": [\"00000001\"]}]}}",
        );
        assert_eq!(answers[0]["batch_partitions"], 1);
        assert_eq!(answers[0]["batch_kind"], "unlogged");
    }
}
