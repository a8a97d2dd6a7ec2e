//! Writes the report of a week of a shop: three proxies before a cluster of six nodes, an hour in each window, beside the
//! report of the week before. Nothing is measured: rates, latencies and rows are made up, always the same.
//!
//! `cargo run --example example_report -- -o DIR` writes `report.html`, `report.md` and `report.json`.

mod distribution;
mod hour;
mod relations;
mod statements;
mod week;

use std::{fs, path::PathBuf};

use anyhow::{Context, anyhow, bail};
use cqlens_cql::schema::Schema;
use cqlens_report::{Baseline, Format, Report};
use cqlens_rules::Judging;
use jiff::tz::TimeZone;

use week::Week;

fn main() -> anyhow::Result<()> {
    let folder = folder(std::env::args().skip(1))?;
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let report = compared()?;
    for (format, name) in [
        (Format::Html, "report.html"),
        (Format::Md, "report.md"),
        (Format::Json, "report.json"),
    ] {
        let mut written = Vec::new();
        report.render(format, &mut written)?;
        let path = folder.join(name);
        fs::write(&path, written).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn folder(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<PathBuf> {
    match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (Some("-o"), Some(folder), None) => Ok(folder.into()),
        _ => bail!("where to? -o DIR"),
    }
}

/// The report of the week, beside that of the week before.
fn compared() -> anyhow::Result<Report> {
    let schema = Schema::from_cql(include_str!("shop.cql")).map_err(|errors| anyhow!("{errors:?}"))?;
    let before = serde_json::to_vec(&report(Week::Before, &schema))?;
    let before = Baseline::read(&before[..])?;
    Ok(report(Week::Reported, &schema).since(&before)?)
}

fn report(week: Week, schema: &Schema) -> Report {
    let (window, timeline) = week.observed(schema);
    let (cluster, at) = (week::cluster(), week.reported_at());
    let context = cqlens_rules::Context::new(&window, schema, &cluster);
    let today = at.to_zoned(TimeZone::UTC).date();
    let judgement = Judging::default().judge(&context, today);
    Report::new(&window, &cluster, schema, judgement, at).over_time(&timeline, &window)
}
