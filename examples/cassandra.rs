//! Keeps real Cassandra nodes running for manual work until Enter, the end of standard input, or Ctrl-C:
//! `cargo run --example cassandra -- [NODES] [SETTING=VALUE…]`, such as `3 tombstone_warn_threshold=10`.
#![allow(clippy::print_stdout, reason = "the addresses are what this prints")]

use cqlens_testing::{
    available,
    cassandra::{Cassandra, Options},
};

fn main() {
    let mut options = Options::default();
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some((setting, value)) => options = options.with(setting, value),
            None => {
                options.nodes = argument
                    .parse()
                    .expect("an argument is SETTING=VALUE or the number of nodes")
            }
        }
    }
    let Some(cluster) = available("the cluster", Cassandra::start(&options)) else {
        return;
    };
    for node in cluster.nodes() {
        println!("{} ready, log at {}", node.address, node.log_path().display());
    }
    println!("Enter stops the cluster");
    let _ = std::io::stdin().read_line(&mut String::new());
}
