//! Records the packet captures of `tests/sniff/captures` anew: real drivers go through `cqlens proxy` to a
//! real Cassandra, while tcpdump and dumpcap look on between the driver and the proxy. `cargo run --example
//! record-captures [NAME…]`, from the root of the repository, as root; `cargo build` first, since it is the
//! `cqlens` of this build that is run.
//!
//! The proxy's report is kept beside each capture: both have seen the same traffic.
#![allow(clippy::print_stdout, reason = "what was recorded is what this prints")]

#[path = "../../../proto/tests/golden/record/programs.rs"]
mod programs;
use cqlens_testing as support;

mod lookout;

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lookout::{Kind, Lookout};
use programs::text;
use support::cassandra::{Cassandra, Options};
use support::driver::{Compression, Driver, Session};
use support::process::Supervised;
use support::proxy::Proxy;
use support::{available, cache};

/// Drivers wait for schema agreement and for traces; a run takes a few seconds.
const DONE_WITHIN: Duration = Duration::from_secs(300);

/// Where `cqlens sniff` looks if it is not told otherwise.
const PORT: u16 = 9042;

/// One run of a driver.
struct Run {
    name: String,
    program: Program,
    /// 3, 4 or 5.
    version: &'static str,
    compression: &'static str,
    /// Who looks on.
    kinds: &'static [Kind],
    way: Way,
}

/// Whose run it is.
#[derive(Clone, Copy)]
enum Program {
    /// A session as in `proto/tests/golden`, by this driver, with this special argument.
    Golden(&'static str, &'static str),
    /// A program of `tests/cassandra/python`.
    Python(&'static str),
}

/// How the driver reaches the proxy.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    Version6,
    Encrypted,
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for driver in ["python", "gocql", "java"] {
        for version in ["3", "4", "5"] {
            for compression in ["none", "lz4"] {
                // The same packets in every form in which they are handed on.
                let kinds: &[Kind] = if (driver, version, compression) == ("gocql", "4", "none") {
                    &Kind::ALL
                } else {
                    &[Kind::Plain]
                };
                runs.push(Run {
                    name: format!("{driver}-v{version}-{compression}"),
                    program: Program::Golden(driver, ""),
                    version,
                    compression,
                    kinds,
                    way: Way::Plain,
                });
            }
        }
    }
    let special = |name: &str, program, version, compression, way| Run {
        name: name.to_owned(),
        program,
        version,
        compression,
        kinds: &[Kind::Plain],
        way,
    };
    runs.extend([
        special(
            "java-v5-lz4-schema",
            Program::Golden("java", "schema"),
            "5",
            "lz4",
            Way::Plain,
        ),
        special(
            "python-v5-lz4-schema",
            Program::Golden("python", "schema"),
            "5",
            "lz4",
            Way::Plain,
        ),
        special(
            "python-more-v4-none",
            Program::Python("driver.py"),
            "4",
            "none",
            Way::Plain,
        ),
        special(
            "python-more-v5-lz4",
            Program::Python("driver.py"),
            "5",
            "lz4",
            Way::Plain,
        ),
        special(
            "python-v4-none-ipv6",
            Program::Golden("python", ""),
            "4",
            "none",
            Way::Version6,
        ),
        special(
            "python-v4-none-tls",
            Program::Python("driver.py"),
            "4",
            "none",
            Way::Encrypted,
        ),
    ]);
    runs
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |run: &Run| wanted.is_empty() || wanted.contains(&run.name);
    let (golden, others): (Vec<Run>, Vec<Run>) = runs()
        .into_iter()
        .filter(is_wanted)
        .partition(|run| matches!(run.program, Program::Golden(..)));
    // As for the golden sessions, and as for the tests that have the programs.
    let options = Options::default().with("user_defined_functions_enabled", "true");
    let thrifty = options.clone().with("tombstone_warn_threshold", "5");
    record_all(&golden, &thrifty.with("tombstone_failure_threshold", "20"));
    let lenient = options.with("tombstone_warn_threshold", "10");
    record_all(&others, &lenient.with("sasi_indexes_enabled", "true"));
}

fn record_all(runs: &[Run], options: &Options) {
    if runs.is_empty() {
        return;
    }
    let Some(node) = available("the node", Cassandra::start(options)) else {
        return;
    };
    for run in runs {
        record(run, node.address());
    }
}

