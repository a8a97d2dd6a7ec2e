//! What a file of packets may be like in its own bytes: headers, blocks, options, orders of bytes, clocks.

use crate::sniff::{
    packets::{Capture, ETHERNET, Layout},
    rewrapped::{Expected, Given, Row, same},
};

pub(crate) fn rows(capture: &Capture) -> Vec<Row> {
    let mut rows = layouts(capture);
    rows.extend(pcap_headers(capture));
    rows.extend(blocks(capture));
    rows.extend(clocks(capture));
    rows.extend(sections(capture));
    rows
}

fn layouts(capture: &Capture) -> Vec<Row> {
    let mut rows = Vec::new();
    for big_endian in [false, true] {
        for nanoseconds in [false, true] {
            for layout in [
                Layout::Pcap {
                    big_endian,
                    nanoseconds,
                },
                Layout::Pcapng {
                    big_endian,
                    nanoseconds,
                },
                Layout::PcapngObsolete {
                    big_endian,
                    nanoseconds,
                },
            ] {
                rows.push(same(format!("{layout:?}"), capture.write(layout)));
            }
        }
        let layout = Layout::PcapngSimple { big_endian };
        rows.push(Row {
            expected: Expected::SameSaying("have no timestamps"),
            ..same(format!("{layout:?}"), capture.write(layout))
        });
    }
    rows
}

/// The header of a pcap file with other fields.
fn pcap_headers(capture: &Capture) -> Vec<Row> {
    let with = |name: &str, at: usize, field: [u8; 4]| {
        let mut bytes = capture.plain();
        bytes[at..at + 4].copy_from_slice(&field);
        same(format!("pcap with {name}"), bytes)
    };
    vec![
        with("another version", 4, [2, 0, 3, 0]),
        with("a time zone", 8, [0x10, 0x0e, 0, 0]),
        with("significant figures", 12, [6, 0, 0, 0]),
        with("a snap length of 0", 16, [0; 4]),
        with("a snap length of 64", 16, [64, 0, 0, 0]),
        with("the largest snap length", 16, [0xff; 4]),
        with("the length of a frame check sequence", 20, [1, 0, 0, 0x14]),
    ]
}

/// A pcapng file of a little-endian machine, written block by block.
#[derive(Default)]
struct Blocks(Vec<u8>);

impl Blocks {
    fn block(mut self, kind: u32, body: &[u8]) -> Self {
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        let length = u32::try_from(12 + body.len() + padding.len())
            .unwrap()
            .to_le_bytes();
        self.0
            .extend([&kind.to_le_bytes(), &length, body, &padding, &length].concat());
        self
    }

    fn section(self, options: &[u8]) -> Self {
        let header = [&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8], options];
        self.block(0x0a0d_0d0a, &header.concat())
    }

    fn interface(self, link: u32, options: &[u8]) -> Self {
        let header = [&link.to_le_bytes()[..], &262_144_u32.to_le_bytes(), options];
        self.block(1, &header.concat())
    }

    /// Packets of an interface at the unit that `time` makes of nanoseconds.
    fn packets(
        mut self,
        capture: &Capture,
        interface: u32,
        time: impl Fn(u64) -> u64,
        options: &[u8],
    ) -> Self {
        for packet in &capture.packets {
            let at = time(packet.at);
            let (high, low) = (u32::try_from(at >> 32).unwrap(), (at & 0xffff_ffff) as u32);
            let captured = u32::try_from(packet.bytes.len()).unwrap();
            let padding = vec![0; packet.bytes.len().next_multiple_of(4) - packet.bytes.len()];
            let body = [
                &[
                    interface,
                    high,
                    low,
                    captured,
                    u32::try_from(packet.length).unwrap(),
                ]
                .map(u32::to_le_bytes)
                .concat()[..],
                &packet.bytes,
                &padding,
                options,
            ];
            self = self.block(6, &body.concat());
        }
        self
    }
}

fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
    let length = u16::try_from(value.len()).unwrap().to_le_bytes();
    [&code.to_le_bytes(), &length, value, &padding].concat()
}

const END: [u8; 4] = [0; 4];

fn microseconds(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000
}

fn begun() -> Blocks {
    Blocks::default().section(&[]).interface(ETHERNET, &[])
}

