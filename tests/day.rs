//! A day in production, in a minute: a window for each of its 1,440 minutes, while settings are reloaded, certificates renewed, the node
//! replaced, and the sink and the collector come and go. Nothing grows, and nothing is lost that is not counted.
//!
//! `CQLENS_DAY_WINDOW_MS=1000` sets how long a window is, instead of what fits a run of all tests.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed"
)]

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use cqlens_proxy::tls::{Authorities, Connector, HostnameCheck};
use cqlens_testing::proxy::{Proxy, free_address};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;
use tokio::runtime::Runtime;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");
const LIMIT: Duration = Duration::from_secs(60);
const MINUTES: u32 = 1_440;
const CLIENTS: usize = 6;

/// How long one of the day's minutes takes.
fn window() -> Duration {
    let set = std::env::var("CQLENS_DAY_WINDOW_MS");
    Duration::from_millis(set.map_or(40, |text| text.parse().unwrap()))
}

/// Signs the certificates of the day.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    fn new(folder: &Path) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        fs::write(folder.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            folder: folder.to_owned(),
        }
    }

    /// Puts another certificate in the place of the last one.
    fn renew(&self) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        // In one file: a reader never sees a key and a certificate that do not belong together.
        let both = [signed.pem(), key.serialize_pem()].concat();
        fs::write(self.folder.join("new.pem"), both).unwrap();
        fs::rename(self.folder.join("new.pem"), self.folder.join("own.pem")).unwrap();
    }

    fn client_options(&self) -> ClientOptions {
        let authorities = Authorities::read(&self.folder.join("ca.pem")).unwrap();
        let tls = Connector::new(authorities, None, "127.0.0.1", HostnameCheck::On).unwrap();
        ClientOptions {
            tls: Some(Arc::new(tls)),
            timeout: Duration::from_secs(5),
            ..ClientOptions::default()
        }
    }
}

async fn node(address: Option<SocketAddr>) -> Node {
    let options = match address {
        Some(listen) => Options {
            listen,
            ..Options::default()
        },
        None => Options::default(),
    };
    let node = Node::start(options).await.unwrap();
    let mut client = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    let schema =
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.items (id int PRIMARY KEY, v text);";
    client.script(schema).await.unwrap();
    node
}

