//! What `fqltool dump` prints of a full query log becomes exchanges.
//!
//! The golden files have the form that `Dump.java` writes: that of 4.0 has no line behind the first value of a
//! statement, later ones have, and say `null`.
use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read as _, Write as _},
    path::Path,
};

use cqlens_proto::message::{BatchKind, Consistency};
use cqlens_rehearse::{
    exchange::{Effect, RecordedExchange, ValueContent},
    full_query_log::{Content, FromLog, FullQueryLog, unpacked},
    left_out::LeftOut,
};

const OF_4_0: &str = include_str!("../golden/fqltool-dump-4.0.txt");
const OF_4_1: &str = include_str!("../golden/fqltool-dump-4.1.txt");
const FIRST_US: i64 = 1_795_240_800_000_000;

struct Read {
    exchanges: Vec<RecordedExchange>,
    left_out: BTreeMap<LeftOut, u64>,
    damaged: u64,
}

fn read(text: &[u8], keyspace: Option<&str>) -> Read {
    let (mut log, mut from_log) = (FullQueryLog::new(text), FromLog::new(keyspace));
    let (mut exchanges, mut left_out) = (Vec::new(), BTreeMap::new());
    while let Some(entry) = log.next_entry().unwrap() {
        match from_log.convert(&entry) {
            Ok(exchange) => exchanges.push(exchange),
            Err(why) => *left_out.entry(why).or_default() += 1,
        }
    }
    Read {
        exchanges,
        left_out,
        damaged: log.damaged(),
    }
}

/// The values of each statement, in words.
fn values(exchange: &RecordedExchange) -> Vec<String> {
    let word = |content: &ValueContent| match content {
        ValueContent::Bytes(bytes) if bytes.len() == 4 => {
            i32::from_be_bytes((**bytes).try_into().unwrap()).to_string()
        }
        ValueContent::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        ValueContent::Null => "null".to_owned(),
        ValueContent::NotSet => "not set".to_owned(),
        ValueContent::Hashed { .. } => unreachable!(),
    };
    let statements = exchange.request.statements.iter();
    let values = statements.flat_map(|statement| &statement.values);
    values.map(|value| word(&value.content)).collect()
}

#[test]
fn entries_of_both_forms_are_exchanges() {
    let long = format!("abc{}", "x".repeat(70));
    for (text, third, more) in [(OF_4_0, "n", 0), (OF_4_1, "null", 1)] {
        let read = read(text.as_bytes(), Some("k"));
        assert_eq!(read.exchanges.len(), 7 + more);
        assert_eq!(
            read.left_out,
            BTreeMap::from([(LeftOut::Use, 1), (LeftOut::System, 1), (LeftOut::TooLong, 1)])
        );
        assert_eq!(read.damaged, 1, "the last one is cut off");
        let effects: Vec<_> = read
            .exchanges
            .iter()
            .map(|exchange| exchange.request.effect)
            .collect();
        assert_eq!(
            effects[..7],
            [
                Effect::Read,
                Effect::Read,
                Effect::Write,
                Effect::Write,
                Effect::Write,
                Effect::Read,
                Effect::Conditional
            ]
        );
        let all: Vec<_> = read.exchanges.iter().map(values).collect();
        assert_eq!(all[0], ["1", "2"]);
        assert_eq!(all[2], ["1", "3", &long], "lines that are the same stand once");
        assert_eq!(all[3], ["1", "4", third]);
        assert_eq!(all[4], ["1", "2"], "those of both statements of the batch");
        assert_eq!(all[5], ["9"]);
        if more > 0 {
            assert_eq!(all[7], ["not set", "1", "6"]);
        }
        let request = |place: usize| &read.exchanges[place].request;
        assert_eq!(
            &*request(1).statements[0].cql,
            "SELECT v\n  FROM k.t\n\n  WHERE a = 1"
        );
        assert!(request(0).statements[0].is_prepared && !request(1).statements[0].is_prepared);
        assert_eq!(request(4).batch, Some(BatchKind::Unlogged));
        assert_eq!(request(4).statements.len(), 2);
        assert_eq!(request(2).timestamp, Some(FIRST_US + 30_000));
        assert_eq!(request(6).timestamp, None, "conditional writes have none");
        assert_eq!(request(5).keyspace.as_deref(), Some("k"));
        assert_eq!(
            (request(0).consistency, request(0).page_size),
            (Consistency::LocalOne, Some(5_000))
        );
        assert_eq!(read.exchanges[0].at_us, FIRST_US + 10_000);
    }
}

