//! What may stand around a segment: link layers, tags, tunnels, IP headers, fragments, and what a snap length leaves.

use crate::sniff::{
    packets::{Capture, ETHERNET, Packet},
    rewrapped::{Expected, Row, same},
    tcp::{Link, Segment, capture_over, fragmented},
    tunnels::{WRAPS, Wrap},
};

pub(crate) fn rows(capture: &Capture, segments: &[Segment]) -> Vec<Row> {
    let mut rows = links(capture, segments);
    rows.extend(nested(capture));
    rows.extend(headers(capture));
    rows.extend(fragments(segments));
    rows.extend(cut_off(capture));
    rows
}

/// The same packets with other bytes.
fn each(capture: &Capture, link: u32, change: impl Fn(&[u8]) -> Vec<u8>) -> Capture {
    let changed = |packet: &Packet| {
        let bytes = change(&packet.bytes);
        Packet {
            at: packet.at,
            length: bytes.len(),
            bytes,
        }
    };
    Capture {
        link,
        packets: capture.packets.iter().map(changed).collect(),
    }
}

fn links(capture: &Capture, segments: &[Segment]) -> Vec<Row> {
    let mut rows: Vec<_> = Link::ALL
        .into_iter()
        .map(|link| same(format!("{link:?}"), capture_over(link, segments)))
        .collect();
    let others: [(&str, u32, &[u8]); 7] = [
        ("raw IP of BSD", 12, &[]),
        ("raw IP of OpenBSD", 14, &[]),
        ("PPP", 9, &[0, 0x21]),
        ("PPP with address and control", 50, &[0xff, 3, 0, 0x21]),
        ("Cisco HDLC", 104, &[0x0f, 0, 8, 0]),
        ("PPP over Ethernet", 51, &[0x11, 0, 0, 9, 0, 0, 0, 0x21]),
        ("MPLS", 219, &[0, 1, 1, 64]),
    ];
    for (name, link, header) in others {
        rows.push(same(
            format!("link layer: {name}"),
            each(capture, link, |bytes| [header, &bytes[14..]].concat()),
        ));
    }
    rows.push(Row {
        expected: Expected::Saying("packets in link layer 147"),
        ..same(
            "a link layer of nobody",
            Capture {
                link: 147,
                ..capture.clone()
            },
        )
    });
    rows
}

/// Tunnels in tunnels; each by itself is tried elsewhere.
fn nested(capture: &Capture) -> Vec<Row> {
    const TAKEN: usize = 9;
    let step = WRAPS.len() / TAKEN;
    let taken: Vec<(&str, Wrap)> = WRAPS.iter().step_by(step).copied().collect();
    let pairs = taken.iter().zip(taken.iter().cycle().skip(2));
    pairs
        .filter(|((outer, _), (inner, _))| !outer.contains("IP in IP") && !inner.contains("IP in IP"))
        .map(|((outer, wrap), (inner, wrap_first))| {
            let both = each(capture, ETHERNET, |bytes| wrap(&wrap_first(bytes)));
            same(format!("{inner} inside of {outer}"), both)
        })
        .collect()
}

/// Fields of IP and TCP that change nothing.
fn headers(capture: &Capture) -> Vec<Row> {
    let field = |name: &str, at: usize, value: &'static [u8]| {
        let changed = each(capture, ETHERNET, |bytes| {
            let mut bytes = bytes.to_vec();
            bytes[at..at + value.len()].copy_from_slice(value);
            bytes
        });
        same(name, changed)
    };
    let behind = |name: &str, change: fn(&[u8]) -> Vec<u8>| same(name, each(capture, ETHERNET, change));
    vec![
        field("a class of service", 15, &[0xb8]),
        field("a congestion mark", 15, &[3]),
        field("an identification", 18, &[0x12, 0x34]),
        field("do not fragment", 20, &[0x40, 0]),
        field("the last hop", 22, &[1]),
        field("a checksum of IP that is wrong", 24, &[0xde, 0xad]),
        field("a window of 0", 48, &[0, 0]),
        field("a checksum of TCP that is wrong", 50, &[0xde, 0xad]),
        field("an urgent pointer", 52, &[0, 1]),
        behind("reserved bits and congestion flags", |bytes| {
            let mut bytes = bytes.to_vec();
            bytes[46] |= 0x01;
            bytes[47] |= 0xc0;
            bytes
        }),
        behind("no PSH", |bytes| {
            let mut bytes = bytes.to_vec();
            bytes[47] &= !0x08;
            bytes
        }),
        behind("options of IP", |bytes| {
            with_ip_options(bytes, &[0x94, 4, 0, 0, 1, 1, 1, 0])
        }),
        behind("timestamps of TCP", |bytes| {
            with_tcp_options(bytes, &[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8])
        }),
        behind("as many options of TCP as there can be", |bytes| {
            with_tcp_options(bytes, &[1; 40])
        }),
        behind("padding of Ethernet", |bytes| {
            [bytes, &vec![0; 60_usize.saturating_sub(bytes.len())]].concat()
        }),
        behind("a frame check sequence", |bytes| {
            [bytes, &[0xde, 0xad, 0xbe, 0xef]].concat()
        }),
        behind("a trailer of a switch", |bytes| [bytes, &[0x5a; 28]].concat()),
        behind("no length, before segmentation offload", |bytes| {
            let mut bytes = bytes.to_vec();
            bytes[16..18].fill(0);
            bytes
        }),
        behind("a tag of a priority only", |bytes| {
            [&bytes[..12], &[0x81, 0, 0xa0, 0], &bytes[12..]].concat()
        }),
        behind("a tag of a provider", |bytes| {
            [&bytes[..12], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7], &bytes[12..]].concat()
        }),
        behind("a tag of an old switch", |bytes| {
            [&bytes[..12], &[0x91, 0, 0, 9], &bytes[12..]].concat()
        }),
    ]
}

