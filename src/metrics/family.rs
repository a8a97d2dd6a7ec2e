//! What one family of metrics is: name, kind, unit, labels, help, and how its samples are written.

use std::fmt::Result;

use prometheus_client::{metrics::MetricType, registry::Unit};

use super::{Metrics, samples::Samples};

/// Metrics of one name.
pub struct Family {
    /// Without unit and `_total`, which the format adds.
    pub(super) name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    pub(super) unit: Option<&'static Unit>,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says, in whole sentences.
    pub help: &'static str,
    pub(super) samples: fn(&Metrics, &mut Samples<'_>) -> Result,
}

/// What kind of number it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows from the start of the process on.
    Counter,
    /// Is what it is now.
    Gauge,
    /// Counts by buckets.
    Histogram,
}

impl Kind {
    pub(super) fn metric_type(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }

    /// As Prometheus calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Family {
    /// The name as queries have it; that of a histogram without `_bucket`, `_sum` and `_count`.
    pub fn full_name(&self) -> String {
        let unit = self
            .unit
            .map_or(String::new(), |unit| format!("_{}", unit.as_str()));
        let ending = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
        };
        [self.name, &unit, ending].concat()
    }

    /// As a collector takes it: units in UCUM, and names without them.
    #[cfg(feature = "otlp")]
    pub(super) fn otlp(&self, points: Vec<cqlens_otlp::Point>) -> cqlens_otlp::Metric {
        cqlens_otlp::Metric {
            name: self.name,
            description: self.help,
            unit: match self.unit {
                Some(Unit::Bytes) => "By",
                Some(Unit::Seconds) => "s",
                _ => "",
            },
            kind: match self.kind {
                Kind::Counter => cqlens_otlp::Kind::Sum,
                Kind::Gauge => cqlens_otlp::Kind::Gauge,
                Kind::Histogram => cqlens_otlp::Kind::Histogram,
            },
            points,
        }
    }

    pub(super) const fn in_bytes(mut self) -> Self {
        self.unit = Some(&BYTES);
        self
    }

    pub(super) const fn in_seconds(mut self) -> Self {
        self.unit = Some(&SECONDS);
        self
    }

    pub(super) const fn by(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }
}

static BYTES: Unit = Unit::Bytes;
static SECONDS: Unit = Unit::Seconds;

/// Writes the samples of a family.
pub(super) type Write = fn(&Metrics, &mut Samples<'_>) -> Result;

pub(super) const fn counter(name: &'static str, help: &'static str, samples: Write) -> Family {
    family(Kind::Counter, name, help, samples)
}

pub(super) const fn gauge(name: &'static str, help: &'static str, samples: Write) -> Family {
    family(Kind::Gauge, name, help, samples)
}

pub(super) const fn family(kind: Kind, name: &'static str, help: &'static str, samples: Write) -> Family {
    Family {
        name,
        kind,
        unit: None,
        labels: &[],
        help,
        samples,
    }
}
