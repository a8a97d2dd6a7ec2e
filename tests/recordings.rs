//! What recordings promise: of live traffic and of captures they have every request of an application, a report of one
//! says what the report of the traffic has said, and no value is in them unless it was asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::scenario::Scenario;
use cqlens_rehearse::{
    digest::ResponseDigest,
    exchange::{Effect, Page, RecordedExchange, ValueContent},
    recording::RecordingReader,
};
use cqlens_testing::proxy::Proxy;
use serde_json::Value;

use crate::verdict;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

/// Runs scenarios through a proxy that records; where it was, and the proxy's own report.
struct Live {
    folder: tempfile::TempDir,
    report: Value,
}

impl Live {
    fn of(scenarios: &[&str], more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (recording, report) = (folder.path().join("recording"), folder.path().join("live.json"));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let node = runtime.block_on(cqlens_node::Node::start(cqlens_node::Options::default()));
        let node = node.unwrap();
        let key = folder.path().join("hash.key");
        let mut arguments = vec!["--window", "3600s", "--sequence-budget", "100000"];
        let paths = [
            ("--report", &report),
            ("--record", &recording),
            ("--hash-key-file", &key),
        ];
        for (flag, path) in paths {
            arguments.extend([flag, path.to_str().unwrap()]);
        }
        arguments.extend(more);
        let proxy = Proxy::start(PROGRAM, node.address(), &arguments);
        for id in scenarios {
            let text = |name| verdict::text(id, name);
            let scenario = Scenario::parse(id, &text("schema.cql"), &text("traffic.toml")).unwrap();
            let ran = runtime.block_on(scenario.run(proxy.address, &ClientOptions::default()));
            ran.unwrap();
        }
        let ended = proxy.stop(Duration::from_secs(60));
        assert_eq!(ended.code, 0, "{}", ended.log);
        assert!(ended.log.contains(" recorded in "), "{}", ended.log);
        assert!(!ended.log.contains("left out"), "{}", ended.log);
        let report = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
        Self { folder, report }
    }

    fn recording(&self) -> PathBuf {
        self.folder.path().join("recording")
    }
}

fn cqlens(arguments: &[&str]) -> Output {
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code().is_some_and(|code| code < 2), "{said}");
    output
}

fn read(recording: &Path) -> Vec<RecordedExchange> {
    let mut reader = RecordingReader::open(recording).unwrap();
    let exchanges = reader.by_ref().collect();
    assert!(reader.faults().is_empty(), "{:?}", reader.faults());
    exchanges
}

/// All that the files of a recording hold, snapshots included.
fn contents(folder: &Path) -> String {
    let mut contents = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            contents += &self::contents(&path);
        } else {
            let mut bytes = Vec::new();
            let mut input = flate2::read::MultiGzDecoder::new(fs::File::open(&path).unwrap());
            std::io::Read::read_to_end(&mut input, &mut bytes).unwrap();
            contents += &String::from_utf8_lossy(&bytes);
        }
    }
    contents
}

