//! The partition keys in the rows of an answer: what a scan shows of the partitions that it reads.
//!
//! Only the key's columns are read, of the first [`MAX_ROWS`] rows of an answer; they become keyed hashes at
//! once.

use std::{collections::HashMap, sync::Arc};

use cqlens_proto::message::{ColumnSpecs, Prepared, PreparedId, Rows};

use crate::audit::HashKey;
use crate::catalog::Live;
use cqlens_cql::schema::TableName;

/// How many rows of an answer are read.
pub(crate) const MAX_ROWS: usize = 1_000;

/// Where the columns of the partition key stand in the rows of a statement, in the key's order.
type Positions = Arc<[usize]>;

/// Finds the partition keys in rows.
///
/// Bounded: the positions of at most [`MAX_PREPARED`] prepared statements, all of which are dropped when
/// there are more.
#[derive(Debug)]
pub(crate) struct ScannedKeys {
    live: Arc<Live>,
    key: HashKey,
    /// Where a client leaves out the columns of rows, they are those of PREPARED.
    prepared: HashMap<Box<[u8]>, Positions>,
    /// The answer's partitions, by keyed hash: each once, where rows of one partition follow each other.
    hashes: Vec<u64>,
    /// The routing key of a row, and of the row before it.
    routing_key: Vec<u8>,
    previous: Vec<u8>,
}

/// What the rows of an answer show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScannedRows {
    /// Their partitions; none where there are no rows, or where the key is not in them.
    pub(crate) keys: Option<PageKeys>,
    /// Rows that were read.
    pub(crate) rows: u64,
    /// Rows that were not.
    pub(crate) left_out: u64,
    /// There are rows, but their columns are not known or not the key's.
    pub(crate) without_keys: bool,
}

/// The partitions in the rows of one answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageKeys {
    /// How many different ones.
    pub(crate) distinct: u64,
    /// That of the first row.
    pub(crate) first: u64,
    /// That of the last row that was read.
    pub(crate) last: u64,
    /// Partitions come one after the other, as the ring has them; else a later page may come back to an
    /// earlier one.
    pub(crate) in_ring_order: bool,
}

const MAX_PREPARED: usize = 4_096;

/// Longer ids are no server's: those are digests.
const MAX_ID: usize = 64;

impl ScannedKeys {
    /// Nothing prepared yet.
    pub(crate) fn new(live: Arc<Live>, key: HashKey) -> Self {
        Self {
            live,
            key,
            prepared: HashMap::new(),
            hashes: Vec::new(),
            routing_key: Vec::new(),
            previous: Vec::new(),
        }
    }

    /// Takes over where a prepared statement has its key.
    pub(crate) fn prepared(&mut self, cql: &str, prepared: &Prepared<'_>) {
        self.prepared.remove(prepared.id.0);
        let Some(columns) = &prepared.result.columns else {
            return;
        };
        if renames(cql) || prepared.id.0.len() > MAX_ID {
            return;
        }
        if let Some(positions) = self.positions(columns) {
            if self.prepared.len() >= MAX_PREPARED {
                self.prepared.clear();
            }
            self.prepared.insert(prepared.id.0.into(), positions);
        }
    }

    /// Reads the rows of a scan of `table` with the template `cql`; [`Self::hashes`] are their partitions
    /// afterwards.
    pub(crate) fn scan(
        &mut self,
        table: &TableName,
        cql: &str,
        id: Option<PreparedId<'_>>,
        rows: &Rows<'_>,
        in_ring_order: bool,
    ) -> ScannedRows {
        self.hashes.clear();
        let positions = match (&rows.metadata.columns, id) {
            (Some(columns), _) if !renames(cql) => self.positions(columns),
            (None, Some(id)) => self.prepared.get(id.0).cloned(),
            _ => None,
        };
        let Some(positions) = positions else {
            return ScannedRows {
                keys: None,
                rows: 0,
                left_out: 0,
                without_keys: !rows.is_empty(),
            };
        };
        let scanned = self.read(table, &positions, rows);
        let ends = self.hashes.first().copied().zip(self.hashes.last().copied());
        if !in_ring_order {
            self.hashes.sort_unstable();
            self.hashes.dedup();
        }
        let keys = ends.map(|(first, last)| PageKeys {
            distinct: self.hashes.len() as u64,
            first,
            last,
            in_ring_order,
        });
        ScannedRows {
            keys,
            rows: scanned,
            left_out: (rows.len() as u64).saturating_sub(scanned),
            without_keys: false,
        }
    }

