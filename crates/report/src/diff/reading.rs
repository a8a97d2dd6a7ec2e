//! A report in its JSON form, as far as two are compared.

use std::{
    collections::{BTreeMap, HashMap},
    io::Read,
};

use serde::Deserialize;
use serde_json::Value;

use super::{
    super::{Baseline, BaselineError, ColumnReport},
    noise::{Counted, Estimate},
};
use cqlens_rules::work;
use cqlens_window::PatternId;

/// A report that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadReport {
    /// Its findings, its time, its cluster.
    pub(super) judged: Baseline,
    pub(super) seen: ReadTraffic,
    /// The places of the patterns.
    by_id: HashMap<PatternId, usize>,
}

/// What a report says of the traffic and the schema.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ReadTraffic {
    pub(super) patterns: Vec<ReadPattern>,
    pub(super) tables: Vec<ReadTable>,
    #[serde(default)]
    pub(super) clients: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ReadPattern {
    pub(super) id: PatternId,
    pub(super) keyspace: Option<String>,
    pub(super) table: Option<String>,
    pub(super) cql: String,
    pub(super) count: u64,
    #[serde(default)]
    observed_seconds: f64,
    pub(super) errors: u64,
    latency_us: ReadQuantile,
    partitions: ReadQuantile,
    #[serde(default)]
    time_us: u64,
}

/// A p99. Reports of versions that do not say how sure it is are taken at their word.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct ReadQuantile {
    p99: u64,
    p99_between: Option<[u64; 2]>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ReadTable {
    pub(super) keyspace: String,
    pub(super) table: String,
    #[serde(default)]
    pub(super) columns: Vec<ColumnReport>,
}

impl ReadReport {
    /// Reads a report.
    ///
    /// # Errors
    /// What is no report of this version of the format.
    pub fn read(from: impl Read) -> Result<Self, BaselineError> {
        Self::of(&serde_json::from_reader(from)?)
    }

    /// Takes what is compared from a report in its JSON form.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of(report: &Value) -> Result<Self, BaselineError> {
        let seen = ReadTraffic::deserialize(report)?;
        let mut by_id = HashMap::new();
        for (at, pattern) in seen.patterns.iter().enumerate() {
            by_id.entry(pattern.id).or_insert(at);
        }
        Ok(Self {
            judged: Baseline::of(report)?,
            seen,
            by_id,
        })
    }

    /// The pattern, with the seconds in which it could be seen.
    pub(super) fn pattern(&self, id: PatternId) -> Option<&ReadPattern> {
        work::look(1);
        self.seen.patterns.get(*self.by_id.get(&id)?)
    }

    /// Seconds in which any source watched.
    pub(super) fn seconds(&self) -> f64 {
        self.judged.window.seconds
    }
}

impl ReadPattern {
    pub(super) fn counted(&self) -> Counted {
        Counted {
            times: self.count,
            seconds: self.observed_seconds,
        }
    }

    pub(super) fn latency(&self) -> Estimate {
        self.latency_us.estimate()
    }

    pub(super) fn partitions(&self) -> Estimate {
        self.partitions.estimate()
    }

    /// Microseconds that all executions took, a second.
    pub(super) fn time_per_second(&self) -> f64 {
        let all = Counted {
            times: self.time_us,
            ..self.counted()
        };
        all.rate()
    }
}

impl ReadQuantile {
    fn estimate(self) -> Estimate {
        Estimate {
            value: self.p99,
            between: self.p99_between.unwrap_or([self.p99; 2]),
        }
    }
}
