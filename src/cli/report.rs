//! `cqlens report SNAPSHOT…`: merges snapshots and renders what they say.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail, ensure};
use jiff::{Timestamp, Zoned, civil, tz::TimeZone};

use super::output::today;
use crate::{
    files::{self, Limit},
    sink::{self, SNAPSHOT_ENDINGS},
};
use cqlens_audit::{
    report::{Baseline, Format, Report},
    rules::{Judging, Severity},
    window::{Cluster, Limits, Snapshot, Window},
};
use cqlens_cql::schema::Schema;

/// Merges snapshots of any time and any number of proxies into one report.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Snapshot files, or folders of them (`*.cqlens.json.gz`, `*.cqlens.json`).
    #[arg(required = true, value_name = "SNAPSHOT")]
    snapshots: Vec<PathBuf>,
    /// How the report is written. Without it the ending of the output file decides; else it is Markdown.
    #[arg(long)]
    format: Option<Format>,
    /// Only windows that begin at this time or later: 2026-11-14, 2026-11-14T06:00Z, or 7d for seven days ago.
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// Only windows that begin before this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,
    /// Where to; standard output without it.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The JSON report of the last review: what is new since then is marked, what is gone is listed.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Exit with code 1 if a finding that nobody has accepted is of this severity or above.
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<Severity>,
}

