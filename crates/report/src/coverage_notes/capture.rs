//! What a packet capture lacks.

use super::words::opcodes;
use cqlens_window::{CaptureCoverage, Coverage, number};

/// One sentence for each kind of bytes or connections that are missing.
pub(super) fn of_capture(capture: &CaptureCoverage, coverage: &Coverage) -> Vec<String> {
    let mut lines = Vec::new();
    if coverage.dropped > 0 && coverage.dropped_bytes == 0 {
        lines.push(format!(
            "At least {}{} of these connections are missing from the capture, wholly or in part.",
            number::plural(coverage.dropped, "request", "requests"),
            opcodes(&coverage.dropped_by_opcode),
        ));
    }
    let bytes = [
        (
            capture.lost_bytes,
            "were sent but are not in the capture: packets are missing from it",
        ),
        (
            capture.cut_bytes,
            "were cut off by the snap length of the capture",
        ),
        (
            capture.unplaced_bytes,
            "could not be read: after missing bytes or in mid-connection, the start of a request or \
                response is not known",
        ),
    ];
    let bytes = bytes.iter().filter(|(bytes, _)| *bytes > 0);
    lines.extend(bytes.map(|(bytes, what)| format!("{} {what}.", number::bytes(*bytes))));
    let connections = [
        (
            capture.begun_before,
            "in the capture without its beginning: earlier negotiation and preparation are inferred as \
                far as possible",
            "in the capture without their beginning: earlier negotiation and preparation are inferred as \
                far as possible",
        ),
        (
            capture.one_way,
            "captured in one direction only",
            "captured in one direction only",
        ),
        (
            capture.evicted_connections,
            "dropped, because there were too many at once",
            "dropped, because there were too many at once",
        ),
    ];
    for (count, one, many) in connections {
        if count > 0 {
            let what = if count == 1 { one } else { many };
            let connections = number::plural(count, "connection is", "connections are");
            lines.push(format!("{connections} {what}."));
        }
    }
    lines
}
