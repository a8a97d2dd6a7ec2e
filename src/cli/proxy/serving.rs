//! The listeners at work: opened, sent elsewhere and closed while the others go on.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::{net::TcpListener, task::JoinSet};

use cqlens_capture::pulse::Runner;
use cqlens_proxy::{Backlog, Drain, DrainSwitch, Drained, Proxy, Route, Transparent, Workers};

/// All listeners of a process. Dropping it does not end them gently; see [`Serving::drain`].
pub(super) struct Serving {
    /// What all of them have in common.
    proxy: Proxy,
    workers: Workers,
    open: BTreeMap<SocketAddr, ServingListener>,
    /// Closed, with connections that may still have requests in flight.
    leaving: BTreeMap<u64, ServingListener>,
    tasks: JoinSet<(u64, Drained)>,
    next: u64,
    is_draining: bool,
    worst: Drained,
}

struct ServingListener {
    number: u64,
    route: Arc<ArcSwap<Route>>,
    accepting: DrainSwitch,
    /// Of the connections of the route that is in force, which may end without the listener.
    connections: DrainSwitch,
}

impl ServingListener {
    fn end(&self, grace: Duration) {
        self.accepting.begin(grace);
        self.connections.begin(grace);
    }
}

impl Serving {
    pub(super) fn new(proxy: Proxy, workers: Workers) -> Self {
        Self {
            proxy,
            workers,
            open: BTreeMap::new(),
            leaving: BTreeMap::new(),
            tasks: JoinSet::new(),
            next: 0,
            is_draining: false,
            worst: Drained::AllEnded,
        }
    }

    /// New listeners lead to the original destinations of clients.
    pub(super) fn redirect(&mut self, transparent: &Arc<Transparent>) {
        self.proxy = self.proxy.clone().transparent(transparent);
    }

    /// The threads that connections run on, for the watchdog.
    pub(super) fn runners(&self) -> Vec<Runner> {
        self.workers.runners()
    }

    /// Where clients are accepted.
    pub(super) fn listening(&self) -> impl Iterator<Item = SocketAddr> {
        self.open.keys().copied()
    }

    /// The route of a listener that is open.
    pub(super) fn route(&self, listen: SocketAddr) -> Option<Arc<Route>> {
        Some(self.open.get(&listen)?.route.load_full())
    }

    /// Accepts clients on `socket` from now on, and sends them along `route`.
    ///
    /// # Errors
    /// A socket that does not know its address.
    pub(super) fn open(
        &mut self,
        socket: TcpListener,
        backlog: Backlog,
        route: Route,
    ) -> anyhow::Result<SocketAddr> {
        let listen = socket.local_addr().context("cannot read the listening address")?;
        let (route, connections) = with_drain(route);
        let proxy = self.proxy.to(route);
        let (accepting, drain) = Drain::new();
        let number = self.next;
        self.next += 1;
        let listener = ServingListener {
            number,
            route: Arc::clone(&proxy.route),
            accepting,
            connections,
        };
        let workers = self.workers.clone();
        self.tasks
            .spawn(async move { (number, proxy.serve(socket, backlog, drain, workers).await) });
        self.open.insert(listen, listener);
        Ok(listen)
    }

    /// Sends new connections to `listen` along `route`; open ones stay on theirs.
    pub(super) fn reroute(&mut self, listen: SocketAddr, route: Route) {
        if let Some(listener) = self.open.get_mut(&listen) {
            let drain = listener.route.load().drain.clone();
            listener.route.store(Arc::new(Route { drain, ..route }));
        }
    }

    /// The same, and ends the connections that are there: where they lead is no longer the node.
    pub(super) fn move_to(&mut self, listen: SocketAddr, route: Route, grace: Duration) {
        if let Some(listener) = self.open.get_mut(&listen) {
            let (route, connections) = with_drain(route);
            listener.route.store(Arc::new(route));
            std::mem::replace(&mut listener.connections, connections).begin(grace);
        }
    }

    /// Stops accepting at `listen`; requests in flight have `grace` to end.
    pub(super) fn close(&mut self, listen: SocketAddr, grace: Duration) {
        if let Some(listener) = self.open.remove(&listen) {
            listener.end(grace);
            self.leaving.insert(listener.number, listener);
        }
    }

    /// Closes all listeners. A second call shortens the grace period.
    pub(super) fn drain(&mut self, grace: Duration) {
        self.is_draining = true;
        for listener in self.open.values().chain(self.leaving.values()) {
            listener.end(grace);
        }
    }

    /// Waits until all listeners are closed and their connections have ended, after [`Serving::drain`].
    /// Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// A listener that has failed.
    pub(super) async fn ended(&mut self) -> anyhow::Result<Drained> {
        loop {
            match self.tasks.join_next().await {
                Some(ended) => {
                    let (number, drained) = ended.context("the data path has failed")?;
                    self.leaving.remove(&number);
                    if drained == Drained::CutOff {
                        self.worst = drained;
                    }
                }
                None if self.is_draining => return Ok(self.worst),
                None => std::future::pending().await,
            }
        }
    }
}

/// A route whose connections can be ended, and what ends them.
fn with_drain(route: Route) -> (Route, DrainSwitch) {
    let (switch, drain) = Drain::new();
    let route = Route {
        drain: Some(drain),
        ..route
    };
    (route, switch)
}
