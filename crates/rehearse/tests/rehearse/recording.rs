//! Recordings: what is written is read again, and what cannot be read is named.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cqlens_capture::memory::Part;
use cqlens_proto::message::{BatchKind, Consistency, SerialConsistency};
use cqlens_rehearse::{
    budget::separate,
    digest::{DigestKey, ResponseDigest, RowsDigest},
    exchange::{
        Effect, Page, RecordedExchange, RecordedRequest, RecordedStatement, RecordedValue, ValueContent,
    },
    left_out::{LeftOut, LeftOutCounts},
    observe::TakeExchange as _,
    recording::{
        ENDING, Limits, RecordedValues, Recorder, RecordingError, RecordingReader, RecordingWriter, Settings,
    },
};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};

const NO_LIMITS: Limits = Limits {
    file_bytes: u64::MAX,
    file_age: Duration::MAX,
    bytes: None,
    age: None,
};

fn settings(folder: &Path, values: RecordedValues, limits: Limits) -> Settings {
    Settings {
        folder: folder.to_owned(),
        source: "a proxy".to_owned(),
        values,
        digest_key: DigestKey(7),
        limits,
    }
}

fn value(content: ValueContent) -> RecordedValue {
    RecordedValue { name: None, content }
}

fn bytes(of: &'static [u8]) -> ValueContent {
    ValueContent::Bytes(of.into())
}

fn exchange(number: u64) -> RecordedExchange {
    RecordedExchange {
        number,
        connection: 3,
        actor: u64::MAX,
        at_us: 1_795_000_000_000_000 + i64::try_from(number).unwrap() * 1_000_000,
        request: RecordedRequest {
            statements: vec![RecordedStatement {
                cql: "SELECT v FROM t WHERE k = ?".into(),
                is_prepared: true,
                values: vec![value(bytes(b"a secret"))],
            }],
            batch: None,
            keyspace: Some("s".into()),
            consistency: Consistency::LocalQuorum,
            serial_consistency: None,
            timestamp: None,
            now_in_seconds: None,
            page_size: Some(5000),
            page: Page::First,
            effect: Effect::Read,
            is_ordered: true,
            pattern: Some("0123456789abcdef".into()),
        },
        latency: Some(Duration::from_micros(1_234)),
        response: ResponseDigest::Rows(RowsDigest {
            count: 2,
            ordered: u128::MAX,
            unordered: 1,
            columns: vec![5, 6],
            column_types: Some(
                [
                    ("a".to_owned(), "int".to_owned()),
                    ("b".to_owned(), "frozen<map<text, int>>".to_owned()),
                ]
                .into(),
            ),
            has_more: true,
        }),
    }
}

/// Exchanges that have all that exchanges can have.
fn all_kinds() -> Vec<RecordedExchange> {
    let mut batch = exchange(1);
    batch.latency = None;
    batch.response = ResponseDigest::Void;
    batch.request = RecordedRequest {
        statements: vec![
            RecordedStatement {
                cql: "INSERT INTO t (k, v, w) VALUES (?, ?, ?)".into(),
                is_prepared: true,
                values: vec![
                    value(bytes(b"\0\xff")),
                    value(ValueContent::Null),
                    value(ValueContent::NotSet),
                ],
            },
            RecordedStatement {
                cql: "DELETE FROM t WHERE k = 'another \"secret\"'".into(),
                is_prepared: false,
                values: Vec::new(),
            },
        ],
        batch: Some(BatchKind::Unlogged),
        keyspace: None,
        consistency: Consistency::Unknown(77),
        serial_consistency: Some(SerialConsistency(Consistency::LocalSerial)),
        timestamp: Some(-5),
        now_in_seconds: Some(9),
        page_size: None,
        page: Page::Unknown,
        effect: Effect::Conditional,
        is_ordered: false,
        pattern: None,
    };
    let mut named = exchange(2);
    named.request.page = Page::After(0);
    named.request.statements[0].values = vec![RecordedValue {
        name: Some("k".into()),
        content: bytes(b""),
    }];
    named.response = ResponseDigest::Rows(RowsDigest::default());
    let mut exchanges = vec![exchange(0), batch, named];
    for response in [
        ResponseDigest::SetKeyspace,
        ResponseDigest::SchemaChange,
        ResponseDigest::Error(0x2200),
        ResponseDigest::Missing,
    ] {
        let mut other = exchange(exchanges.len() as u64);
        other.response = response;
        other.request.batch = Some(BatchKind::Unknown(9));
        exchanges.push(other);
    }
    exchanges
}

