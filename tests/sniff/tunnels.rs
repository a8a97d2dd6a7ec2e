//! The same session inside of the tunnels and tags that networks put around it: the report is always the same,
//! and what is not read is named.

use serde_json::Value;

use crate::sniff::{
    packets::{Capture, ETHERNET, Packet},
    report::{differences, number, seen},
    sniff::{Place, captures, recording, unpacked},
};

/// Packets on Ethernet become others that carry them.
pub(crate) type Wrap = fn(&[u8]) -> Vec<u8>;

const IPV4: u16 = 0x0800;
const UDP: u8 = 17;
const GRE: u8 = 47;

fn ethernet(kind: u16, content: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), content].concat()
}

/// An IPv4 packet. What is too long for a length has been captured before it was cut in pieces, and has none.
fn ipv4(protocol: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + content.len()).unwrap_or(0).to_be_bytes();
    let header = [
        &[0x45, 0][..],
        &length,
        &[0, 0, 0, 0, 64, protocol, 0, 0],
        &[192, 168, 9, 1, 192, 168, 9, 2],
    ];
    [&header.concat()[..], content].concat()
}

fn ipv6(next: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap_or(0).to_be_bytes();
    [&[0x60, 0, 0, 0][..], &length, &[next, 64], &[0xfd; 32], content].concat()
}

fn udp(port: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + content.len()).unwrap_or(0).to_be_bytes();
    [&[0xd9, 3][..], &port.to_be_bytes(), &length, &[0, 0], content].concat()
}

/// On Ethernet, in IPv4.
fn outer(protocol: u8, content: &[u8]) -> Vec<u8> {
    ethernet(IPV4, &ipv4(protocol, content))
}

fn in_udp(port: u16, header: &[u8], content: &[u8]) -> Vec<u8> {
    outer(UDP, &udp(port, &[header, content].concat()))
}

fn in_gre(header: &[u8], content: &[u8]) -> Vec<u8> {
    outer(GRE, &[header, content].concat())
}

/// The packet of IP, and its EtherType.
fn ip(packet: &[u8]) -> &[u8] {
    &packet[14..]
}

fn kind(packet: &[u8]) -> [u8; 2] {
    [packet[12], packet[13]]
}

fn tagged(packet: &[u8], tags: &[[u8; 4]]) -> Vec<u8> {
    [&packet[..12], &tags.concat(), &packet[12..]].concat()
}

const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0, 7, 0];

fn vxlan(packet: &[u8]) -> Vec<u8> {
    in_udp(4789, &VXLAN, packet)
}

fn pppoe(packet: &[u8], protocol: &[u8]) -> Vec<u8> {
    ethernet(0x8864, &[&[0x11, 0, 0, 9, 0, 0], protocol, ip(packet)].concat())
}

