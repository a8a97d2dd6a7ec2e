//! How much a finding matters: one function for all rules.
//!
//! A rule says how bad one execution is, by its own thresholds ([`Impact::each`]). What that means for the
//! cluster is decided here: by the share of the measured time and of the work that the statements take, by
//! what grows with the data, and above a floor below which a cluster idles.

use serde::{Deserialize, Serialize};

use super::{Context, Findings, Threshold, cost::Cost, figures, watch::WatchedTime};
use cqlens_window::{Pattern, number};

/// How much a finding matters. `High` is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing, nothing to do.
    Info,
    /// Costs little as things are.
    Low,
    /// Costs enough to plan a change, or grows with the data.
    Medium,
    /// Takes a large part of what the cluster does, fails requests, or will as the data grows.
    High,
}

impl Severity {
    /// One step up.
    pub fn raised(self) -> Self {
        match self {
            Self::Info => Self::Low,
            Self::Low => Self::Medium,
            Self::Medium | Self::High => Self::High,
        }
    }

    /// One step down.
    pub fn lowered(self) -> Self {
        match self {
            Self::Info | Self::Low => Self::Info,
            Self::Medium => Self::Low,
            Self::High => Self::Medium,
        }
    }
}

impl std::fmt::Display for Severity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// What is known of the statements of a finding when its severity is decided.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Impact<'p> {
    each: Severity,
    patterns: Vec<&'p Pattern>,
    cost: Cost,
    times: u64,
    p99_us: u64,
    grows: bool,
    failures: Vec<(u64, u64)>,
    at_most: Severity,
    /// Whether it matters though no cost of statements shows it.
    is_beside_cost: bool,
}

impl<'p> Impact<'p> {
    /// Executions that are this bad each, by the rule's own thresholds.
    pub(super) fn each(each: Severity) -> Self {
        Self {
            each,
            patterns: Vec::new(),
            cost: Cost::default(),
            times: 0,
            p99_us: 0,
            grows: false,
            failures: Vec::new(),
            at_most: Severity::High,
            is_beside_cost: false,
        }
    }

    /// So many times something that no time and no work of statements shows: data that are lost, connections,
    /// requests that are refused. It is this bad whatever the load, and one step less as long as it happened fewer
    /// than [`FEW_FAILURES`] times.
    pub(super) fn beside_cost(each: Severity, times: u64) -> Self {
        Self {
            times,
            is_beside_cost: true,
            ..Self::each(each)
        }
    }

    /// Adds the executions of a pattern, the pages of one read counted once.
    pub(super) fn of(mut self, pattern: &'p Pattern) -> Self {
        self.patterns.push(pattern);
        self.cost = self.cost + Cost::of(pattern);
        self.times += match pattern.logical_reads {
            0 => pattern.count,
            logical => logical,
        };
        self.p99_us = self.p99_us.max(pattern.latency_us.quantile(0.99));
        self
    }

    /// Counts so many of the executions instead of all: those that the rule speaks of. Their cost is taken to
    /// be as large as that of the others.
    pub(super) fn times(mut self, times: u64) -> Self {
        let part = |whole: u64| {
            let part = u128::from(whole) * u128::from(times) / u128::from(self.times.max(1));
            u64::try_from(part).unwrap_or(u64::MAX).min(whole)
        };
        self.cost = Cost {
            time_us: part(self.cost.time_us),
            work: part(self.cost.work),
        };
        self.times = times;
        self
    }

    /// What one execution costs grows with the table or the partition, which is already large enough to show:
    /// what comes steadily is at least medium.
    pub(super) fn grows(mut self, grows: bool) -> Self {
        self.grows = grows;
        self
    }

    /// So many of so many executions failed; several calls are several statements, of which the worst decides.
    pub(super) fn failed(mut self, failures: u64, executions: u64) -> Self {
        self.failures.push((failures, executions));
        self
    }

    /// Whatever it costs, it is no more than this; failures may make it more.
    pub(super) fn at_most(mut self, severity: Severity) -> Self {
        self.at_most = severity;
        self
    }
}

impl Impact<'_> {
    /// The same without its patterns, which a finding names.
    pub(super) fn kept(self) -> Impact<'static> {
        let Self {
            each,
            cost,
            times,
            p99_us,
            grows,
            failures,
            at_most,
            is_beside_cost,
            patterns: _,
        } = self;
        Impact {
            each,
            patterns: Vec::new(),
            cost,
            times,
            p99_us,
            grows,
            failures,
            at_most,
            is_beside_cost,
        }
    }
}

