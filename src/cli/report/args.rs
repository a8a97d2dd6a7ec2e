//! The arguments of `cqlens report`.

use std::path::PathBuf;

use jiff::Timestamp;

use super::merged::Choice;
use crate::cli::config::time;
use cqlens_report::{Format, Selection};
use cqlens_rules::Severity;

/// Merge snapshots into a report
///
/// From any period, and from any number of proxies.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ENDING)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    /// Format of the report
    ///
    /// By default, the ending of the output file decides; printed output is Markdown.
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    /// Write the report to this file
    ///
    /// Otherwise it is printed.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Selection")]
    pub(super) selection: Selection,
    /// Mark changes since this report (JSON form)
    ///
    /// Findings that are gone since then are listed.
    #[arg(long, value_name = "FILE", help_heading = "Review")]
    pub(super) baseline: Option<PathBuf>,
    /// Add the comparison of a shadow or replay with a second cluster (JSON)
    ///
    /// `cqlens proxy --shadow-report` and `cqlens replay --output` write it.
    #[arg(long, value_name = "FILE", help_heading = "Review", hide_short_help = true)]
    pub(super) comparison: Option<PathBuf>,
    /// Exit with code 1 on findings of this severity or above
    ///
    /// Findings accepted in the settings file do not count.
    #[arg(long, value_name = "SEVERITY", help_heading = "Review")]
    pub(super) fail_on: Option<Severity>,
    /// Exit with code 1 if such a finding is new or worse than in the baseline
    #[arg(long, value_name = "SEVERITY", requires = "baseline", help_heading = "Review")]
    pub(super) fail_on_new: Option<Severity>,
}

/// Which snapshots are read.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SourceArgs {
    /// Snapshots, folders of them, or recordings
    ///
    /// From a folder, the files that end in .cqlens.json.gz or .cqlens.json; from a recording, those in its folder
    /// snapshots.
    #[cfg_attr(not(feature = "fleet"), arg(required = true, value_name = "SNAPSHOT"))]
    #[cfg_attr(
        feature = "fleet",
        arg(required_unless_present = "from", value_name = "SNAPSHOT")
    )]
    pub(super) snapshots: Vec<PathBuf>,
    /// Read from the store that proxies write to with --sink
    ///
    /// With --since: only the days from then on are read.
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "URL", conflicts_with = "snapshots", requires = "since")]
    pub(super) from: Option<cqlens_fleet::Address>,
    /// Fail if a snapshot is damaged
    ///
    /// By default, a damaged snapshot is left out and listed.
    #[arg(long)]
    pub(super) strict: bool,
    /// Only windows that begin at this time or later
    ///
    /// 2026-11-14, 2026-11-14T06:00Z, or 7d for seven days ago.
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Selection")]
    pub(super) since: Option<Timestamp>,
    /// Only windows that begin before this time
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Selection")]
    pub(super) until: Option<Timestamp>,
    /// Only windows of the cluster of this name
    #[arg(long, value_name = "NAME", help_heading = "Selection", hide_short_help = true)]
    pub(super) cluster: Option<String>,
}

impl SourceArgs {
    pub(super) fn choice(&self) -> Choice {
        Choice {
            since: self.since,
            until: self.until,
            cluster: self.cluster.clone(),
            strict: self.strict,
        }
    }
}

const ENDING: &str = "Examples:
  The last seven days as a page:
      cqlens report snapshots --since 7d -o week.html
  One table, the worst ten problems:
      cqlens report snapshots --table shop.orders --top 10
  Fail a build on what is new since the last review:
      cqlens report snapshots --baseline reviewed.json --fail-on-new medium

Exit codes:
  0  done
  1  a finding at or above --fail-on or --fail-on-new
  2  snapshots that cannot be read or are of different clusters, no window in
     the span of time";
