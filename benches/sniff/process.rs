//! What the kernel says of a process: processor time, and the most memory that it had.

use std::{
    fs, io,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// What a run took.
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// Of all its threads.
    pub(crate) processor: Duration,
    /// `VmHWM`.
    pub(crate) memory_kib: u64,
}

/// Runs a command to its end, without its output.
pub(crate) fn measure(mut command: Command) -> io::Result<Cost> {
    let (started, busy) = (Instant::now(), children_time()?);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let mut memory_kib = 0;
    let status = loop {
        memory_kib = memory_kib.max(most_memory(child.id()));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        sleep(Duration::from_millis(5));
    };
    if !status.success() {
        return Err(io::Error::other(format!("{command:?} ended with {status}")));
    }
    Ok(Cost {
        wall: started.elapsed(),
        processor: children_time()?.saturating_sub(busy),
        memory_kib,
    })
}

/// The most that it had, in kibibytes; 0 once it has ended.
fn most_memory(id: u32) -> u64 {
    memory(id, "VmHWM:")
}

/// What a process has in memory now, in kibibytes; 0 once it has ended.
pub(crate) fn resident(id: u32) -> u64 {
    memory(id, "VmRSS:")
}

fn memory(id: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0)
}

/// Processor time of this process.
pub(crate) fn own_time() -> io::Result<Duration> {
    ticks(11)
}

/// Processor time of children that have ended.
pub(crate) fn children_time() -> io::Result<Duration> {
    ticks(13)
}

/// Two neighbouring fields of `/proc/self/stat`, user and system, counted from the one behind the name. A
/// tick is 10 ms wherever Linux runs.
fn ticks(first: usize) -> io::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    let of = |field: &str| field.parse::<u64>().unwrap_or(0);
    let ticks: u64 = fields.split(' ').skip(first).take(2).map(of).sum();
    Ok(Duration::from_millis(10 * ticks))
}
