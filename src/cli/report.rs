//! `cqlens report SNAPSHOT…`: merges snapshots and renders what they say.

mod args;
mod clusters;
#[cfg(feature = "fleet")]
mod from_store;
mod left_out;
mod merged;
mod progress;
mod reading;

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, ensure};
use jiff::Timestamp;

pub(super) use args::{Args, SourceArgs};
use merged::Choice;
pub(super) use merged::Merged;
use progress::Progress;
pub(super) use reading::Visitor;

use super::{format, output::today, rules::unknown, screen};
use crate::sink;
use cqlens_proxy::files::{self, Limit};
use cqlens_report::{Baseline, Comparison, Format, ReadReport, Report};
use cqlens_rules::Judging;

/// Reads, merges, judges, renders; `settings` names the settings file if cqlens found it by itself.
///
/// # Errors
/// A snapshot that cannot be read or is damaged, snapshots of different clusters of which none has most, no window in the span of
/// time, an output that cannot be written.
pub(super) fn run(args: &Args, judging: &Judging, settings: Option<String>) -> anyhow::Result<ExitCode> {
    let wrong = args
        .selection
        .rule
        .iter()
        .filter(|rule| cqlens_rules::find(rule).is_none());
    let wrong: Vec<_> = wrong.map(|rule| unknown(rule)).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let format = format::chosen(args.format, args.output.as_deref(), Format::Md)?;
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    let comparison = args.comparison.as_deref().map(read_comparison).transpose()?;
    let mut report = judge(read(&args.source, &mut ())?, judging)?
        .compared(comparison)
        .select(&args.selection);
    if let (Some(baseline), Some(path)) = (baseline, &args.baseline) {
        let baseline = baseline.select(&args.selection, &report);
        report = report
            .since(&baseline)
            .with_context(|| format!("cannot compare with {}", path.display()))?;
    }
    let has_failed = has_failed(&report, args);
    if args.selection.by_table {
        report = report.table_by_table();
    }
    if let Some(top) = args.selection.top {
        report = report.keep_top(top);
    }
    report.coverage.notices.extend(settings.clone());
    report.notices.extend(settings);
    write(&report, format, args)?;
    Ok(match has_failed {
        true => ExitCode::from(1),
        false => ExitCode::SUCCESS,
    })
}

/// Whether a finding is as severe as must not be.
fn has_failed(report: &Report, args: &Args) -> bool {
    let is_severe = args.fail_on.is_some_and(|severity| report.has_open(severity));
    is_severe || args.fail_on_new.is_some_and(|severity| report.has_new(severity))
}

/// The chosen snapshots as one; `visitor` sees each.
///
/// # Errors
/// As [`Merged::read`], and those of the visitor.
pub(super) fn read(source: &SourceArgs, visitor: &mut dyn Visitor) -> anyhow::Result<Merged> {
    let choice = source.choice();
    #[cfg(feature = "fleet")]
    if let Some(store) = &source.from {
        let progress = &mut Progress::begin("days of sources");
        return from_store::read(store, choice, visitor, progress);
    }
    Merged::read(
        &source.snapshots,
        choice,
        visitor,
        &mut Progress::begin("snapshots"),
    )
}

/// The report of snapshots, files or folders of them.
fn judge(merged: Merged, judging: &Judging) -> anyhow::Result<Report> {
    let schema = merged.schema();
    let now = Timestamp::now();
    let context = cqlens_rules::Context::new(&merged.window, &schema, &merged.cluster);
    let judgement = judging.judge(&context, today(now));
    let report = Report::new(&merged.window, &merged.cluster, &schema, judgement, now);
    Ok(report.over_time(&merged.timeline, &merged.window))
}

/// The report of a file: a report in its JSON form, or a snapshot or a folder of them, which are judged.
///
/// # Errors
/// What is none of these.
pub(super) fn read_report(path: &Path, judging: &Judging) -> anyhow::Result<ReadReport> {
    let name = path.to_string_lossy();
    if path.is_dir() || sink::SNAPSHOT_ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        let merged = Merged::read(
            &[path.to_owned()],
            Choice::default(),
            &mut (),
            &mut Progress::begin("snapshots"),
        )?;
        let report = judge(merged, judging)?;
        let report = serde_json::to_vec(&report).context("cannot write the report")?;
        return Ok(ReadReport::read(&report)?);
    }
    let text = files::read(path, BASELINE_LIMIT)
        .with_context(|| format!("cannot read the report {}", path.display()))?;
    ReadReport::read(&text[..]).with_context(|| {
        format!(
            "{} is neither a report in JSON form nor a snapshot",
            path.display()
        )
    })
}

/// A report in its JSON form: the most statements that a window has take less.
const BASELINE_LIMIT: Limit = Limit::new("a baseline", 128 << 20);

fn read_baseline(path: &Path) -> anyhow::Result<Baseline> {
    let text = files::read(path, BASELINE_LIMIT)
        .with_context(|| format!("cannot read the baseline {}", path.display()))?;
    Baseline::read(&text[..]).with_context(|| format!("cannot compare with {}", path.display()))
}

fn read_comparison(path: &Path) -> anyhow::Result<Comparison> {
    let text = files::read(path, COMPARISON_LIMIT)
        .with_context(|| format!("cannot read the comparison {}", path.display()))?;
    Comparison::read(&text[..]).with_context(|| format!("cannot use the comparison {}", path.display()))
}

/// Two thousand patterns take a few megabytes.
const COMPARISON_LIMIT: Limit = Limit::new("a comparison", 16 << 20);

fn write(report: &Report, format: Format, args: &Args) -> anyhow::Result<()> {
    write_to(args.output.as_deref(), |to| report.render(format, to))?;
    let Some(path) = &args.output else {
        return Ok(());
    };
    screen::show(report, path).context("cannot write to standard output")
}

/// Writes a whole file, or to standard output.
///
/// # Errors
/// An output that cannot be written.
pub(super) fn write_to(
    output: Option<&Path>,
    render: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    if let Some(path) = output {
        sink::remove_leftovers(&sink::directory(path));
        return sink::replace(path, render)
            .with_context(|| format!("cannot write the report to {}", path.display()));
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    match render(&mut out).and_then(|()| out.flush()) {
        // The reader of the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the report to standard output"),
    }
}

#[cfg(test)]
pub(in crate::cli) mod tests;
