//! Rules on deleted data that reads still have to pass.

mod tombstone_heavy_read;

pub(super) use tombstone_heavy_read::TombstoneHeavyRead;