pub(crate) const WRAPS: [(&str, Wrap); 40] = [
    ("VXLAN", vxlan),
    ("VXLAN of Linux", |packet| in_udp(8472, &VXLAN, packet)),
    ("VXLAN at a port of its own", |packet| {
        in_udp(55_555, &VXLAN, packet)
    }),
    ("VXLAN over IPv6", |packet| {
        ethernet(0x86dd, &ipv6(UDP, &udp(4789, &[&VXLAN, packet].concat())))
    }),
    ("VXLAN with a group policy", |packet| {
        in_udp(4789, &[0x88, 0, 0, 5, 0, 0, 7, 0], packet)
    }),
    ("VXLAN-GPE with IP", |packet| {
        in_udp(4790, &[0x0c, 0, 0, 1, 0, 0, 7, 0], ip(packet))
    }),
    ("VXLAN-GPE with Ethernet", |packet| {
        in_udp(4790, &[0x0c, 0, 0, 3, 0, 0, 7, 0], packet)
    }),
    ("VXLAN in a VLAN", |packet| {
        tagged(&vxlan(packet), &[[0x81, 0, 0, 3]])
    }),
    ("a VLAN in VXLAN", |packet| {
        vxlan(&tagged(packet, &[[0x81, 0, 0, 3]]))
    }),
    ("VXLAN in VXLAN", |packet| vxlan(&in_udp(8472, &VXLAN, packet))),
    ("Geneve", |packet| {
        in_udp(6081, &[0, 0, 0x65, 0x58, 0, 0, 7, 0], packet)
    }),
    ("Geneve with options", |packet| {
        in_udp(
            6081,
            &[2, 0x40, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 1, 5, 5, 5, 5],
            packet,
        )
    }),
    ("Geneve with IP", |packet| {
        let [high, low] = kind(packet);
        in_udp(6081, &[0, 0, high, low, 0, 0, 7, 0], ip(packet))
    }),
    ("GRE", |packet| {
        in_gre(&[&[0, 0][..], &kind(packet)].concat(), ip(packet))
    }),
    ("GRE with a key, a checksum and a sequence", |packet| {
        in_gre(&[&[0xb0, 0][..], &kind(packet), &[0; 12]].concat(), ip(packet))
    }),
    ("Ethernet in GRE", |packet| in_gre(&[0, 0, 0x65, 0x58], packet)),
    ("GRE over IPv6", |packet| {
        ethernet(0x86dd, &ipv6(GRE, &[&[0, 0, 0x65, 0x58], packet].concat()))
    }),
    ("GRE in UDP", |packet| in_udp(4754, &[0, 0, 0x65, 0x58], packet)),
    ("PPTP", |packet| {
        in_gre(
            &[0x30, 0x01, 0x88, 0x0b, 0, 9, 0, 1, 0, 0, 0, 1, 0xff, 3, 0x21],
            ip(packet),
        )
    }),
    ("ERSPAN I", |packet| in_gre(&[0, 0, 0x88, 0xbe], packet)),
    ("ERSPAN II", |packet| {
        in_gre(
            &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 7, 0, 0, 0, 0],
            packet,
        )
    }),
    ("ERSPAN III", |packet| {
        in_gre(
            &[&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 0, 0, 7][..], &[0; 8]].concat(),
            packet,
        )
    }),
    ("ERSPAN III with more of the platform", |packet| {
        in_gre(
            &[
                &[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 0, 0, 7][..],
                &[0; 7],
                &[1],
                &[0; 8],
            ]
            .concat(),
            packet,
        )
    }),
    ("ERSPAN III with IP", |packet| {
        let header = [
            &[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 0, 0, 7][..],
            &[0; 6],
            &[2 << 2, 0],
        ];
        in_gre(&header.concat(), ip(packet))
    }),
    ("IP in IP", |packet| outer(4, ip(packet))),
    ("IP in IPv6", |packet| ethernet(0x86dd, &ipv6(4, ip(packet)))),
    ("IP in IP in IP", |packet| outer(4, &ipv4(4, ip(packet)))),
    ("Ethernet in IP", |packet| {
        outer(97, &[&[0x30, 0], packet].concat())
    }),
    ("Ethernet in IPv6", |packet| ethernet(0x86dd, &ipv6(143, packet))),
    ("GTP-U", |packet| {
        in_udp(2152, &[0x30, 255, 0, 0, 0, 0, 0, 7], ip(packet))
    }),
    ("GTP-U with extensions", |packet| {
        in_udp(
            2152,
            &[0x34, 255, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0x85, 1, 0, 9, 0],
            ip(packet),
        )
    }),
    ("MPLS", |packet| {
        ethernet(0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64], ip(packet)].concat())
    }),
    ("Ethernet in MPLS", |packet| {
        ethernet(0x8847, &[&[0, 1, 1, 64, 0, 0, 0, 0], packet].concat())
    }),
    ("MPLS in IP", |packet| {
        outer(137, &[&[0, 1, 1, 64], ip(packet)].concat())
    }),
    ("MPLS in UDP", |packet| in_udp(6635, &[0, 1, 1, 64], ip(packet))),
    ("PPPoE", |packet| pppoe(packet, &[0, 0x21])),
    ("PPPoE, a short protocol", |packet| pppoe(packet, &[0x21])),
    ("LLC and SNAP", |packet| {
        // The length is that of what follows, or what fits.
        let header = [&[2; 12][..], &[1, 0, 0xaa, 0xaa, 3, 0, 0, 0], &kind(packet)];
        [&header.concat()[..], ip(packet)].concat()
    }),
    ("four tags", |packet| {
        tagged(
            packet,
            &[
                [0x88, 0xa8, 0, 1],
                [0x91, 0, 0, 2],
                [0x81, 0, 0, 3],
                [0x81, 0, 0, 4],
            ],
        )
    }),
    ("MACsec, signed", |packet| {
        [
            &packet[..12],
            &[0x88, 0xe5, 0x20, 0, 0, 0, 0, 1],
            &[1; 8],
            &packet[12..],
            &[9; 16],
        ]
        .concat()
    }),
];

/// The session of which all forms are made, with what its report says.
fn session(name: &str) -> (Capture, Value) {
    let recorded = recording(name);
    let capture = recorded.capture();
    let report = Place::new().sniff(&[&recorded.file], &[]);
    (capture, seen(report.report()))
}