/// Requests and reconnects until the day is over; counts what was answered.
async fn client(
    address: SocketAddr,
    options: ClientOptions,
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
) {
    while !is_over.load(Ordering::Relaxed) {
        let Ok(mut client) = Client::connect(address, &options).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        for id in 0..200 {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            let read = format!("SELECT * FROM shop.items WHERE id = {id}");
            if client.query(&read).await.is_err() {
                break;
            }
            answered.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A collector that takes everything while it is there, and nothing while it is not.
fn collector(is_there: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            connection
                .set_read_timeout(Some(Duration::from_millis(200)))
                .unwrap();
            let _request = connection.read(&mut vec![0; 1 << 20]);
            if is_there.load(Ordering::Relaxed) {
                let _gone = connection
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        }
    });
    url
}

fn resident_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn descriptors(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

fn metric(admin: SocketAddr, name: &str) -> Option<f64> {
    let mut connection = TcpStream::connect(admin).ok()?;
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {admin}\r\n\r\n");
    connection.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    connection.read_to_string(&mut text).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn requests(report: &Value) -> u64 {
    report["coverage"]["requests"].as_u64().unwrap()
}

#[test]
fn a_day_of_changes_leaves_nothing_behind_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| path(name).display().to_string();
    let authority = Authority::new(folder.path());
    authority.renew();
    fs::create_dir(path("store")).unwrap();
    let runtime = Runtime::new().unwrap();
    let mut upstream = runtime.block_on(node(None));
    let address = upstream.address();
    let has_collector = Arc::new(AtomicBool::new(true));
    let collector = collector(Arc::clone(&has_collector));
    let admin = free_address();
    let (window_text, own, report) = (
        format!("{}ms", window().as_millis()),
        text("own.pem"),
        text("report.json"),
    );
    let (admin_text, store, spool) = (
        admin.to_string(),
        format!("file://{}", text("store")),
        text("spool"),
    );
    let snapshots = text("snapshots");
    let mut proxy = Proxy::start_at(
        free_address(),
        PROGRAM,
        address,
        &[
            "--client-tls-cert",
            &own,
            "--client-tls-key",
            &own,
            "--window",
            &window_text,
            "--report",
            &report,
            "--snapshot-dir",
            &snapshots,
            "--keep-minutes",
            "2s",
            "--keep-hours",
            "20s",
            "--sink",
            &store,
            "--sink-spool",
            &spool,
            "--sink-every",
            "2s",
            "--otlp",
            &collector,
            "--otlp-every",
            "500ms",
            "--admin",
            &admin_text,
            "--name",
            "day",
        ],
    );
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let options = authority.client_options();
            runtime.spawn(client(
                proxy.address,
                options,
                Arc::clone(&is_over),
                Arc::clone(&answered),
            ))
        })
        .collect();

    let (mut early, mut most_descriptors) = (None, 0);
    let begun = Instant::now();
    for minute in 1..=MINUTES {
        // Of the day, not of the machine: a window that comes late makes no other late.
        thread::sleep((window() * minute).saturating_sub(begun.elapsed()));
        if minute % 5 == 0 {
            proxy.signal("HUP");
        }
        if minute % 60 == 0 {
            authority.renew();
        }
        match minute % 360 {
            120 => {
                has_collector.store(false, Ordering::Relaxed);
                fs::rename(path("store"), path("away")).unwrap();
                fs::write(path("store"), "no folder").unwrap();
            }
            180 => {
                fs::remove_file(path("store")).unwrap();
                fs::rename(path("away"), path("store")).unwrap();
                has_collector.store(true, Ordering::Relaxed);
            }
            240 => {
                runtime.block_on(upstream.shutdown());
                upstream = runtime.block_on(node(Some(address)));
            }
            _ => {}
        }
        most_descriptors = most_descriptors.max(descriptors(proxy.id()));
        // What grows until tables are full has grown by then.
        if minute == MINUTES / 3 {
            early = Some(resident_kib(proxy.id()));
        }
    }
    is_over.store(true, Ordering::Relaxed);
    runtime.block_on(async {
        for client in clients {
            client.await.unwrap();
        }
    });
    let late = resident_kib(proxy.id());
    let (windows, exports) = (
        metric(admin, "cqlens_windows_total"),
        metric(admin, "cqlens_otlp_exports_total{result=\"taken\"}"),
    );
    let (lost, failures) = (
        metric(admin, "cqlens_sink_snapshots_total{result=\"lost\"}"),
        metric(admin, "cqlens_sink_failures_total"),
    );
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);

    let answered = answered.load(Ordering::Relaxed);
    let counted: Value = serde_json::from_slice(&fs::read(path("report.json")).unwrap()).unwrap();
    let mut from_store = Command::new(PROGRAM);
    from_store.args(["report", "--from", &store, "--since", "1d", "--format", "json"]);
    let output = from_store.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let stored: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut of_folder = Command::new(PROGRAM);
    let output = of_folder
        .args(["report", &snapshots, "--format", "json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let kept: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!(
        "{answered} requests answered in {windows:?} windows, {:?}; resident after a third {early:?} KiB, at the end {late} KiB; {most_descriptors} \
         descriptors at most; {failures:?} failures of the sink, {exports:?} exports taken",
        begun.elapsed()
    );

    // Every request that was answered is in the report, and what is there is in the store and in the folder.
    assert!(answered > 1_000, "{answered}");
    let coverage = &counted["coverage"];
    let left_out = coverage["dropped"].as_u64().unwrap() + coverage["undecoded"].as_u64().unwrap();
    assert!(
        requests(&counted) >= answered,
        "{} of {answered}",
        requests(&counted)
    );
    assert_eq!(
        requests(&counted),
        coverage["audited"].as_u64().unwrap() + left_out,
        "{coverage:#}"
    );
    assert_eq!(lost, Some(0.0));
    assert_eq!(requests(&stored), requests(&counted));
    assert_eq!(requests(&kept), requests(&counted));
    // What was to happen has happened.
    assert!(
        failures.unwrap() > 0.0 && exports.unwrap() > 10.0,
        "{failures:?} {exports:?}"
    );
    assert!(windows.unwrap() > f64::from(MINUTES) / 2.0, "{windows:?}");
    for line in [
        "the collector takes everything again",
        "sink: snapshots can be written again",
    ] {
        assert!(ended.log.contains(line), "{line}: {}", ended.log);
    }
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
    // Connections of clients and to the node, files that are being written.
    assert!(most_descriptors < 120, "{most_descriptors} descriptors");
    let more = late.saturating_sub(early.unwrap());
    assert!(more < 48 << 10, "{more} KiB more");
}
