//! What is audited and what is counted as lost are together what there was: in bytes of every direction, and
//! in requests as far as anything shows them.
//!
//! A request that is wholly in a hole together with its answer shows by nothing but its bytes: those are
//! counted.

use cqlens_testing::everything;
use serde_json::Value;

use crate::sniff::{
    mutator::{self, Chance, carries_data, is_request, without},
    oracle,
    report::number,
    sniff::{Place, Recorded, recorded},
    tcp::{FIN, RST, SYN, Segment, capture, segments},
};

/// What a report says of the capture.
struct Counted {
    seen: u64,
    lost: u64,
    cut: u64,
    unplaced: u64,
    requests: u64,
    audited: u64,
    responses_lost: u64,
}

fn counted(report: &Value) -> Counted {
    let of = |key: &str| number(&report["coverage"][key]);
    let of_capture = |key: &str| number(&report["coverage"]["capture"][key]);
    Counted {
        seen: of_capture("seen_bytes"),
        lost: of_capture("lost_bytes"),
        cut: of_capture("cut_bytes"),
        unplaced: of_capture("unplaced_bytes"),
        requests: of("requests"),
        audited: of("audited"),
        responses_lost: of("responses_lost"),
    }
}

/// Those that are small.
fn small() -> Vec<(Recorded, Vec<Segment>, Counted)> {
    let small = recorded()
        .into_iter()
        .filter(|recorded| !recorded.name.contains("more"));
    small
        .map(|recorded| {
            let report = Place::new().sniff(&[&recorded.file], &[]);
            let segments = segments(&recorded.capture());
            (recorded, segments, counted(report.report()))
        })
        .collect()
}

/// Whether it carries nothing but bytes: what opens, acknowledges and closes connections tells how many were
/// sent.
fn is_only_data(segment: &Segment) -> bool {
    carries_data(segment) && segment.flags & (SYN | FIN | RST) == 0
}

