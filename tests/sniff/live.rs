//! `cqlens sniff --interface`: what crosses an interface is in the report, without tcpdump.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use serde_json::Value;

use crate::sniff::{
    report::number,
    sniff::PROGRAM,
    support::{Missing, available, cache, process::Supervised},
};

const SOON: Duration = Duration::from_secs(60);

/// Begins to capture; says that it is missing where the process may not.
fn start(interface: &str, port: u16, report: &Path) -> Result<Supervised, Missing> {
    let port = port.to_string();
    let report = report.display().to_string();
    let arguments = [
        "sniff",
        "--interface",
        interface,
        "--port",
        &port,
        "--window",
        "1s",
        "--report",
        &report,
    ];
    let command: Vec<String> = [&[PROGRAM][..], &arguments]
        .concat()
        .iter()
        .map(|&word| word.to_owned())
        .collect();
    let mut running = Supervised::spawn(&command, &[], &cache::log_file("live"), None);
    let deadline = Instant::now() + SOON;
    while !running.log().contains("capturing at interface") {
        if running.ended().is_some() || Instant::now() > deadline {
            return Err(Missing(running.log()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(running)
}

#[test]
fn what_crosses_an_interface_is_in_the_report() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let node = runtime.block_on(Node::start(Options::default())).unwrap();
    for interface in ["lo", "any"] {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.json");
        let started = start(interface, node.address().port(), &report);
        let Some(mut running) = available("a live capture", started) else {
            return;
        };
        runtime.block_on(async {
            let mut client = Client::connect(node.address(), &ClientOptions::default())
                .await
                .unwrap();
            for _ in 0..100 {
                client
                    .query("SELECT cluster_name FROM system.local")
                    .await
                    .unwrap();
            }
        });
        let deadline = Instant::now() + SOON;
        let seen = || {
            let report: Value = serde_json::from_slice(&std::fs::read(&report).ok()?).ok()?;
            let patterns = report["system_patterns"].as_array()?.iter();
            Some(patterns.map(|pattern| number(&pattern["count"])).sum::<u64>())
        };
        while seen() < Some(100) {
            assert!(
                Instant::now() < deadline && running.ended().is_none(),
                "{}",
                running.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
        let right = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .unwrap();
        const NET_RAW: u64 = 1 << 13;
        let right = u64::from_str_radix(right.trim(), 16).unwrap();
        assert_eq!(right & NET_RAW, 0, "it may still capture");
        running.signal("TERM");
        let ended = running.wait(SOON);
        assert!(ended.is_some_and(|status| status.success()), "{}", running.log());
        assert_eq!(seen(), Some(100), "each once");
    }
}

#[test]
fn an_interface_that_does_not_exist_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Err(Missing(said)) = start("nowhere0", 9042, &folder.path().join("report.json")) else {
        panic!("it has begun");
    };
    let is_said = said.contains("there is no such interface") || said.contains("may not capture");
    assert!(said.contains("--interface nowhere0") && is_said, "{said}");
}
