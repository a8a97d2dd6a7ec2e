//! Snapshots out of the store to which many proxies write: one after the other, day by day.

use std::path::Path;

use anyhow::{Context, ensure};
use cqlens_fleet::{Address, WindowName};
use cqlens_window::{Snapshot, SnapshotError};
use jiff::{Timestamp, ToSpan, civil::Date};

use super::{
    merged::{Choice, Merged},
    progress::Progress,
    reading::{Finished, Reading, Visitor},
};
use crate::{
    cli::{fleet, output::today},
    sink,
};

/// Reads what the store has of the chosen span of time. One snapshot is in memory beside what they are merged into.
///
/// # Errors
/// A store that cannot be read, and those of [`Reading::finish`].
pub(super) fn read(
    address: &Address,
    choice: Choice,
    visitor: &mut dyn Visitor,
    progress: &mut Progress,
) -> anyhow::Result<Merged> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let mut cluster = None;
    loop {
        let reading = read_all(address, choice.clone(), cluster, visitor, progress);
        let (reading, snapshots) = runtime
            .block_on(reading)
            .with_context(|| format!("cannot read {address}"))?;
        ensure!(snapshots > 0, "{address} has no snapshot of that span of time");
        match reading.finish(snapshots)? {
            Finished::Merged(merged) => return Ok(*merged),
            Finished::IsOf(name) => cluster = Some(name),
        }
    }
}

async fn read_all<'v>(
    address: &Address,
    choice: Choice,
    cluster: Option<String>,
    visitor: &'v mut dyn Visitor,
    progress: &mut Progress,
) -> anyhow::Result<(Reading<'v>, usize)> {
    let mut store = fleet::open(address)?;
    let mut to_read = Vec::new();
    for day in days(&choice) {
        let sources = store.sources(day).await?;
        to_read.extend(sources.into_iter().map(|source| (day, source)));
    }
    let mut reading = Reading::new(choice, cluster, visitor)?;
    let mut snapshots = 0;
    for (done, (day, source)) in to_read.iter().enumerate() {
        progress.show(done, to_read.len());
        let each = |name: WindowName, bytes: bytes::Bytes| {
            snapshots += 1;
            take(&mut reading, &name, Snapshot::read(&bytes[..]))
        };
        store.windows(*day, source, each).await?;
    }
    let left_out = store.left_out();
    reading.leave_out_names(left_out.count, left_out.names)?;
    progress.clear();
    Ok((reading, snapshots))
}

/// Takes a window, if it is what its folder and name say. A copy of one in the folder of another source would displace the
/// original, since both cannot count.
fn take(
    reading: &mut Reading<'_>,
    name: &WindowName,
    read: Result<Snapshot, SnapshotError>,
) -> anyhow::Result<()> {
    let path = name.to_string();
    match read {
        Ok(snapshot) if !is_of(&snapshot, name) => {
            let sources: Vec<_> = snapshot.window.sources.iter().map(String::as_str).collect();
            reading.misplace(name.source(), &path, &sources)
        }
        read => reading.take(Path::new(&path), true, read),
    }
}

/// Whether all that is in a snapshot is of the source and time that its name has.
fn is_of(snapshot: &Snapshot, name: &WindowName) -> bool {
    let window = &snapshot.window;
    let observed = window.observed.sources().map(|(source, _)| source);
    let mut sources = window.sources.iter().map(String::as_str).chain(observed);
    window.start.as_millisecond() == name.start().as_millisecond()
        && sources.all(|source| sink::part_of_name(source) == name.source())
}

/// The days on which windows of the chosen span of time may have begun, in UTC.
fn days(choice: &Choice) -> impl Iterator<Item = Date> {
    let now = Timestamp::now();
    let first = today(choice.since.unwrap_or(now));
    let last = today(choice.until.unwrap_or(now));
    first.series(1.day()).take_while(move |day| *day <= last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{fs, path::PathBuf};

    use super::{super::tests::snapshot, *};
    use crate::sink::{part_of_name, write_snapshot};

    /// Where a window that began then lies in a store, in the folder of a source.
    fn place(store: &Path, source: &str) -> PathBuf {
        let folder = store.join("2026-11-21").join(source);
        fs::create_dir_all(&folder).unwrap();
        folder.join(format!("20261121T060000000Z-{source}.cqlens.json.gz"))
    }

    fn merged(store: &Path, strict: bool) -> anyhow::Result<Merged> {
        let choice = Choice {
            since: Some("2026-11-21T00:00:00Z".parse().unwrap()),
            until: Some("2026-11-22T00:00:00Z".parse().unwrap()),
            strict,
            ..Choice::default()
        };
        let address = store.to_str().unwrap().parse().unwrap();
        read(&address, choice, &mut (), &mut Progress::begin("days of sources"))
    }

    #[test]
    fn a_copy_in_the_folder_of_another_source_does_not_displace_the_original() {
        let store = tempfile::tempdir().unwrap();
        let original = snapshot("cluster", "2026-11-21T06:00:00Z");
        let watched = original.window.sources.first().unwrap().clone();
        let source = part_of_name(&watched);
        let mut copy = original.clone();
        (copy.window.coverage.requests, copy.window.coverage.audited) = (0, 0);
        // Before the original in the order of names.
        write_snapshot(&copy, &place(store.path(), "0")).unwrap();
        write_snapshot(&original, &place(store.path(), &source)).unwrap();
        let coverage = merged(store.path(), false).unwrap().window.coverage;
        assert_eq!(coverage.requests, 100);
        let notices = coverage.notices.into_iter().collect::<String>();
        assert!(
            notices.contains("1 snapshot is in the folder of a source"),
            "{notices}"
        );
        let named = format!("20261121T060000000Z-0.cqlens.json.gz (of {watched})");
        assert!(notices.contains(&named), "{notices}");
        assert!(merged(store.path(), true).is_err());
    }

    #[test]
    fn what_is_no_window_is_counted_and_named_and_the_rest_is_read() {
        let store = tempfile::tempdir().unwrap();
        let original = snapshot("cluster", "2026-11-21T06:00:00Z");
        let source = part_of_name(original.window.sources.first().unwrap());
        write_snapshot(&original, &place(store.path(), &source)).unwrap();
        fs::create_dir(store.path().join("2026-11-21/a\u{1b}[2J")).unwrap();
        let coverage = merged(store.path(), false).unwrap().window.coverage;
        assert_eq!(coverage.requests, 100);
        let notices = coverage.notices.into_iter().collect::<String>();
        assert!(
            notices.contains("1 object of the store is no window"),
            "{notices}"
        );
        assert!(notices.contains("a\\u{1b}[2J"), "{notices}");
    }
}
