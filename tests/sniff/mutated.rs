//! Captures as they really are: with packets missing, doubled, late and cut. Nothing is invented, and what is
//! lost is counted.
//!
//! Fifty changes at every landing, 250 in ring 3; `CQLENS_SNIFF_MUTATIONS=100000` makes more. The same number
//! is the same change.

use cqlens_testing::everything;
use serde_json::Value;

use crate::sniff::{
    mutator::{self, Chance, HARMLESS},
    packets::Packet,
    report::{differences, invented, number, seen},
    same_report::complaints,
    sniff::{Place, Recorded, Sniffed, recorded},
    tcp::{Segment, capture, segments},
};

/// Those that are small and on Ethernet, with what the whole capture says.
fn originals() -> Vec<(Recorded, Vec<Segment>, Value)> {
    let small = recorded()
        .into_iter()
        .filter(|recorded| !recorded.name.contains("more"));
    small
        .map(|recorded| {
            let sniffed = Place::new().sniff(&[&recorded.file], &[]);
            (segments(&recorded.capture()), sniffed.report().clone(), recorded)
        })
        .map(|(segments, report, recorded)| (recorded, segments, report))
        .collect()
}

#[test]
fn what_loses_no_byte_changes_no_report() {
    let place = Place::new();
    let mut all = Vec::new();
    for (number, (recorded, segments, original)) in (0..).zip(originals()) {
        for (name, change) in mutator::tried(number, HARMLESS) {
            let changed = change(&segments, &mut Chance::new(number));
            let file = place.write("changed.pcap", &capture(&changed).plain());
            let sniffed = place.sniff(&[&file], &[]);
            let of = format!("{}, {name}", recorded.name);
            if sniffed.code() == Some(0) {
                all.extend(complaints(&of, &original, sniffed.report()));
            } else {
                all.push(format!("{of}: {:?} {}", sniffed.code(), sniffed.said()));
            }
        }
    }
    assert!(all.is_empty(), "{} complaints\n{}", all.len(), all.join("\n"));
}

#[test]
fn ports_that_are_used_again_are_other_connections() {
    let place = Place::new();
    for (recorded, segments, original) in originals().into_iter().step_by(5) {
        let twice = mutator::again_from_the_same_ports(&segments);
        let file = place.write("twice.pcap", &capture(&twice).plain());
        let sniffed = place.sniff(&[&file], &[]);
        let (once, both) = (&original["coverage"], &sniffed.report()["coverage"]);
        for key in ["requests", "audited"] {
            assert_eq!(
                number(&both[key]),
                2 * number(&once[key]),
                "{}: {key}",
                recorded.name
            );
        }
    }
}

/// How many changes a run makes.
fn rounds() -> u64 {
    let by_default = if everything() { 250 } else { 50 };
    std::env::var("CQLENS_SNIFF_MUTATIONS").map_or(by_default, |rounds| rounds.parse().unwrap())
}

#[test]
fn no_change_makes_it_panic_or_invent_a_request_and_losses_are_counted() {
    let originals = originals();
    let place = Place::new();
    let mut all = Vec::new();
    for round in 0..rounds() {
        let mut chance = Chance::new(round);
        let (recorded, segments, original) = &originals[chance.below(originals.len())];
        let (mut name, changed) = mutator::change(segments, &mut chance);
        let mut packets = capture(&changed);
        if chance.is_one_in(4) {
            let length = 60 + chance.below(400);
            packets.packets.iter_mut().for_each(|packet| cut(packet, length));
            name += &format!("; cut to {length}");
        }
        let file = place.write("changed.pcap", &packets.plain());
        let sniffed = place.sniff(&[&file], &[]);
        let of = format!("round {round}, {}: {name}", recorded.name);
        all.extend(
            faults(original, &sniffed)
                .iter()
                .map(|line| format!("{of}: {line}")),
        );
    }
    assert!(all.is_empty(), "{} complaints\n{}", all.len(), all.join("\n"));
}

/// Leaves `length` bytes of a packet.
pub(crate) fn cut(packet: &mut Packet, length: usize) {
    packet.bytes.truncate(length);
}

/// What is wrong with a report of a part of the original.
fn faults(original: &Value, sniffed: &Sniffed) -> Vec<String> {
    let said = sniffed.said();
    if said.contains("panicked") || said.contains("internal error") || !matches!(sniffed.code(), Some(0 | 2))
    {
        return vec![format!("{:?} {said}", sniffed.code())];
    }
    let Some(report) = &sniffed.report else {
        return Vec::new();
    };
    let mut faults = invented(original, report);
    let coverage = &report["coverage"];
    let [requests, audited, dropped, undecoded] =
        ["requests", "audited", "dropped", "undecoded"].map(|key| number(&coverage[key]));
    if requests != audited + dropped + undecoded {
        faults.push(format!(
            "{requests} requests are not {audited} + {dropped} + {undecoded}"
        ));
    }
    faults
}

/// The same seed is the same capture, or a failure could not be looked at again.
#[test]
fn a_seed_makes_the_same_change_again() {
    let segments = segments(&recorded()[0].capture());
    for seed in 0..50 {
        let change = || mutator::change(&segments, &mut Chance::new(seed));
        assert_eq!(change(), change());
    }
    let (_, one) = mutator::change(&segments, &mut Chance::new(1));
    assert_ne!(one, segments);
    assert!(differences(&seen(&recorded()[0].report()), &seen(&recorded()[0].report())).is_empty());
}
