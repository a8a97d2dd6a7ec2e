//! Addresses of upstreams that are given by name.
//!
//! The system's resolver blocks its thread, for half a minute where a DNS server is silent. So a name is looked up once for all connections
//! that wait for it, on a thread of its own, of which there are few; what was found is used for some seconds.

use std::{
    collections::HashMap,
    fmt, io,
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::watch;

/// How long the addresses of a name are used.
const KEPT: Duration = Duration::from_secs(5);

/// How long it is believed that a name has none.
const FAILURE_KEPT: Duration = Duration::from_secs(1);

/// Names that are looked up at a time: upstreams are nodes of one cluster.
const MOST_AT_A_TIME: usize = 8;

/// Names that are remembered.
const MOST_NAMES: usize = 1_024;

/// Finds the addresses of names; its clones are the same one.
#[derive(Clone)]
pub(super) struct Resolver(Arc<Shared>);

struct Shared {
    look_up: Box<LookUp>,
    names: Mutex<HashMap<String, Name>>,
}

/// Blocks until the addresses of `host:port` are known.
type LookUp = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// What is known of a name; nothing while it is being looked up.
type Name = watch::Receiver<Option<Answer>>;

#[derive(Clone)]
struct Answer {
    addresses: Result<Arc<[SocketAddr]>, Failure>,
    at: Instant,
}

/// An error that can be told to each of those who wait.
#[derive(Clone)]
struct Failure(io::ErrorKind, String);

impl Default for Resolver {
    fn default() -> Self {
        Self::with(|name| Ok(name.to_socket_addrs()?.collect()))
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl Resolver {
    fn with(look_up: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            look_up: Box::new(look_up),
            names: Mutex::default(),
        }))
    }

    /// The addresses of `name`, a `host:port`.
    pub(super) async fn resolve(&self, name: &str) -> io::Result<Arc<[SocketAddr]>> {
        if let Ok(address) = name.parse() {
            return Ok([address].into());
        }
        let mut name = self.name(name)?;
        let answer = name.wait_for(Option::is_some).await;
        let answer = answer.ok().and_then(|answer| answer.clone());
        let answer = answer.ok_or_else(|| io::Error::other("looking up the name has failed"))?;
        answer
            .addresses
            .map_err(|Failure(kind, what)| io::Error::new(kind, what))
    }

    /// What is known of a name, or will be in a while.
    fn name(&self, name: &str) -> io::Result<Name> {
        let mut names = self.names();
        if let Some(known) = names.get(name)
            && is_good(known)
        {
            return Ok(known.clone());
        }
        let under_way = names
            .values()
            .filter(|name| name.borrow().is_none() && name.has_changed().is_ok());
        if under_way.count() >= MOST_AT_A_TIME {
            return Err(io::Error::other("too many other names are being looked up"));
        }
        if names.len() >= MOST_NAMES {
            names.retain(|_, name| is_good(name));
        }
        let (told, known) = watch::channel(None);
        let (shared, host) = (Arc::clone(&self.0), name.to_owned());
        thread::Builder::new().name("resolve".to_owned()).spawn(move || {
            let addresses = (shared.look_up)(&host);
            let addresses = addresses.map_err(|error| Failure(error.kind(), error.to_string()));
            told.send_replace(Some(Answer {
                addresses: addresses.map(Into::into),
                at: Instant::now(),
            }));
        })?;
        names.insert(name.to_owned(), known.clone());
        Ok(known)
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, Name>> {
        // Nothing that holds it can panic.
        self.0.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what is known of a name is still good, or is being looked up.
fn is_good(name: &Name) -> bool {
    match &*name.borrow() {
        // Unless the thread has failed.
        None => name.has_changed().is_ok(),
        Some(answer) => answer.at.elapsed() < answer.addresses.as_ref().map_or(FAILURE_KEPT, |_| KEPT),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use tokio::{task::JoinSet, time::timeout};

    use super::*;

    #[tokio::test]
    async fn a_silent_server_is_asked_once_for_a_thousand_connections() {
        let calls = Arc::new(AtomicUsize::new(0));
        let (answer, silent) = mpsc::channel::<()>();
        let silent = Mutex::new(silent);
        let counted = Arc::clone(&calls);
        let resolver = Resolver::with(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = silent.lock().unwrap().recv();
            Ok(vec!["127.0.0.1:9042".parse().unwrap()])
        });
        let mut waiting = JoinSet::new();
        for _ in 0..1_000 {
            let resolver = resolver.clone();
            waiting.spawn(async move { resolver.resolve("db:9042").await });
        }
        // Who gives up leaves the others' look-up alone.
        let impatient = timeout(Duration::from_millis(50), resolver.resolve("db:9042")).await;
        assert!(impatient.is_err());
        drop(answer);
        while let Some(resolved) = waiting.join_next().await {
            assert_eq!(resolved.unwrap().unwrap()[0].port(), 9042);
        }
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        resolver.resolve("db:9042").await.unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1, "it is known for a while");
    }

    #[tokio::test]
    async fn few_names_are_looked_up_at_a_time_and_addresses_not_at_all() {
        let (answer, silent) = mpsc::channel::<()>();
        let silent = Mutex::new(silent);
        let resolver = Resolver::with(move |_| {
            let _ = silent.lock().unwrap().recv();
            Err(io::Error::from(io::ErrorKind::NotFound))
        });
        for name in 0..MOST_AT_A_TIME {
            resolver.name(&format!("db-{name}:9042")).unwrap();
        }
        assert!(resolver.resolve("one-more:9042").await.is_err());
        let known = resolver.resolve("[::1]:9042").await.unwrap();
        assert_eq!(*known, ["[::1]:9042".parse::<SocketAddr>().unwrap()]);
        drop(answer);
        let failed = resolver.resolve("db-0:9042").await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::NotFound);
    }
}
