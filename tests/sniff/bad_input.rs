//! What is no capture, or none of CQL: a line that says so and the exit code 2, or a report of what was
//! there.

use std::{path::Path, sync::Arc};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use tokio::runtime::Runtime;

use crate::sniff::{
    conversation::Relay,
    packets::Layout,
    report::{invented, number},
    sniff::{Place, Sniffed, recording},
    tcp::{capture, segments},
};

fn assert_refused(sniffed: &Sniffed, words: &[&str]) {
    let said = sniffed.said();
    assert_eq!(sniffed.code(), Some(2), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    assert_eq!(said.trim().lines().count(), 1, "{said}");
}

#[test]
fn what_is_no_capture_is_refused_in_one_line() {
    let place = Place::new();
    let empty = place.write("empty.pcap", b"");
    assert_refused(&place.sniff(&[&empty], &[]), &["empty.pcap", "empty"]);
    let text = place.write(
        "text.pcap",
        b"BEGIN BATCH; this is no capture at all\n".repeat(30).as_slice(),
    );
    assert_refused(&place.sniff(&[&text], &[]), &["text.pcap"]);
    let zeros = place.write("zeros.pcap", &[0; 4096]);
    assert_refused(&place.sniff(&[&zeros], &[]), &["zeros.pcap"]);
    let missing = place.path("missing.pcap");
    assert_refused(&place.sniff(&[&missing], &[]), &["missing.pcap"]);
    let folder = place.path("snapshots");
    assert_refused(&place.sniff(&[&folder], &[]), &["snapshots"]);
    assert_refused(&place.sniff_stream(b"", &[]), &["standard input"]);
    assert_refused(&place.sniff_stream(b"hello", &[]), &["standard input"]);
    let packed = place.write("text.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3]);
    assert_refused(&place.sniff(&[&packed], &[]), &["text.gz"]);
}

/// Whoever runs the tests as root can read everything: `setpriv` changes the user.
#[test]
fn a_file_that_may_not_be_read_is_refused_in_one_line() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let file = place.write("secret.pcap", &recording("python-v4-none").capture().plain());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&file).is_err() {
        assert_refused(&place.sniff(&[&file], &[]), &["secret.pcap", "ermission denied"]);
        return;
    }
    // The program may be where only its owner can go.
    let open = std::env::temp_dir().join(format!("cqlens-sniff-{}", std::process::id()));
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    // By another process: a program that is open for writing does not run, and another test may just make a
    // process of its own.
    let mut copy = std::process::Command::new("cp");
    copy.arg(crate::sniff::sniff::PROGRAM).arg(open.join("cqlens"));
    assert!(copy.status().unwrap().success());
    std::fs::copy(&file, open.join("secret.pcap")).unwrap();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(open.join("cqlens"))
        .arg("sniff")
        .arg(open.join("secret.pcap"))
        .arg("--report")
        .arg(open.join("report.json"))
        .output();
    std::fs::remove_dir_all(&open).unwrap();
    let Some(output) = cqlens_testing::available(
        "a file that may not be read",
        output.map_err(|error| cqlens_testing::Missing(format!("`setpriv` cannot be run: {error}"))),
    ) else {
        return;
    };
    assert_refused(
        &Sniffed { output, report: None },
        &["secret.pcap", "ermission denied"],
    );
}

/// A capture that was cut off, by a full disk or a killed tcpdump, is read up to there.
#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there() {
    let place = Place::new();
    let recorded = recording("java-v4-lz4");
    let original = recorded.report();
    let whole = recorded.capture();
    for layout in [
        Layout::Pcap {
            big_endian: false,
            nanoseconds: false,
        },
        Layout::Pcapng {
            big_endian: false,
            nanoseconds: true,
        },
    ] {
        let bytes = whole.write(layout);
        let header = bytes.len() / 40;
        let ends = (1..40)
            .step_by(3)
            .chain((header..bytes.len()).step_by(bytes.len() / 23 + 1));
        let mut seen = 0;
        for end in ends.chain([bytes.len() - 1]) {
            let file = place.write("cut.pcap", &bytes[..end]);
            let sniffed = place.sniff(&[&file], &[]);
            let said = sniffed.told();
            assert!(!said.contains("panicked"), "{layout:?} to {end}: {said}");
            let Some(report) = &sniffed.report else {
                assert_eq!(sniffed.code(), Some(2), "{layout:?} to {end}: {said}");
                continue;
            };
            assert_eq!(sniffed.code(), Some(0), "{layout:?} to {end}: {said}");
            // Behind the first block of pcapng nothing is missing but everything.
            let is_told = said.contains("cut.pcap") || said.contains("0 packets were read");
            assert!(is_told, "{layout:?} to {end}: {said}");
            let requests = number(&report["coverage"]["requests"]);
            assert!(
                requests >= seen,
                "{layout:?} to {end}: {requests} requests, and {seen} with less of the file"
            );
            seen = requests;
            let invented = invented(&original, report);
            assert!(invented.is_empty(), "{layout:?} to {end}: {invented:#?}");
        }
        assert!(
            seen + 2 >= number(&original["coverage"]["requests"]),
            "{seen} requests"
        );
    }
}

