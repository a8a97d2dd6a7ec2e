//! What a packet capture lacks.

use super::words::opcodes;
use crate::{
    number,
    window::{CaptureCoverage, Coverage},
};

/// One sentence for each kind of bytes or connections that are missing.
pub(super) fn of_capture(capture: &CaptureCoverage, coverage: &Coverage) -> Vec<String> {
    let mut lines = Vec::new();
    if coverage.dropped > 0 && coverage.dropped_bytes == 0 {
        lines.push(format!(
            "At least {}{} of these connections are missing in the capture, wholly or in part.",
            number::plural(coverage.dropped, "request", "requests"),
            opcodes(&coverage.dropped_by_opcode),
        ));
    }
    let bytes = [
        (
            capture.lost_bytes,
            "were sent and are not in the capture: it lacks packets",
        ),
        (
            capture.cut_bytes,
            "were cut off by the snap length of the capture",
        ),
        (
            capture.unplaced_bytes,
            "could not be read: it is not known where a request or response begins, after missing bytes or in mid-connection",
        ),
    ];
    let bytes = bytes.iter().filter(|(bytes, _)| *bytes > 0);
    lines.extend(bytes.map(|(bytes, what)| format!("{} {what}.", number::bytes(*bytes))));
    let connections = [
        (
            capture.begun_before,
            "in the capture without its beginning: what was agreed or prepared before is found out as far as it shows",
            "in the capture without their beginning: what was agreed or prepared before is found out as far as it shows",
        ),
        (
            capture.one_way,
            "captured in one direction only",
            "captured in one direction only",
        ),
        (
            capture.evicted_connections,
            "given up, because there were too many at once",
            "given up, because there were too many at once",
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
