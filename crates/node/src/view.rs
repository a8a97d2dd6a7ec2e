//! Materialized views, derived from their base when they are read.
//!
//! A real node keeps a view up to date with every write; what a reader sees is the same. Of a view's `WHERE`
//! only `IS NOT NULL` on the columns of its key is obeyed.

use bytes::Bytes;

use super::failure::Failure;
use super::layout::{Column, Layout, RowView};
use super::store::{Cell, Liveness, PartitionId, Passed, Seconds, StoredTable, Stretch};

/// The rows of a view, from those of its base.
///
/// # Errors
/// Columns that the base does not have.
pub(super) fn derive(
    view: &Layout,
    base: &Layout,
    base_rows: &StoredTable,
    now: Seconds,
) -> Result<StoredTable, Failure> {
    let mut rows = StoredTable::default();
    let columns = view.columns.iter().map(|column| base.column(&column.name));
    let columns: Vec<&Column> = columns.collect::<Result<_, _>>()?;
    let (key, others) = columns.split_at(view.partition_key_len);
    let (clustering, values) = others.split_at(view.clustering_len);
    for (_, partition) in base_rows.range(..) {
        for passed in partition.scan(&Stretch::ALL, false) {
            let Passed::Row(_, row) = passed else { continue };
            if !row.is_live(now) {
                continue;
            }
            let seen = RowView {
                layout: base,
                partition,
                row: Some(row),
                now,
            };
            let all = |columns: &[&Column]| -> Option<Vec<Bytes>> {
                columns.iter().map(|column| seen.value(column).cloned()).collect()
            };
            let (Some(key), Some(clustering)) = (all(key), all(clustering)) else {
                continue;
            };
            let Some(id) = PartitionId::of(&key) else { continue };
            let timestamp = row.liveness.map_or(0, |liveness| liveness.timestamp);
            rows.partition_mut(id, &key)
                .change_row(&view.clustering_key(clustering), |view_row| {
                    view_row.insert(Liveness {
                        timestamp,
                        expiry: None,
                    });
                    for column in values {
                        if let Some(value) = seen.value(column) {
                            let cell = Cell {
                                timestamp,
                                value: Some(value.clone()),
                                expiry: None,
                            };
                            view_row.write(&column.name, cell);
                        }
                    }
                });
        }
    }
    Ok(rows)
}
