//! Captures as people hand them on: while tcpdump is still writing, behind each other in a pipe, exported by Wireshark.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use crate::sniff::{
    forms::{complaints, expected},
    packets::{Capture, Layout, PLAIN, Packet},
    report::number,
    sniff::{Place, recording},
    tcp::{Link, Segment, capture_over, segments},
};

#[test]
fn an_empty_file_of_a_ring_is_passed_over() {
    let (expected, capture) = expected();
    let place = Place::new();
    let (good, empty) = (place.write("ring1", &capture.plain()), place.write("ring2", b""));
    let others: Vec<_> = (0..10)
        .map(|number| place.write(&format!("other{number}"), b""))
        .collect();
    let mut many = vec![&*good, &empty];
    many.extend(others.iter().map(|path| &**path));
    for files in [vec![&*empty, &good], vec![&*good, &empty], many] {
        let sniffed = place.sniff(&files, &[]);
        let complaints = complaints("with an empty file", &expected, &sniffed);
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
        let told = sniffed.told();
        assert!(
            told.contains("ring2: it is empty: no packet of it is in this report."),
            "{told}"
        );
    }
    let sniffed = place.sniff(&[&empty, &empty], &[]);
    assert_eq!(sniffed.code(), Some(2), "{}", sniffed.said());
}

/// The packets of a capture, in so many captures.
fn parts(capture: &Capture, number: usize) -> Vec<Capture> {
    let length = capture.packets.len().div_ceil(number);
    let parts = capture.packets.chunks(length).map(|packets| Capture {
        link: capture.link,
        packets: packets.to_vec(),
    });
    parts.collect()
}

#[test]
fn captures_behind_each_other_in_a_pipe_are_read_as_one() {
    let (expected, capture) = expected();
    let [first, second, third, fourth] = parts(&capture, 4).try_into().ok().unwrap();
    let other_link = capture_over(Link::RawIp, &segments(&second));
    let bytes = [
        first.plain(),
        other_link.write(Layout::Pcap {
            big_endian: true,
            nanoseconds: true,
        }),
        third.write(Layout::Pcapng {
            big_endian: true,
            nanoseconds: false,
        }),
        fourth.plain(),
    ];
    let place = Place::new();
    let sniffed = place.sniff_stream(&bytes.concat(), &[]);
    let complaints = complaints("as a stream", &expected, &sniffed);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(!sniffed.told().contains("order of time"), "{}", sniffed.told());
    // As of a ring that has come round.
    let again = [fourth.plain(), first.plain(), second.plain(), third.plain()];
    let told = place.sniff_stream(&again.concat(), &[]).told();
    assert!(told.contains("not in the order of time"), "{told}");
}

fn tag(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap();
    let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
    [&kind.to_be_bytes()[..], &length.to_be_bytes(), value, &padding].concat()
}

/// What Wireshark exports of a segment: "OSI layer 7", with what TCP says where it is not from within TLS.
fn exported(segment: &Segment, is_from_tls: bool) -> Packet {
    let address = |address: SocketAddr, kind: u16| match address.ip() {
        IpAddr::V4(address) => tag(kind, &address.octets()),
        IpAddr::V6(address) => tag(kind + 2, &address.octets()),
    };
    let port = |address: SocketAddr, kind| tag(kind, &u32::from(address.port()).to_be_bytes());
    let of_tcp = [
        &[0, 1][..],
        &segment.sequence.to_be_bytes(),
        &segment.end().to_be_bytes(),
        &segment.acknowledgement.to_be_bytes(),
        &[0; 5],
    ];
    let bytes = [
        tag(12, b"cql"),
        address(segment.from, 20),
        address(segment.to, 21),
        tag(24, &2_u32.to_be_bytes()),
        port(segment.from, 25),
        port(segment.to, 26),
        tag(30, &7_u32.to_be_bytes()),
        match is_from_tls {
            true => Vec::new(),
            false => tag(34, &of_tcp.concat()),
        },
        tag(0, b""),
        segment.payload.clone(),
    ]
    .concat();
    Packet {
        at: segment.at,
        length: bytes.len(),
        bytes,
    }
}

/// What a report says of statements: text, executions, partitions, rows.
fn statements(report: &Value) -> Vec<String> {
    let patterns = report["patterns"].as_array().unwrap().iter();
    let lines = patterns.map(|pattern| {
        format!(
            "{} {}: {} of {} partitions, {}",
            pattern["keyspace"],
            pattern["cql"],
            pattern["count"],
            pattern["partitions"]["total"],
            pattern["rows"]["total"]
        )
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    lines
}

#[test]
fn pdus_that_wireshark_has_exported_have_the_same_statements() {
    for name in ["gocql-v4-none", "java-v4-lz4", "python-v4-none"] {
        let capture = recording(name).capture();
        let place = Place::new();
        let whole = place.sniff(&[&place.write("whole.pcap", &capture.plain())], &[]);
        let whole = whole.report();
        for is_from_tls in [false, true] {
            let carrying = segments(&capture);
            let carrying = carrying.iter().filter(|segment| !segment.payload.is_empty());
            let exported = Capture {
                link: 252,
                packets: carrying.map(|segment| exported(segment, is_from_tls)).collect(),
            };
            let sniffed = place.sniff(&[&place.write("exported.pcap", &exported.write(PLAIN))], &[]);
            let report = sniffed.report();
            assert_eq!(
                statements(report),
                statements(whole),
                "{name}, TLS {is_from_tls}: {}",
                sniffed.told()
            );
            assert_eq!(
                number(&report["coverage"]["requests"]),
                number(&whole["coverage"]["requests"]),
                "{name}, TLS {is_from_tls}"
            );
        }
    }
}
