//! What does `--topology cluster` cost, beside passthrough, where there is nothing to rewrite?
//!
//! `cargo bench --bench cluster`: the loads, clients, backend and processes of `wire`, on one processor; both
//! have a control connection to the same node. The two take turns, each begins every other round; medians of
//! the rounds, and the ratios within rounds. The number to compare is processor time of the threads that
//! forward, per request: only they differ. Nothing is asserted: machines are noisy.
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends where something is wrong"
)]

#[path = "../wire/backend.rs"]
#[allow(dead_code, reason = "the others have no cluster")]
mod backend;
#[path = "../wire/figures.rs"]
mod figures;
#[path = "../wire/idle.rs"]
mod idle;
#[path = "../wire/load.rs"]
#[allow(dead_code, reason = "`flat` sends other statements, too")]
mod load;
#[path = "../wire/loads.rs"]
mod loads;
mod node;
#[path = "../wire/process.rs"]
#[allow(dead_code, reason = "`wire` measures HAProxy, too")]
mod process;

use std::{net::SocketAddr, path::Path, time::Duration};

use figures::median;
use load::{Client, Load, run};
use loads::LOADS;
use process::{Running, bind_to_one_processor, free};

const ROUNDS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_millis(1500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Passthrough,
    Cluster,
}

const TARGETS: [Target; 2] = [Target::Passthrough, Target::Cluster];

/// One target under one load in one round; times are in microseconds.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Median time of a write and its answers.
    round_trip: f64,
    /// Of the threads that forward, per request.
    forwarding: f64,
    /// Of the whole process, per request that was audited.
    processor: f64,
    audited: f64,
}

/// Both targets in one round, in the order of [`TARGETS`].
type Round = [Row; 2];

fn main() {
    bind_to_one_processor();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let node = node::start();
    runtime.block_on(async {
        for load in LOADS {
            compare(load, node).await;
        }
        memory(node).await;
    });
}

async fn compare(load: &Load, node: SocketAddr) {
    let mut rounds: Vec<Round> = Vec::new();
    for round in 0..ROUNDS {
        let [passthrough, cluster] = TARGETS;
        rounds.push(if round % 2 == 0 {
            let first = measure(passthrough, load, node).await;
            [first, measure(cluster, load, node).await]
        } else {
            let first = measure(cluster, load, node).await;
            [measure(passthrough, load, node).await, first]
        });
    }
    print(load.name, &rounds);
}

fn print(name: &str, rounds: &[Round]) {
    println!("{name}");
    println!("| target | round trip us | forwarding us/request | processor us/audited request | audited |");
    println!("| --- | --- | --- | --- | --- |");
    for (index, target) in TARGETS.iter().enumerate() {
        let of = |value: fn(&Row) -> f64| median(rounds.iter().map(|round| value(&round[index])));
        println!(
            "| {target:?} | {:.1} | {:.2} | {:.2} | {:.1} % |",
            of(|row| row.round_trip),
            of(|row| row.forwarding),
            of(|row| row.processor),
            of(|row| row.audited) * 100.0
        );
    }
    let ratio = |value: fn(&Row) -> f64| {
        let ratios = rounds
            .iter()
            .map(|[passthrough, cluster]| value(cluster) / value(passthrough));
        let (lowest, highest) = ratios
            .clone()
            .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), ratio| {
                (low.min(ratio), high.max(ratio))
            });
        format!("{:.2} ({lowest:.2} to {highest:.2})", median(ratios))
    };
    println!(
        "| Cluster / Passthrough | {} | {} | {} | |\n",
        ratio(|row| row.round_trip),
        ratio(|row| row.forwarding),
        ratio(|row| row.processor)
    );
}

async fn measure(target: Target, load: &Load, node: SocketAddr) -> Row {
    let folder = tempfile::tempdir().unwrap();
    let proxy = start(target, folder.path(), node);
    let clients = Client::connect_all(proxy.address, *load).await;
    let (clients, _) = run(clients, WARM_UP).await;
    let spent = || (proxy.processor_time_of("wire-"), proxy.processor_time());
    let before = spent();
    let (clients, done) = run(clients, MEASURED).await;
    let after = spent();
    drop(clients);
    let answers = done.iter().map(|done| done.answers).sum::<u64>() as f64;
    let mut round_trips = done[0].round_trips.clone();
    done.iter()
        .skip(1)
        .for_each(|done| round_trips.add(&done.round_trips).unwrap());
    proxy.stop();
    let audited = process::audited_share(folder.path());
    let us = |after: Duration, before: Duration| (after - before).as_secs_f64() * 1e6;
    Row {
        round_trip: round_trips.value_at_quantile(0.5) as f64 / 1e3,
        forwarding: us(after.0, before.0) / answers,
        processor: us(after.1, before.1) / (answers * audited),
        audited,
    }
}

fn start(target: Target, folder: &Path, node: SocketAddr) -> Running {
    let (address, upstream) = (free(), node.to_string());
    // A rule that has one address.
    let rule = format!("{address}-{}", address.port());
    let listen = address.to_string();
    let arguments = match target {
        Target::Passthrough => vec!["--listen", &listen],
        Target::Cluster => vec!["--listen", &rule, "--topology", "cluster"],
    };
    Running::cqlens_with(
        folder,
        address,
        &[&arguments[..], &["--upstream", &upstream]].concat(),
    )
}

async fn memory(node: SocketAddr) {
    println!(
        "memory of {} idle connections that have prepared and read once",
        idle::CONNECTIONS
    );
    println!("| target | KiB each, lowest to highest of {ROUNDS} |");
    println!("| --- | --- |");
    for target in TARGETS {
        let mut each = Vec::new();
        for _ in 0..ROUNDS {
            let folder = tempfile::tempdir().unwrap();
            let proxy = start(target, folder.path(), node);
            each.push(idle::kib_each(&proxy).await);
        }
        each.sort_by(f64::total_cmp);
        println!("| {target:?} | {:.1} to {:.1} |", each[0], each[ROUNDS - 1]);
    }
}