type Loss = (&'static str, fn(&[Segment], &mut Chance) -> Vec<Segment>);

/// What is missing, of packets that carry bytes alone.
const LOST: &[Loss] = &[
    ("one in six", |segments, chance| {
        without(segments, |_, segment| {
            is_only_data(segment) && chance.is_one_in(6)
        })
    }),
    ("one response in four", |segments, chance| {
        without(segments, |_, segment| {
            is_only_data(segment) && !is_request(segment) && chance.is_one_in(4)
        })
    }),
    ("all responses", |segments, _| {
        without(segments, |_, segment| {
            is_only_data(segment) && !is_request(segment)
        })
    }),
    ("one request in four", |segments, chance| {
        without(segments, |_, segment| {
            is_only_data(segment) && is_request(segment) && chance.is_one_in(4)
        })
    }),
    ("all requests", |segments, _| {
        without(segments, |_, segment| {
            is_only_data(segment) && is_request(segment)
        })
    }),
    ("what came last", |segments, chance| {
        let from = segments.len() / 2 + chance.below(segments.len() / 2);
        without(segments, |index, segment| index >= from && is_only_data(segment))
    }),
];

/// What all changes together lose at least; a third of them are tried where not everything is.
fn least_lost(by_all: u64) -> u64 {
    if everything() { by_all } else { by_all * 3 / 10 }
}

#[test]
fn bytes_that_are_there_and_bytes_that_are_lost_are_all_bytes() {
    let place = Place::new();
    let (mut all, mut lost) = (Vec::new(), 0);
    for (seed, (recorded, segments, original)) in (0..).zip(small()) {
        assert_eq!((original.lost, original.cut), (0, 0), "{}", recorded.name);
        assert_eq!(original.seen, oracle::seen(&segments), "{}", recorded.name);
        for (what, lose) in mutator::tried(seed, LOST) {
            let changed = lose(&segments, &mut Chance::new(seed));
            let file = place.write("changed.pcap", &capture(&changed).plain());
            let found = counted(place.sniff(&[&file], &[]).report());
            if found.seen != oracle::seen(&changed) || found.seen + found.lost != original.seen {
                all.push(format!(
                    "{}, {what}: {} are there and {} are lost of {}",
                    recorded.name, found.seen, found.lost, original.seen
                ));
            }
            lost += found.lost;
        }
    }
    assert!(lost > least_lost(100_000), "{lost} bytes are missing in all");
    assert!(all.is_empty(), "{} complaints\n{}", all.len(), all.join("\n"));
}

/// Whatever is missing, what opens and closes connections included: by another way of counting.
#[test]
fn missing_bytes_are_counted_as_far_as_anything_shows_them() {
    let place = Place::new();
    let (mut all, mut lost) = (Vec::new(), 0);
    for (seed, (recorded, segments, _)) in (0..).zip(small()) {
        for (name, change) in mutator::tried(seed, mutator::LOSING) {
            let changed = change(&segments, &mut Chance::new(seed));
            let (least, most) = oracle::missing_of(&changed, &segments);
            let file = place.write("changed.pcap", &capture(&changed).plain());
            let sniffed = place.sniff(&[&file], &[]);
            let found = number(&sniffed.report()["coverage"]["capture"]["lost_bytes"]);
            if !(least..=most).contains(&found) {
                all.push(format!(
                    "{}, {name}: {found} bytes, and {least} to {most} are missing",
                    recorded.name
                ));
            }
            lost += least;
        }
    }
    assert!(lost > least_lost(10_000), "{lost} bytes are missing in all");
    assert!(all.is_empty(), "{} complaints\n{}", all.len(), all.join("\n"));
}

#[test]
fn lost_responses_cost_no_request() {
    let place = Place::new();
    let mut all = Vec::new();
    for (seed, (recorded, segments, original)) in (0..).zip(small()) {
        for (what, lose) in LOST.iter().filter(|(what, _)| what.contains("response")) {
            let changed = lose(&segments, &mut Chance::new(seed));
            let file = place.write("changed.pcap", &capture(&changed).plain());
            let found = counted(place.sniff(&[&file], &[]).report());
            if (found.requests, found.audited) != (original.requests, original.audited) {
                all.push(format!(
                    "{}, {what}: {} audited of {}, and there were {}, all audited",
                    recorded.name, found.audited, found.requests, original.requests
                ));
            }
        }
    }
    assert!(all.is_empty(), "{} complaints\n{}", all.len(), all.join("\n"));
}

/// Of versions 3 and 4, whose requests can be told apart by another way. A request of which every byte is
/// there is audited, but for those whose place is not found again; one of which something is missing is
/// counted if its header is there, or its answer.
#[test]
fn requests_that_are_counted_are_never_more_and_those_that_are_not_are_in_lost_bytes() {
    let place = Place::new();
    let mut all = Vec::new();
    let versions = |name: &str| name.contains("v3") || name.contains("v4");
    let originals = small()
        .into_iter()
        .filter(|(recorded, ..)| versions(&recorded.name));
    for (seed, (recorded, segments, original)) in (0..).zip(originals) {
        for (what, lose) in mutator::tried(seed, LOST) {
            let changed = lose(&segments, &mut Chance::new(seed));
            let file = place.write("changed.pcap", &capture(&changed).plain());
            let report = place.sniff(&[&file], &[]);
            let found = counted(report.report());
            let requests = oracle::requests(&changed, &segments);
            assert_eq!(requests.len() as u64, original.requests, "{}", recorded.name);
            let mut untouched = requests.iter().filter(|(_, is_touched)| !is_touched);
            let whole = untouched.clone().count() as u64;
            let shortest = untouched.by_ref().map(|(length, _)| *length).min().unwrap_or(9) as u64;
            let touched = requests.len() as u64 - whole;
            let unplaced = found.unplaced.div_ceil(shortest);
            let says = |claim: &str| {
                format!(
                    "{}, {what}: {claim}: {} audited of {}; {whole} of {} are whole, {} bytes unplaced, {} lost",
                    recorded.name,
                    found.audited,
                    found.requests,
                    requests.len(),
                    found.unplaced,
                    found.lost,
                )
            };
            if found.requests > original.requests || found.audited > whole {
                all.push(says("invented"));
            }
            if found.audited + unplaced < whole {
                all.push(says("whole ones are not audited"));
            }
            if found.requests + touched + unplaced < original.requests {
                all.push(says("whole ones are not counted"));
            }
            // Each answer shows one, but for those that are events, and for what it can be taken for.
            if *what == "all requests" && found.requests < requests.len() as u64 * 9 / 10 {
                all.push(says("answers show them"));
            }
            assert!(found.responses_lost <= original.requests + 64);
        }
    }
    assert!(all.is_empty(), "{} complaints\n{}", all.len(), all.join("\n"));
}

/// Headers and the first bytes of each packet are enough to count every request of versions 3 and 4 that
/// begins a packet.
#[test]
fn a_snap_length_loses_no_count_of_requests_that_begin_a_packet() {
    let place = Place::new();
    for (recorded, segments, original) in small() {
        let name = &recorded.name;
        let mut packets = capture(&segments);
        let headers = if name.contains("ipv6") { 74 } else { 54 };
        for packet in &mut packets.packets {
            packet.bytes.truncate(headers + 9);
        }
        let file = place.write("cut.pcap", &packets.plain());
        let found = counted(place.sniff(&[&file], &[]).report());
        assert_eq!(found.seen + found.cut + found.lost, original.seen, "{name}");
        assert!(found.requests <= original.requests, "{name}");
        let one_a_packet = segments
            .iter()
            .filter(|segment| carries_data(segment) && is_request(segment))
            .count() as u64
            == original.requests;
        if one_a_packet && name.contains("v4") {
            assert_eq!(found.requests, original.requests, "{name}");
        }
    }
}
