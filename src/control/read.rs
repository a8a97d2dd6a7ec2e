//! What cqlens asks a node: the schema, the ring, the prepared statements.

use std::collections::BTreeMap;

use super::{SystemReader, reader::ReservedMemory};
use cqlens_audit::catalog::{ClusterState, Node, PreparedStatement, Record, system_schema};
use cqlens_client::ClientError;
use cqlens_cql::{
    Product,
    schema::{Definition, Schema, SchemaError, rows::Rows},
};

/// The schema as `system_schema` has it, and what only definitions say.
pub(super) struct SchemaRead {
    pub(super) schema: Schema,
    /// What of it was not understood.
    pub(super) errors: Vec<SchemaError>,
    /// Whether there was room for all of it.
    pub(super) is_whole: bool,
}

/// A keyspace of Cassandra 6.0, in which `DESCRIBE` says more of tables than `system_schema` does.
const ONLY_IN_6_0: &str = "system_cluster_metadata";

/// What was read so far, which counts in the client's memory.
#[derive(Default)]
struct SchemaReading {
    kept: Vec<ReservedMemory>,
    is_cut: bool,
}

/// Reads the schema, or as much of it as there is room for.
pub(super) async fn schema(reader: &mut SystemReader) -> Result<SchemaRead, ClientError> {
    let mut reading = SchemaReading::default();
    let tables = reading.read(reader, "tables", system_schema::table).await?;
    let is_scylla = tables
        .iter()
        .any(|table| table.keyspace == "system_schema" && table.name == "scylla_keyspaces");
    let with_tablets = if is_scylla {
        reading
            .read(reader, "scylla_keyspaces", system_schema::with_tablets)
            .await?
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
    let describes_more = rows.keyspaces.iter().any(|keyspace| keyspace.name == ONLY_IN_6_0);
    let (mut schema, errors) = Schema::from_rows(rows);
    if describes_more {
        schema.complete(reading.definitions(reader).await?);
    }
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

impl SchemaReading {
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

    /// What of tables only their definitions say; as much of it as there is room for, and nothing while the schema changes.
    async fn definitions(&mut self, reader: &mut SystemReader) -> Result<Vec<Definition>, ClientError> {
        let definition = |record: Record| Definition::of(&record.text("create_statement"));
        let described = reader
            .records_that_fit("DESCRIBE SCHEMA", Record::content_weight, definition)
            .await;
        match described {
            Err(error @ ClientError::Server { .. }) => {
                tracing::debug!(%error, "the node does not describe its schema");
                Ok(Vec::new())
            }
            described => {
                let described = described?;
                self.kept.push(described.kept);
                Ok(described.rows.into_iter().flatten().collect())
            }
        }
    }
}

/// What a node tells of the nodes.
pub(super) struct ClusterReading {
    /// The nodes, the one that was asked first.
    pub(super) cluster: ClusterState,
    /// The nodes of each version of the schema, those left out that tell none.
    pub(super) schema_versions: BTreeMap<String, Vec<String>>,
}

pub(super) async fn cluster(reader: &mut SystemReader) -> Result<ClusterReading, ClientError> {
    let local = reader
        .records("SELECT * FROM system.local WHERE key = 'local'")
        .await?;
    let local = local.into_iter().next().unwrap_or_default();
    // Cassandra 3 has no peers_v2.
    let peers = match reader.records("SELECT * FROM system.peers_v2").await {
        Err(ClientError::Server { .. }) => reader.records("SELECT * FROM system.peers").await?,
        other => other?,
    };
    let peers: Vec<_> = peers.into_iter().filter(Node::has_joined).collect();
    let partitioner = local.optional_text("partitioner");
    let (product, product_version) = product(reader, &local).await?;
    let mut nodes = vec![Node::of_row(&local)];
    nodes.extend(peers.iter().map(Node::of_row));
    let mut schema_versions: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (row, node) in std::iter::once(&local).chain(&peers).zip(&nodes) {
        if let Some(version) = row.uuid("schema_version") {
            let address = node
                .address
                .clone()
                .or_else(|| node.broadcast.map(|address| address.to_string()));
            schema_versions
                .entry(version)
                .or_default()
                .push(address.unwrap_or_default());
        }
    }
    let cluster = ClusterState {
        name: local.optional_text("cluster_name"),
        release_version: local.optional_text("release_version"),
        product,
        product_version,
        partitioner: partitioner.map(|class| class.rsplit('.').next().unwrap_or_default().to_owned()),
        nodes,
        asked: reader.client.peer(),
    };
    Ok(ClusterReading {
        cluster,
        schema_versions,
    })
}

/// Whose software the node runs, and which version of it.
async fn product(
    reader: &mut SystemReader,
    local: &Record,
) -> Result<(Option<Product>, Option<String>), ClientError> {
    if let Some(version) = local.optional_text("dse_version") {
        return Ok((Some(Product::Dse), Some(version)));
    }
    let release = local.optional_text("release_version");
    if release.as_deref() != Some(SCYLLA_RELEASE) {
        return Ok((release.map(|_| Product::Cassandra), None));
    }
    match reader
        .records("SELECT version FROM system.versions WHERE key = 'local'")
        .await
    {
        Ok(versions) => {
            let version = versions.first().and_then(|row| row.optional_text("version"));
            Ok((Some(Product::ScyllaDb), version))
        }
        // Cassandra has no such table.
        Err(ClientError::Server { .. }) => Ok((Some(Product::Cassandra), None)),
        Err(other) => Err(other),
    }
}

/// What every ScyllaDB tells drivers that it is.
const SCYLLA_RELEASE: &str = "3.0.8";

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
