//! Rules on deleted data: what leaves it behind, and the reads that still have to pass it.

mod collection_overwrite;
mod delete_heavy;
mod null_insert;
mod queue_pattern;
mod time_window_misuse;
mod tombstone_heavy_read;
mod writers;

use super::{Context, Finding, KnownFrom, read::suggest};
use cqlens_cql::schema::TableName;
use cqlens_window::Tombstones;

/// Suggests a table like this one whose rows go as whole partitions.
fn by_hour(finding: Finding, name: &TableName, context: &Context<'_>) -> Finding {
    match context.schema.table(&name.keyspace, &name.table) {
        Some(table) => suggest::by_hour(finding, table, context),
        None => finding,
    }
}

/// How the server let it be known that reads passed tombstones: by itself, or where it was asked again.
fn reports(tombstones: &Tombstones) -> impl Iterator<Item = KnownFrom> {
    let ways = [
        (tombstones.warned, KnownFrom::ServerWarnings),
        (tombstones.aborted, KnownFrom::AbortedReads),
        (tombstones.traced, KnownFrom::TracedReads),
    ];
    ways.into_iter()
        .filter(|(times, _)| *times > 0)
        .map(|(_, way)| way)
}

pub(super) use collection_overwrite::CollectionOverwrite;
pub(super) use delete_heavy::DeleteHeavy;
pub(super) use null_insert::NullInsert;
pub(super) use queue_pattern::QueuePattern;
pub(super) use time_window_misuse::TimeWindowMisuse;
pub(super) use tombstone_heavy_read::TombstoneHeavyRead;
