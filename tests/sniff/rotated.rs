//! Captures of different times as one: what nobody has looked at in between is no time that was observed.

use serde_json::Value;

use crate::sniff::{
    packets::Capture,
    report::number,
    sniff::{Place, recording},
};

const HOUR: u64 = 3_600_000_000_000;

/// The same packets so much later.
fn later(capture: &Capture, by: u64) -> Capture {
    let mut later = capture.clone();
    later.packets.iter_mut().for_each(|packet| packet.at += by);
    later
}

fn seconds(report: &Value) -> f64 {
    report["window"]["seconds"].as_f64().unwrap()
}

#[test]
fn hours_between_captures_are_not_in_the_rates() {
    let place = Place::new();
    let capture = recording("python-v4-none").capture();
    let span = seconds(
        Place::new()
            .sniff(&[&recording("python-v4-none").file], &[])
            .report(),
    );
    let files = [0, 5 * HOUR, 29 * HOUR].map(|by| {
        let name = format!("{by}.pcap");
        place.write(&name, &later(&capture, by).plain())
    });
    let paths: Vec<_> = files.iter().map(AsRef::as_ref).collect();
    let sniffed = place.sniff(&paths, &[]);
    let report = sniffed.report();
    assert!(
        (seconds(report) - 3.0 * span).abs() < 1.0,
        "{} of {span}",
        seconds(report)
    );
    let holes = sniffed.told().matches("nothing was captured").count();
    // Two in the report; each is said once on the terminal too.
    assert_eq!(holes, 4, "{}", sniffed.told());
    let once = number(&recording("python-v4-none").report()["coverage"]["requests"]);
    assert_eq!(number(&report["coverage"]["requests"]), 3 * once);
    // The snapshots say the same.
    let output = std::process::Command::new(crate::sniff::sniff::PROGRAM)
        .args(["report", "--format", "json"])
        .arg(place.path("snapshots"))
        .output()
        .unwrap();
    let merged: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        (seconds(&merged) - seconds(report)).abs() < 1.0,
        "{}",
        seconds(&merged)
    );
}

/// In one capture nothing has passed in that time: that was observed. So it was if another capture goes on
/// across it.
#[test]
fn silence_within_a_capture_is_observed() {
    let place = Place::new();
    let capture = recording("python-v4-none").capture();
    let mut both = capture.clone();
    both.packets.extend(later(&capture, HOUR).packets);
    let one = place.write("one.pcap", &both.plain());
    let report = place.sniff(&[&one], &[]);
    assert!(seconds(report.report()) > 3_600.0);
    assert!(!report.told().contains("nothing was captured"));
    let within = place.write("within.pcap", &later(&capture, HOUR / 2).plain());
    let report = place.sniff(&[&one, &within], &[]);
    assert!(seconds(report.report()) > 3_600.0);
    assert!(
        !report.told().contains("nothing was captured"),
        "{}",
        report.told()
    );
}

/// What is said of a capture is said in the report over all of it, whichever window it was found in.
#[test]
fn what_the_first_window_finds_is_still_said_at_the_end() {
    let place = Place::new();
    let tls = crate::sniff::sniff::captures().join("python-v4-none-tls.pcap");
    let mut capture = Capture::read(&std::fs::read(tls).unwrap());
    let plain = recording("python-v4-none").capture();
    let begin = capture.packets[0].at;
    let by = begin + HOUR - plain.packets[0].at.min(begin + HOUR);
    capture.packets.extend(later(&plain, by).packets);
    let file = place.write("both.pcap", &capture.plain());
    let report = place.sniff(&[&file], &["--window", "1s"]);
    let notices = report.report()["notices"].to_string();
    assert!(notices.contains("use TLS"), "{notices}");
}
