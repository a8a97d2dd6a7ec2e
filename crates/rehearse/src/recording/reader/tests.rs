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

/// A file with these lines after its header, which names a source and a run.
fn write(to: File, source: &str, run: usize, lines: impl Iterator<Item = String>) {
    let mut out = GzEncoder::new(to, Compression::fast());
    writeln!(
        out,
        r#"{{"format":"{FORMAT}","cqlens":"0","source":"{source}","started":"2026-11-21T06:00:00Z","run":"{run:016x}","values":"clear"}}"#,
    )
    .unwrap();
    lines.for_each(|line| writeln!(out, "{line}").unwrap());
    out.finish().unwrap();
}

/// A recording with these lines after its header.
fn recording(lines: impl Iterator<Item = String>) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new()
        .suffix(folder::ENDING)
        .tempfile()
        .unwrap();
    write(file.reopen().unwrap(), "a", 1, lines);
    file
}

/// A recording of so many files, each with these lines after its header.
fn recording_of_files(files: usize, source: &str, line: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for run in 0..files {
        let path = folder.path().join(format!("{run}{}", folder::ENDING));
        let file = File::create(path).unwrap();
        write(file, source, run, [line.to_owned()].into_iter());
    }
    folder
}

fn text(id: usize, length: usize) -> String {
    format!(r#"{{"statement":{id},"cql":"{}"}}"#, "a".repeat(length))
}

fn faults(file: &tempfile::NamedTempFile) -> String {
    let mut reader = RecordingReader::open_within(file.path(), LIMITS).unwrap();
    assert!(reader.next().is_none());
    let header = reader.headers()[0].weight();
    let mut kept = reader
        .runs
        .iter()
        .map(|run| run.kept.bytes.load(Ordering::Relaxed));
    assert!(kept.all(|kept| kept == header));
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

fn writer(folder: &Path, values: RecordedValues) -> RecordingWriter {
    RecordingWriter::open(Settings {
        folder: folder.to_owned(),
        source: "a".to_owned(),
        values,
        digest_key: DigestKey(1),
        limits: folder::Limits {
            file_bytes: 1 << 20,
            file_age: std::time::Duration::from_secs(60),
            bytes: None,
            age: None,
        },
    })
    .unwrap()
}

#[test]
fn statements_whose_texts_are_cut_are_counted() {
    for (values, cut) in [(RecordedValues::Hashed, 2), (RecordedValues::Clear, 0)] {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), values);
        for cql in [
            "SELECT v FROM k.t WHERE a = 'b'",
            "UPDAET k.t SET v = 'b'",
            "CREATE TABLE k.t (a int PRIMARY KEY)",
            "CREATE USER u WITH PASSWORT 'b'",
        ] {
            let refused = exchange(0, cql, ResponseDigest::Error(0x2000));
            writer.write(&refused, BTreeMap::new).unwrap();
        }
        writer.end(BTreeMap::new()).unwrap();
        let mut reader = RecordingReader::open(folder.path()).unwrap();
        assert_eq!(reader.by_ref().count(), 4);
        let ends: Vec<_> = reader.ends().iter().map(|end| end.statements_cut).collect();
        assert_eq!(ends, [cut]);
    }
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
fn keyspaces_of_texts_for_explain_count() {
    let reads = (0..20).map(|number| {
        let mut read = exchange(0, "SELECT", ResponseDigest::Missing);
        read.request.keyspace = Some(format!("{number}{}", "k".repeat(32 << 10)).into());
        line_of(&read)
    });
    let lines = [text(0, 1)].into_iter().chain(reads);
    let file = recording(lines);
    let reader = RecordingReader::open_within(file.path(), LIMITS).unwrap();
    let (statements, faults) = reader.statements();
    assert!((2..=7).contains(&statements.len()), "{}", statements.len());
    assert!(faults[0].reason.contains("the rest is left out"), "{faults:?}");
}

#[test]
fn columns_count_as_what_they_become() {
    let columns = |lines: usize| {
        let types = vec![r#"["",""]"#; 1_900].join(",");
        let line = move |id: usize| format!(r#"{{"columns":{id},"types":[{types}]}}"#);
        recording((0..lines).map(line))
    };
    assert_eq!(faults(&columns(2)), "");
    assert!(faults(&columns(3)).contains("too long together"));
}

#[test]
fn lines_of_very_many_entries_are_not_parsed() {
    const MOST: u64 = 1 << 20;
    let read = line_of(&exchange(0, "SELECT", ResponseDigest::Missing));
    let with = |values: usize| {
        let values = vec!["null"; values].join(",");
        read.replace(r#"{"id":0"#, &format!(r#"{{"id":0,"values":[{values}]"#))
    };
    let counts = (0..5_000).map(|number| format!(r#""{number}":1"#));
    let end = format!(
        r#"{{"end":{{"exchanges":0,"left_out":{{{}}}}}}}"#,
        counts.collect::<Vec<_>>().join(",")
    );
    for line in [with(10_000), end] {
        let file = recording([text(0, 1), line].into_iter());
        let mut reader = RecordingReader::open_within(file.path(), LIMITS).unwrap();
        let allocated = allocation_counter::measure(|| assert!(reader.next().is_none()));
        assert!(
            reader.faults()[0].reason.contains("too many entries"),
            "{:?}",
            reader.faults()
        );
        assert!(allocated.bytes_max < MOST / 2, "{allocated:?}");
    }
    let file = recording([text(0, 1), with(1_000)].into_iter());
    assert_eq!(
        RecordingReader::open_within(file.path(), LIMITS).unwrap().count(),
        1
    );
    let commas = format!(r#"{{"statement":0,"cql":"{}"}}"#, ",".repeat(10_000));
    assert_eq!(faults(&recording([commas].into_iter())), "");
}

#[test]
fn headers_and_last_lines_are_short() {
    let long = "a".repeat(MOST_SHORT);
    let folder = recording_of_files(1, &long, "{}");
    let unread = RecordingReader::open(folder.path());
    assert!(unread.err().unwrap().to_string().contains("too long"));
    let end = format!(r#"{{"end":{{"exchanges":0,"left_out":{{"{long}":1}}}}}}"#);
    let file = recording([end].into_iter());
    let mut reader = RecordingReader::open(file.path()).unwrap();
    assert!(reader.next().is_none() && reader.ends().is_empty());
    assert!(reader.faults()[0].reason.contains("too long"));
}

#[test]
fn headers_and_last_lines_of_many_files_are_kept_up_to_a_number_of_bytes() {
    let long = "a".repeat(30 << 10);
    let folder = recording_of_files(20, &long, "{}");
    let reader = RecordingReader::open_within(folder.path(), LIMITS).unwrap();
    assert_eq!((reader.headers().len(), reader.faults().len()), (8, 12));
    let end = format!(r#"{{"end":{{"exchanges":0,"left_out":{{"{long}":1}}}}}}"#);
    let folder = recording_of_files(20, "a", &end);
    let mut reader = RecordingReader::open_within(folder.path(), LIMITS).unwrap();
    assert!(reader.next().is_none());
    assert_eq!((reader.ends().len(), reader.faults().len()), (8, 12));
}

#[test]
fn a_named_pipe_among_the_files_is_not_waited_for() {
    let folder = recording_of_files(1, "a", "{}");
    let pipe = folder.path().join(format!("pipe{}", folder::ENDING));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let reader = RecordingReader::open(folder.path()).unwrap();
    assert_eq!((reader.headers().len(), reader.faults().len()), (1, 1));
    assert!(reader.faults()[0].reason.contains("no regular file"));
}

#[test]
fn reasons_quote_no_more_than_a_little_of_a_file() {
    let long = "a".repeat(32 << 10);
    let read = line_of(&exchange(0, "SELECT", ResponseDigest::Missing));
    let read = read.replace(r#""effect":"read""#, &format!(r#""effect":"{long}""#));
    let reason = faults(&recording([text(0, 1), read].into_iter()));
    assert!(
        reason.contains("unknown variant") && reason.len() < 1_000,
        "{reason}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut out = GzEncoder::new(file.reopen().unwrap(), Compression::fast());
    writeln!(out, r#"{{"format":"cqlens.recording.{long}"}}"#).unwrap();
    out.finish().unwrap();
    let unread = RecordingReader::open(file.path()).err().unwrap().to_string();
    assert!(
        unread.contains("its format is") && unread.len() < 1_000,
        "{unread}"
    );
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
        let mut writer = writer(folder.path(), RecordedValues::Clear);
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
