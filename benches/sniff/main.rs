//! How fast is a capture read? Gigabytes a second and core of `cqlens sniff` over a capture of point reads in
//! version 4, beside reading the file alone and beside `tshark -T fields`; and how much memory it takes for a
//! file and for one four times as large.
//!
//! `CQLENS_SNIFF_BYTES=1000000000` says how large the file is (250 MB if not set);
//! `CQLENS_SNIFF_STREAM=50000000000` reads so much from a pipe instead, and shows what is in memory
//! meanwhile. tshark, where it is installed, gets the first twentieth of it: it keeps what it has seen. Linux
//! only: processor time and memory are what the kernel says of the processes. Nothing is asserted but that
//! all requests were seen: machines are noisy.
#![allow(clippy::print_stdout, reason = "the table is what this prints")]

mod generator;
mod process;
mod stream;

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    process::Command,
    time::Instant,
};

use generator::{Generated, generate};
use process::{Cost, measure};

const DEFAULT_BYTES: u64 = 250_000_000;
/// tshark's part of the file.
const SLICE: u64 = 20;
const ROUNDS: usize = 3;

fn main() -> io::Result<()> {
    if let Some(bytes) = bytes_in("CQLENS_SNIFF_STREAM")? {
        return stream::run(bytes);
    }
    let bytes = bytes_in("CQLENS_SNIFF_BYTES")?.unwrap_or(DEFAULT_BYTES);
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name);
    let (quarter, whole, slice) = (file("quarter.pcap"), file("whole.pcap"), file("slice.pcap"));
    let part = generate(&quarter, bytes / 4)?;
    let all = generate(&whole, bytes)?;
    let little = generate(&slice, bytes / SLICE)?;
    println!(
        "{} MB, {} requests, {} packets\n",
        all.bytes / 1_000_000,
        all.requests,
        all.packets
    );
    println!("| what | MB a second | GB a second and core | ns a request | most memory, MiB |");
    println!("| --- | --- | --- | --- | --- |");
    for _ in 0..ROUNDS {
        print("reading the file alone", &read_alone(&whole, &all)?);
        print("`cqlens sniff`", &sniff(folder.path(), &whole, &all)?);
    }
    print(
        "`cqlens sniff`, a quarter of the file",
        &sniff(folder.path(), &quarter, &part)?,
    );
    match tshark(&slice, &little)? {
        Some(cost) => print("`tshark -T fields`, a twentieth of the file", &cost),
        None => println!("\ntshark is not installed"),
    }
    Ok(())
}

fn bytes_in(variable: &str) -> io::Result<Option<u64>> {
    let bytes = std::env::var(variable).ok();
    bytes
        .map(|bytes| bytes.parse().map_err(io::Error::other))
        .transpose()
}

fn print(what: &str, row: &Row) {
    let megabytes = row.bytes as f64 / 1e6;
    let seconds = row.cost.wall.as_secs_f64();
    let busy = row.cost.processor.as_secs_f64();
    println!(
        "| {what} | {:.0} | {:.2} | {:.0} | {} |",
        megabytes / seconds,
        megabytes / 1e3 / busy,
        busy * 1e9 / row.requests as f64,
        row.cost.memory_kib / 1024
    );
}

/// What reading one file took.
struct Row {
    bytes: u64,
    requests: u64,
    cost: Cost,
}

impl Row {
    fn new(generated: &Generated, cost: Cost) -> Self {
        Self {
            bytes: generated.bytes,
            requests: generated.requests,
            cost,
        }
    }
}

/// In pieces of the size in which cqlens reads, and nothing is done with them.
fn read_alone(path: &Path, generated: &Generated) -> io::Result<Row> {
    let (started, busy) = (Instant::now(), process::own_time()?);
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut length = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => length += read as u64,
        }
    }
    assert_eq!(length, generated.bytes);
    let cost = Cost {
        wall: started.elapsed(),
        processor: process::own_time()?.saturating_sub(busy),
        memory_kib: 1024,
    };
    Ok(Row::new(generated, cost))
}

fn sniff(folder: &Path, path: &Path, generated: &Generated) -> io::Result<Row> {
    let report = folder.join("report.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cqlens"));
    command.args(["--log", "error", "sniff"]).arg(path);
    command.args(["--window", "3600s", "--report"]).arg(&report);
    let cost = measure(command)?;
    check(&report, generated)?;
    Ok(Row::new(generated, cost))
}

/// Everything was seen.
fn check(report: &Path, generated: &Generated) -> io::Result<()> {
    let report: serde_json::Value = serde_json::from_reader(File::open(report)?)?;
    let coverage = &report["coverage"];
    assert_eq!(coverage["audited"], generated.requests, "{coverage}");
    assert_eq!(coverage["partitions_exact"], generated.reads, "{coverage}");
    Ok(())
}

/// The dissector of CQL, and the least that tells a point read from another.
fn tshark(path: &Path, generated: &Generated) -> io::Result<Option<Row>> {
    if Command::new("tshark").arg("--version").output().is_err() {
        return Ok(None);
    }
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path);
    command.args([
        "-T",
        "fields",
        "-e",
        "frame.time_epoch",
        "-e",
        "cql.opcode",
        "-e",
        "cql.stream",
        "-e",
        "cql.bytes",
    ]);
    Ok(Some(Row::new(generated, measure(command)?)))
}
