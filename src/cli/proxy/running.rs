//! A proxy at work, from its first client to its last window.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::{
    net::TcpListener,
    sync::mpsc,
    task::AbortHandle,
    time::{Instant, Interval, interval, interval_at, sleep_until},
};

use super::{
    Prepared,
    args::Args,
    asking::Asking,
    cluster::Nodes,
    control::{self, Control},
    health::{self, Health},
    inherited::{ForNodes, Inherited},
    listener::Listeners,
    nodes::look_for_nodes,
    opening::{self, Opened},
    reach::Reach,
    serving::Serving,
    supervisor,
    topology::{Mode, Pair},
};
use crate::{
    audit::Audit,
    capture::{Clock, Limits, Queue},
    catalog::{Cluster, Live, Schema},
    cli::{
        limits::Descriptors,
        log::Log,
        output::Outputs,
        settings::{Settings, Sources},
        signals::{Asked, Signals},
        tls::Tls,
        window_clock::WindowClock,
    },
    proxy::{Drained, Gate, Proxy, Route, Transparent, Waiting, Workers, topology::Pairing},
    sink::admin::{self, ListenerState, ListenerStatus, Order, State},
    window::Window,
};

/// All that is at work beside the data path, and what it was told.
pub(super) struct Running {
    pub(super) args: Args,
    pub(super) settings: Settings,
    pub(super) sources: Sources,
    pub(super) log: Log,
    pub(super) live: Arc<Live>,
    /// As it was last read from a file.
    pub(super) schema: Option<Schema>,
    pub(super) tls: Tls,
    pub(super) descriptors: Descriptors,
    pub(super) outputs: Outputs,
    pub(super) audit: Audit,
    clock: WindowClock,
    pub(super) control: Control,
    pub(super) asking: Asking,
    pub(super) health: Arc<Health>,
    pub(super) windows: Interval,
    pub(super) stop: Stop,
    pub(super) serving: Serving,
    /// Listeners that lead to one node each, as settings have them: what was asked for, and what was bound.
    pub(super) pairs: Vec<(Pair, SocketAddr)>,
    /// Where listeners lead to wherever clients were going.
    pub(super) transparent: Option<Arc<Transparent>>,
    /// Where listeners follow the cluster.
    pub(super) nodes: Option<Nodes>,
    /// Sockets that were given for nodes.
    pub(super) for_nodes: ForNodes,
    /// The cluster that listeners were last made to fit.
    pub(super) known: Arc<Cluster>,
    /// Whether the listeners of a cluster were ever open.
    pub(super) has_begun: bool,
    /// Whether some of them could not be opened.
    pub(super) has_unopened: bool,
    /// What was last said of traffic that goes around this proxy.
    pub(super) bypass: Option<String>,
    signals: Signals,
    orders: mpsc::Receiver<Order>,
    /// The admin listener, where a successor has one at the same address.
    admin_of_two: Option<AbortHandle>,
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Not asked for.
    No,
    /// Asked for; clients are still accepted until then.
    Delayed(Instant),
    /// Requests in flight may end.
    Draining,
    /// Asked for twice: nothing is waited for beyond this.
    AtOnce(Instant),
}

