//! Disks that are full, read-only, or gone: forwarding goes on, it is said once, and snapshots and reports
//! come again.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::faults::{
    sight::{Other, ScriptedNode, proxy, watch},
    support::{Missing, available, cache, process::Supervised, snapshots},
    wire::{LIMIT, report},
};

fn node() -> ScriptedNode {
    ScriptedNode::start(|mut node| watch(&mut node, LIMIT))
}

fn count(folder: &Path) -> usize {
    snapshots::files(folder).len()
}

fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_snapshot_folder_that_goes_away_and_comes_back() {
    let node = node();
    let folder = tempfile::tempdir().unwrap();
    let snapshot_dir = folder.path().join("snapshots");
    let arguments = [
        "--window",
        "50ms",
        "--snapshot-dir",
        snapshot_dir.to_str().unwrap(),
    ];
    let proxy = proxy(node.address, &arguments);
    let other = Other::start(proxy.address);
    until("a snapshot is written", || count(&snapshot_dir) > 0);
    fs::remove_dir_all(&snapshot_dir).unwrap();
    fs::write(&snapshot_dir, "in its place").unwrap();
    until("it is said", || proxy.log().contains("cannot write a snapshot"));
    // Several windows and many requests later.
    std::thread::sleep(Duration::from_millis(500));
    fs::remove_file(&snapshot_dir).unwrap();
    fs::create_dir(&snapshot_dir).unwrap();
    until("snapshots are written again", || count(&snapshot_dir) > 0);
    assert!(other.stop() > 0);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert_eq!(
        ended.log.matches("cannot write a snapshot").count(),
        1,
        "{}",
        ended.log
    );
    assert_eq!(
        ended.log.matches("can be written again").count(),
        1,
        "{}",
        ended.log
    );
}

#[test]
fn a_report_on_a_full_disk() {
    let node = node();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let arguments = ["--window", "50ms", "--report", file.to_str().unwrap()];
    let proxy = proxy(node.address, &arguments);
    let other = Other::start(proxy.address);
    let link = folder.path().join("link");
    // Every write to this device finds no space.
    symlink("/dev/full", &link).unwrap();
    fs::rename(&link, &file).unwrap();
    until("it is said", || proxy.log().contains("cannot write"));
    std::thread::sleep(Duration::from_millis(300));
    fs::remove_file(&file).unwrap();
    until("reports are written again", || file.is_file());
    let asked = other.stop();
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.log.contains("No space left on device"), "{}", ended.log);
    assert_eq!(ended.log.matches("cannot write").count(), 1, "{}", ended.log);
    // What was counted while it could not be written is in it: the other's requests, and those with which it
    // began.
    assert_eq!(report(&file)["coverage"]["audited"], asked + 3);
}

/// A proxy that writes snapshots to a file system of its own, of 256 KiB.
struct OnSmallDisk {
    process: Supervised,
    /// Where the file system is, seen from here.
    disk: PathBuf,
    address: std::net::SocketAddr,
    _mount: tempfile::TempDir,
}

fn on_small_disk(node: &ScriptedNode) -> Result<OnSmallDisk, Missing> {
    let mount = tempfile::tempdir().unwrap();
    let path = mount.path().to_str().unwrap().to_owned();
    let shell = "mount -t tmpfs -o size=256k tmpfs \"$0\" || exit 77; shift 0; exec \"$@\"";
    let tried = Command::new("unshare")
        .args(["-rm", "sh", "-c", shell, &path, "true"])
        .output()
        .map_err(|error| Missing(format!("`unshare` cannot be run: {error}")))?;
    if !tried.status.success() {
        let reason = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
        return Err(Missing(format!("no file system can be mounted here: {reason}")));
    }
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let upstream = node.address.to_string();
    let listen = address.to_string();
    let program = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        shell,
        &path,
        env!("CARGO_BIN_EXE_cqlens"),
        "proxy",
        "--listen",
        &listen,
        "--upstream",
        &upstream,
        "--no-control-connection",
        "--window",
        "50ms",
        "--snapshot-dir",
        &path,
    ];
    let program = program.map(str::to_owned);
    let process = Supervised::spawn(&program, &[], &cache::log_file("small-disk"), None);
    until("it listens", || std::net::TcpStream::connect(address).is_ok());
    let disk = PathBuf::from(format!("/proc/{}/root{path}", process.id()));
    Ok(OnSmallDisk {
        process,
        disk,
        address,
        _mount: mount,
    })
}

#[test]
fn snapshots_on_a_full_and_then_read_only_disk() {
    let node = node();
    let Some(mut proxy) = available("the test of a full disk", on_small_disk(&node)) else {
        return;
    };
    let other = Other::start(proxy.address);
    let said = |proxy: &OnSmallDisk| proxy.process.log().matches("cannot write a snapshot").count();
    until("the disk is full", || said(&proxy) == 1);
    assert!(
        proxy.process.log().contains("No space left on device"),
        "{}",
        proxy.process.log()
    );
    std::thread::sleep(Duration::from_millis(300));
    let full = count(&proxy.disk);
    let files = || fs::read_dir(&proxy.disk).unwrap().map(|file| file.unwrap());
    // The next snapshot is tried meanwhile.
    until("no half-written file is left", || {
        !files().any(|file| file.file_name().to_string_lossy().starts_with(".cqlens-"))
    });
    for file in files() {
        // One that was begun since is removed by whoever writes it.
        let _ = fs::remove_file(file.path());
    }
    until("snapshots are written again", || {
        proxy.process.log().contains("can be written again")
    });
    assert!(full > 1 && count(&proxy.disk) > 0);

    remount(&proxy, "ro");
    until("it is said", || said(&proxy) == 2);
    std::thread::sleep(Duration::from_millis(300));
    remount(&proxy, "rw");
    until("snapshots are written again", || {
        proxy.process.log().matches("can be written again").count() == 2
    });
    let log = proxy.process.log();
    assert!(log.contains("Read-only file system"), "{log}");
    // Once each time, whatever the number of windows and requests.
    assert_eq!(said(&proxy), 2, "{log}");
    assert!(other.stop() > 0);
    proxy.process.signal("TERM");
    assert!(proxy.process.wait(LIMIT).is_some_and(|status| status.success()));
}

/// The kernel refuses to make a file system read-only while a file is open for writing: tried again until it does.
fn remount(proxy: &OnSmallDisk, how: &str) {
    let target = proxy.process.id().to_string();
    let path = proxy._mount.path().to_str().unwrap();
    // The namespace of users, too, where this is not the superuser.
    until("it is mounted anew", || {
        let status = Command::new("nsenter")
            .args(["--target", &target, "--user", "--preserve-credentials", "--mount"])
            .args(["mount", "-o", &format!("remount,{how},size=256k"), "tmpfs", path])
            .status();
        status.unwrap().success()
    });
}
