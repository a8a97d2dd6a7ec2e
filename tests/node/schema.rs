//! Definitions, and what follows from them.

use super::*;

#[tokio::test]
async fn a_materialized_view_shows_its_base_by_another_key() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .script(
            "CREATE TABLE by_email (email text PRIMARY KEY, phone text, name text); \
             CREATE MATERIALIZED VIEW by_phone AS SELECT * FROM by_email WHERE phone IS NOT NULL AND email IS NOT NULL \
             PRIMARY KEY (phone, email); \
             INSERT INTO by_email (email, phone, name) VALUES ('a@x', '1', 'Ann'); \
             INSERT INTO by_email (email, name) VALUES ('b@x', 'Bob');",
        )
        .await
        .unwrap();
    assert_eq!(
        rows(&mut client, "SELECT name FROM by_phone WHERE phone = '1'").await,
        ["Ann"]
    );
    client
        .query("UPDATE by_email SET phone = '2' WHERE email = 'a@x'")
        .await
        .unwrap();
    assert_eq!(
        rows(&mut client, "SELECT phone, email FROM by_phone").await,
        ["2 a@x"]
    );
    refusal(
        &mut client,
        "INSERT INTO by_phone (phone, email) VALUES ('3', 'c@x')",
    )
    .await;
}

#[tokio::test]
async fn the_schema_reads_back_from_the_system_tables() {
    let node = node().await;
    let mut client = client(&node).await;
    client
        .script(
            "CREATE TYPE u (a int); CREATE TABLE t (k text, c timeuuid, v frozen<u>, PRIMARY KEY (k, c)) WITH CLUSTERING \
             ORDER BY (c DESC) AND comment = 'why'; CREATE INDEX by_v ON t (v);",
        )
        .await
        .unwrap();
    let of = |what: &str, table: &str| {
        format!("SELECT {what} FROM system_schema.{table} WHERE keyspace_name = 'k'")
    };
    let columns = "column_name, kind, clustering_order, position, type";
    assert_eq!(
        rows(&mut client, &of(columns, "columns")).await,
        [
            "c clustering desc 0 timeuuid",
            "k partition_key none 0 text",
            "v regular none -1 frozen<u>"
        ]
    );
    assert_eq!(
        rows(&mut client, &of("table_name, comment", "tables")).await,
        ["t why"]
    );
    assert_eq!(
        rows(&mut client, &of("type_name, field_names, field_types", "types")).await,
        ["u ['a'] ['int']"]
    );
    assert_eq!(
        rows(&mut client, &of("index_name, kind, options", "indexes")).await,
        ["by_v COMPOSITES {'target': 'v'}"]
    );
    let local = "SELECT cluster_name, partitioner FROM system.local WHERE key = 'local'";
    assert_eq!(
        rows(&mut client, local).await,
        ["cqlens demo org.apache.cassandra.dht.Murmur3Partitioner"]
    );
    assert_eq!(rows(&mut client, "SELECT * FROM system.peers_v2").await, [""; 0]);
    client.prepare("SELECT * FROM t WHERE k = ?").await.unwrap();
    let prepared = "SELECT logged_keyspace, query_string FROM system.prepared_statements";
    assert_eq!(
        rows(&mut client, prepared).await,
        ["k SELECT * FROM t WHERE k = ?"]
    );
}
