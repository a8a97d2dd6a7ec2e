//! The system tables that drivers and tools read, filled when they are read.
//!
//! What the node has is there: itself, its schema, its prepared statements and its thresholds. Other system
//! tables are empty, and where a real node says what it keeps on disk, these say Cassandra's defaults.

mod rows;
mod schema;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use cqlens_proto::types::{CqlType, CqlValue, Uuid};

use crate::database::Database;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::peers::Peer;
use crate::store::{Cell, Liveness, PartitionId, StoredTable};
use cqlens_cql::schema::Keyspace;

use rows::{SystemRow, stable_uuid, text};

/// The version of CQL that STARTUP may name and `system.local` states.
pub(super) const CQL_VERSION: &str = "3.4.7";

/// The version that drivers decide by what they may ask.
const RELEASE_VERSION: &str = "5.0.6";

/// The system keyspaces that `system_schema` describes; virtual ones it does not, as in Cassandra.
const DESCRIBED: [&str; 5] = [
    "system",
    "system_schema",
    "system_auth",
    "system_distributed",
    "system_traces",
];

/// Where all nodes are.
pub(super) const DATA_CENTER: &str = "datacenter1";

/// The rows of a system table as of now.
///
/// # Errors
/// None in practice: the rows fit their tables.
pub(super) fn table(database: &Database, layout: &Layout) -> Result<StoredTable, Failure> {
    let rows = match (layout.keyspace.as_str(), layout.name.as_str()) {
        ("system", "local") => vec![local(database)],
        ("system", "peers" | "peers_v2") => database
            .peers
            .iter()
            .map(|peer| peer_row(peer, database))
            .collect(),
        ("system", "versions") => vec![versions(database)?],
        ("system", "prepared_statements") => prepared_statements(database),
        ("system_views", "settings") => settings(database),
        ("system_schema", name) => described(database)
            .flat_map(|keyspace| schema::rows_of(keyspace, name))
            .collect(),
        _ => Vec::new(),
    };
    let mut table = StoredTable::default();
    for row in rows {
        insert(&mut table, layout, row)?;
    }
    Ok(table)
}

fn described(database: &Database) -> impl Iterator<Item = &Keyspace> {
    let system = DESCRIBED.iter().filter_map(|name| database.schema.keyspace(name));
    system.chain(database.schema.keyspaces.values())
}

/// What the node tells drivers that it is: every ScyllaDB says the same.
fn release_version(database: &Database) -> &'static str {
    match database.options.scylladb {
        Some(_) => "3.0.8",
        None => RELEASE_VERSION,
    }
}

/// What ScyllaDB says of itself, in a table that Cassandra does not have.
fn versions(database: &Database) -> Result<SystemRow, Failure> {
    let Some(version) = &database.options.scylladb else {
        return Err(Failure::invalid("unconfigured table versions"));
    };
    Ok(BTreeMap::from([
        ("key", text("local")),
        ("version", text(version)),
    ]))
}

/// What the node at an address is known by.
pub(super) fn host_id(address: SocketAddr) -> Uuid {
    stable_uuid(&address.to_string())
}

fn schema_version(database: &Database) -> Uuid {
    stable_uuid(&format!("schema {}", database.schema_changes))
}

fn local(database: &Database) -> SystemRow {
    let address = CqlValue::Inet(database.address.ip());
    let native = database.options.advertise.unwrap_or(database.address);
    let port = CqlValue::Int(i32::from(native.port()));
    BTreeMap::from([
        ("key", text("local")),
        ("bootstrapped", text("COMPLETED")),
        ("broadcast_address", address.clone()),
        ("broadcast_port", CqlValue::Int(7000)),
        ("cluster_name", text("cqlens demo")),
        ("cql_version", text(CQL_VERSION)),
        ("data_center", text(DATA_CENTER)),
        ("gossip_generation", CqlValue::Int(1)),
        ("host_id", CqlValue::Uuid(host_id(database.address))),
        ("listen_address", address),
        ("listen_port", CqlValue::Int(7000)),
        ("native_protocol_version", text("5")),
        ("partitioner", text("org.apache.cassandra.dht.Murmur3Partitioner")),
        ("rack", text("rack1")),
        ("release_version", text(release_version(database))),
        ("rpc_address", CqlValue::Inet(native.ip())),
        ("rpc_port", port),
        ("schema_version", CqlValue::Uuid(schema_version(database))),
        // One node owns the whole ring, whatever its token.
        ("tokens", CqlValue::Set(vec![text("0")])),
    ])
}