#[test]
fn a_packed_file_that_ends_early_is_read_up_to_there() {
    let place = Place::new();
    let recorded = recording("gocql-v4-lz4");
    let packed = std::fs::read(&recorded.file).unwrap();
    let file = place.write("cut.pcap.gz", &packed[..packed.len() * 3 / 4]);
    let sniffed = place.sniff(&[&file], &[]);
    assert_eq!(sniffed.code(), Some(0), "{}", sniffed.told());
    assert!(sniffed.told().contains("cut.pcap.gz"), "{}", sniffed.told());
    assert!(number(&sniffed.report()["coverage"]["requests"]) > 20);
    let invented = invented(&recorded.report(), sniffed.report());
    assert!(invented.is_empty(), "{invented:#?}");
}

/// Nothing at the port that was asked for; CQL at another one, which is named.
#[test]
fn a_wrong_port_is_told_with_the_ports_that_look_like_cql() {
    let place = Place::new();
    let mut segments = segments(&recording("python-v4-none").capture());
    for segment in &mut segments {
        for end in [&mut segment.from, &mut segment.to] {
            if end.port() == 9042 {
                end.set_port(19042);
            }
        }
    }
    let file = place.write("other.pcap", &capture(&segments).plain());
    let sniffed = place.sniff(&[&file], &[]);
    let said = sniffed.told();
    assert!(said.contains("19042"), "{:?} {said}", sniffed.code());
    match (sniffed.code(), &sniffed.report) {
        (Some(2), _) => {}
        (Some(0), Some(report)) => assert_eq!(number(&report["coverage"]["requests"]), 0),
        other => panic!("{other:?}: {said}"),
    }
    // Also where only the middle of connections is there, and segments hide envelopes.
    for name in ["gocql-v3-none", "java-v5-none", "java-v5-lz4"] {
        let mut middle = crate::sniff::tcp::segments(&recording(name).capture());
        middle.drain(..middle.len() / 2);
        for segment in &mut middle {
            for end in [&mut segment.from, &mut segment.to] {
                if end.port() == 9042 {
                    end.set_port(19042);
                }
            }
        }
        let file = place.write("middle.pcap", &capture(&middle).plain());
        let told = place.sniff(&[&file], &[]).told();
        assert!(
            told.contains("Traffic at port 19042 looks like CQL"),
            "{name}: {told}"
        );
        assert!(told.contains("`--port 19042`"), "{name}: {told}");
    }
    let found = place.sniff(&[&file], &["--port", "9042", "--port", "19042"]);
    assert_eq!(found.code(), Some(0), "{}", found.said());
    let original = recording("python-v4-none").report();
    assert_eq!(
        found.report()["coverage"]["requests"],
        original["coverage"]["requests"]
    );
}

/// At the port that was asked for, from the beginning of its connections or from the middle: a line that says
/// so, and no coverage.
#[test]
fn of_a_capture_without_cql_nothing_is_audited_and_that_is_said() {
    let place = Place::new();
    let original = segments(&recording("python-v4-none").capture());
    let middle = original.len() / 2;
    for (content, from, said) in [
        (&b"GET / HTTP/1.1\r\n"[..], 0, "text, such as HTTP"),
        (&b"HTTP/1.1 200 OK\r\n"[..], 0, "text, such as HTTP"),
        // Some connections begin in that half.
        (&b"GET / HTTP/1.1\r\n"[..], middle, "it is "),
        (
            &b"\x9a\x10\x8f\x02\xee\xd1\x77\x93\x5c\x61\xa8"[..],
            0,
            "something else",
        ),
        (
            &b"\x9a\x10\x8f\x02\xee\xd1\x77\x93\x5c\x61\xa8"[..],
            middle,
            "something else",
        ),
    ] {
        let mut segments = original[from..].to_vec();
        for segment in &mut segments {
            for (index, byte) in segment.payload.iter_mut().enumerate() {
                *byte = content[index % content.len()];
            }
        }
        let file = place.write("other.pcap", &capture(&segments).plain());
        let sniffed = place.sniff(&[&file], &[]);
        let told = sniffed.told();
        assert_eq!(sniffed.code(), Some(0), "{told}");
        let report = sniffed.report();
        for key in ["requests", "audited"] {
            assert_eq!(number(&report["coverage"][key]), 0, "{told}");
        }
        assert_eq!(report["patterns"].as_array().map(Vec::len), Some(0));
        let notices = report["notices"].to_string();
        let line = "No traffic at port 9042 is CQL";
        assert!(notices.contains(line) && notices.contains(said), "{notices}");
        assert!(sniffed.said().contains(line), "{told}");
    }
    let file = recording("python-v4-none").file;
    let told = place.sniff(&[&file], &[]).told();
    assert!(!told.contains("is CQL"), "{told}");
}

