//! What cqlens asks a node: the schema, the ring, the prepared statements.

use super::{SystemReader, reader::Kept};
use cqlens_audit::catalog::{Cluster, Node, PreparedStatement, Record, system_schema};
use cqlens_client::ClientError;
use cqlens_cql::schema::{Schema, SchemaError, rows::Rows};

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
pub(super) async fn schema(reader: &mut SystemReader) -> Result<SchemaRead, ClientError> {
    let mut reading = Reading::default();
    let tables = reading.read(reader, "tables", system_schema::table).await?;
    let is_scylla = tables
        .iter()
        .any(|table| table.keyspace == "system_schema" && table.name == "scylla_keyspaces");
    let with_tablets = if is_scylla {
        reading.read(reader, "scylla_keyspaces", with_tablets).await?
    } else {
        Vec::new()
    };
    let (function, aggregate) = (named("function_name"), named("aggregate_name"));
    let rows = Rows {
        keyspaces: reading
            .read(reader, "keyspaces", |row| {
                system_schema::keyspace(row, &with_tablets)
            })
            .await?,
        tables,
        views: reading.read(reader, "views", system_schema::view).await?,
        columns: reading.read(reader, "columns", system_schema::column).await?,
        types: reading.read(reader, "types", system_schema::user_type).await?,
        indexes: reading.read(reader, "indexes", system_schema::index).await?,
        functions: reading.read(reader, "functions", function).await?,
        aggregates: reading.read(reader, "aggregates", aggregate).await?,
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
        reader: &mut SystemReader,
        table: &str,
        row: impl Fn(&Record) -> T,
    ) -> Result<Vec<T>, ClientError> {
        let cql = format!("SELECT * FROM system_schema.{table}");
        let records = reader
            .records_that_fit(&cql, Record::content_weight, |record| row(&record))
            .await?;
        self.is_cut |= !records.is_whole;
        self.kept.push(records.kept);
        Ok(records.rows)
    }
}

/// The nodes, the one that was asked first.
pub(super) async fn cluster(reader: &mut SystemReader) -> Result<Cluster, ClientError> {
    let local = reader
        .records("SELECT * FROM system.local WHERE key = 'local'")
        .await?;
    let local = local.into_iter().next().unwrap_or_default();
    // Cassandra 3 has no peers_v2.
    let peers = match reader.records("SELECT * FROM system.peers_v2").await {
        Err(ClientError::Server { .. }) => reader.records("SELECT * FROM system.peers").await?,
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
        asked: reader.client.peer(),
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
    reader: &mut SystemReader,
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
    reader.each_record(cql, each).await
}