#[test]
fn a_dump_is_known_by_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let content = |text: &[u8]| {
        let path = folder.path().join("file");
        std::fs::write(&path, text).unwrap();
        let found = Content::of_file(&path).unwrap();
        assert_eq!(Content::of_beginning(text), found);
        found
    };
    for (text, expected) in [
        (OF_4_0.as_bytes(), Content::Dump),
        (OF_4_1.as_bytes(), Content::Dump),
        (b"", Content::Empty),
        (b"\xa1\xb2\xc3\xd4\0\0", Content::Other),
        (b"Query: SELECT 1\n", Content::Other),
    ] {
        assert_eq!(content(text), expected);
        assert_eq!(content(&gzip(text)), expected, "packed");
    }
    let packed = gzip(OF_4_1.as_bytes());
    assert_eq!(content(&packed[..packed.len() / 2]), Content::Dump, "cut off");
    assert_eq!(content(&packed[..5]), Content::Other);
    assert!(Content::of_file(Path::new("/no/such/file")).is_err());
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text).unwrap();
    out.finish().unwrap()
}

#[test]
fn a_dump_that_is_packed_has_the_same_entries() {
    let entries = |from: &[u8]| {
        let mut log = FullQueryLog::new(unpacked(from).unwrap());
        let mut entries = 0;
        while log.next_entry().unwrap().is_some() {
            entries += 1;
        }
        (entries, log.damaged())
    };
    let plain = OF_4_1.as_bytes();
    assert_eq!(entries(&gzip(plain)), entries(plain));
    assert_eq!(entries(b""), (0, 0));
}

#[test]
fn values_that_the_log_has_lost_cost_their_entry() {
    // The first form says nothing at all of an empty value.
    let lost = OF_4_0.replace(" AND b = ?\nValues: ", " AND b = ? AND c = ?\nValues: ");
    let whole = read(OF_4_0.as_bytes(), None);
    let less = read(lost.as_bytes(), None);
    assert_eq!(less.left_out[&LeftOut::Unread], 2);
    assert_eq!(less.exchanges.len(), whole.exchanges.len() - 2);
}

#[test]
fn whatever_is_damaged_nothing_panics_and_what_follows_is_read() {
    let last = "Type: single-query\nQuery start time: 1\nQuery: SELECT a FROM k.t\nValues: \n\n";
    for text in [OF_4_0, OF_4_1] {
        let bytes = text.as_bytes();
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes[..at].to_vec();
            damaged.extend_from_slice(b"\n\xff\n");
            damaged.extend_from_slice(&bytes[at..]);
            damaged.extend_from_slice(b"\n\nValues: \n\n");
            damaged.extend_from_slice(last.as_bytes());
            let read = read(&damaged, None);
            let found = read.exchanges.last().unwrap();
            assert_eq!(
                &*found.request.statements[0].cql, "SELECT a FROM k.t",
                "damaged at {at}"
            );
        }
    }
}

/// An attack: a text with the lines of an entry, which `cqlens replay` would send although no client has.
#[test]
fn a_text_that_looks_like_entries_is_one_statement() {
    const FORGED: &str =
        "\nValues: \n\nType: single-query\nQuery start time: 2\nQuery: TRUNCATE k.victim\nValues: \n\n";
    const LAST: &str = "Type: single-query\nQuery start time: 3\nQuery: SELECT b FROM k.t\nValues: \n\n";
    for (before, after) in [
        ("SELECT a FROM k.t WHERE a = 1 /*", "*/"),
        ("SELECT a FROM k.t /* ' */ WHERE a = '", "'"),
        ("SELECT a FROM k.t WHERE a = $$'", "$$"),
        ("SELECT a AS \"", "\" FROM k.t"),
        // A column or field may be called that.
        ("SELECT a FROM k.t WHERE a = {\nValues: \n1} AND b = '", "'"),
    ] {
        let text = format!("{before}{FORGED}{after}");
        for entry in [
            format!("Type: single-query\nQuery start time: 1\nQuery: {text}\nValues: \n\n"),
            format!(
                "Type: batch\nQuery start time: 1\nBatch type: LOGGED\nQuery: {text}\nValues: \nQuery: {text}\nValues: \n\n"
            ),
        ] {
            let dump = format!("{entry}{LAST}");
            let mut log = FullQueryLog::new(dump.as_bytes());
            let found = log.next_entry().unwrap().unwrap();
            assert!(found.statements.iter().all(|statement| statement.cql == text));
            let last = log.next_entry().unwrap().unwrap();
            assert_eq!(
                (last.start_ms, &*last.statements[0].cql),
                (3, "SELECT b FROM k.t")
            );
            assert!(log.next_entry().unwrap().is_none());
            assert_eq!(log.damaged(), 0);
        }
    }
}

