//! What a reader must know of a capture before any number.

use super::Args;
use crate::{
    number,
    sniff::{Flows, Losses, Packets},
    window::Coverage,
};

/// Adds what was lost to the counts of a window.
pub(super) fn count(coverage: &mut Coverage, losses: &Losses) {
    let capture = coverage.capture.get_or_insert_default();
    capture.lost_bytes += losses.lost_bytes;
    capture.cut_bytes += losses.cut_bytes;
    capture.unplaced_bytes += losses.unplaced_bytes;
    capture.begun_before += losses.begun_before;
    capture.one_way += losses.one_way;
    capture.evicted_connections += losses.evicted_connections;
    for (reason, connections) in &losses.opaque {
        *coverage
            .opaque_connections
            .entry((*reason).to_owned())
            .or_default() += connections;
    }
    let servers = losses.tls_servers.iter().map(|server| {
        format!(
            "Clients of {server} speak TLS, which a capture does not show: run `cqlens proxy` in front of it, in staging or beside the \
             application, where it can hold the certificate."
        )
    });
    coverage.notices.extend(servers);
}

/// What there is to say once all is read.
pub(super) fn of_all(args: &Args, packets_read: u64, packets: &Packets, flows: &Flows) -> Vec<String> {
    let mut notices = Vec::new();
    let ports = join(args.port.iter());
    let packets_in_all = number::plural(packets_read, "packet", "packets");
    let likely = flows.ports_like_cql();
    if flows.segments() == 0 {
        notices.push(format!(
            "{packets_in_all} were read, and none is of a connection to port {ports}."
        ));
    }
    if !likely.is_empty() {
        let named = join(likely.keys());
        notices.push(format!(
            "Traffic at port {named} looks like CQL and was not looked into: `--port {}` does.",
            likely
                .keys()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(",")
        ));
    }
    let passed = packets.passed;
    let mut say = |count: u64, what: &str| {
        if count > 0 {
            notices.push(format!("{} {what}.", number::plural(count, "packet", "packets")));
        }
    };
    say(
        passed.unknown_link,
        "could not be read: their link layer is not one of Ethernet, Linux cooked, loopback and raw IP",
    );
    say(
        passed.unreadable,
        "could not be read: damaged, or cut off before the end of their headers",
    );
    say(passed.fragments, "were fragments whose other parts are missing");
    notices
}

fn join(ports: impl Iterator<Item = impl ToString>) -> String {
    let ports: Vec<_> = ports.map(|port| port.to_string()).collect();
    ports.join(", ")
}
