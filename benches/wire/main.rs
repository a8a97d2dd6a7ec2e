//! What does a request through cqlens cost, beside HAProxy and beside no proxy at all?
//!
//! `cargo bench --bench wire`: clients, proxy and a backend of canned answers on one processor (where
//! `taskset` is there to bind them to it), the targets in turns within each round, medians of the rounds. The
//! number to compare is processor time of the proxy per request, by the kernel's accounting; for cqlens per
//! request that its report has counted. `CQLENS_BENCH_OTHER=PROGRAM` measures another build of cqlens in the same
//! turns: of another commit, or of another profile. `-- memory` leaves out the loads.
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends where something is wrong"
)]

mod backend;
mod figures;
mod idle;
#[allow(dead_code, reason = "`flat` sends other statements, too")]
mod load;
mod loads;
#[allow(dead_code, reason = "`flat` looks at peaks, `cluster` at threads")]
mod process;

use std::{net::SocketAddr, path::Path, time::Duration};

use figures::median;
use load::{Client, Load, run};
use loads::LOADS;
use process::{Running, bind_to_one_processor};
use tokio::time::Instant;

const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_millis(1500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Direct,
    Haproxy,
    Cqlens,
    /// Another build of cqlens, if there is one to compare with.
    Other,
}

/// HAProxy in second place: its rows are what others are compared with.
fn targets() -> Vec<Target> {
    let other = process::other_build().map(|_| Target::Other);
    [Target::Direct, Target::Haproxy, Target::Cqlens]
        .into_iter()
        .chain(other)
        .collect()
}

/// One target under one load in one round.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Requests a second.
    rate: f64,
    /// Median time of a write and its answers, in microseconds.
    round_trip: f64,
    /// Of the proxy, per request (that was audited), in microseconds.
    processor: f64,
    audited: f64,
}

fn main() {
    bind_to_one_processor();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let backend = backend::start();
    runtime.block_on(async {
        let only_memory = std::env::args().any(|argument| argument == "memory");
        if !only_memory {
            for load in LOADS {
                compare(load, backend).await;
            }
        }
        memory(backend).await;
    });
}

async fn compare(load: &Load, backend: SocketAddr) {
    let targets = targets();
    let mut rows = vec![Vec::new(); targets.len()];
    for _ in 0..ROUNDS {
        for (target, rows) in targets.iter().zip(&mut rows) {
            rows.extend(measure(*target, load, backend).await);
        }
    }
    println!("{}", load.name);
    println!("| target | requests/s | round trip us | processor us/request | of HAProxy's | audited |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let haproxy: Vec<f64> = rows[1].iter().map(|row: &Row| row.processor).collect();
    for (target, rows) in targets.iter().zip(&rows) {
        if rows.is_empty() {
            println!("| {target:?} | not installed | | | | |");
            continue;
        }
        let of = |value: fn(&Row) -> f64| median(rows.iter().map(value));
        let (processor, ratio) = match target {
            Target::Direct => (String::new(), String::new()),
            _ => {
                let ratios = rows
                    .iter()
                    .zip(&haproxy)
                    .map(|(row, haproxy)| row.processor / haproxy);
                let ratio = if haproxy.is_empty() {
                    String::new()
                } else {
                    format!("{:.2}", median(ratios))
                };
                (format!("{:.2}", of(|row| row.processor)), ratio)
            }
        };
        let audited = match target {
            Target::Cqlens | Target::Other => format!("{:.1} %", of(|row| row.audited) * 100.0),
            _ => String::new(),
        };
        println!(
            "| {target:?} | {:.0} | {:.1} | {processor} | {ratio} | {audited} |",
            of(|row| row.rate),
            of(|row| row.round_trip)
        );
    }
    println!();
}

/// None where the target is not installed.
async fn measure(target: Target, load: &Load, backend: SocketAddr) -> Option<Row> {
    let folder = tempfile::tempdir().unwrap();
    let proxy = start(target, folder.path(), backend)?;
    let address = proxy.as_ref().map_or(backend, |proxy| proxy.address);
    let clients = Client::connect_all(address, *load).await;
    let (clients, _) = run(clients, WARM_UP).await;
    let before = proxy.as_ref().map(Running::processor_time).unwrap_or_default();
    let began = Instant::now();
    let (clients, done) = run(clients, MEASURED).await;
    let seconds = began.elapsed().as_secs_f64();
    let after = proxy.as_ref().map(Running::processor_time).unwrap_or_default();
    drop(clients);
    let answers = done.iter().map(|done| done.answers).sum::<u64>() as f64;
    let mut round_trips = done[0].round_trips.clone();
    done.iter()
        .skip(1)
        .for_each(|done| round_trips.add(&done.round_trips).unwrap());
    if let Some(proxy) = proxy {
        proxy.stop();
    }
    let audited = match target {
        Target::Cqlens | Target::Other => process::audited_share(folder.path()),
        _ => 1.0,
    };
    Some(Row {
        rate: answers / seconds,
        round_trip: round_trips.value_at_quantile(0.5) as f64 / 1e3,
        processor: (after - before).as_secs_f64() * 1e6 / (answers * audited),
        audited,
    })
}

/// None where the target is not installed; no process where there is no proxy.
fn start(target: Target, folder: &Path, backend: SocketAddr) -> Option<Option<Running>> {
    Some(match target {
        Target::Direct => None,
        Target::Haproxy => Some(Running::haproxy(folder, backend)?),
        Target::Cqlens => Some(Running::cqlens(folder, backend)),
        Target::Other => {
            let program = process::other_build()?;
            Some(Running::cqlens_of(program.as_ref(), folder, backend))
        }
    })
}

async fn memory(backend: SocketAddr) {
    println!(
        "memory of {} idle connections that have prepared and read once",
        idle::CONNECTIONS
    );
    println!("| target | KiB each |");
    println!("| --- | --- |");
    for target in targets().into_iter().filter(|target| *target != Target::Direct) {
        let folder = tempfile::tempdir().unwrap();
        let Some(Some(proxy)) = start(target, folder.path(), backend) else {
            println!("| {target:?} | not installed |");
            continue;
        };
        println!("| {target:?} | {:.1} |", idle::kib_each(&proxy).await);
    }
}
