//! The clean workload: the hotel, booked and looked at without a pause in the story, of which no report may
//! say anything above info.
//!
//! Short in tests. `CQLENS_CLEAN_SECONDS=300` makes it go on for so long, at up to 840 requests a second.

#![allow(
    unreachable_pub,
    reason = "test binaries compile this as a module of their own"
)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cqlens_client::ClientOptions;
use cqlens_node::scenario::{Scenario, Totals};
use serde_json::Value;

const VARIABLE: &str = "CQLENS_CLEAN_SECONDS";

/// Bookings that are made before the pace is looked at, and how long they take at least.
const BOOKINGS: u64 = 400;
const BOOKED_WITHIN: Duration = Duration::from_secs(10);

/// Sends the workload; gives the number of requests, with those that a server made a client send again by
/// forgetting what was prepared.
pub async fn run(address: SocketAddr, options: &ClientOptions) -> u64 {
    let schema = include_str!("hotel/schema.cql");
    let mut scenario = Scenario::parse("hotel", schema, include_str!("hotel/traffic.toml")).unwrap();
    let sent = |totals: Totals| totals.requests + totals.sent_again;
    let mut requests = sent(scenario.run(address, options).await.unwrap());
    // Hotels open once; guests keep coming, each of them a new one.
    let mut guests = scenario.traffic.phases.pop().unwrap();
    guests.first = guests.repeat;
    guests.repeat = BOOKINGS;
    let whole = std::env::var(VARIABLE).map_or(0, |seconds| seconds.parse().unwrap());
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(whole) {
        let pace = tokio::time::sleep(BOOKED_WITHIN);
        scenario.traffic.phases = vec![guests.clone()];
        requests += sent(scenario.run(address, options).await.unwrap());
        guests.first += BOOKINGS;
        pace.await;
    }
    requests
}

/// Logged batches over the tables of one fact, and a list that is appended to: what an expert would mention, and no more.
const MOST_INFOS: usize = 2;

/// Fails if anything is found above info, or more of that than is worth knowing, or if the report does not speak of all that
/// was sent.
pub fn is_clean(report: &Value, requests: u64) {
    let findings = report["findings"].as_array().unwrap();
    let above: Vec<_> = findings
        .iter()
        .filter(|finding| finding["severity"] != "info")
        .map(|finding| {
            (
                &finding["rule"],
                &finding["severity"],
                &finding["title"],
                &finding["evidence"],
            )
        })
        .collect();
    assert!(above.is_empty(), "{above:#?}");
    let titles: Vec<_> = findings.iter().map(|finding| &finding["title"]).collect();
    assert!(titles.len() <= MOST_INFOS, "{titles:#?}");
    let totals = &report["totals"];
    let seen: u64 = ["reads", "writes", "batches"]
        .iter()
        .map(|kind| totals[kind].as_u64().unwrap())
        .sum();
    assert_eq!(seen, requests, "{totals:#}");
    assert_eq!(totals["partitions_per_read"]["max"], 1);
    // Nine queries, and the ways to write: without them the report would be clean because it is empty.
    assert!(
        report["patterns"].as_array().unwrap().len() >= 9 + 8,
        "{}",
        report["patterns"]
    );
    assert!(!report["rules"].as_array().unwrap().is_empty());
}
