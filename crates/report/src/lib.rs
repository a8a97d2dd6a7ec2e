#![doc = include_str!("../README.md")]
//!
//! A window, its findings and the schema as one value, rendered as HTML, Markdown or JSON.
//!
//! [`Report::new`] is a pure function: the same window gives the same report. The JSON form is a contract:
//! fields may be added, none is renamed. Times are RFC 3339, durations `_us`, sizes `_bytes`.

mod acceptance;
mod application;
mod baseline;
mod brief;
mod build;
mod by_table;
mod chapter;
mod chebotko;
mod comparison;
mod coverage_notes;
mod csv;
mod diff;
mod errors;
mod evidence;
mod finding;
mod histogram;
mod html;
mod identity;
mod json;
#[cfg(feature = "json-schema")]
mod json_schema;
#[cfg(test)]
mod linear;
mod load;
mod markdown;
mod parts;
mod ranking;
mod selection;
mod sequence;
mod summary;
#[cfg(test)]
mod testing;
pub mod text;
mod timeline;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
};

use jiff::Timestamp;
use serde::Serialize;

use cqlens_rules::{Applied, BlindSpot};
use cqlens_window::{Cluster, Coverage};

pub use application::ApplicationReport;
pub use baseline::{Baseline, BaselineError, Gone, LastReview, Review, SinceReview};
pub use by_table::TableGroup;
pub use chapter::{Chapter, ChapterTables, ModelReport};
pub use comparison::{
    AskedTwice, BothLatencies, COMPARISON_FORMAT, ComparedLatency, ComparedPattern, ComparedQuantile,
    Comparison, ComparisonAbout, ComparisonError, ComparisonFormat, ConnectionCounts, Difference,
    DifferenceExample, DifferenceKind, NotCompared, ReplayEnd, ReplayPace, Skipped,
};
pub use diff::{
    ChangedDefinition, ClientChanges, ComparedReport, DiffFormat, Figure, FigureChange, FindingChange,
    FindingChanges, PatternChange, PatternChanges, ReadReport, ReportDiff,
};
pub use finding::{Chart, FindingReport, ProblemReport};
#[cfg(feature = "json-schema")]
pub use json_schema::{json_reference, json_schema_of, json_schemas};
pub use load::{LoadReport, NodeReport, RingReport, RoutingReport, SliceReport};
pub use parts::{
    ColumnReport, ColumnRole, Latency, ObservedTombstones, PartitionWeight, PartitionsReport, PatternReport,
    PerRead, Quantiles, RepeatsReport, ScannedReport, Span, Summary, TableReport, TokenRangesReport, Tool,
    TopPartition, Totals,
};
pub use selection::Selection;
pub use sequence::{SequenceReport, StepReport};
pub use timeline::{PatternTimeline, TableTimeline, Timeline, TimelinePoint, TimelineReport, VersionSeen};

/// The format's name and version, the first field of the JSON form.
pub const FORMAT: &str = "cqlens.report.v1";

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Format {
    /// One self-contained file.
    Html,
    /// For pull requests and wikis.
    #[cfg_attr(feature = "clap", value(alias = "markdown"))]
    Md,
    /// For programs.
    Json,
    /// The statements, for spreadsheets.
    Csv,
    /// The same with tabs between the fields.
    Tsv,
    /// The tables and the queries of each keyspace as Chebotko diagrams.
    Svg,
}

impl Format {
    /// The endings of [`Self::of_path`], in words.
    pub const ENDINGS: &str = ".html, .md, .json, .csv, .tsv or .svg";

    /// The ending of files of this format, without its dot.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Md => "md",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Svg => "svg",
        }
    }

    /// The format that a file name asks for by its ending (`.html`, `.md`, `.json`, `.csv`, `.tsv`,
    /// `.svg`).
    pub fn of_path(path: &std::path::Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "html" | "htm" => Some(Self::Html),
            "md" | "markdown" => Some(Self::Md),
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "tsv" => Some(Self::Tsv),
            "svg" => Some(Self::Svg),
            _ => None,
        }
    }
}

/// The whole report.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `cqlens.report.v1`.
    #[cfg_attr(feature = "json-schema", schemars(extend("const" = FORMAT)))]
    pub format: &'static str,
    /// What a reader must know before any number, in full sentences; about the coverage.
    pub notices: BTreeSet<String>,
    /// What wrote it.
    pub tool: Tool,
    /// When it was made.
    pub generated_at: Timestamp,
    /// The time that it covers.
    pub window: Span,
    /// The cluster that the traffic belongs to.
    pub cluster: Cluster,
    /// The verdict: how bad it is, and what is worst.
    pub summary: Summary,
    /// Models side by side, if the sender of the traffic has declared which operations are the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chapters: Vec<Chapter>,
    /// The comparison with a second cluster; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// What was observed, and what was not.
    pub coverage: Coverage,
    /// Over all user keyspaces.
    pub totals: Totals,
    /// How it changed over time; absent if there are fewer than three points, or if the times were not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineReport>,
    /// What belongs to which table, for reports that are read table by table: the table with the worst problem first, those
    /// without problems by their traffic, what belongs to no single table at the end. Absent unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_table: Option<Vec<TableGroup>>,
    /// By table and view, the busiest first.
    pub tables: Vec<TableReport>,
    /// By template, the costliest first; user keyspaces only.
    pub patterns: Vec<PatternReport>,
    /// By template: drivers' and tools' own statements on system keyspaces.
    pub system_patterns: Vec<PatternReport>,
    /// By node and by token.
    pub load: LoadReport,
    /// Statements that belong together.
    pub sequences: Vec<SequenceReport>,
    /// The findings that are not accepted, grouped by cause; the severest first, then the costliest.
    pub problems: Vec<ProblemReport>,
    /// The findings that are not accepted, the severest first, then the costliest.
    pub findings: Vec<FindingReport>,
    /// Findings that are accepted, the costliest first.
    pub accepted: Vec<FindingReport>,
    /// Acceptances of what was not found.
    pub idle_acceptances: Vec<Applied>,
    /// Comments and settings that look like acceptances but are not valid, in full sentences.
    pub acceptance_mistakes: Vec<String>,
    /// The last review, if the report was compared with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<LastReview>,
    /// The ids of all rules that were run.
    pub rules: Vec<&'static str>,
    /// What the rules could not see.
    pub blind_spots: Vec<BlindSpot>,
    /// By application, those that send most first.
    pub applications: Vec<ApplicationReport>,
    /// Requests by client.
    pub clients: BTreeMap<String, u64>,
}

impl Report {
    /// Writes the report to `to`.
    ///
    /// # Errors
    /// Whatever `to` fails with.
    pub fn render(&self, format: Format, to: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Html => html::render(self, to),
            Format::Md => markdown::render(self, to),
            Format::Json => json::render(self, to),
            Format::Csv => csv::render(self, b',', to),
            Format::Tsv => csv::render(self, b'\t', to),
            Format::Svg => chebotko::render(self, to),
        }
    }

    /// Writes the findings alone, as JSON: fields of the JSON form, under its names.
    ///
    /// # Errors
    /// Whatever `to` fails with.
    pub fn render_findings(&self, to: &mut dyn Write) -> io::Result<()> {
        json::render_findings(self, to)
    }
}
