//! The control loop of a running proxy: answers signals, operators and changes of the
//! cluster, until the last window.

use std::{
    io::{Write, stdout},
    net::SocketAddr,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinHandle, spawn_blocking},
    time::{Instant, Interval, interval},
};

use super::{
    args::Args,
    cluster::ClusterNodes,
    control::Control,
    health::Health,
    inherited::ForNodes,
    observed::ObservedTraffic,
    reading::{ReadAgain, Reloading},
    serving::Serving,
    shadow,
    shutdown::{AUDITORS, GOODBYE, ShutdownPhase, patience},
    side_queries::SideQueries,
    supervisor,
    topology::RoutePair,
    writer::{LastWindowResult, ReportWriter},
};
use crate::cli::{
    limits::Descriptors,
    log::{self, Log},
    settings::Settings,
    signals::{ProcessEnd, SignalRequest, UNFINISHED},
    tls::Tls,
};
use cqlens_admin::{AdminOrder, ReadyState, SocketFile};
use cqlens_audit::{
    audit::Audit,
    catalog::{ClusterState, Live},
};
use cqlens_capture::pulse::Pulse;
use cqlens_cql::schema::Schema;
use cqlens_proxy::{Drained, Transparent};
use cqlens_rehearse::shadow::Shadow;

/// A running proxy: its settings, its parts, and the state of the control loop.
pub(super) struct Running {
    pub(super) args: Args,
    pub(super) settings: Settings,
    pub(super) read_again: Arc<dyn ReadAgain>,
    pub(super) log: Log,
    pub(super) live: Arc<Live>,
    /// As it was last read from a file.
    pub(super) schema: Option<Schema>,
    pub(super) tls: Tls,
    pub(super) descriptors: Descriptors,
    pub(super) audit: Arc<Audit>,
    pub(super) writer: ReportWriter,
    pub(super) observed: ObservedTraffic,
    pub(super) shadow: Option<Arc<Shadow>>,
    /// The way to a collector.
    #[cfg(feature = "otlp")]
    pub(super) otlp: Option<super::otlp::Otlp>,
    pub(super) control: Control,
    pub(super) side_queries: SideQueries,
    pub(super) health: Arc<Health>,
    pub(super) windows: Interval,
    pub(super) shutdown: ShutdownPhase,
    pub(super) serving: Serving,
    /// The listeners that lead to one node each: the setting, and the bound address.
    pub(super) pairs: Vec<(RoutePair, SocketAddr)>,
    /// Where connections go to their original destinations.
    pub(super) transparent: Option<Arc<Transparent>>,
    /// Where listeners follow the cluster.
    pub(super) nodes: Option<ClusterNodes>,
    /// Inherited sockets for nodes.
    pub(super) for_nodes: ForNodes,
    pub(super) view: ClusterView,
    pub(super) operators: Operators,
    pub(super) reloading: Reloading,
    /// Checks whether certificates have changed.
    pub(super) looking: Option<JoinHandle<()>>,
    /// Beats each time around the loop.
    pub(super) pulse: Pulse,
}

/// The cluster as the listeners were last made to fit it.
#[derive(Default)]
pub(super) struct ClusterView {
    pub(super) known: Arc<ClusterState>,
    /// Whether the listeners of a cluster were ever open.
    pub(super) has_begun: bool,
    /// Whether some of them could not be opened.
    pub(super) has_unopened: bool,
    /// The last notice about traffic that bypasses this proxy.
    pub(super) bypass: Option<String>,
}

/// What operators want of the process: signals, and orders over the admin listener.
pub(super) struct Operators {
    pub(super) signals: mpsc::Receiver<SignalRequest>,
    /// Ends the process at a deadline, once a shutdown was asked for.
    pub(super) end: ProcessEnd,
    pub(super) orders: mpsc::Receiver<AdminOrder>,
    /// The admin listener, if a successor has one at the same address.
    pub(super) admin_to_hand_over: Option<AbortHandle>,
    /// The file of its socket, which goes when the process ends.
    pub(super) _admin_file: Option<SocketFile>,
}

