//! Records the golden sessions anew: real drivers against a real Cassandra, every byte between them kept in
//! the order in which it passed. `cargo run --example record-golden [NAME…]`, from the root of the
//! repository.
//!
//! A file of `proto/tests/golden` is one run of a driver with all its connections; `golden/mod.rs` reads it
//! and says how it is laid out. Nothing is cut out or changed: the sessions are made to be small.
#![allow(clippy::print_stdout, reason = "what was recorded is what this prints")]

use cqlens_testing as support;

mod programs;
mod relay;

use std::net::SocketAddr;
use std::time::Duration;

use programs::{program, source, text};
use relay::Relay;
use support::cassandra::{Cassandra, Options};
use support::process::Supervised;
use support::{available, cache};

/// Drivers wait for schema agreement and for traces; a run takes a few seconds.
const DONE_WITHIN: Duration = Duration::from_secs(300);

/// One run of a driver.
struct Session {
    driver: &'static str,
    version: &'static str,
    compression: &'static str,
    /// What else the program is told; part of the name.
    special: Special,
}

/// What a session is about beside the version and the compression.
#[derive(Clone, Copy, PartialEq)]
enum Special {
    Nothing,
    /// The driver reads the schema, as it does by default.
    Schema,
    LogIn,
    WrongPassword,
}

impl Session {
    fn name(&self) -> String {
        let special = match self.special {
            Special::Nothing => "",
            Special::Schema => "-schema",
            Special::LogIn => "-log-in",
            Special::WrongPassword => "-wrong-password",
        };
        let version = if self.version == "auto" {
            "negotiated".to_owned()
        } else {
            format!("v{}", self.version)
        };
        format!("{}-{version}-{}{special}", self.driver, self.compression)
    }

    fn needs_password(&self) -> bool {
        matches!(self.special, Special::LogIn | Special::WrongPassword)
    }

    fn arguments(&self, node: SocketAddr) -> Vec<String> {
        let mut arguments: Vec<String> = vec![
            node.ip().to_string(),
            node.port().to_string(),
            self.version.into(),
            self.compression.into(),
        ];
        arguments.push(text(&source()));
        match self.special {
            Special::Nothing => {}
            Special::Schema => arguments.push("schema".into()),
            Special::LogIn => arguments.push("cassandra:cassandra".into()),
            Special::WrongPassword => arguments.push("cassandra:wrong".into()),
        }
        arguments
    }
}

/// Each driver at each version and with each compression that it has; then what takes another session.
fn sessions() -> Vec<Session> {
    let all: &[(&str, &str)] = &[
        ("3", "none"),
        ("3", "lz4"),
        ("3", "snappy"),
        ("4", "none"),
        ("4", "lz4"),
        ("4", "snappy"),
        ("5", "none"),
        ("5", "lz4"),
    ];
    let plain = |driver, spoken: &[(&'static str, &'static str)]| {
        let session = |&(version, compression)| Session {
            driver,
            version,
            compression,
            special: Special::Nothing,
        };
        spoken.iter().map(session).collect::<Vec<_>>()
    };
    let negotiated: &[(&str, &str)] = &[("auto", "none")];
    let mut sessions = Vec::new();
    for driver in ["python", "gocql", "java"] {
        sessions.extend(plain(driver, all));
        sessions.extend(plain(driver, negotiated));
    }
    sessions.extend(plain("scylla-rust", &all[3..6]));
    for (driver, special) in [
        ("python", Special::Schema),
        ("java", Special::Schema),
        ("python", Special::LogIn),
        ("python", Special::WrongPassword),
    ] {
        sessions.push(Session {
            driver,
            version: "5",
            compression: "lz4",
            special,
        });
    }
    sessions
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |session: &Session| wanted.is_empty() || wanted.contains(&session.name());
    let (guarded, open): (Vec<Session>, Vec<Session>) = sessions()
        .into_iter()
        .filter(is_wanted)
        .partition(Session::needs_password);
    let options = Options::default()
        .with("tombstone_warn_threshold", "5")
        .with("tombstone_failure_threshold", "20")
        .with("user_defined_functions_enabled", "true");
    record_all(&open, &options);
    record_all(
        &guarded,
        &Options::default().with("authenticator", "PasswordAuthenticator"),
    );
}

fn record_all(sessions: &[Session], options: &Options) {
    if sessions.is_empty() {
        return;
    }
    let Some(node) = available("the node", Cassandra::start(options)) else {
        return;
    };
    for session in sessions {
        let program = available(session.driver, program(session.driver)).map(|program| (program, session));
        if let Some((program, session)) = program {
            record(program, session, node.address());
        }
    }
}

fn record(mut command: Vec<String>, session: &Session, node: SocketAddr) {
    let relay = Relay::start(node);
    command.extend(session.arguments(relay.address));
    let mut driver = Supervised::spawn(&command, &[], &cache::log_file(session.driver), None);
    let ended = driver.wait(DONE_WITHIN);
    assert!(
        ended.is_some_and(|status| status.success()),
        "{}: {ended:?}\n{}",
        session.name(),
        driver.log()
    );
    let recording = relay.finish();
    println!("{:>8} {}", recording.len(), session.name());
    let file = source().join("..").join(session.name()).with_extension("rec");
    std::fs::write(file, recording).expect("the folder of the recordings is writable");
}
