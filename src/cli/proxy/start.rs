//! Starts a proxy: what is read before there are threads, then everything that is at work.

use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::{runtime::Handle, sync::mpsc, time::Instant};

use super::{
    access::Access,
    args::Args,
    control::{self, Control},
    direct::DirectClients,
    health::{self, Health},
    inherited::Inherited,
    listener::Listeners,
    nodes::look_for_nodes,
    observed::ObservedTraffic,
    opening::{self, OpenListeners},
    reading::{ReadAgain, Reloading},
    routes::{listener_statuses, reach, route},
    running::{ClusterView, Operators, Running},
    serving::Serving,
    shadow,
    shutdown::{ShutdownPhase, patience},
    side_queries::SideQueries,
    supervisor,
    topology::Mode,
    watchdog::{self, ThreadHealth, WatchedThreads},
    writer::ReportWriter,
};
use crate::cli::{
    limits::Descriptors,
    log::Log,
    output::Outputs,
    settings::Settings,
    signals::{self, ProcessEnd, SignalRequest},
    tls::Tls,
    traffic_feed::Published,
    window_clock::{WindowClock, window_ends},
};
use cqlens_admin::{AdminListener, ReadyState, SocketFile};
use cqlens_audit::{
    audit::{Audit, observe::Observer},
    catalog::Live,
};
use cqlens_capture::{
    Clock, Queue, QueueLimits,
    memory::Use,
    pulse::{Pulse, Runner},
};
use cqlens_cql::schema::Schema;
use cqlens_proxy::{AdmissionControl, Backlog, Proxy, Workers};
use cqlens_rehearse::digest::DigestKey;

/// What is read and opened before there are threads.
pub(super) struct ProxySetup {
    pub(super) args: Args,
    pub(super) settings: Settings,
    pub(super) read_again: Arc<dyn ReadAgain>,
    pub(super) log: Log,
    pub(super) live: Arc<Live>,
    pub(super) schema: Option<Schema>,
    pub(super) tls: Tls,
    pub(super) access: Arc<Access>,
    pub(super) traffic: Published,
    #[cfg(feature = "otlp")]
    pub(super) findings: crate::cli::otlp::Events,
}

/// Opens the listeners and begins to serve.
///
/// # Errors
/// Listeners that cannot be opened, threads that cannot be had, a cluster that does not let cqlens in.
pub(super) async fn start(
    prepared: ProxySetup,
    mode: Mode,
    outputs: Outputs,
    inherited: Inherited,
) -> anyhow::Result<Running> {
    let (args, tls, live) = (&prepared.args, &prepared.tls, &prepared.live);
    // Before any client can connect: an operator who sees the proxy listen may also stop it.
    let (signals, end) = take_signals(args)?;
    control::check(args, tls).await?;
    let mut listeners = Listeners::open(args, &mode, inherited)?;
    listeners.guard_admin(&prepared.access)?;
    let listening = listening(&mode, &listeners)?;
    let name = name(args.observer.name.as_deref(), &listening);
    let queue = Arc::new(Queue::new(QueueLimits::of(live.memory())));
    let digest_key = DigestKey::random();
    let edge = Edge::open(args, tls, &queue, listeners.clients.len())?;
    let shadow = shadow::begin(args, tls, &name, digest_key, live, edge.admission.own_sockets())?;
    let kept = live.memory().part(Use::Rehearsal);
    let observed = ObservedTraffic::begin(args, &name, digest_key, &kept)?;
    let observer = observed.observer(shadow.as_ref());
    let outputs = outputs.beside(shadow.clone());
    let (audit, writer) = begin_audit(args, &queue, live, outputs, &name, observer)?;
    let direct = Arc::new(DirectClients::new(edge.admission.own_sockets().clone()));
    let control = Control::begin(args, tls, live, &direct);
    let side_queries = SideQueries::begin(args, tls, live, &audit);
    let opened = opening::open(args, tls, mode, &mut listeners, edge.serving)?;
    let pulse = Pulse::new("control");
    let own = [
        shadow.as_ref().map(|shadow| shadow.pulse().clone()),
        observed.pulse().cloned(),
    ];
    let watched = watched(&pulse, &opened.serving, &audit, &writer, own);
    let watch = watchdog::start(watched, supervisor::ServiceManager::from_environment())?;
    let shared = (queue, edge.admission, direct);
    let health = health(&prepared, &opened, listening, shared, watch, (&writer, &observed));
    let is_shared = args.reuse_port || listeners.backlog == Backlog::Leave;
    let admin = (listeners.admin, listeners.admin_file);
    let operators = listen_to_operators((signals, end), admin, is_shared, &health);
    #[cfg(feature = "otlp")]
    let otlp = super::otlp::Otlp::begin(&prepared.args.otlp, &name, &health, prepared.findings)?;
    supervisor::ready();
    Ok(Running {
        windows: window_ends(args.observer.window),
        args: prepared.args,
        settings: prepared.settings,
        read_again: prepared.read_again,
        log: prepared.log,
        live: prepared.live,
        schema: prepared.schema,
        tls: prepared.tls,
        descriptors: edge.descriptors,
        audit,
        writer,
        observed,
        shadow,
        #[cfg(feature = "otlp")]
        otlp,
        control,
        side_queries,
        health,
        shutdown: ShutdownPhase::Serving,
        serving: opened.serving,
        pairs: opened.pairs,
        transparent: opened.transparent,
        nodes: opened.nodes,
        for_nodes: listeners.for_nodes,
        view: ClusterView::default(),
        operators,
        reloading: Reloading::default(),
        looking: None,
        pulse,
    })
}

