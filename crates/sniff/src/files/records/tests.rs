#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
use super::*;
use proptest::{collection::vec, prelude::*};

const PACKETS: [&[u8]; 3] = [b"first", b"", b"the last one"];

fn number(value: u32, is_big: bool) -> [u8; 4] {
    if is_big {
        value.to_be_bytes()
    } else {
        value.to_le_bytes()
    }
}

/// Packets one second and five ticks apart.
fn pcap(is_big: bool, nanoseconds: bool) -> Vec<u8> {
    let magic = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let mut out = number(magic, is_big).to_vec();
    let version = if is_big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    out.extend(version);
    for value in [0, 0, 65_535, 1] {
        out.extend(number(value, is_big));
    }
    for (at, packet) in (1..).zip(PACKETS) {
        let length = packet.len() as u32;
        for value in [at, at * 5, length, length + 100] {
            out.extend(number(value, is_big));
        }
        out.extend(packet);
    }
    out
}

fn block(kind: u32, is_big: bool, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = number(padded as u32 + 12, is_big);
    [
        &number(kind, is_big),
        &length,
        body,
        &vec![0; padded - body.len()],
        &length,
    ]
    .concat()
}

fn pcapng(is_big: bool) -> Vec<u8> {
    let short = |value: u16| {
        if is_big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let section = [&number(0x1a2b_3c4d, is_big)[..], &short(1), &short(0), &[0xff; 8]].concat();
    // Nanoseconds.
    let interface = [
        &short(1)[..],
        &short(0),
        &number(0, is_big),
        &short(9),
        &short(1),
        &[9, 0, 0, 0],
        &[0; 4],
    ]
    .concat();
    let mut out = block(0x0a0d_0d0a, is_big, &section);
    out.extend(block(1, is_big, &interface));
    for (at, packet) in (1_u64..).zip(PACKETS) {
        let ticks = at * 1_000_000_005;
        let mut body = Vec::new();
        for value in [
            0,
            (ticks >> 32) as u32,
            ticks as u32,
            packet.len() as u32,
            packet.len() as u32 + 100,
        ] {
            body.extend(number(value, is_big));
        }
        body.extend(packet);
        out.extend(block(6, is_big, &body));
        // A block of an unknown type.
        out.extend(block(0x0bad, is_big, b"abc"));
    }
    out
}

/// A packet that outlives its chunk.
#[derive(Debug)]
struct Kept {
    at: Moment,
    is_timed: bool,
    link: i32,
    bytes: Bytes,
    length: usize,
}

fn read(bytes: &[u8], size: usize) -> (Vec<Kept>, Records, Option<FileError>) {
    let mut records = Records::default();
    let mut packets = Vec::new();
    for chunk in bytes.chunks(size) {
        records.feed(Bytes::copy_from_slice(chunk));
        loop {
            match records.advance() {
                Ok(true) => {
                    let packet = records.packet().unwrap();
                    packets.push(Kept {
                        at: packet.at,
                        is_timed: packet.is_timed,
                        link: packet.link,
                        bytes: packet.share(0..packet.bytes.len()),
                        length: packet.length,
                    });
                }
                Ok(false) => break,
                Err(error) => return (packets, records, Some(error)),
            }
        }
        assert!(records.packet().is_none());
    }
    (packets, records, None)
}

#[test]
fn every_format_is_read_in_pieces_of_any_size() {
    let files = [
        (pcap(false, false), 1_000),
        (pcap(true, false), 1_000),
        (pcap(false, true), 1),
        (pcap(true, true), 1),
        (pcapng(false), 1),
        (pcapng(true), 1),
    ];
    for (file, tick) in files {
        for size in 1..=file.len() {
            let (packets, records, error) = read(&file, size);
            assert_eq!(error, None);
            assert_eq!(records.left_over(), 0);
            let bytes: Vec<_> = packets.iter().map(|packet| &packet.bytes[..]).collect();
            assert_eq!(bytes, PACKETS);
            for (at, packet) in (1_i64..).zip(&packets) {
                assert_eq!(packet.at.unix_nanoseconds(), at * 1_000_000_000 + at * 5 * tick);
                assert_eq!((packet.link, packet.length), (1, packet.bytes.len() + 100));
            }
        }
    }
}

/// An interface of pcapng with this link layer and these options.
fn interface(link: u8, options: &[u8]) -> Vec<u8> {
    let body = [&[link, 0, 0, 0, 0, 0, 0, 0][..], options].concat();
    block(1, false, &body)
}

/// A packet of the interface with this number, captured after so many of its ticks.
fn enhanced(interface: u32, ticks: u64) -> Vec<u8> {
    let words = [interface, (ticks >> 32) as u32, ticks as u32, 4, 4];
    let words = words.iter().flat_map(|word| word.to_le_bytes());
    block(6, false, &words.chain(*b"four").collect::<Vec<_>>())
}

#[test]
fn interfaces_have_link_layers_and_clocks_of_their_own() {
    let section = |is_big: bool| pcapng(is_big)[..28].to_vec();
    let resolution = |value: u8| [9, 0, 1, 0, value, 0, 0, 0];
    let offset = [&[14, 0, 8, 0][..], &3_600_i64.to_le_bytes()].concat();
    let file = [
        section(false),
        // Microseconds where nothing is said; milliseconds; 2^-10 seconds; nanoseconds since an hour after
        // 1970, behind a name.
        interface(1, &[]),
        interface(113, &resolution(3)),
        interface(101, &resolution(0x8a)),
        interface(
            12,
            &[
                &[2, 0, 3, 0, b'e', b't', b'h', 0][..],
                &resolution(9),
                &offset,
                &[0; 4],
            ]
            .concat(),
        ),
        enhanced(0, 5_000_001),
        enhanced(1, 5_002),
        enhanced(2, 5 * 1024 + 512),
        enhanced(3, 7),
        // There is none of that number.
        enhanced(4, 1),
        // Another machine's, whose only interface has the number of one before.
        pcapng(true),
    ];
    let (packets, _, error) = read(&file.concat(), 50);
    assert_eq!(error, None);
    let told: Vec<_> = packets
        .iter()
        .map(|packet| (packet.link, packet.at.unix_nanoseconds()))
        .collect();
    let expected = [
        (1, 5_000_001_000),
        (113, 5_002_000_000),
        (101, 5_500_000_000),
        (12, 3_600_000_000_007),
        (1, 1_000_000_005),
        (1, 2_000_000_010),
        (1, 3_000_000_015),
    ];
    assert_eq!(told, expected);
}

/// What a file says of its packets: whether they have a time, and which, with what is there of them.
type Said = (bool, i64, Vec<u8>, usize);

fn said(file: &[u8]) -> Vec<Said> {
    let (packets, _, error) = read(file, 50);
    assert_eq!(error, None);
    let said = packets.iter().map(|packet| {
        let at = packet.at.unix_nanoseconds();
        (packet.is_timed, at, packet.bytes.to_vec(), packet.length)
    });
    said.collect()
}

#[test]
fn obsolete_packets_have_all_that_enhanced_ones_have() {
    for is_big in [false, true] {
        let mut file = pcapng(is_big)[..60].to_vec();
        let interface_and_drops: [u16; 2] = [0, 3];
        let mut body: Vec<u8> = interface_and_drops
            .iter()
            .flat_map(|number| {
                if is_big {
                    number.to_be_bytes()
                } else {
                    number.to_le_bytes()
                }
            })
            .collect();
        for value in [1, 2, 5, 100] {
            body.extend(number(value, is_big));
        }
        body.extend(b"first");
        file.extend(block(2, is_big, &body));
        // One that is shorter than it says, and one that is no packet.
        file.extend(block(2, is_big, &body[..20]));
        file.extend(block(2, is_big, &body[..12]));
        let expected = (true, (1 << 32) + 2, b"first".to_vec(), 100);
        assert_eq!(said(&file), [expected]);
    }
}

#[test]
fn simple_packets_have_the_time_of_the_one_before_and_say_so() {
    for is_big in [false, true] {
        let mut file = pcapng(is_big)[..60].to_vec();
        let simple = block(3, is_big, &[&number(5, is_big)[..], b"first"].concat());
        file.extend(&simple);
        file.extend(&pcapng(is_big)[60..]);
        file.extend(&simple);
        let said = said(&file);
        let first = b"first".to_vec();
        assert_eq!(said[0], (false, 0, first.clone(), 5));
        assert_eq!(said.len(), 5);
        assert_eq!(said[4], (false, 3_000_000_015, first, 5));
        assert!(said[1..4].iter().all(|(is_timed, ..)| *is_timed));
    }
}

#[test]
fn a_truncated_file_tells_what_was_there() {
    let file = pcap(false, false);
    for length in 0..file.len() {
        let (packets, records, error) = read(&file[..length], 1_000);
        assert_eq!(error, None);
        let whole = [45, 61].iter().filter(|end| **end <= length).count();
        assert_eq!(packets.len(), whole, "{length}");
        let expected = match length {
            0 => Err(FileError::Empty),
            1..24 => Err(FileError::NotACapture),
            _ => Ok(()),
        };
        assert_eq!(records.check_end(), expected, "{length}");
    }
}

#[test]
fn what_is_no_capture_is_said_to_be_none() {
    for bytes in [&b"{\"json\": true}"[..], &[0; 64]] {
        assert_eq!(read(bytes, 1_000).2, Some(FileError::NotACapture));
    }
    let tar = [&[b'a'; 257][..], b"ustar", &[0; 250]].concat();
    for (bytes, packing) in [
        (&b"PK\x03\x04 and more than a few bytes"[..], "ZIP"),
        (&tar, "tar"),
    ] {
        assert_eq!(read(bytes, 1_000).2, Some(FileError::Packed(packing)));
    }
    let mut file = pcap(false, false);
    file[24 + 8 + 3] = 0xff;
    assert_eq!(read(&file, 1_000).2, Some(FileError::Damaged(24)));
}

/// `zcat ring*.gz`, of machines and programs that differ.
#[test]
fn files_behind_each_other_are_read_as_one() {
    let files = [
        pcap(false, false),
        pcap(true, true),
        pcapng(false),
        pcap(true, false),
        pcapng(true),
        pcap(false, true),
    ];
    let whole = files.concat();
    for size in [1, 7, 16, 24, 1_000, whole.len()] {
        let (packets, records, error) = read(&whole, size);
        assert_eq!(error, None, "{size}");
        assert_eq!(
            (packets.len(), records.left_over()),
            (files.len() * PACKETS.len(), 0),
            "{size}"
        );
        for file in packets.chunks(PACKETS.len()) {
            let bytes: Vec<_> = file.iter().map(|packet| &packet.bytes[..]).collect();
            assert_eq!(bytes, PACKETS, "{size}");
        }
        assert!(records.is_out_of_order(), "each begins at the same time");
    }
    let empty = [&pcap(false, false)[..24], &pcap(true, false)].concat();
    let (packets, records, _) = read(&empty, 1_000);
    assert_eq!(packets.len(), PACKETS.len());
    assert!(!records.is_out_of_order());
}

/// What looks like a file header, where no file begins.
#[test]
fn packets_that_contain_a_file_header_are_packets() {
    let mut file = pcap(false, false)[..24].to_vec();
    let inner = pcap(false, false);
    let length = inner.len() as u32;
    for value in [1, 5, length, length] {
        file.extend(number(value, false));
    }
    file.extend(&inner);
    let (packets, records, error) = read(&file, 1_000);
    assert_eq!((packets.len(), records.left_over(), error), (1, 0, None));
    // The time of the magic number, 2055, and packets without bytes.
    let mut late = pcap(false, false)[..24].to_vec();
    for value in [0xa1b2_c3d4, 0x0004_0002, 0, 60] {
        late.extend(number(value, false));
    }
    assert_eq!(read(&late, 1_000).0.len(), 1);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        kind in 0_u8..6,
        changed in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        tail in vec(any::<u8>(), 0..100),
        size in 1_usize..300,
    ) {
        let mut file = match kind {
            0 => Vec::new(),
            1 => vec![0x0a, 0x0d, 0x0d, 0x0a],
            2 => pcap(false, false),
            3 => pcap(true, true),
            4 => pcapng(true),
            _ => pcapng(false),
        };
        file.extend(tail);
        for (at, byte) in changed {
            if !file.is_empty() {
                let at = at.index(file.len());
                file[at] = byte;
            }
        }
        read(&file, size);
    }
}

