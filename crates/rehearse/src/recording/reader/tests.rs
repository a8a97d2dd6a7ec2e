#![allow(clippy::unwrap_used)]
use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};

use super::{
    super::{
        format::{ExchangeLine, RecordedValues},
        writer::{RecordingWriter, Settings},
    },
    *,
};
use crate::{
    digest::ResponseDigest,
    exchange::{RecordedValue, ValueContent},
    testing::exchange,
};

/// Much smaller than the usual ones: what counts is that they hold.
const LIMITS: ReadingLimits = ReadingLimits {
    line: 64 << 10,
    texts: 256 << 10,
};

/// A recording with these lines after its header.
fn recording(lines: impl Iterator<Item = String>) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new()
        .suffix(folder::ENDING)
        .tempfile()
        .unwrap();
    let mut out = GzEncoder::new(file.reopen().unwrap(), Compression::fast());
    writeln!(
        out,
        r#"{{"format":"{FORMAT}","cqlens":"0","source":"a","started":"2026-11-21T06:00:00Z","run":"{:016x}","values":"clear"}}"#,
        1
    )
    .unwrap();
    lines.for_each(|line| writeln!(out, "{line}").unwrap());
    out.finish().unwrap();
    file
}

fn text(id: usize, length: usize) -> String {
    format!(r#"{{"statement":{id},"cql":"{}"}}"#, "a".repeat(length))
}

fn faults(file: &tempfile::NamedTempFile) -> String {
    let mut reader = RecordingReader::open_within(file.path(), LIMITS).unwrap();
    assert!(reader.next().is_none());
    assert!(
        reader
            .runs
            .iter()
            .all(|run| run.kept.bytes.load(Ordering::Relaxed) == 0)
    );
    let reasons = reader.faults().iter().map(|fault| fault.reason.clone());
    reasons.collect::<Vec<_>>().join("; ")
}

#[test]
fn a_line_that_expands_beyond_the_limit_ends_the_file() {
    let file = recording([text(0, 32 << 20)].into_iter());
    assert!(file.as_file().metadata().unwrap().len() < 1 << 20);
    assert!(faults(&file).contains("a line is too long"));
}

#[test]
fn texts_are_kept_up_to_a_number_of_bytes() {
    let file = recording((0..100).map(|id| text(id, 32 << 10)));
    assert!(faults(&file).contains("too long together"));
}

#[test]
fn texts_that_are_numbered_anew_replace_those_before() {
    let file = recording((0..100).map(|_| text(0, 32 << 10)));
    assert_eq!(faults(&file), "");
}

/// The line of a read of the statement that has the number 0.
fn line_of(exchange: &RecordedExchange) -> String {
    serde_json::to_string(&ExchangeLine::of(exchange, &[0], None)).unwrap()
}

#[test]
fn texts_for_explain_are_limited_in_bytes() {
    let read = line_of(&exchange(0, "SELECT", ResponseDigest::Missing));
    // Numbered anew, so that each is forgotten but by who collects them.
    let texts = (0..20).map(|number| {
        let cql = format!("SELECT {number} {}", "a".repeat(32 << 10));
        format!("{}\n{read}", format_args!(r#"{{"statement":0,"cql":"{cql}"}}"#))
    });
    let file = recording(texts);
    let reader = RecordingReader::open_within(file.path(), LIMITS).unwrap();
    let (statements, faults) = reader.statements();
    let bytes: usize = statements.iter().map(|statement| statement.cql.len()).sum();
    assert!(bytes > LIMITS.texts / 2 && bytes <= LIMITS.texts, "{bytes}");
    assert!(faults[0].reason.contains("the rest is left out"), "{faults:?}");
}

#[test]
fn requests_of_many_runs_are_kept_up_to_a_number_of_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut long = exchange(0, "SELECT v FROM k.t WHERE a = ?", ResponseDigest::Missing);
    long.request.statements[0].values.push(RecordedValue {
        name: None,
        content: ValueContent::Bytes(vec![0; 32 << 10].into()),
    });
    for _ in 0..20 {
        let mut writer = RecordingWriter::open(Settings {
            folder: folder.path().to_owned(),
            source: "a".to_owned(),
            values: RecordedValues::Clear,
            digest_key: DigestKey(1),
            limits: folder::Limits {
                file_bytes: 1 << 20,
                file_age: std::time::Duration::from_secs(60),
                bytes: None,
                age: None,
            },
        })
        .unwrap();
        writer.write(&long, BTreeMap::new).unwrap();
        writer.end(BTreeMap::new()).unwrap();
    }
    let mut reader = RecordingReader::open_within(folder.path(), LIMITS).unwrap();
    let read = reader.by_ref().count();
    let faults = reader.faults();
    assert!((2..20).contains(&read) && read + faults.len() == 20, "{read}");
    assert!(
        faults.iter().all(|fault| fault.reason.contains("too long")),
        "{faults:?}"
    );
}
