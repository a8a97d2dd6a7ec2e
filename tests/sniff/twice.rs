//! Captures that have the same traffic under two addresses: before and after a translation (NAT), on both sides of a
//! relay. It counts once; what only looks alike counts as often as it is there.

use std::net::SocketAddr;

use serde_json::Value;

use crate::sniff::{
    packets::{Capture, PLAIN},
    report::{differences, number, seen},
    sniff::{Place, Sniffed, recording},
    tcp::{Link, Segment, capture, capture_over, segments},
};

/// Drivers, versions and compressions.
const NAMES: [&str; 4] = ["gocql-v4-none", "java-v5-none", "python-v5-lz4", "python-v3-lz4"];

/// Nanoseconds that a translation or a relay takes.
const LATER: u64 = 3_000;

/// What is captured on the other side of something that stands between client and server: other addresses, requests
/// later, responses earlier; by `numbers`, other sequence numbers of client and server.
fn behind(segments: &[Segment], client: Client, server: &str, numbers: [u32; 2]) -> Vec<Segment> {
    let server: SocketAddr = server.parse().unwrap();
    let moved = |segment: &Segment| {
        let is_request = segment.to.port() == 9042;
        let client = client(if is_request { segment.from } else { segment.to });
        let ((from, to), side) = match is_request {
            true => ((client, server), 0),
            false => ((server, client), 1),
        };
        Segment {
            at: if is_request {
                segment.at + LATER
            } else {
                segment.at - LATER
            },
            from,
            to,
            sequence: segment.sequence.wrapping_add(numbers[side]),
            acknowledgement: segment.acknowledgement.wrapping_add(numbers[1 - side]),
            ..segment.clone()
        }
    };
    segments.iter().map(moved).collect()
}

type Client = fn(SocketAddr) -> SocketAddr;

fn the_same(client: SocketAddr) -> SocketAddr {
    client
}

/// From the address of a node, and from other ports.
fn masqueraded(client: SocketAddr) -> SocketAddr {
    SocketAddr::from(([10, 1, 0, 7], client.port() ^ 0x2000))
}

/// Numbers of connections of their own.
const OTHERS: [u32; 2] = [0x1234_5678, 0x9abc_def0];

fn by_time(copies: &[&[Segment]]) -> Vec<Segment> {
    let mut all = copies.concat();
    all.sort_by_key(|segment| segment.at);
    all
}

fn place_of(place: &Place, name: &str, segments: &[Segment]) -> std::path::PathBuf {
    place.write(name, &capture(segments).plain())
}

/// What is expected of the traffic of one recording, captured once.
fn once(outer: &[Segment]) -> Value {
    let place = Place::new();
    let file = place_of(&place, "once.pcap", outer);
    seen(place.sniff(&[&file], &[]).report())
}

fn same(what: &str, expected: &Value, sniffed: &Sniffed) {
    let lines = differences(expected, &seen(sniffed.report()));
    assert!(
        lines.is_empty(),
        "{what}\n{}\n{}",
        lines.join("\n"),
        sniffed.told()
    );
}

const COUNTED_ONCE: &str = "a second time, as connections to 172.17.0.2:9042";

#[test]
fn a_translated_connection_counts_once_by_its_outer_addresses() {
    for name in NAMES {
        let outer = segments(&recording(name).capture());
        let expected = once(&outer);
        for client in [the_same as Client, masqueraded] {
            let inner = behind(&outer, client, "172.17.0.2:9042", [0; 2]);
            let all = by_time(&[&outer, &inner]);
            let place = Place::new();
            // What `tcpdump -i any` writes.
            let file = place.write("any.pcap", &capture_over(Link::Cooked2, &all).plain());
            let sniffed = place.sniff(&[&file], &[]);
            same(name, &expected, &sniffed);
            assert!(sniffed.told().contains(COUNTED_ONCE), "{}", sniffed.told());
        }
    }
}

#[test]
fn both_sides_of_a_relay_count_once() {
    for name in NAMES {
        let outer = segments(&recording(name).capture());
        let inner = behind(&outer, masqueraded, "172.17.0.2:9042", OTHERS);
        let place = Place::new();
        let file = place_of(&place, "relay.pcap", &by_time(&[&outer, &inner]));
        let sniffed = place.sniff(&[&file], &[]);
        same(name, &once(&outer), &sniffed);
        assert!(sniffed.told().contains(COUNTED_ONCE), "{}", sniffed.told());
    }
}

#[test]
fn both_sides_in_two_files_or_on_two_interfaces_count_once() {
    let outer = segments(&recording(NAMES[0]).capture());
    let expected = once(&outer);
    for numbers in [[0; 2], OTHERS] {
        let inner = behind(&outer, masqueraded, "172.17.0.2:9042", numbers);
        let place = Place::new();
        let files = [
            place_of(&place, "a.pcap", &outer),
            place_of(&place, "b.pcap", &inner),
        ];
        for files in [[&files[0], &files[1]], [&files[1], &files[0]]] {
            let sniffed = place.sniff(&files.map(AsRef::as_ref), &[]);
            same("two files", &expected, &sniffed);
        }
        let bytes = Capture::of_interfaces(&[capture(&outer), capture_over(Link::RawIp, &inner)]);
        let sniffed = place.sniff(&[&place.write("both.pcapng", &bytes)], &[]);
        same("two interfaces", &expected, &sniffed);
    }
}

