//! Which snap length still gives exact counts of partitions: what `docs/capturing.md` says.

use std::path::Path;

use cqlens_testing::first_or_all;
use serde_json::{Value, json};

use crate::sniff::{
    packets::{Capture, Packet},
    report::number,
    sniff::{Place, recording},
    tcp::segments,
};

/// The whole packet.
const WHOLE: usize = usize::MAX;

/// The capture with so many bytes of each packet, by direction.
fn cut(capture: &Capture, request: usize, response: usize) -> Capture {
    let directions = segments(capture);
    let packets = capture.packets.iter().zip(&directions).map(|(packet, segment)| {
        let length = if segment.to.port() == 9042 {
            request
        } else {
            response
        };
        Packet {
            bytes: packet.bytes[..length.min(packet.bytes.len())].to_vec(),
            ..packet.clone()
        }
    });
    Capture {
        packets: packets.collect(),
        ..capture.clone()
    }
}

/// Executions and partitions of every pattern, and what is known of the partitions.
fn partitions(report: &Value) -> Value {
    let patterns = report["patterns"].as_array().unwrap().iter().map(|pattern| {
        let partitions = &pattern["partitions"];
        json!([
            pattern["cql"],
            pattern["count"],
            partitions["class"],
            partitions["min"],
            partitions["max"],
            partitions["total"]
        ])
    });
    let mut patterns: Vec<Value> = patterns.collect();
    patterns.sort_by_key(ToString::to_string);
    let coverage = ["exact", "bounded", "scan", "unknown"]
        .map(|known| number(&report["coverage"][format!("partitions_{known}")]));
    json!([coverage, patterns])
}

fn sniffed(place: &Place, capture: &Capture) -> Value {
    let file = place.write("cut.pcap", &capture.plain());
    let sniffed = place.sniff(&[Path::new(&file)], &[]);
    assert!(!sniffed.said().contains("panicked"), "{}", sniffed.said());
    sniffed.report().clone()
}

/// Not a test: what each snap length still knows. `cargo test --test hermetic -- --ignored --nocapture
/// which_snap`
#[test]
#[ignore = "it prints a table"]
fn which_snap_lengths_are_enough() {
    let place = Place::new();
    for name in [
        "python-v4-none",
        "gocql-v4-none",
        "java-v4-none",
        "java-v5-none",
        "python-v4-lz4",
        "java-v5-lz4",
        "python-v3-none",
    ] {
        let capture = recording(name).capture();
        let whole = sniffed(&place, &capture);
        let of = |request, response| {
            let report = sniffed(&place, &cut(&capture, request, response));
            let counted = if partitions(&report) == partitions(&whole) {
                "same"
            } else {
                "differs"
            };
            let coverage = &report["coverage"];
            format!(
                "{counted} {} exact of {}, {} audited",
                coverage["partitions_exact"], whole["coverage"]["partitions_exact"], coverage["audited"]
            )
        };
        for length in [96, 128, 160, 192, 256, 384, 512, 1024, 2048, 4096] {
            println!(
                "{name} {length}: both {} | responses only {}",
                of(length, length),
                of(WHOLE, length)
            );
        }
    }
}

/// Of the recorded sessions: their longest statement and the longest answer to a PREPARE fit.
#[test]
fn a_snap_length_of_1024_gives_exact_counts_of_partitions() {
    let place = Place::new();
    for name in [
        "python-v3-none",
        "gocql-v4-none",
        "java-v5-none",
        "python-v4-lz4",
        "java-v5-lz4",
    ] {
        let capture = recording(name).capture();
        let whole = partitions(&sniffed(&place, &capture));
        for (request, response) in [(1024, 1024), (WHOLE, 1024)] {
            let cut = sniffed(&place, &cut(&capture, request, response));
            assert_eq!(partitions(&cut), whole, "{name}, {request} and {response} bytes");
        }
    }
}

/// Whole requests are all audited, whatever is left of the responses: what is not exact then says so.
#[test]
fn whole_requests_are_all_audited_with_responses_of_96_bytes() {
    let place = Place::new();
    for name in ["python-v3-none", "gocql-v4-none", "java-v5-none", "java-v5-lz4"] {
        let capture = recording(name).capture();
        let whole = sniffed(&place, &capture);
        let cut = sniffed(&place, &cut(&capture, WHOLE, 96));
        let coverage = &cut["coverage"];
        assert_eq!(coverage["audited"], whole["coverage"]["audited"], "{name}");
        assert!(
            number(&coverage["partitions_exact"]) < number(&whole["coverage"]["partitions_exact"]),
            "{name}"
        );
        assert!(
            number(&coverage["capture"]["cut_bytes"]) > 5_000,
            "{name}: {coverage}"
        );
    }
}

/// Of an error that is cut the code is there, or at least that it was one: what the server has refused is not
/// counted as if it had run.
#[test]
fn a_cut_error_is_still_an_error() {
    let place = Place::new();
    let of = |report: &Value, key: &str| number(&report["coverage"][key]);
    let (mut refused, mut unseen) = (0, 0);
    let all = [
        "python-v3-none",
        "gocql-v4-none",
        "java-v5-none",
        "python-v4-none",
        "python-v5-none",
        "gocql-v3-none",
        "gocql-v5-none",
        "java-v3-none",
        "java-v4-none",
    ];
    for name in first_or_all("cut errors of two thirds of the drivers' captures", 3, &all) {
        let capture = recording(name).capture();
        let whole = sniffed(&place, &capture);
        // Headers of Ethernet, IP and TCP with its times have 66 bytes; an envelope's has 9 (and a segment's
        // 6 before it), and the code follows. From here on the shortest results are whole, by which a place
        // that was lost is found again.
        let shortest = 66 + 6 + 9 + 4 + 4;
        for length in [66 + 9, 66 + 9 + 3, 66 + 9 + 4, shortest, 128, 192, 256, 512] {
            for (request, response) in [(length, length), (WHOLE, length)] {
                let cut = sniffed(&place, &cut(&capture, request, response));
                assert!(
                    of(&cut, "partitions_exact") <= of(&whole, "partitions_exact"),
                    "{name}, {request} and {response} bytes: {} exact, and there were {}",
                    of(&cut, "partitions_exact"),
                    of(&whole, "partitions_exact")
                );
                // Less where it takes the answer to a PREPARE to know that nothing was touched, or where
                // warnings precede the code.
                assert!(
                    of(&cut, "refused") <= of(&whole, "refused"),
                    "{name}, {length} bytes"
                );
                if length >= shortest && request == WHOLE {
                    assert!(of(&cut, "refused") > 0, "{name}, {length} bytes of responses");
                }
                if length >= 192 && request == WHOLE && name.contains("v3") {
                    assert_eq!(
                        of(&cut, "refused"),
                        of(&whole, "refused"),
                        "{name}, {length} bytes"
                    );
                }
                refused += of(&cut, "refused");
                unseen += number(&cut["coverage"]["unknown_reasons"]["error-unseen"]);
            }
        }
    }
    assert!(
        refused > 0 && unseen > 0,
        "{refused} refused, {unseen} errors without a code"
    );
}
