//! Where clients could get around the proxy, it says so: in the log, to probes, and at the top of every
//! report.

use std::{net::SocketAddr, path::Path, time::Instant};

use cqlens_node::{Node, Options};

use crate::proxy::{
    admin::get,
    ring::{PROGRAM, Ring},
    support::proxy::{Proxy, free_address},
    wire::LIMIT,
};

async fn until_it_says(admin: SocketAddr, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let deadline = Instant::now() + LIMIT;
    loop {
        let status = get(admin, "/readyz").json();
        if wanted(&status["bypass"]) {
            return status["bypass"].clone();
        }
        assert!(Instant::now() < deadline, "{status:#}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn first_lines(report: &Path, lines: usize) -> String {
    let text = std::fs::read_to_string(report).unwrap();
    text.lines().take(lines).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn passthrough_tells_of_nodes_that_clients_reach_past_it() {
    let ring = Ring::start(3).await;
    let folder = tempfile::tempdir().unwrap();
    let admin = free_address();
    let around = format!(
        "the cluster tells drivers to connect to {} and 2 more nodes",
        ring.address(0)
    );
    for name in ["report.html", "report.md", "report.json"] {
        let report = folder.path().join(name);
        let arguments = [
            "--report",
            report.to_str().unwrap(),
            "--admin",
            &admin.to_string(),
        ];
        let mut proxy = Proxy::start(PROGRAM, ring.nodes[0].address(), &arguments);
        let said = until_it_says(admin, |bypass| bypass.to_string().contains(&around)).await;
        assert!(
            said.as_str()
                .unwrap()
                .contains(&format!("and not to {}", proxy.address))
        );
        proxy.wait_for_log(&around);
        let ended = proxy.stop(LIMIT);
        let line = ended.log.lines().find(|line| line.contains(&around)).unwrap();
        assert!(line.contains("WARN"), "{line}");
        assert_eq!(ended.log.matches(&around).count(), 1, "said once: {}", ended.log);
        let text = std::fs::read_to_string(&report).unwrap();
        let top = match name {
            // What stands before its body is styles; a skip link and the title come first.
            "report.html" => text.split("<body>").nth(1).unwrap().lines().take(8).collect(),
            _ => first_lines(&report, 5),
        };
        assert!(top.contains(&around), "{name}: {top}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_at_the_address_that_the_node_tells_has_nothing_to_say() {
    let (admin, listen) = (free_address(), free_address());
    let node = Node::start(Options {
        advertise: Some(listen),
        ..Options::default()
    });
    let node = node.await.unwrap();
    let arguments = ["--admin", &admin.to_string()];
    let proxy = Proxy::start_at(listen, PROGRAM, node.address(), &arguments);
    until_it_says(admin, serde_json::Value::is_null).await;
    let ended = proxy.stop(LIMIT);
    assert!(!ended.log.contains("bypass this proxy"), "{}", ended.log);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_list_of_nodes_nobody_knows() {
    let ring = Ring::start(1).await;
    let admin = free_address();
    let proxy = Proxy::start(
        PROGRAM,
        ring.nodes[0].address(),
        &["--no-control-connection", "--admin", &admin.to_string()],
    );
    let said = until_it_says(admin, |bypass| !bypass.is_null()).await;
    assert!(said.as_str().unwrap().contains("is not known"), "{said}");
    assert_eq!(proxy.stop(LIMIT).code, 0);
}