/// Cassandra refuses it, so that it is in no log; what it stands for is not guessed.
#[test]
fn a_text_that_never_ends_is_no_request() {
    for open in [
        "SELECT a FROM k.t /*",
        "SELECT a FROM k.t WHERE b = '",
        "SELECT a FROM k.t WHERE b IN (1",
    ] {
        let forged = "Type: single-query\nQuery start time: 2\nQuery: TRUNCATE k.victim\nValues: \n\n";
        let dump = format!("Type: single-query\nQuery start time: 1\nQuery: {open}\nValues: \n\n{forged}");
        let read = read(dump.as_bytes(), None);
        assert_eq!((read.exchanges.len(), read.damaged), (0, 1), "{open}");
    }
}

const MIB: u64 = 1 << 20;

/// What takes more than is allowed, then an entry that is whole.
fn beyond_a_limit(entry: &'static str, parts: u64, part: &'static str, length: u64) -> Box<dyn BufRead> {
    let last = "\n\nType: single-query\nQuery start time: 1\nQuery: SELECT a FROM k.t\nValues: \n\n";
    let mut all: Box<dyn io::Read> = Box::new(entry.as_bytes());
    for _ in 0..parts {
        let filling = io::repeat(b'x').take(length);
        all = Box::new(all.chain(part.as_bytes()).chain(filling));
    }
    Box::new(BufReader::new(all.chain(last.as_bytes())))
}

#[test]
fn entries_and_lines_are_kept_up_to_a_number_of_bytes() {
    const SINGLE: &str = "Type: single-query\nQuery start time: 1\n";
    const BATCH: &str = "Type: batch\nQuery start time: 1\nBatch type: LOGGED\n";
    let cases = [
        ("a line", beyond_a_limit(SINGLE, 1, "Query: ", 200 * MIB)),
        (
            "lines of a text",
            beyond_a_limit("Type: single-query\nQuery: a", 200, "\n", MIB),
        ),
        (
            "statements of a batch",
            beyond_a_limit(BATCH, 200, "\nValues: \nQuery: ", MIB),
        ),
    ];
    for (what, dump) in cases {
        let mut log = FullQueryLog::new(dump);
        let mut found = None;
        let taken = allocation_counter::measure(|| found = log.next_entry().unwrap());
        assert_eq!(log.damaged(), 1, "{what}");
        assert_eq!(found.unwrap().statements[0].cql, "SELECT a FROM k.t", "{what}");
        assert!(
            taken.bytes_max < 160 * MIB,
            "{what}: {} MiB",
            taken.bytes_max / MIB
        );
    }
}

#[test]
fn values_of_an_entry_are_kept_up_to_a_number_of_bytes() {
    let nulls = "null\n-----\n".repeat(4_000_000);
    let dump = format!("Type: single-query\nQuery: SELECT a\nValues: \n{nulls}\n{OF_4_1}");
    let whole = read(OF_4_1.as_bytes(), None);
    let mut log = FullQueryLog::new(dump.as_bytes());
    let taken = allocation_counter::measure(|| drop(log.next_entry().unwrap()));
    assert!(taken.bytes_max < 160 * MIB, "{} MiB", taken.bytes_max / MIB);
    drop(log);
    let read = read(dump.as_bytes(), None);
    assert_eq!(read.damaged, whole.damaged + 1);
    assert_eq!(read.exchanges.len(), whole.exchanges.len());
}
