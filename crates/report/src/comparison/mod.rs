//! The responses of two clusters to the same requests, compared: a JSON form, and a section of a report.
//!
//! Replay and shadow fill it in; here it is only read, written and shown. It contains statements without their values,
//! and of responses the number of rows, never their contents.

mod kinds;
mod latency;
pub(super) mod markdown;
mod text;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, Read, Write},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Report, Tool};
use crate::text::Lines;
use cqlens_window::number;

pub use kinds::{DifferenceKind, NotCompared, Skipped};
pub use latency::{BothLatencies, ComparedLatency, ComparedQuantile};

/// The name and version of the format, the first field of the JSON form.
pub const COMPARISON_FORMAT: &str = "cqlens.comparison.v1";

/// The responses of two clusters to the same requests, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Always `cqlens.comparison.v1`.
    #[cfg_attr(feature = "json-schema", schemars(extend("const" = COMPARISON_FORMAT)))]
    pub format: Cow<'static, str>,
    /// What wrote it.
    pub tool: Tool,
    /// What was compared, and when.
    #[serde(flatten)]
    pub about: ComparisonAbout,
    /// All patterns together.
    pub totals: ComparedPattern,
    /// How many patterns differ, noise apart.
    pub patterns_that_differ: u64,
    /// Those that could be counted by pattern, the ones that differ first.
    pub patterns: Vec<ComparedPattern>,
}

/// What was compared, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ComparisonAbout {
    /// The recording, proxy or cluster that is compared with.
    pub first: String,
    /// The other cluster.
    pub other: String,
    /// When the first request was sent.
    pub started: Timestamp,
    /// When this was written.
    pub ended: Timestamp,
    /// The connections to the other cluster.
    pub connections: ConnectionCounts,
    /// How a replay went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<ReplayPace>,
    /// Requests that were not even offered, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_offered: BTreeMap<String, u64>,
}

/// What the connections to a cluster have been through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ConnectionCounts {
    /// Nodes that requests are sent to.
    #[serde(default)]
    pub nodes: u64,
    /// Of these, those to which no connection was open at the end.
    #[serde(default)]
    pub nodes_unreachable: u64,
    /// Requests that were sent to a node that holds their partition, because that was known.
    #[serde(default)]
    pub sent_to_replicas: u64,
    /// Connections that were opened.
    pub connections_opened: u64,
    /// Connections that were lost, or that could not be opened.
    pub connections_lost: u64,
    /// Statements that were prepared.
    pub prepared: u64,
    /// Prepared statements that a node no longer had.
    pub unprepared: u64,
}

/// How a replay has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReplayEnd {
    /// At the end of the recording.
    Complete,
    /// Stopped by a signal.
    Stopped,
    /// Too many requests failed.
    TooManyErrors,
}

/// How a replay went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ReplayPace {
    /// How it has ended.
    pub end: ReplayEnd,
    /// Exchanges of the recording.
    pub exchanges: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Seconds from the first request to the last.
    pub seconds: f64,
    /// Requests sent per second.
    pub per_second: f64,
    /// How late requests were sent, in microseconds; without those that had to wait for an earlier response.
    pub late_us: Option<ComparedLatency>,
}

/// The figures of one pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ComparedPattern {
    /// Its id in reports; none of all patterns together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The statement without its values.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cql: String,
    /// The keyspace of unqualified names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyspace: Option<String>,
    /// Requests of the first cluster.
    pub executions: u64,
    /// Results that were compared.
    pub compared: u64,
    /// Of these, those that differed at first and no longer when both were repeated.
    pub agreed_later: u64,
    /// Of these, those that differ.
    pub differing: u64,
    /// In which way.
    pub differences: BTreeMap<DifferenceKind, u64>,
    /// Whether they differ no more than two responses of the first cluster.
    pub is_noise: bool,
    /// One of the most severe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<DifferenceExample>,
    /// Requests that were not sent or got no response, by reason.
    pub skipped: BTreeMap<Skipped, u64>,
    /// Results that were not compared, by reason.
    pub not_compared: BTreeMap<NotCompared, u64>,
    /// Requests that the first cluster was sent twice.
    pub noise: AskedTwice,
    /// Latencies of both.
    pub latency_us: BothLatencies,
}

