//! Hostile clients of all kinds beside two services with real drivers, on a real Cassandra, with a second cluster and a store that
//! are hostile as well: the services notice nothing, and the audit goes on to tell what they do.
//!
//! Ten seconds at every landing, a minute with `CQLENS_RING=3`, beside tests which leave a driver some ten requests a second. `CQLENS_HOSTILE_SECONDS=3600 cargo test --release --test cassandra
//! hostile -- --nocapture` is the soak: it also compares latencies, in turns of [`TURN`] with and without
//! attacks. With `CQLENS_HOSTILE_DIRECT=1` services and attacks go to the node itself: what is left then is
//! what the attacks cost Cassandra, and what all of them together cost the machine.

mod attacks;
mod surroundings;

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use attacks::{ATTACKS, Target};
use surroundings::SecondCluster;

use crate::support::{
    available, cache,
    driver::Driver,
    everything,
    process::{Supervised, peak_kib},
    proxy::{Proxy, free_address},
};
use crate::{endless_store::EndlessStore, shared};

/// How long there are attacks, and then none, in turns.
const TURN: Duration = Duration::from_secs(30);

/// From here on a run is long enough to compare latencies, and alone on its machine.
const LONG: Duration = Duration::from_secs(600);

const GRACE: Duration = Duration::from_secs(10);

/// The sidecar that cqlens has to fit into.
const SIDECAR_KIB: u64 = 512 << 10;

