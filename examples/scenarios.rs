//! Sends scenarios to any node, a real Cassandra or a proxy before one included.
//!
//! `cargo run --example scenarios -- 127.0.0.1:9142 tests/scenarios/*/`

use std::{net::SocketAddr, path::PathBuf};

use anyhow::Context;
use cqlens_client::ClientOptions;
use cqlens_node::scenario::Scenario;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().context("where to? ADDRESS:PORT FOLDER…")?;
    let address: SocketAddr = address.parse().context("the address")?;
    for folder in arguments.map(PathBuf::from) {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).with_context(|| path.display().to_string())
        };
        let id = folder
            .file_name()
            .context("a folder")?
            .to_string_lossy()
            .into_owned();
        let scenario = Scenario::parse(&id, &read("schema.cql")?, &read("traffic.toml")?)?;
        let totals = scenario.run(address, &ClientOptions::default()).await?;
        #[allow(clippy::print_stdout, reason = "progress is what the program prints")]
        {
            println!(
                "{id}: {} requests, {} refused, {} rows",
                totals.requests, totals.refused, totals.rows
            );
        }
    }
    Ok(())
}
