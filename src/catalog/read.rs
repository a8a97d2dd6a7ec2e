//! What cqlens asks a node: the schema, the ring, the prepared statements.

use std::collections::BTreeMap;

use cqlens_proto::types::CqlValue;

use super::{
    Cluster, Node, PreparedStatement, Schema, SchemaError,
    client::{Client, ClientError},
    record::{Kept, Record, text_map},
    schema::{
        OptionValue,
        rows::{ColumnRow, IndexRow, KeyspaceRow, Rows, TableRow, TypeRow, ViewRow},
    },
};

/// The schema as `system_schema` has it.
pub(super) struct SchemaRead {
    pub(super) schema: Schema,
    /// What of it was not understood.
    pub(super) errors: Vec<SchemaError>,
    /// Whether there was room for all of it.
    pub(super) is_whole: bool,
}

/// What was read so far, which counts in the client's memory.
#[derive(Default)]
struct Reading {
    kept: Vec<Kept>,
    is_cut: bool,
}

/// Reads the schema, or as much of it as there is room for.
pub(super) async fn schema(client: &mut Client) -> Result<SchemaRead, ClientError> {
    let mut reading = Reading::default();
    let tables = reading.read(client, "tables", table).await?;
    let is_scylla = tables
        .iter()
        .any(|table| table.keyspace == "system_schema" && table.name == "scylla_keyspaces");
    let with_tablets = if is_scylla {
        reading.read(client, "scylla_keyspaces", with_tablets).await?
    } else {
        Vec::new()
    };
    let (function, aggregate) = (named("function_name"), named("aggregate_name"));
    let rows = Rows {
        keyspaces: reading
            .read(client, "keyspaces", |row| keyspace(row, &with_tablets))
            .await?,
        tables,
        views: reading.read(client, "views", view).await?,
        columns: reading.read(client, "columns", column).await?,
        types: reading.read(client, "types", user_type).await?,
        indexes: reading.read(client, "indexes", index).await?,
        functions: reading.read(client, "functions", function).await?,
        aggregates: reading.read(client, "aggregates", aggregate).await?,
    };
    let (schema, errors) = Schema::from_rows(rows);
    Ok(SchemaRead {
        schema,
        errors,
        is_whole: !reading.is_cut,
    })
}

/// Keyspace and name.
fn named(column: &'static str) -> impl Fn(&Record) -> (String, String) {
    move |row| (row.text("keyspace_name"), row.text(column))
}

/// The keyspace's name, if Scylla places its tables by tablets.
fn with_tablets(row: &Record) -> Option<String> {
    const NONE: i32 = -1;
    (row.int("initial_tablets", NONE) != NONE).then(|| row.text("keyspace_name"))
}

impl Reading {
    async fn read<T>(
        &mut self,
        client: &mut Client,
        table: &str,
        row: impl Fn(&Record) -> T,
    ) -> Result<Vec<T>, ClientError> {
        let cql = format!("SELECT * FROM system_schema.{table}");
        let records = client
            .records_that_fit(&cql, Record::content_weight, |record| row(&record))
            .await?;
        self.is_cut |= !records.is_whole;
        self.kept.push(records.kept);
        Ok(records.rows)
    }
}

pub(super) fn keyspace(row: &Record, with_tablets: &[Option<String>]) -> KeyspaceRow {
    let name = row.text("keyspace_name");
    KeyspaceRow {
        tablets: with_tablets.iter().flatten().any(|other| *other == name),
        name,
        durable_writes: row.boolean("durable_writes", true),
        replication: row.text_map("replication"),
    }
}

pub(super) fn table(row: &Record) -> TableRow {
    TableRow {
        keyspace: row.text("keyspace_name"),
        name: row.text("table_name"),
        flags: row.texts("flags").into_iter().collect(),
        options: options(row, &["keyspace_name", "table_name", "flags", "id", "extensions"]),
    }
}

pub(super) fn view(row: &Record) -> ViewRow {
    let own = [
        "keyspace_name",
        "view_name",
        "base_table_id",
        "base_table_name",
        "id",
        "include_all_columns",
        "where_clause",
        "extensions",
    ];
    ViewRow {
        keyspace: row.text("keyspace_name"),
        name: row.text("view_name"),
        base: row.text("base_table_name"),
        include_all_columns: row.boolean("include_all_columns", false),
        where_clause: row.text("where_clause"),
        options: options(row, &own),
    }
}

