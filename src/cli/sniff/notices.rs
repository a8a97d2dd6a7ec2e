//! What a reader must know of a capture before any number.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use cqlens_proto::cutter::Opaque;

use super::Args;
use cqlens_capture::{Moment, opaque_name};
use cqlens_sniff::{ClockDifferences, Losses, PacketReader, SkippedPackets, TcpConnections, TlsServer};
use cqlens_window::{Coverage, number};

/// Adds what was lost to the counts of a window.
pub(super) fn count(coverage: &mut Coverage, losses: &Losses) {
    let capture = coverage.capture.get_or_insert_default();
    capture.seen_bytes += losses.seen_bytes;
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
}

/// What to do about servers that speak TLS, one sentence for each.
pub(super) fn tls(losses: &Losses) -> impl Iterator<Item = String> {
    losses.tls_servers.iter().map(|(server, tls)| {
        format!(
            "Clients of {} use TLS, so the capture shows no CQL: run `cqlens proxy` in front of it, in staging \
             or beside the application, where it can hold the certificate, or name the key log of the clients with \
             `--tls-key-log`.",
            named(*server, tls)
        )
    })
}

/// A server, with what clients call it.
fn named(server: SocketAddr, tls: &TlsServer) -> String {
    match tls.names.is_empty() {
        true => server.to_string(),
        false => format!("{server} ({})", join(tls.names.iter())),
    }
}

/// Packets that the kernel has not handed over in a window.
pub(super) fn dropped(packets: u64) -> Option<String> {
    (packets > 0).then(|| {
        format!(
            "The kernel had no room for {} of a live capture: what was in them is missing.",
            number::plural(packets, "packet", "packets")
        )
    })
}

/// What packets without a time keep from being known.
pub(super) const OF_UNTIMED: &str = "Packets in these captures have no timestamps (simple packet blocks of \
    pcapng): each counts at the time of the previous packet that has one, or else at the time of reading; \
    latencies are not known, and rates are meaningless.";

/// Why the named node gives no schema.
pub(super) fn contact(trouble: &str) -> String {
    format!(
        "The node of --contact could not be queried: {trouble}. Only the information in the captures and \
            --schema is known."
    )
}

/// No capture covers the time between two captures.
pub(super) fn gap(from: Moment, to: Moment) -> String {
    let [from_time, to_time] = [from, to].map(|at| at.timestamp().strftime("%F %T UTC").to_string());
    format!(
        "Between two captures, from {from_time} to {to_time} ({}), nothing was captured: that time is not in the rates.",
        number::seconds(to.since(from).as_secs_f64())
    )
}

/// What was found in all connections, of which a window knows a part.
#[derive(Debug, Default)]
pub(super) struct Content {
    is_understood: bool,
    is_text: bool,
    is_encrypted: bool,
    tls_servers: BTreeMap<SocketAddr, TlsServer>,
    copies: BTreeMap<(SocketAddr, SocketAddr), u64>,
    alike: BTreeSet<[(SocketAddr, SocketAddr); 2]>,
    clocks: ClockDifferences,
}

impl Content {
    /// Takes note of what a window has found.
    pub(super) fn note(&mut self, losses: &Losses) {
        self.is_understood |= losses.understood > 0;
        self.is_text |= losses.opaque.contains_key(opaque_name(Opaque::Text));
        self.is_encrypted |= losses.opaque.contains_key(opaque_name(Opaque::Tls));
        for (server, tls) in &losses.tls_servers {
            self.tls_servers.entry(*server).or_default().merge(tls);
        }
        for (servers, connections) in &losses.copies {
            *self.copies.entry(*servers).or_default() += connections;
        }
        self.alike.extend(&losses.alike);
        self.clocks.merge(losses.clocks);
    }

    /// Which connections were captured twice, one sentence for each server.
    fn twice(&self) -> impl Iterator<Item = String> {
        let copies = self.copies.iter().map(|((server, copy), connections)| {
            let connections = number::plural(*connections, "connection", "connections");
            let copy = match server == copy {
                true => "from other addresses".to_owned(),
                false => format!("as connections to {copy}"),
            };
            format!(
                "The capture shows {connections} to {server} a second time, {copy}, behind NAT or a relay: each counts once."
            )
        });
        copies.chain(alike(&self.alike))
    }

