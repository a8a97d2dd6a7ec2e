//! Time and number: latencies and windows are those of the capture, a stream is told of while it comes, and
//! many connections are not too many.

use std::{
    io::Write,
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::sniff::{
    packets::Capture,
    report::{differences, number, seen},
    sniff::{PROGRAM, Place, recorded, recording},
    tcp::{ACK, PUSH, SYN, Segment, capture, segments},
};

const SOON: Duration = Duration::from_secs(60);

/// The capture as it would be if everything had taken so many times as long.
fn stretched(capture: &Capture, times: u64) -> Capture {
    let begin = capture.packets[0].at;
    let mut stretched = capture.clone();
    for packet in &mut stretched.packets {
        packet.at = begin + (packet.at - begin) * times;
    }
    stretched
}

/// The delays of a hundred requests on one connection, and of as many that are together in flight on another
/// one.
#[test]
fn latencies_are_those_of_the_capture() {
    let place = Place::new();
    let begin = 1_700_000_000_000_000_000;
    let mut packets = Vec::new();
    let mut talk = Talk::open(&mut packets, begin, client(50_000));
    for number in 0..100 {
        let asked = begin + number * 1_000_000_000;
        talk.say(asked, true, &query(1, "SELECT a FROM k.alone WHERE id = 1"));
        talk.say(asked + (number + 1) * 1_000_000, false, &void(1));
    }
    let mut talk = Talk::open(&mut packets, begin, client(50_001));
    let asked = begin + 200_000_000_000;
    for stream in 0..100 {
        talk.say(
            asked,
            true,
            &query(stream, "SELECT a FROM k.together WHERE id = 1"),
        );
    }
    for stream in 0..100 {
        talk.say(asked + u64::from(stream + 1) * 1_000_000, false, &void(stream));
    }
    packets.sort_by_key(|segment| segment.at);
    for times in [1, 1000] {
        let capture = stretched(&capture(&packets), times);
        let file = place.write(
            "delays.pcap",
            &capture.write(crate::sniff::packets::Layout::Pcapng {
                big_endian: false,
                nanoseconds: true,
            }),
        );
        let sniffed = place.sniff(&[&file], &["--window", "3600000s"]);
        for table in ["alone", "together"] {
            let patterns = sniffed.report()["patterns"].as_array().unwrap();
            let pattern = patterns.iter().find(|pattern| pattern["table"] == table).unwrap();
            for (key, milliseconds) in [("p50", 50), ("p99", 99), ("max", 100)] {
                let (found, expected) = (number(&pattern["latency_us"][key]), milliseconds * 1000 * times);
                // What a histogram rounds to.
                assert!(
                    found.abs_diff(expected) * 50 <= expected,
                    "{table}: {key} {found} us, not {expected} us"
                );
            }
        }
    }
}

fn client(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// One connection, written down.
pub(crate) struct Talk<'p> {
    packets: &'p mut Vec<Segment>,
    client: SocketAddr,
    next: [u32; 2],
}

impl<'p> Talk<'p> {
    pub(crate) fn open(packets: &'p mut Vec<Segment>, at: u64, client: SocketAddr) -> Self {
        let mut talk = Self {
            packets,
            client,
            next: [0; 2],
        };
        talk.send(at, true, SYN, &[]);
        talk.send(at, false, SYN | ACK, &[]);
        talk
    }

    pub(crate) fn say(&mut self, at: u64, from_client: bool, payload: &[u8]) {
        self.send(at, from_client, PUSH | ACK, payload);
    }

    fn send(&mut self, at: u64, from_client: bool, flags: u8, payload: &[u8]) {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, 9042));
        let (from, to) = if from_client {
            (self.client, server)
        } else {
            (server, self.client)
        };
        let side = usize::from(!from_client);
        let segment = Segment {
            at,
            from,
            to,
            sequence: self.next[side],
            acknowledgement: self.next[1 - side],
            flags,
            payload: payload.to_vec(),
        };
        self.next[side] = segment.end();
        self.packets.push(segment);
    }
}

