//! The example of captures for Kubernetes: its pod is stopped.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::Value;

use crate::packages::{
    checkout,
    kubernetes::{container, workload},
    printed,
};

const SOON: Duration = Duration::from_secs(60);

/// A pod that has to go writes its last window: the shell passes SIGTERM on, which it would not do by itself.
#[test]
fn captures_write_their_last_window_when_the_pod_goes() {
    let Some(workload) = workload("kubernetes-daemonset.yaml") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let here = folder.path().display().to_string();
    let script = container(&workload, "cqlens")["command"][2]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(script.contains("-w - \"tcp port 9042\""), "{script}");
    let script = script
        .replace("s3://reviews", &format!("file://{here}"))
        .replace("/var/lib/cqlens", &here)
        .replace("/etc/cqlens/hash.key", &format!("{here}/hash.key"));
    fs::write(path("hash.key"), "0123456789abcdef0123456789abcdef").unwrap();

    // Packets of a driver, one more that ends their window, and then nothing for a long time.
    let mut packets = fs::read(checkout().join("tests/sniff/captures/python-v4-none.pcap")).unwrap();
    let last = append_later(&mut packets, 3 * 3_600 + 30);
    fs::write(path("packets"), packets).unwrap();
    let tcpdump = format!("#!/bin/sh\ncat '{here}/packets'\nexec sleep 300\n");
    fs::write(path("tcpdump"), tcpdump).unwrap();
    fs::set_permissions(path("tcpdump"), fs::Permissions::from_mode(0o755)).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_cqlens"))
        .parent()
        .unwrap()
        .display();
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .env("PATH", format!("{here}:{programs}:{}", std::env::var("PATH").unwrap()))
        .env("NODE_NAME", "node-1")
        // In a container, the shell and its children are a group of their own.
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !path("cqlens").exists() {
        assert!(begun.elapsed() < SOON, "no window was written");
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = shell.id().to_string();
    printed(Command::new("kill").args(["-TERM", &id]));
    let begun = Instant::now();
    while shell.try_wait().unwrap().is_none() {
        if begun.elapsed() > SOON {
            printed(Command::new("kill").args(["-KILL", "--", &format!("-{id}")]));
            panic!("SIGTERM was not passed on");
        }
        std::thread::sleep(Duration::from_millis(20));
    }

    let store = format!("file://{here}/cqlens");
    let mut report = Command::new(env!("CARGO_BIN_EXE_cqlens"));
    report.args([
        "report",
        "--from",
        &store,
        "--since",
        "2000-01-01",
        "--format",
        "json",
    ]);
    let report: Value = serde_json::from_str(&printed(&mut report)).unwrap();
    assert_eq!(report["coverage"]["audited"], 125, "{}", report["coverage"]);
    let end: Timestamp = report["window"]["end"].as_str().unwrap().parse().unwrap();
    assert_eq!(end, last, "{}", report["window"]);
}

/// Appends the first packet of a pcap file once more, so many seconds later; its time.
fn append_later(pcap: &mut Vec<u8>, seconds: u32) -> Timestamp {
    let first = &pcap[24..];
    let word = |at: usize| u32::from_le_bytes(first[at..at + 4].try_into().unwrap());
    let (time, microseconds, bytes) = (word(0) + seconds, word(4), word(8) as usize);
    let packet = [&time.to_le_bytes(), &first[4..16 + bytes]].concat();
    pcap.extend(packet);
    Timestamp::from_microsecond(i64::from(time) * 1_000_000 + i64::from(microseconds)).unwrap()
}
