//! One session in every form in which packets are kept and handed on: the report is always the same.

use serde_json::Value;

use crate::sniff::{
    packets::{Capture, Layout},
    report::{differences, number, seen},
    sniff::{Place, Sniffed, captures, recording, unpacked},
    tcp::{Link, capture_over, fragmented, segments},
};

/// What is expected of all forms of this session.
const NAME: &str = "gocql-v4-none";

pub(crate) fn expected() -> (Value, Capture) {
    let recorded = recording(NAME);
    let capture = recorded.capture();
    let sniffed = Place::new().sniff(&[&recorded.file], &[]);
    (seen(sniffed.report()), capture)
}

pub(crate) fn complaints(form: &str, expected: &Value, sniffed: &Sniffed) -> Vec<String> {
    if sniffed.code() != Some(0) {
        return vec![format!("{form}: {:?} {}", sniffed.code(), sniffed.said())];
    }
    let lines = differences(expected, &seen(sniffed.report()));
    lines.iter().map(|line| format!("{form}{line}")).collect()
}

#[test]
fn captures_that_other_programs_made_of_the_same_session_have_the_same_report() {
    let (expected, _) = expected();
    let mut all = Vec::new();
    for form in [
        "nanoseconds.pcap.gz",
        "any.pcap.gz",
        "any-1.pcap.gz",
        "dumpcap.pcapng",
        "dumpcap-any.pcapng",
    ] {
        let file = captures().join(format!("{NAME}-{form}"));
        all.extend(complaints(form, &expected, &Place::new().sniff(&[&file], &[])));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn every_layout_of_a_file_has_the_same_report() {
    let (expected, capture) = expected();
    let place = Place::new();
    let mut all = Vec::new();
    for big_endian in [false, true] {
        for nanoseconds in [false, true] {
            for layout in [
                Layout::Pcap {
                    big_endian,
                    nanoseconds,
                },
                Layout::Pcapng {
                    big_endian,
                    nanoseconds,
                },
                Layout::PcapngObsolete {
                    big_endian,
                    nanoseconds,
                },
            ] {
                let bytes = capture.write(layout);
                let file = place.write("capture", &bytes);
                let form = format!("{layout:?}");
                all.extend(complaints(&form, &expected, &place.sniff(&[&file], &[])));
                all.extend(complaints(
                    &(form + " as a stream"),
                    &expected,
                    &place.sniff_stream(&bytes, &[]),
                ));
            }
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// What a report says without the times of packets: all but how long answers took, and what is found out by
/// that.
fn untimed(report: &Value) -> Value {
    let mut seen = seen(report);
    let Some(parts) = seen.as_object_mut() else {
        panic!("no report: {report}")
    };
    parts.retain(|key, _| ["coverage", "patterns", "tables"].contains(&key.as_str()));
    for pattern in parts["patterns"].as_array_mut().unwrap() {
        let pattern = pattern.as_object_mut().unwrap();
        pattern.retain(|key, _| !["latency_us", "repeats"].contains(&key.as_str()));
    }
    seen
}

fn latencies(report: &Value) -> u64 {
    let patterns = report["patterns"].as_array().unwrap().iter();
    patterns
        .map(|pattern| number(&pattern["latency_us"]["count"]))
        .sum()
}

const NO_TIME: &str = "have no timestamps (simple packet blocks of pcapng)";

#[test]
fn packets_without_a_time_count_and_tell_no_latency() {
    let capture = recording(NAME).capture();
    let place = Place::new();
    let file = place.write("timed.pcap", &capture.plain());
    let timed = place.sniff(&[&file], &[]);
    assert!(latencies(timed.report()) > 0 && !timed.told().contains(NO_TIME));
    for big_endian in [false, true] {
        let file = place.write(
            "untimed.pcapng",
            &capture.write(Layout::PcapngSimple { big_endian }),
        );
        let before = jiff::Timestamp::now();
        let sniffed = place.sniff(&[&file], &[]);
        let report = sniffed.report();
        let lines = differences(&untimed(timed.report()), &untimed(report));
        assert!(lines.is_empty(), "{}", lines.join("\n"));
        assert_eq!(latencies(report), 0);
        assert!(sniffed.told().contains(NO_TIME), "{}", sniffed.told());
        for end in ["start", "end"] {
            let time: jiff::Timestamp = report["window"][end].as_str().unwrap().parse().unwrap();
            assert!(time >= before, "the {end} of the window is {time}");
        }
    }
}

/// Packets that have none are told at the time of those before them: a window begins with the first one that
/// is known.
#[test]
fn a_window_begins_with_the_first_time_that_is_known() {
    let capture = recording(NAME).capture();
    let place = Place::new();
    let half = capture.packets.len() / 2;
    let part = |packets: &[_], layout| {
        let part = Capture {
            packets: packets.to_vec(),
            ..capture.clone()
        };
        part.write(layout)
    };
    let untimed = part(
        &capture.packets[..half],
        Layout::PcapngSimple { big_endian: false },
    );
    let timed = part(&capture.packets[half..], crate::sniff::packets::PLAIN);
    let files = [place.write("0.pcapng", &untimed), place.write("1.pcap", &timed)];
    let files: Vec<_> = files.iter().map(AsRef::as_ref).collect();
    let sniffed = place.sniff(&files, &[]);
    let whole = place.sniff(&[&place.write("whole.pcap", &capture.plain())], &[]);
    let of = |report: &Value| ["requests", "audited"].map(|key| number(&report["coverage"][key]));
    assert_eq!(of(sniffed.report()), of(whole.report()));
    let start: jiff::Timestamp = sniffed.report()["window"]["start"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let first = capture.packets[half].at / 1_000 * 1_000;
    assert_eq!(start.as_nanosecond(), i128::from(first));
    assert_eq!(
        latencies(sniffed.report()),
        0,
        "of connections that had packets without a time"
    );
    assert!(sniffed.told().contains(NO_TIME), "{}", sniffed.told());
}

#[test]
fn every_link_layer_has_the_same_report() {
    let (expected, capture) = expected();
    let segments = segments(&capture);
    let place = Place::new();
    let mut all = Vec::new();
    for link in Link::ALL {
        let file = place.write("capture.pcap", &capture_over(link, &segments).plain());
        all.extend(complaints(
            &format!("{link:?}"),
            &expected,
            &place.sniff(&[&file], &[]),
        ));
    }
    for size in [512, 1024] {
        let file = place.write("capture.pcap", &fragmented(&segments, size).plain());
        all.extend(complaints(
            &format!("fragments of {size}"),
            &expected,
            &place.sniff(&[&file], &[]),
        ));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn every_link_layer_has_the_same_report_over_ipv6() {
    let recorded = recording("python-v4-none-ipv6");
    let place = Place::new();
    let expected = seen(place.sniff(&[&recorded.file], &[]).report());
    let segments = segments(&recorded.capture());
    let mut all = Vec::new();
    for link in Link::ALL {
        let file = place.write("capture.pcap", &capture_over(link, &segments).plain());
        all.extend(complaints(
            &format!("{link:?}"),
            &expected,
            &Place::new().sniff(&[&file], &[]),
        ));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn fragments_over_ipv6_have_the_same_report() {
    let recorded = recording("python-v4-none-ipv6");
    let place = Place::new();
    let expected = seen(place.sniff(&[&recorded.file], &[]).report());
    let segments = segments(&recorded.capture());
    let mut all = Vec::new();
    for size in [1_280, 104] {
        let file = place.write("capture.pcap", &fragmented(&segments, size).plain());
        let sniffed = Place::new().sniff(&[&file], &[]);
        all.extend(complaints(&format!("fragments of {size}"), &expected, &sniffed));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// A fragment that does not come costs its packet, which is counted.
#[test]
fn fragments_that_are_missing_are_told() {
    for name in ["python-v4-none", "python-v4-none-ipv6"] {
        let place = Place::new();
        let segments = segments(&recording(name).capture());
        let mut capture = fragmented(&segments, 104);
        let first = capture
            .packets
            .iter()
            .position(|packet| packet.length > 14 + 100)
            .unwrap();
        capture.packets.remove(first);
        let file = place.write("capture.pcap", &capture.plain());
        let sniffed = place.sniff(&[&file], &[]);
        let lost = sniffed.report()["coverage"]["capture"]["lost_bytes"].as_u64();
        assert!(lost > Some(0), "{name}: {}", sniffed.told());
        let notices = sniffed.report()["coverage"]["notices"].to_string();
        assert!(
            notices.contains("fragments whose other parts are missing"),
            "{name}: {notices}"
        );
    }
}

#[test]
fn files_are_packed_or_not() {
    let (expected, capture) = expected();
    let place = Place::new();
    let bytes = capture.plain();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &bytes).unwrap();
    let gzip = packed.finish().unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(&bytes[..], ruzstd::encoding::CompressionLevel::Fastest);
    let mut all = Vec::new();
    for (form, content) in [("gzip", &gzip), ("zstd", &zstd)] {
        // Whatever they are called.
        let file = place.write("capture.pcap", content);
        all.extend(complaints(form, &expected, &place.sniff(&[&file], &[])));
        all.extend(complaints(form, &expected, &place.sniff_stream(content, &[])));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// As a ring buffer leaves them, told in any order; and as two programs leave them that look at one direction
/// each.
#[test]
fn several_files_are_read_in_the_order_of_time() {
    let (expected, capture) = expected();
    let place = Place::new();
    let write = |name: &str, packets: &[_]| {
        let part = Capture {
            packets: packets.to_vec(),
            ..capture.clone()
        };
        place.write(name, &part.plain())
    };
    let third = capture.packets.len() / 3;
    let parts = [
        write("2.pcap", &capture.packets[2 * third..]),
        write("0.pcap", &capture.packets[..third]),
        write("1.pcap", &capture.packets[third..2 * third]),
    ];
    let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
    let mut all = complaints("a ring", &expected, &place.sniff(&parts, &[]));
    let directions: Vec<Vec<_>> = [true, false]
        .map(|to_server| {
            let all = capture.packets.iter().zip(segments(&capture));
            all.filter(|(_, segment)| (segment.to.port() == 9042) == to_server)
                .map(|(packet, _)| packet.clone())
                .collect()
        })
        .to_vec();
    // Twice the same instant is no order: these clocks are fine enough here.
    let files = [
        write("in.pcap", &directions[0]),
        write("out.pcap", &directions[1]),
    ];
    let files: Vec<_> = files.iter().map(AsRef::as_ref).collect();
    all.extend(complaints(
        "a file for each direction",
        &expected,
        &place.sniff(&files, &[]),
    ));
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert_eq!(
        unpacked(&recording(NAME).file),
        capture.plain(),
        "what is written is what was read"
    );
}
