//! Drivers that nobody here wrote, run as the applications that they usually sit in.
//!
//! A driver program takes the same arguments whatever its language and prints one line of JSON for each thing
//! that it saw. Its output depends on nothing but its arguments, so that two runs compare line by line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::process::Supervised;
use super::{Missing, cache, tools};

/// Far beyond what a run takes on a busy machine (about 30 s).
const DONE_WITHIN: Duration = Duration::from_secs(900);

/// How a driver speaks to the node.
#[derive(Debug, Clone)]
pub struct Session {
    /// 3, 4 or 5; `None` lets the driver negotiate.
    pub version: Option<u8>,
    /// What STARTUP asks for.
    pub compression: Compression,
    /// Dropped and made anew by the program.
    pub keyspace: String,
}

/// The compression of bodies (v3, v4) or segments (v5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Lz4,
    /// Not in version 5.
    Snappy,
}

impl Compression {
    /// As in STARTUP, `none` apart.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
        }
    }
}

impl Session {
    /// In a keyspace that is named after the version and the compression.
    pub fn new(version: Option<u8>, compression: Compression) -> Self {
        let spoken = version.map_or_else(|| "negotiated".to_owned(), |version| format!("v{version}"));
        Self {
            version,
            compression,
            keyspace: format!("seen_{spoken}_{}", compression.name()),
        }
    }

    /// What a program gets as its arguments for it, with the node to connect to.
    pub fn arguments(&self, node: SocketAddr) -> Vec<String> {
        let version = self
            .version
            .map_or_else(|| "auto".to_owned(), |version| version.to_string());
        vec![
            node.ip().to_string(),
            node.port().to_string(),
            version,
            self.compression.name().to_owned(),
            self.keyspace.clone(),
        ]
    }
}

/// A driver in its language's runtime, ready to run.
pub struct Driver {
    name: &'static str,
    command: Vec<String>,
}

impl Driver {
    /// `program`, a file of `tests/cassandra/python`, in a virtual environment of the cache.
    ///
    /// # Errors
    /// [`Missing`] where there is no `python3`.
    pub fn python(program: &str) -> Result<Self, Missing> {
        Self::python_with("requirements.txt", program)
    }

    /// The same with what a file of requirements beside the program names.
    ///
    /// # Errors
    /// [`Missing`] where there is no `python3`.
    pub fn python_with(requirements_file: &str, program: &str) -> Result<Self, Missing> {
        let source = source("python");
        let requirements = std::fs::read_to_string(source.join(requirements_file)).unwrap();
        let environment = cache::folder("python", &requirements, |folder| {
            cache::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
            let mut pip = Command::new(folder.join("bin/pip"));
            pip.args(["install", "--no-input", "--quiet", "--requirement"])
                .arg(source.join(requirements_file));
            cache::download(&mut pip).map(|_| ())
        })?;
        let command = vec![text(&environment.join("bin/python")), text(&source.join(program))];
        Ok(Self {
            name: "python",
            command,
        })
    }

    /// The gocql program of a folder in `tests/cassandra/go`, `.` for the one at its top, built once into the
    /// cache.
    ///
    /// # Errors
    /// [`Missing`] where there is no `go`.
    pub fn go(program: &str) -> Result<Self, Missing> {
        Self::go_tagged(program, "")
    }

    /// The same with the files that are for this build tag, and without those that are not.
    ///
    /// # Errors
    /// [`Missing`] where there is no `go`.
    pub fn go_tagged(program: &str, tag: &str) -> Result<Self, Missing> {
        let built = tools::of_go_source("go", &source("go"), program, tag)?;
        Ok(Self {
            name: "go",
            command: vec![text(&built)],
        })
    }

    /// The program, for who starts it himself.
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// Runs the program against `node` and returns the lines of JSON that it printed.
    ///
    /// # Panics
    /// If the program fails, with all that it wrote.
    pub fn run(&self, node: SocketAddr, session: &Session) -> Vec<String> {
        self.run_with(session.arguments(node))
    }

    /// The same with TLS, and with the certificates in `authority` believed; of `driver.py` only.
    pub fn run_over_tls(&self, node: SocketAddr, session: &Session, authority: &Path) -> Vec<String> {
        self.run_with([session.arguments(node), vec![text(authority)]].concat())
    }

    /// The same with the arguments of a program that takes others.
    pub fn run_with(&self, arguments: Vec<String>) -> Vec<String> {
        let command = [self.command.clone(), arguments.clone()].concat();
        let mut program = Supervised::spawn(&command, &[], &cache::log_file(self.name), None);
        let ended = program.wait(DONE_WITHIN);
        let output = program.log();
        assert!(
            ended.is_some_and(|status| status.success()),
            "{} driver, {arguments:?}: {}\n{output}",
            self.name,
            ended.map_or_else(
                || format!("not done within {DONE_WITHIN:?}"),
                |status| status.to_string()
            )
        );
        output
            .lines()
            .filter(|line| line.starts_with('{'))
            .map(str::to_owned)
            .collect()
    }
}

/// Where the programs in a language are.
pub fn source(language: &str) -> PathBuf {
    super::workspace().join("tests/cassandra").join(language)
}

fn text(path: &Path) -> String {
    path.to_str()
        .expect("the paths of a checkout and its cache are text")
        .to_owned()
}
