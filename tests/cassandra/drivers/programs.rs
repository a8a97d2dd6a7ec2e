//! The drivers, each in a program of its own that takes the same arguments and prints the same kind of lines.

use std::path::Path;
use std::process::Command;

use crate::support::driver::{Compression, Driver, source};
use crate::support::{Missing, cache, versions::Versions};

use super::Scope;

use Compression::{Lz4, None as Plain, Snappy};

/// A driver, ready to run.
#[derive(Debug)]
pub(super) struct Program {
    /// As in the names of logs.
    pub(super) name: &'static str,
    /// As its makers call it.
    pub(super) title: &'static str,
    pub(super) version: &'static str,
    pub(super) command: Vec<String>,
    /// The ways to speak that it has, the most telling first.
    pub(super) dialects: Vec<Dialect>,
    pub(super) leaves: Leaves,
    /// It tells nodes at one address apart, by the ports in `system.peers_v2`.
    pub(super) knows_ports: bool,
    /// It can be told to connect elsewhere than to a node's own address.
    pub(super) translates: bool,
    /// It is no long-lived client: it cannot look on while a node is down.
    pub(super) is_short_lived: bool,
}

/// When it leaves its contact point for the `rpc_address` in that node's `system.local`, also where there is
/// only one node: only who rewrites that address stays in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    Never,
    /// Once its control connection was lost and is there again.
    AfterOutage,
    AtOnce,
}

/// Version and compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    /// `None` lets the driver negotiate.
    pub(super) version: Option<u8>,
    pub(super) compression: Compression,
}

impl Dialect {
    pub(super) fn version_name(self) -> String {
        self.version
            .map_or_else(|| "auto".to_owned(), |version| version.to_string())
    }

    pub(super) fn name(self) -> String {
        let version = self
            .version
            .map_or_else(|| "negotiated".to_owned(), |version| format!("v{version}"));
        match self.compression {
            Plain => version,
            compression => format!("{version} {}", compression.name()),
        }
    }
}

fn dialects(spoken: &[(u8, &[Compression])]) -> Vec<Dialect> {
    let of_version = |&(version, compressions): &(u8, &[Compression])| {
        compressions
            .iter()
            .map(move |&compression| Dialect {
                version: Some(version),
                compression,
            })
            .collect::<Vec<_>>()
    };
    spoken.iter().flat_map(of_version).collect()
}

const NEGOTIATED: Dialect = Dialect {
    version: None,
    compression: Plain,
};

/// Makes a driver ready, or says why it is not to be had here.
type Prepare = fn() -> Result<Program, Missing>;

/// All of them, by name.
pub(super) const ALL: &[(&str, Prepare)] = &[
    ("python", python),
    ("gocql1", gocql_1),
    ("gocql2", gocql_2),
    ("java", java),
    ("node", node),
    ("rust", rust),
    ("cqlsh", cqlsh),
    ("cpp", cpp),
];

fn python() -> Result<Program, Missing> {
    let spoken: &[(u8, &[Compression])] = &[
        (5, &[Lz4, Plain]),
        (4, &[Plain, Lz4, Snappy]),
        (3, &[Plain, Lz4, Snappy]),
    ];
    Ok(Program {
        name: "python",
        title: "Python cassandra-driver",
        version: Versions::get().driver("python"),
        command: Driver::python("matrix.py")?.command().to_vec(),
        dialects: [dialects(spoken), vec![NEGOTIATED]].concat(),
        leaves: Leaves::Never,
        knows_ports: true,
        translates: true,
        is_short_lived: false,
    })
}

fn gocql_1() -> Result<Program, Missing> {
    Ok(Program {
        name: "gocql1",
        title: "gocql",
        version: Versions::get().driver("gocql1"),
        command: Driver::go_tagged("matrix", "gocql1")?.command().to_vec(),
        dialects: dialects(&[(4, &[Snappy, Plain]), (3, &[Snappy, Plain])]),
        // It then reads the ring anew, takes the address that it finds for a new one of the node's, and drops
        // the one that it was told (`refreshRing`). gocql 2 keeps that.
        leaves: Leaves::AfterOutage,
        knows_ports: false,
        translates: true,
        is_short_lived: false,
    })
}

fn gocql_2() -> Result<Program, Missing> {
    let spoken: &[(u8, &[Compression])] = &[
        (5, &[Lz4, Plain]),
        (4, &[Plain, Lz4, Snappy]),
        (3, &[Plain, Lz4, Snappy]),
    ];
    Ok(Program {
        name: "gocql2",
        title: "gocql",
        version: Versions::get().driver("gocql2"),
        command: Driver::go("matrix")?.command().to_vec(),
        dialects: [dialects(spoken), vec![NEGOTIATED]].concat(),
        leaves: Leaves::Never,
        // It reads them, and takes hosts with one address for one all the same (`HostInfo.Equal`): no request
        // is routed by its token.
        knows_ports: false,
        translates: true,
        is_short_lived: false,
    })
}