/// In which way two responses differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// In which way.
    pub kind: DifferenceKind,
    /// What the first cluster gave, without values.
    pub expected: String,
    /// What the other cluster gave, without values.
    pub actual: String,
    /// The columns that differ, if known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

/// A difference, and where it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct DifferenceExample {
    /// The difference.
    #[serde(flatten)]
    pub difference: Difference,
    /// When the request came, in microseconds since 1970.
    pub at_us: i64,
    /// The number of the exchange in its recording or run.
    pub exchange: u64,
}

/// Requests that one cluster was sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct AskedTwice {
    /// All of them.
    pub asked: u64,
    /// Those whose two responses differed.
    pub differed: u64,
}

/// How a comparison is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonFormat {
    /// [`COMPARISON_FORMAT`].
    Json,
    /// For people, in a page or a comment.
    Markdown,
    /// For people at a terminal.
    Text,
}

/// Why something is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum ComparisonError {
    /// It is no JSON, or not of this form.
    #[error("not a comparison in its JSON form")]
    Form(#[from] serde_json::Error),
    /// It says another format.
    #[error("its format is {0:?}, not \"cqlens.comparison.v1\"")]
    Format(String),
}

/// What latencies beside each other say.
pub(super) const MEANING: &str = "In brackets: the interval that holds the quantile with a probability of 95 %. How many times as long the \
     other cluster takes is said where the intervals of the medians have nothing in common.";

impl Comparison {
    /// Reads the JSON form.
    ///
    /// # Errors
    /// What is none.
    pub fn read(from: impl Read) -> Result<Self, ComparisonError> {
        let comparison: Self = serde_json::from_reader(from)?;
        match comparison.format == COMPARISON_FORMAT {
            true => Ok(comparison),
            false => Err(ComparisonError::Format(comparison.format.into_owned())),
        }
    }