/// The data path before its listeners are open: its threads, and its limits.
struct Edge {
    serving: Serving,
    admission: AdmissionControl,
    descriptors: Descriptors,
}

impl Edge {
    fn open(args: &Args, tls: &Tls, queue: &Arc<Queue>, listeners: usize) -> anyhow::Result<Self> {
        let workers = Workers::for_each_processor().context("cannot start threads for connections")?;
        // One more runtime serves everything else.
        let descriptors = Descriptors::raise(workers.count() + 1);
        let admission = AdmissionControl::new(args.limits.policy(descriptors, listeners));
        descriptors.judge(&admission.policy(), listeners);
        let anywhere = route(args, tls, &args.first_upstream(), None);
        let proxy = Proxy::new(anywhere, Arc::clone(queue), Clock::start()).admitted_by(&admission);
        Ok(Self {
            serving: Serving::new(proxy, workers),
            admission,
            descriptors,
        })
    }
}

/// What the admin listener shows. Where listeners follow the cluster, discovery begins, and
/// no client is accepted yet.
fn health(
    prepared: &ProxySetup,
    opened: &OpenListeners,
    listening: String,
    (queue, admission, direct): (Arc<Queue>, AdmissionControl, Arc<DirectClients>),
    watch: Arc<ThreadHealth>,
    (writer, observed): (&ReportWriter, &ObservedTraffic),
) -> Arc<Health> {
    let live = Arc::clone(&prepared.live);
    let state = match &opened.nodes {
        Some(nodes) => {
            tokio::spawn(look_for_nodes(nodes.addresses.clone(), Arc::clone(&live)));
            ReadyState::Waiting
        }
        None => ReadyState::Accepting,
    };
    let contacts = control::contacts(&prepared.args).points.join(", ");
    Arc::new(Health {
        watch,
        postponed: Arc::clone(writer.postponed()),
        abandoned: Arc::clone(writer.abandoned()),
        state: ArcSwap::from_pointee((state, Timestamp::now())),
        settings: ArcSwap::from_pointee(prepared.settings.clone()),
        listening,
        upstream: ArcSwap::from_pointee(contacts),
        listeners: ArcSwap::from_pointee(listener_statuses(&opened.pairs)),
        problems: ArcSwap::default(),
        reach: ArcSwap::from_pointee(reach(&opened.pairs, opened.transparent.as_ref())),
        direct,
        tls: ArcSwap::from_pointee(prepared.tls.clone()),
        recording_left_out: observed.left_out(),
        access: Arc::clone(&prepared.access),
        traffic: Arc::clone(&prepared.traffic),
        log: prepared.log.clone(),
        began: Timestamp::now(),
        #[cfg(feature = "otlp")]
        otlp: super::otlp::ExportCounts::default(),
        admission,
        live,
        queue,
    })
}