#[test]
fn services_notice_nothing_of_hostile_clients_and_their_findings_are_all_there() {
    let usual = if everything() { 60 } else { 10 };
    let seconds = std::env::var("CQLENS_HOSTILE_SECONDS").map_or(usual, |seconds| seconds.parse().unwrap());
    let length = Duration::from_secs(seconds);
    let drivers = Driver::python("paced.py").and_then(|python| Ok([python, Driver::go("paced")?]));
    let Some(drivers) = available("hostile clients beside drivers", drivers) else {
        return;
    };
    let Some(node) = shared::node() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (report, snapshots) = (folder.path().join("report.json"), folder.path().join("snapshots"));
    let (admin, listen) = (free_address(), free_address());
    let (second, store) = (SecondCluster::start(), EndlessStore::start());
    let spool = folder.path().join("spool");
    let arguments = [
        ["--listen", &listen.to_string()],
        ["--upstream", &node.address().to_string()],
        ["--shadow", &second.address.to_string()],
        ["--sink", "s3://reviews/hostile"],
        ["--sink-spool", spool.to_str().unwrap()],
        ["--sink-every", "10s"],
        ["--window", "5s"],
        ["--report", report.to_str().unwrap()],
        ["--snapshot-dir", snapshots.to_str().unwrap()],
        ["--admin", &admin.to_string()],
        ["--grace", "10s"],
    ];
    let proxy = Proxy::launch(PROGRAM, arguments.as_flattened(), &store.environment(), None);
    let is_direct = std::env::var_os("CQLENS_HOSTILE_DIRECT").is_some();
    let address = if is_direct { node.address() } else { proxy.address };
    let services = ["python", "go"].map(|name| Service::start(name, &drivers, address, length));
    for service in &services {
        service.wait_until_it_works();
    }

    let target = Target { cql: address, admin };
    let attackers = Attackers::start(target);
    let watch = Watch::over(proxy.id(), admin, &report, length, &attackers);
    let latencies = services.map(|service| service.finish(&watch.attacked));
    let bursts = attackers.stop();
    show(&latencies);
    if is_direct {
        return;
    }

    let asked_to_stop = Instant::now();
    let ended = proxy.stop(GRACE + Duration::from_secs(120));
    println!("stopped within {:?}", asked_to_stop.elapsed());
    assert_eq!(ended.code, 0, "{}", ended.log);
    if length >= LONG {
        assert!(asked_to_stop.elapsed() < GRACE + Duration::from_secs(5));
    }
    watch.judge(&ended.log);
    for (name, bursts) in bursts {
        println!("{bursts:6} bursts of {name}");
        assert!(bursts > 0, "{name}");
    }
    assert_plain(&ended.log);
    compare(&latencies, length);
    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    println!("{:#}", report["coverage"]);
    assert_findings(&report);
    if length >= LONG {
        assert_eq!(report["coverage"]["dropped"], 0, "the audit keeps up");
    }
    let kept = fs::read_dir(&snapshots).unwrap().count();
    println!("{kept} files of snapshots, {} KiB", kib_of(&snapshots));
    assert!(kept as u64 * 5 > seconds / 3, "a snapshot every window: {kept}");
    assert_eq!(
        of_snapshots(&snapshots)["coverage"]["requests"],
        report["coverage"]["requests"],
        "no window is missing"
    );
    let counts = [&second.asked, &store.refused, &store.sent].map(|count| count.load(Ordering::Relaxed));
    println!("{counts:?} requests to the second cluster, to the store, and bytes of its responses");
    assert!(counts.into_iter().all(|count| count > 0), "{}", ended.log);
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

fn of_snapshots(folder: &Path) -> Value {
    let mut report = Command::new(PROGRAM);
    let output = report
        .args(["report", "--format", "json"])
        .arg(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A driver's program at work.
struct Service {
    name: &'static str,
    process: Supervised,
    patience: Duration,
}

/// Microseconds, sorted.
struct Latencies {
    name: &'static str,
    attacked: Vec<u64>,
    left_alone: Vec<u64>,
}

impl Service {
    fn start(name: &'static str, drivers: &[Driver; 2], proxy: SocketAddr, length: Duration) -> Self {
        let driver = &drivers[usize::from(name == "go")];
        let (host, port) = (proxy.ip().to_string(), proxy.port().to_string());
        let arguments = [host, port, (length.as_secs() + 8).to_string(), name.to_owned()];
        let command = [driver.command().to_vec(), arguments.to_vec()].concat();
        let log = cache::log_file(&format!("hostile-{name}"));
        Self {
            name,
            process: Supervised::spawn(&command, &[], &log, None),
            patience: length + Duration::from_secs(900),
        }
    }

    /// It makes its tables first.
    fn wait_until_it_works(&self) {
        let deadline = Instant::now() + Duration::from_secs(600);
        while !self.process.log().contains("latencies_us") {
            assert!(Instant::now() < deadline, "{}: {}", self.name, self.process.log());
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits for the end; what it saw in the seconds of attacks and in the others.
    fn finish(mut self, attacked: &BTreeSet<u64>) -> Latencies {
        let ended = self.process.wait(self.patience);
        let log = self.process.log();
        assert!(
            ended.is_some_and(|status| status.success()),
            "{}: {log}",
            self.name
        );
        let mut latencies = Latencies {
            name: self.name,
            attacked: Vec::new(),
            left_alone: Vec::new(),
        };
        for line in log.lines().filter(|line| line.starts_with('{')) {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["failed"], 0, "{}: {log}", self.name);
            let seen = line["latencies_us"].as_array().into_iter().flatten();
            let seen = seen.map(|latency| latency.as_u64().unwrap());
            if attacked.contains(&line["second"].as_u64().unwrap()) {
                latencies.attacked.extend(seen);
            } else {
                latencies.left_alone.extend(seen);
            }
        }
        latencies.attacked.sort_unstable();
        latencies.left_alone.sort_unstable();
        latencies
    }
}

fn quantile(sorted: &[u64], per_mille: usize) -> u64 {
    let at = (sorted.len() * per_mille / 1_000).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0)
}

fn show(latencies: &[Latencies]) {
    for Latencies {
        name,
        attacked,
        left_alone,
    } in latencies
    {
        println!(
            "{name}: {} requests left alone, {} attacked",
            left_alone.len(),
            attacked.len()
        );
        for per_mille in [500, 900, 990, 999] {
            let [before, now] = [left_alone, attacked].map(|latencies| quantile(latencies, per_mille));
            println!("  p{per_mille}: {before} us left alone, {now} us attacked");
        }
    }
}

/// A long run has enough of both kinds of seconds to compare.
fn compare(latencies: &[Latencies], length: Duration) {
    for latencies in latencies {
        let name = latencies.name;
        let attacked = latencies.attacked.len();
        assert!(attacked > 0, "{name} was attacked");
        if length >= LONG {
            assert!(attacked > 500, "{name} was attacked: {attacked}");
            let [before, now] = [&latencies.left_alone, &latencies.attacked].map(|all| quantile(all, 990));
            assert!(now <= 2 * before, "{name}: p99 {now} us, {before} us left alone");
        }
    }
}

/// A thread for each kind of attack.
struct Attackers {
    /// Attacks are under way.
    attack: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, Arc<AtomicU64>, JoinHandle<()>)>,
}

impl Attackers {
    fn start(target: Target) -> Self {
        let (attack, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let threads = ATTACKS.iter().map(|kind| {
            let (attack, stop, bursts) = (
                Arc::clone(&attack),
                Arc::clone(&stop),
                Arc::new(AtomicU64::new(0)),
            );
            let count = Arc::clone(&bursts);
            let thread = thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    if attack.load(Ordering::SeqCst) {
                        // How it is answered is the proxy's business, and the node's.
                        let _ = (kind.burst)(target, count.fetch_add(1, Ordering::SeqCst));
                        thread::sleep(kind.pause);
                    } else {
                        thread::sleep(Duration::from_millis(50));
                    }
                }
            });
            (kind.name, bursts, thread)
        });
        Self {
            threads: threads.collect(),
            attack,
            stop,
        }
    }

    /// Until there was a burst of each kind, however busy the machine is.
    fn wait_until_all_have_begun(&self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        for (name, bursts, _) in &self.threads {
            while bursts.load(Ordering::SeqCst) == 0 {
                assert!(Instant::now() < deadline, "no burst of {name}");
                thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// How many bursts there were of each kind.
    fn stop(self) -> Vec<(&'static str, u64)> {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.threads.into_iter().map(|(name, bursts, thread)| {
            thread.join().unwrap();
            (name, bursts.load(Ordering::SeqCst))
        });
        ended.collect()
    }
}

/// What was seen of the proxy, second by second.
#[derive(Default)]
struct Watch {
    /// Unix seconds in which there were attacks.
    attacked: BTreeSet<u64>,
    peak_kib: u64,
    probes: u64,
    unanswered_probes: u64,
    slowest_probe: Duration,
    reports: BTreeSet<SystemTime>,
    length: Duration,
}

impl Watch {
    /// Lets attackers loose in turns, for `length`.
    fn over(process: u32, admin: SocketAddr, report: &Path, length: Duration, attackers: &Attackers) -> Self {
        let mut watch = Self {
            length,
            ..Self::default()
        };
        let turn = TURN.min(length / 3);
        let begun = Instant::now();
        while begun.elapsed() < length {
            // First left alone, then attacked.
            let is_attacked = (begun.elapsed().as_secs() / turn.as_secs()) % 2 == 1;
            attackers.attack.store(is_attacked, Ordering::SeqCst);
            if is_attacked {
                watch.attacked.insert(unix_seconds());
            }
            watch.probe(admin);
            watch
                .reports
                .extend(fs::metadata(report).and_then(|file| file.modified()));
            thread::sleep(Duration::from_millis(500));
        }
        attackers.attack.store(true, Ordering::SeqCst);
        attackers.wait_until_all_have_begun();
        attackers.attack.store(false, Ordering::SeqCst);
        watch.peak_kib = peak_kib(process);
        watch
    }

    fn probe(&mut self, admin: SocketAddr) {
        let begun = Instant::now();
        self.probes += 1;
        self.unanswered_probes += u64::from(!is_alive(admin));
        self.slowest_probe = self.slowest_probe.max(begun.elapsed());
    }

    fn judge(&self, log: &str) {
        println!(
            "{} KiB resident at most, {} probes, {} unanswered, the slowest took {:?}; {} reports in {:?}; {} lines of log",
            self.peak_kib,
            self.probes,
            self.unanswered_probes,
            self.slowest_probe,
            self.reports.len(),
            self.length,
            log.lines().count(),
        );
        assert_eq!(self.unanswered_probes, 0);
        if self.length >= LONG {
            assert!(self.slowest_probe < KUBELET, "{:?}", self.slowest_probe);
        }
        assert!(self.peak_kib < SIDECAR_KIB);
        // On a machine with other work a report may be late, and its window longer.
        if self.length >= LONG {
            let windows = self.length.as_secs() / 5;
            assert!(
                self.reports.len() as u64 + 2 >= windows * 9 / 10,
                "a report every window"
            );
        }
        assert!(log.lines().count() as u64 <= 200 + self.length.as_secs() * 10);
        for word in ["panicked", "an auditor has failed"] {
            assert!(!log.contains(word), "{log}");
        }
    }
}

/// What a kubelet waits for by default.
const KUBELET: Duration = Duration::from_secs(1);

/// What a patient one waits for, on a machine with other work.
const PROBE: Duration = Duration::from_secs(120);

/// Whether `/livez` says so.
fn is_alive(admin: SocketAddr) -> bool {
    let ask = || {
        let mut connection = TcpStream::connect_timeout(&admin, PROBE)?;
        connection.set_read_timeout(Some(PROBE))?;
        connection.write_all(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Nothing that a terminal would obey, and no forged line.
fn assert_plain(log: &str) {
    let forbidden = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!log.contains(forbidden), "{log:?}");
    assert!(
        !log.lines()
            .any(|line| line.starts_with("2026-01-01 ERROR forged")),
        "{log}"
    );
}

/// What the services do is judged as if nobody else had been there.
fn assert_findings(report: &Value) {
    let findings = report["findings"].as_array().unwrap();
    let is_found = |rule: &str, keyspace: &str| {
        let mut of_both = findings.iter().filter(|finding| finding["rule"] == rule);
        of_both.any(|finding| finding["keyspace"] == keyspace)
    };
    for (rule, keyspace) in [
        ("allow-filtering", "python"),
        ("in-partition-key", "python"),
        ("unlogged-batch-multi-partition", "python"),
        ("allow-filtering", "go"),
        ("in-partition-key", "go"),
    ] {
        assert!(is_found(rule, keyspace), "{rule} of {keyspace}: {findings:#?}");
    }
}

fn kib_of(folder: &Path) -> u64 {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap());
    files.map(|file| file.len()).sum::<u64>() >> 10
}
