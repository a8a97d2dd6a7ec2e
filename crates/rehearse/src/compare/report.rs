//! What was found, as JSON, Markdown and text for terminals.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Write},
};

use cqlens_audit::{number, text::escaped};
use serde::Serialize;

use super::{
    DifferenceKind, Example, LatencySummary, NotCompared, PatternTally, Quantile, Tally, tally::Noise,
};
use crate::{replay::Pace, skipped::Skipped, target::TargetCounts};

/// The format of the JSON form; adding to it is free.
pub const FORMAT: &str = "cqlens.comparison.v1";

/// What two clusters have answered to the same requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`FORMAT`].
    pub format: &'static str,
    /// Who made it.
    pub tool: Tool,
    /// What was compared, and when.
    #[serde(flatten)]
    pub about: About,
    /// All patterns together.
    pub totals: PatternReport,
    /// How many patterns differ, noise apart.
    pub patterns_that_differ: u64,
    /// Those of which there was room to count by pattern, the ones that differ first.
    pub patterns: Vec<PatternReport>,
}

/// Who made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tool {
    /// `cqlens`.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// What was compared, and when.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct About {
    /// The recording, proxy or cluster that is compared with.
    pub first: String,
    /// The other cluster.
    pub other: String,
    /// When the first request was sent, RFC 3339.
    pub started: String,
    /// When this was written, RFC 3339.
    pub ended: String,
    /// Its connections.
    pub connections: TargetCounts,
    /// How a replay went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Requests that were not even offered, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_offered: BTreeMap<String, u64>,
}

/// What was found of one pattern.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PatternReport {
    /// Its name in reports; none of all patterns together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The statement without its values.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cql: String,
    /// The keyspace of unqualified names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyspace: Option<String>,
    /// Requests of the first cluster.
    pub executions: u64,
    /// Results that were compared.
    pub compared: u64,
    /// Of these, those that differed at first and no longer when both were asked again.
    pub agreed_later: u64,
    /// Of these, those that differ.
    pub differing: u64,
    /// In which way.
    pub differences: BTreeMap<DifferenceKind, u64>,
    /// Whether they differ no more than two responses of the first cluster.
    pub is_noise: bool,
    /// One of the gravest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Example>,
    /// Requests that were not sent or not answered, by reason.
    pub skipped: BTreeMap<Skipped, u64>,
    /// Results that were not compared, by reason.
    pub not_compared: BTreeMap<NotCompared, u64>,
    /// Requests that the first cluster was sent twice.
    pub noise: Noise,
    /// Latencies of both.
    pub latency_us: Both,
}

/// Latencies of both clusters, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Both {
    /// Of the first; none where they were not measured.
    pub first: Option<LatencySummary>,
    /// Of the other.
    pub other: Option<LatencySummary>,
}

/// How a comparison is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonFormat {
    /// [`FORMAT`].
    Json,
    /// For people, in a page or a comment.
    Markdown,
    /// For people at a terminal.
    Text,
}