/// A QUERY of version 4.
fn query(stream: u16, text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    let [high, low] = stream.to_be_bytes();
    let header = [4, 0, high, low, 7, 0, 0, 0, length + 7, 0, 0, 0, length];
    [&header[..], text.as_bytes(), &[0, 1, 0]].concat()
}

/// RESULT, nothing.
fn void(stream: u16) -> Vec<u8> {
    let [high, low] = stream.to_be_bytes();
    vec![0x84, 0, high, low, 8, 0, 0, 0, 4, 0, 0, 0, 1]
}

/// Windows are cut by the time of the capture, and add up to one.
#[test]
fn windows_of_a_capture_add_up_to_the_whole() {
    for recorded in recorded()
        .iter()
        .filter(|recorded| recorded.name.ends_with("v5-lz4"))
    {
        let place = Place::new();
        let whole = place.sniff(&[&recorded.file], &["--window", "3600s"]);
        let place = Place::new();
        let parts = place.sniff(&[&recorded.file], &["--window", "1s"]);
        let lines = differences(&seen(whole.report()), &seen(parts.report()));
        assert!(lines.is_empty(), "{}\n{}", recorded.name, lines.join("\n"));
        let files = std::fs::read_dir(place.path("snapshots")).unwrap();
        let files = files.filter(|file| {
            file.as_ref()
                .unwrap()
                .path()
                .extension()
                .is_some_and(|end| end == "gz")
        });
        let packets = recorded.capture().packets;
        let seconds = (packets.last().unwrap().at - packets[0].at) / 1_000_000_000;
        let count = files.count() as u64;
        assert!(
            count >= 2 && count <= seconds + 2,
            "{count} windows of {seconds} seconds"
        );
        let output = Command::new(PROGRAM)
            .args(["report", "--format", "json"])
            .arg(place.path("snapshots"))
            .output()
            .unwrap();
        let merged: Value = serde_json::from_slice(&output.stdout).unwrap();
        // A report of snapshots still knows what was dropped later.
        let counted = |report: &Value| {
            let mut counted = seen(report);
            counted.as_object_mut().unwrap().retain(|key, _| {
                ["coverage", "totals", "patterns", "system_patterns"].contains(&key.as_str())
            });
            counted
        };
        let lines = differences(&counted(parts.report()), &counted(&merged));
        assert!(lines.is_empty(), "{}\n{}", recorded.name, lines.join("\n"));
    }
}

