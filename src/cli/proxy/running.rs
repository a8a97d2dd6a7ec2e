//! A proxy at work, from its first client to its last window.

use std::{net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::{
    runtime::Handle,
    sync::mpsc,
    task::{AbortHandle, JoinHandle, spawn_blocking},
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
    reload::Reloading,
    serving::Serving,
    supervisor,
    topology::{Mode, Pair},
    watchdog::{self, Watched},
    writer::{Last, Writer},
};
use crate::{
    cli::{
        limits::Descriptors,
        log::Log,
        output::Outputs,
        settings::{Settings, Sources},
        signals::{self, Asked, End, Patience, UNFINISHED},
        tls::Tls,
        window_clock::WindowClock,
    },
    proxy::{Drained, Gate, Proxy, Route, Transparent, Waiting, Workers, topology::Pairing},
    sink::admin::{self, ListenerState, ListenerStatus, Order, SocketFile, State},
};
use cqlens_audit::{
    audit::Audit,
    capture::{Clock, Limits, Queue},
    catalog::{Cluster, Live},
    pulse::{Pulse, Runner},
};
use cqlens_cql::schema::Schema;

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
    pub(super) audit: Arc<Audit>,
    pub(super) writer: Writer,
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
    signals: mpsc::Receiver<Asked>,
    /// Of the process, at a deadline, once it is asked for.
    end: End,
    orders: mpsc::Receiver<Order>,
    pub(super) reloading: Reloading,
    /// Looking whether certificates have changed.
    looking: Option<JoinHandle<()>>,
    /// Beats each time around the loop.
    pulse: Pulse,
    /// The admin listener, where a successor has one at the same address.
    admin_of_two: Option<AbortHandle>,
    /// The file of its socket, which goes when the process ends.
    _admin_file: Option<SocketFile>,
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
            outputs,
        } = prepared;
        // Before anybody can connect: whoever sees the proxy listen may also stop it.
        let (signals, end) = take_signals(&args)?;
        control::check(&args, &tls).await?;
        let mut listeners = Listeners::open(&args, &mode, inherited)?;
        let listening = listening(&mode, &listeners)?;
        let name = args.observer.name.clone().unwrap_or_else(|| listening.clone());
        let queue = Arc::new(Queue::new(1, Limits::of(live.memory())));
        let (audit, writer) = begin_audit(&args, &queue, &live, outputs, &name)?;
        let control = Control::begin(&args, &tls, &live);
        let asking = Asking::begin(&args, &tls, &live, &audit);

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
        let pulse = Pulse::new("control");
        let watched = watched(&pulse, &serving, &audit, &writer);
        let health = Arc::new(Health {
            watch: watchdog::start(watched, supervisor::Watchdog::of_environment())?,
            postponed: Arc::clone(writer.postponed()),
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
            audit,
            writer,
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
            end,
            orders,
            reloading: Reloading::default(),
            looking: None,
            pulse,
            admin_of_two,
            _admin_file: listeners.admin_file,
        })
    }

    /// Works until everything has ended that was asked to end, and writes the last window.
    pub(super) async fn until_stopped(mut self) -> anyhow::Result<ExitCode> {
        if self.until_drained().await? == Drained::CutOff {
            tracing::warn!("some connections were closed with requests in flight");
        }
        // The control connection may still find what the last requests asked for.
        let patience = match self.stop {
            Stop::AtOnce(_) => GOODBYE,
            _ => AUDITORS,
        };
        let last = self.writer.end(self.health.bypass(), patience).await;
        match last {
            Last::Whole => {}
            Last::Withheld => {
                tracing::error!("an auditor is stuck: what it has counted is not in the last window")
            }
            Last::Unwritten => {
                tracing::error!("report, snapshot-dir: writing takes too long, the last window is lost")
            }
        }
        self.control.end(&self.live).await;
        tracing::info!("stopped");
        Ok(match last {
            Last::Whole => ExitCode::SUCCESS,
            Last::Withheld | Last::Unwritten => ExitCode::from(UNFINISHED),
        })
    }

    async fn until_drained(&mut self) -> anyhow::Result<Drained> {
        let mut look = interval(LOOK_FOR_CERTIFICATES);
        let mut again = interval(OPEN_AGAIN);
        let mut beats = interval(BEAT);
        loop {
            self.pulse.beat();
            tokio::select! {
                Some(asked) = self.signals.recv() => match asked {
                    Asked::Stop(name) => self.stop_by(name),
                    // What comes of it is in the log.
                    Asked::Reload => self.begin_reload(None),
                    Asked::Nothing(signal) => tracing::info!(signal, "this signal means nothing to cqlens"),
                },
                Some(order) = self.orders.recv() => self.carry_out(order),
                read = self.reloading.read() => self.end_reload(read).await,
                _ = beats.tick() => {}
                _ = look.tick() => self.look_for_certificates(),
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
        self.writer.window(self.health.bypass());
        self.tell_reach();
    }

    /// Reads certificates again if they have changed; where the last look is not over, their disk does not answer.
    fn look_for_certificates(&mut self) {
        if self.looking.as_ref().is_none_or(JoinHandle::is_finished) {
            let tls = self.tls.clone();
            self.looking = Some(spawn_blocking(move || tls.look()));
        }
    }

    /// How long the end may take is a matter of settings, too.
    pub(super) fn allow_end(&self) {
        self.end.allow(patience(&self.args));
    }

    /// Lets in as many clients as there is room for beside the listeners that there are now.
    pub(super) fn fit_connections(&self) {
        let policy = self.args.limits.policy(self.descriptors, self.listeners());
        self.health.gate.replace_policy(policy);
    }

    pub(super) fn listeners(&self) -> usize {
        self.serving.listening().count()
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            // Unlike a second signal, an order that is given again (by a script that tries again, say) asks for no haste.
            Order::Drain if self.stop == Stop::No => {
                self.end.ask();
                self.stop_by("the admin listener");
            }
            Order::Drain => {}
            Order::Reload(answer) => self.begin_reload(Some(answer)),
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

/// Signals as they come, and the end that they may ask for.
fn take_signals(args: &Args) -> anyhow::Result<(mpsc::Receiver<Asked>, End)> {
    let (tell, signals) = mpsc::channel(MOST_SIGNALS);
    let end = signals::listen(patience(args), move |asked| {
        // Of many of a kind one is enough, and a deadline needs nobody here.
        let _ = tell.try_send(asked);
    })?;
    Ok((signals, end))
}

/// Begins to audit what comes into `queue`, and to write what comes of it, as a source called `name`.
fn begin_audit(
    args: &Args,
    queue: &Arc<Queue>,
    live: &Arc<Live>,
    outputs: Outputs,
    name: &str,
) -> anyhow::Result<(Arc<Audit>, Writer)> {
    let clock = WindowClock::start(Timestamp::now(), Instant::now().into_std());
    let (key, now) = (outputs.hash_key(), clock.time());
    let options = args.observer.audit_options();
    let audit = Audit::start_with(Arc::clone(queue), live, key, name, now, &options);
    let audit = Arc::new(audit.context("no auditor")?);
    let writer = Writer::start(outputs, &audit, live, name, clock)?;
    Ok((audit, writer))
}

/// The threads of this process, for the watchdog; `control` is that of the loop here.
fn watched(control: &Pulse, serving: &Serving, audit: &Audit, writer: &Writer) -> Watched {
    let mut runners = serving.runners();
    runners.push(Runner::new("runtime", Handle::current()));
    Watched {
        vital: vec![control.clone()],
        others: vec![audit.pulse().clone(), writer.pulse().clone()],
        runners,
    }
}

/// Begins to answer operators, where they have a listener; what they order comes out of the channel.
fn serve_admin(
    listener: Option<admin::Listener>,
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

/// How long the end may take, whatever the process is stuck in.
fn patience(args: &Args) -> Patience {
    Patience {
        first: args.drain_delay + args.grace + BEYOND_GRACE,
        again: AT_ONCE,
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

/// What waits for auditors when all connections have ended is counted by then, or left out.
const AUDITORS: Duration = Duration::from_secs(6);

/// For [`AUDITORS`], and for what is being written before and after that: the process ends at the latest so long after `--drain-delay` and `--grace`.
const BEYOND_GRACE: Duration = Duration::from_secs(15);

/// For [`GOODBYE`], twice, and for the last report: who asks twice waits no longer.
const AT_ONCE: Duration = Duration::from_secs(4);

/// How often the loop shows that it goes around, where there is nothing else to do.
const BEAT: Duration = Duration::from_millis(500);

const MOST_ORDERS: usize = 4;

/// More signals than anybody sends before the loop has come around.
const MOST_SIGNALS: usize = 16;
