//! The clusters that tests share. Each starts when the first test needs it, and stops when the process ends; a failed start
//! fails that test and, without another attempt, the others.

use std::{
    ops::Deref,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use crate::{
    drivers::{certificates::Certificates, place::Place},
    support::{
        Missing, available,
        cassandra::{Cassandra, Options},
    },
    tls,
};

type Started = LazyLock<Result<Cassandra, Missing>>;

/// The node of most tests, which warns from 10 tombstones on, and knows functions and SASI.
pub(crate) fn node() -> Option<&'static Cassandra> {
    static NODE: Started = LazyLock::new(|| {
        let options = Options::default()
            .with("tombstone_warn_threshold", "10")
            .with("user_defined_functions_enabled", "true")
            .with("sasi_indexes_enabled", "true");
        Cassandra::start(&options)
    });
    shown("a test on a real node", &NODE)
}

/// A second one, for what is copied. It speaks TLS with those who do and show the right certificate.
pub(crate) fn second() -> Option<&'static Cassandra> {
    static SECOND: Started = LazyLock::new(|| {
        let options = Options::default().with("tombstone_warn_threshold", "10");
        Cassandra::start(&options.with(
            "client_encryption_options",
            &tls::Keys::get()?.encryption_options(),
        ))
    });
    shown("a test on a second node", &SECOND)
}

/// One that wants a password, and speaks TLS with those who do.
pub(crate) fn with_password() -> Option<&'static Cassandra> {
    static WITH_PASSWORD: Started =
        LazyLock::new(|| Cassandra::start(&Place::OneNode.options(certificates(), false)));
    shown("a test on a node with passwords", &WITH_PASSWORD)
}

/// Three nodes, for one test at a time: what listens in front of all of them has addresses that others have, too.
pub(crate) struct Ring {
    cluster: &'static Cassandra,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Ring {
    type Target = Cassandra;

    fn deref(&self) -> &Cassandra {
        self.cluster
    }
}

/// Three nodes on two racks, which speak TLS with those who do, each with a certificate of its own.
pub(crate) fn ring() -> Option<Ring> {
    static RING: Started = LazyLock::new(|| Cassandra::start(&Place::Ring.options(certificates(), false)));
    static TURN: Mutex<()> = Mutex::new(());
    // A test that fails leaves nothing behind that another one finds.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    Some(Ring {
        cluster: shown("a test on three nodes", &RING)?,
        _turn: turn,
    })
}

/// What the nodes with TLS have, and their clients.
pub(crate) fn certificates() -> &'static Certificates {
    static CERTIFICATES: LazyLock<Certificates> = LazyLock::new(Certificates::make);
    &CERTIFICATES
}

fn shown(what: &str, started: &'static Started) -> Option<&'static Cassandra> {
    let cluster = available(what, started.as_ref().map_err(Clone::clone))?;
    for node in cluster.nodes() {
        // Shown with a failing test only.
        println!(
            "a node is {}, its log {}",
            node.address,
            node.log_path().display()
        );
    }
    Some(cluster)
}
