//! What of tables only their definitions say is read from a live node: `system_schema` of Cassandra 6.0-alpha2 does not have it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cqlens::control::follow;
use cqlens_audit::catalog::Live;
use cqlens_client::{Client, ClientOptions};
use cqlens_cql::schema::Schema;

use crate::node;
use crate::support::{cassandra::Release, say};

/// For the control connection to read the schema.
const LIMIT: Duration = Duration::from_secs(300);

const DEFINED: &str = "
    CREATE KEYSPACE defined WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE defined.stock (item int CHECK item > 0 PRIMARY KEY, left int CHECK left <= 100 AND NOT NULL, note text)
        WITH transactional_mode = 'mixed_reads';
    CREATE TABLE defined.plain (k int PRIMARY KEY, v int);
";

#[tokio::test]
async fn modes_and_constraints_of_tables_are_read_from_a_live_node() {
    if Release::default() != Release::V6_0 {
        say("left out: what only definitions say, which only Cassandra 6.0 has (CQLENS_CASSANDRA=6.0)\n");
        return;
    }
    let Some(node) = node() else { return };
    let mut client = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    client.script(DEFINED).await.unwrap();
    let live = Arc::new(Live::default());
    let options = ClientOptions::default();
    let following = tokio::spawn(follow(Arc::clone(&live), node.address().to_string(), options));
    let deadline = Instant::now() + LIMIT;
    while !live.is_known() {
        assert!(Instant::now() < deadline, "the schema was not read");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    following.abort();
    let expected = Schema::from_cql(DEFINED).unwrap();
    let read = live.schema();
    for table in ["stock", "plain"] {
        let of = |schema: &Schema| {
            let table = schema.table("defined", table).unwrap().clone();
            (table.transactional_mode(), table.columns)
        };
        assert_eq!(of(&read), of(&expected), "{table}");
    }
    // The keyspace stays: alpha 2 drops none with tables in which there are transactions.
}
