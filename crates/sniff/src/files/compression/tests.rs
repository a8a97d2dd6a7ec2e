#![allow(clippy::unwrap_used)]
use std::{io::Write, process::Stdio};

use flate2::write::GzEncoder;
use proptest::{collection::vec, prelude::*};

use super::*;

/// What is packed: more than a block of any format's smallest.
fn content() -> Vec<u8> {
    (0..40_000_u32)
        .flat_map(|number| (number / 3).to_be_bytes())
        .collect()
}

fn unpacked(packed: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    decompressed(io::Cursor::new(packed))?.read_to_end(&mut out)?;
    Ok(out)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut out = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut out = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A frame of `pzstd`, which says how long the next one is.
fn skippable(kind: u8) -> Vec<u8> {
    [&[kind, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], b"abcd"].concat()
}

type Packer = fn(&[u8]) -> Vec<u8>;

const PACKERS: [(&str, Packer); 5] = [
    ("gzip", gzip),
    ("bzip2", bzip2),
    ("xz", xz),
    ("LZ4", lz4),
    ("zstd", zstd),
];

#[test]
fn every_format_is_unpacked_also_one_file_behind_another() {
    let content = content();
    for (name, pack) in PACKERS {
        let (half, rest) = content.split_at(50_000);
        assert_eq!(unpacked(pack(&content)).unwrap(), content, "{name}");
        let two = [pack(half), pack(rest)].concat();
        assert_eq!(unpacked(two).unwrap(), content, "{name}, twice");
        assert_eq!(unpacked(pack(b"")).unwrap(), b"", "{name} of nothing");
    }
    assert_eq!(unpacked(content.clone()).unwrap(), content);
    assert_eq!(unpacked(b"abc".to_vec()).unwrap(), b"abc");
}

#[test]
fn frames_are_passed_over_that_are_meant_to_be() {
    let content = content();
    let (half, rest) = content.split_at(50_000);
    for pack in [zstd as Packer, lz4] {
        let first = [skippable(0x50), pack(&content)].concat();
        assert_eq!(unpacked(first).unwrap(), content);
        let between = [
            pack(half),
            skippable(0x5f),
            skippable(0x51),
            pack(rest),
            skippable(0x50),
        ]
        .concat();
        assert_eq!(unpacked(between).unwrap(), content);
    }
    assert_eq!(unpacked([zstd(half), lz4(rest)].concat()).unwrap(), content);
}

/// The attack: many small frames, or many that are passed over, must not nest.
#[test]
fn frames_without_number_are_read_one_after_another() {
    let one = [skippable(0x50), zstd(b"a")].concat();
    assert_eq!(unpacked(one.repeat(50_000)).unwrap(), vec![b'a'; 50_000]);
}

#[test]
fn a_file_that_ends_early_or_is_damaged_is_no_whole_one() {
    let content = content();
    for (name, pack) in PACKERS {
        let packed = pack(&content);
        for left in [packed.len() - 1, packed.len() - 5, packed.len() / 2, 12] {
            assert!(unpacked(packed[..left].to_vec()).is_err(), "{name}, {left} bytes");
        }
        let behind = [&packed, &b"and something else"[..]].concat();
        assert!(unpacked(behind).is_err() || name == "gzip", "{name}");
    }
    // The decoder itself takes the end between two blocks for that of the frame.
    let packed = lz4(&content);
    for left in 12..packed.len() {
        assert!(unpacked(packed[..left].to_vec()).is_err(), "LZ4, {left} bytes");
    }
}

/// The attack: a small file that asks for gigabytes before its first byte.
#[test]
fn what_xz_may_keep_is_limited() {
    let mut options = lzma_rust2::XzOptions::with_preset(1);
    options.lzma_options.dict_size = 1 << 30;
    let mut out = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    out.write_all(b"a").unwrap();
    let error = unpacked(out.finish().unwrap()).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
}

/// Files as the programs of these formats write them, where they are installed.
#[test]
fn what_other_programs_pack_is_unpacked() {
    let content = content();
    for (program, arguments) in [
        ("xz", &["-9e", "-c"][..]),
        ("bzip2", &["-9", "-c"]),
        ("lz4", &["-9", "-c"]),
        ("lz4", &["-BD", "-c"]),
        ("zstd", &["-19", "-c"]),
    ] {
        let started = std::process::Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut started) = started else { continue };
        let mut input = started.stdin.take().unwrap();
        let given = content.clone();
        let giver = std::thread::spawn(move || input.write_all(&given).unwrap());
        let packed = started.wait_with_output().unwrap().stdout;
        giver.join().unwrap();
        assert_eq!(unpacked(packed).unwrap(), content, "{program} {arguments:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        packer in 0..PACKERS.len(),
        changed in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut packed = PACKERS[packer].1(&content()[..2_000]);
        for (at, byte) in changed {
            let at = at.index(packed.len());
            packed[at] = byte;
        }
        let mut out = Vec::new();
        if let Ok(from) = decompressed(io::Cursor::new(packed)) {
            // Whatever it unpacks to is read as a stream.
            let _ = from.take(1 << 20).read_to_end(&mut out);
        }
    }
}
