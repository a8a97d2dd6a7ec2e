//! The arguments of `cqlens report`.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::cli::config::time;
use cqlens_audit::{
    report::{Format, Selection},
    rules::Severity,
};

/// Merges snapshots of any time and any number of proxies into one report.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Snapshot files, or folders of them (`*.cqlens.json.gz`, `*.cqlens.json`).
    #[arg(required = true, value_name = "SNAPSHOT")]
    pub(super) snapshots: Vec<PathBuf>,
    /// How the report is written. Without it the ending of the output file decides; else it is Markdown.
    #[arg(long)]
    pub(super) format: Option<Format>,
    /// Only windows that begin at this time or later: 2026-11-14, 2026-11-14T06:00Z,
    /// or 7d for seven days ago.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) since: Option<Timestamp>,
    /// Only windows that begin before this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) until: Option<Timestamp>,
    /// Refuse to report where a snapshot is damaged. Without it, the damaged one is left out and named.
    #[arg(long)]
    pub(super) strict: bool,
    /// Where to; standard output without it.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) selection: Selection,
    /// The JSON report of the last review: what is new since then is marked, what is gone is listed.
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,
    /// Exit with code 1 if a finding that is not accepted is of this severity or above.
    #[arg(long, value_name = "SEVERITY")]
    pub(super) fail_on: Option<Severity>,
    /// Exit with code 1 if a finding that is not accepted is of this severity or above, and is new or less severe
    /// in the baseline.
    #[arg(long, value_name = "SEVERITY", requires = "baseline")]
    pub(super) fail_on_new: Option<Severity>,
}