fn record(run: &Run, node: SocketAddr) {
    let host = match run.way {
        Way::Version6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        _ => node.ip(),
    };
    let listen = SocketAddr::new(host, PORT);
    drop(TcpListener::bind(listen).expect("nobody else serves CQL there"));
    let scratch = tempfile::tempdir().expect("a folder for the report");
    let file = |name: &str| text(&scratch.path().join(name));
    // The same for all of them, so that what stands for a partition key is the same in every report.
    std::fs::write(file("hash.key"), HASH_KEY).expect("the folder is writable");
    let (report, key) = (file("report.json"), file("hash.key"));
    let mut arguments = vec!["--window", "3600s", "--report", &report, "--hash-key-file", &key];
    let tls = (file("own.pem"), file("own.key"));
    if run.way == Way::Encrypted {
        let own = rcgen::generate_simple_self_signed([host.to_string()]).expect("an address is a name");
        std::fs::write(&tls.0, own.cert.pem()).expect("the folder is writable");
        std::fs::write(&tls.1, own.signing_key.serialize_pem()).expect("the folder is writable");
        arguments.extend(["--client-tls-cert", &tls.0, "--client-tls-key", &tls.1]);
    }
    let proxy = Proxy::start_at(listen, &text(&cqlens()), node, &arguments);
    let limit = (run.way == Way::Encrypted).then_some(20);
    let look = |&kind: &Kind| {
        let file = scratch.path().join(kind.file(&run.name));
        available(&run.name, Lookout::start(kind, &file, listen, limit)).expect("somebody looks on")
    };
    let lookouts: Vec<Lookout> = run.kinds.iter().map(look).collect();
    drive(run, listen, Path::new(&tls.0));
    // What a socket still has to say when its process has gone.
    std::thread::sleep(Duration::from_millis(500));
    for lookout in lookouts {
        let recorded = lookout.end();
        keep(&recorded, packer(run, &recorded));
    }
    let ended = proxy.stop(DONE_WITHIN);
    assert_eq!(ended.code, 0, "{}", ended.log);
    if run.way != Way::Encrypted {
        let named = scratch.path().join(&run.name).with_extension("json");
        std::fs::rename(&report, &named).expect("the folder is writable");
        keep(&named, Some(GZIP));
    }
}

/// A program that packs a file, and its ending.
type Packer = (&'static [&'static str], &'static str);

const GZIP: Packer = (&["gzip", "-9", "-n", "-k"], "gz");
const ZSTD: Packer = (&["zstd", "-19", "-q", "-k"], "zst");

/// Captures are handed on in all three ways.
fn packer(run: &Run, capture: &Path) -> Option<Packer> {
    match run.program {
        Program::Python("driver.py") if run.way == Way::Plain => Some(ZSTD),
        Program::Golden("java", _) => Some(ZSTD),
        Program::Golden("gocql", _) if capture.extension().is_some_and(|ending| ending == "pcap") => {
            Some(GZIP)
        }
        _ => None,
    }
}

/// Puts a file among the captures, packed.
fn keep(file: &Path, packer: Option<Packer>) {
    let mut file = file.to_path_buf();
    if let Some(((program, options), ending)) =
        packer.and_then(|(command, ending)| Some((command.split_first()?, ending)))
    {
        available(
            program,
            cache::run(Command::new(program).args(options).arg(&file)),
        )
        .expect("it is there");
        file = PathBuf::from(format!("{}.{ending}", text(&file)));
    }
    let name = file.file_name().expect("a file has a name");
    let length = std::fs::copy(&file, captures().join(name)).expect("the folder of the captures is writable");
    println!("{length:>8} {}", name.display());
}

/// Runs the driver to its end.
fn drive(run: &Run, address: SocketAddr, authority: &Path) {
    let (driver, special) = match run.program {
        Program::Golden(driver, special) => (driver, special),
        Program::Python(program) => {
            let session = Session {
                keyspace: "captured".to_owned(),
                ..Session::new(
                    run.version.parse().ok(),
                    if run.compression == "lz4" {
                        Compression::Lz4
                    } else {
                        Compression::None
                    },
                )
            };
            let Some(python) = available(program, Driver::python(program)) else {
                return;
            };
            if run.way == Way::Encrypted {
                python.run_over_tls(address, &session, authority);
            } else {
                python.run(address, &session);
            }
            return;
        }
    };
    let Some(mut command) = available(driver, programs::program(driver)) else {
        return;
    };
    command.extend([
        address.ip().to_string(),
        address.port().to_string(),
        run.version.to_owned(),
        run.compression.to_owned(),
        text(&programs::source()),
    ]);
    command.extend((!special.is_empty()).then(|| special.to_owned()));
    let mut process = Supervised::spawn(&command, &[], &cache::log_file(driver), None);
    let ended = process.wait(DONE_WITHIN);
    assert!(
        ended.is_some_and(|status| status.success()),
        "{}: {ended:?}\n{}",
        run.name,
        process.log()
    );
}

/// What partition keys are hashed with. Nobody's secret: the keys are those of tests.
const HASH_KEY: &str = include_str!("../captures/hash.key");

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sniff/captures")
}

/// The `cqlens` that was built last beside this program.
fn cqlens() -> PathBuf {
    let own = std::env::current_exe().expect("a process knows its program");
    let debug = own.ancestors().nth(2).expect("an example is two folders below");
    debug.join("cqlens")
}
