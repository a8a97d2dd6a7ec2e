//! A fleet's month: what a report takes on one machine, and what the jobs of `examples/spark` take with a local master of as many
//! processors as there are. Hourly snapshots as `--sink` writes them, of 200 statements on 60 tables each; what 1,000 proxies have in 30 days is
//! worked out of it, since everything here grows with the number of windows.
//!
//! `cargo bench --all-features --bench fleet`; other numbers of hours and proxies: `-- 48 20`. Spark is left out where Java or the network is missing.
#![allow(clippy::print_stdout, reason = "the tables are what this prints")]

#[path = "../tests/snapshots/fleet.rs"]
mod fleet;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::ensure;
use cqlens::sink::{Retention, SnapshotDir};
use cqlens_testing::{Missing, spark};
use cqlens_window::Detail;

const HOURS: i64 = 48;
const PROXIES: i64 = 20;
/// Windows of a thousand proxies in thirty days.
const MONTH: f64 = 1_000.0 * 30.0 * 24.0;

struct Fleet {
    folder: tempfile::TempDir,
    /// A folder without snapshots.
    nothing: tempfile::TempDir,
    windows: u64,
}

impl Fleet {
    fn new(hours: i64, proxies: i64) -> anyhow::Result<Self> {
        let fleet = Self {
            folder: tempfile::tempdir()?,
            nothing: tempfile::tempdir()?,
            windows: u64::try_from(hours * proxies)?,
        };
        // They are merged ones.
        let in_full = Retention {
            in_full: true,
            ..Retention::default()
        };
        for hour in 0..hours {
            for proxy in 0..proxies {
                let source = format!("proxy-{proxy}");
                let mut snapshot = fleet::snapshot(&source, hour * 60, 60);
                snapshot.window.condense(Detail::Hour);
                let day = snapshot.window.start.to_string();
                let day = day.split('T').next().unwrap_or_default();
                let folder = fleet.path("snapshots").join(day).join(&source);
                fs::create_dir_all(&folder)?;
                SnapshotDir::open(&folder, in_full)?.write(&mut snapshot)?;
            }
        }
        Ok(fleet)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folders of sources on days.
    fn folders(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        for day in fs::read_dir(self.path("snapshots"))? {
            for source in fs::read_dir(day?.path())? {
                folders.push(source?.path());
            }
        }
        Ok(folders)
    }

    fn row(&self, what: &str, took: Duration, peak: Option<u64>) {
        let (windows, seconds) = (self.windows as f64, took.as_secs_f64());
        let rows = windows * 200.0 / seconds;
        let peak = peak.map_or("–".to_owned(), |kib| format!("{} MiB", kib >> 10));
        println!(
            "| {what} | {seconds:.1} s | {:.0} | {rows:.0} | {peak} | {:.1} h |",
            windows / seconds,
            seconds / windows * MONTH / 3600.0
        );
    }
}

fn main() -> anyhow::Result<()> {
    let numbers: Vec<i64> = env::args().filter_map(|argument| argument.parse().ok()).collect();
    let hours = numbers.first().copied().unwrap_or(HOURS);
    let proxies = numbers.get(1).copied().unwrap_or(PROXIES);
    let fleet = Fleet::new(hours, proxies)?;
    let tables = fleet.path("tables");
    let mut cqlens = Command::new(env!("CARGO_BIN_EXE_cqlens"));
    cqlens
        .arg("export")
        .args(fleet.folders()?)
        .arg("--parquet")
        .arg(&tables);
    let exported = timed(&mut cqlens)?;
    println!(
        "| {} windows | bytes | of a window | 1,000 proxies × 30 days |",
        fleet.windows
    );
    println!("| --- | --- | --- | --- |");
    for (what, folder) in [
        ("snapshots", fleet.path("snapshots")),
        ("Parquet", tables.clone()),
    ] {
        let bytes = bytes(&folder)?;
        let each = bytes as f64 / fleet.windows as f64;
        println!("| {what} | {bytes} | {each:.0} | {:.0} GB |", each * MONTH / 1e9);
    }
    println!("\n| | time | windows/s | rows of statements/s | peak memory | 1,000 proxies × 30 days |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut cqlens = Command::new(env!("CARGO_BIN_EXE_cqlens"));
    cqlens
        .arg("report")
        .args(fleet.folders()?)
        .args(["--format", "json"]);
    let (took, peak) = timed(&mut cqlens)?;
    fleet.row("`cqlens report`", took, Some(peak));
    fleet.row("`cqlens export --parquet`", exported.0, Some(exported.1));
    if let Err(Missing(why)) = with_spark(&fleet) {
        println!("\nSpark is left out because {why}");
    }
    Ok(())
}

fn with_spark(fleet: &Fleet) -> Result<(), Missing> {
    // Of nothing: what Spark itself takes to start.
    let start = job("merge_windows.py", fleet.nothing.path(), &fleet.path("none"))?;
    println!("| Spark starts and ends | {:.1} s | | | | |", start.as_secs_f64());
    for (name, from) in [("fleet_tables.py", "tables"), ("merge_windows.py", "snapshots")] {
        let took = job(name, &fleet.path(from), &fleet.path("made"))?;
        fleet.row(
            &format!("`{name}`, beyond that"),
            took.saturating_sub(start),
            None,
        );
    }
    Ok(())
}

/// How long a job takes.
fn job(name: &str, from: &Path, to: &Path) -> Result<Duration, Missing> {
    let begun = Instant::now();
    spark::submit(env!("CARGO_BIN_EXE_cqlens"), name, &[from, to])?;
    Ok(begun.elapsed())
}

/// How long a command takes, and its peak in KiB.
fn timed(command: &mut Command) -> anyhow::Result<(Duration, u64)> {
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn()?;
    let mut peak = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        peak = peak.max(high_water(&child).unwrap_or(0));
        sleep(Duration::from_millis(5));
    };
    ensure!(status.success(), "{command:?}: {status}");
    Ok((begun.elapsed(), peak))
}

fn high_water(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

fn bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut all = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        all += match entry.file_type()?.is_dir() {
            true => bytes(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(all)
}