fn with_ip_options(bytes: &[u8], options: &[u8]) -> Vec<u8> {
    let mut out = [&bytes[..34], options, &bytes[34..]].concat();
    out[14] += u8::try_from(options.len() / 4).unwrap();
    lengthen(&mut out, options.len());
    out
}

fn with_tcp_options(bytes: &[u8], options: &[u8]) -> Vec<u8> {
    let mut out = [&bytes[..54], options, &bytes[54..]].concat();
    out[46] += u8::try_from(options.len() / 4).unwrap() << 4;
    lengthen(&mut out, options.len());
    out
}

fn lengthen(packet: &mut [u8], by: usize) {
    let length = u16::from_be_bytes([packet[16], packet[17]]) + u16::try_from(by).unwrap();
    packet[16..18].copy_from_slice(&length.to_be_bytes());
}

fn fragments(segments: &[Segment]) -> Vec<Row> {
    let mut rows = Vec::new();
    for size in [64, 256, 512, 1_024, 1_480] {
        let backwards = fragmented(segments, size);
        let mut forwards = backwards.clone();
        forwards.packets.sort_by_key(|packet| {
            (
                packet.at,
                u16::from_be_bytes([packet.bytes[18], packet.bytes[19]]),
                u16::from_be_bytes([packet.bytes[20] & 0x1f, packet.bytes[21]]),
            )
        });
        rows.push(same(
            format!("fragments of {size}, the last one first"),
            backwards,
        ));
        rows.push(same(format!("fragments of {size}"), forwards));
    }
    let mut twice = fragmented(segments, 512);
    twice.packets = twice
        .packets
        .iter()
        .flat_map(|packet| [packet.clone(), packet.clone()])
        .collect();
    rows.push(same("fragments that come twice", twice));
    let mut lacking = fragmented(segments, 256);
    let lost = lacking
        .packets
        .iter()
        .position(|packet| packet.bytes[20] & 0x20 == 0 && packet.bytes[21] > 0);
    lacking.packets.remove(lost.unwrap());
    rows.push(Row {
        expected: Expected::Missing("lost_bytes"),
        ..same("fragments of which one is missing", lacking)
    });
    rows
}

/// What snap lengths leave.
fn cut_off(capture: &Capture) -> Vec<Row> {
    let at = |length: usize| {
        let mut cut = capture.clone();
        cut.packets
            .iter_mut()
            .for_each(|packet| packet.bytes.truncate(length));
        cut
    };
    let longest = capture.packets.iter().map(|packet| packet.length).max().unwrap();
    vec![
        same("a snap length that cuts nothing off", at(longest)),
        Row {
            expected: Expected::Missing("cut_bytes"),
            ..same("a snap length of 512", at(512))
        },
        Row {
            expected: Expected::Missing("cut_bytes"),
            ..same("a snap length of 128", at(128))
        },
        Row {
            expected: Expected::Missing("cut_bytes"),
            ..same("a snap length of 96", at(96))
        },
        Row {
            expected: Expected::Saying("cut off before the end of their headers"),
            ..same("a snap length of 40", at(40))
        },
    ]
}
