//! One good capture in the forms that people have: each row writes it anew, and what is counted is always the same,
//! or a sentence says what the form has lost.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use crate::sniff::{
    packets::Capture,
    report::number,
    rewrapping::{bytes, files, packets, segments},
    sniff::{Place, Sniffed, recording},
    tcp::{self, Segment, capture},
};

/// What `cqlens` is given: files and further arguments.
pub(crate) struct Given {
    pub(crate) files: Vec<Vec<u8>>,
    pub(crate) arguments: Vec<&'static str>,
}

impl From<Vec<u8>> for Given {
    fn from(file: Vec<u8>) -> Self {
        Self {
            files: vec![file],
            arguments: Vec::new(),
        }
    }
}

impl From<Capture> for Given {
    fn from(capture: Capture) -> Self {
        capture.plain().into()
    }
}

impl From<Vec<Segment>> for Given {
    fn from(segments: Vec<Segment>) -> Self {
        capture(&segments).into()
    }
}

/// What comes of a form.
pub(crate) enum Expected {
    /// The same counts.
    Same,
    /// The same counts, and this sentence.
    SameSaying(&'static str),
    /// Other counts, and this sentence.
    Saying(&'static str),
    /// As many requests, and a number of missing bytes under this name.
    Missing(&'static str),
}

/// A form by its name.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) given: Given,
    pub(crate) expected: Expected,
}

/// A row whose counts are the same.
pub(crate) fn same(name: impl Into<String>, given: impl Into<Given>) -> Row {
    Row {
        name: name.into(),
        given: given.into(),
        expected: Expected::Same,
    }
}

const SESSION: &str = "python-v4-none";

/// Connections, requests, statements and what they touched.
fn counts(report: &Value) -> Value {
    let of_coverage = ["requests", "audited", "undecoded", "unanswered", "dropped"];
    let coverage = of_coverage.map(|key| number(&report["coverage"][key]));
    let patterns = ["patterns", "system_patterns"].map(|list| {
        let of_pattern = |pattern: &Value| {
            let partitions = &pattern["partitions"];
            json!([
                pattern["cql"],
                pattern["keyspace"],
                pattern["count"],
                pattern["errors"],
                pattern["rows"]["total"],
                partitions["class"],
                partitions["total"],
            ])
            .to_string()
        };
        let mut patterns: Vec<_> = report[list].as_array().unwrap().iter().map(of_pattern).collect();
        patterns.sort();
        patterns
    });
    json!([coverage, patterns])
}

fn run(place: &Place, number: usize, given: &Given) -> Sniffed {
    let files: Vec<PathBuf> = given
        .files
        .iter()
        .enumerate()
        .map(|(index, bytes)| place.write(&format!("{number}-{index}"), bytes))
        .collect();
    let paths: Vec<_> = files.iter().map(AsRef::as_ref).collect();
    place.sniff(&paths, &given.arguments)
}

fn complaint(row: &Row, expected: &Value, sniffed: &Sniffed) -> Option<String> {
    let told = sniffed.told();
    let found = sniffed.report.as_ref().map(counts);
    let is_same = found.as_ref() == Some(expected);
    let is_right = match &row.expected {
        Expected::Same => is_same,
        Expected::SameSaying(sentence) => is_same && told.contains(sentence),
        Expected::Saying(sentence) => !is_same && told.contains(sentence),
        Expected::Missing(bytes) => {
            let coverage = &sniffed.report()["coverage"];
            number(&coverage["capture"][bytes]) > 0
                && number(&coverage["requests"]) == number(&expected[0][0])
        }
    };
    let found = found.map(|found| found[0].clone());
    (!is_right).then(|| {
        format!(
            "{}: {found:?}, not {}\n    {}",
            row.name,
            expected[0],
            told.trim()
        )
    })
}

/// Rows are tried by several threads: most of their time is that of starting a process.
fn complaints(rows: &[Row], expected: &Value) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let place = Place::new();
        let mut complaints = Vec::new();
        while let Some((number, row)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, rows.get(at)?)))
        {
            complaints.extend(complaint(row, expected, &run(&place, number, &row.given)));
        }
        complaints
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn every_form_of_a_capture_has_the_same_counts_or_says_what_it_lost() {
    let all = tcp::segments(&recording(SESSION).capture());
    // Without options, which forms add.
    let capture = capture(&all);
    let rows: Vec<Row> = [
        bytes::rows(&capture),
        files::rows(&capture),
        packets::rows(&capture, &all),
        segments::rows(&all),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!((150..=190).contains(&rows.len()), "{} forms", rows.len());
    let expected = counts(run(&Place::new(), 0, &capture.clone().into()).report());
    assert!(number(&expected[0][0]) > 100, "{expected}");
    let complaints = complaints(&rows, &expected);
    assert!(
        complaints.is_empty(),
        "{} of {} forms\n{}",
        complaints.len(),
        rows.len(),
        complaints.join("\n")
    );
}
