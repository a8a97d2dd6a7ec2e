//! What Linux says of this process, below `/proc/self`.

use std::fs;

use jiff::Timestamp;

use crate::metrics::Usage;

/// Of a process that began then. What cannot be read is left out.
pub(super) fn usage(began: Timestamp) -> Usage {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    Usage {
        began: began.as_millisecond() as f64 / 1e3,
        cpu_seconds: cpu_seconds(),
        resident_bytes: resident_bytes(),
        open_descriptors: fs::read_dir("/proc/self/fd")
            .ok()
            // One of them is that of the folder.
            .map(|open| (open.count() as u64).saturating_sub(1)),
        max_descriptors: limit,
    }
}

/// proc(5): the times in user and in system mode are fields 14 and 15 of `stat`, whose second field is a name in parentheses that may
/// hold anything.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ').skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / rustix::param::clock_ticks_per_second() as f64)
}

/// proc(5): the second field of `statm`, in pages.
fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn linux_says_what_a_process_uses() {
        let usage = usage(Timestamp::from_second(7).unwrap());
        assert!(usage.resident_bytes.unwrap() > 1 << 20, "{usage:?}");
        assert!(usage.open_descriptors.unwrap() >= 3, "{usage:?}");
        assert!(usage.cpu_seconds.unwrap() >= 0.0);
        assert!((usage.began - 7.0).abs() < 0.001);
    }
}
