//! What clients are told of a cluster leads to listeners, from the first connection on and when nodes join.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use cqlens_client::{Answer, Client, ClientOptions, Run, RunOptions};
use cqlens_node::Announcement;
use cqlens_proto::{
    compress::Compression,
    envelope::Version,
    message::{Event, Extensions, Register, Request, Response},
};

use crate::proxy::{
    ring::{Ring, Rule, client, follow, host_id_at, node},
    settings::File,
    wire::LIMIT,
};

#[tokio::test(flavor = "multi_thread")]
async fn clients_learn_listeners_in_place_of_nodes() {
    let ring = Ring::start(3).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(2), &["--listen", &rule.text()]);
    followed.listening(3).await;
    for number in 1..=3 {
        let mut client = client(rule.nth(number)).await;
        let local = client
            .query("SELECT rpc_address, rpc_port FROM system.local")
            .await
            .unwrap();
        let own = rule.nth(number);
        assert_eq!(local.shown(), [[own.ip().to_string(), own.port().to_string()]]);
        let peers = client
            .query("SELECT native_address, native_port FROM system.peers_v2")
            .await
            .unwrap();
        let told: BTreeSet<_> = peers.shown().into_iter().map(|row| row.join(":")).collect();
        let others = (1..=3).filter(|other| *other != number);
        assert_eq!(told, others.map(|other| rule.nth(other).to_string()).collect());
        let peers = client
            .query("SELECT rpc_address FROM system.peers")
            .await
            .unwrap();
        assert_eq!(peers.rows.len(), 2);
        assert!(
            peers
                .shown()
                .iter()
                .flatten()
                .all(|address| *address != own.ip().to_string())
        );
    }
}

/// Reads one row a page to the end; each page has to be of one row.
async fn pages(client: &mut Client, run: Run<'_>) -> Vec<Answer> {
    let mut options = RunOptions {
        page_size: Some(1),
        skip_metadata: true,
        ..RunOptions::default()
    };
    let mut pages = Vec::new();
    loop {
        let page = client.run(run.clone(), &options).await.unwrap();
        options.paging_state.clone_from(&page.paging_state);
        // The last one may be empty.
        assert!(page.rows.len() == 1 || page.paging_state.is_none(), "{page:?}");
        pages.push(page);
        if options.paging_state.is_none() {
            return pages;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_the_nodes_leads_to_listeners() {
    const TEXT: &str = "SELECT native_port AS p, host_id, native_address AS a FROM system.peers_v2";
    let ring = Ring::start(4).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(0), &["--listen", &rule.text()]);
    followed.listening(4).await;
    let others = (2..).zip(&ring.nodes[1..]).map(|(number, node)| {
        let at = rule.nth(number);
        let (ip, port) = (at.ip().to_string(), at.port().to_string());
        vec![port, node.host_id().to_string(), ip]
    });
    let others: BTreeSet<_> = others.collect();
    for (version, compression) in [
        (Version::V3, Compression::Snappy),
        (Version::V4, Compression::None),
        (Version::V4, Compression::Lz4),
        (Version::V5, Compression::None),
        (Version::V5, Compression::Lz4),
    ] {
        let options = ClientOptions {
            version,
            compression,
            ..ClientOptions::default()
        };
        let mut client = Client::connect(rule.nth(1), &options).await.unwrap();
        let prepared = client.prepare(TEXT).await.unwrap();
        for run in [Run::Text(TEXT, &[]), Run::Prepared(&prepared, &[])] {
            let mut pages = pages(&mut client, run).await;
            assert!(pages.len() >= 3, "{pages:?}");
            for page in &mut pages {
                // Prepared ones leave them out.
                page.columns.clone_from(&prepared.columns);
            }
            let told = pages.iter().flat_map(Answer::shown);
            assert_eq!(
                told.collect::<BTreeSet<_>>(),
                others,
                "{version:?} {compression:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hears_of_a_node_can_connect_to_it_at_once() {
    let mut ring = Ring::start(2).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(0), &["--listen", &rule.text()]);
    followed.listening(2).await;
    let mut listening = client(rule.nth(1)).await;
    let register = Register {
        event_types: vec!["TOPOLOGY_CHANGE", "STATUS_CHANGE"],
    };
    listening.call(&Request::Register(register)).await.unwrap();
    let new = node().await;
    let (address, id) = (new.address(), new.host_id().to_string());
    ring.nodes.push(new);
    // As nodes do it: the event first, the rows a moment later.
    ring.announce(&Announcement::Topology("NEW_NODE", address));
    tokio::time::sleep(Duration::from_millis(300)).await;
    ring.tell();
    let event = tokio::time::timeout(LIMIT, listening.next_event());
    let event = event.await.unwrap().unwrap();
    let Response::Event(Event::TopologyChange(change)) =
        Response::decode(&event, Extensions::NONE).unwrap().message
    else {
        panic!("{event:?}");
    };
    let told = SocketAddr::new(change.address, u16::try_from(change.port).unwrap());
    assert_eq!((change.change, told), ("NEW_NODE", rule.nth(3)));
    assert_eq!(host_id_at(told).await, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_disagree_on_the_schema_are_in_the_report() {
    let ring = Ring::start(3).await;
    let file = File::new("[rules.schema-disagreement]\nsome_seconds = 1\n");
    let (settings, report) = (file.path(), file.below("report.json"));
    let (settings, rule) = (settings.to_str().unwrap(), Rule::new().text());
    let arguments = ["--listen", &rule, "--config", settings, "--report", &report];
    let mut followed = follow(&ring.address(0), &arguments);
    followed.listening(3).await;
    // One of the others is behind.
    let mut peers = ring.peers();
    peers[1].schema_version = peers[1].host_id;
    ring.tell_of(&peers);
    for _ in 0..2 {
        // Whatever is announced, the control connection looks again.
        ring.announce(&Announcement::Status("UP", ring.nodes[1].address()));
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
    assert_eq!(followed.proxy.stop(LIMIT).code, 0);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let found = findings
        .iter()
        .find(|finding| finding["rule"] == "schema-disagreement");
    let title = found.unwrap()["title"].as_str().unwrap();
    let behind = ring.nodes[1].address().ip().to_string();
    assert!(title.contains("2 versions") && title.contains(&behind), "{title}");
}
