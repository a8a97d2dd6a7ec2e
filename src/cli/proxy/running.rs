//! A proxy at work, from its first client to its last window.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinHandle},
    time::{Instant, Interval, interval, interval_at, sleep_until},
};

use super::{
    Prepared,
    args::Args,
    control::Control,
    health::{self, Health},
    listener::{Inherited, Listeners},
    signals::{Asked, Signals},
    supervisor,
};
use crate::{
    audit::Audit,
    capture::{Clock, Limits, Queue},
    catalog::{Live, Schema},
    cli::{
        limits::Descriptors,
        log::Log,
        output::Outputs,
        settings::{Settings, Sources},
        show,
        tls::Tls,
        window_clock::WindowClock,
    },
    proxy::{Drain, DrainSwitch, Drained, Gate, Proxy, Route, Waiting, Workers},
    sink::admin::{self, Order, State},
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
    pub(super) health: Arc<Health>,
    pub(super) windows: Interval,
    pub(super) stop: Stop,
    serving: JoinHandle<Drained>,
    switch: DrainSwitch,
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
        let listeners = Listeners::open(&args, inherited).await?;
        let listening = listeners
            .clients
            .local_addr()
            .context("cannot tell the listening address")?;
        let name = args.name.clone().unwrap_or_else(|| listening.to_string());
        let queue = Arc::new(Queue::new(1, Limits::default()));
        let clock = WindowClock::start(Timestamp::now(), Instant::now().into_std());
        let audit = Audit::start_watched(
            Arc::clone(&queue),
            &live,
            outputs.hash_key(),
            &name,
            clock.time(),
            &show::watch(args.show_values),
        )
        .context("no auditor")?;
        let control = Control::begin(&args, tls.upstream.clone(), &live);
        outputs.begin(&live, &name, listening)?;

        let (switch, drain) = Drain::new();
        let descriptors = Descriptors::raise();
        let gate = Gate::new(args.limits.policy(descriptors));
        descriptors.judge(&gate.policy());
        let workers = Workers::for_each_processor().context("no threads for connections")?;
        let proxy = Proxy::new(route(&args, &tls), Arc::clone(&queue), Clock::start()).behind(&gate);
        let health = Arc::new(Health {
            state: ArcSwap::from_pointee((State::Accepting, Timestamp::now())),
            settings: ArcSwap::from_pointee(settings.clone()),
            listening,
            route: Arc::clone(&proxy.route),
            gate,
            live: Arc::clone(&live),
            queue,
        });
        let (give_order, orders) = mpsc::channel(MOST_ORDERS);
        let shared = args.reuse_port || listeners.waiting == Waiting::Left;
        let admin_of_two = listeners.admin.and_then(|listener| {
            let serving = tokio::spawn(admin::serve(listener, health::admin(&health, give_order)));
            shared.then(|| serving.abort_handle())
        });
        let serving = tokio::spawn(proxy.serve(listeners.clients, listeners.waiting, drain, workers));
        tracing::info!(listen = %listening, client_tls = tls.clients.is_some(), upstream = %args.upstream,
            upstream_tls = tls.upstream.is_some(), "forwarding");
        supervisor::ready();
        Ok(Self {
            windows: every(args.window),
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
            health,
            stop: Stop::No,
            serving,
            switch,
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
        self.outputs.window(watched_for(passed, last), &self.live);
        self.control.end(&self.live).await;
        tracing::info!("stopped");
        Ok(())
    }

    async fn until_drained(&mut self) -> anyhow::Result<Drained> {
        let mut look = interval(LOOK_FOR_CERTIFICATES);
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
                drained = &mut self.serving => return drained.context("the data path has failed"),
            }
        }
    }

    fn end_window(&mut self) {
        let passed = self.clock.advance(Timestamp::now(), Instant::now().into_std());
        let window = self.audit.take_window(self.clock.time());
        self.outputs.window(watched_for(passed, window), &self.live);
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
            self.switch.begin(Duration::ZERO);
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
        self.switch.begin(self.args.grace);
        self.stop = Stop::Draining;
    }
}

/// Where connections go, as `args` have it.
pub(super) fn route(args: &Args, tls: &Tls) -> Route {
    Route {
        upstream: args.upstream.clone(),
        connect_timeout: args.connect_timeout,
        client_tls: tls.clients.clone(),
        upstream_tls: tls.upstream.clone(),
        topology: None,
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

/// Clients whose connection ends at once have so long to hear of it.
const GOODBYE: Duration = Duration::from_secs(1);

const MOST_ORDERS: usize = 4;
