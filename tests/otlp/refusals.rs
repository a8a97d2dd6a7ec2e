//! Collectors that refuse, settings that cannot be used.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use super::shop::{LIMIT, PROGRAM, Shop, wait_until};

/// A server that gives one answer to everything, and keeps what it is asked.
fn answering(answer: &'static [u8]) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut bytes = vec![0; 1 << 16];
            while let Ok(length) = connection.read(&mut bytes) {
                if length == 0 {
                    break;
                }
                seen.lock().unwrap().extend_from_slice(&bytes[..length]);
                let _gone = connection.write_all(answer);
            }
        }
    });
    (url, asked)
}

#[test]
fn the_token_goes_along_and_refusals_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("header");
    fs::write(&file, "Authorization: Bearer hunter2\n").unwrap();
    let header = ["--otlp-header-file", file.to_str().unwrap()];
    let shop = Shop::open();
    for (answer, said) in [
        (
            &b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"[..],
            "HTTP 401",
        ),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
            "HTTP 302",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
            "does not speak OTLP",
        ),
        (b"SSH-2.0-OpenSSH\r\n", "does not answer"),
        // partial_success { rejected: 7, error_message: "full" }
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n\x0a\x08\x08\x07\x12\x04full",
            "rejected 7 of what was sent: full",
        ),
    ] {
        let (url, asked) = answering(answer);
        let mut proxy = shop.proxy(&url, &header);
        proxy.wait_for_log(said);
        let asked = String::from_utf8_lossy(&asked.lock().unwrap()).to_lowercase();
        assert!(asked.starts_with("post /v1/metrics http/1.1\r\n"), "{asked}");
        assert!(asked.contains("\r\nauthorization: bearer hunter2\r\n"), "{asked}");
        let ended = proxy.stop(LIMIT);
        assert!(ended.code == 0 && !ended.log.contains("hunter2"), "{}", ended.log);
    }
}

/// Nothing waits for it: neither clients nor, longer than a moment, the end.
#[test]
fn a_collector_that_never_answers_holds_up_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let shop = Shop::open();
    let proxy = shop.proxy(&url, &[]);
    shop.search(&proxy, 20);
    wait_until("it is asked", || silent.accept().is_ok());
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0);
    assert!(
        ended.log.contains("the last figures were not sent"),
        "{}",
        ended.log
    );
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let file = file.to_str().unwrap();
    fs::write(file, "hunter2").unwrap();
    let token = folder.path().join("token");
    let token = token.to_str().unwrap();
    fs::write(token, "Authorization: Bearer hunter2").unwrap();
    for (arguments, said) in [
        (
            &["--otlp", "collector:4318"][..],
            "expected the URL of a collector",
        ),
        (&["--otlp", "ftp://collector"], "expected the URL of a collector"),
        (
            &["--otlp", "http://c", "--otlp-header-file", file],
            "line 1 is not `name: value`",
        ),
        (
            &["--otlp", "http://c", "--otlp-header-file", token],
            "not sent to another machine without TLS",
        ),
        (&["--otlp", "https://c", "--otlp-tls-ca", file], "certificates"),
        (
            &["--otlp", "https://c", "--otlp-tls-ca", "/no/such.pem"],
            "cannot read /no/such.pem",
        ),
        (&["--otlp-header-file", file], "--otlp"),
    ] {
        let checked = Command::new(PROGRAM)
            .args(["proxy", "--upstream", "127.0.0.1", "--check"])
            .args(arguments)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&checked.stderr);
        assert_eq!(checked.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(
            error.contains(said) && !error.contains("hunter2"),
            "{arguments:?}: {error}"
        );
    }
}
