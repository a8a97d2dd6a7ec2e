//! The samples of one family on their way into a text, or into the points of OTLP.

use std::fmt::Result;

use prometheus_client::encoding::{EncodeGaugeValue, MetricEncoder, NoLabelSet};

#[cfg(feature = "otlp")]
use cqlens_otlp::{Point, Value};

/// Takes the samples of one family.
pub(super) enum Samples<'e> {
    /// As Prometheus reads them.
    Text(MetricEncoder<'e>),
    /// As a collector takes them.
    #[cfg(feature = "otlp")]
    Points(&'e mut Vec<Point>),
}

/// Names and values of labels.
pub(super) type Labels<'l> = &'l [(&'static str, &'l str)];

/// A number that says how something is.
pub(super) trait Number: EncodeGaugeValue + Copy {
    /// The same in the only form that points have for it.
    #[cfg(feature = "otlp")]
    fn point(self) -> Value;
}

macro_rules! numbers {
    ($($number:ty: $value:ident as $to:ty),*) => {
        $(impl Number for $number {
            #[cfg(feature = "otlp")]
            fn point(self) -> Value {
                Value::$value(self as $to)
            }
        })*
    };
}

numbers!(u32: Int as u64, u64: Int as u64, usize: Int as u64, i64: Double as f64, f64: Double as f64);

impl Samples<'_> {
    /// The only count.
    pub(super) fn count(&mut self, value: u64) -> Result {
        self.count_of(&[], value)
    }

    /// A count among several.
    pub(super) fn count_of(&mut self, labels: Labels<'_>, value: u64) -> Result {
        match self {
            Self::Text(text) => {
                let mut sample = text.encode_family(&labels)?;
                sample.encode_counter::<NoLabelSet, _, u64>(&value, None)
            }
            #[cfg(feature = "otlp")]
            Self::Points(points) => take(points, labels, Value::Int(value)),
        }
    }

    /// The only number that grows by parts.
    pub(super) fn sum(&mut self, value: f64) -> Result {
        match self {
            Self::Text(text) => text.encode_counter::<NoLabelSet, _, u64>(&value, None),
            #[cfg(feature = "otlp")]
            Self::Points(points) => take(points, &[], Value::Double(value)),
        }
    }

    /// The only state.
    pub(super) fn gauge(&mut self, value: impl Number) -> Result {
        self.gauge_of(&[], value)
    }

    /// A state among several.
    pub(super) fn gauge_of(&mut self, labels: Labels<'_>, value: impl Number) -> Result {
        match self {
            Self::Text(text) => text.encode_family(&labels)?.encode_gauge(&value),
            #[cfg(feature = "otlp")]
            Self::Points(points) => take(points, labels, value.point()),
        }
    }

    /// 1 for the state that there is, 0 for all others.
    pub(super) fn one_of(&mut self, states: &[&str], is: &str) -> Result {
        for state in states {
            self.gauge_of(&[("state", state)], u32::from(*state == is))?;
        }
        Ok(())
    }

    /// A histogram among several: each bucket's upper bound and its count, not added up.
    pub(super) fn histogram_of(&mut self, labels: Labels<'_>, sum: f64, buckets: &[(f64, u64)]) -> Result {
        match self {
            Self::Text(text) => {
                let mut sample = text.encode_family(&labels)?;
                let count = buckets.iter().map(|(_, count)| count).sum();
                sample.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
            }
            #[cfg(feature = "otlp")]
            Self::Points(points) => {
                let buckets = buckets.to_vec();
                take(points, labels, Value::Buckets { sum, buckets })
            }
        }
    }
}

#[cfg(feature = "otlp")]
fn take(points: &mut Vec<Point>, labels: Labels<'_>, value: Value) -> Result {
    let attributes = labels.iter().map(|(name, value)| (*name, (*value).to_owned()));
    points.push(Point {
        attributes: attributes.collect(),
        value,
    });
    Ok(())
}
