//! The system tables that drivers and tools read, filled when they are read.
//!
//! What the node has is there: itself, its schema, its prepared statements and its thresholds. Other system tables are
//! empty, and where a real node says what it keeps on disk, these say Cassandra's defaults.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use cqlens_proto::types::{CqlType, CqlValue, Uuid};

use crate::database::Database;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::peers::Peer;
use crate::store::{Cell, Liveness, PartitionId, Table};
use cqlens_cql::schema::{self, ColumnKind, DataType, IndexClass, Keyspace, OptionValue, Order};

/// The version of CQL that STARTUP may name and `system.local` states.
pub(crate) const CQL_VERSION: &str = "3.4.7";

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

/// A row by column name; columns that it does not name are null.
type SystemRow = BTreeMap<&'static str, CqlValue>;

/// The rows of a system table as of now.
///
/// # Errors
/// None in practice: the rows fit their tables.
pub(crate) fn table(database: &Database, layout: &Layout) -> Result<Table, Failure> {
    let rows = match (layout.keyspace.as_str(), layout.name.as_str()) {
        ("system", "local") => vec![local(database)],
        ("system", "peers" | "peers_v2") => database.peers.iter().map(peer_row).collect(),
        ("system", "prepared_statements") => prepared_statements(database),
        ("system_views", "settings") => settings(database),
        ("system_schema", name) => described(database)
            .flat_map(|keyspace| rows_of(keyspace, name))
            .collect(),
        _ => Vec::new(),
    };
    let mut table = Table::default();
    for row in rows {
        insert(&mut table, layout, row)?;
    }
    Ok(table)
}

fn described(database: &Database) -> impl Iterator<Item = &Keyspace> {
    let system = DESCRIBED.iter().filter_map(|name| database.schema.keyspace(name));
    system.chain(database.schema.keyspaces.values())
}

fn rows_of(keyspace: &Keyspace, table: &str) -> Vec<SystemRow> {
    let tables = || keyspace.tables.values().filter(|table| table.view.is_none());
    match table {
        "keyspaces" => vec![keyspace_row(keyspace)],
        "tables" => tables().map(table_row).collect(),
        "views" => keyspace.tables.values().filter_map(view_row).collect(),
        "columns" => keyspace.tables.values().flat_map(column_rows).collect(),
        "indexes" => tables().flat_map(index_rows).collect(),
        "types" => keyspace
            .types
            .values()
            .map(|user_type| type_row(keyspace, user_type))
            .collect(),
        _ => Vec::new(),
    }
}

/// What the node at an address is known by.
pub(super) fn host_id(address: SocketAddr) -> Uuid {
    stable_uuid(&address.to_string())
}

fn local(database: &Database) -> SystemRow {
    let address = CqlValue::Inet(database.address.ip());
    let native = database.options.advertise.unwrap_or(database.address);
    let port = CqlValue::Int(i32::from(native.port()));
    let schema_version = stable_uuid(&format!("schema {}", database.schema_changes));
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
        ("release_version", text(RELEASE_VERSION)),
        ("rpc_address", CqlValue::Inet(native.ip())),
        ("rpc_port", port),
        ("schema_version", CqlValue::Uuid(schema_version)),
        // One node owns the whole ring, whatever its token.
        ("tokens", CqlValue::Set(vec![text("0")])),
    ])
}

