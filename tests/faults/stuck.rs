//! Files that never come and pipes that nobody reads: forwarding goes on, operators get answers, and the
//! process ends when it is told to.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::faults::{
    sight::{Other, ScriptedNode, fault, proxy, watch},
    support::{
        cache,
        process::Supervised,
        proxy::{Proxy, free_address},
    },
    wire::LIMIT,
};

fn node() -> ScriptedNode {
    ScriptedNode::start(|mut node| watch(&mut node, LIMIT))
}

/// A pipe at `path`, which nobody reads.
fn pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

fn get(admin: SocketAddr, path: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(admin).unwrap();
    connection.set_read_timeout(Some(LIMIT)).unwrap();
    write!(
        connection,
        "GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A proxy whose report goes to a pipe that nobody reads.
struct Stuck {
    _node: ScriptedNode,
    proxy: Proxy,
    admin: SocketAddr,
    folder: tempfile::TempDir,
}

impl Stuck {
    fn start(arguments: &[&str]) -> Self {
        let (node, folder, admin) = (node(), tempfile::tempdir().unwrap(), free_address());
        let report = folder.path().join("report.json");
        pipe(&report);
        let admin_text = admin.to_string();
        let own = [
            "--report",
            report.to_str().unwrap(),
            "--window",
            "50ms",
            "--admin",
            &admin_text,
        ];
        let proxy = proxy(node.address, &[&own, arguments].concat());
        Self {
            _node: node,
            proxy,
            admin,
            folder,
        }
    }
}

#[test]
fn a_report_that_nobody_reads_holds_up_nothing() {
    let mut stuck = Stuck::start(&["--grace", "1s"]);
    let other = Other::start(stuck.proxy.address);
    until("windows are late, which is told", || {
        let (code, body) = get(stuck.admin, "/readyz");
        assert_eq!(code, 200);
        let status: Value = serde_json::from_str(&body).unwrap();
        let threads = status["threads"].as_array().unwrap();
        let writer = threads.iter().find(|thread| thread["thread"] == "writer");
        let is_silent = writer.is_some_and(|writer| writer["silent_seconds"].as_u64() > Some(0));
        is_silent && status["audit"]["postponed_windows"].as_u64() > Some(3)
    });
    assert_eq!(get(stuck.admin, "/livez"), (200, "alive\n".to_owned()));
    let log = stuck.proxy.log();
    assert_eq!(log.matches("is still being written").count(), 1, "{log}");
    stuck.proxy.signal("HUP");
    stuck.proxy.wait_for_log("settings reloaded");
    assert!(other.stop() > 0);
    let ended = stuck.proxy.stop(LIMIT);
    assert_eq!(ended.code, 3, "{}", ended.log);
    assert!(ended.log.contains("the last window is lost"), "{}", ended.log);
    drop(stuck.folder);
}

#[test]
fn a_report_that_is_read_late_is_written_late() {
    let stuck = Stuck::start(&[]);
    let other = Other::start(stuck.proxy.address);
    until("windows are late", || {
        stuck.proxy.log().contains("is still being written")
    });
    let report = stuck.folder.path().join("report.json");
    let first = fs::read_to_string(&report).unwrap();
    assert!(first.contains("cqlens.report.v1"), "{first}");
    fs::remove_file(&report).unwrap();
    until("reports are files again", || report.is_file());
    until("it is said", || {
        stuck.proxy.log().contains("written in time again")
    });
    let asked = other.stop();
    let ended = stuck.proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    // Windows were longer, and lack nothing: the other's requests are there, and those with which it began.
    assert_eq!(
        crate::faults::wire::report(&report)["coverage"]["audited"],
        asked + 3
    );
}

#[test]
fn a_second_signal_ends_a_process_that_is_stuck() {
    let mut stuck = Stuck::start(&["--grace", "1h"]);
    // A request in flight, for which an hour is waited.
    let mut client = crate::faults::sight::acquainted(stuck.proxy.address);
    client.write_all(&fault()).unwrap();
    until("it is in flight", || {
        let status: Value = serde_json::from_str(&get(stuck.admin, "/readyz").1).unwrap();
        status["connections"].as_u64() > Some(0)
    });
    std::thread::sleep(Duration::from_millis(100));
    stuck.proxy.signal("TERM");
    stuck.proxy.wait_for_log("stopping:");
    let ended = stuck.proxy.stop_by("INT", LIMIT);
    assert_eq!(ended.code, 130, "{}", ended.log);
    assert!(ended.log.contains("ending as it is"), "{}", ended.log);
}

#[test]
fn a_reload_whose_files_never_come_holds_up_nothing() {
    let (node, folder, admin) = (node(), tempfile::tempdir().unwrap(), free_address());
    let schema = folder.path().join("schema.cql");
    fs::write(&schema, "").unwrap();
    let admin_text = admin.to_string();
    let arguments = ["--schema", schema.to_str().unwrap(), "--admin", &admin_text];
    let mut proxy = proxy(node.address, &arguments);
    fs::remove_file(&schema).unwrap();
    pipe(&schema);
    let other = Other::start(proxy.address);
    proxy.signal("HUP");
    // What comes after it in the same loop is answered.
    proxy.signal("USR1");
    proxy.wait_for_log("cqlens ignores this signal");
    assert_eq!(get(admin, "/livez").0, 200);
    assert!(!proxy.log().contains("settings reloaded"), "{}", proxy.log());
    assert!(other.stop() > 0);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
}

#[test]
fn a_capture_whose_report_nobody_reads() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    pipe(&report);
    let start = || {
        let capture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sniff/captures");
        let capture = fs::read_dir(capture).unwrap().map(|entry| entry.unwrap().path());
        let capture = capture.filter(|path| path.extension().is_some_and(|end| end == "pcap"));
        let capture = capture.min().unwrap();
        let program = [
            env!("CARGO_BIN_EXE_cqlens"),
            "sniff",
            capture.to_str().unwrap(),
            "--report",
            report.to_str().unwrap(),
        ];
        Supervised::spawn(
            &program.map(str::to_owned),
            &[],
            &cache::log_file("sniff-stuck"),
            None,
        )
    };
    let (mut patient, mut hasty) = (start(), start());
    let is_up = |process: &Supervised| {
        let tasks = fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
        let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
        names.into_iter().any(|name| name.trim() == "audit")
    };
    until("both are at work", || is_up(&patient) && is_up(&hasty));
    patient.signal("TERM");
    hasty.signal("TERM");
    std::thread::sleep(Duration::from_millis(200));
    assert!(hasty.ended().is_none(), "the first signal has patience");
    hasty.signal("INT");
    let code = |process: &mut Supervised| process.wait(LIMIT).and_then(|status| status.code());
    assert_eq!(code(&mut hasty), Some(130), "{}", hasty.log());
    assert_eq!(code(&mut patient), Some(3), "{}", patient.log());
    assert!(patient.log().contains("ending as it is"), "{}", patient.log());
}
