//! A quarter of a day in production, in a quarter of a minute (all of it in ring 3): a window for each of its minutes, while
//! settings are reloaded, certificates renewed, the log rotated, the node replaced, and the sink and the collector come and
//! go. Nothing grows, and nothing is lost that is not counted.
//!
//! `CQLENS_DAY_WINDOW_MS=1000` sets how long a window is, instead of what fits a run of all tests.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
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
use cqlens_testing::{
    everything,
    process::{descriptors, resident_kib},
    proxy::{Proxy, free_address, get},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;
use tokio::{runtime::Runtime, task::JoinHandle};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");
const LIMIT: Duration = Duration::from_secs(60);
const CLIENTS: usize = 6;

/// How many of the day's 1,440 minutes are tried: all changes come again every 360.
fn minutes() -> u32 {
    if everything() { 1_440 } else { 360 }
}

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

fn metric(admin: SocketAddr, name: &str) -> Option<f64> {
    let text = get(admin, "/metrics")?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn requests(report: &Value) -> u64 {
    report["coverage"]["requests"].as_u64().unwrap()
}

/// Everything around the proxy.
struct Day {
    folder: tempfile::TempDir,
    authority: Authority,
    runtime: Runtime,
    upstream: Option<Node>,
    node_address: SocketAddr,
    has_collector: Arc<AtomicBool>,
    collector: String,
    admin: SocketAddr,
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl Day {
    fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path());
        authority.renew();
        fs::create_dir(folder.path().join("store")).unwrap();
        let runtime = Runtime::new().unwrap();
        let upstream = runtime.block_on(node(None));
        let has_collector = Arc::new(AtomicBool::new(true));
        Self {
            collector: collector(Arc::clone(&has_collector)),
            admin: free_address(),
            is_over: Arc::default(),
            answered: Arc::default(),
            folder,
            authority,
            runtime,
            node_address: upstream.address(),
            upstream: Some(upstream),
            has_collector,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn store(&self) -> String {
        format!("file://{}", self.text("store"))
    }

    fn proxy(&self) -> Proxy {
        let window = format!("{}ms", window().as_millis());
        let pairs = [
            ("--client-tls-cert", self.text("own.pem")),
            ("--client-tls-key", self.text("own.pem")),
            ("--window", window),
            ("--report", self.text("report.json")),
            ("--snapshot-dir", self.text("snapshots")),
            ("--keep-minutes", "2s".to_owned()),
            ("--keep-hours", "20s".to_owned()),
            ("--sink", self.store()),
            ("--sink-spool", self.text("spool")),
            ("--sink-every", "2s".to_owned()),
            ("--otlp", self.collector.clone()),
            ("--otlp-every", "500ms".to_owned()),
            ("--admin", self.admin.to_string()),
            ("--name", "day".to_owned()),
        ];
        let arguments: Vec<&str> = pairs.iter().flat_map(|(name, value)| [*name, value]).collect();
        Proxy::start_at(free_address(), PROGRAM, self.node_address, &arguments)
    }

    fn clients(&self, proxy: SocketAddr) -> Vec<JoinHandle<()>> {
        let client = |_| {
            let (is_over, answered) = (Arc::clone(&self.is_over), Arc::clone(&self.answered));
            let options = self.authority.client_options();
            self.runtime.spawn(client(proxy, options, is_over, answered))
        };
        (0..CLIENTS).map(client).collect()
    }

    /// What happens in this minute.
    fn change(&mut self, minute: u32, proxy: &mut Proxy) {
        if minute.is_multiple_of(5) {
            proxy.signal("HUP");
        }
        if minute.is_multiple_of(60) {
            self.authority.renew();
        }
        match minute % 360 {
            // The log is rotated, as logrotate does it for programs that keep their file open (copytruncate).
            60 => fs::File::options()
                .write(true)
                .open(proxy.log_path())
                .and_then(|log| log.set_len(0))
                .unwrap(),
            120 => {
                self.has_collector.store(false, Ordering::Relaxed);
                fs::rename(self.path("store"), self.path("away")).unwrap();
                fs::write(self.path("store"), "no folder").unwrap();
            }
            180 => {
                fs::remove_file(self.path("store")).unwrap();
                fs::rename(self.path("away"), self.path("store")).unwrap();
                self.has_collector.store(true, Ordering::Relaxed);
            }
            240 => {
                let gone = self.upstream.take().unwrap();
                self.runtime.block_on(gone.shutdown());
                self.upstream = Some(self.runtime.block_on(node(Some(self.node_address))));
            }
            _ => {}
        }
    }

    fn end(&self, clients: Vec<JoinHandle<()>>) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        for client in clients {
            self.runtime.block_on(client).unwrap();
        }
        self.answered.load(Ordering::Relaxed)
    }
}

/// What a process held over the day.
#[derive(Debug, Default)]
struct Held {
    most_descriptors: usize,
    /// Resident memory in KiB after a third of the day: what grows until tables are full has grown by then.
    early: u64,
    late: u64,
}

impl Held {
    fn see(&mut self, minute: u32, process: u32) {
        self.most_descriptors = self.most_descriptors.max(descriptors(process));
        match minute {
            _ if minute == minutes() / 3 => self.early = resident_kib(process),
            _ if minute == minutes() => self.late = resident_kib(process),
            _ => {}
        }
    }

    fn assert_flat(&self) {
        // Connections of clients and to the node, files that are being written.
        assert!(self.most_descriptors < 120, "{self:?}");
        assert!(self.late.saturating_sub(self.early) < 48 << 10, "{self:?}");
    }
}

fn report(arguments: &[&str]) -> Value {
    let mut command = Command::new(PROGRAM);
    let output = command
        .arg("report")
        .args(arguments)
        .args(["--format", "json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_day_of_changes_leaves_nothing_behind_and_loses_nothing() {
    let mut day = Day::begin();
    let mut proxy = day.proxy();
    let clients = day.clients(proxy.address);
    let mut held = Held::default();
    let begun = Instant::now();
    for minute in 1..=minutes() {
        // Of the day, not of the machine: a window that comes late makes no other late.
        thread::sleep((window() * minute).saturating_sub(begun.elapsed()));
        day.change(minute, &mut proxy);
        held.see(minute, proxy.id());
    }
    let answered = day.end(clients);
    let figure = |name: &str| metric(day.admin, name).unwrap();
    let (windows, lost) = (
        figure("cqlens_windows_total"),
        figure("cqlens_sink_snapshots_total{result=\"lost\"}"),
    );
    let (failures, exports) = (
        figure("cqlens_sink_failures_total"),
        figure("cqlens_otlp_exports_total{result=\"taken\"}"),
    );
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    println!(
        "{answered} requests answered, {windows} windows, {held:?}, {failures} failures of the sink, {exports} exports taken"
    );

    // Every request that was answered is in the report, and what is there is in the store and in the folder.
    let counted: Value = serde_json::from_slice(&fs::read(day.path("report.json")).unwrap()).unwrap();
    let coverage = &counted["coverage"];
    let of_coverage = |name: &str| coverage[name].as_u64().unwrap();
    assert!(
        answered > 1_000 && requests(&counted) >= answered,
        "{answered} of {coverage:#}"
    );
    let seen = of_coverage("audited") + of_coverage("dropped") + of_coverage("undecoded");
    assert_eq!(requests(&counted), seen, "{coverage:#}");
    let of_store = report(&["--from", &day.store(), "--since", "1d"]);
    assert_eq!(
        (requests(&of_store), lost),
        (requests(&counted), 0.0),
        "{:#}",
        of_store["notices"]
    );
    assert_eq!(requests(&report(&[&day.text("snapshots")])), requests(&counted));
    held.assert_flat();
    // What was to happen has happened.
    assert!(
        windows > 1.0 && failures > 0.0 && exports > 0.0,
        "{windows} {failures} {exports}"
    );
    for line in [
        "the collector takes everything again",
        "sink: snapshots can be written again",
    ] {
        assert!(ended.log.contains(line), "{line}: {}", ended.log);
    }
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
}