#[test]
fn a_report_of_a_recording_says_what_the_live_one_has_said() {
    let live = Live::of(
        &[
            "groups-normalised",
            "null-insert",
            "queue",
            "lab-buckets",
            "in-query",
            "unpaged-read",
        ],
        &[],
    );
    let recording = live.recording();
    let output = cqlens(&["report", recording.to_str().unwrap(), "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(live.report["findings"].as_array().unwrap().len() > 5);
    for part in ["findings", "patterns", "tables", "sequences", "totals"] {
        assert_eq!(report[part], live.report[part], "{part}");
    }
    // As many requests of each pattern as the audit has counted.
    let mut recorded = BTreeMap::<String, u64>::new();
    for exchange in read(&recording) {
        let pattern = exchange.request.pattern.unwrap().to_string();
        *recorded.entry(pattern).or_default() += 1;
    }
    let patterns = live.report["patterns"].as_array().unwrap().iter();
    let audited = patterns
        .map(|pattern| {
            let id = pattern["id"].as_str().unwrap().to_owned();
            (id, pattern["count"].as_u64().unwrap())
        })
        .filter(|(id, _)| recorded.contains_key(id));
    assert_eq!(audited.collect::<BTreeMap<_, _>>(), recorded);
    // What its statements touch.
    let explained = cqlens(&["explain", recording.to_str().unwrap()]);
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.contains("SELECT"), "{explained}");
    // With the schema that was in force, which the recording has.
    assert!(explained.contains("full-partition-key"), "{explained}");
}

#[test]
fn each_request_of_a_recording_is_explained_as_a_record_with_its_values() {
    for (more, partitions) in [
        (&["--record-values"][..], BTreeSet::from([Some(4), Some(25)])),
        (&[], [None].into()),
    ] {
        let live = Live::of(&["in-query"], more);
        let recording = live.recording();
        let explained = cqlens(&["explain", "--json", recording.to_str().unwrap()]);
        let answers: Vec<Value> = String::from_utf8(explained.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let recorded = read(&recording);
        assert_eq!(answers.len(), recorded.len());
        for (answer, exchange) in answers.iter().zip(&recorded) {
            assert_eq!(answer["id"], exchange.number);
        }
        let reads = answers
            .iter()
            .filter(|answer| answer["in_on_partition_key"] == true);
        let counts: BTreeSet<_> = reads.map(|answer| answer["partitions"].as_u64()).collect();
        assert_eq!(counts, partitions, "hashes are no keys");
    }
}

#[test]
fn named_pipes_in_a_recording_are_not_waited_for() {
    let live = Live::of(&["allow-filtering"], &[]);
    let recording = live.recording();
    for pipe in ["pipe.cqlens.recording.gz", "snapshots/zzz.cqlens.json"] {
        let made = Command::new("mkfifo").arg(recording.join(pipe)).status();
        assert!(made.unwrap().success());
    }
    let output = cqlens(&["explain", recording.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("pipe.cqlens.recording.gz: it is no regular file"),
        "{said}"
    );
}

#[test]
fn a_full_query_log_is_recorded_without_responses_and_can_be_replayed_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    let dump =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/rehearse/tests/golden/fqltool-dump-4.1.txt");
    let (dump, recording) = (dump.to_str().unwrap(), folder.path().join("recording"));
    let recording = recording.to_str().unwrap();
    let output = cqlens(&[
        "record",
        dump,
        "--keyspace",
        "k",
        "--record-values",
        "-o",
        recording,
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("8 requests recorded in ")
            && said.contains("2 left out: 1 too long, 1 not readable in the log"),
        "{said}"
    );
    let recorded = read(Path::new(recording));
    assert!(
        recorded
            .iter()
            .all(|exchange| exchange.response == ResponseDigest::Missing)
    );
    let explained = cqlens(&["explain", recording]);
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(
        explained.contains("DELETE FROM k.t WHERE a = ? AND b = ?"),
        "{explained}"
    );

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let schema = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE k.t (a int, b int, v text, PRIMARY KEY (a, b));";
    let node = runtime.block_on(async {
        let node = cqlens_node::Node::start(cqlens_node::Options::default());
        let node = node.await.unwrap();
        let mut client = Client::connect(node.address(), &ClientOptions::default())
            .await
            .unwrap();
        client.script(schema).await.unwrap();
        node
    });
    let address = node.address().to_string();
    let to = ["replay", recording, "--to", &address, "--format", "json"];
    let writes = ["--write-keyspaces", "k", "--lwt-keyspaces", "k"];
    let output = cqlens(&[&to[..], &writes].concat());
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    let totals = &comparison["totals"];
    assert_eq!(totals["skipped"], serde_json::json!({}), "{totals:#}");
    assert_eq!(
        totals["not_compared"],
        serde_json::json!({"first-unknown": 8}),
        "{totals:#}"
    );
    let output = cqlens(&[&to[..], &["--against", &address, "--speed", "max"]].concat());
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(comparison["totals"]["compared"], 3, "{comparison:#}");
    assert_eq!(comparison["patterns_that_differ"], 0, "{comparison:#}");
    let mixed = Command::new(PROGRAM)
        .args(["record", dump, "capture.pcap", "-o", recording])
        .output()
        .unwrap();
    assert_eq!(mixed.status.code(), Some(2));
}

/// How dumps are handed on: through a pipe, packed, and beside that of a node that had nothing to do.
#[test]
fn full_query_logs_are_read_as_they_are_handed_on() {
    let folder = tempfile::tempdir().unwrap();
    let dump =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/rehearse/tests/golden/fqltool-dump-4.1.txt");
    let text = fs::read(dump).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&text).unwrap();
    let files = [
        ("log.txt", text.clone()),
        ("log.txt.gz", packed.finish().unwrap()),
        ("idle.txt", Vec::new()),
    ];
    for (name, bytes) in &files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let record = |given: &[&str], input: &str, number: usize| {
        let recording = folder.path().join(format!("recording-{number}"));
        let output = Command::new(PROGRAM)
            .current_dir(folder.path())
            .arg("record")
            .args(given)
            .args(["--keyspace", "k", "-o", recording.to_str().unwrap()])
            .stdin(fs::File::open(folder.path().join(input)).unwrap())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    for (number, (given, input)) in [
        (&["log.txt.gz"][..], "idle.txt"),
        (&["-"], "log.txt"),
        (&["-"], "log.txt.gz"),
        (&["idle.txt", "log.txt"], "idle.txt"),
        (&["log.txt", "-"], "idle.txt"),
    ]
    .into_iter()
    .enumerate()
    {
        let (code, said) = record(given, input, number);
        assert_eq!(code, Some(0), "{given:?}: {said}");
        assert!(said.contains("8 requests recorded in "), "{given:?}: {said}");
        assert_eq!(said.contains("is empty"), given.len() > 1, "{given:?}: {said}");
    }
    let (code, said) = record(&["idle.txt"], "idle.txt", 10);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn no_value_is_recorded_unless_it_is_asked_for_and_nobody_else_can_read_the_files() {
    // Of the scenario, as they stand in its traffic.
    let hidden = Live::of(&["users-two-tables"], &[]);
    let shown = Live::of(&["users-two-tables"], &["--record-values"]);
    let texts = |live: &Live| {
        let exchanges = read(&live.recording()).into_iter();
        let values = exchanges.flat_map(|exchange| exchange.request.statements);
        let values = values.flat_map(|statement| statement.values);
        values.map(|value| value.content).collect::<Vec<_>>()
    };
    let is_hashed = |value: &ValueContent| !matches!(value, ValueContent::Bytes(_));
    assert!(texts(&hidden).iter().all(is_hashed));
    let bytes: BTreeSet<_> = texts(&shown)
        .into_iter()
        .filter_map(|value| match value {
            ValueContent::Bytes(bytes) if bytes.len() >= 8 => String::from_utf8(bytes.to_vec()).ok(),
            _ => None,
        })
        .collect();
    assert!(bytes.len() > 10, "{bytes:?}");
    let contents = contents(&hidden.recording());
    for text in bytes {
        assert!(!contents.contains(&text), "{text}");
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = hidden.recording();
    assert_eq!(mode(&folder), 0o700);
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = entries.filter(|path| path.is_file()).collect();
    assert!(!files.is_empty());
    assert!(files.iter().all(|file| mode(file) == 0o600));
}

/// Of the same session, in every version and compression, of three drivers.
#[test]
fn captures_of_drivers_become_recordings_of_all_that_they_have_sent() {
    let captures = Path::new("tests/sniff/captures");
    for name in [
        "python-v3-lz4.pcap",
        "python-v4-lz4.pcap",
        "python-v5-lz4.pcap",
        "gocql-v3-none.pcap.gz",
        "gocql-v4-lz4.pcap.gz",
        "gocql-v5-lz4.pcap.gz",
        "java-v3-lz4.pcap.zst",
        "java-v4-none.pcap.zst",
        "java-v5-lz4.pcap.zst",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("recording");
        let output = cqlens(&[
            "record",
            captures.join(name).to_str().unwrap(),
            "-o",
            recording.to_str().unwrap(),
            "--record-values",
        ]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains(" recorded in ") && !said.contains("left out"),
            "{name}: {said}"
        );
        let exchanges = read(&recording);
        let requests = || exchanges.iter().map(|exchange| &exchange.request);
        let statements = || requests().flat_map(|request| &request.statements);
        assert!(exchanges.len() >= 10, "{name}: {}", exchanges.len());
        for is_prepared in [true, false] {
            assert!(
                statements().any(|statement| statement.is_prepared == is_prepared),
                "{name}"
            );
        }
        let mut values = statements().flat_map(|statement| &statement.values);
        assert!(values.any(|value| value.content == ValueContent::Null), "{name}");
        let effects: BTreeSet<_> = requests().map(|request| request.effect).collect();
        let mut usual = vec![Effect::Read, Effect::Write, Effect::Definition];
        // The sessions without compression have more in them.
        if name.contains("none") {
            usual.extend([Effect::Counter, Effect::Conditional]);
            let batches = requests().filter(|request| request.batch.is_some());
            assert_eq!(batches.count(), 3, "{name}");
        }
        assert_eq!(effects, usual.into_iter().collect(), "{name}");
        let later = requests().filter(|request| matches!(request.page, Page::After(_)));
        assert!(later.count() >= 2, "{name}");
        assert!(
            exchanges
                .iter()
                .any(|exchange| matches!(exchange.response, ResponseDigest::Rows(_))),
            "{name}"
        );
        assert!(
            exchanges
                .iter()
                .all(|exchange| exchange.response != ResponseDigest::Missing),
            "{name}"
        );
        assert!(requests().all(|request| request.page != Page::Unknown), "{name}");
    }
}

/// What a server refuses is what people mistype: a password in the wrong place, a quote in a name.
#[test]
fn of_refused_texts_no_literal_is_in_a_recording() {
    const REFUSED: [&str; 22] = [
        "INSERT INTO shop.users (name) VALUES ('O'Xsecret')",
        "SELECT * FROM shop.users WHERE name = \"Xsecret\" AND x = 'open Xsecret",
        "UPDAET shop.users SET name = 'Xsecret' WHERE id = 1",
        "UPDATE shop.users SET name = 'Xsecret' WHERE id = 1 Xsecret",
        "DELETE FORM shop.users WHERE name = 'Xsecret'",
        "INSERT INTO shop.users (name) VALUE ('Xsecret')",
        "SELECT * FROM shop.users WHERE id = 0xXsecret",
        "SELECT * FROM shop.users WHERE name LIKE $$Xsecret$$ $$",
        "SELECT * FROM shop.users WERE name = Xsecret",
        "BEGIN BATCH INSERT INTO shop.users (name) VALUES ('Xsecret') APPLY",
        "CREATE TABEL shop.users (id int PRIMARY KEY) WITH comment = 'Xsecret'",
        "CREATE TABLE shop.other (id int PRIMARY KEY) WITH comment = 'Xsecret' Xsecret",
        "CREATE USER x WITH PASSWORT 'Xsecret'",
        "CREATE/**/USER x WITH PASSWORT 'Xsecret'",
        "CREATE USER Xsecret PASSWORT $$Xsecret$$ NOSUPERUSER",
        "CREATE USER x WITH PASSWORD 'Xsecret'",
        "ALTER USER x WITH HASHED PASSWORD 'Xsecret' SUPERUSER",
        "CREATE ROLE x WITH PASSWORD = 'Xsecret' AND LOGIN = true",
        "ALTER ROLE x WITH PASSWORD = $$Xsecret$$",
        "ALTER ROLE x WITH HASHED PASSWORD = 'Xsecret' AND",
        "CREATE ROLE x WITH OPTIONS = {'password': 'Xsecret'}",
        "Xsecret",
    ];
    let folder = tempfile::tempdir().unwrap();
    let (recording, report) = (folder.path().join("recording"), folder.path().join("live.json"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let node = runtime.block_on(cqlens_node::Node::start(cqlens_node::Options::default()));
    let node = node.unwrap();
    let paths = [&recording, &report].map(|path| path.to_str().unwrap());
    let arguments = ["--record", paths[0], "--report", paths[1], "--window", "3600s"];
    let proxy = Proxy::start(PROGRAM, node.address(), &arguments);
    runtime.block_on(async {
        let mut client = Client::connect(proxy.address, &ClientOptions::default())
            .await
            .unwrap();
        for cql in REFUSED {
            // Whatever it says to those that parse.
            let _ = client.query(cql).await;
            let _ = client.prepare(cql).await;
        }
        client.query("SELECT key FROM system.local").await.unwrap();
    });
    let ended = proxy.stop(Duration::from_secs(60));
    assert_eq!(ended.code, 0, "{}", ended.log);
    let contents = contents(&recording);
    assert!(contents.contains("UPDATE shop.users SET"), "{contents}");
    let report = fs::read_to_string(report).unwrap();
    for text in [&contents, &report, &ended.log] {
        let lower = text.to_lowercase();
        let at = lower
            .find("secret")
            .map(|at| &text[at.saturating_sub(200)..at + 20]);
        assert_eq!(at, None);
    }
}
