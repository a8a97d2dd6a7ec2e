//! A report in its JSON form, as far as two are compared.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};

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
    #[serde(default, deserialize_with = "clients")]
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

/// A window has a thousand; each takes more memory than text.
const MOST_CLIENTS: usize = 100_000;

fn clients<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, u64>, D::Error> {
    struct Clients;

    impl<'de> Visitor<'de> for Clients {
        type Value = BTreeMap<String, u64>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("requests by client")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut stored: A) -> Result<Self::Value, A::Error> {
            let mut clients = BTreeMap::new();
            while let Some((client, requests)) = stored.next_entry()? {
                clients.insert(client, requests);
                if clients.len() > MOST_CLIENTS {
                    return Err(A::Error::custom("more clients than a report has"));
                }
            }
            Ok(clients)
        }
    }

    deserializer.deserialize_map(Clients)
}

impl ReadReport {
    /// Reads a report.
    ///
    /// # Errors
    /// What is no report of this version of the format.
    pub fn read(text: &[u8]) -> Result<Self, BaselineError> {
        let judged = Baseline::read(text)?;
        let seen: ReadTraffic = serde_json::from_slice(text)?;
        let mut by_id = HashMap::new();
        for (at, pattern) in seen.patterns.iter().enumerate() {
            by_id.entry(pattern.id).or_insert(at);
        }
        Ok(Self { judged, seen, by_id })
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::diff::testing::scan;

    /// The attack: a few characters of an unknown key became a hundred bytes each.
    #[test]
    fn what_is_not_compared_takes_no_memory() {
        let mut report = scan("items", 1_000);
        let objects: Vec<_> = (0..100_000).map(|_| serde_json::json!({"": 0})).collect();
        report["later"] = objects.clone().into();
        report["findings"][0]["acceptance"] = serde_json::json!({"owner": "shop", "later": objects});
        let text = report.to_string();
        let once = text.len() as u64;
        let baseline = allocation_counter::measure(|| drop(Baseline::read(text.as_bytes()).unwrap()));
        assert!(baseline.bytes_max < once / 4, "{} of {once}", baseline.bytes_max);
        let read = allocation_counter::measure(|| drop(ReadReport::read(text.as_bytes()).unwrap()));
        assert!(read.bytes_max < once / 4, "{} of {once}", read.bytes_max);
    }

    #[test]
    fn a_report_has_a_limited_number_of_clients() {
        let mut report = scan("items", 1_000);
        let mut read = |clients: usize| {
            let clients = (0..clients).map(|client| (client.to_string(), 1.into()));
            report["clients"] = serde_json::Value::Object(clients.collect());
            ReadReport::read(report.to_string().as_bytes()).is_ok()
        };
        assert!(read(MOST_CLIENTS));
        assert!(!read(MOST_CLIENTS + 1));
    }
}
