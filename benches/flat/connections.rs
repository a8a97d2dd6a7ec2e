//! The same requests a second, one after the other, over more and more connections.

use std::time::Duration;

use cqlens_proto::envelope::Version;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    runtime::Runtime,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    audited,
    backend::{self, Table},
    load::{Client, Load, Statement},
    medians,
    process::Running,
    processor_us,
};

/// A second, over all connections.
const RATE: u32 = 2_000;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(4);

pub(crate) fn measure(runtime: &Runtime) {
    let most = raise_descriptors().saturating_sub(KEPT) / 2;
    let sizes = [1, 100, 1_000, 10_000].map(|size: usize| size.min(most));
    println!("connections, {RATE} prepared point reads a second over all of them\n");
    println!("| connections | processor us/request | KiB each | audited |");
    println!("| --- | --- | --- | --- |");
    let rows = medians(&sizes, |size| of(runtime, size));
    for (size, [processor, memory, audited]) in sizes.into_iter().zip(rows) {
        let memory = if size > 1 {
            format!("{memory:.1}")
        } else {
            String::new()
        };
        println!(
            "| {size} | {processor:.2} | {memory} | {:.1} % |",
            audited * 100.0
        );
    }
    if most < 10_000 {
        println!("\nas many as the limit of file descriptors holds, instead of 10000");
    }
    println!();
}

fn of(runtime: &Runtime, connections: usize) -> [f64; 3] {
    let folder = tempfile::tempdir().unwrap();
    // One of its own: addresses are not in use by connections of before.
    let proxy = Running::cqlens(folder.path(), backend::start());
    let load = Load {
        name: "",
        version: Version::V4,
        connections,
        depth: 1,
        rate: None,
        statement: Statement::Read(Table::Small),
    };
    let connect = |number| Client::connect(proxy.address, load, number);
    // What the first one needs, all need once.
    let mut clients = vec![runtime.block_on(connect(0))];
    let before = proxy.resident_kib();
    for number in 1..connections {
        clients.push(runtime.block_on(connect(number)));
    }
    runtime.block_on(pace(&mut clients, WARM_UP));
    let (processor, requests) = processor_us(runtime, &proxy, pace(&mut clients, MEASURED));
    let grown = proxy.resident_kib().saturating_sub(before) as f64;
    drop(clients);
    let share = audited(proxy, folder.path());
    [
        processor / (requests as f64 * share),
        grown / (connections - 1).max(1) as f64,
        share,
    ]
}

/// Sends [`RATE`] requests a second, each over the next connection; how many.
async fn pace(clients: &mut [Client], time: Duration) -> u64 {
    let end = Instant::now() + time;
    let mut ticks = interval(Duration::from_secs(1) / RATE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut next, mut sent) = (0, 0);
    while Instant::now() < end {
        ticks.tick().await;
        clients[next].run_once().await;
        next = (next + 1) % clients.len();
        sent += 1;
    }
    sent
}

/// As many file descriptors as may be had, for this process and those that it starts.
fn raise_descriptors() -> usize {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    maximum.map_or(usize::MAX, |most| usize::try_from(most).unwrap())
}

/// Descriptors of a process that are not connections; those of the proxy are more.
const KEPT: usize = 200;