/// Reads, merges, judges, renders.
///
/// # Errors
/// A snapshot that cannot be read or is damaged, snapshots of different clusters, no window in the span of time, an output
/// that cannot be written.
pub(super) fn run(args: &Args, judging: &Judging) -> anyhow::Result<ExitCode> {
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    let merged = Merged::read(args)?;
    let schema = merged.schema()?;
    let now = Timestamp::now();
    let judgement = judging.judge(&merged.window, &schema, today(now));
    let mut report = Report::new(&merged.window, &merged.cluster, &schema, judgement, now);
    if let (Some(baseline), Some(path)) = (&baseline, &args.baseline) {
        report = report
            .since(baseline)
            .with_context(|| format!("cannot compare with {}", path.display()))?;
    }
    write(&report, args)?;
    let fails = |severity| report.findings.iter().any(|finding| finding.severity >= severity);
    Ok(match args.fail_on {
        Some(severity) if fails(severity) => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

fn read_baseline(path: &Path) -> anyhow::Result<Baseline> {
    let text = files::read(path, Limit::BASELINE)
        .with_context(|| format!("cannot read the baseline {}", path.display()))?;
    Baseline::read(&text[..]).with_context(|| format!("cannot compare with {}", path.display()))
}

fn write(report: &Report, args: &Args) -> anyhow::Result<()> {
    let by_name = args.output.as_deref().and_then(Format::of_path);
    let format = args.format.or(by_name).unwrap_or(Format::Md);
    if let Some(path) = &args.output {
        sink::remove_leftovers(&sink::directory(path));
        return sink::replace(path, |to| report.render(format, to))
            .with_context(|| format!("cannot write the report to {}", path.display()));
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    match report.render(format, &mut out).and_then(|()| out.flush()) {
        // Whoever closed the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the report to standard output"),
    }
}

/// Several snapshots as one.
struct Merged {
    window: Window,
    cluster: Cluster,
    /// The latest schema that is known, and the file that it stands in.
    schema: Option<(Timestamp, String, PathBuf)>,
    /// The first file, and the key of its hashes.
    first: (PathBuf, String),
}

impl Merged {
    fn read(args: &Args) -> anyhow::Result<Self> {
        let files = files(&args.snapshots)?;
        let mut merged: Option<Self> = None;
        for path in &files {
            let snapshot = read_snapshot(path)?;
            let start = snapshot.window.start;
            if args.since.is_some_and(|since| start < since) || args.until.is_some_and(|until| start >= until)
            {
                continue;
            }
            match &mut merged {
                Some(merged) => merged.add(snapshot, path)?,
                None => merged = Some(Self::new(snapshot, path)),
            }
        }
        merged.with_context(|| {
            format!(
                "no window of {} snapshots begins in that span of time",
                files.len()
            )
        })
    }

    fn new(snapshot: Snapshot, path: &Path) -> Self {
        let end = snapshot.window.end;
        Self {
            schema: (!snapshot.schema.is_empty()).then(|| (end, snapshot.schema, path.to_owned())),
            // However much those held that wrote them.
            window: snapshot.window.with_limits(Limits::of_bytes(Limits::MOST_BYTES)),
            cluster: snapshot.cluster,
            first: (path.to_owned(), snapshot.key_id),
        }
    }

    fn add(&mut self, snapshot: Snapshot, path: &Path) -> anyhow::Result<()> {
        if let (Some(ours), Some(theirs)) = (&self.cluster.name, &snapshot.cluster.name) {
            let first = self.first.0.display();
            ensure!(
                ours == theirs,
                "{} is of cluster {theirs:?}, but {first} of cluster {ours:?}: report them apart",
                path.display()
            );
        }
        let end = snapshot.window.end;
        if end >= self.window.end {
            take_known(&mut self.cluster, snapshot.cluster);
        } else {
            let newer = std::mem::replace(&mut self.cluster, snapshot.cluster);
            take_known(&mut self.cluster, newer);
        }
        if snapshot.key_id != self.first.1 {
            self.window.coverage.notices.insert(OTHER_KEY.to_owned());
        }
        let is_latest = self.schema.as_ref().is_none_or(|(known, ..)| end >= *known);
        if is_latest && !snapshot.schema.is_empty() {
            self.schema = Some((end, snapshot.schema, path.to_owned()));
        }
        self.window.merge(&snapshot.window);
        Ok(())
    }

    /// The schema in force at the end; an empty one where none is known.
    fn schema(&self) -> anyhow::Result<Schema> {
        let Some((_, text, path)) = &self.schema else {
            return Ok(Schema::default());
        };
        let (schema, errors) = Schema::read_cql(text);
        if let Some(error) = errors.first() {
            bail!("the snapshot {} holds a damaged schema: {error}", path.display());
        }
        Ok(schema)
    }
}

const OTHER_KEY: &str =
    "The snapshots were made with different hash keys: a partition that both have seen is counted twice.";

/// What `from` knows replaces what `to` says.
fn take_known(to: &mut Cluster, from: Cluster) {
    to.name = from.name.or(to.name.take());
    to.release_version = from.release_version.or(to.release_version.take());
    to.partitioner = from.partitioner.or(to.partitioner.take());
    to.nodes = from.nodes.or(to.nodes);
}

fn read_snapshot(path: &Path) -> anyhow::Result<Snapshot> {
    let file = files::open(path).with_context(|| format!("cannot open the snapshot {}", path.display()))?;
    Snapshot::read(file).with_context(|| format!("cannot read the snapshot {}", path.display()))
}

/// The files that were named, and those in the folders that were named, each once.
fn files(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        let context = || format!("cannot read the folder {}", path.display());
        for entry in fs::read_dir(path).with_context(context)? {
            let entry = entry.with_context(context)?.path();
            let name = entry
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let is_snapshot = SNAPSHOT_ENDINGS.iter().any(|ending| name.ends_with(ending));
            if is_snapshot && !name.starts_with('.') {
                files.push(entry);
            }
        }
        ensure!(
            files.len() > before,
            "the folder {} holds no *{}",
            path.display(),
            SNAPSHOT_ENDINGS.join(" and no *")
        );
    }
    // A window that is named twice must not count twice.
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    files.sort();
    Ok(files)
}

/// A time as an operator types it: RFC 3339, a date or date and time in UTC, or a span before now (`7d`, `36 hours`).
fn time(text: &str) -> Result<Timestamp, String> {
    time_before(text, &Zoned::now())
}

fn time_before(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(time) = text.parse::<civil::DateTime>() {
        let zoned = time.to_zoned(TimeZone::UTC);
        return zoned
            .map(|zoned| zoned.timestamp())
            .map_err(|error| error.to_string());
    }
    let span = text.parse::<jiff::Span>().map_err(|_| {
        "not a time: write 2026-11-14, 2026-11-14T06:00:00Z, or a span before now such as 7d or 36h"
            .to_owned()
    })?;
    let then = now.checked_sub(span.abs()).map_err(|error| error.to_string())?;
    Ok(then.timestamp())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs::File;

    use clap::Parser;

    use super::*;
    use cqlens_audit::rules::{
        Acceptance,
        testing::{read, window},
    };
    use cqlens_cql::{footprint::PartitionClass, plan::Flag};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn run_typed(args: &Args) -> anyhow::Result<ExitCode> {
        run(args, &Judging::default())
    }

    fn typed(arguments: &[&str]) -> Args {
        Command::parse_from(["report"].iter().chain(arguments)).args
    }

    fn snapshot(cluster: &str, start: &str) -> Snapshot {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let scan = read(
            "SELECT * FROM shop.items WHERE a = ? ALLOW FILTERING",
            &flags,
            PartitionClass::Scan,
            100,
        );
        let mut window = window([scan]);
        window.start = start.parse().unwrap();
        window.close("2026-11-21T09:00:00Z".parse().unwrap());
        window.coverage.requests = 100;
        window.coverage.audited = 100;
        let cluster = Cluster {
            name: Some(cluster.to_owned()),
            ..Cluster::default()
        };
        Snapshot::new(window, cluster, String::new(), "key".to_owned())
    }

    /// Writes the snapshots into a folder as `1.cqlens.json`, `2.cqlens.json`, …
    fn folder(snapshots: &[Snapshot]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (at, snapshot) in (1..).zip(snapshots) {
            let mut file = File::create(folder.path().join(format!("{at}.cqlens.json"))).unwrap();
            snapshot.write(&mut file).unwrap();
        }
        folder
    }

    fn path(folder: &tempfile::TempDir, name: &str) -> String {
        folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn json(folder: &tempfile::TempDir, more: &[&str]) -> serde_json::Value {
        let (from, to) = (path(folder, ""), path(folder, "report.json"));
        run_typed(&typed(&[&[from.as_str(), "-o", to.as_str()], more].concat())).unwrap();
        serde_json::from_slice(&fs::read(to).unwrap()).unwrap()
    }

    #[test]
    fn snapshots_of_a_folder_are_merged_into_one_report() {
        let folder = folder(&[
            snapshot("a", "2026-11-21T07:00:00Z"),
            snapshot("a", "2026-11-21T08:00:00Z"),
        ]);
        let report = json(&folder, &[]);
        assert_eq!(report["coverage"]["requests"], 200);
        assert_eq!(report["window"]["start"], "2026-11-21T07:00:00Z");
        assert_eq!(report["findings"][0]["rule"], "allow-filtering");
        // A file that is named beside its folder counts once.
        let one = path(&folder, "1.cqlens.json");
        assert_eq!(json(&folder, &[&one])["coverage"]["requests"], 200);
    }

    #[test]
    fn since_and_until_choose_windows_by_their_beginning() {
        let folder = folder(&[
            snapshot("a", "2026-11-21T07:00:00Z"),
            snapshot("a", "2026-11-21T08:00:00Z"),
        ]);
        let since = json(&folder, &["--since", "2026-11-21T08:00:00Z"]);
        assert_eq!(since["window"]["start"], "2026-11-21T08:00:00Z");
        let until = json(&folder, &["--until", "2026-11-21T08:00"]);
        assert_eq!(until["window"]["start"], "2026-11-21T07:00:00Z");
        assert_eq!(until["coverage"]["requests"], 100);
        let from = path(&folder, "");
        let error = run_typed(&typed(&[&from, "--until", "2020-01-01"]))
            .unwrap_err()
            .to_string();
        assert_eq!(error, "no window of 2 snapshots begins in that span of time");
    }

    #[test]
    fn a_finding_at_or_above_the_limit_is_exit_code_one() {
        let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
        let (from, to) = (path(&folder, ""), path(&folder, "report.md"));
        let code = |limit| run_typed(&typed(&[&from, "-o", &to, "--fail-on", limit])).unwrap();
        assert_eq!(code("high"), ExitCode::from(1));
        let rare = snapshot("a", "2026-11-01T08:00:00Z");
        let file = File::create(path(&folder, "1.cqlens.json"));
        rare.write(&mut file.unwrap()).unwrap();
        assert_eq!(code("high"), ExitCode::SUCCESS);
    }

    fn accepting_filters(until: &str) -> Judging {
        let acceptance = Acceptance {
            rule: Some("allow-filtering"),
            table: None,
            pattern: None,
            at_most: None,
            owner: "platform".to_owned(),
            reason: "admin page".to_owned(),
            until: until.parse().unwrap(),
            place: "cqlens.toml:1".to_owned(),
        };
        Judging {
            acceptances: vec![acceptance],
            ..Judging::default()
        }
    }

    #[test]
    fn an_accepted_finding_is_no_failure_until_it_expires() {
        let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
        let (from, to) = (path(&folder, ""), path(&folder, "report.json"));
        let report = |until| {
            let args = typed(&[&from, "-o", &to, "--fail-on", "high"]);
            let code = run(&args, &accepting_filters(until)).unwrap();
            let json: serde_json::Value = serde_json::from_slice(&fs::read(&to).unwrap()).unwrap();
            (code, json)
        };
        let (code, json) = report("9999-01-01");
        assert_eq!(code, ExitCode::SUCCESS);
        let accepted = &json["accepted"][0];
        assert_eq!(accepted["rule"], "allow-filtering");
        assert_eq!(accepted["acceptance"]["owner"], "platform");
        assert_eq!(accepted["acceptance"]["until"], "9999-01-01");
        assert_eq!(accepted["acceptance"]["state"], "in-force");
        let (code, json) = report("2020-01-01");
        assert_eq!(code, ExitCode::from(1));
        assert_eq!(json["accepted"], serde_json::json!([]));
        assert_eq!(json["findings"][0]["acceptance"]["state"], "expired");
    }

    #[test]
    fn a_report_is_the_baseline_of_the_next_one() {
        let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
        let first = json(&folder, &[]);
        assert_eq!(first["findings"][0].get("review"), None);
        let baseline = path(&folder, "baseline.json");
        fs::copy(path(&folder, "report.json"), &baseline).unwrap();
        let second = json(&folder, &["--baseline", &baseline]);
        assert_eq!(second["findings"][0]["review"], "known");
        assert_eq!(second["baseline"]["generated_at"], first["generated_at"]);
        let snapshot = path(&folder, "1.cqlens.json");
        let error = run_typed(&typed(&[&snapshot, "--baseline", &snapshot])).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot compare with {snapshot}"));
    }

    #[test]
    fn a_damaged_snapshot_is_refused_by_name() {
        let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
        let damaged = path(&folder, "2.cqlens.json");
        let whole = fs::read(path(&folder, "1.cqlens.json")).unwrap();
        for bytes in [
            &whole[..whole.len() / 2],
            b"",
            b"{}",
            b"\x00\xff",
            b"{\"format\":\"cqlens.snapshot.v9\"}",
        ] {
            fs::write(&damaged, bytes).unwrap();
            let error = run_typed(&typed(&[&path(&folder, "")])).unwrap_err();
            assert_eq!(error.to_string(), format!("cannot read the snapshot {damaged}"));
        }
        let missing = path(&folder, "no.cqlens.json");
        let error = run_typed(&typed(&[&missing])).unwrap_err().to_string();
        assert_eq!(error, format!("cannot open the snapshot {missing}"));
    }

    #[test]
    fn snapshots_of_two_clusters_are_not_mixed() {
        let folder = folder(&[
            snapshot("a", "2026-11-21T07:00:00Z"),
            snapshot("b", "2026-11-21T08:00:00Z"),
        ]);
        let error = run_typed(&typed(&[&path(&folder, "")])).unwrap_err().to_string();
        assert!(
            error.contains("is of cluster \"b\", but") && error.ends_with("report them apart"),
            "{error}"
        );
    }

    #[test]
    fn snapshots_with_another_hash_key_are_merged_with_a_notice() {
        let mut other = snapshot("a", "2026-11-21T08:00:00Z");
        other.key_id = "another".to_owned();
        let folder = folder(&[snapshot("a", "2026-11-21T07:00:00Z"), other]);
        assert_eq!(json(&folder, &[])["coverage"]["notices"][0], OTHER_KEY);
    }

    #[test]
    fn the_ending_of_the_output_gives_the_format() {
        let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
        let from = path(&folder, "");
        for (name, beginning) in [
            ("r.html", "<!doctype html>"),
            ("r.md", "# Query patterns"),
            ("r.txt", "# Query"),
        ] {
            let to = path(&folder, name);
            run_typed(&typed(&[&from, "-o", &to])).unwrap();
            assert!(fs::read_to_string(&to).unwrap().starts_with(beginning), "{name}");
        }
        let error = run_typed(&typed(&[&from, "-o", &path(&folder, "no/such/r.md")]))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cannot write the report to "), "{error}");
    }

    #[test]
    fn times_may_be_dates_or_spans_before_now() {
        let now: Zoned = "2026-11-21T06:00:00Z[UTC]".parse().unwrap();
        let time = |text| time_before(text, &now).map(|time| time.to_string());
        assert_eq!(time("2026-11-14").unwrap(), "2026-11-14T00:00:00Z");
        assert_eq!(time("2026-11-14T06:30").unwrap(), "2026-11-14T06:30:00Z");
        assert_eq!(time("2026-11-14T06:00Z").unwrap(), "2026-11-14T06:00:00Z");
        assert_eq!(time("2026-11-14T06:30:00+02:00").unwrap(), "2026-11-14T04:30:00Z");
        assert_eq!(time("7d").unwrap(), "2026-11-14T06:00:00Z");
        assert_eq!(time("36 hours").unwrap(), "2026-11-19T18:00:00Z");
        assert!(time("yesterday").unwrap_err().starts_with("not a time"));
        assert!(time("99999999999d").is_err());
    }
}
