//! What Prometheus may ask of a running proxy: [`Traffic`], which finished windows feed, and [`Process`], how the process is at the
//! moment, as text in one of two [`Exposition`] formats.
//!
//! Traffic is published as a whole after each window and read without a lock, so no scrape waits for the audit and nothing on the
//! way of a request is counted for it. Names follow the conventions of Prometheus: base units, `_total` for what only grows.

mod families;
mod family;
mod latency;
mod places;
mod process;
mod samples;
mod traffic;

use std::sync::Arc;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, prometheus_text, text},
    registry::Registry,
};

pub use families::FAMILIES;
pub use family::{Family, Kind};
pub use latency::BOUNDS_US;
pub use process::{Certificate, Exports, Process, Usage};
pub use traffic::{SeriesLimits, Traffic};

use cqlens_admin::Exposition;
use samples::Samples;

/// Everything that there is to say at one moment.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// As of the last window.
    pub traffic: Arc<Traffic>,
    /// Now.
    pub process: Process,
}

impl Metrics {
    /// All families as text.
    pub fn expose(self, exposition: Exposition) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut exposed = String::new();
        let written = match exposition {
            Exposition::OpenMetrics => text::encode(&mut exposed, &registry),
            Exposition::Prometheus => prometheus_text::encode(&mut exposed, &registry),
        };
        written.expect("a string takes everything");
        exposed
    }

    /// All families for a collector of OpenTelemetry, without those that have no series.
    #[cfg(feature = "otlp")]
    pub fn points(&self) -> Vec<cqlens_otlp::Metric> {
        let measured = FAMILIES.iter().map(|family| {
            let mut points = Vec::new();
            let taken = (family.samples)(self, &mut Samples::Points(&mut points));
            taken.expect("a list takes everything");
            family.otlp(points)
        });
        measured.filter(|metric| !metric.points.is_empty()).collect()
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        for family in FAMILIES {
            let samples = encoder.encode_descriptor(
                family.name,
                family.help,
                family.unit,
                family.kind.metric_type(),
            )?;
            (family.samples)(self, &mut Samples::Text(samples))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
