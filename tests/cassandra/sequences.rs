//! Operations of several statements that real drivers send to a real node are found; those of other loads are found in
//! `tests/sequences`.

use std::net::SocketAddr;

use crate::{
    labels::Score,
    loads::fill,
    node,
    shop::{Application, Drivers, data},
    support::{driver::Compression, proxy::free_address},
};
use tokio::runtime::Runtime;

#[test]
fn what_drivers_send_together_to_cassandra_is_found() {
    let Some(drivers) = Drivers::new() else { return };
    let Some(node) = node() else { return };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(fill(node.address()));
    let [listen, upstream] = [free_address(), node.address()].map(|address| address.to_string());
    let applications = [
        Application::python(8, 300, 12),
        Application::go(8, 300, 12).speaks(5, Compression::Lz4),
    ];
    let outcome = drivers.run(
        "Cassandra",
        &["--listen", &listen, "--upstream", &upstream],
        &applications,
    );
    // All others of that node would read this schema, too.
    for keyspace in ["python_shop", "go_shop"] {
        runtime.block_on(clear(node.address(), keyspace));
    }
    Score::of(&[outcome]).check(12);
}

/// Takes it away again.
async fn clear(node: SocketAddr, keyspace: &str) {
    let drop = format!("DROP KEYSPACE {keyspace}");
    data::connect(node).await.query(&drop).await.unwrap();
}