impl Comparison {
    /// The report of what was tallied.
    pub fn of(tally: &Tally, about: About) -> Self {
        let ranked = tally.ranked();
        let patterns: Vec<_> = ranked
            .iter()
            .map(|(id, tally)| PatternReport::of(Some(id), tally))
            .collect();
        let others = tally
            .others
            .iter()
            .filter(|others| others.is_above_noise())
            .count();
        let differing = ranked.iter().filter(|(_, tally)| tally.is_above_noise()).count();
        Self {
            format: FORMAT,
            tool: Tool {
                name: "cqlens",
                version: env!("CARGO_PKG_VERSION"),
            },
            about,
            totals: PatternReport::of(None, &tally.total()),
            patterns_that_differ: (differing + others) as u64,
            patterns,
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
                serde_json::to_writer_pretty(&mut *to, self)?;
                writeln!(to)
            }
            ComparisonFormat::Markdown => self.markdown(to),
            ComparisonFormat::Text => self.text(to),
        }
    }

    fn headline(&self) -> String {
        let totals = &self.totals;
        if totals.compared == 0 {
            return format!(
                "Nothing was compared in {}.",
                number::plural(totals.executions, "request", "requests")
            );
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

    fn markdown(&self, to: &mut dyn Write) -> io::Result<()> {
        writeln!(
            to,
            "# Comparison of {} with {}\n",
            escaped(&self.about.first),
            escaped(&self.about.other)
        )?;
        writeln!(to, "**{}**\n", self.headline())?;
        for line in self.coverage() {
            writeln!(to, "- {line}")?;
        }
        for pattern in self.patterns.iter().filter(|pattern| pattern.differing > 0) {
            writeln!(to, "\n## {}\n", pattern.title())?;
            writeln!(to, "```cql\n{}\n```\n", escaped(&pattern.cql))?;
            for line in pattern.lines() {
                writeln!(to, "- {line}")?;
            }
        }
        let measured = self
            .patterns
            .iter()
            .filter(|pattern| pattern.latency_us.is_measured());
        let mut measured = measured.take(MOST_LATENCIES).peekable();
        if measured.peek().is_none() {
            return Ok(());
        }
        writeln!(
            to,
            "\n## Latency\n\n| pattern | first p50 | other p50 | first p99 | other p99 |\n| --- | ---: | ---: | ---: | ---: |"
        )?;
        for pattern in measured {
            let [p50, other_p50, p99, other_p99] = pattern.latency_us.cells();
            let cql = cut(&pattern.cql, 80).replace('|', "\\|").replace('`', "'");
            writeln!(to, "| `{cql}` | {p50} | {other_p50} | {p99} | {other_p99} |")?;
        }
        writeln!(
            to,
            "\nIn brackets: the interval that holds the quantile with a probability of 95 %."
        )
    }

    fn text(&self, to: &mut dyn Write) -> io::Result<()> {
        writeln!(
            to,
            "{} compared with {}",
            escaped(&self.about.first),
            escaped(&self.about.other)
        )?;
        writeln!(to, "{}\n", self.headline())?;
        for line in self.coverage() {
            writeln!(to, "  {line}")?;
        }
        for pattern in self
            .patterns
            .iter()
            .filter(|pattern| pattern.differing > 0)
            .take(MOST_IN_TEXT)
        {
            writeln!(to, "\n{}", pattern.title())?;
            writeln!(to, "  {}", cut(&pattern.cql, 300))?;
            for line in pattern.lines() {
                writeln!(to, "  {line}")?;
            }
        }
        Ok(())
    }

    /// What was looked at and what was not.
    fn coverage(&self) -> Vec<String> {
        let totals = &self.totals;
        let mut lines = vec![format!(
            "{}, {} compared, {} of them equal only after a repeat",
            number::plural(totals.executions, "request", "requests"),
            number::plural(totals.compared, "result", "results"),
            number::count(totals.agreed_later),
        )];
        if let Some(pace) = &self.about.pace {
            lines.push(pace.to_string());
        }
        lines.extend(totals.skipped.iter().map(|(why, count)| {
            format!(
                "not sent or without a response: {} ({})",
                number::count(*count),
                why.text()
            )
        }));
        lines.extend(
            totals
                .not_compared
                .iter()
                .map(|(why, count)| format!("not compared: {} ({})", number::count(*count), why.text())),
        );
        let not_offered = self.about.not_offered.iter();
        lines.extend(
            not_offered.map(|(why, count)| format!("left out before: {} ({why})", number::count(*count))),
        );
        if totals.noise.asked > 0 {
            lines.push(format!(
                "sent to the first cluster twice: {}, {} of these differed",
                number::plural(totals.noise.asked, "time", "times"),
                number::count(totals.noise.differed)
            ));
        }
        if let [first, other, ..] = totals.latency_us.cells()
            && totals.latency_us.is_measured()
        {
            lines.push(format!("median latency: first {first}, other {other}"));
        }
        lines
    }
}

/// Patterns whose latency a page shows.
const MOST_LATENCIES: usize = 50;
/// Patterns that a terminal shows.
const MOST_IN_TEXT: usize = 10;

impl PatternReport {
    fn of(id: Option<&str>, tally: &PatternTally) -> Self {
        Self {
            id: id.map(ToOwned::to_owned),
            cql: tally.shape.to_string(),
            keyspace: tally.keyspace.as_deref().map(ToOwned::to_owned),
            executions: tally.executions,
            compared: tally.compared,
            agreed_later: tally.agreed_later,
            differing: tally.differing(),
            differences: tally.differences.clone(),
            is_noise: tally.differing() > 0 && !tally.is_above_noise(),
            example: tally.example.clone(),
            skipped: tally.skipped.clone(),
            not_compared: tally.not_compared.clone(),
            noise: tally.noise,
            latency_us: Both {
                first: tally.first_latency.summary(),
                other: tally.other_latency.summary(),
            },
        }
    }

    fn title(&self) -> String {
        let kinds: Vec<_> = self.differences.keys().map(|kind| kind.text()).collect();
        let noise = if self.is_noise {
            ", as often as the first cluster contradicts itself"
        } else {
            ""
        };
        format!(
            "{} of {}: {}{noise}",
            number::count(self.differing),
            number::plural(self.compared, "result", "results"),
            kinds.join(", ")
        )
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(id) = &self.id {
            lines.push(format!("pattern {}", cut(id, 80)));
        }
        if self.differences.len() > 1 {
            lines.extend(
                self.differences
                    .iter()
                    .map(|(kind, count)| format!("{}: {}", kind.text(), number::count(*count))),
            );
        }
        if let Some(example) = &self.example {
            let difference = &example.difference;
            let columns = match difference.columns.is_empty() {
                true => String::new(),
                false => format!(" (columns: {})", difference.columns.join(", ")),
            };
            lines.push(
                escaped(&format!(
                    "exchange {}: {} returned {}, not {}{columns}",
                    example.exchange, "the other cluster", difference.actual, difference.expected
                ))
                .into_owned(),
            );
        }
        lines
    }
}

impl Both {
    fn is_measured(&self) -> bool {
        self.first.is_some() && self.other.is_some()
    }

    /// Medians of both, then 99th percentiles of both.
    fn cells(&self) -> [String; 4] {
        let cell = |summary: Option<LatencySummary>, quantile: fn(&LatencySummary) -> Quantile| {
            summary.map_or_else(|| "–".to_owned(), |summary| quantile(&summary).to_string())
        };
        let (p50, p99) = (
            |summary: &LatencySummary| summary.p50,
            |summary: &LatencySummary| summary.p99,
        );
        [
            cell(self.first, p50),
            cell(self.other, p50),
            cell(self.first, p99),
            cell(self.other, p99),
        ]
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |end: Option<u64>| end.map_or_else(|| "?".to_owned(), number::micros);
        write!(
            formatter,
            "{} ({} to {})",
            number::micros(self.value),
            end(self.low),
            end(self.high)
        )
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "sent {} in {}, {}",
            number::plural(self.sent, "request", "requests"),
            number::seconds(self.seconds),
            number::rate(self.per_second)
        )?;
        match &self.late_us {
            Some(late) => write!(
                formatter,
                "; late by {} (median), {} (p99)",
                number::micros(late.p50.value),
                number::micros(late.p99.value)
            ),
            None => Ok(()),
        }
    }
}

fn cut(text: &str, most: usize) -> String {
    let text = escaped(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}
