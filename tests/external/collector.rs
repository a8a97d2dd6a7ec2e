//! What a real collector gets.

use std::{collections::BTreeMap, fs, net::SocketAddr};

use cqlens_testing::{
    available,
    proxy::{free_address, get},
};

use crate::{
    receiver::{Collector, attribute},
    shop::{LIMIT, Shop, wait_until},
};

/// Series and their values, without the labels that a collector adds.
fn series(exposed: &str) -> BTreeMap<String, f64> {
    let lines = exposed
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let mut labels: Vec<&str> = labels
                .trim_end_matches('}')
                .split("\",")
                .map(|label| label.trim_end_matches('"'))
                .filter(|label| {
                    !label.is_empty() && !label.starts_with("job=") && !label.starts_with("instance=")
                })
                .collect();
            labels.sort_unstable();
            (format!("{name} {labels:?}"), value.parse().unwrap())
        })
        .collect()
}

#[test]
fn a_collector_has_the_series_of_prometheus_and_the_findings() {
    let mut collector = Collector::new();
    if available("an OpenTelemetry collector", collector.start()).is_none() {
        return;
    }
    let shop = Shop::open();
    let admin = free_address().to_string();
    let proxy = shop.proxy(&collector.url(), &["--admin", &admin]);
    shop.search(&proxy, 30);
    let admin: SocketAddr = admin.parse().unwrap();
    let of_traffic = |series: &BTreeMap<String, f64>| {
        let counted = series.iter().filter(|(name, _)| {
            name.starts_with("cqlens_table_")
                || name.starts_with("cqlens_keyspace_")
                || name.starts_with("cqlens_findings")
        });
        counted
            .map(|(name, value)| (name.clone(), *value))
            .collect::<BTreeMap<_, _>>()
    };
    // The same names, labels, buckets and values, whichever way they come to Prometheus.
    let searches = "cqlens_table_requests_total [\"keyspace=\\\"shop\", \"table=\\\"items\"]";
    wait_until("the collector has what the proxy has", || {
        let (own, its) = (
            series(&get(admin, "/metrics").unwrap()),
            series(&collector.exposed()),
        );
        own.get(searches) == Some(&30.0) && of_traffic(&own) == of_traffic(&its)
    });
    let (own, its) = (
        series(&get(admin, "/metrics").unwrap()),
        series(&collector.exposed()),
    );
    let missing: Vec<_> = own.keys().filter(|name| !its.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(
        own.keys()
            .any(|name| name.starts_with("cqlens_otlp_exports_total") && name.contains("taken"))
    );

    wait_until("the finding is told", || !collector.findings().is_empty());
    assert_eq!(proxy.stop(LIMIT).code, 0);
    let findings = collector.findings();
    let rules: Vec<_> = findings
        .iter()
        .filter_map(|found| attribute(found, "cqlens.rule"))
        .collect();
    let searches: Vec<_> = findings
        .iter()
        .filter(|found| attribute(found, "cqlens.rule") == Some("allow-filtering"))
        .collect();
    let severities: Vec<_> = searches.iter().map(|found| &found["severityText"]).collect();
    // Not with every window: again only if it has become worse.
    assert!((1..=3).contains(&searches.len()), "{rules:?} {severities:?}");
    let search = searches[0];
    assert_eq!(search["eventName"], "cqlens.finding");
    assert_eq!(attribute(search, "db.namespace"), Some("shop"));
    assert_eq!(attribute(search, "db.collection.name"), Some("items"));
    let statement = "SELECT * FROM shop.items WHERE v = ? ALLOW FILTERING";
    assert_eq!(attribute(search, "db.query.text"), Some(statement));
    assert!(
        search["body"]["stringValue"]
            .as_str()
            .unwrap()
            .contains("`shop.items`"),
        "{search:#}"
    );
    let resource = &collector.written("resourceLogs")[0]["resourceLogs"][0]["resource"];
    assert_eq!(attribute(resource, "service.instance.id"), Some("shop-1"));
    let all = fs::read_to_string(collector.folder.path().join("written.json")).unwrap();
    assert!(!all.contains("secret"), "no value leaves the process");
}

#[test]
fn a_collector_that_is_away_costs_no_finding_and_no_request() {
    let mut collector = Collector::new();
    let shop = Shop::open();
    let mut proxy = shop.proxy(&collector.url(), &[]);
    shop.search(&proxy, 30);
    proxy.wait_for_log("the collector did not take everything");
    if available("an OpenTelemetry collector", collector.start()).is_none() {
        return;
    }
    proxy.wait_for_log("the collector takes everything again");
    wait_until("the finding is told", || !collector.findings().is_empty());
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    let complaints = ended.log.matches("the collector did not take everything").count();
    assert_eq!(complaints, 1, "{}", ended.log);
}

#[test]
fn a_collector_with_tls_is_verified() {
    let mut collector = Collector::new();
    let path = |name: &str| collector.folder.path().join(name).display().to_string();
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let [certificate, key, stranger] = ["own.pem", "own.key", "other.pem"].map(path);
    fs::write(&certificate, own.cert.pem()).unwrap();
    fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    fs::write(&stranger, other.cert.pem()).unwrap();
    collector.listener = format!("\n        tls: {{cert_file: {certificate}, key_file: {key}}}");
    if available("an OpenTelemetry collector", collector.start()).is_none() {
        return;
    }
    let url = collector.url().replace("http:", "https:");
    let shop = Shop::open();
    let mut wrong = shop.proxy(&url, &["--otlp-tls-ca", &stranger]);
    wrong.wait_for_log("the collector does not answer: invalid peer certificate");
    assert_eq!(wrong.stop(LIMIT).code, 0);
    let proxy = shop.proxy(&url, &["--otlp-tls-ca", &certificate]);
    wait_until("figures arrive", || {
        collector.exposed().contains("cqlens_requests_total")
    });
    assert_eq!(proxy.stop(LIMIT).code, 0);
}