    /// The partitions of the rows that were read last, by keyed hash.
    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Walks over the rows; how many there were.
    fn read(&mut self, table: &TableName, positions: &[usize], rows: &Rows<'_>) -> u64 {
        let mut scanned = 0;
        for row in rows.iter().take(MAX_ROWS) {
            let Ok(row) = row else { break };
            scanned += 1;
            self.routing_key.clear();
            let has_key = positions.iter().all(|&position| {
                let Some(Some(cell)) = row.cell(position) else {
                    return false;
                };
                append(&mut self.routing_key, cell, positions.len() > 1)
            });
            if !has_key || (scanned > 1 && self.routing_key == self.previous) {
                continue;
            }
            self.hashes.push(self.key.hash(table, &self.routing_key));
            std::mem::swap(&mut self.routing_key, &mut self.previous);
        }
        scanned
    }

    /// The positions of the partition key of the table that the columns are of; none if one of them is not
    /// there.
    fn positions(&self, columns: &ColumnSpecs<'_>) -> Option<Positions> {
        let first = columns.iter().next()?;
        let schema = self.live.schema();
        let table = schema.table(first.keyspace, first.table)?;
        let position = |name: &str| columns.iter().position(|column| column.name == name);
        table
            .partition_key()
            .iter()
            .map(|column| position(&column.name))
            .collect()
    }
}

/// Appends a part of a routing key: the cell itself, or with its length and an end mark where there are
/// several (`CompositeType`).
fn append(routing_key: &mut Vec<u8>, cell: &[u8], is_composite: bool) -> bool {
    if !is_composite {
        routing_key.extend_from_slice(cell);
        return true;
    }
    let Ok(length) = u16::try_from(cell.len()) else {
        return false;
    };
    routing_key.extend_from_slice(&length.to_be_bytes());
    routing_key.extend_from_slice(cell);
    routing_key.push(0);
    true
}