    /// Whether anything differs that is no noise.
    pub fn differs(&self) -> bool {
        self.patterns_that_differ > 0
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn render(&self, format: ComparisonFormat, to: &mut dyn Write) -> io::Result<()> {
        match format {
            ComparisonFormat::Json => {
                serde_json::to_writer_pretty(Lines::of_json(&mut *to), self)?;
                writeln!(to)
            }
            ComparisonFormat::Markdown => markdown::render(self, to),
            ComparisonFormat::Text => text::render(self, to),
        }
    }

    /// `3 of 1,000 results differ, in 1 pattern.`
    pub fn headline(&self) -> String {
        let totals = &self.totals;
        if totals.compared == 0 {
            let requests = number::plural(totals.executions, "request", "requests");
            return format!("Nothing was compared of {requests}.");
        }
        let compared = number::plural(totals.compared, "result", "results");
        match self.patterns_that_differ {
            0 => format!("No difference in {compared}."),
            patterns => format!(
                "{} of {compared} {}, in {}.",
                number::count(totals.differing),
                if totals.differing == 1 {
                    "differs"
                } else {
                    "differ"
                },
                number::plural(patterns, "pattern", "patterns"),
            ),
        }
    }

    /// What was looked at and what was not, in whole lines.
    pub fn coverage(&self) -> Vec<String> {
        let totals = &self.totals;
        let mut lines = vec![format!(
            "{}, {} compared, {} of these equal only when repeated",
            number::plural(totals.executions, "request", "requests"),
            number::plural(totals.compared, "result", "results"),
            number::count(totals.agreed_later),
        )];
        lines.extend(self.about.pace.as_ref().map(ToString::to_string));
        lines.extend(self.about.connections.line());
        lines.extend(counted(
            "not sent, or no response",
            &totals.skipped,
            Skipped::text,
        ));
        lines.extend(counted("not compared", &totals.not_compared, NotCompared::text));
        let not_offered = self.about.not_offered.iter();
        lines.extend(
            not_offered.map(|(why, count)| format!("left out before: {} ({why})", number::count(*count))),
        );
        if totals.noise.asked > 0 {
            lines.push(format!(
                "repeated on the first cluster: {}, {} of these differed",
                number::plural(totals.noise.asked, "time", "times"),
                number::count(totals.noise.differed)
            ));
        }
        if totals.latency_us.are_measured() {
            let [first, other, ..] = totals.latency_us.cells();
            lines.push(format!("median latency: first {first}, other {other}"));
        }
        lines
    }

    /// The patterns that differ, noise last.
    pub(super) fn differing(&self) -> impl Iterator<Item = &ComparedPattern> {
        self.patterns.iter().filter(|pattern| pattern.differing > 0)
    }

    /// The patterns that a section of a report shows: those that differ, then those whose latencies are known.
    pub(super) fn shown(&self) -> impl Iterator<Item = &ComparedPattern> {
        let is_shown =
            |pattern: &&ComparedPattern| pattern.differing > 0 || pattern.latency_us.are_measured();
        self.patterns.iter().filter(is_shown)
    }

    /// The patterns whose latency is known of both clusters.
    pub(super) fn measured(&self) -> impl Iterator<Item = &ComparedPattern> {
        self.patterns
            .iter()
            .filter(|pattern| pattern.latency_us.are_measured())
    }
}

impl ConnectionCounts {
    /// How requests were spread over several nodes.
    fn line(&self) -> Option<String> {
        let unreachable = match self.nodes_unreachable {
            0 => String::new(),
            nodes => format!(" ({} out of reach in the end)", number::count(nodes)),
        };
        (self.nodes > 1).then(|| {
            format!(
                "sent to {} nodes{unreachable}, {} to one that holds the partition",
                number::count(self.nodes),
                number::plural(self.sent_to_replicas, "request", "requests")
            )
        })
    }
}

fn counted<Why: Copy>(what: &str, counts: &BTreeMap<Why, u64>, text: fn(Why) -> &'static str) -> Vec<String> {
    let line = |(why, count): (&Why, &u64)| format!("{what}: {} ({})", number::count(*count), text(*why));
    counts.iter().map(line).collect()
}

impl ComparedPattern {
    /// `3 of 1,000 results: another number of rows`.
    pub(super) fn title(&self) -> String {
        format!(
            "{} of {}: {}",
            number::count(self.differing),
            number::plural(self.compared, "result", "results"),
            self.ways()
        )
    }

    /// In which way it differs: each with its count, where there are several.
    pub(super) fn ways(&self) -> String {
        let are_several = self.differences.len() > 1;
        let ways = self.differences.iter().map(|(kind, count)| match are_several {
            true => format!("{} ({})", kind.text(), number::count(*count)),
            false => kind.text().to_owned(),
        });
        let mut ways = ways.collect::<Vec<_>>().join(", ");
        if self.is_noise {
            ways += "; no more often than two responses of the first cluster differ";
        }
        ways
    }

    /// Latencies as cells: medians, how many times the first the other is, 99th percentiles.
    pub(super) fn latencies(&self) -> [String; 5] {
        let [first, other, first_p99, other_p99] = self.latency_us.cells();
        [first, other, self.latency_us.times_cell(), first_p99, other_p99]
    }

    /// The example in words.
    pub(super) fn example(&self) -> Option<String> {
        self.example.as_ref().map(|example| {
            let difference = &example.difference;
            let columns = match difference.columns.is_empty() {
                true => String::new(),
                false => format!(" (columns: {})", difference.columns.join(", ")),
            };
            format!("{}, not {}{columns}", difference.actual, difference.expected)
        })
    }
}

impl Report {
    /// The same report with the comparison with a second cluster.
    #[must_use]
    pub fn compared(self, comparison: Option<Comparison>) -> Self {
        Self { comparison, ..self }
    }
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
