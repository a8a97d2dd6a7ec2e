//! More than fits on a disk: a capture that is made while it is read, through a pipe, as tcpdump's is.

use std::{
    io::{self, Write},
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    check,
    generator::{self, Generated},
    process,
};

/// Lines of the table.
const PARTS: u64 = 10;

/// Counts what has been written.
struct Counted<'c, W> {
    out: W,
    written: &'c AtomicU64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.out.write(bytes)?;
        self.written.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Reads `bytes` bytes in windows of a minute of the capture; prints what is in memory, and what it took.
pub(crate) fn run(bytes: u64) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    let (started, busy) = (Instant::now(), process::children_time()?);
    let mut child = Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .args(["--log", "error", "sniff", "-", "--window", "60s", "--report"])
        .arg(&report)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let written = AtomicU64::new(0);
    println!("| read, GB | most in memory since the line before, MiB | seconds |\n| --- | --- | --- |");
    let generated = thread::scope(|scope| -> io::Result<Generated> {
        let out = Counted {
            out: input,
            written: &written,
        };
        let writing = scope.spawn(move || generator::write(out, bytes));
        for part in 1..=PARTS {
            let mut most = 0;
            while written.load(Ordering::Relaxed) < bytes / PARTS * part && !writing.is_finished() {
                most = most.max(process::resident(child.id()));
                thread::sleep(Duration::from_millis(20));
            }
            println!(
                "| {:.1} | {} | {:.0} |",
                written.load(Ordering::Relaxed) as f64 / 1e9,
                most / 1024,
                started.elapsed().as_secs_f64()
            );
        }
        writing.join().map_err(|_| io::Error::other("nothing was made"))?
    })?;
    let status = child.wait()?;
    if !status.success() {
        return Err(io::Error::other(format!("it ended with {status}")));
    }
    check(&report, &generated)?;
    let busy = process::children_time()?.saturating_sub(busy).as_secs_f64();
    println!(
        "\n{} requests in {} packets, all audited: {:.2} GB a second and core, {:.0} ns a request",
        generated.requests,
        generated.packets,
        generated.bytes as f64 / 1e9 / busy,
        busy * 1e9 / generated.requests as f64
    );
    Ok(())
}
