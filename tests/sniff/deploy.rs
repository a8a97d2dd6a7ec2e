//! What `examples/deploy` says of captures: the scripts and units do what they are there for.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use cqlens_client::{Bind, Client, ClientOptions, Run, RunOptions};
use cqlens_node::{Node, Options};

use crate::sniff::{
    report::number,
    sniff::Place,
    support::{Missing, available, cache, process::Supervised},
};

const SOON: Duration = Duration::from_secs(60);

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/deploy")
        .join(name)
}

/// capture-ring.sh on the loopback device, for the node at `port`: files of 1 MB, so many of them.
fn ring(folder: &Path, port: u16, files: usize) -> Result<Supervised, Missing> {
    cache::run(Command::new("tcpdump").arg("--version"))?;
    let environment = [
        ("CQLENS_RING", folder.display().to_string()),
        ("CQLENS_RING_FILES", files.to_string()),
        ("CQLENS_RING_MEGABYTES", "1".to_owned()),
        ("CQLENS_RING_INTERFACE", "lo".to_owned()),
        ("CQLENS_RING_FILTER", format!("tcp port {port}")),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    let command = ["sh".to_owned(), example("capture-ring.sh").display().to_string()];
    let mut ring = Supervised::spawn(&command, &environment, &cache::log_file("ring"), None);
    let deadline = Instant::now() + SOON;
    while !ring.log().contains("listening on") {
        if ring.ended().is_some() || Instant::now() > deadline {
            return Err(Missing(format!("nobody may look on: {}", ring.log())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(ring)
}

fn files_of(ring: &Path) -> BTreeSet<PathBuf> {
    let files = std::fs::read_dir(ring).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

const VALUE: usize = 40_000;
const WRITES: i32 = 150;

/// Some megabytes in files of one: the disk has no more than it was told to have, and the last part of the
/// traffic is there.
#[test]
fn a_ring_of_captures_is_bounded_and_has_what_passed_last() {
    let place = Place::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let node = runtime.block_on(Node::start(Options::default())).unwrap();
    let folder = place.path("ring");
    let Some(mut ring) = available("a ring of captures", ring(&folder, node.address().port(), 3)) else {
        return;
    };
    runtime.block_on(async {
        let options = Arc::new(ClientOptions::default());
        let address = node.address().to_string();
        let mut client = Client::connect(&address, &options).await.unwrap();
        for cql in [
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE shop.pictures (id int PRIMARY KEY, bytes blob)",
        ] {
            client.query(cql).await.unwrap();
        }
        for id in 0..WRITES {
            let values = [Bind::int(id), Bind::Bytes(vec![b'x'; VALUE].into())];
            let write = Run::Text("INSERT INTO shop.pictures (id, bytes) VALUES (?, ?)", &values);
            client.run(write, &RunOptions::default()).await.unwrap();
        }
    });
    // What the kernel still has for it.
    std::thread::sleep(Duration::from_secs(2));
    ring.signal("TERM");
    assert!(ring.wait(SOON).is_some(), "{}", ring.log());
    assert!(
        ring.log().contains("\n0 packets dropped by kernel"),
        "{}",
        ring.log()
    );
    let files = files_of(&folder);
    assert_eq!(files.len(), 3, "{files:?}");
    let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!((1_000_000..3_500_000).contains(&bytes), "{bytes} bytes");
    let port = node.address().port().to_string();
    let paths: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
    let sniffed = place.sniff(&paths, &["--port", &port]);
    assert_eq!(sniffed.code(), Some(0), "{}", sniffed.told());
    let coverage = &sniffed.report()["coverage"];
    let audited = number(&coverage["audited"]);
    // Two whole files at least, and not all of it: the connection had begun before.
    let room = 3_500_000 / VALUE as u64;
    assert!((40..room).contains(&audited), "{}", sniffed.told());
    assert_eq!(
        number(&coverage["capture"]["begun_before"]),
        1,
        "{}",
        sniffed.told()
    );
    assert!(
        number(&coverage["capture"]["lost_bytes"]) == 0,
        "{}",
        sniffed.told()
    );
    runtime.block_on(node.shutdown());
}

/// What `systemd-analyze` must find nothing wrong with.
fn systemd_agrees(arguments: &[&str], units: &[PathBuf]) {
    let version = cache::run(Command::new("systemd-analyze").arg("--version"));
    if available("systemd's opinion of the units", version).is_none() {
        return;
    }
    let mut command = Command::new("systemd-analyze");
    let output = command.args(arguments).args(units).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn systemd_takes_the_units() {
    let place = Place::new();
    let installed = |name: &str| {
        let unit = std::fs::read_to_string(example(name)).unwrap();
        let unit = unit.replace("/usr/local/bin/cqlens", crate::sniff::sniff::PROGRAM);
        place.write(name, unit.as_bytes())
    };
    let units = [
        "cqlens.service",
        "cqlens.socket",
        "cqlens-sniff.timer",
        "cqlens-sniff.service",
    ];
    systemd_agrees(&["verify"], &units.map(installed));
}

/// Exposure from 0 (none) to 100, below 20: what is left is the network, and packets.
#[test]
fn systemd_finds_little_that_the_units_expose() {
    for (unit, most) in [("cqlens.service", "15"), ("cqlens-sniff.service", "19")] {
        let arguments = ["security", "--offline=true", "--no-pager", "--threshold", most];
        systemd_agrees(&arguments, &[example(unit)]);
        let text = std::fs::read_to_string(example(unit)).unwrap();
        for setting in [
            "MemoryMax=",
            "TasksMax=",
            "LimitCORE=0",
            "SystemCallFilter=@system-service",
        ] {
            assert!(
                text.lines().any(|line| line.starts_with(setting)),
                "{unit}: {setting}"
            );
        }
    }
}

/// What a unit runs is a command line of this program.
#[test]
fn the_command_of_the_unit_is_understood() {
    let unit = std::fs::read_to_string(example("cqlens-sniff.service")).unwrap();
    let joined = unit.replace("\\\n", " ");
    let (_, command) = joined.split_once("| cqlens sniff - ").unwrap();
    let (options, _) = command.split_once('\'').unwrap();
    let place = Place::new();
    let options: Vec<String> = options
        .split_whitespace()
        .map(|word| word.replace("/var/lib/cqlens", place.path("").to_str().unwrap()))
        .collect();
    let output = Command::new(crate::sniff::sniff::PROGRAM)
        .args(["sniff", "-"])
        .args(&options)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    // It has understood everything, and found nothing to read.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("standard input"), "{said}");
}

/// What the script asks of Kubernetes, with a kubectl that has one pod and hands a recorded capture on.
#[test]
fn an_ephemeral_container_looks_on_from_within_a_pod() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = Place::new();
    let recorded = crate::sniff::sniff::recording("python-v4-none");
    let programs = place.path("bin");
    std::fs::create_dir(&programs).unwrap();
    symlink(crate::sniff::sniff::PROGRAM, programs.join("cqlens")).unwrap();
    let kubectl = format!(
        "#!/bin/sh\necho \"$*\" >> '{}'\ncase $* in *tcpdump*) cat '{}' ;; esac\n",
        place.path("asked").display(),
        recorded.file.display()
    );
    std::fs::write(programs.join("kubectl"), kubectl).unwrap();
    std::fs::set_permissions(programs.join("kubectl"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let report = place.path("report.json");
    let output = Command::new("sh")
        .arg(example("kubernetes-ephemeral.sh"))
        .args(["db/cassandra-0", "5", "--report"])
        .arg(&report)
        .env("PATH", format!("{}:{path}", programs.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let found: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    assert_eq!(
        found["coverage"]["requests"],
        recorded.report()["coverage"]["requests"]
    );
    let asked = std::fs::read_to_string(place.path("asked")).unwrap();
    let asked: Vec<&str> = asked.lines().collect();
    let [debug, ready, capture] = asked[..] else {
        panic!("{asked:?}")
    };
    let container = debug
        .split_whitespace()
        .find(|word| word.starts_with("cqlens-"))
        .unwrap();
    let exec = format!("--namespace db exec cassandra-0 --container {container} --");
    assert!(debug.starts_with("--namespace db debug cassandra-0 "), "{debug}");
    assert!(debug.ends_with(" -- sleep 125"), "{debug}");
    assert_eq!(ready, format!("{exec} true"));
    assert!(
        capture.starts_with(&format!("{exec} timeout 5 tcpdump ")),
        "{capture}"
    );
}

/// The real kubectl knows what the script says to it, as far as it says so without a cluster.
#[test]
fn kubectl_knows_the_options_of_the_script() {
    let script = std::fs::read_to_string(example("kubernetes-ephemeral.sh")).unwrap();
    let joined = script.replace("\\\n", " ");
    for (command, marker) in [
        ("debug", "kubectl --namespace \"$namespace\" debug "),
        ("exec", "kubectl --namespace \"$namespace\" exec "),
    ] {
        let help = cache::run(Command::new("kubectl").args([command, "--help"]));
        let Some(help) = available("what kubectl knows", help) else {
            return;
        };
        let (_, line) = joined.split_once(marker).unwrap();
        let (options, _) = line.split_once(" -- ").unwrap();
        let options: Vec<&str> = options
            .split_whitespace()
            .filter(|word| word.starts_with("--"))
            .collect();
        assert!(!options.is_empty());
        for option in options {
            let name = option.split('=').next().unwrap();
            assert!(help.contains(&format!("{name}=")), "{command} {name}: {help}");
        }
    }
}

#[test]
fn shells_take_the_scripts() {
    for name in ["capture-ring.sh", "kubernetes-ephemeral.sh"] {
        let output = Command::new("sh").arg("-n").arg(example(name)).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
