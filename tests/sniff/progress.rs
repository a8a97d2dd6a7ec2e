//! Progress is shown at a terminal, and nowhere else.

use std::process::{Command, Stdio};

use crate::sniff::{
    mutator,
    sniff::{PROGRAM, Place, recording},
    support::{Missing, available},
    tcp::{capture, segments},
};

/// `script` is a terminal to what it runs.
#[test]
fn a_terminal_shows_the_rate_and_the_time_that_is_left() {
    let place = Place::new();
    let mut all = segments(&recording("python-v4-none").capture());
    // Long enough to be looked at.
    for _ in 0..7 {
        all = mutator::again_from_the_same_ports(&all);
    }
    let file = place.write("long.pcap", &capture(&all).plain());
    let sniff = format!(
        "'{PROGRAM}' sniff '{}' --window 24h --report '{}'",
        file.display(),
        place.path("report.json").display()
    );
    let output = Command::new("script")
        .args(["-q", "-e", "-c", &sniff, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Missing(format!("`script` cannot be run: {error}")));
    let Some(output) = available("a terminal", output) else {
        return;
    };
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    for part in [" of ", "iB/s, ", " left"] {
        assert!(shown.contains(part), "{part:?} is not in {shown:?}");
    }
    let piped = place.sniff(&[&file], &["--window", "24h"]);
    for part in ["iB/s", " left"] {
        assert!(!piped.said().contains(part), "{}", piped.said());
    }
}
