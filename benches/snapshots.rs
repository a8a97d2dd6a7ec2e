//! How long does `cqlens report` take for a month of a fleet, and how much memory? Hourly snapshots of two proxies, each
//! of 200 statements on 60 tables; the program itself reads them, and its peak is what Linux counts (`VmHWM`).
//!
//! `cargo bench --bench snapshots`; other numbers of hours and proxies: `-- 720 10`.
#![allow(clippy::print_stdout, reason = "the table is what this prints")]

#[path = "../tests/snapshots/fleet.rs"]
mod fleet;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use cqlens::sink::{Retention, SnapshotDir};
use cqlens_window::Detail;

const HOURS: i64 = 720;
const PROXIES: i64 = 2;

fn main() -> anyhow::Result<()> {
    let numbers: Vec<i64> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let hours = numbers.first().copied().unwrap_or(HOURS);
    let proxies = numbers.get(1).copied().unwrap_or(PROXIES);
    let folder = tempfile::tempdir()?;
    println!("| hourly snapshots | on the disk | time | of one | peak memory |");
    println!("| --- | --- | --- | --- | --- |");
    // A tenth first: memory does not grow with the number of files.
    let mut written = 0;
    for until in [hours / 10, hours] {
        for hour in written..until {
            write(folder.path(), hour, proxies)?;
        }
        written = until;
        let (count, bytes) = files(folder.path())?;
        let begun = Instant::now();
        let peak = report(folder.path())?;
        let took = begun.elapsed();
        println!(
            "| {count} | {} MB | {:.1} s | {:.1} ms | {} MiB |",
            bytes / 1_000_000,
            took.as_secs_f64(),
            took.as_secs_f64() * 1e3 / count as f64,
            peak >> 10
        );
    }
    Ok(())
}

fn write(folder: &Path, hour: i64, proxies: i64) -> anyhow::Result<()> {
    // They are merged ones.
    let in_full = Retention {
        in_full: true,
        ..Retention::default()
    };
    let dir = SnapshotDir::open(folder, in_full)?;
    for proxy in 0..proxies {
        let mut snapshot = fleet::snapshot(&format!("proxy-{proxy}"), hour * 60, 60);
        snapshot.window.condense(Detail::Hour);
        dir.write(&mut snapshot)?;
    }
    Ok(())
}

fn files(folder: &Path) -> anyhow::Result<(u64, u64)> {
    let mut all = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(".gz") {
            all = (all.0 + 1, all.1 + entry.metadata()?.len());
        }
    }
    Ok(all)
}

/// Makes a report of everything, and gives the most memory that was resident, in KiB.
fn report(folder: &Path) -> anyhow::Result<u64> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .arg("report")
        .arg(folder)
        .arg("-o")
        .arg(folder.join("report.json"))
        .stdout(Stdio::null())
        .spawn()
        .context("cqlens does not start")?;
    let mut peak = 0;
    let status = loop {
        peak = peak.max(resident(&program));
        if let Some(status) = program.try_wait()? {
            break status;
        }
        sleep(Duration::from_millis(20));
    };
    ensure!(status.success(), "cqlens report ended with {status}");
    Ok(peak)
}

fn resident(program: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    number.unwrap_or(0)
}