impl Running {
    /// Opens the listeners and begins to serve.
    pub(super) async fn start(prepared: Prepared, inherited: Inherited) -> anyhow::Result<Self> {
        let Prepared {
            args,
            mode,
            settings,
            sources,
            log,
            live,
            schema,
            tls,
            mut outputs,
        } = prepared;
        // Before anybody can connect: whoever sees the proxy listen may also stop it.
        let signals = Signals::listen()?;
        control::check(&args, &tls).await?;
        let mut listeners = Listeners::open(&args, &mode, inherited)?;
        let listening = listening(&mode, &listeners)?;
        let name = args.observer.name.clone().unwrap_or_else(|| listening.clone());
        let queue = Arc::new(Queue::new(1, Limits::of(live.memory())));
        let clock = WindowClock::start(Timestamp::now(), Instant::now().into_std());
        let audit = Audit::start_with(
            Arc::clone(&queue),
            &live,
            outputs.hash_key(),
            &name,
            clock.time(),
            &args.observer.audit_options(),
        )
        .context("no auditor")?;
        let control = Control::begin(&args, &tls, &live);
        let asking = Asking::begin(&args, &tls, &live, &audit);
        outputs.begin(&live, &name, clock.time())?;

        let workers = Workers::for_each_processor().context("no threads for connections")?;
        // One more waits for everything else.
        let descriptors = Descriptors::raise(workers.count() + 1);
        let count = listeners.clients.len();
        let gate = Gate::new(args.limits.policy(descriptors, count));
        descriptors.judge(&gate.policy(), count);
        let anywhere = route(&args, &tls, &args.first_upstream(), None);
        let proxy = Proxy::new(anywhere, Arc::clone(&queue), Clock::start()).behind(&gate);
        let serving = Serving::new(proxy, workers);
        let Opened {
            serving,
            pairs,
            transparent,
            nodes,
        } = opening::open(&args, &tls, mode, &mut listeners, serving)?;
        let state = match &nodes {
            Some(nodes) => {
                tokio::spawn(look_for_nodes(nodes.addresses.clone(), Arc::clone(&live)));
                State::Waiting
            }
            None => State::Accepting,
        };
        let health = Arc::new(Health {
            state: ArcSwap::from_pointee((state, Timestamp::now())),
            settings: ArcSwap::from_pointee(settings.clone()),
            listening,
            upstream: ArcSwap::from_pointee(control::contacts(&args).points.join(", ")),
            listeners: ArcSwap::from_pointee(listener_statuses(&pairs)),
            problems: ArcSwap::default(),
            reach: ArcSwap::from_pointee(reach(&pairs, transparent.as_ref())),
            gate,
            live: Arc::clone(&live),
            queue,
        });
        let (admin, orders) = serve_admin(listeners.admin, &health);
        let shared = args.reuse_port || listeners.waiting == Waiting::Left;
        let admin_of_two = admin.filter(|_| shared);
        supervisor::ready();
        Ok(Self {
            windows: every(args.observer.window),
            args,
            settings,
            sources,
            log,
            live,
            schema,
            tls,
            descriptors,
            outputs,
            audit,
            clock,
            control,
            asking,
            health,
            stop: Stop::No,
            serving,
            pairs,
            transparent,
            nodes,
            for_nodes: listeners.for_nodes,
            known: Arc::default(),
            has_begun: false,
            has_unopened: false,
            bypass: None,
            signals,
            orders,
            admin_of_two,
        })
    }

    /// Works until everything has ended that was asked to end, and writes the last window.
    pub(super) async fn until_stopped(mut self) -> anyhow::Result<()> {
        if self.until_drained().await? == Drained::CutOff {
            tracing::warn!("some connections were closed with requests in flight");
        }
        // The control connection may still find what the last requests asked for.
        let passed = self.clock.advance(Timestamp::now(), Instant::now().into_std());
        let last = self.audit.stop(self.clock.time());
        let bypass = self.health.bypass();
        self.outputs.window(watched_for(passed, last), &self.live, bypass);
        self.control.end(&self.live).await;
        tracing::info!("stopped");
        Ok(())
    }

    async fn until_drained(&mut self) -> anyhow::Result<Drained> {
        let mut look = interval(LOOK_FOR_CERTIFICATES);
        let mut again = interval(OPEN_AGAIN);
        loop {
            tokio::select! {
                asked = self.signals.next() => match asked {
                    Asked::Stop(name) => self.stop_by(name),
                    Asked::Reload => {
                        // What comes of it is in the log.
                        let _ = self.reload().await;
                    }
                },
                Some(order) = self.orders.recv() => self.carry_out(order).await,
                _ = look.tick() => self.tls.look(),
                _ = self.windows.tick() => self.end_window(),
                () = due(self.stop) => match self.stop {
                    Stop::AtOnce(_) => return Ok(Drained::CutOff),
                    _ => self.drain(),
                },
                cluster = self.live.cluster_other_than(&self.known) => self.take_notice(cluster)?,
                _ = again.tick(), if self.has_unopened => self.follow_nodes()?,
                drained = self.serving.ended() => return drained,
            }
        }
    }

    fn end_window(&mut self) {
        let passed = self.clock.advance(Timestamp::now(), Instant::now().into_std());
        let window = self.audit.take_window(self.clock.time());
        let bypass = self.health.bypass();
        self.outputs
            .window(watched_for(passed, window), &self.live, bypass);
        self.tell_reach();
    }

    /// Lets in as many clients as there is room for beside the listeners that there are now.
    pub(super) fn fit_connections(&self) {
        let policy = self.args.limits.policy(self.descriptors, self.listeners());
        self.health.gate.replace_policy(policy);
    }

    pub(super) fn listeners(&self) -> usize {
        self.serving.listening().count()
    }

    async fn carry_out(&mut self, order: Order) {
        match order {
            // Unlike a second signal, an order that is given again (by a script that tries again, say) asks for no haste.
            Order::Drain if self.stop == Stop::No => self.stop_by("the admin listener"),
            Order::Drain => {}
            Order::Reload(answer) => {
                let reloaded = self.reload().await;
                // Whoever asked may have gone.
                let _ = answer.send(reloaded.map_err(|error| format!("{error:#}")));
            }
        }
    }

