//! What does a shadow cost the clients of the first cluster, all of whose requests are copied?
//!
//! `cargo bench --bench shadow`: the loads, clients, backend and processes of `wire`, on one processor; the shadow is the
//! backend itself. A proxy without a shadow and one with take turns, each begins every other round; medians of the
//! rounds, and the ratios within rounds. The numbers to compare are processor time of the threads that forward, per
//! request, and the round trip: sending copies and comparing answers is the work of other threads, which on one
//! processor take it from all others. Nothing is asserted: machines are noisy.
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends where something is wrong"
)]

#[path = "wire/backend.rs"]
#[allow(dead_code, reason = "`cluster` has a cluster")]
mod backend;
#[path = "wire/figures.rs"]
mod figures;
#[path = "wire/load.rs"]
#[allow(dead_code, reason = "`flat` sends other statements, too")]
mod load;
#[path = "wire/loads.rs"]
#[allow(dead_code, reason = "`wire` looks at idle connections, too")]
mod loads;
#[path = "wire/process.rs"]
#[allow(dead_code, reason = "`wire` measures HAProxy, too")]
mod process;

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use figures::median;
use load::{Client, Load, run};
use loads::LOADS;
use process::{Running, bind_to_one_processor, free};

const ROUNDS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_millis(1500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Without,
    Shadow,
}

const TARGETS: [Target; 2] = [Target::Without, Target::Shadow];

/// One target under one load in one round; times are in microseconds.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Median time of a write and its answers.
    round_trip: f64,
    /// Of the threads that forward, per request.
    forwarding: f64,
    /// Of the auditor, per request.
    audit: f64,
    /// Of the thread that copies and compares, per request.
    shadow: f64,
    /// The share of requests whose answers were compared.
    compared: f64,
}

/// Both targets in one round, in the order of [`TARGETS`].
type Round = [Row; 2];

fn main() {
    bind_to_one_processor();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let backend = backend::start();
    runtime.block_on(async {
        for load in LOADS {
            compare(load, backend).await;
        }
    });
}

async fn compare(load: &Load, backend: SocketAddr) {
    let mut rounds: Vec<Round> = Vec::new();
    for round in 0..ROUNDS {
        let [without, shadow] = TARGETS;
        rounds.push(if round % 2 == 0 {
            let first = measure(without, load, backend).await;
            [first, measure(shadow, load, backend).await]
        } else {
            let first = measure(shadow, load, backend).await;
            [measure(without, load, backend).await, first]
        });
    }
    print(load.name, &rounds);
}

fn print(name: &str, rounds: &[Round]) {
    println!("{name}");
    println!(
        "| target | round trip us | forwarding us/request | audit us/request | shadow us/request | compared |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for (index, target) in TARGETS.iter().enumerate() {
        let of = |value: fn(&Row) -> f64| median(rounds.iter().map(|round| value(&round[index])));
        println!(
            "| {target:?} | {:.1} | {:.2} | {:.2} | {:.2} | {:.1} % |",
            of(|row| row.round_trip),
            of(|row| row.forwarding),
            of(|row| row.audit),
            of(|row| row.shadow),
            of(|row| row.compared) * 100.0
        );
    }
    let ratio = |value: fn(&Row) -> f64| {
        let ratios: Vec<f64> = rounds
            .iter()
            .map(|[without, shadow]| value(shadow) / value(without))
            .collect();
        let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = ratios.iter().copied().fold(0.0, f64::max);
        format!("{:.2} ({lowest:.2} to {highest:.2})", median(ratios.into_iter()))
    };
    println!(
        "| Shadow / Without | {} | {} | {} | | |\n",
        ratio(|row| row.round_trip),
        ratio(|row| row.forwarding),
        ratio(|row| row.audit)
    );
}

async fn measure(target: Target, load: &Load, backend: SocketAddr) -> Row {
    let folder = tempfile::tempdir().unwrap();
    let proxy = start(target, folder.path(), backend);
    let clients = Client::connect_all(proxy.address, *load).await;
    let (clients, _) = run(clients, WARM_UP).await;
    let spent = || ["wire-", "audit", "shadow"].map(|threads| proxy.processor_time_of(threads));
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
    let us = |place: usize| (after[place] - before[place]).as_secs_f64() * 1e6 / answers;
    Row {
        round_trip: round_trips.value_at_quantile(0.5) as f64 / 1e3,
        forwarding: us(0),
        audit: us(1),
        shadow: us(2),
        compared: compared_share(folder.path()),
    }
}

fn start(target: Target, folder: &Path, backend: SocketAddr) -> Running {
    let schema = folder.join("schema.cql");
    fs::write(&schema, backend::schema()).unwrap();
    let address = free();
    let (listen, upstream) = (address.to_string(), backend.to_string());
    let schema = schema.to_str().unwrap();
    let mut arguments = vec!["--listen", &listen, "--upstream", &upstream, "--schema", schema];
    arguments.push("--no-control-connection");
    if target == Target::Shadow {
        arguments.extend(["--shadow", &upstream, "--shadow-no-discovery"]);
    }
    Running::cqlens_with(folder, address, &arguments)
}

/// The share of all requests whose answers were compared.
fn compared_share(folder: &Path) -> f64 {
    let text = fs::read_to_string(folder.join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let compared = &report["comparison"]["totals"]["compared"];
    compared.as_f64().unwrap_or(0.0) / report["coverage"]["requests"].as_f64().unwrap()
}
