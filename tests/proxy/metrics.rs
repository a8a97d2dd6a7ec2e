//! `/metrics`: what a real Prometheus and its linter make of it.

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use serde_json::Value;

use crate::proxy::{
    admin::{get, http},
    certificates::{Authority, Issued},
    support::{
        available, program,
        proxy::{Proxy, free_address},
    },
    wire::LIMIT,
};

/// A proxy before a node with a table, with windows of a second, and its admin listener.
async fn with_traffic(options: &[&str]) -> (Node, Proxy, SocketAddr) {
    let node = Node::start(Options::default()).await.unwrap();
    let admin = free_address();
    let address = admin.to_string();
    let arguments = [&["--admin", &address, "--window", "1s"], options].concat();
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &arguments);
    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    for cql in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.orders (id int PRIMARY KEY, total int)",
    ] {
        client.query(cql).await.unwrap();
    }
    // For a finding.
    client.query("SELECT total FROM shop.orders").await.unwrap();
    ask(&mut client).await;
    (node, proxy, admin)
}

async fn ask(client: &mut Client) {
    for id in 0..20 {
        let read = format!("SELECT total FROM shop.orders WHERE id = {id}");
        client.query(&read).await.unwrap();
    }
}

/// The value of a series; none as long as it is not there.
fn value(text: &str, series: &str) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(series));
    lines.find_map(|rest| rest.strip_prefix(' ')?.parse().ok())
}

/// What is exposed once `series` is at least `least`.
fn once(admin: SocketAddr, series: &str, least: f64) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = get(admin, "/metrics");
        assert_eq!(answer.code, 200, "{}", answer.head);
        if value(&answer.body, series).is_some_and(|value| value >= least) {
            return answer.body;
        }
        assert!(Instant::now() < deadline, "{series}: {}", answer.body);
        sleep(Duration::from_millis(100));
    }
}

