//! `cqlens health`: whether a proxy accepts clients, for whom there is no other program to ask with.

use std::{
    io::{Read, Write},
    process::Command,
};

use crate::proxy::{
    admin::{post, with_admin},
    support::proxy::free_address,
    wire::{LIMIT, Node, proxy},
};

/// The exit code, and what it prints.
fn health(admin: &str) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cqlens"));
    // As the proxy in the same container reads it.
    let asked = command.arg("health").env("CQLENS_ADMIN", admin).output().unwrap();
    assert_eq!(asked.stderr, b"", "{asked:?}");
    (
        asked.status.code().unwrap(),
        String::from_utf8(asked.stdout).unwrap(),
    )
}

#[test]
fn it_is_healthy_while_clients_are_accepted() {
    let (proxy, admin) = with_admin(&["--drain-delay", "2s", "--grace", "0s"]);
    let address = admin.to_string();
    assert_eq!(health(&address), (0, "accepting\n".to_owned()));
    assert_eq!(post(admin, "/drain").code, 202);
    assert_eq!(health(&address), (1, "draining\n".to_owned()));
    assert_eq!(proxy.wait(LIMIT).code, 0);
    let (code, said) = health(&address);
    assert!(code == 1 && said.contains("no connection"), "{said}");
}

#[test]
fn it_asks_over_a_socket() {
    let (node, _) = Node::answering(b"");
    let folder = tempfile::tempdir().unwrap();
    let setting = format!("unix:{}", folder.path().join("admin.sock").display());
    let proxy = proxy(node.address, &["--admin", &setting]);
    assert_eq!(health(&setting), (0, "accepting\n".to_owned()));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn what_is_no_admin_listener_is_not_healthy() {
    let stranger = Node::start(|mut connection| {
        let _request = connection.read(&mut [0; 1024]).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        connection.write_all(answer).unwrap();
    });
    let (code, said) = health(&stranger.address.to_string());
    assert!(
        code == 1 && said.contains("no admin listener of cqlens"),
        "{said}"
    );
    let silent = std::net::TcpListener::bind(free_address()).unwrap();
    let asked = Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .args([
            "health",
            &silent.local_addr().unwrap().to_string(),
            "--timeout",
            "100ms",
        ])
        .output()
        .unwrap();
    assert_eq!(asked.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&asked.stdout).contains("no answer within 100ms"),
        "{asked:?}"
    );
}
