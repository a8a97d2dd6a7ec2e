//! The yardstick itself: processes end with the test run, taps keep every byte, drivers are deterministic.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::panic::catch_unwind;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::node;
use crate::support::driver::{Compression, Driver, Session};
use crate::support::process::Supervised;
use crate::support::tap::{Recording, Tap, assert_passed_unchanged};
use crate::support::{available, cache, with_everything};

const SOON: Duration = Duration::from_secs(120);

fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

/// Waits for the condition, which some other process brings about.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_running(pid: &str) -> bool {
    let found = Command::new("kill")
        .args(["-s", "0", pid])
        .stderr(Stdio::null())
        .status();
    found.unwrap().success()
}

#[test]
fn a_dropped_process_is_gone_and_so_is_its_scratch_folder() {
    let scratch = tempfile::tempdir().unwrap().keep();
    let process = Supervised::spawn(
        &shell("echo $$; exec sleep 1000"),
        &[],
        &cache::log_file("sleep"),
        Some(&scratch),
    );
    eventually("the child prints its id", || process.log().ends_with('\n'));
    let pid = process.log().trim().to_owned();
    assert!(is_running(&pid));
    drop(process);
    assert!(!is_running(&pid));
    assert!(!scratch.exists());
}

#[test]
fn a_process_does_not_outlive_a_test_run_that_is_killed() {
    // The shell stands for the test run: it alone holds the pipe that the supervisor reads.
    let log = cache::log_file("orphan");
    // An earlier run may have left one, with the id of its own child.
    let _ = std::fs::remove_file(&log);
    let mut run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "apparatus::start_a_process_and_wait", "--nocapture"])
        .env("CQLENS_TEST_ORPHAN_LOG", &log)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let printed = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("the child prints its id", || printed().ends_with('\n'));
    let pid = printed().trim().to_owned();
    assert!(is_running(&pid));
    // SIGKILL: no handler and no destructor runs.
    run.kill().unwrap();
    run.wait().unwrap();
    eventually("the child is gone", || !is_running(&pid));
}

/// Not a test: the run that the test above kills. Without its variable there is nothing to do.
#[test]
fn start_a_process_and_wait() {
    let Some(log) = std::env::var_os("CQLENS_TEST_ORPHAN_LOG") else {
        return;
    };
    let mut process = Supervised::spawn(&shell("echo $$; exec sleep 1000"), &[], log.as_ref(), None);
    process.wait(Duration::from_secs(1000));
}

#[test]
fn a_signal_reaches_the_process_and_its_exit_code_comes_back() {
    let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let mut process = Supervised::spawn(&shell(script), &[], &cache::log_file("signalled"), None);
    eventually("the trap is set", || process.log().contains("ready"));
    process.signal("TERM");
    assert_eq!(process.wait(SOON).and_then(|status| status.code()), Some(7));
}

#[test]
fn a_tap_keeps_both_directions_and_passes_half_close_on() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let tap = Tap::start(listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        // Returns only when the client has closed its direction.
        stream.read_to_string(&mut request).unwrap();
        stream.write_all(request.to_uppercase().as_bytes()).unwrap();
    });
    let mut client = TcpStream::connect(tap.address).unwrap();
    client.write_all(b"to be answered").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    server.join().unwrap();
    assert_eq!(answer, "TO BE ANSWERED");
    let recordings = tap.finish(SOON);
    assert_eq!(recordings.len(), 1);
    assert_eq!(recordings[0].requests, b"to be answered");
    assert_eq!(recordings[0].responses, b"TO BE ANSWERED");
}

#[test]
fn a_changed_missing_or_added_byte_is_found() {
    let recording = |requests: &[u8], responses: &[u8]| Recording {
        requests: requests.to_vec(),
        responses: responses.to_vec(),
    };
    let front = [recording(b"question", b"answer")];
    let finds = |behind: Recording| catch_unwind(|| assert_passed_unchanged(&front, &[behind])).is_err();
    assert!(finds(recording(b"question", b"answes")));
    assert!(finds(recording(b"questio", b"answer")));
    assert!(finds(recording(b"question", b"answer!")));
    assert!(!finds(recording(b"question", b"answer")));
    assert!(catch_unwind(|| assert_passed_unchanged(&front, &[])).is_err());
    let own = recording(b"cqlens asks", b"");
    assert_eq!(
        assert_passed_unchanged(&front, &[own.clone(), front[0].clone()]).len(),
        1
    );
}

#[test]
fn a_driver_sees_the_same_directly_and_through_two_taps() {
    if !with_everything("a driver through two taps") {
        return;
    }
    let Some(python) = available("the Python driver", Driver::python("driver.py")) else {
        return;
    };
    let Some(node) = node() else { return };
    let session = Session {
        keyspace: "tapped".to_owned(),
        ..Session::new(Some(5), Compression::Lz4)
    };
    let direct = python.run(node.address(), &session);
    let back = Tap::start(node.address());
    let front = Tap::start(back.address);
    assert_eq!(python.run(front.address, &session), direct);
    let (front, back) = (front.finish(SOON), back.finish(SOON));
    assert!(assert_passed_unchanged(&front, &back).is_empty());
    let sent: usize = front.iter().map(|recording| recording.requests.len()).sum();
    assert!(
        sent > 300_000,
        "the large value that hardly compresses is more than {sent} bytes"
    );
}