fn write(settings: Settings, exchanges: &[RecordedExchange]) {
    let mut writer = RecordingWriter::open(settings).unwrap();
    for exchange in exchanges {
        writer.write(exchange, BTreeMap::new).unwrap();
    }
    writer.end(BTreeMap::from([(LeftOut::QueueFull, 3)])).unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn text(file: &Path) -> String {
    let mut text = String::new();
    GzDecoder::new(fs::File::open(file).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    text
}

fn compress(file: &Path, text: &str) {
    let mut out = GzEncoder::new(fs::File::create(file).unwrap(), Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap();
}

#[test]
fn what_is_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    write(settings(&path, RecordedValues::Clear, NO_LIMITS), &all_kinds());
    let mut reader = RecordingReader::open(&path).unwrap();
    assert!(reader.has_values());
    assert_eq!(reader.headers()[0].source, "a proxy");
    assert_eq!(reader.headers()[0].digest_key(), Some(DigestKey(7)));
    let read: Vec<_> = reader.by_ref().collect();
    assert_eq!(read, all_kinds());
    assert_eq!((reader.faults(), reader.ends().len()), (&[][..], 1));
    let end = &reader.ends()[0];
    assert_eq!((end.exchanges, end.left_out["queue full"]), (7, 3));
    let [file] = &*files(&path) else { panic!() };
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(file)), (0o700, 0o600));
}

#[test]
fn hashed_values_can_be_counted_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut exchanges = all_kinds();
    // The same value again.
    exchanges.push(exchange(7));
    write(
        settings(folder.path(), RecordedValues::Hashed, NO_LIMITS),
        &exchanges,
    );
    let text = text(&files(folder.path())[0]);
    assert!(!text.contains("secret") && !text.contains("digest_key"), "{text}");
    assert!(!text.contains("YSBzZWNyZXQ"), "base64 of it: {text}");
    let reader = RecordingReader::open(folder.path()).unwrap();
    assert!(!reader.has_values());
    let read: Vec<_> = reader.collect();
    let first = &read[0].request.statements[0].values[0].content;
    assert!(matches!(first, ValueContent::Hashed { len: 8, .. }));
    assert_eq!(first, &read[7].request.statements[0].values[0].content);
    let batch = &read[1].request.statements;
    assert_eq!(batch[0].values[1].content, ValueContent::Null);
    assert_eq!(&*batch[1].cql, "DELETE FROM t WHERE k = ?");
    assert!(matches!(batch[1].values[0].content, ValueContent::Hashed { .. }));
}

#[test]
fn files_are_rotated_by_size_and_age_and_the_oldest_go() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        file_age: Duration::from_secs(10),
        ..NO_LIMITS
    };
    let exchanges: Vec<_> = (0..100).map(exchange).collect();
    write(settings(folder.path(), RecordedValues::Clear, limits), &exchanges);
    assert_eq!(files(folder.path()).len(), 10);
    let reader = RecordingReader::open(folder.path()).unwrap();
    assert_eq!(reader.collect::<Vec<_>>(), exchanges);
    let bytes = fs::metadata(&files(folder.path())[0]).unwrap().len();

    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join(format!("20200101T000000000Z-another{ENDING}")),
        "x",
    )
    .unwrap();
    let limits = Limits {
        file_bytes: bytes,
        bytes: Some(4 * bytes),
        ..limits
    };
    write(settings(folder.path(), RecordedValues::Clear, limits), &exchanges);
    let mut reader = RecordingReader::open(folder.path()).unwrap();
    let read: Vec<_> = reader.by_ref().map(|exchange| exchange.number).collect();
    assert_eq!(
        read,
        ((100 - read.len() as u64)..100).collect::<Vec<_>>(),
        "the last ones"
    );
    assert!(read.len() >= 20 && read.len() <= 40, "{read:?}");
    assert!(reader.ends().last().unwrap().files_removed >= 6);
    assert_eq!(reader.faults().len(), 1, "that of another source stays");
}