const ORDERS: &str = r#"cqlens_table_requests_total{keyspace="shop",table="orders"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn counters_go_on_from_window_to_window() {
    let (_node, proxy, admin) = with_traffic(&[]).await;
    let text = once(admin, ORDERS, 21.0);
    assert_eq!(value(&text, r#"cqlens_state{state="accepting"}"#), Some(1.0));
    assert_eq!(
        value(&text, r#"cqlens_control_connection{state="open"}"#),
        Some(1.0)
    );
    let finding = r#"cqlens_findings{rule="full-scan","#;
    assert!(text.contains(finding), "{text}");
    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    ask(&mut client).await;
    let text = once(admin, ORDERS, 41.0);
    assert!(value(&text, "cqlens_connections") >= Some(1.0), "{text}");
    assert!(value(&text, "cqlens_windows_total") >= Some(2.0), "{text}");
    let open = http(
        admin,
        "GET",
        "/metrics",
        "Accept: application/openmetrics-text;version=1.0.0\r\n",
    );
    assert!(
        open.head.contains("application/openmetrics-text"),
        "{}",
        open.head
    );
    assert!(open.body.ends_with("# EOF\n"), "{}", open.body);
    let plain = get(admin, "/metrics");
    assert!(plain.head.contains("text/plain; version=0.0.4"), "{}", plain.head);
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_recording_lacks_is_there_where_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let series = r#"cqlens_recording_left_out_total{reason="queue full"}"#;
    let (_node, proxy, admin) = with_traffic(&["--record", folder.path().to_str().unwrap()]).await;
    assert_eq!(value(&once(admin, ORDERS, 21.0), series), Some(0.0));
    let _ = proxy.stop(LIMIT);
    let (_node, proxy, admin) = with_traffic(&[]).await;
    assert_eq!(value(&once(admin, ORDERS, 21.0), series), None);
    let _ = proxy.stop(LIMIT);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_and_when_certificates_end_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    fs::write(&certificate, certified.cert.pem()).unwrap();
    fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let report = folder.path().join("gone").join("report.json");
    fs::create_dir(report.parent().unwrap()).unwrap();
    let node = Node::start(Options::default()).await.unwrap();
    let admin = free_address();
    let address = admin.to_string();
    let paths = [&certificate, &key, &report].map(|path| path.to_str().unwrap());
    let arguments = [
        "--admin",
        &address,
        "--window",
        "1s",
        "--client-tls-cert",
        paths[0],
        "--client-tls-key",
        paths[1],
        "--report",
        paths[2],
    ];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &arguments);
    // A proxy that cannot write its first report does not start.
    let deadline = Instant::now() + LIMIT;
    while !report.exists() {
        assert!(Instant::now() < deadline, "{}", proxy.log());
        sleep(Duration::from_millis(10));
    }
    fs::remove_dir_all(report.parent().unwrap()).unwrap();
    let text = once(admin, r#"cqlens_write_failures_total{output="report"}"#, 1.0);
    let series = format!(
        "cqlens_certificate_expiry_timestamp_seconds{{presented_to=\"clients\",file=\"{}\"}}",
        paths[0]
    );
    // rcgen's own default: the year 4096.
    assert!(value(&text, &series) > Some(60e9), "{text}");
    let _ = proxy.stop(LIMIT);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_linter_of_prometheus_has_nothing_to_say() {
    let Some(promtool) = available("the linter of Prometheus", program("promtool")) else {
        return;
    };
    let (_node, proxy, admin) = with_traffic(&[]).await;
    let text = once(admin, ORDERS, 21.0);
    let mut linter = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    linter.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = linter.wait_with_output().unwrap();
    assert!(
        said.status.success() && said.stderr.is_empty(),
        "{said:?}\n{text}"
    );
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

/// A Prometheus that scrapes once a second, until it is dropped.
struct Prometheus {
    process: Child,
    address: SocketAddr,
}

impl Prometheus {
    /// With `more` settings of the job, each in a line.
    fn start(program: &str, folder: &Path, target: SocketAddr, more: &[String]) -> Self {
        let settings = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: cqlens\n    static_configs: [{{targets: ['{target}']}}]\n"
        );
        let more: String = more.iter().map(|line| format!("    {line}\n")).collect();
        fs::write(&settings, text + &more).unwrap();
        let address = free_address();
        let log = fs::File::create(folder.join("prometheus.log")).unwrap();
        let process = Command::new(program)
            .arg(format!("--config.file={}", settings.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { process, address }
    }

    /// The values that a query has, once it has some.
    fn once(&self, query: &str, folder: &Path) -> Vec<Value> {
        let deadline = Instant::now() + 2 * LIMIT;
        loop {
            let series = self.query(query).unwrap_or_default();
            if !series.is_empty() {
                return series;
            }
            let log = || fs::read_to_string(folder.join("prometheus.log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "{}", log());
            sleep(Duration::from_millis(200));
        }
    }

    /// The values that a query has, with their labels.
    fn query(&self, query: &str) -> Option<Vec<Value>> {
        let mut connection = std::net::TcpStream::connect(self.address).ok()?;
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let request = format!(
            "GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: {}\r\n\r\n",
            self.address
        );
        connection.write_all(request.as_bytes()).ok()?;
        let text = std::io::read_to_string(connection).ok()?;
        let (_, body) = text.split_once("\r\n\r\n")?;
        let answer: Value = serde_json::from_str(body).ok()?;
        Some(answer["data"]["result"].as_array()?.clone())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether the program can write to a sink and a collector.
const HAS_OUTPUTS: bool = cfg!(all(feature = "fleet", feature = "otlp"));

/// What the dashboard asks for, of what a proxy without TLS and without executions that it cannot judge has.
fn queries_of_dashboard() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/grafana/cqlens.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    let with_values = queries.map(|query| {
        let query = query.replace("$__rate_interval", "15s");
        ["$job", "$instance", "$keyspace"]
            .iter()
            .fold(query, |query, variable| query.replace(variable, ".*"))
    });
    with_values
        .filter(|query| {
            let without: &[&str] = match HAS_OUTPUTS {
                true => &["cqlens_certificate_expiry", "cqlens_partitions_unknown"],
                false => &[
                    "cqlens_certificate_expiry",
                    "cqlens_partitions_unknown",
                    "cqlens_sink",
                    "cqlens_otlp",
                ],
            };
            !without.iter().any(|other| query.contains(other))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_scrapes_a_running_proxy_and_answers_the_dashboard() {
    let Some(prometheus) = available("a scrape by Prometheus", program("prometheus")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().display());
    let spool = folder.path().join("spool").display().to_string();
    // A collector that is not there.
    let outputs = [
        "--sink",
        &store,
        "--sink-spool",
        &spool,
        "--otlp",
        "http://127.0.0.1:1",
        "--otlp-every",
        "1s",
    ];
    let outputs = if HAS_OUTPUTS { &outputs[..] } else { &[] };
    let (_node, proxy, admin) = with_traffic(outputs).await;
    once(admin, ORDERS, 21.0);
    let prometheus = Prometheus::start(prometheus, folder.path(), admin, &[]);
    let series = prometheus.once(ORDERS, folder.path());
    assert_eq!(series[0]["value"][1], "21");
    assert_eq!(series[0]["metric"]["instance"], admin.to_string());
    let up = prometheus.query("up").unwrap();
    assert_eq!(up[0]["value"][1], "1");
    let buckets = prometheus.query("cqlens_table_latency_seconds_bucket{table='orders'}");
    assert_eq!(buckets.unwrap().len(), 15);
    let deadline = Instant::now() + 2 * LIMIT;
    let mut queries = queries_of_dashboard();
    assert!(queries.len() > 30, "{}", queries.len());
    loop {
        // A rate needs two scrapes.
        queries.retain(|query| prometheus.query(query).is_none_or(|found| found.is_empty()));
        if queries.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{}", queries.join("\n"));
        sleep(Duration::from_millis(500));
    }
    drop(prometheus);
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prometheus_on_another_machine_scrapes_with_tls_and_a_token() {
    let Some(prometheus) = available("a scrape by Prometheus with TLS", program("prometheus")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let Issued { certificate, key } = authority.issue("admin", &["127.0.0.1"]);
    let token = folder.path().join("token");
    fs::write(&token, "c2NyYXBlcnMtb2YtbWV0cmljcw\n").unwrap();
    let node = Node::start(Options::default()).await.unwrap();
    let admin = free_address();
    let anywhere = format!("0.0.0.0:{}", admin.port());
    let [certificate, key, token] = [&certificate, &key, &token].map(|path| path.to_str().unwrap());
    let arguments = [
        ["--admin", &anywhere],
        ["--admin-tls-cert", certificate],
        ["--admin-tls-key", key],
        ["--admin-token-file", token],
    ];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &arguments.concat());
    let settings = [
        "scheme: https".to_owned(),
        format!("authorization: {{credentials_file: '{token}'}}"),
        format!("tls_config: {{ca_file: '{}'}}", authority.file.display()),
    ];
    let prometheus = Prometheus::start(prometheus, folder.path(), admin, &settings);
    let up = prometheus.once("up == 1", folder.path());
    assert_eq!(up[0]["metric"]["instance"], admin.to_string());
    drop(prometheus);
    assert_eq!(proxy.stop(LIMIT).code, 0);
}
