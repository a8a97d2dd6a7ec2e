//! Statements that are not prepared, of more and more templates in turn.

use std::time::Duration;

use cqlens_proto::envelope::Version;
use tokio::runtime::Runtime;

use crate::{
    audited, backend,
    load::{Client, Done, Load, Statement, run},
    mebibytes, medians,
    process::Running,
    processor_us,
};

const CONNECTIONS: usize = 16;
/// Every template comes.
const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(2);

pub(crate) fn measure(runtime: &Runtime) {
    let sizes = [1, 1_000, 100_000];
    println!("templates, {CONNECTIONS} connections, depth 32, every literal new\n");
    println!("| templates | processor us/audited request | resident MiB at the end | requests | audited |");
    println!("| --- | --- | --- | --- | --- |");
    let rows = medians(&sizes, |size| of(runtime, size));
    for (size, [processor, memory, requests, audited]) in sizes.into_iter().zip(rows) {
        println!(
            "| {size} | {processor:.2} | {memory:.0} | {requests} | {:.1} % |",
            audited * 100.0
        );
    }
    println!();
}

fn of(runtime: &Runtime, templates: u64) -> [f64; 4] {
    let folder = tempfile::tempdir().unwrap();
    let proxy = Running::cqlens(folder.path(), backend::start());
    let load = Load {
        name: "",
        version: Version::V4,
        connections: CONNECTIONS,
        depth: 32,
        rate: None,
        statement: Statement::Templates(templates),
    };
    let clients = runtime.block_on(Client::connect_all(proxy.address, load));
    let (clients, before) = runtime.block_on(run(clients, WARM_UP));
    let mut connected = Vec::new();
    let (processor, requests) = processor_us(runtime, &proxy, async {
        let (clients, done) = run(clients, MEASURED).await;
        connected = clients;
        answers(&done)
    });
    let memory = mebibytes(proxy.resident_kib());
    drop(connected);
    let share = audited(proxy, folder.path());
    [
        processor / (requests as f64 * share),
        memory,
        (answers(&before) + requests) as f64,
        share,
    ]
}

fn answers(done: &[Done]) -> u64 {
    done.iter().map(|done| done.answers).sum()
}