impl<'p> Impact<'p> {
    /// What was kept of several findings on statements that are as bad as the first, put together.
    pub(super) fn together<'k>(
        kept: impl IntoIterator<Item = &'k Impact<'static>>,
        patterns: Vec<&'p Pattern>,
    ) -> Option<Self> {
        let mut kept = kept.into_iter();
        let first = kept.next()?;
        let like_first = |other: &&Impact<'static>| {
            (other.each, other.at_most, other.is_beside_cost)
                == (first.each, first.at_most, first.is_beside_cost)
        };
        let all = kept.filter(like_first).fold(first.clone(), |mut all, other| {
            all.cost = all.cost + other.cost;
            all.times += other.times;
            all.p99_us = all.p99_us.max(other.p99_us);
            all.grows |= other.grows;
            all.failures.extend(&other.failures);
            all
        });
        Some(Self { patterns, ..all })
    }
}

impl Context<'_> {
    /// The severity of a finding: how bad one execution is, and what share of the cluster's time or work the
    /// executions take. One step up above [`LARGE_SHARE`], one step down below [`SMALL_SHARE`], two below
    /// [`NEGLIGIBLE_SHARE`] or where the application hardly works at all ([`IDLE_MS_PER_SECOND`] and
    /// [`IDLE_WORK_PER_SECOND`]). What grows, or is slow ([`SLOW_MS`]), and comes steadily
    /// ([`STEADY_PER_HOUR`]) is at least medium. Failures count by their share of the executions
    /// ([`FAILED_SHARE_HIGH`], [`FAILED_SHARE_MEDIUM`], [`FEW_FAILURES`]), whatever they cost. Less than a minute counts
    /// as a minute in which nothing else came. What is beside the cost ([`Impact::beside_cost`]) is as bad as it is.
    ///
    /// Where no latencies were measured only work counts, and nothing is called small for it. A statement that was
    /// only read, not executed, is as bad as each execution of it would be.
    pub(super) fn severity(&self, found: &Findings<'_>, impact: &Impact<'_>) -> Severity {
        let at_least = self.growth(found, impact).unwrap_or(Severity::Info);
        let of_traffic = if impact.is_beside_cost {
            or_an_event(found, impact.each, impact.times)
        } else if self.window.seconds() <= 0.0 {
            impact.each
        } else {
            self.weighed(found, impact)
        };
        let failing = failing(found, impact).unwrap_or(Severity::Info);
        of_traffic.max(at_least).min(impact.at_most).max(failing)
    }

    fn weighed(&self, found: &Findings<'_>, impact: &Impact<'_>) -> Severity {
        let of = |threshold: &Threshold| found.severity_threshold(threshold);
        let work = impact.cost.work_share(self);
        let Some(time) = impact.cost.time_share(self) else {
            // Nobody knows that it takes next to nothing.
            let is_large = work > of(&LARGE_SHARE);
            return if is_large {
                impact.each.raised()
            } else {
                impact.each
            };
        };
        let share = time.max(work);
        if self.idles(found, impact) || share < of(&NEGLIGIBLE_SHARE) {
            impact.each.lowered().lowered()
        } else if share < of(&SMALL_SHARE) {
            impact.each.lowered()
        } else if share <= of(&LARGE_SHARE) {
            impact.each
        } else {
            impact.each.raised()
        }
    }

    /// Whether the executions take next to nothing of any cluster, whatever their share of this one.
    fn idles(&self, found: &Findings<'_>, impact: &Impact<'_>) -> bool {
        let seconds = self.watched(impact).seconds().max(number::SHORTEST_FOR_A_RATE);
        let busy_ms = impact.cost.time_us as f64 / 1e3 / seconds;
        let work = impact.cost.work as f64 / seconds;
        busy_ms < found.severity_threshold(&IDLE_MS_PER_SECOND)
            && work < found.severity_threshold(&IDLE_WORK_PER_SECOND)
    }

    fn growth(&self, found: &Findings<'_>, impact: &Impact<'_>) -> Option<Severity> {
        let slow_us = found.severity_threshold(&SLOW_MS) * 1e3;
        let is_slow = self.has_latencies() && impact.p99_us as f64 >= slow_us;
        let steady = figures::is_steady(found, impact.times, self.watched(impact));
        (steady && (impact.grows || is_slow)).then_some(Severity::Medium)
    }

    /// How long what is judged was watched.
    fn watched(&self, impact: &Impact<'_>) -> WatchedTime {
        self.watch_all(impact.patterns.iter().copied())
    }
}