/// Receives signals, and keeps the deadlines of the process end that they may ask for.
fn take_signals(args: &Args) -> anyhow::Result<(mpsc::Receiver<SignalRequest>, ProcessEnd)> {
    let (tell, signals) = mpsc::channel(MOST_SIGNALS);
    let end = signals::listen(patience(args), move |asked| {
        // One of many of a kind is enough, and a deadline needs none.
        let _ = tell.try_send(asked);
    })?;
    Ok((signals, end))
}

/// Starts the audit of what comes into `queue`, and the writer of its reports, as a source called `name`.
fn begin_audit(
    args: &Args,
    queue: &Arc<Queue>,
    live: &Arc<Live>,
    outputs: Outputs,
    name: &str,
    observer: Observer,
) -> anyhow::Result<(Arc<Audit>, ReportWriter)> {
    let clock = WindowClock::start(Timestamp::now(), Instant::now().into_std());
    let (key, now) = (outputs.hash_key(), clock.time());
    let mut options = args.observer.audit_options();
    options.observer = observer;
    let audit = Audit::start_with(Arc::clone(queue), live, key, name, now, &options);
    let audit = Arc::new(audit.context("no auditor")?);
    let writer = ReportWriter::start(outputs, &audit, live, name, clock)?;
    Ok((audit, writer))
}

/// The threads of this process, for the watchdog; `control` is the control loop.
fn watched(
    control: &Pulse,
    serving: &Serving,
    audit: &Audit,
    writer: &ReportWriter,
    own: [Option<Pulse>; 2],
) -> WatchedThreads {
    let mut others = vec![audit.pulse().clone(), writer.pulse().clone()];
    others.extend(own.into_iter().flatten());
    let mut runners = serving.runners();
    runners.push(Runner::new("runtime", Handle::current()));
    WatchedThreads {
        vital: vec![control.clone()],
        others,
        runners,
    }
}

/// Starts the admin listener, if there is one. `is_shared`: a successor may listen at the same address.
fn listen_to_operators(
    (signals, end): (mpsc::Receiver<SignalRequest>, ProcessEnd),
    (listener, file): (Option<AdminListener>, Option<SocketFile>),
    is_shared: bool,
    health: &Arc<Health>,
) -> Operators {
    let (give_order, orders) = mpsc::channel(MOST_ORDERS);
    let serving = listener
        .map(|listener| tokio::spawn(cqlens_admin::serve(listener, health::admin(health, give_order))));
    let admin = serving.map(|serving| serving.abort_handle());
    Operators {
        signals,
        end,
        orders,
        admin_to_hand_over: admin.filter(|_| is_shared),
        _admin_file: file,
    }
}

/// Where clients connect, for operators.
fn listening(mode: &Mode, listeners: &Listeners) -> anyhow::Result<String> {
    if let Mode::Cluster(rules) = mode {
        return Ok(rules.to_string());
    }
    let bound = listeners.clients.iter().map(|(_, socket)| {
        let address = socket.local_addr();
        address.context("cannot read the listening address")
    });
    let bound: Vec<_> = bound.collect::<Result<_, _>>()?;
    let bound: Vec<_> = bound.iter().map(ToString::to_string).collect();
    Ok(bound.join(", "))
}

const MOST_ORDERS: usize = 4;

/// More signals than an operator sends before the loop has come around.
const MOST_SIGNALS: usize = 16;

/// The name of the source: what was typed, else host and listening address, so that forty proxies that listen at
/// the same address of forty machines are forty sources.
pub(super) fn name(given: Option<&str>, listening: &str) -> String {
    match given {
        Some(given) => given.to_owned(),
        None => {
            let uname = rustix::system::uname();
            format!("{} {listening}", uname.nodename().to_string_lossy())
        }
    }
}
