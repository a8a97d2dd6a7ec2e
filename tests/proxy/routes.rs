//! Fixed pairs of listeners and nodes, without discovery.

use std::{net::SocketAddr, process::Command};

use crate::proxy::{
    admin::{get, post},
    reload::{answering, ask},
    ring::PROGRAM,
    settings::File,
    support::proxy::{Proxy, free_address},
    wire::{LIMIT, connect, void},
};

fn launch(arguments: &[&str]) -> Proxy {
    Proxy::launch(
        PROGRAM,
        &[&["--no-control-connection"], arguments].concat(),
        &[],
        None,
    )
}

#[test]
fn each_pair_leads_to_its_node() {
    let (one, other) = (answering(void(1)), answering(void(2)));
    let (to_one, to_other, admin) = (free_address(), free_address(), free_address());
    let pair = |listen: SocketAddr, upstream: SocketAddr| format!("{listen}={upstream}");
    let mut proxy = launch(&[
        "--route",
        &pair(to_one, one.address),
        "--route",
        &pair(to_other, other.address),
        "--admin",
        &admin.to_string(),
    ]);
    proxy.wait_for_log(&format!("listen={to_other}"));
    assert_eq!(ask(&mut connect(to_one)), void(1));
    assert_eq!(ask(&mut connect(to_other)), void(2));
    let status = get(admin, "/readyz").json();
    assert_eq!(status["listen"], format!("{to_one}, {to_other}"));
    assert_eq!(
        status["listeners"][1],
        serde_json::json!({"listen": to_other.to_string(), "upstream": other.address.to_string(), "state": "open"})
    );
    assert_eq!(proxy.stop(LIMIT).code, 0);
    assert!(std::net::TcpStream::connect(to_other).is_err());
}

#[test]
fn pairs_of_the_file_change_while_clients_are_connected() {
    let nodes = [1, 2, 3].map(|stream| answering(void(stream)));
    let (first, second, third, admin) = (free_address(), free_address(), free_address(), free_address());
    let settings = |pairs: &[(SocketAddr, usize)]| {
        let lines = pairs
            .iter()
            .map(|(listen, node)| format!("'{listen}' = '{}'\n", nodes[*node].address));
        format!(
            "[proxy]\nno-control-connection = true\nadmin = '{admin}'\n[proxy.route]\n{}",
            lines.collect::<String>()
        )
    };
    let file = File::new(&settings(&[(first, 0), (second, 1)]));
    let mut proxy = file.proxy();
    proxy.wait_for_log(&format!("listen={second}"));
    let mut stays = connect(first);
    assert_eq!(ask(&mut stays), void(1));
    assert_eq!(ask(&mut connect(second)), void(2));

    // The first leads elsewhere, the second ends, the third is new.
    file.write(&settings(&[(first, 2), (third, 0)]));
    let answer = post(admin, "/reload");
    assert_eq!(
        answer.json()["applied"],
        serde_json::json!(["route"]),
        "{}",
        answer.body
    );
    assert_eq!(ask(&mut stays), void(1), "it was opened before");
    assert_eq!(ask(&mut connect(first)), void(3));
    assert_eq!(ask(&mut connect(third)), void(1));
    let deadline = std::time::Instant::now() + LIMIT;
    while std::net::TcpStream::connect(second).is_ok() {
        assert!(std::time::Instant::now() < deadline, "the route still accepts");
    }

    // What cannot be bound changes nothing.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    file.write(&settings(&[(first, 1), (address, 1)]));
    let refused = post(admin, "/reload");
    assert_eq!(refused.code, 422);
    assert!(
        refused.body.contains(&format!("cannot listen on {}", address)),
        "{}",
        refused.body
    );
    assert_eq!(ask(&mut connect(first)), void(3));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn pairs_that_cannot_work_are_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use = format!("{}=127.0.0.1:1", listener.local_addr().unwrap());
    for (arguments, says) in [
        (
            &["--route", "127.0.0.1:9142=a", "--route", "0.0.0.0:9142=b"][..],
            "overlap",
        ),
        (
            &["--route", "127.0.0.1:9142=a", "--listen", "127.0.0.1:9143"],
            "cannot be used with",
        ),
        (
            &["--route", "127.0.0.1:9142=a", "--upstream", "b"],
            "cannot be used with",
        ),
        (&["--route", "127.0.0.1:9142"], "LISTEN=UPSTREAM"),
        (&["--route", &in_use], "(to 127.0.0.1:1)"),
    ] {
        let output = Command::new(PROGRAM)
            .arg("proxy")
            .args(arguments)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(says), "{arguments:?}: {error}");
        assert_eq!(output.status.code(), Some(2));
    }
}
