//! Starts the embedded node on a port of one's choice and keeps it running, to try drivers and tools against
//! it.
//!
//! `cargo run --example embedded_node -- 127.0.0.1:9042`

use cqlens_node::{Node, Options};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut options = Options::default();
    if let Some(listen) = std::env::args().nth(1) {
        options.listen = listen.parse().map_err(std::io::Error::other)?;
    }
    let node = Node::start(options).await?;
    #[allow(clippy::print_stdout, reason = "the address is what the program prints")]
    {
        println!("{}", node.address());
    }
    tokio::signal::ctrl_c().await?;
    node.shutdown().await;
    Ok(())
}
