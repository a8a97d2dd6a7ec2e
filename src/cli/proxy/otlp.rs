//! Sends metrics and findings to a collector, beside everything else: nothing waits for it but the end of the process, for a moment.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use jiff::Timestamp;
use tokio::{
    sync::oneshot,
    task::{JoinHandle, spawn_blocking},
    time::{MissedTickBehavior, interval, timeout},
};

use super::health::Health;
use crate::{
    cli::otlp::{Events, MOST_WAITING, OtlpArgs},
    metrics::Exports,
};
use cqlens_otlp::{Event, Exporter, NotExported};

/// So long the end of the process waits for the last figures to be sent.
const AT_THE_END: Duration = Duration::from_secs(2);

/// What became of exports.
#[derive(Debug, Default)]
pub(super) struct ExportCounts {
    taken: AtomicU64,
    failed: AtomicU64,
}

impl ExportCounts {
    fn count(&self, is_taken: bool) {
        let count = match is_taken {
            true => &self.taken,
            false => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counted(&self) -> Option<Exports> {
        let [taken, failed] = [&self.taken, &self.failed].map(|count| count.load(Ordering::Relaxed));
        (taken + failed > 0).then_some(Exports { taken, failed })
    }
}

/// What sends, if there is a collector.
pub(super) struct Otlp {
    task: JoinHandle<()>,
    end: oneshot::Sender<()>,
}

impl Otlp {
    /// Begins to send; what happens to the first attempt is in the log.
    ///
    /// # Errors
    /// Settings or files that cannot be used.
    pub(super) fn begin(
        args: &OtlpArgs,
        source: &str,
        health: &Arc<Health>,
        events: Events,
    ) -> anyhow::Result<Option<Self>> {
        let Some(exporter) = args.exporter(source)? else {
            return Ok(None);
        };
        let sending = Sending {
            args: args.clone(),
            source: source.to_owned(),
            health: Arc::clone(health),
            events,
            waiting: Vec::new(),
            exporter,
            failures: 0,
        };
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(sending.until(ended));
        Ok(Some(Self { task, end }))
    }

    /// Sends the last figures.
    pub(super) async fn end(self) {
        let _gone = self.end.send(());
        if timeout(AT_THE_END, self.task).await.is_err() {
            tracing::warn!("otlp: the last figures were not sent");
        }
    }
}

struct Sending {
    args: OtlpArgs,
    source: String,
    health: Arc<Health>,
    events: Events,
    /// Events that the collector has not taken yet.
    waiting: Vec<Event>,
    exporter: Exporter,
    /// Since it last took everything.
    failures: u64,
}

impl Sending {
    async fn until(mut self, mut ended: oneshot::Receiver<()>) {
        let mut ticks = interval(self.args.otlp_every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.send().await,
                _ = &mut ended => return self.send().await,
            }
        }
    }

    async fn send(&mut self) {
        let sent = self.try_to_send().await;
        self.health.otlp.count(sent.is_ok());
        match sent {
            Ok(()) if self.failures > 0 => {
                tracing::info!(
                    failures = mem::take(&mut self.failures),
                    "otlp: the collector takes everything again"
                );
            }
            Ok(()) => {}
            Err(error) => {
                if self.failures == 0 {
                    let error = format!("{error:#}");
                    tracing::warn!(
                        error,
                        "otlp: the collector did not take everything; each further export tries again"
                    );
                }
                self.failures += 1;
            }
        }
    }

    async fn try_to_send(&mut self) -> anyhow::Result<()> {
        if self.failures > 0 {
            // A token or certificate may have been replaced.
            let exporter = self.args.exporter(&self.source)?;
            self.exporter = exporter.context("otlp: no collector is named")?;
        }
        let health = Arc::clone(&self.health);
        let points = spawn_blocking(move || health.metrics().points()).await?;
        let now = Timestamp::now().into();
        let metrics = self.exporter.metrics(self.health.began.into(), now, points).await;
        let events = self.send_events().await;
        metrics?;
        Ok(events?)
    }

    /// Events are sent until they are taken; those that a collector rejects by name are not sent again.
    async fn send_events(&mut self) -> Result<(), NotExported> {
        while self.waiting.len() < MOST_WAITING
            && let Ok(event) = self.events.try_recv()
        {
            self.waiting.push(event);
        }
        if self.waiting.is_empty() {
            return Ok(());
        }
        let sent = self.exporter.events(Timestamp::now().into(), &self.waiting).await;
        if matches!(sent, Ok(()) | Err(NotExported::Partly { .. })) {
            self.waiting.clear();
        }
        sent
    }
}
