//! A shop whose users do operations of one and of several statements, as programs in two languages on their real
//! drivers, and its tables with their rows.

pub(crate) mod data;

use std::net::SocketAddr;
use std::path::Path;

use serde::Deserialize;

use cqlens_testing::driver::{Compression, Driver};
use cqlens_testing::process::Supervised;
use cqlens_testing::{available, cache};

/// All that programs know to do.
pub(crate) const ALL: &str = "join-one-by-one,join-at-once,join-by-list,join-with-cache,lookup,chain,buckets,days,text-days,copies,\
    orders,page,click,news,categories,pages,sweep,again";

/// An application that runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Application {
    pub(crate) language: Language,
    /// What it calls itself if its driver can.
    pub(crate) name: &'static str,
    pub(crate) keyspace: &'static str,
    pub(crate) version: u8,
    pub(crate) compression: Compression,
    pub(crate) users: u32,
    /// Requests of a second, of all users.
    pub(crate) rate: u32,
    pub(crate) seconds: u32,
    pub(crate) operations: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Go,
}

impl Application {
    pub(crate) fn python(users: u32, rate: u32, seconds: u32) -> Self {
        Self {
            language: Language::Python,
            name: "python_shop",
            keyspace: "python_shop",
            version: 4,
            compression: Compression::Lz4,
            users,
            rate,
            seconds,
            operations: ALL,
        }
    }

    pub(crate) fn go(users: u32, rate: u32, seconds: u32) -> Self {
        Self {
            language: Language::Go,
            name: "go_shop",
            keyspace: "go_shop",
            version: 5,
            compression: Compression::None,
            ..Self::python(users, rate, seconds)
        }
    }

    pub(crate) fn speaks(self, version: u8, compression: Compression) -> Self {
        Self {
            version,
            compression,
            ..self
        }
    }

    fn arguments(&self, proxy: SocketAddr, labels: &Path) -> impl Iterator<Item = String> {
        let arguments = [
            ("host", proxy.ip().to_string()),
            ("port", proxy.port().to_string()),
            ("keyspace", self.keyspace.to_owned()),
            ("application", self.name.to_owned()),
            ("version", self.version.to_string()),
            ("compression", self.compression.name().to_owned()),
            ("users", self.users.to_string()),
            ("rate", self.rate.to_string()),
            ("seconds", self.seconds.to_string()),
            ("operations", self.operations.to_owned()),
            ("seed", self.rate.to_string()),
            ("labels", labels.display().to_string()),
        ];
        arguments
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
    }

    /// Says how much it has sent of what it was to send.
    pub(crate) fn say(&self, load: &str, sent: &Sent) {
        println!(
            "{load}: {} sent {:.0} requests a second of {}, for {} users, in version {} ({})",
            self.name,
            sent.requests as f64 / sent.seconds,
            self.rate,
            self.users,
            self.version,
            self.compression.name()
        );
    }
}

/// How much a program has sent.
#[derive(Debug, Deserialize)]
pub(crate) struct Sent {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
}

/// The programs.
pub(crate) struct Drivers {
    python: Driver,
    go: Driver,
}

impl Drivers {
    pub(crate) fn new() -> Option<Self> {
        let python = available("the Python driver", Driver::python("mixed.py"))?;
        let go = available("gocql", Driver::go("mixed"))?;
        Some(Self { python, go })
    }

    pub(crate) fn start(&self, application: &Application, proxy: SocketAddr, labels: &Path) -> Supervised {
        let driver = match application.language {
            Language::Python => &self.python,
            Language::Go => &self.go,
        };
        let mut command = driver.command().to_vec();
        command.extend(application.arguments(proxy, labels));
        Supervised::spawn(&command, &[], &cache::log_file(application.name), None)
    }
}
