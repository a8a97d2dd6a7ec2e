//! Time and number: latencies and windows are those of the capture, a stream is told of while it comes, and many connections are not too many.

use std::{
    io::Write,
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
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

fn latencies(report: &Value) -> Vec<(String, u64, u64)> {
    let patterns = report["patterns"].as_array().unwrap().iter();
    let latency = |pattern: &Value, key: &str| number(&pattern["latency_us"][key]);
    let mut all: Vec<_> = patterns
        .map(|pattern| {
            let name = format!("{} {}", pattern["id"], pattern["cql"]);
            (name, latency(pattern, "p50"), latency(pattern, "max"))
        })
        .collect();
    all.sort();
    all
}

/// Between the driver and the proxy; the proxy begins to count when it has read a request, and stops when it has read the response.
#[test]
fn latencies_are_those_of_the_capture() {
    let recorded = recording("java-v4-none");
    let place = Place::new();
    let sniffed = place.sniff(&[&recorded.file], &[]);
    let (sniffed, proxy) = (latencies(sniffed.report()), latencies(&recorded.report()));
    assert_eq!(sniffed.len(), proxy.len());
    for ((name, p50, max), (same, of_proxy, max_of_proxy)) in sniffed.iter().zip(&proxy) {
        assert_eq!(name, same);
        // On the way to and from the proxy, in microseconds, beside what the histograms round to.
        for (seen, by_proxy) in [(p50, of_proxy), (max, max_of_proxy)] {
            let (least, most) = (by_proxy * 98 / 100, by_proxy * 105 / 100 + 30_000);
            assert!(
                (least..=most).contains(seen),
                "{name}: {seen} us, and {by_proxy} us for the proxy"
            );
        }
    }
    let file = place.write("slow.pcap", &stretched(&recorded.capture(), 100).plain());
    let slow = latencies(place.sniff(&[&file], &[]).report());
    for ((name, p50, _), (_, slow, _)) in sniffed.iter().zip(&slow) {
        let (least, most) = (p50 * 98, p50 * 102 + 200);
        assert!(
            (least..=most).contains(slow),
            "{name}: {slow} us, and {p50} us a hundred times as fast"
        );
    }
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
                .is_some_and(|end| end == "json")
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
        let lines = differences(&seen(parts.report()), &seen(&merged));
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