/// However many connections there are: a line for each server.
#[test]
fn each_server_that_speaks_tls_is_told_once() {
    let place = Place::new();
    let tls = crate::sniff::packets::Capture::read(&crate::sniff::sniff::unpacked(
        &crate::sniff::sniff::captures().join("python-v4-none-tls.pcap"),
    ));
    let once = segments(&tls);
    let mut all = Vec::new();
    for (host, client) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
        let mut again = once.clone();
        for segment in &mut again {
            // Numbers of their own, or they would be one connection behind NAT.
            segment.sequence = segment.sequence.wrapping_add(0x1111_1111 * u32::from(host));
            segment.acknowledgement = segment
                .acknowledgement
                .wrapping_add(0x1111_1111 * u32::from(host));
            for end in [&mut segment.from, &mut segment.to] {
                if end.port() == 9042 {
                    end.set_ip(std::net::Ipv4Addr::new(10, 0, 0, host).into());
                } else {
                    end.set_port(end.port() ^ client);
                }
            }
        }
        all.extend(again);
    }
    let file = place.write("tls.pcap", &capture(&all).plain());
    let sniffed = place.sniff(&[&file], &["--window", "1s"]);
    let notices = sniffed.report()["notices"].as_array().unwrap();
    for server in ["10.0.0.1:9042", "10.0.0.2:9042"] {
        let told = notices
            .iter()
            .filter(|notice| notice.to_string().contains(server));
        assert_eq!(told.count(), 1, "{server}: {notices:?}");
        assert_eq!(sniffed.said().matches(server).count(), 1, "{}", sniffed.said());
    }
}

#[test]
fn encrypted_connections_are_told_once_with_what_to_do() {
    let place = Place::new();
    let file = crate::sniff::sniff::captures().join("python-v4-none-tls.pcap");
    let sniffed = place.sniff(&[Path::new(&file)], &[]);
    let said = sniffed.told();
    assert!(matches!(sniffed.code(), Some(0 | 2)), "{said}");
    let notices = sniffed.report()["notices"].as_array().unwrap();
    let lines: Vec<&str> = notices
        .iter()
        .filter_map(|notice| notice.as_str())
        .filter(|line| line.contains("TLS"))
        .collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].contains("9042") && lines[0].contains("proxy"), "{said}");
    if let Some(report) = &sniffed.report {
        assert_eq!(number(&report["coverage"]["audited"]), 0);
    }
}

#[test]
fn a_megabyte_of_digits_is_one_request_among_others() {
    let place = Place::new();
    let runtime = Runtime::new().unwrap();
    let node = runtime.block_on(Node::start(Options::default())).unwrap();
    let relay = Relay::start(node.address());
    runtime.block_on(async {
        let options = Arc::new(ClientOptions::default());
        let mut client = Client::connect(&relay.address.to_string(), &options)
            .await
            .unwrap();
        let digits = "1".repeat(1 << 20);
        for wrong in [format!("SELECT {digits}n"), format!("SELECT 1e{digits}")] {
            assert!(client.query(&wrong).await.is_err());
        }
        client.query("SELECT key FROM system.local").await.unwrap();
    });
    let capture = place.write("digits.pcap", &relay.capture().plain());
    let sniffed = place.sniff(&[&capture], &[]);
    let coverage = &sniffed.report()["coverage"];
    // STARTUP and three statements.
    assert_eq!(
        (&coverage["audited"], &coverage["undecoded"]),
        (&4.into(), &0.into()),
        "{coverage}"
    );
    // The server did not understand them either.
    assert_eq!(
        (&coverage["refused"], &coverage["unparsed"]),
        (&2.into(), &0.into()),
        "{coverage}"
    );
}