/// The columns that are properties of `WITH`.
fn options(row: &Record, own: &[&str]) -> BTreeMap<String, OptionValue> {
    let options = row.iter().filter(|(name, _)| !own.contains(name));
    options
        .filter_map(|(name, value)| Some((name.to_owned(), option_value(value)?)))
        .collect()
}

fn option_value(value: &CqlValue) -> Option<OptionValue> {
    Some(match value {
        CqlValue::Text(text) | CqlValue::Ascii(text) => OptionValue::Text(text.clone()),
        CqlValue::Map(entries) => OptionValue::Map(text_map(entries)),
        CqlValue::Null | CqlValue::Blob(_) => return None,
        other => OptionValue::Plain(other.to_string()),
    })
}

pub(super) fn column(row: &Record) -> ColumnRow {
    ColumnRow {
        keyspace: row.text("keyspace_name"),
        table: row.text("table_name"),
        name: row.text("column_name"),
        clustering_order: row.text("clustering_order"),
        kind: row.text("kind"),
        position: row.int("position", -1),
        data_type: row.text("type"),
    }
}

pub(super) fn user_type(row: &Record) -> TypeRow {
    TypeRow {
        keyspace: row.text("keyspace_name"),
        name: row.text("type_name"),
        field_names: row.texts("field_names"),
        field_types: row.texts("field_types"),
    }
}

pub(super) fn index(row: &Record) -> IndexRow {
    IndexRow {
        keyspace: row.text("keyspace_name"),
        table: row.text("table_name"),
        name: row.text("index_name"),
        kind: row.text("kind"),
        options: row.text_map("options"),
    }
}

/// The nodes, the one that was asked first.
pub(super) async fn cluster(client: &mut Client) -> Result<Cluster, ClientError> {
    let local = client
        .records("SELECT * FROM system.local WHERE key = 'local'")
        .await?;
    let local = local.into_iter().next().unwrap_or_default();
    // Cassandra 3 has no peers_v2.
    let peers = match client.records("SELECT * FROM system.peers_v2").await {
        Err(ClientError::Server { .. }) => client.records("SELECT * FROM system.peers").await?,
        other => other?,
    };
    let partitioner = local.optional_text("partitioner");
    let mut nodes = vec![node(&local)];
    nodes.extend(peers.iter().map(node));
    Ok(Cluster {
        name: local.optional_text("cluster_name"),
        release_version: local.optional_text("release_version"),
        partitioner: partitioner.map(|class| class.rsplit('.').next().unwrap_or_default().to_owned()),
        nodes,
        asked: client.peer(),
    })
}

fn node(row: &Record) -> Node {
    let address = row
        .optional_text("native_address")
        .or_else(|| row.optional_text("rpc_address"));
    let port = match (row.int("native_port", 0), row.int("rpc_port", 0)) {
        (0, port) | (port, _) => u16::try_from(port).ok().filter(|port| *port != 0),
    };
    let tokens = row.texts("tokens");
    let broadcast = row
        .optional_text("peer")
        .or_else(|| row.optional_text("broadcast_address"));
    Node {
        host_id: row.uuid("host_id"),
        broadcast: broadcast.and_then(|address| address.parse().ok()),
        address,
        port,
        data_center: row.optional_text("data_center"),
        rack: row.optional_text("rack"),
        tokens: tokens.iter().filter_map(|token| token.parse().ok()).collect(),
    }
}

/// Hands over each statement that the node holds prepared, with its id: Cassandra 3.10 and later.
pub(super) async fn prepared(
    client: &mut Client,
    mut each: impl FnMut(&[u8], PreparedStatement),
) -> Result<(), ClientError> {
    let cql = "SELECT prepared_id, logged_keyspace, query_string FROM system.prepared_statements";
    let each = |row: Record| {
        let keyspace = row
            .optional_text("logged_keyspace")
            .filter(|keyspace| !keyspace.is_empty());
        let statement = PreparedStatement::from_text(row.text("query_string"), keyspace);
        each(&row.blob("prepared_id"), statement);
        true
    };
    client.each_record(cql, each).await
}