fn wrapped(packet: &Packet, wrap: Wrap) -> Packet {
    let bytes = wrap(&packet.bytes);
    Packet {
        at: packet.at,
        length: bytes.len(),
        bytes,
    }
}

fn all_wrapped(capture: &Capture, wrap: Wrap) -> Capture {
    Capture {
        link: capture.link,
        packets: capture
            .packets
            .iter()
            .map(|packet| wrapped(packet, wrap))
            .collect(),
    }
}

/// What is wrong with the report of a capture; it may say more before any number than the plain one's.
fn complaints(form: &str, expected: &Value, capture: &Capture) -> Vec<String> {
    let place = Place::new();
    let sniffed = place.sniff(&[&place.write("capture.pcap", &capture.plain())], &[]);
    let lines = differences(expected, &seen(sniffed.report()));
    lines.iter().map(|line| format!("{form}: {line}")).collect()
}

#[test]
fn every_tunnel_has_the_same_report() {
    let (capture, expected) = session("python-v4-none");
    let mut all = Vec::new();
    for (form, wrap) in WRAPS {
        all.extend(complaints(form, &expected, &all_wrapped(&capture, wrap)));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn every_tunnel_has_the_same_report_over_ipv6() {
    let (capture, expected) = session("python-v4-none-ipv6");
    let mut all = Vec::new();
    let one_number = ["IP in IP", "IP in IPv6", "IP in IP in IP"];
    for (form, wrap) in WRAPS
        .into_iter()
        .filter(|(form, _)| !form.contains("PP") && !one_number.contains(form))
    {
        all.extend(complaints(form, &expected, &all_wrapped(&capture, wrap)));
    }
    let in_ip: Wrap = |packet| outer(41, ip(packet));
    all.extend(complaints("IPv6 in IP", &expected, &all_wrapped(&capture, in_ip)));
    let over_ppp: Wrap = |packet| pppoe(packet, &[0, 0x57]);
    all.extend(complaints("PPPoE", &expected, &all_wrapped(&capture, over_ppp)));
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn a_tunnel_whose_packets_are_in_fragments_has_the_same_report() {
    let (capture, expected) = session("python-v4-none");
    let mut packets = Vec::new();
    for (number, packet) in (0_u16..).zip(&capture.packets) {
        let whole = vxlan(&packet.bytes);
        let (header, content) = (&whole[14..34], &whole[34..]);
        for (index, part) in content.chunks(400).enumerate() {
            let mut header = header.to_vec();
            let place = u16::try_from(index * 400 / 8).unwrap();
            let has_more = (index + 1) * 400 < content.len();
            header[2..4].copy_from_slice(&u16::try_from(20 + part.len()).unwrap().to_be_bytes());
            header[4..6].copy_from_slice(&number.to_be_bytes());
            header[6..8].copy_from_slice(&(place | u16::from(has_more) << 13).to_be_bytes());
            let bytes = ethernet(IPV4, &[&header, part].concat());
            packets.push(Packet {
                at: packet.at,
                length: bytes.len(),
                bytes,
            });
        }
    }
    let fragmented = Capture {
        link: ETHERNET,
        packets,
    };
    let all = complaints("fragments", &expected, &fragmented);
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// As `tcpdump -i any` sees an overlay network: at the inner and at the outer device.
#[test]
fn packets_inside_and_outside_of_a_tunnel_count_once() {
    let (capture, expected) = session("python-v4-none");
    let both = capture.packets.iter().flat_map(|packet| {
        let mut later = wrapped(packet, vxlan);
        later.at += 1_000;
        [packet.clone(), later]
    });
    let both = Capture {
        link: ETHERNET,
        packets: both.collect(),
    };
    let all = complaints("both", &expected, &both);
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn one_of_two_connections_may_be_in_a_tunnel() {
    let (capture, expected) = session("python-v4-none");
    let port = |packet: &Packet| {
        let at = |at: usize| u16::from_be_bytes([packet.bytes[at], packet.bytes[at + 1]]);
        at(34).max(at(36))
    };
    let last = capture.packets.iter().map(port).max().unwrap();
    let mixed = capture.packets.iter().map(|packet| match port(packet) == last {
        true => wrapped(packet, vxlan),
        false => packet.clone(),
    });
    let mixed = Capture {
        link: ETHERNET,
        packets: mixed.collect(),
    };
    let all = complaints("mixed", &expected, &mixed);
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn what_is_not_read_is_named_and_counted_beside_what_is() {
    let (capture, _) = session("python-v4-none");
    let hidden: [(&str, Wrap); 9] = [
        ("in IPsec", |packet| outer(50, packet)),
        ("in IPsec", |packet| in_udp(4500, &[0, 0, 0, 9], packet)),
        ("in WireGuard", |packet| in_udp(51_820, &[4, 0, 0, 0], packet)),
        ("in L2TP", |packet| in_udp(1701, &[0, 2, 0, 1, 0, 1], packet)),
        ("in MACsec", |packet| {
            ethernet(0x88e5, &[&[0x2c, 0][..], packet].concat())
        }),
        ("in MPLS", |packet| {
            ethernet(0x8847, &[&[0, 1, 1, 64, 0xee], packet].concat())
        }),
        ("in Ethernet type 0x22f3", |packet| ethernet(0x22f3, packet)),
        ("in GRE, type 0x0007", |packet| in_gre(&[0, 0, 0, 7], packet)),
        ("in more than two tunnels", |packet| vxlan(&vxlan(&vxlan(packet)))),
    ];
    let plain = capture.packets.len();
    for with_plain in [false, true] {
        for (name, wrap) in hidden {
            let mut packets: Vec<_> = capture.packets[..50]
                .iter()
                .map(|packet| wrapped(packet, wrap))
                .collect();
            packets.extend(
                capture
                    .packets
                    .iter()
                    .take(if with_plain { plain } else { 0 })
                    .cloned(),
            );
            let place = Place::new();
            let bytes = Capture {
                link: ETHERNET,
                packets,
            };
            let sniffed = place.sniff(&[&place.write("capture.pcap", &bytes.plain())], &[]);
            let expected = format!("50 packets {name}");
            assert!(
                sniffed.told().contains(&expected),
                "{expected}: {}",
                sniffed.told()
            );
            assert_eq!(
                number(&sniffed.report()["coverage"]["requests"]) > 0,
                with_plain,
                "{name}"
            );
        }
    }
    let place = Place::new();
    let of_another_link = Capture { link: 147, ..capture };
    let sniffed = place.sniff(&[&place.write("capture.pcap", &of_another_link.plain())], &[]);
    assert!(
        sniffed
            .told()
            .contains(&format!("{plain} packets in link layer 147")),
        "{}",
        sniffed.told()
    );
}

/// What every network has beside IP hides nothing, and is no news.
#[test]
fn packets_that_carry_no_ip_are_not_mentioned() {
    let (mut capture, _) = session("python-v4-none");
    let others: [Wrap; 4] = [
        |_| ethernet(0x0806, &[0; 28]),
        |_| ethernet(38, &[&[0x42, 0x42, 3][..], &[0; 35]].concat()),
        |_| in_udp(53, &[], &[7; 30]),
        |_| outer(1, &[8; 30]),
    ];
    let more: Vec<_> = others
        .iter()
        .map(|wrap| wrapped(&capture.packets[0], *wrap))
        .collect();
    capture.packets.extend(more);
    let place = Place::new();
    let sniffed = place.sniff(&[&place.write("capture.pcap", &capture.plain())], &[]);
    assert!(
        !sniffed.told().contains("Not read") && !sniffed.told().contains("packets could not be read"),
        "{}",
        sniffed.told()
    );
}

/// Bytes that a short snap length cuts off are counted as they are without the tunnel.
#[test]
fn bytes_that_are_cut_off_inside_a_tunnel_are_counted() {
    let capture = Capture::read(&unpacked(&captures().join("python-v4-none.pcap")));
    let of = |wrap: Option<(Wrap, usize)>| {
        let (around, length) = wrap.map_or((0, 200), |(_, around)| (around, 200 + around));
        assert!(around < 100);
        let packets = capture.packets.iter().map(|packet| {
            let mut packet = wrap.map_or_else(|| packet.clone(), |(wrap, _)| wrapped(packet, wrap));
            packet.bytes.truncate(length);
            packet
        });
        let place = Place::new();
        let cut = Capture {
            link: ETHERNET,
            packets: packets.collect(),
        };
        let sniffed = place.sniff(&[&place.write("capture.pcap", &cut.plain())], &[]);
        sniffed.report()["coverage"].clone()
    };
    let (plain, in_vxlan) = (of(None), of(Some((vxlan, 50))));
    assert_eq!(plain["capture"], in_vxlan["capture"]);
    assert!(number(&plain["capture"]["cut_bytes"]) > 0 && plain["audited"] == in_vxlan["audited"]);
}
