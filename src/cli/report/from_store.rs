//! Snapshots out of the store to which many proxies write: one after the other, day by day.

use std::path::Path;

use anyhow::{Context, ensure};
use cqlens_audit::window::Snapshot;
use cqlens_fleet::Address;
use jiff::{Timestamp, ToSpan, civil::Date};

use super::{
    merged::{Choice, Merged},
    progress::Progress,
    reading::{Reading, Visitor},
};
use crate::cli::{fleet, output::today};

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
    let reading = runtime.block_on(read_all(address, choice, visitor, progress));
    let (reading, snapshots) = reading.with_context(|| format!("cannot read {address}"))?;
    ensure!(snapshots > 0, "{address} has no snapshot of that span of time");
    reading.finish(snapshots)
}

async fn read_all<'v>(
    address: &Address,
    choice: Choice,
    visitor: &'v mut dyn Visitor,
    progress: &mut Progress,
) -> anyhow::Result<(Reading<'v>, usize)> {
    let mut store = fleet::open(address)?;
    let mut to_read = Vec::new();
    for day in days(&choice) {
        let sources = store.sources(day).await?;
        to_read.extend(sources.into_iter().map(|source| (day, source)));
    }
    let mut reading = Reading::new(choice, visitor)?;
    let mut snapshots = 0;
    for (done, (day, source)) in to_read.iter().enumerate() {
        progress.show(done, to_read.len());
        let take = |name: cqlens_fleet::WindowName, bytes: bytes::Bytes| {
            snapshots += 1;
            reading.take(Path::new(&name.to_string()), Snapshot::read(&bytes[..]))
        };
        store.windows(*day, source, take).await?;
    }
    progress.clear();
    Ok((reading, snapshots))
}

/// The days on which windows of the chosen span of time may have begun, in UTC.
fn days(choice: &Choice) -> impl Iterator<Item = Date> {
    let now = Timestamp::now();
    let first = today(choice.since.unwrap_or(now));
    let last = today(choice.until.unwrap_or(now));
    first.series(1.day()).take_while(move |day| *day <= last)
}
