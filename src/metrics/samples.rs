//! The samples of one family on their way into the text.

use std::fmt::Result;

use prometheus_client::encoding::{EncodeGaugeValue, MetricEncoder, NoLabelSet};

/// Takes the samples of one family.
pub(super) struct Samples<'e>(pub(super) MetricEncoder<'e>);

/// Names and values of labels.
pub(super) type Labels<'l> = &'l [(&'static str, &'l str)];

impl Samples<'_> {
    /// The only count.
    pub(super) fn count(&mut self, value: u64) -> Result {
        self.0.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// A count among several.
    pub(super) fn count_of(&mut self, labels: Labels<'_>, value: u64) -> Result {
        let mut sample = self.0.encode_family(&labels)?;
        sample.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// The only number that grows by parts.
    pub(super) fn sum(&mut self, value: f64) -> Result {
        self.0.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// The only state.
    pub(super) fn gauge(&mut self, value: impl EncodeGaugeValue) -> Result {
        self.0.encode_gauge(&value)
    }

    /// A state among several.
    pub(super) fn gauge_of(&mut self, labels: Labels<'_>, value: impl EncodeGaugeValue) -> Result {
        self.0.encode_family(&labels)?.encode_gauge(&value)
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
        let mut sample = self.0.encode_family(&labels)?;
        let count = buckets.iter().map(|(_, count)| count).sum();
        sample.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }
}
