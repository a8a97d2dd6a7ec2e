//! Rules on deleted data: what leaves it behind, and the reads that still have to pass it.

mod collection_overwrite;
mod delete_heavy;
mod null_insert;
mod queue_pattern;
mod tombstone_heavy_read;
mod writers;

pub(super) use collection_overwrite::CollectionOverwrite;
pub(super) use delete_heavy::DeleteHeavy;
pub(super) use null_insert::NullInsert;
pub(super) use queue_pattern::QueuePattern;
pub(super) use tombstone_heavy_read::TombstoneHeavyRead;