/// Whether a column may have been given the name of another one: `SELECT v AS k`.
fn renames(cql: &str) -> bool {
    let mut words = cql.split_ascii_whitespace();
    words.any(|word| word.eq_ignore_ascii_case("as"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_cql::schema::Schema;
    use cqlens_proto::{
        message::{BindMetadata, ColumnSpec, ResultMetadata, RowsContent, result::ColumnSpecsBuf},
        types::CqlType,
    };

    fn live() -> Arc<Live> {
        Arc::new(Live::with_schema(
            Schema::from_cql(
                "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
                 CREATE TABLE s.one (k text, c text, PRIMARY KEY (k, c));
                 CREATE TABLE s.two (b text, a text, c text, PRIMARY KEY ((a, b), c));",
            )
            .unwrap(),
        ))
    }

    fn name(table: &str) -> TableName {
        TableName {
            keyspace: "s".to_owned(),
            table: table.to_owned(),
        }
    }

    fn columns(table: &'static str, names: &[&'static str]) -> ColumnSpecsBuf {
        let spec = |&name: &&'static str| ColumnSpec {
            keyspace: "s",
            table,
            name,
            column_type: CqlType::Text,
        };
        ColumnSpecsBuf::new(&names.iter().map(spec).collect::<Vec<_>>()).unwrap()
    }

    fn content(rows: &[&[&str]]) -> RowsContent {
        let mut content = RowsContent::new(rows.first().map_or(0, |row| row.len()));
        for row in rows {
            content
                .push(row.iter().map(|cell| Some(cell.as_bytes())))
                .unwrap();
        }
        content
    }

    fn look(
        keys: &mut ScannedKeys,
        table: &'static str,
        cql: &str,
        named: &[&'static str],
        rows: &[&[&str]],
        in_ring_order: bool,
    ) -> ScannedRows {
        let (columns, content) = (columns(table, named), content(rows));
        let rows = Rows::new(ResultMetadata::new(columns.columns()), &content).unwrap();
        keys.scan(&name(table), cql, None, &rows, in_ring_order)
    }

    #[test]
    fn rows_of_one_partition_are_one_and_its_hash_is_that_of_a_read_that_names_it() {
        let key = HashKey::random();
        let mut keys = ScannedKeys::new(live(), key);
        let rows: &[&[&str]] = &[&["1", "x"], &["2", "x"], &["3", "y"]];
        let scanned = look(
            &mut keys,
            "one",
            "SELECT c, k FROM s.one",
            &["c", "k"],
            rows,
            true,
        );
        let seen = scanned.keys.unwrap();
        assert_eq!((seen.distinct, scanned.rows, scanned.left_out), (2, 3, 0));
        assert_eq!(
            keys.hashes(),
            [key.hash(&name("one"), b"x"), key.hash(&name("one"), b"y")]
        );
        assert_eq!((seen.first, seen.last), (keys.hashes()[0], keys.hashes()[1]));
    }

    #[test]
    fn composite_keys_are_framed_in_the_order_of_the_key() {
        let key = HashKey::random();
        let mut keys = ScannedKeys::new(live(), key);
        look(
            &mut keys,
            "two",
            "SELECT * FROM s.two",
            &["a", "b", "c"],
            &[&["x", "yz", "1"]],
            true,
        );
        assert_eq!(keys.hashes(), [key.hash(&name("two"), b"\0\x01x\0\0\x02yz\0")]);
    }

    #[test]
    fn rows_without_the_key_or_with_another_column_of_its_name_are_said() {
        let mut keys = ScannedKeys::new(live(), HashKey::random());
        let rows: &[&[&str]] = &[&["1"]];
        for (cql, column) in [("SELECT c FROM s.one", "c"), ("SELECT c AS k FROM s.one", "k")] {
            let scanned = look(&mut keys, "one", cql, &[column], rows, true);
            assert!(scanned.without_keys && scanned.keys.is_none(), "{cql}");
            assert!(keys.hashes().is_empty());
        }
    }

    #[test]
    fn what_comes_again_out_of_order_counts_once() {
        let mut keys = ScannedKeys::new(live(), HashKey::random());
        let rows: &[&[&str]] = &[&["x"], &["y"], &["x"]];
        let scanned = look(&mut keys, "one", "SELECT k FROM s.one", &["k"], rows, false);
        assert_eq!(scanned.keys.unwrap().distinct, 2);
    }

    #[test]
    fn only_the_first_rows_of_an_answer_are_looked_at() {
        let mut keys = ScannedKeys::new(live(), HashKey::random());
        let names: Vec<_> = (0..MAX_ROWS + 5).map(|number| number.to_string()).collect();
        let rows: Vec<_> = names.iter().map(|name| [name.as_str()]).collect();
        let rows: Vec<&[&str]> = rows.iter().map(|row| &row[..]).collect();
        let scanned = look(&mut keys, "one", "SELECT k FROM s.one", &["k"], &rows, true);
        assert_eq!((scanned.rows, scanned.left_out), (1_000, 5));
        assert_eq!(scanned.keys.unwrap().distinct, 1_000);
    }

    #[test]
    fn columns_that_are_left_out_are_those_of_prepared() {
        let mut keys = ScannedKeys::new(live(), HashKey::random());
        let (specs, content) = (columns("one", &["c", "k"]), content(&[&["1", "x"], &["2", "x"]]));
        let no_markers = columns("one", &[]);
        let prepared = Prepared {
            id: PreparedId(b"id"),
            result_metadata_id: None,
            bind: BindMetadata {
                markers: no_markers.columns(),
                partition_key_indices: Vec::new(),
                other_flags: 0,
            },
            result: ResultMetadata::new(specs.columns()),
        };
        let metadata = ResultMetadata {
            column_count: 2,
            ..ResultMetadata::none()
        };
        let rows = Rows::new(metadata, &content).unwrap();
        let look = |keys: &mut ScannedKeys| {
            let id = Some(PreparedId(b"id"));
            keys.scan(&name("one"), "SELECT c, k FROM s.one", id, &rows, true)
        };
        assert!(look(&mut keys).without_keys);
        keys.prepared("SELECT c, k FROM s.one", &prepared);
        assert_eq!(look(&mut keys).keys.unwrap().distinct, 1);
    }
}