impl Running {
    /// Runs until a shutdown has ended, and writes the last window.
    pub(super) async fn until_stopped(mut self) -> anyhow::Result<ExitCode> {
        if self.until_drained().await? == Drained::CutOff {
            tracing::warn!("some connections were closed with requests in flight");
        }
        // The control connection may still look up tables of the last requests.
        let patience = match self.shutdown {
            ShutdownPhase::AtOnce(_) => GOODBYE,
            _ => AUDITORS + self.shutdown.unused_grace(),
        };
        let last = self.writer.end(self.health.bypass(), patience).await;
        match last {
            LastWindowResult::Whole => {}
            LastWindowResult::Withheld => {
                tracing::error!("an auditor is stuck: its figures are missing from the last window")
            }
            LastWindowResult::Unreported => {
                tracing::error!("report: writing takes too long, the last window is in its snapshot alone")
            }
            LastWindowResult::Unwritten => {
                tracing::error!("report, snapshot-dir: writing takes too long, the last window is lost")
            }
        }
        #[cfg(feature = "otlp")]
        if let Some(otlp) = self.otlp.take() {
            otlp.end().await;
        }
        let (observed, unused) = (self.observed, self.shutdown.unused_grace());
        // Files are written; whatever else this process still does goes on meanwhile.
        let _ = spawn_blocking(move || observed.end(unused)).await;
        if let Some(shadow) = self.shadow.take() {
            // Answers and differences that are still under way are waited for, by nobody else.
            let ended = spawn_blocking(move || shadow.end(shadow::PATIENCE)).await;
            if !matches!(ended, Ok(true)) {
                tracing::warn!("shadow: the last report was not written");
            }
            if !self.writer.write_again().await {
                tracing::warn!("report: the last responses of the shadow are missing");
            }
        }
        self.control.end(&self.live).await;
        tracing::info!("stopped");
        if let Some(words) = self.writer.last_words() {
            // After the log, which goes to the same terminal.
            log::flush();
            // A terminal that has gone needs no summary.
            let _ = write!(stdout().lock(), "\n{words}");
        }
        Ok(match last {
            LastWindowResult::Whole => ExitCode::SUCCESS,
            LastWindowResult::Withheld | LastWindowResult::Unreported | LastWindowResult::Unwritten => {
                ExitCode::from(UNFINISHED)
            }
        })
    }

    async fn until_drained(&mut self) -> anyhow::Result<Drained> {
        let mut look = interval(LOOK_FOR_CERTIFICATES);
        let mut again = interval(OPEN_AGAIN);
        let mut beats = interval(BEAT);
        loop {
            self.pulse.beat();
            tokio::select! {
                Some(request) = self.operators.signals.recv() => match request {
                    SignalRequest::Stop(name) => self.stop_by(name),
                    // The result is in the log.
                    SignalRequest::Reload => self.begin_reload(None),
                    SignalRequest::Nothing(signal) => tracing::info!(signal, "cqlens ignores this signal"),
                },
                Some(order) = self.operators.orders.recv() => self.carry_out(order),
                read = self.reloading.read() => self.end_reload(read).await,
                _ = beats.tick() => {}
                _ = look.tick() => self.look_for_certificates(),
                _ = self.windows.tick() => self.end_window(),
                () = self.shutdown.due() => match self.shutdown {
                    ShutdownPhase::AtOnce(_) => return Ok(Drained::CutOff),
                    _ => self.drain(),
                },
                cluster = self.live.cluster_other_than(&self.view.known) => self.take_notice(cluster)?,
                _ = again.tick(), if self.view.has_unopened => self.follow_nodes()?,
                drained = self.serving.ended() => return drained,
            }
        }
    }

    fn end_window(&mut self) {
        self.writer.window(self.health.bypass());
        self.tell_reach();
    }