    /// Begins to end; if it was asked before, ends.
    fn stop_by(&mut self, signal: &str) {
        if self.stop != Stop::No {
            tracing::warn!(signal, "stopping at once: nothing is waited for any more");
            self.serving.drain(Duration::ZERO);
            self.stop = Stop::AtOnce(Instant::now() + GOODBYE);
            return;
        }
        self.health.turn(State::Draining);
        supervisor::stopping();
        if let Some(admin) = &self.admin_of_two {
            admin.abort();
        }
        let delay = self.args.drain_delay;
        if delay.is_zero() {
            tracing::info!(signal, grace = ?self.args.grace, "stopping: no new clients, requests in flight may end");
            self.drain();
        } else {
            tracing::info!(signal, ?delay, grace = ?self.args.grace, "stopping: clients are told to go elsewhere, those that come are still accepted");
            self.stop = Stop::Delayed(Instant::now() + delay);
        }
    }

    fn drain(&mut self) {
        if let Stop::Delayed(_) = self.stop {
            tracing::info!("no new clients, requests in flight may end");
        }
        self.serving.drain(self.args.grace);
        self.stop = Stop::Draining;
    }
}

/// Begins to answer operators, where they have a listener; what they order comes out of the channel.
fn serve_admin(
    listener: Option<TcpListener>,
    health: &Arc<Health>,
) -> (Option<AbortHandle>, mpsc::Receiver<Order>) {
    let (give_order, orders) = mpsc::channel(MOST_ORDERS);
    let serving =
        listener.map(|listener| tokio::spawn(admin::serve(listener, health::admin(health, give_order))));
    (serving.map(|serving| serving.abort_handle()), orders)
}

/// Where clients connect, for those who read it.
fn listening(mode: &Mode, listeners: &Listeners) -> anyhow::Result<String> {
    if let Mode::Cluster(rules) = mode {
        return Ok(rules.to_string());
    }
    let bound = listeners.clients.iter().map(|(_, socket)| {
        let address = socket.local_addr();
        address.context("cannot tell the listening address")
    });
    let bound: Vec<_> = bound.collect::<Result<_, _>>()?;
    let bound: Vec<_> = bound.iter().map(ToString::to_string).collect();
    Ok(bound.join(", "))
}

/// What is said of listeners where there are several.
pub(super) fn listener_statuses(pairs: &[(Pair, SocketAddr)]) -> Vec<ListenerStatus> {
    if pairs.len() < 2 {
        return Vec::new();
    }
    let status = |(pair, listen): &(Pair, SocketAddr)| ListenerStatus {
        listen: listen.to_string(),
        upstream: pair.upstream.clone(),
        host_id: None,
        state: ListenerState::Open,
    };
    pairs.iter().map(status).collect()
}

/// How clients find their way to listeners that do not follow the cluster.
pub(super) fn reach(pairs: &[(Pair, SocketAddr)], transparent: Option<&Arc<Transparent>>) -> Reach {
    match transparent {
        Some(transparent) => Reach::Transparent(Arc::clone(transparent)),
        None => Reach::Listeners(pairs.iter().map(|(_, listen)| *listen).collect()),
    }
}

/// The way to one node, as settings have it.
pub(super) fn route(args: &Args, tls: &Tls, upstream: &str, topology: Option<Pairing>) -> Route {
    Route {
        upstream: upstream.to_owned(),
        connect_timeout: args.connect_timeout,
        client_tls: tls.clients.clone(),
        upstream_tls: tls.to_upstreams().to(upstream),
        topology,
        drain: None,
    }
}

/// How long a window was is told by a clock that nobody sets.
fn watched_for(passed: Duration, window: Window) -> Window {
    Window {
        observed_seconds: passed.as_secs_f64(),
        ..window
    }
}

/// The ends of windows.
pub(super) fn every(window: Duration) -> Interval {
    interval_at(Instant::now() + window, window)
}

/// Waits for the next step of the end, if it comes by itself.
async fn due(stop: Stop) {
    match stop {
        Stop::Delayed(at) | Stop::AtOnce(at) => sleep_until(at).await,
        Stop::No | Stop::Draining => std::future::pending().await,
    }
}

/// Certificates are renewed days before the old ones end; authorities withdrawn in a hurry come with a SIGHUP.
const LOOK_FOR_CERTIFICATES: Duration = Duration::from_secs(10);

/// An address may have been somebody else's, who has gone.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// Clients whose connection ends at once have so long to hear of it.
const GOODBYE: Duration = Duration::from_secs(1);

const MOST_ORDERS: usize = 4;