#[test]
fn a_file_that_was_cut_off_is_read_up_to_its_last_whole_line() {
    let folder = tempfile::tempdir().unwrap();
    let exchanges: Vec<_> = (0..50).map(exchange).collect();
    let mut writer =
        RecordingWriter::open(settings(folder.path(), RecordedValues::Clear, NO_LIMITS)).unwrap();
    for exchange in &exchanges[..20] {
        writer.write(exchange, BTreeMap::new).unwrap();
    }
    writer.flush().unwrap();
    let path = files(folder.path()).remove(0);
    let flushed = fs::read(&path).unwrap();
    for exchange in &exchanges[20..] {
        writer.write(exchange, BTreeMap::new).unwrap();
    }
    writer.end(BTreeMap::new()).unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &flushed).unwrap();
    let read: Vec<_> = RecordingReader::open(folder.path()).unwrap().collect();
    assert_eq!(read, exchanges[..20]);
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let Ok(mut reader) = RecordingReader::open(folder.path()) else {
            continue;
        };
        let read: Vec<_> = reader.by_ref().collect();
        assert_eq!(read, exchanges[..read.len()]);
        assert!(reader.faults().is_empty(), "{cut}: {:?}", reader.faults());
    }
}

#[test]
fn a_damaged_file_is_named_and_the_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        file_age: Duration::from_secs(10),
        ..NO_LIMITS
    };
    let exchanges: Vec<_> = (0..40).map(exchange).collect();
    write(settings(folder.path(), RecordedValues::Clear, limits), &exchanges);
    let paths = files(folder.path());
    fs::write(&paths[1], "no gzip").unwrap();
    let broken = text(&paths[2]).replacen("\"n\":25", "\"n\":-25", 1);
    compress(&paths[2], &broken);
    let mut reader = RecordingReader::open(folder.path()).unwrap();
    let read: Vec<_> = reader.by_ref().map(|exchange| exchange.number).collect();
    let expected: Vec<_> = (0..10).chain(20..25).chain(30..40).collect();
    assert_eq!(read, expected);
    let faults: Vec<_> = reader.faults().iter().map(|fault| &fault.path).collect();
    assert_eq!(faults, [&paths[1], &paths[2]]);
    assert!(
        reader.faults()[1].reason.contains("after line"),
        "{:?}",
        reader.faults()
    );
}

#[test]
fn a_later_format_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("20200101T000000000Z-a{ENDING}"));
    compress(&path, "{\"format\":\"cqlens.recording.v2\",\"what\":\"ever\"}\n");
    let Err(error) = RecordingReader::open(folder.path()) else {
        panic!()
    };
    assert!(matches!(error, RecordingError::Unreadable(_)));
    let text = error.to_string();
    assert!(
        text.contains("cqlens.recording.v2") && text.contains("cqlens.recording.v1"),
        "{text}"
    );
    let empty = tempfile::tempdir().unwrap();
    let Err(error) = RecordingReader::open(empty.path()) else {
        panic!()
    };
    assert!(matches!(error, RecordingError::Empty(_)));
}

#[test]
fn several_runs_are_merged_by_time_and_their_numbers_do_not_collide() {
    let folder = tempfile::tempdir().unwrap();
    let even: Vec<_> = (0..10).step_by(2).map(exchange).collect();
    let mut odd: Vec<_> = (1..10).step_by(2).map(exchange).collect();
    odd[1].request.page = Page::After(1);
    for exchanges in [&even, &odd] {
        write(
            settings(folder.path(), RecordedValues::Clear, NO_LIMITS),
            exchanges,
        );
    }
    let read: Vec<_> = RecordingReader::open(folder.path()).unwrap().collect();
    assert!(read.is_sorted_by_key(|exchange| exchange.at_us));
    let connections: Vec<_> = read.iter().map(|exchange| exchange.connection).collect();
    assert_eq!(
        connections
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        2
    );
    assert_eq!(read[3].request.page, Page::After(read[1].number));
}

#[test]
fn the_golden_file_of_version_1_is_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.cqlens.recording.gz");
    if std::env::var_os("CQLENS_WRITE_GOLDEN").is_some() {
        let folder = tempfile::tempdir().unwrap();
        write(
            settings(folder.path(), RecordedValues::Clear, NO_LIMITS),
            &all_kinds(),
        );
        fs::copy(&files(folder.path())[0], &golden).unwrap();
    }
    let mut reader = RecordingReader::open(&golden).unwrap();
    assert_eq!(reader.by_ref().collect::<Vec<_>>(), all_kinds());
    assert!(reader.faults().is_empty());
}

