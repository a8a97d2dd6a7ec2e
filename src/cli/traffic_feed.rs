//! The running totals of `/metrics` between the thread that takes windows and the one that answers.

use std::sync::Arc;

use arc_swap::ArcSwap;

#[cfg(feature = "otlp")]
use super::otlp::{Events, FindingEvents};
use crate::metrics::{SeriesLimits, Traffic};
use cqlens_report::Report;
use cqlens_window::Window;

/// Running totals as they were last published.
pub(super) type Published = Arc<ArcSwap<Traffic>>;

/// The writer's part.
pub(super) struct TrafficFeed {
    traffic: Traffic,
    published: Published,
    /// Whether anybody can ask for the findings: judging takes time.
    wants_findings: bool,
    /// Sends new findings to a collector.
    #[cfg(feature = "otlp")]
    events: Option<FindingEvents>,
}

impl TrafficFeed {
    /// For somebody who may ask.
    pub(super) fn begin(wants_findings: bool) -> (Self, Published) {
        let traffic = Traffic::new(SeriesLimits::default());
        let published = Arc::new(ArcSwap::from_pointee(traffic.clone()));
        let feed = Self {
            traffic,
            published: Arc::clone(&published),
            wants_findings,
            #[cfg(feature = "otlp")]
            events: None,
        };
        (feed, published)
    }

    /// For nobody.
    pub(super) fn unread() -> Self {
        Self::begin(false).0
    }

    /// With events for new findings, if they are `wanted`.
    #[cfg(feature = "otlp")]
    pub(super) fn with_events(mut self, wanted: bool) -> (Self, Events) {
        let (findings, events) = FindingEvents::begin();
        self.events = wanted.then_some(findings);
        self.wants_findings |= wanted;
        (self, events)
    }

    pub(super) fn wants_findings(&self) -> bool {
        self.wants_findings
    }

    pub(super) fn add(&mut self, window: &Window) {
        self.traffic.add(window);
    }

    /// The findings of `report` are open now.
    pub(super) fn find(&mut self, report: &Report) {
        let findings = report.findings.iter();
        self.traffic
            .find(findings.map(|finding| (finding.rule, finding.severity)));
        #[cfg(feature = "otlp")]
        if let Some(events) = &mut self.events {
            events.send_new(report);
        }
    }

    #[cfg(feature = "fleet")]
    pub(super) fn set_sink(&mut self, figures: crate::sink::SinkFigures) {
        self.traffic.set_sink(figures);
    }

    pub(super) fn count_snapshot_failure(&mut self) {
        self.traffic.count_snapshot_failure();
    }

    pub(super) fn count_report_failure(&mut self) {
        self.traffic.count_report_failure();
    }

    /// From now on this is what is read.
    pub(super) fn publish(&self) {
        self.published.store(Arc::new(self.traffic.clone()));
    }
}
