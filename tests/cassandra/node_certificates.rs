//! TLS to three real nodes, each with a certificate for its own address and no other: a driver that looks at
//! addresses sees through cqlens what it sees without.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::drivers::{
    certificates::Certificates,
    fixtures::{self, RunKeyspace},
    place::DATA_CENTER,
    run::in_order,
};
use crate::shared;
use crate::support::available;
use crate::support::cassandra::loopback::free_addresses;
use crate::support::driver::Driver;
use crate::support::proxy::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

const LIMIT: Duration = Duration::from_secs(300);

/// What TLS could change, and what leads to all nodes.
const CHECKS: &str = "connect,ddl,prepared,blob,token-aware,in-flight,connections";

#[test]
fn a_driver_sees_three_nodes_with_certificates_of_their_own_as_without_a_proxy() {
    let Some(python) = available("the Python driver", Driver::python("matrix.py")) else {
        return;
    };
    let certificates = shared::certificates();
    let Some(cluster) = shared::ring() else { return };
    let nodes: Vec<SocketAddr> = cluster.nodes().iter().map(|node| node.address).collect();
    assert_a_certificate_is_for_one_node(&nodes, certificates);

    let listeners = free_addresses(nodes.len(), nodes[0].port());
    let pairs: Vec<String> = nodes
        .iter()
        .zip(&listeners)
        .map(|(node, listener)| format!("{node}={listener}"))
        .collect();
    let upstream = nodes[0].to_string();
    let elsewhere = format!("127.255.255.{{n}}:{}", nodes[0].port());
    let (shown, key) = (certificates.server(), certificates.server_key());
    let to_nodes = to_nodes(certificates);
    let mut arguments = vec![
        "--topology",
        "cluster",
        "--upstream",
        &upstream,
        "--listen",
        &elsewhere,
    ];
    arguments.extend(pairs.iter().flat_map(|pair| ["--map", pair]));
    arguments.extend(to_nodes.iter().map(String::as_str));
    arguments.extend(["--client-tls-cert", &shown, "--client-tls-key", &key]);
    arguments.extend(["--window", "3600s"]);
    let mut proxy = Proxy::launch(PROGRAM, &arguments, &[], None);
    for listener in &listeners {
        proxy.wait_for_log(&format!("forwarding to a node listen={listener}"));
    }

    let keyspace = |keyspace| RunKeyspace {
        keyspace,
        replication: 1,
        checks: CHECKS,
    };
    fixtures::create(&nodes, None, &["tls_direct", "tls_behind"].map(keyspace));
    let direct = seen(&python, &nodes, certificates, "tls_direct");
    assert_eq!(direct.len(), CHECKS.split(',').count(), "{direct:#?}");
    assert!(
        direct.iter().all(|line| line.contains(r#""passed""#)),
        "{direct:#?}"
    );
    assert_eq!(seen(&python, &listeners, certificates, "tls_behind"), direct);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(!ended.log.contains("no TLS"), "{}", ended.log);
}

/// What a program of the matrix says, with the same names in the same order for whichever nodes and keyspace it had.
fn seen(python: &Driver, nodes: &[SocketAddr], certificates: &Certificates, keyspace: &str) -> Vec<String> {
    let arguments = [
        format!("host={}", nodes[0].ip()),
        format!("port={}", nodes[0].port()),
        "version=5".to_owned(),
        "compression=lz4".to_owned(),
        format!("keyspace={keyspace}"),
        "replication=1".to_owned(),
        "nodes=3".to_owned(),
        format!("dc={DATA_CENTER}"),
        format!("checks={CHECKS}"),
        format!("ca={}", certificates.authority()),
        format!("cert={}", certificates.client()),
        format!("key={}", certificates.client_key()),
    ];
    let lines = python.run_with(arguments.to_vec());
    let renamed = |line: String| {
        let addresses = nodes.iter().enumerate();
        addresses.fold(line.replace(keyspace, "KEYSPACE"), |line, (index, node)| {
            line.replace(&node.ip().to_string(), &format!("node{}", index + 1))
        })
    };
    let in_one_order = |line: String| {
        let mut line: Value = serde_json::from_str(&line).unwrap();
        line["detail"] = in_order(line["detail"].take());
        line.to_string()
    };
    lines.into_iter().map(renamed).map(in_one_order).collect()
}

/// What a proxy is told of TLS to the nodes; it looks for their addresses in their certificates unless it is
/// told otherwise.
fn to_nodes(certificates: &Certificates) -> Vec<String> {
    let given = [
        ("--upstream-tls-ca", certificates.authority()),
        ("--upstream-tls-cert", certificates.client()),
        ("--upstream-tls-key", certificates.client_key()),
    ];
    given
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
}

/// Else the rest would show nothing: who looks for another node's address does not talk to this one.
fn assert_a_certificate_is_for_one_node(nodes: &[SocketAddr], certificates: &Certificates) {
    for (name, is_its_own) in [(nodes[0], true), (nodes[1], false)] {
        let name = name.ip().to_string();
        let mut arguments = to_nodes(certificates);
        arguments.extend(["--no-control-connection", "--upstream-tls-name", &name].map(str::to_owned));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let proxy = Proxy::start(PROGRAM, nodes[0], &arguments);
        let mut client = TcpStream::connect(proxy.address).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        // OPTIONS, version 4.
        client.write_all(&[4, 0, 0, 0, 5, 0, 0, 0, 0]).unwrap();
        let answered = client.read(&mut [0; 1]).is_ok_and(|read| read == 1);
        drop(client);
        let log = proxy.stop(LIMIT).log;
        assert_eq!(answered, is_its_own, "{log}");
        assert_eq!(log.contains("not valid for name"), !is_its_own, "{log}");
    }
}