/// Compiled once into the cache, beside the jars that Maven fetches.
fn java() -> Result<Program, Missing> {
    let source = source("java");
    let program = source.join("Matrix.java");
    let pom = std::fs::read_to_string(source.join("pom.xml")).unwrap();
    let recipe = pom.clone() + &std::fs::read_to_string(&program).unwrap();
    let jars = cache::folder("java-driver", &pom, |folder| {
        std::fs::write(folder.join("pom.xml"), &pom).unwrap();
        let mut maven = Command::new("mvn");
        maven.args([
            "--batch-mode",
            "--quiet",
            "--no-transfer-progress",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=lib",
        ]);
        cache::download(maven.current_dir(folder)).map(|_| ())
    })?;
    let jars = format!("{}/lib/*", jars.display());
    let classes = cache::folder("java", &recipe, |folder| {
        let mut compiler = Command::new("javac");
        compiler
            .args(["-nowarn", "-cp", &jars, "-d"])
            .arg(folder)
            .arg(&program);
        cache::run(&mut compiler).map(|_| ())
    })?;
    // A short life on a busy machine: no second compiler, the collector with the least threads.
    let flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp"];
    let mut command = vec!["java".to_owned()];
    command.extend(flags.map(str::to_owned));
    command.extend([format!("{}:{jars}", classes.display()), "Matrix".to_owned()]);
    Ok(Program {
        name: "java",
        title: "Java java-driver-core",
        version: Versions::get().driver("java"),
        command,
        dialects: [
            dialects(&[(5, &[Lz4, Plain]), (4, &[Plain, Lz4, Snappy]), (3, &[Plain])]),
            vec![NEGOTIATED],
        ]
        .concat(),
        leaves: Leaves::Never,
        knows_ports: true,
        translates: true,
        is_short_lived: false,
    })
}

fn node() -> Result<Program, Missing> {
    let source = source("node");
    let lock = std::fs::read_to_string(source.join("package-lock.json")).unwrap();
    let modules = cache::folder("node", &lock, |folder| {
        for file in ["package.json", "package-lock.json"] {
            std::fs::copy(source.join(file), folder.join(file)).unwrap();
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        cache::download(npm.current_dir(folder)).map(|_| ())
    })?;
    cache::run(Command::new("node").arg("--version"))?;
    let modules = format!("NODE_PATH={}", modules.join("node_modules").display());
    let program = source.join("matrix.js").display().to_string();
    Ok(Program {
        name: "node",
        title: "Node.js cassandra-driver",
        version: Versions::get().driver("node"),
        command: vec!["env".to_owned(), modules, "node".to_owned(), program],
        // It compresses nothing and knows no version 5; what it negotiates begins at 66.
        dialects: [dialects(&[(4, &[Plain]), (3, &[Plain])]), vec![NEGOTIATED]].concat(),
        leaves: Leaves::Never,
        knows_ports: false,
        translates: true,
        is_short_lived: false,
    })
}

/// A crate of its own, so that nobody else's build knows of the driver.
fn rust() -> Result<Program, Missing> {
    let source = source("rust");
    let files = [
        "Cargo.toml",
        "Cargo.lock",
        "src/main.rs",
        "src/checks.rs",
        "src/outage.rs",
        "src/tls.rs",
    ];
    let texts = files.map(|file| std::fs::read_to_string(source.join(file)).unwrap());
    let features = match Scope::from_environment() {
        Scope::Bounded => "",
        _ => "tls",
    };
    let recipe = features.to_owned() + &texts.concat();
    // What it is built from besides its own code stays, whatever the program becomes.
    let target = cache::root().join("rust-target");
    let folder = cache::folder("rust", &recipe, |folder| {
        let mut crates = Command::new(env!("CARGO"));
        cache::download(crates.args(["fetch", "--locked"]).current_dir(&source))?;
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--locked", "--quiet", "--features", features, "--target-dir"])
            .arg(&target)
            // Found by its name it may be that of another toolchain, which the folder of a dependency asks for.
            .env("RUSTC", Path::new(env!("CARGO")).with_file_name("rustc"))
            .current_dir(&source);
        cache::run(&mut cargo)?;
        std::fs::copy(target.join("debug/matrix"), folder.join("matrix")).unwrap();
        Ok(())
    })?;
    Ok(Program {
        name: "rust",
        title: "Rust scylla",
        version: Versions::get().driver("rust"),
        command: vec![text(&folder.join("matrix"))],
        dialects: dialects(&[(4, &[Lz4, Plain, Snappy])]),
        leaves: Leaves::AtOnce,
        knows_ports: false,
        translates: true,
        is_short_lived: false,
    })
}

fn cqlsh() -> Result<Program, Missing> {
    let driver = Driver::python_with("requirements-cqlsh.txt", "cqlsh_matrix.py")?;
    Ok(Program {
        name: "cqlsh",
        title: "cqlsh",
        version: Versions::get().driver("cqlsh"),
        command: driver.command().to_vec(),
        // It compresses where it finds the package for it.
        dialects: [vec![NEGOTIATED], dialects(&[(5, &[Plain]), (4, &[Plain])])].concat(),
        leaves: Leaves::Never,
        // It keeps to the hosts that have the address that it was told: here to all of them.
        knows_ports: false,
        translates: false,
        is_short_lived: true,
    })
}

/// What it does not do itself, a package for Python does that is linked with it.
fn cpp() -> Result<Program, Missing> {
    let driver = Driver::python_with("requirements-cpp.txt", "cpp_matrix.py")?;
    Ok(Program {
        name: "cpp",
        title: "C++ scylladb/cpp-driver",
        version: Versions::get().driver("cpp"),
        command: driver.command().to_vec(),
        // It compresses nothing and knows no version 5.
        dialects: dialects(&[(4, &[Plain]), (3, &[Plain])]),
        leaves: Leaves::Never,
        knows_ports: false,
        translates: false,
        is_short_lived: false,
    })
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
