//! Inputs to begin with: the golden sessions, laid out as each target reads its input, and files for the targets of files.

use std::{fs, path::Path};

use bytes::BytesMut;
use cqlens_proto::cursor::Writer;
use cqlens_proto::envelope::{Direction, Envelope};
use cqlens_proto::message::{BatchQuery, Extensions, QueryResult, Request, Response};
use cqlens_proto::segment;

use super::recording::{self, Recording};

/// A fuzzer that begins with long inputs gets nowhere.
const MAX_LEN: usize = 2048;

/// Statements on the tables that the target `shape` plans under.
const OF_KNOWN_TABLES: [&str; 5] = [
    "SELECT v FROM ks.t WHERE k IN (1, 2) AND c >= '2026-01-01' AND c < 1795899034450 LIMIT 10",
    "SELECT v FROM kv WHERE k = 'it''s' AND v > -1 ALLOW FILTERING",
    "INSERT INTO ks.t (k, c, v, w) VALUES (1, '2026-01-01T00:00:00Z', $$text$$, 1.50) USING TIMESTAMP 5 AND TTL 60",
    "UPDATE ks.t USING TTL 9 SET v = 'a', w = 1e3 WHERE k = 7 AND c = 0 IF w = NaN",
    "DELETE FROM kv USING TIMESTAMP 1 WHERE k = ''",
];

/// Those of the targets of files, as they are.
const FILES: [(&str, &[u8]); 7] = [
    ("recording", include_bytes!("../seeds/recording/exchanges.jsonl")),
    ("settings", include_bytes!("../seeds/settings/report.txt")),
    ("settings", include_bytes!("../seeds/settings/reach.txt")),
    ("settings", include_bytes!("../seeds/settings/diff.txt")),
    ("settings", include_bytes!("../seeds/settings/explain.txt")),
    ("settings", include_bytes!("../seeds/settings/rules.txt")),
    (
        "snapshot",
        include_bytes!("../../tests/golden/snapshot-v1-first.cqlens.json"),
    ),
];

/// Writes the inputs for a target into `corpus/<target>/`, where `cargo fuzz` lets it read them; each target does so before it
/// begins. A program of its own for that would compile everything once more.
pub fn write(target: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let of_files = FILES.iter().filter(|(of, _)| *of == target);
    let seeds = of(target)
        .into_iter()
        .chain(of_files.map(|(_, seed)| seed.to_vec()));
    fs::create_dir_all(&folder).expect("there is room");
    for (number, seed) in seeds.enumerate() {
        fs::write(folder.join(format!("seed-{number:04}")), seed).expect("there is room");
    }
}

/// The inputs of golden sessions for a target; none for a name that is no such target's.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = recording::recordings()
        .iter()
        .flat_map(|recording| match target {
            "envelope" => connections(recording, &[]),
            "split" => connections(recording, &[1, 9, 100, 3, 200, 7, 50, 255]),
            "segment" => recording.envelopes().iter().filter_map(segments).collect(),
            "request" => bodies(recording, Direction::Request),
            "response" => bodies(recording, Direction::Response),
            "value" => recording.envelopes().iter().flat_map(values).collect(),
            "cql" | "template" | "shape" | "work" => recording.envelopes().iter().flat_map(texts).collect(),
            _ => Vec::new(),
        })
        .filter(|seed| seed.len() <= MAX_LEN)
        .collect();
    if target == "shape" {
        seeds.extend(OF_KNOWN_TABLES.map(|text| text.as_bytes().to_vec()));
    }
    seeds.sort();
    seeds.dedup();
    seeds
}

/// What a direction of a connection begins with, cut off.
fn connections(recording: &Recording, between: &[u8]) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for connection in recording.connections() {
        for direction in [Direction::Request, Direction::Response] {
            let mut seed = vec![direction_bit(direction)];
            seed.extend(between);
            let chunks = connection.iter().filter(|chunk| chunk.direction == direction);
            chunks.for_each(|chunk| seed.extend_from_slice(&chunk.bytes));
            seed.truncate(MAX_LEN);
            seeds.push(seed);
        }
    }
    seeds
}

/// An envelope as the payload of a segment.
fn segments(envelope: &Envelope) -> Option<Vec<u8>> {
    let mut payload = BytesMut::new();
    envelope.encode(&mut payload).ok()?;
    let length = u16::try_from(payload.len().min(segment::MAX_PAYLOAD)).ok()?;
    let lz4 = if length > 100 { 0x02 } else { 0 };
    let mut seed = vec![direction_bit(envelope.header.direction) | lz4];
    seed.extend(length.to_be_bytes());
    seed.extend_from_slice(&payload);
    Some(seed)
}

fn direction_bit(direction: Direction) -> u8 {
    u8::from(direction == Direction::Response)
}

fn bodies(recording: &Recording, direction: Direction) -> Vec<Vec<u8>> {
    let of_direction = |envelope: &Envelope| envelope.header.direction == direction;
    let seed = |envelope: Envelope| {
        let header = envelope.header;
        let start = [header.version.number(), header.flags.0, header.opcode.0];
        [&start[..], &envelope.body].concat()
    };
    recording
        .envelopes()
        .into_iter()
        .filter(of_direction)
        .map(seed)
        .collect()
}

fn values(envelope: &Envelope) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let Ok(decoded) = Response::decode(envelope, Extensions::NONE) else {
        return seeds;
    };
    let Response::Result(QueryResult::Rows(rows)) = decoded.message else {
        return seeds;
    };
    let Some(columns) = rows.metadata.columns else {
        return seeds;
    };
    for row in rows.iter().flatten() {
        for (column, cell) in columns.iter().zip(row) {
            let mut seed = BytesMut::new();
            if column.column_type.encode(&mut Writer::new(&mut seed)).is_ok() {
                seed.extend_from_slice(cell.unwrap_or_default());
                seeds.push(seed.to_vec());
            }
        }
    }
    seeds
}

fn texts(envelope: &Envelope) -> Vec<Vec<u8>> {
    let Ok(decoded) = Request::decode(envelope, Extensions::NONE) else {
        return Vec::new();
    };
    match decoded.message {
        Request::Query(query) => vec![query.query.into()],
        Request::Prepare(prepare) => vec![prepare.query.into()],
        Request::Batch(batch) => {
            let texts = batch
                .statements
                .iter()
                .filter_map(|statement| match statement.query {
                    BatchQuery::Text(text) => Some(text.into()),
                    BatchQuery::Prepared(_) => None,
                });
            texts.collect()
        }
        _ => Vec::new(),
    }
}