/// The severity of failures; none where nothing failed.
fn failing(found: &Findings<'_>, impact: &Impact<'_>) -> Option<Severity> {
    let of = |threshold: &Threshold| found.severity_threshold(threshold);
    let all: u64 = impact.failures.iter().map(|(failures, _)| failures).sum();
    let shares = impact.failures.iter().filter(|(failures, _)| *failures > 0);
    let share = shares
        .map(|&(failures, executions)| figures::share(failures, executions))
        .reduce(f64::max)?;
    let severity = if share >= of(&FAILED_SHARE_HIGH) {
        Severity::High
    } else if share >= of(&FAILED_SHARE_MEDIUM) {
        Severity::Medium
    } else {
        Severity::Low
    };
    Some(or_an_event(found, severity, all))
}

/// One step less for what happened a few times, which is an event rather than a state.
fn or_an_event(found: &Findings<'_>, severity: Severity, times: u64) -> Severity {
    let few = (times as f64) < found.severity_threshold(&FEW_FAILURES);
    if few { severity.lowered() } else { severity }
}

/// The id under which [`THRESHOLDS`] are set: `[severity]`.
pub(super) const ID: &str = "severity";

/// What the severities of all rules depend on.
pub const THRESHOLDS: &[Threshold] = &[
    LARGE_SHARE,
    SMALL_SHARE,
    NEGLIGIBLE_SHARE,
    IDLE_MS_PER_SECOND,
    IDLE_WORK_PER_SECOND,
    SLOW_MS,
    STEADY_PER_HOUR,
    FAILED_SHARE_HIGH,
    FAILED_SHARE_MEDIUM,
    FEW_FAILURES,
];

/// With these values, nothing is more or less severe for the share that it takes of the load.
pub(super) const WHATEVER_THE_LOAD: &[(&Threshold, f64)] = &[
    (&LARGE_SHARE, 1.0),
    (&SMALL_SHARE, 0.0),
    (&NEGLIGIBLE_SHARE, 0.0),
    (&IDLE_MS_PER_SECOND, 0.0),
    (&IDLE_WORK_PER_SECOND, 0.0),
];

const LARGE_SHARE: Threshold = Threshold {
    name: "large_share",
    unit: "of the time or work",
    default: 0.2,
    origin: "cqlens default: a fifth of a cluster's work is worth a project of its own",
};

const SMALL_SHARE: Threshold = Threshold {
    name: "small_share",
    unit: "of the time or work",
    default: 0.01,
    origin: "cqlens default: removing less than one percent shows on no graph",
};

const NEGLIGIBLE_SHARE: Threshold = Threshold {
    name: "negligible_share",
    unit: "of the time or work",
    default: 0.001,
    origin: "cqlens default: one in a thousand is less than the effect of a rolling restart",
};

const IDLE_MS_PER_SECOND: Threshold = Threshold {
    name: "idle_ms_per_second",
    unit: "ms of latency per second",
    default: 1.0,
    origin: "cqlens default: one request in flight for a thousandth of the time is no load for any node",
};

const IDLE_WORK_PER_SECOND: Threshold = Threshold {
    name: "idle_work_per_second",
    unit: "partitions, rows and tombstones per second",
    default: 10.0,
    origin: "cqlens default: a single node reads tens of thousands of rows per second",
};

const SLOW_MS: Threshold = Threshold {
    name: "slow_ms",
    unit: "ms at p99",
    default: 500.0,
    origin: "`slow_query_log_timeout` of cassandra.yaml: 500 ms",
};

const STEADY_PER_HOUR: Threshold = Threshold {
    name: "steady_per_hour",
    unit: "executions per hour",
    default: 60.0,
    origin: "cqlens default: once a minute or more is steady load, not an occasional event",
};

const FAILED_SHARE_HIGH: Threshold = Threshold {
    name: "failed_share_high",
    unit: "of the executions",
    default: 0.01,
    origin: "cqlens default: one in a hundred shows in the p99, by which everything else is measured",
};

const FAILED_SHARE_MEDIUM: Threshold = Threshold {
    name: "failed_share_medium",
    unit: "of the executions",
    default: 0.001,
    origin: "cqlens default: at one in a thousand, users of a page with many requests begin to notice",
};

const FEW_FAILURES: Threshold = Threshold {
    name: "few_failures",
    unit: "failures, or cases of lost data",
    default: 10.0,
    origin: "cqlens default: fewer are an event, such as the restart of a node, rather than a state",
};

/// From this rate on, something is a part of the load: what rules that judge a use, not a cost, begin with.
pub(super) const STEADY: &Threshold = &STEADY_PER_HOUR;

#[cfg(test)]
mod tests;