    /// Reads certificates again if they have changed; where the last look is not over,
    /// their disk does not answer.
    fn look_for_certificates(&mut self) {
        if self.looking.as_ref().is_none_or(JoinHandle::is_finished) {
            let (tls, access) = (self.tls.clone(), Arc::clone(&self.health.access));
            self.looking = Some(spawn_blocking(move || {
                tls.look();
                access.look();
            }));
        }
    }

    /// Sets the deadlines of the process end by the settings.
    pub(super) fn allow_end(&self) {
        self.operators.end.allow(patience(&self.args));
    }

    /// Lets in as many clients as there is room for beside the listeners that there are now.
    pub(super) fn fit_connections(&self) {
        let policy = self.args.limits.policy(self.descriptors, self.listeners());
        self.health.admission.replace_policy(policy);
    }

    pub(super) fn listeners(&self) -> usize {
        self.serving.listening().count()
    }

    fn carry_out(&mut self, order: AdminOrder) {
        match order {
            // Unlike a second signal, a repeated order (of a script that tries again, say) asks for no haste.
            AdminOrder::Drain if self.shutdown == ShutdownPhase::Serving => {
                self.operators.end.ask();
                self.stop_by("the admin listener");
            }
            AdminOrder::Drain => {}
            AdminOrder::Reload(answer) => self.begin_reload(Some(answer)),
            AdminOrder::Render(rendering, rendered) => self.writer.render(rendering, rendered),
            AdminOrder::LogLevel(filter, answer) => {
                // Who asked may have gone.
                let _ = answer.send(self.log_by(&filter));
            }
            AdminOrder::Shadow(order, answer) => {
                let said = self
                    .shadow
                    .as_ref()
                    .map(|shadow| shadow::carry_out(shadow, order));
                // Who asked may have gone.
                let _ = answer.send(said);
            }
        }
    }

    /// Logs by another level or filter, until the setting changes.
    fn log_by(&self, filter: &str) -> Result<(), String> {
        let parsed = log::parse(filter).map_err(|error| format!("{error:#}"))?;
        self.log.filter(parsed);
        tracing::info!(filter, "an operator has changed what is logged");
        Ok(())
    }

    /// Begins a shutdown; if one has begun before, ends it at once.
    fn stop_by(&mut self, signal: &str) {
        if self.shutdown != ShutdownPhase::Serving {
            tracing::warn!(signal, "stopping immediately, without waiting any longer");
            self.serving.drain(Duration::ZERO);
            self.shutdown = ShutdownPhase::AtOnce(Instant::now() + GOODBYE);
            return;
        }
        self.health.turn(ReadyState::Draining);
        supervisor::stopping();
        if let Some(admin) = &self.operators.admin_to_hand_over {
            admin.abort();
        }
        let delay = self.args.drain_delay;
        if delay.is_zero() {
            tracing::info!(signal, grace = ?self.args.grace, "stopping: no new clients, requests in flight may end");
            self.drain();
        } else {
            tracing::info!(signal, ?delay, grace = ?self.args.grace, "\
                stopping: readiness fails so that clients go elsewhere; new ones are still accepted");
            self.shutdown = ShutdownPhase::Delayed(Instant::now() + delay);
        }
    }

    fn drain(&mut self) {
        if let ShutdownPhase::Delayed(_) = self.shutdown {
            tracing::info!("no new clients, requests in flight may end");
        }
        self.serving.drain(self.args.grace);
        self.shutdown = ShutdownPhase::Draining(Instant::now() + self.args.grace);
    }
}

/// Certificates are renewed days before the old ones end; authorities withdrawn in a
/// hurry come with a SIGHUP.
const LOOK_FOR_CERTIFICATES: Duration = Duration::from_secs(10);

/// Another process may have had the address, and have gone.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// How often the loop shows that it goes around, where there is nothing else to do.
const BEAT: Duration = Duration::from_millis(500);