#[test]
fn what_a_recorder_takes_is_written_and_what_it_has_no_room_for_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let writer = RecordingWriter::open(settings(folder.path(), RecordedValues::Clear, NO_LIMITS)).unwrap();
    let left_out = Arc::<LeftOutCounts>::default();
    let recorder = Recorder::start(writer, Arc::clone(&left_out), &separate(), false).unwrap();
    let offered = 100_000_u64;
    for number in 0..offered {
        recorder.take(&Arc::new(exchange(number)));
    }
    assert!(recorder.stop(Duration::MAX));
    recorder.take(&Arc::new(exchange(0)));
    let counts = recorder.counts();
    let dropped = left_out.of(LeftOut::QueueFull);
    assert_eq!(counts.written + dropped, offered);
    assert!(!counts.is_failing);
    let mut reader = RecordingReader::open(folder.path()).unwrap();
    assert_eq!(reader.by_ref().count() as u64, counts.written);
    let said = reader.ends()[0].left_out.get("queue full").copied().unwrap_or(0);
    assert_eq!(said, dropped);
}

#[test]
fn prepared_texts_and_keyspaces_that_wait_to_be_written_count() {
    let folder = tempfile::tempdir().unwrap();
    let writer = RecordingWriter::open(settings(folder.path(), RecordedValues::Clear, NO_LIMITS)).unwrap();
    let left_out = Arc::<LeftOutCounts>::default();
    let memory = Part::new("rehearsal", 1 << 20);
    let recorder = Recorder::start(writer, Arc::clone(&left_out), &memory, false).unwrap();
    let long = || "a".repeat(300 << 10);
    let (mut text, mut keyspace) = (exchange(1), exchange(2));
    text.request.statements[0].cql = long().into();
    keyspace.request.keyspace = Some(long().into());
    for exchange in [text, keyspace] {
        recorder.take(&Arc::new(exchange));
    }
    assert!(recorder.stop(Duration::MAX));
    assert_eq!(left_out.of(LeftOut::QueueFull), 2);
}

#[test]
fn a_folder_that_goes_costs_exchanges_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let limits = Limits {
        file_age: Duration::from_secs(1),
        ..NO_LIMITS
    };
    let writer = RecordingWriter::open(settings(&path, RecordedValues::Clear, limits)).unwrap();
    fs::remove_dir(&path).unwrap();
    let left_out = Arc::<LeftOutCounts>::default();
    let recorder = Recorder::start(writer, Arc::clone(&left_out), &separate(), true).unwrap();
    for number in 0..10 {
        recorder.take(&Arc::new(exchange(number)));
    }
    assert!(recorder.stop(Duration::MAX));
    assert_eq!(left_out.of(LeftOut::NotWritten), 10);
    assert!(recorder.counts().is_failing);
}

/// As a recording that was passed around may be damaged, or made up.
#[test]
fn mutated_recordings_are_read_or_left_out_with_a_reason() {
    const PIECES: [&[u8]; 9] = [
        b"null",
        b"-1",
        b"1e308",
        b"18446744073709551615",
        b"[]",
        b"{}",
        b"\"\"",
        b"\n",
        b"\"DROP KEYSPACE k\"",
    ];
    let folder = tempfile::tempdir().unwrap();
    write(
        settings(folder.path(), RecordedValues::Clear, NO_LIMITS),
        &all_kinds(),
    );
    let path = fs::read_dir(folder.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut whole = Vec::new();
    GzDecoder::new(fs::File::open(&path).unwrap())
        .read_to_end(&mut whole)
        .unwrap();
    let header = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // A generator of its own, so that each run tries the same.
    let mut state = 46_u64;
    let mut below = |limit: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % limit
    };
    let mut exchanges = 0;
    for _ in 0..150 {
        let mut text = whole.clone();
        for _ in 0..=below(3) {
            let at = header + below(text.len() - header);
            let end = (at + below(12)).min(text.len());
            let piece = PIECES[below(PIECES.len())];
            text.splice(at..end, piece.iter().copied());
        }
        let mut out = GzEncoder::new(fs::File::create(&path).unwrap(), Compression::fast());
        out.write_all(&text).unwrap();
        out.finish().unwrap();
        let mut reader = RecordingReader::open(&path).unwrap();
        exchanges += reader.by_ref().count();
        for fault in reader.faults() {
            assert!(!fault.reason.is_empty());
        }
    }
    assert!(exchanges > 150, "most of them are whole");
}