/// The row of a peer, for both tables: columns that a table does not have are left out there.
fn peer_row(peer: &Peer) -> SystemRow {
    let mut row = BTreeMap::from([
        ("peer", CqlValue::Inet(peer.address)),
        ("peer_port", CqlValue::Int(7000)),
        ("data_center", text(&peer.data_center)),
        ("rack", text("rack1")),
        ("release_version", text(RELEASE_VERSION)),
        (
            "tokens",
            CqlValue::Set(peer.tokens.iter().map(|token| text(token)).collect()),
        ),
    ]);
    if let Some(host_id) = peer.host_id {
        row.insert("host_id", CqlValue::Uuid(host_id));
        // All nodes agree on the schema, since nobody asks.
        row.insert("schema_version", CqlValue::Uuid(host_id));
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

fn keyspace_row(keyspace: &Keyspace) -> SystemRow {
    let mut replication = keyspace.replication.clone();
    if let Some(class) = replication.get_mut("class").filter(|class| !class.contains('.')) {
        *class = format!("org.apache.cassandra.locator.{class}");
    }
    BTreeMap::from([
        ("keyspace_name", text(&keyspace.name)),
        ("durable_writes", CqlValue::Boolean(keyspace.durable_writes)),
        ("replication", map(&replication)),
    ])
}

/// What a table has in common with a view.
fn common_row(table: &schema::Table) -> SystemRow {
    let pairs = |pairs: &[(&str, &str)]| {
        CqlValue::Map(
            pairs
                .iter()
                .map(|(key, value)| (text(key), text(value)))
                .collect(),
        )
    };
    let mut row = BTreeMap::from([
        ("keyspace_name", text(&table.keyspace)),
        (
            "id",
            CqlValue::Uuid(stable_uuid(&format!("{}.{}", table.keyspace, table.name))),
        ),
        ("additional_write_policy", text("99p")),
        ("bloom_filter_fp_chance", CqlValue::Double(0.01)),
        (
            "caching",
            pairs(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
        ),
        ("cdc", CqlValue::Boolean(false)),
        ("comment", text("")),
        (
            "compaction",
            pairs(&[
                (
                    "class",
                    "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
                ),
                ("max_threshold", "32"),
                ("min_threshold", "4"),
            ]),
        ),
        (
            "compression",
            pairs(&[
                ("chunk_length_in_kb", "16"),
                ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
            ]),
        ),
        ("crc_check_chance", CqlValue::Double(1.0)),
        ("dclocal_read_repair_chance", CqlValue::Double(0.0)),
        ("default_time_to_live", CqlValue::Int(0)),
        ("extensions", CqlValue::Map(Vec::new())),
        ("gc_grace_seconds", CqlValue::Int(864_000)),
        ("max_index_interval", CqlValue::Int(2048)),
        ("memtable_flush_period_in_ms", CqlValue::Int(0)),
        ("min_index_interval", CqlValue::Int(128)),
        ("read_repair", text("BLOCKING")),
        ("read_repair_chance", CqlValue::Double(0.0)),
        ("speculative_retry", text("99p")),
    ]);
    for (name, present) in &mut row {
        if let Some(given) = table.options.get(*name)
            && let Some(value) = option(given, present)
        {
            *present = value;
        }
    }
    row
}

/// A property in the type of its default.
fn option(given: &OptionValue, default: &CqlValue) -> Option<CqlValue> {
    match (given, default) {
        (OptionValue::Text(value) | OptionValue::Plain(value), CqlValue::Text(_)) => Some(text(value)),
        (OptionValue::Map(entries), CqlValue::Map(_)) => Some(map(entries)),
        (OptionValue::Text(value) | OptionValue::Plain(value), CqlValue::Int(_)) => {
            value.parse().ok().map(CqlValue::Int)
        }
        (OptionValue::Text(value) | OptionValue::Plain(value), CqlValue::Double(_)) => {
            value.parse().ok().map(CqlValue::Double)
        }
        (OptionValue::Text(value) | OptionValue::Plain(value), CqlValue::Boolean(_)) => {
            value.parse().ok().map(CqlValue::Boolean)
        }
        _ => None,
    }
}

fn table_row(table: &schema::Table) -> SystemRow {
    let mut row = common_row(table);
    let flags: &[&str] = if table.is_counter() {
        &["compound", "counter"]
    } else {
        &["compound"]
    };
    row.insert("table_name", text(&table.name));
    row.insert(
        "flags",
        CqlValue::Set(flags.iter().map(|flag| text(flag)).collect()),
    );
    row
}

fn view_row(table: &schema::Table) -> Option<SystemRow> {
    let view = table.view.as_ref()?;
    let mut row = common_row(table);
    row.insert("view_name", text(&table.name));
    row.insert("base_table_name", text(&view.base));
    row.insert(
        "base_table_id",
        CqlValue::Uuid(stable_uuid(&format!("{}.{}", table.keyspace, view.base))),
    );
    row.insert("include_all_columns", CqlValue::Boolean(false));
    row.insert("where_clause", text(&view.where_clause));
    Some(row)
}

fn column_rows(table: &schema::Table) -> Vec<SystemRow> {
    let mut rows = Vec::new();
    let (mut in_key, mut in_clustering) = (0, 0);
    for column in &table.columns {
        let (kind, order, position) = match column.kind {
            ColumnKind::PartitionKey => ("partition_key", "none", take(&mut in_key)),
            ColumnKind::Clustering(Order::Ascending) => ("clustering", "asc", take(&mut in_clustering)),
            ColumnKind::Clustering(Order::Descending) => ("clustering", "desc", take(&mut in_clustering)),
            ColumnKind::Static => ("static", "none", -1),
            ColumnKind::Regular => ("regular", "none", -1),
        };
        rows.push(BTreeMap::from([
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("column_name", text(&column.name)),
            ("clustering_order", text(order)),
            (
                "column_name_bytes",
                CqlValue::Blob(column.name.as_bytes().to_vec()),
            ),
            ("kind", text(kind)),
            ("position", CqlValue::Int(position)),
            ("type", text(&type_text(&column.data_type))),
        ]));
    }
    rows
}

/// A type as `system_schema` has it: a tuple says that it is frozen.
fn type_text(data_type: &DataType) -> String {
    match data_type {
        DataType::Tuple(_) => format!("frozen<{data_type}>"),
        other => other.to_string(),
    }
}

fn take(next: &mut i32) -> i32 {
    *next += 1;
    *next - 1
}

fn index_rows(table: &schema::Table) -> Vec<SystemRow> {
    let row = |index: &schema::Index| {
        let targets: Vec<_> = index.targets.iter().map(target).collect();
        let mut options = index.options.clone();
        options.insert("target".to_owned(), targets.join(", "));
        let class = match &index.class {
            IndexClass::Legacy => None,
            IndexClass::Sai => Some("StorageAttachedIndex"),
            IndexClass::Sasi => Some("org.apache.cassandra.index.sasi.SASIIndex"),
            IndexClass::Custom(class) => Some(class.as_str()),
        };
        options.extend(class.map(|class| ("class_name".to_owned(), class.to_owned())));
        BTreeMap::from([
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("index_name", text(&index.name)),
            (
                "kind",
                text(if class.is_some() { "CUSTOM" } else { "COMPOSITES" }),
            ),
            ("options", map(&options)),
        ])
    };
    table.indexes.values().map(row).collect()
}

fn target(target: &schema::IndexTarget) -> String {
    use schema::IndexTargetKind as Kind;
    let column = &target.column;
    match target.kind {
        Kind::Simple => column.clone(),
        Kind::Values => format!("values({column})"),
        Kind::Keys => format!("keys({column})"),
        Kind::Entries => format!("entries({column})"),
        Kind::Full => format!("full({column})"),
    }
}

fn type_row(keyspace: &Keyspace, user_type: &schema::UserType) -> SystemRow {
    let names = user_type.fields.iter().map(|(name, _)| text(name));
    let types = user_type
        .fields
        .iter()
        .map(|(_, data_type)| text(&data_type.to_string()));
    BTreeMap::from([
        ("keyspace_name", text(&keyspace.name)),
        ("type_name", text(&user_type.name)),
        ("field_names", CqlValue::List(names.collect())),
        ("field_types", CqlValue::List(types.collect())),
    ])
}

fn insert(table: &mut Table, layout: &Layout, row: SystemRow) -> Result<(), Failure> {
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
    let place = layout.place(whole(clustering));
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

fn text(text: &str) -> CqlValue {
    CqlValue::Text(text.to_owned())
}

fn map(entries: &BTreeMap<String, String>) -> CqlValue {
    CqlValue::Map(
        entries
            .iter()
            .map(|(key, value)| (text(key), text(value)))
            .collect(),
    )
}

/// A UUID that is the same for the same name on every run.
fn stable_uuid(name: &str) -> Uuid {
    use siphasher::sip128::{Hasher128, SipHasher13};
    use std::hash::Hasher;
    let mut hasher = SipHasher13::new();
    hasher.write(name.as_bytes());
    let mut uuid = hasher.finish128().as_bytes();
    uuid[6] = (uuid[6] & 0x0f) | 0x40;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    Uuid(uuid)
}