/// Files of two machines whose clocks do not agree: what is known by numbers alone does not depend on the time.
#[test]
fn a_translation_between_clocks_that_differ_counts_once() {
    let outer = segments(&recording(NAMES[0]).capture());
    for early in [false, true] {
        let mut inner = behind(&outer, the_same, "172.17.0.2:9042", [0; 2]);
        for segment in &mut inner {
            segment.at = if early {
                segment.at - 15_000_000
            } else {
                segment.at + 15_000_000
            };
        }
        let place = Place::new();
        let files = [
            place_of(&place, "a.pcap", &outer),
            place_of(&place, "b.pcap", &inner),
        ];
        let sniffed = place.sniff(&[&files[0], &files[1]], &[]);
        let count = |report: &Value| {
            ["requests", "audited", "unanswered"].map(|key| number(&report["coverage"][key]))
        };
        assert_eq!(
            count(sniffed.report()),
            count(&once(&outer)),
            "{}",
            sniffed.told()
        );
    }
}

/// Of either copy, packets are missing: together they have all.
#[test]
fn what_one_copy_lacks_the_other_one_has() {
    let outer = segments(&recording(NAMES[0]).capture());
    let inner = behind(&outer, masqueraded, "172.17.0.2:9042", [0; 2]);
    let part = |segments: &[Segment], nth: usize| -> Vec<Segment> {
        let all = segments.iter().enumerate();
        let kept = all.filter(|(at, segment)| at % 5 != nth || segment.payload.is_empty());
        kept.map(|(_, segment)| segment.clone()).collect()
    };
    let place = Place::new();
    let file = place_of(
        &place,
        "parts.pcap",
        &by_time(&[&part(&outer, 0), &part(&inner, 2)]),
    );
    same("in parts", &once(&outer), &place.sniff(&[&file], &[]));
    let mut cut = capture(&outer);
    for packet in &mut cut.packets {
        packet.bytes.truncate(96);
    }
    let files = [
        place.write("cut.pcap", &cut.write(PLAIN)),
        place_of(&place, "whole.pcap", &inner),
    ];
    let sniffed = place.sniff(&[&files[0], &files[1]], &[]);
    same("cut off and whole", &once(&outer), &sniffed);
}

/// In the middle of connections: as many requests as one side has from there on.
#[test]
fn captures_that_begin_in_the_middle_count_once() {
    let outer = segments(&recording("python-v4-none").capture());
    let half = outer.len() / 2;
    let place = Place::new();
    let requests = |file: &std::path::Path| {
        let sniffed = place.sniff(&[file], &[]);
        (number(&sniffed.report()["coverage"]["requests"]), sniffed.told())
    };
    let alone = requests(&place_of(&place, "half.pcap", &outer[half..])).0;
    assert!(alone > 20);
    for numbers in [[0; 2], OTHERS] {
        let inner = behind(&outer, masqueraded, "172.17.0.2:9042", numbers);
        let both = by_time(&[&outer[half..], &inner[half..]]);
        let (requests, told) = requests(&place_of(&place, "both.pcap", &both));
        assert_eq!(requests, alone, "{numbers:?} {told}");
    }
}

#[test]
fn two_clients_of_one_program_that_start_together_are_two() {
    let one = segments(&recording(NAMES[0]).capture());
    let alone = number(&recording(NAMES[0]).report()["coverage"]["requests"]);
    let beside = |client: SocketAddr| SocketAddr::new(client.ip(), client.port() + 1_000);
    for (client, server) in [
        (beside as Client, "127.0.0.1:9042"),
        (masqueraded, "127.0.0.1:9042"),
        (beside, "127.0.0.2:9042"),
    ] {
        let mut two = behind(&one, client, server, OTHERS);
        // Its responses come as much later as its requests.
        for segment in &mut two {
            segment.at += if segment.to.port() == 9042 { 0 } else { 2 * LATER };
        }
        let place = Place::new();
        let file = place_of(&place, "two.pcap", &by_time(&[&one, &two]));
        let sniffed = place.sniff(&[&file], &[]);
        assert_eq!(
            number(&sniffed.report()["coverage"]["requests"]),
            2 * alone,
            "{server}"
        );
        assert!(!sniffed.told().contains("second time"), "{}", sniffed.told());
    }
}

/// A handshake says too little: both pairs are named before any number.
#[test]
fn what_may_be_a_relay_is_named() {
    let outer = segments(&recording("python-v4-none").capture());
    let first = outer.iter().find(|segment| segment.to.port() == 9042).unwrap();
    let (client, server) = (first.from, first.to);
    let of_one: Vec<_> = outer
        .into_iter()
        .filter(|segment| [segment.from, segment.to].contains(&client))
        .collect();
    // Five requests, each with its response.
    let mut requests = 0;
    let part = of_one.iter().take_while(|segment| {
        requests += usize::from(segment.to.port() == 9042 && !segment.payload.is_empty());
        requests <= 5
    });
    let part: Vec<_> = part.cloned().collect();
    let inner = behind(&part, masqueraded, "172.17.0.2:9042", OTHERS);
    let place = Place::new();
    let file = place_of(&place, "short.pcap", &by_time(&[&part, &inner]));
    let sniffed = place.sniff(&[&file], &[]);
    let told = sniffed.told();
    let pair = format!(
        "{client} to {server} and {} to 172.17.0.2:9042",
        masqueraded(client)
    );
    assert!(
        told.contains("may be the same traffic") && told.contains(&pair),
        "{told}"
    );
}