/// What tcpdump writes into a pipe: the report is there before it ends.
#[test]
fn a_stream_is_told_of_while_it_comes() {
    let recorded = recording("python-v5-none");
    let bytes = recorded.capture().plain();
    let place = Place::new();
    let report = place.path("report.json");
    let mut child = Command::new(PROGRAM)
        .args(["sniff", "-", "--follow", "--window", "1s", "--report"])
        .arg(&report)
        .arg("--snapshot-dir")
        .arg(place.path("snapshots"))
        .arg("--hash-key-file")
        .arg(place.path("hash.key"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // Packets are cut where the pipe is full, not where they end.
    let (first, second) = bytes.split_at(bytes.len() * 3 / 4 + 7);
    input.write_all(first).unwrap();
    input.flush().unwrap();
    let read = || serde_json::from_slice::<Value>(&std::fs::read(&report).ok()?).ok();
    let deadline = Instant::now() + SOON;
    while read().is_none_or(|report| number(&report["coverage"]["audited"]) < 20) {
        assert!(
            Instant::now() < deadline,
            "no report while the stream is open: {:?}",
            read()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    input.write_all(second).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let whole = Place::new().sniff(&[&recorded.file], &[]);
    let lines = differences(&seen(whole.report()), &seen(&read().unwrap()));
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

/// A file that tcpdump still writes: reports come while it grows, and the end comes with a signal.
#[test]
fn a_file_that_grows_is_followed_until_it_is_stopped() {
    let recorded = recording("python-v4-none");
    let bytes = recorded.capture().plain();
    let place = Place::new();
    let (first, second) = bytes.split_at(bytes.len() * 3 / 4 + 7);
    let growing = place.write("growing.pcap", first);
    let report = place.path("report.json");
    let mut child = Command::new(PROGRAM)
        .args(["sniff", "--follow", "--window", "1s", "--report"])
        .arg(&report)
        .arg("--snapshot-dir")
        .arg(place.path("snapshots"))
        .arg("--hash-key-file")
        .arg(place.path("hash.key"))
        .arg(&growing)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let audited = || {
        let report = serde_json::from_slice::<Value>(&std::fs::read(&report).ok()?).ok()?;
        Some(number(&report["coverage"]["audited"]))
    };
    let wait_for = |requests: u64| {
        let deadline = Instant::now() + SOON;
        while audited().unwrap_or(0) < requests {
            assert!(
                Instant::now() < deadline,
                "{:?} of {requests} requests",
                audited()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait_for(20);
    let all = number(&recorded.report()["coverage"]["requests"]);
    assert!(audited().unwrap() < all);
    let mut file = std::fs::OpenOptions::new().append(true).open(&growing).unwrap();
    file.write_all(second).unwrap();
    wait_for(all);
    assert!(child.try_wait().unwrap().is_none(), "it goes on waiting");
    let stopped = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(stopped.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let followed = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let whole = Place::new().sniff(&[&recorded.file], &[]);
    let lines = differences(&seen(whole.report()), &seen(&followed));
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

/// More at once than are followed: the oldest are let go, and what was seen of them is counted all the same.
#[test]
fn more_connections_than_there_is_room_for_are_all_counted() {
    const CONNECTIONS: u32 = 70_000;
    const OPTIONS: &[u8] = &[4, 0, 0, 1, 5, 0, 0, 0, 0];
    const READY: &[u8] = &[0x84, 0, 0, 1, 2, 0, 0, 0, 0];
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, 9042));
    let mut packets = Vec::new();
    for number in 0..CONNECTIONS {
        let host = Ipv4Addr::from(0x0a00_0000 + number / 1000);
        let client = SocketAddr::from((host, u16::try_from(20_000 + number % 1000).unwrap()));
        let mut send = |from, to, sequence, acknowledgement, flags, payload: &[u8]| {
            packets.push(Segment {
                at: 1_700_000_000_000_000_000 + u64::from(number) * 1_000_000,
                from,
                to,
                sequence,
                acknowledgement,
                flags,
                payload: payload.to_vec(),
            });
        };
        send(client, server, 0, 0, SYN, &[]);
        send(server, client, 0, 1, SYN | ACK, &[]);
        send(client, server, 1, 1, PUSH | ACK, OPTIONS);
        send(server, client, 1, 10, PUSH | ACK, READY);
    }
    let place = Place::new();
    let file = place.write("many.pcap", &capture(&packets).plain());
    let sniffed = place.sniff(&[&file], &["--window", "3600s"]);
    assert_eq!(sniffed.code(), Some(0), "{}", sniffed.said());
    assert_eq!(
        number(&sniffed.report()["coverage"]["requests"]),
        u64::from(CONNECTIONS)
    );
    assert_eq!(
        number(&sniffed.report()["coverage"]["audited"]),
        u64::from(CONNECTIONS)
    );
}

/// Somebody opens the capture in the middle of everything; what can be placed is.
#[test]
fn a_capture_that_begins_in_mid_connection_finds_its_place() {
    for name in [
        "python-v4-none",
        "gocql-v3-none",
        "java-v5-none",
        "python-v5-none",
    ] {
        let recorded = recording(name);
        let all = segments(&recorded.capture());
        let middle = all.len() / 2;
        let place = Place::new();
        let file = place.write("late.pcap", &capture(&all[middle..]).plain());
        let sniffed = place.sniff(&[&file], &[]);
        let (late, whole) = (sniffed.report(), recorded.report());
        let (seen, asked) = (
            number(&late["coverage"]["audited"]),
            number(&whole["coverage"]["requests"]),
        );
        assert!(seen * 4 > asked && seen < asked, "{name}: {seen} of {asked}");
    }
}