/// The row of a peer, for both tables: columns that a table does not have are left out there.
fn peer_row(peer: &Peer, database: &Database) -> SystemRow {
    let mut row = BTreeMap::from([
        ("peer", CqlValue::Inet(peer.address)),
        ("peer_port", CqlValue::Int(7000)),
        ("data_center", text(&peer.data_center)),
        ("rack", text("rack1")),
        ("release_version", text(release_version(database))),
        (
            "tokens",
            CqlValue::Set(peer.tokens.iter().map(|token| text(token)).collect()),
        ),
    ]);
    let schema_version = peer.schema_version.unwrap_or_else(|| schema_version(database));
    row.insert("schema_version", CqlValue::Uuid(schema_version));
    if let Some(host_id) = peer.host_id {
        row.insert("host_id", CqlValue::Uuid(host_id));
    }
    if let Some(native) = peer.native {
        row.insert("rpc_address", CqlValue::Inet(native.ip()));
        row.insert("native_address", CqlValue::Inet(native.ip()));
        row.insert("native_port", CqlValue::Int(i32::from(native.port())));
    }
    row
}

fn prepared_statements(database: &Database) -> Vec<SystemRow> {
    let row = |(id, statement): (&[u8; 16], &crate::prepared::PreparedStatement)| {
        let mut row = BTreeMap::from([
            ("prepared_id", CqlValue::Blob(id.to_vec())),
            ("query_string", text(&statement.text)),
        ]);
        if let Some(keyspace) = &statement.keyspace {
            row.insert("logged_keyspace", text(keyspace));
        }
        row
    };
    database.prepared.iter().map(row).collect()
}

fn settings(database: &Database) -> Vec<SystemRow> {
    let options = &database.options;
    let setting = |name, value: String| BTreeMap::from([("name", text(name)), ("value", text(&value))]);
    vec![
        setting("cluster_name", "cqlens demo".to_owned()),
        setting(
            "tombstone_failure_threshold",
            options.tombstone_failure_threshold.to_string(),
        ),
        setting(
            "tombstone_warn_threshold",
            options.tombstone_warn_threshold.to_string(),
        ),
    ]
}

fn insert(table: &mut StoredTable, layout: &Layout, row: SystemRow) -> Result<(), Failure> {
    let value = |name: &str, cql_type: &CqlType| -> Result<Option<Bytes>, Failure> {
        let Some(value) = row.get(name) else {
            return Ok(None);
        };
        let bytes = value
            .to_bytes(cql_type)
            .map_err(|error| Failure::invalid(error.to_string()))?;
        Ok(bytes.map(Bytes::from))
    };
    let values = layout
        .columns
        .iter()
        .map(|column| value(&column.name, &column.cql_type));
    let values: Vec<Option<Bytes>> = values.collect::<Result<_, _>>()?;
    let (key, others) = values.split_at(layout.partition_key_len);
    let (clustering, others) = others.split_at(layout.clustering_len);
    let whole = |values: &[Option<Bytes>]| {
        values
            .iter()
            .map(|value| value.clone().unwrap_or_default())
            .collect()
    };
    let key: Vec<Bytes> = whole(key);
    let id = PartitionId::of(&key).ok_or_else(|| Failure::invalid("Partition key is too long"))?;
    let place = layout.clustering_key(whole(clustering));
    table.partition_mut(id, &key).change_row(&place, |row| {
        row.insert(Liveness {
            timestamp: 0,
            expiry: None,
        });
        for (column, value) in layout.values().iter().zip(others) {
            if value.is_some() {
                row.write(
                    &column.name,
                    Cell {
                        timestamp: 0,
                        value: value.clone(),
                        expiry: None,
                    },
                );
            }
        }
    });
    Ok(())
}
