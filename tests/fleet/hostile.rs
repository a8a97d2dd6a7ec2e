//! A store that is hostile: what serves the audit costs a proxy's clients nothing, and no memory.

use std::{sync::atomic::Ordering, time::Instant};

use cqlens_testing::{process::peak_kib, proxy::Proxy};

use super::{
    cluster::{Cluster, LIMIT, PROGRAM, text},
    endless_store::EndlessStore,
};

/// Of a response 1 MiB is read; what systems keep for both ends of a connection comes to a few more.
const MOST_SENT: u64 = 32 << 20;

/// The complaints of a few refusals, each cut.
const MOST_LOG: usize = 64 << 10;

/// What windows and their files take beside. Without a limit it is gigabytes within seconds.
const MOST_KIB: u64 = 64 << 10;

#[test]
fn a_store_that_refuses_without_an_end_costs_no_client_and_no_memory() {
    let cluster = Cluster::start();
    let (store, spool) = (EndlessStore::start(), tempfile::tempdir().unwrap());
    let upstream = cluster.address().to_string();
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--upstream",
        &upstream,
        "--window",
        "200ms",
        "--sink",
        "s3://reviews/cqlens",
        "--sink-spool",
        text(spool.path()),
        "--sink-every",
        "1s",
    ];
    let proxy = Proxy::launch(PROGRAM, &arguments, &store.environment(), None);
    let mut client = cluster.client(proxy.address);
    client.script("SELECT * FROM shop.items");
    let at_rest = peak_kib(proxy.id());
    let deadline = Instant::now() + LIMIT;
    while store.refused.load(Ordering::Relaxed) < REFUSALS {
        assert!(
            Instant::now() < deadline,
            "the store is not asked:\n{}",
            proxy.log()
        );
        // One that was there before, and one that is new.
        client.script("SELECT * FROM shop.items");
        cluster.send(proxy.address, "SELECT v FROM shop.items WHERE id = 1");
    }
    let peak = peak_kib(proxy.id());
    client.script("SELECT * FROM shop.items");
    let ended = proxy.stop(LIMIT);
    assert!(peak - at_rest < MOST_KIB, "{at_rest} KiB, then {peak} KiB");
    let (refused, sent) = (&store.refused, &store.sent);
    let most = refused.load(Ordering::Relaxed) * MOST_SENT;
    assert!(sent.load(Ordering::Relaxed) < most, "{sent:?} of {refused:?}");
    let log = &ended.log;
    let said = "sink: snapshots cannot be written and wait in";
    assert!(log.contains(said) && log.contains("403"), "{log}");
    assert!(log.contains("the others wait for the next start"), "{log}");
    assert!(log.len() < MOST_LOG, "{} bytes of log:\n{log}", log.len());
    assert_eq!(ended.code, 0, "{log}");
}

/// The first, and others after its pauses.
const REFUSALS: u64 = 3;
