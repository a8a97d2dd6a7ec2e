//! Rules on deleted data: what leaves it behind, and the reads that still have to pass it.

mod collection_overwrite;
mod delete_heavy;
mod null_insert;
mod tombstone_heavy_read;

use cqlens_proto::cql::ast::{Body, Modification, Statement};

pub(super) use collection_overwrite::CollectionOverwrite;
pub(super) use delete_heavy::DeleteHeavy;
pub(super) use null_insert::NullInsert;
pub(super) use tombstone_heavy_read::TombstoneHeavyRead;

/// What a statement writes, the statements of a batch each.
fn modifications<'text>(statement: &Statement<'text>) -> Vec<Modification<'text>> {
    match &statement.body {
        Body::Insert(insert) => vec![Modification::Insert(insert.clone())],
        Body::Update(update) => vec![Modification::Update(update.clone())],
        Body::Delete(delete) => vec![Modification::Delete(delete.clone())],
        Body::Batch(batch) => batch.statements.clone(),
        _ => Vec::new(),
    }
}
