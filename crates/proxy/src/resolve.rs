//! Addresses of upstreams that are given by name.
//!
//! The system's resolver blocks its thread, for half a minute if a DNS server is silent. So a name is looked
//! up once for all connections that wait for it, on a thread of its own, of which there are few. The result
//! is used for some seconds.

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

/// How long a failed lookup is remembered.
const FAILURE_KEPT: Duration = Duration::from_secs(1);

/// Names that are looked up at a time: upstreams are nodes of one cluster.
const MOST_AT_A_TIME: usize = 8;

/// Names that are remembered.
const MOST_NAMES: usize = 1_024;

/// Finds the addresses of names; its clones are the same one.
#[derive(Clone)]
pub(super) struct Resolver(Arc<Lookups>);

struct Lookups {
    look_up: Box<LookUp>,
    names: Mutex<HashMap<String, Lookup>>,
}

/// Blocks until the addresses of `host:port` are known.
type LookUp = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The lookup of a name; it holds nothing while the resolver is at work.
type Lookup = watch::Receiver<Option<Resolved>>;

#[derive(Clone)]
struct Resolved {
    addresses: Result<Arc<[SocketAddr]>, LookupError>,
    at: Instant,
}

/// An error that can be cloned for each connection that waits.
#[derive(Clone)]
struct LookupError(io::ErrorKind, String);

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
        Self(Arc::new(Lookups {
            look_up: Box::new(look_up),
            names: Mutex::default(),
        }))
    }

    /// The addresses of `name`, a `host:port`.
    pub(super) async fn resolve(&self, name: &str) -> io::Result<Arc<[SocketAddr]>> {
        if let Ok(address) = name.parse() {
            return Ok([address].into());
        }
        let mut lookup = self.lookup(name)?;
        let resolved = lookup.wait_for(Option::is_some).await;
        let resolved = resolved.ok().and_then(|resolved| resolved.clone());
        let resolved = resolved.ok_or_else(|| io::Error::other("looking up the name failed"))?;
        resolved
            .addresses
            .map_err(|LookupError(kind, what)| io::Error::new(kind, what))
    }

    /// The lookup of a name: a finished one that is still good, one under way, or a new one.
    fn lookup(&self, name: &str) -> io::Result<Lookup> {
        let mut names = self.names();
        if let Some(known) = names.get(name)
            && is_good(known)
        {
            return Ok(known.clone());
        }
        let under_way = names
            .values()
            .filter(|lookup| lookup.borrow().is_none() && lookup.has_changed().is_ok());
        if under_way.count() >= MOST_AT_A_TIME {
            return Err(io::Error::other("too many other names are being looked up"));
        }
        if names.len() >= MOST_NAMES {
            names.retain(|_, lookup| is_good(lookup));
        }
        let (resolved, known) = watch::channel(None);
        let (shared, host) = (Arc::clone(&self.0), name.to_owned());
        thread::Builder::new().name("resolve".to_owned()).spawn(move || {
            let addresses = (shared.look_up)(&host);
            let addresses = addresses.map_err(|error| LookupError(error.kind(), error.to_string()));
            resolved.send_replace(Some(Resolved {
                addresses: addresses.map(Into::into),
                at: Instant::now(),
            }));
        })?;
        names.insert(name.to_owned(), known.clone());
        Ok(known)
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, Lookup>> {
        // Nothing that holds it can panic.
        self.0.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a lookup is recent enough, or under way.
fn is_good(lookup: &Lookup) -> bool {
    match &*lookup.borrow() {
        // A thread that has failed closes its channel.
        None => lookup.has_changed().is_ok(),
        Some(resolved) => resolved.at.elapsed() < resolved.addresses.as_ref().map_or(FAILURE_KEPT, |_| KEPT),
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
        // A connection that gives up does not end the lookup of the others.
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
            resolver.lookup(&format!("db-{name}:9042")).unwrap();
        }
        assert!(resolver.resolve("one-more:9042").await.is_err());
        let known = resolver.resolve("[::1]:9042").await.unwrap();
        assert_eq!(*known, ["[::1]:9042".parse::<SocketAddr>().unwrap()]);
        drop(answer);
        let failed = resolver.resolve("db-0:9042").await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::NotFound);
    }
}