/// The attack: a few KiB of gzip with a record that has no end, or with records without end.
#[test]
fn a_capture_that_expands_is_read_as_a_stream() {
    use std::io::{Read, Write};
    let packed = |begin: &[u8], zeros: usize| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(begin).unwrap();
        out.write_all(&vec![0; zeros]).unwrap();
        out.finish().unwrap()
    };
    let head = &pcap(false, false)[..24];
    let claim = |length: u32| {
        let record = [0, 0, length, length].map(u32::to_le_bytes).concat();
        [head, &record].concat()
    };
    let most = super::super::record::MAX_RECORD;
    let beyond = claim(most as u32 + 1);
    for (begin, is_damaged) in [
        (head, false),
        (&claim(most as u32), false),
        (&claim(u32::MAX), true),
        (&beyond, true),
    ] {
        let file = packed(begin, 24 << 20);
        assert!(file.len() < 256 << 10, "{}", file.len());
        let mut content = super::super::compression::decompressed(std::io::Cursor::new(file)).unwrap();
        let (mut records, mut piece) = (Records::default(), vec![0; 256 << 10]);
        let mut end = Ok(false);
        while end == Ok(false) {
            let length = content.read(&mut piece).unwrap();
            if length == 0 {
                break;
            }
            records.feed(Bytes::copy_from_slice(&piece[..length]));
            loop {
                end = records.advance();
                assert!(records.left_over() <= most + 16 + piece.len());
                if end != Ok(true) {
                    break;
                }
            }
        }
        assert_eq!(end.is_err(), is_damaged, "{end:?}");
    }
}
