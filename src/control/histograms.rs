//! What a node counts of its reads by itself: virtual tables of `system_views`.

use std::collections::BTreeMap;

use super::SystemReader;
use cqlens_audit::{
    audit::{Histogram, ReadHistograms},
    catalog::Record,
};
use cqlens_client::ClientError;

impl SystemReader {
    /// `system_views.tombstones_per_read` and `rows_per_read` of this node: Cassandra 4.0 and later.
    ///
    /// # Errors
    /// The connection's and the server's: a node that has no such tables says that there are none.
    pub async fn read_histograms(&mut self) -> Result<Vec<ReadHistograms>, ClientError> {
        let mut tables: BTreeMap<(String, String), ReadHistograms> = BTreeMap::new();
        for tombstones in [true, false] {
            let view = if tombstones { "tombstones" } else { "rows" };
            let cql = format!("SELECT * FROM system_views.{view}_per_read");
            for record in self.records(&cql).await? {
                let name = (record.text("keyspace_name"), record.text("table_name"));
                let table = tables.entry(name).or_default();
                match tombstones {
                    true => table.tombstones = histogram(&record),
                    false => table.rows = histogram(&record),
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

fn histogram(record: &Record) -> Histogram {
    Histogram {
        p99: record.count("p99th"),
        max: record.count("max"),
    }
}
