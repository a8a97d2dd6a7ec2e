//! Servers that are not Apache Cassandra: by setting, or by what their schemas show.

use crate::explain::{Ended, Folder};

const SCYLLA: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'org.apache.cassandra.locator.NetworkTopologyStrategy', \
    'dc1': ['r1', 'r2', 'r3']} AND durable_writes = true AND tablets = {'enabled': false};
    CREATE TABLE shop.pets (id uuid PRIMARY KEY, owner text, race text) WITH cdc = {'enabled': 'true'} \
    AND tombstone_gc = {'mode': 'timeout'};
    CREATE INDEX by_owner ON shop.pets (owner);
    CREATE INDEX by_race ON shop.pets ((id), race);
    CREATE TABLE shop.msgs (thread text, at int, body text, PRIMARY KEY (thread, at));";

/// ScyllaDB's own CQL.
const STATEMENTS: &str = "SELECT owner FROM pets WHERE id = ? BYPASS CACHE USING TIMEOUT 50ms;
    INSERT INTO pets (id, owner) VALUES (?, ?) USING TIMEOUT 1s;
    SELECT race FROM pets WHERE id = ? AND race = ?;
    SELECT body FROM msgs WHERE thread = ? ORDER BY at DESC;
    CREATE SERVICE LEVEL gold WITH shares = 100;
    PRUNE MATERIALIZED VIEW v USING CONCURRENCY 3;
    LIST EFFECTIVE SERVICE LEVEL OF r;
    CREATE KEYSPACE empty;";

fn explained(arguments: &[&str], schema: &str, script: &str) -> Ended {
    let folder = Folder::new().with("s.cql", schema);
    folder.explain(
        &[&["--quiet", "--schema", "s.cql"], arguments].concat(),
        script.as_bytes(),
    )
}

#[test]
fn the_product_is_known_by_its_schema() {
    let ended = explained(&["--fail-on", "info"], SCYLLA, STATEMENTS);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    assert_eq!(ended.err, "");
    // Its indexes are global, and it reads backwards as well.
    let index = explained(&[], SCYLLA, "SELECT id FROM pets WHERE owner = ?;");
    assert!(index.out.contains("low[secondary-index-read]"), "{}", index.out);
    // The log of changes is a table that the server defines.
    let log = explained(
        &[],
        SCYLLA,
        "SELECT * FROM pets_scylla_cdc_log WHERE \"cdc$stream_id\" = ?;",
    );
    assert!(
        log.out.contains("1 not judged") && !log.out.contains("error"),
        "{}",
        log.out
    );
}

#[test]
fn a_setting_names_the_product_and_errors_name_it() {
    let folder = Folder::new();
    let script = b"SELECT v FROM kv WHERE k = 1 BYPASS CACHE;";
    let scylla = folder.explain(
        &["--quiet", "--server", "scylladb", "--schema", "schema.cql"],
        script,
    );
    assert_eq!(scylla.code, Some(0), "{}", scylla.out);
    let cassandra = folder.explain(&["--quiet", "--schema", "schema.cql"], script);
    assert_eq!(cassandra.code, Some(2));
    assert!(
        cassandra
            .out
            .contains("ScyllaDB syntax, which Cassandra 5.0 does not support (see --server)"),
        "{}",
        cassandra.out
    );
    let named = explained(
        &["--server", "5.0"],
        SCYLLA,
        "SELECT id FROM pets WHERE id = ? BYPASS CACHE;",
    );
    assert_eq!(named.code, Some(2), "a setting counts more than the schema");
    let unknown = folder.explain(&["--server", "mysql"], b"");
    assert!(
        unknown.err.contains("nor scylladb, keyspaces or dse"),
        "{}",
        unknown.err
    );
}

#[test]
fn tables_of_amazon_keyspaces_are_read() {
    let schema = "CREATE KEYSPACE shop WITH replication = {'class': 'SingleRegionStrategy'};
        CREATE TABLE shop.t (k int PRIMARY KEY, v int) WITH CUSTOM_PROPERTIES = {
            'capacity_mode': {'throughput_mode': 'PAY_PER_REQUEST'},
            'point_in_time_recovery': {'status': 'enabled'}} AND default_time_to_live = 0;";
    let ended = explained(&["--fail-on", "info"], schema, "SELECT v FROM t WHERE k = 1;");
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{}", ended.out);
    let in_script = Folder::new().explain(&["--quiet", "--server", "keyspaces"], schema.as_bytes());
    assert_eq!(in_script.code, Some(0), "{}", in_script.out);
    let cassandra = Folder::new().explain(&["--quiet"], schema.as_bytes());
    assert!(
        cassandra.out.contains("syntax of Amazon Keyspaces"),
        "{}",
        cassandra.out
    );
}

#[test]
fn statements_of_dse_in_a_schema_are_left_out() {
    let schema = "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
        CREATE TABLE shop.t (k int PRIMARY KEY, v int, loc 'PointType');
        CREATE SEARCH INDEX ON shop.t WITH COLUMNS v;";
    let ended = explained(&["--fail-on", "info"], schema, "SELECT v FROM t WHERE k = 1;");
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("s.cql:3:16: "), "{}", ended.err);
}
