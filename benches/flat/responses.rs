//! Prepared point reads of one row, which is longer and longer.

use std::time::Duration;

use cqlens_proto::envelope::Version;
use tokio::runtime::Runtime;

use crate::{
    audited,
    backend::{self, Table},
    load::{Client, Load, Statement, run},
    mebibytes, medians,
    process::Running,
    processor_us,
};

const CONNECTIONS: usize = 8;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_millis(1_500);

pub(crate) fn measure(runtime: &Runtime) {
    println!("responses of prepared point reads, {CONNECTIONS} connections, depth 1\n");
    println!("| bytes | processor us/request | processor us/MiB | peak resident MiB | audited |");
    println!("| --- | --- | --- | --- | --- |");
    let rows = medians(&Table::ALL, |table| of(runtime, table));
    for (table, [processor, of_mebibyte, memory, audited]) in Table::ALL.into_iter().zip(rows) {
        println!(
            "| {} | {processor:.1} | {of_mebibyte:.0} | {memory:.0} | {:.1} % |",
            table.bytes(),
            audited * 100.0
        );
    }
    println!();
}

fn of(runtime: &Runtime, table: Table) -> [f64; 4] {
    let folder = tempfile::tempdir().unwrap();
    let proxy = Running::cqlens(folder.path(), backend::start());
    let load = Load {
        name: "",
        version: Version::V4,
        connections: CONNECTIONS,
        depth: 1,
        rate: None,
        statement: Statement::Read(table),
    };
    let clients = runtime.block_on(Client::connect_all(proxy.address, load));
    let (clients, _) = runtime.block_on(run(clients, WARM_UP));
    let mut connected = Vec::new();
    let (processor, requests) = processor_us(runtime, &proxy, async {
        let (clients, done) = run(clients, MEASURED).await;
        connected = clients;
        done.iter().map(|done| done.answers).sum()
    });
    let memory = mebibytes(proxy.peak_kib());
    drop(connected);
    let share = audited(proxy, folder.path());
    // What was not audited was forwarded all the same: that is what most of the time goes to.
    let each = processor / requests as f64;
    [
        each,
        each * f64::from(1 << 20) / f64::from(table.bytes()),
        memory,
        share,
    ]
}