fn blocks(capture: &Capture) -> Vec<Row> {
    let whole = |name: &str, blocks: Blocks| {
        same(
            format!("pcapng with {name}"),
            blocks.packets(capture, 0, microseconds, &[]).0,
        )
    };
    let of_packets = |name: &str, options: &[u8]| {
        let blocks = begun().packets(capture, 0, microseconds, options);
        same(format!("pcapng with {name}"), blocks.0)
    };
    let hardware = [
        option(2, b"Intel"),
        option(3, b"Linux 6.8"),
        option(4, b"dumpcap"),
        END.to_vec(),
    ]
    .concat();
    let of_interface = [
        option(2, b"any"),
        option(3, b"all"),
        option(11, b"\0tcp port 9042"),
        END.to_vec(),
    ]
    .concat();
    let comment = [option(1, b"a comment"), END.to_vec()].concat();
    let flags = [
        option(2, &1_u32.to_le_bytes()),
        option(4, &7_u64.to_le_bytes()),
        END.to_vec(),
    ]
    .concat();
    let process = [option(32_769, &4_711_u32.to_le_bytes()), END.to_vec()].concat();
    let names = [&[1, 0, 8, 0, 127, 0, 0, 1][..], b"n1\0\0", &[0; 4]].concat();
    let statistics = [&[0_u8; 12][..], &option(4, &9_u64.to_le_bytes()), &END].concat();
    let mut journal = begun().packets(capture, 0, microseconds, &[]);
    journal = journal.block(9, b"__REALTIME_TIMESTAMP=1\n\n");
    vec![
        whole(
            "options of the section",
            Blocks::default().section(&hardware).interface(ETHERNET, &[]),
        ),
        whole(
            "options of the interface",
            Blocks::default().section(&[]).interface(ETHERNET, &of_interface),
        ),
        whole("an interface without packets", begun().interface(113, &[])),
        whole("names of hosts", begun().block(4, &names)),
        whole("statistics first", begun().block(5, &statistics)),
        whole(
            "a custom block",
            begun().block(0xbad, &[0, 0, 0x7d, 0xd9, 1, 2, 3, 4]),
        ),
        whole(
            "a custom block that is not copied",
            begun().block(0x4000_0bad, &[0, 0, 0x7d, 0xd9]),
        ),
        whole("a block of nobody", begun().block(0x7fff_0001, &[7; 40])),
        whole("an empty block", begun().block(0x7fff_0002, &[])),
        whole(
            "secrets of no use",
            begun().block(
                10,
                &[&0x5353_484b_u32.to_le_bytes()[..], &4_u32.to_le_bytes(), b"none"].concat(),
            ),
        ),
        of_packets("comments on packets", &comment),
        of_packets("flags of packets", &flags),
        of_packets("processes of macOS", &process),
        of_packets("options without an end", &option(1, b"open")),
        same("pcapng with a journal", journal.0),
        same(
            "pcapng with statistics last",
            begun()
                .packets(capture, 0, microseconds, &[])
                .block(5, &statistics)
                .0,
        ),
        Row {
            expected: Expected::Saying("0 packets were read"),
            ..same(
                "pcapng with packets of an interface that is not there",
                begun().packets(capture, 3, microseconds, &[]).0,
            )
        },
    ]
}

/// Clocks of interfaces.
fn clocks(capture: &Capture) -> Vec<Row> {
    let with = |name: &str, options: &[Vec<u8>], time: &dyn Fn(u64) -> u64| {
        let blocks = Blocks::default()
            .section(&[])
            .interface(ETHERNET, &[&options.concat()[..], &END].concat());
        same(
            format!("pcapng with {name}"),
            blocks.packets(capture, 0, time, &[]).0,
        )
    };
    let resolution = |value: u8| option(9, &[value]);
    const OFFSET: u64 = 1_500_000_000;
    let offset = option(14, &OFFSET.to_le_bytes());
    vec![
        with("nanoseconds", &[resolution(9)], &|at| at),
        with("tenths of microseconds", &[resolution(7)], &|at| at / 100),
        with("milliseconds", &[resolution(3)], &|at| at / 1_000_000),
        with("seconds", &[resolution(0)], &|at| at / 1_000_000_000),
        with("parts of 2^20", &[resolution(0x80 | 20)], &|at| {
            u64::try_from((u128::from(at) << 20) / 1_000_000_000).unwrap()
        }),
        with("parts of 2^30", &[resolution(0x80 | 30)], &|at| {
            u64::try_from((u128::from(at) << 30) / 1_000_000_000).unwrap()
        }),
        with(
            "a clock that begins later",
            std::slice::from_ref(&offset),
            &|at| at / 1_000 - OFFSET * 1_000_000,
        ),
        with(
            "nanoseconds of a clock that begins later",
            &[resolution(9), offset.clone()],
            &|at| at - OFFSET * 1_000_000_000,
        ),
    ]
}

/// Files that are several.
fn sections(capture: &Capture) -> Vec<Row> {
    let half = capture.packets.len() / 2;
    let part = |packets: &[_]| Capture {
        packets: packets.to_vec(),
        ..*capture
    };
    let (first, second) = (part(&capture.packets[..half]), part(&capture.packets[half..]));
    let pcapng = |big_endian| Layout::Pcapng {
        big_endian,
        nanoseconds: true,
    };
    let two = |one: Layout, other: Layout| [first.write(one), second.write(other)].concat();
    let [even, odd] = [0, 1].map(|rest| {
        let packets = capture
            .packets
            .iter()
            .enumerate()
            .filter(|(at, _)| at % 2 == rest);
        Capture {
            packets: packets.map(|(_, packet)| packet.clone()).collect(),
            ..*capture
        }
    });
    let cooked = |capture: &Capture| {
        let segments = crate::sniff::tcp::segments(capture);
        crate::sniff::tcp::capture_over(crate::sniff::tcp::Link::Cooked2, &segments)
    };
    let mut cut = capture.plain();
    cut.truncate(cut.len() - 30);
    vec![
        same("pcapng of two sections", two(pcapng(false), pcapng(false))),
        same(
            "pcapng of two sections of different machines",
            two(pcapng(false), pcapng(true)),
        ),
        same(
            "pcapng of two interfaces that take turns",
            Capture::of_interfaces(&[even.clone(), odd.clone()]),
        ),
        same(
            "pcapng of two interfaces with other link layers",
            Capture::of_interfaces(&[even.clone(), cooked(&odd)]),
        ),
        same(
            "pcapng that has each packet at two interfaces",
            Capture::of_interfaces(&[capture.clone(), cooked(capture)]),
        ),
        same(
            "pcapng of which each packet is in both sections",
            [capture.write(pcapng(false)), capture.write(pcapng(true))].concat(),
        ),
        Row {
            expected: Expected::SameSaying("ends"),
            ..same("pcap that ends within its last packet", cut)
        },
        same(
            "one file after the other",
            Given {
                files: vec![first.plain(), second.plain()],
                arguments: Vec::new(),
            },
        ),
    ]
}