    /// That times were corrected, and what latencies are worth then.
    fn clocks(&self) -> Option<String> {
        let ClockDifferences { connections, largest } = self.clocks;
        (connections > 0).then(|| {
            format!(
                "The two directions of {} were stamped by different clocks, up to {} ms apart: the times of responses were \
                 moved by as much as acknowledgments show, so latencies are too short by up to the shortest one.",
                number::plural(connections, "connection", "connections"),
                largest.div_ceil(1_000_000)
            )
        })
    }

    /// Which connections the key log does not open, and why; one sentence for each server.
    pub(super) fn not_decrypted(&self) -> impl Iterator<Item = String> {
        self.tls_servers.iter().map(|(server, tls)| {
            let reasons = tls.connections.iter().map(|(trouble, connections)| {
                format!(
                    "{} ({trouble})",
                    number::plural(*connections, "connection", "connections")
                )
            });
            format!(
                "TLS to {} was not decrypted: {}.",
                named(*server, tls),
                reasons.collect::<Vec<_>>().join(", ")
            )
        })
    }

    /// That nothing of it is CQL, if that is so and TLS does not say it already.
    fn says(&self, ports: &str) -> Option<String> {
        let what = match self.is_text {
            true => "text, such as HTTP",
            false => "something else, or encrypted",
        };
        let is_told = self.is_understood || (self.is_encrypted && !self.is_text);
        (!is_told).then(|| format!("No traffic at port {ports} is CQL: it is {what}."))
    }
}

/// Connections that may be one traffic, some of them by name.
fn alike(pairs: &BTreeSet<[(SocketAddr, SocketAddr); 2]>) -> Option<String> {
    const NAMED: usize = 3;
    let ends = |(client, server): (SocketAddr, SocketAddr)| format!("{client} to {server}");
    let named = pairs
        .iter()
        .take(NAMED)
        .map(|[outer, inner]| format!("{} and {}", ends(*outer), ends(*inner)));
    let named = named.collect::<Vec<_>>().join("; ");
    let others = match pairs.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; {}", number::plural(more as u64, "other pair", "other pairs")),
    };
    (!pairs.is_empty()).then(|| {
        format!(
            "Connections that begin with the same bytes may be the same traffic, captured on both sides of a relay: {named}{others}. \
             If they are, their requests count twice: capture one side only, by its address."
        )
    })
}

/// What there is to say once all is read.
pub(super) fn all(
    args: &Args,
    packets_read: u64,
    packets: &PacketReader,
    connections: &TcpConnections,
    content: &Content,
) -> Vec<String> {
    let mut notices = Vec::new();
    let ports = join(args.port.iter());
    let packets_in_all = number::plural(packets_read, "packet", "packets");
    let likely = connections.ports_like_cql();
    if connections.segments() == 0 {
        notices.push(format!(
            "{packets_in_all} were read, but none belongs to a connection to port {ports}."
        ));
    } else if connections.has_carried() {
        notices.extend(content.says(&ports));
    }
    notices.extend(content.twice());
    if !likely.is_empty() {
        let named = join(likely.keys());
        notices.push(format!(
            "Traffic at port {named} looks like CQL and was not audited: use `--port {}`.",
            likely
                .keys()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(",")
        ));
    }
    notices.extend(content.clocks());
    notices.extend(unread(&packets.skipped));
    let skipped = &packets.skipped;
    let mut say = |count: u64, what: &str| {
        if count > 0 {
            notices.push(format!("{} {what}.", number::plural(count, "packet", "packets")));
        }
    };
    say(
        skipped.unreadable,
        "could not be read: damaged, or cut off before the end of their headers",
    );
    say(
        skipped.fragments,
        "could not be read: fragments whose other parts are missing",
    );
    notices
}

/// Packets that may have traffic in them and are not read, one sentence for all kinds.
fn unread(skipped: &SkippedPackets) -> Option<String> {
    let kinds = skipped.unread.by_number();
    let named = kinds
        .iter()
        .map(|(kind, packets)| format!("{} in {kind}", number::plural(*packets, "packet", "packets")));
    (!kinds.is_empty()).then(|| {
        format!(
            "Not read: {}. Traffic in them is in no count: capture it where it is in none of these.",
            named.collect::<Vec<_>>().join(", ")
        )
    })
}

fn join(ports: impl Iterator<Item = impl ToString>) -> String {
    let ports: Vec<_> = ports.map(|port| port.to_string()).collect();
    ports.join(", ")
}
