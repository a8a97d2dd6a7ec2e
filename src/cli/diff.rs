//! `cqlens diff BASE NEW`: what is different between two reports.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;

use super::{
    format,
    report::{read_report, write_to},
};
use cqlens_report::{DiffFormat, ReportDiff};
use cqlens_rules::{Judging, Severity};

/// Compare two reports: what is new, worse, better or gone
///
/// Compares findings, statements, tables and clients. Differences within chance are left out.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ENDING)]
pub(in crate::cli) struct Args {
    /// The earlier report: JSON, a snapshot, or a folder of snapshots
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// The later report, likewise
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Format of the comparison
    ///
    /// By default, the ending of the output file decides; printed output is text.
    #[arg(long, value_name = "FORMAT")]
    format: Option<DiffFormat>,
    /// Write the comparison to this file
    ///
    /// Otherwise it is printed.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with code 1 on new or worse findings of this severity or above
    ///
    /// Findings accepted in the settings file do not count.
    #[arg(long, value_name = "SEVERITY")]
    fail_on_new: Option<Severity>,
}

const ENDING: &str = "Examples:
  Yesterday and today:
      cqlens diff snapshots/yesterday snapshots/today
  A comment for a pull request, and an exit code for CI:
      cqlens diff main.json branch.json --format md --fail-on-new high

Exit codes:
  0  done
  1  a new or worse finding at or above --fail-on-new
  2  a file that is not a report, reports from different clusters, an output
     that cannot be written";

/// Reads both, compares, renders; `settings` names the settings file if cqlens found it by itself.
///
/// # Errors
/// What is no report, reports of different clusters, an output that cannot be written.
pub(super) fn run(args: &Args, judging: &Judging, settings: Option<String>) -> anyhow::Result<ExitCode> {
    let format = format::chosen(args.format, args.output.as_deref(), DiffFormat::Text)?;
    let base = read_report(&args.base, judging)?;
    let new = read_report(&args.new, judging)?;
    let mut diff = ReportDiff::between(&base, &new).with_context(|| {
        format!(
            "cannot compare {} with {}",
            args.base.display(),
            args.new.display()
        )
    })?;
    diff.notices.extend(settings);
    write_to(args.output.as_deref(), |to| diff.render(format, to))?;
    Ok(match args.fail_on_new {
        Some(severity) if diff.fails_on_new(severity) => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use clap::Parser;

    use super::super::report::tests::{folder, lasting, path, snapshot};
    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn diff(arguments: &[&str]) -> anyhow::Result<ExitCode> {
        let args = Command::parse_from(["diff"].iter().chain(arguments)).args;
        run(&args, &Judging::default(), None)
    }

    #[test]
    fn snapshots_folders_and_reports_are_compared() {
        let base = folder(&[lasting("a", "2026-11-01T08:00:00Z", 480)]);
        let new = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
        let (file, to) = (path(&base, "1.cqlens.json"), path(&new, "diff.json"));
        let code = diff(&[&file, &path(&new, ""), "-o", &to, "--fail-on-new", "high"]).unwrap();
        assert_eq!(code, ExitCode::from(1));
        let json: serde_json::Value = serde_json::from_slice(&fs::read(&to).unwrap()).unwrap();
        assert_eq!(json["findings"]["worse"][0]["rule"], "allow-filtering");
        assert_eq!(json["patterns"]["changed"][0]["figures"][0]["figure"], "rate");
        let same = diff(&[
            &file,
            &file,
            "-o",
            &path(&new, "same.md"),
            "--fail-on-new",
            "info",
        ])
        .unwrap();
        assert_eq!(same, ExitCode::SUCCESS);
    }

    #[test]
    fn what_is_no_report_and_what_is_of_another_cluster_is_refused() {
        let folder = folder(&[
            snapshot("a", "2026-11-21T08:00:00Z"),
            snapshot("b", "2026-11-21T08:00:00Z"),
        ]);
        let [a, b] = ["1.cqlens.json", "2.cqlens.json"].map(|name| path(&folder, name));
        let error = format!("{:#}", diff(&[&a, &b]).unwrap_err());
        assert!(error.contains("it is from cluster"), "{error}");
        let other = path(&folder, "notes.json");
        fs::write(&other, "{}").unwrap();
        let error = format!("{:#}", diff(&[&a, &other]).unwrap_err());
        assert!(error.contains("notes.json is neither a report"), "{error}");
    }
}
