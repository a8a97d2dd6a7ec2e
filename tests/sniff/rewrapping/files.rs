//! How files come: packed, in several, in any order.

use std::io::Write;

use crate::sniff::{
    packets::{Capture, Layout},
    rewrapped::{Given, Row, same},
};

pub(crate) fn rows(capture: &Capture) -> Vec<Row> {
    let plain = capture.plain();
    let pcapng = capture.write(Layout::Pcapng {
        big_endian: false,
        nanoseconds: true,
    });
    let (first, second) = plain.split_at(plain.len() / 3);
    let mut rows = vec![
        same("gzip", gzip(&plain)),
        same("gzip of pcapng", gzip(&pcapng)),
        same("gzip of two members", [gzip(first), gzip(second)].concat()),
        same("zstd", zstd(&plain)),
        same("zstd of pcapng", zstd(&pcapng)),
        same("zstd of two frames", [zstd(first), zstd(second)].concat()),
    ];
    let several = |name: &str, parts: Vec<Capture>| {
        let files: Vec<_> = parts.iter().map(Capture::plain).collect();
        let backwards = files.iter().rev().cloned().collect();
        [("", files), (", backwards", backwards)].map(|(order, files)| {
            let given = Given {
                files,
                arguments: Vec::new(),
            };
            same(format!("{name}{order}"), given)
        })
    };
    let by = |parts: usize, part_of: &dyn Fn(usize, &[u8]) -> usize| -> Vec<Capture> {
        let part = |part| {
            let packets = capture.packets.iter().enumerate();
            let packets = packets.filter(|(at, packet)| part_of(*at, &packet.bytes) == part);
            Capture {
                packets: packets.map(|(_, packet)| packet.clone()).collect(),
                ..*capture
            }
        };
        (0..parts).map(part).collect()
    };
    let port = |bytes: &[u8], at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let size = capture.packets.len().div_ceil(5);
    rows.extend(several("a ring of five files", by(5, &|at, _| at / size)));
    rows.extend(several(
        "a file for each direction",
        by(2, &|_, bytes| usize::from(port(bytes, 34) == 9042)),
    ));
    rows.extend(several(
        "a file for each connection",
        by(3, &|_, bytes| port(bytes, 34).max(port(bytes, 36)) % 3),
    ));
    rows.extend(several("packets dealt to three files", by(3, &|at, _| at % 3)));
    rows.extend(several(
        "the same file twice",
        vec![capture.clone(), capture.clone()],
    ));
    let given = Given {
        files: vec![gzip(&plain), pcapng],
        arguments: Vec::new(),
    };
    rows.push(same("the same packets in two formats", given));
    rows
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}
