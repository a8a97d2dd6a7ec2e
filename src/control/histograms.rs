//! What a node counts of its reads by itself: virtual tables of `system_views`.

use std::collections::BTreeMap;

use super::SystemReader;
use cqlens_audit::{
    audit::{Histogram, ReadHistograms},
    catalog::Record,
};
use cqlens_client::ClientError;

impl SystemReader {
    /// `system_views.tombstones_per_read`, `rows_per_read` and `max_partition_size` of this node: Cassandra 4.0 and
    /// later.
    ///
    /// # Errors
    /// The connection's and the server's: a node that has no such tables says that there are none.
    pub async fn read_histograms(&mut self) -> Result<Vec<ReadHistograms>, ClientError> {
        let mut tables: BTreeMap<(String, String), ReadHistograms> = BTreeMap::new();
        for view in View::ALL {
            let cql = format!("SELECT * FROM system_views.{}", view.name());
            for record in self.records(&cql).await? {
                let name = (record.text("keyspace_name"), record.text("table_name"));
                let table = tables.entry(name).or_default();
                match view {
                    View::Tombstones => table.tombstones = histogram(&record),
                    View::Rows => table.rows = histogram(&record),
                    View::LargestPartition => table.largest_partition_mib = Some(record.count("mebibytes")),
                }
            }
        }
        let named = tables
            .into_iter()
            .map(|((keyspace, table), told)| ReadHistograms {
                keyspace,
                table,
                ..told
            });
        Ok(named.collect())
    }
}

#[derive(Clone, Copy)]
enum View {
    Tombstones,
    Rows,
    LargestPartition,
}

impl View {
    const ALL: [Self; 3] = [Self::Tombstones, Self::Rows, Self::LargestPartition];

    fn name(self) -> &'static str {
        match self {
            Self::Tombstones => "tombstones_per_read",
            Self::Rows => "rows_per_read",
            Self::LargestPartition => "max_partition_size",
        }
    }
}

fn histogram(record: &Record) -> Histogram {
    Histogram {
        p99: record.count("p99th"),
        max: record.count("max"),
    }
}
