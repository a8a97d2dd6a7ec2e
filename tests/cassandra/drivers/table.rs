//! Runs held against those without a proxy, and the table of what came of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::mode::Mode;
use super::place::Place;
use super::run::{Job, Line, Outcome, Seen};

/// All runs of a matrix.
#[derive(Default)]
pub(super) struct Table<'a> {
    runs: Vec<Seen<'a>>,
}

/// A driver, its dialect, and where: one row.
type Row = (Place, String, String);

impl<'a> Table<'a> {
    pub(super) fn add(&mut self, runs: impl IntoIterator<Item = Seen<'a>>) {
        self.runs.extend(runs);
    }

    /// One row for each driver, dialect and place, one column for each mode that anything was run in;
    /// Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut modes = Mode::ALL.to_vec();
        modes.retain(|&mode| self.runs.iter().any(|run| run.job.mode == mode));
        let mut text = "| where | driver | protocol |".to_owned();
        for mode in &modes {
            let _ = write!(text, " {} |", mode.name());
        }
        let _ = writeln!(text, "\n|{}", " --- |".repeat(3 + modes.len()));
        for ((place, driver, dialect), cells) in self.rows() {
            let _ = write!(text, "| {} | {driver} | {dialect} |", place.name());
            for mode in &modes {
                let _ = write!(text, " {} |", cells.get(mode).map_or("not run", String::as_str));
            }
            text.push('\n');
        }
        text
    }

    fn rows(&self) -> BTreeMap<Row, BTreeMap<Mode, String>> {
        let mut rows: BTreeMap<Row, BTreeMap<Mode, Vec<&Seen<'a>>>> = BTreeMap::new();
        for run in &self.runs {
            rows.entry(row(run))
                .or_default()
                .entry(run.job.mode)
                .or_default()
                .push(run);
        }
        rows.into_iter()
            .map(|(row, modes)| {
                let cells = modes
                    .into_iter()
                    .map(|(mode, runs)| (mode, self.cell(&runs)))
                    .collect();
                (row, cells)
            })
            .collect()
    }

    /// `31 passed`, and whatever is worth a word.
    fn cell(&self, runs: &[&Seen<'a>]) -> String {
        let first = || runs.iter().filter(|run| !run.again);
        let count = |outcome, in_all: bool| -> usize {
            let of_run = |run: &&Seen<'a>| {
                let attempts = self.attempts(run, run.job.mode);
                let needed = if in_all { attempts.len() } else { 1 };
                let of = |check: &str| {
                    let lines = lines(&attempts, check).into_iter();
                    lines.filter(|line| line.outcome == outcome).count()
                };
                let checks = checks(&attempts).into_iter();
                checks.filter(|check| of(check) >= needed).count()
            };
            first().map(of_run).sum()
        };
        let mut words = vec![format!("{} passed", count(Outcome::Passed, false))];
        if runs.iter().any(|run| run.again) {
            words.push("again".to_owned());
        }
        let others = [
            (count(Outcome::Failed, true), "failed"),
            (
                first().map(|run| self.regressions(run).len()).sum(),
                "regressions",
            ),
            (
                runs.iter()
                    .filter(|run| !run.gone_around.is_empty() && !run.may_go_around())
                    .count(),
                "runs around cqlens",
            ),
        ];
        words.extend(
            others
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("**{count} {what}**")),
        );
        if runs
            .iter()
            .any(|run| !run.gone_around.is_empty() && run.may_go_around())
        {
            words.push("around cqlens".to_owned());
        }
        words.join(", ")
    }

    /// The runs of the same checks by the same program in the same place, with one way to the nodes: one, or
    /// two if it was done again.
    fn attempts(&self, run: &Seen<'a>, mode: Mode) -> Vec<&Seen<'a>> {
        let is_one = |other: &&Seen<'a>| {
            other.job.mode == mode && row(other) == row(run) && other.outage == run.outage
        };
        self.runs.iter().filter(is_one).collect()
    }

    /// What the same program saw in the same place without a proxy, and sees otherwise through one; of what
    /// was done again, only what no attempt has in common with any without a proxy.
    fn regressions(&self, run: &Seen<'a>) -> Vec<String> {
        let baseline = self.attempts(run, Mode::Direct);
        if baseline.is_empty() {
            return vec!["nothing to compare with".to_owned()];
        }
        let attempts = self.attempts(run, run.job.mode);
        let same = |a: &Line, b: &Line| a.outcome == b.outcome && a.detail == b.detail;
        let mut found = Vec::new();
        for check in checks(&[baseline.as_slice(), attempts.as_slice()].concat()) {
            let (before, now) = (lines(&baseline, check), lines(&attempts, check));
            let is_seen_before = |line: &&Line| before.iter().any(|other| same(line, other));
            // What ends a run says so in a line of its own.
            let is_always_there = now.len() == attempts.len();
            match (before.last(), now.last()) {
                _ if now.iter().any(is_seen_before) => {}
                (None, _) if !is_always_there => {}
                (Some(_), None) if has_gone_wrong_once(&before, baseline.len()) => {}
                (Some(before), Some(line)) => found.push(format!(
                    "{check}: {:?} {}\n  without a proxy {:?} {}",
                    line.outcome, line.detail, before.outcome, before.detail
                )),
                (None, Some(line)) => found.push(format!("{check}: {}, only here", line.detail)),
                (_, None) => found.push(format!("{check}: not reached")),
            }
        }
        found
    }

    /// What fails without a proxy, however often it was tried.
    fn failures(&self, run: &Seen<'a>) -> Vec<String> {
        let attempts = self.attempts(run, Mode::Direct);
        let all_fail = |lines: &[&Line]| {
            lines.len() == attempts.len() && lines.iter().all(|line| line.outcome == Outcome::Failed)
        };
        checks(&attempts)
            .into_iter()
            .map(|check| (check, lines(&attempts, check)))
            .filter(|(_, lines)| all_fail(lines))
            .map(|(check, lines)| format!("{check} fails without a proxy: {}", lines[0].detail))
            .collect()
    }

    /// What is wrong with what a run saw.
    fn differences(&self, run: &Seen<'a>) -> Vec<String> {
        match run.job.mode {
            Mode::Direct => self.failures(run),
            _ => self.regressions(run),
        }
    }

    /// A run to do again before anything is said of it, first of those without a proxy. Outages are not: all
    /// programs look on at those together.
    pub(super) fn doubtful(&self) -> Option<Job<'a>> {
        let is_first = |run: &&Seen<'a>| self.attempts(run, run.job.mode).len() == 1;
        let is_doubtful = |run: &&Seen<'a>| !run.outage && is_first(run) && !self.differences(run).is_empty();
        let jobs = self.runs.iter().filter(is_doubtful).map(|run| run.job);
        jobs.min_by_key(|job| job.mode)
    }

    /// Whether what a run saw differs, in all of its attempts.
    pub(super) fn differs(&self, job: &Job<'a>) -> bool {
        let is_one = |run: &&Seen<'a>| !run.outage && run.job.is_same(job);
        self.runs
            .iter()
            .find(is_one)
            .is_some_and(|run| !self.differences(run).is_empty())
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Everything that must not be: a line each.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for run in &self.runs {
            let mut of_run = if run.again {
                Vec::new()
            } else {
                self.differences(run)
            };
            if !run.gone_around.is_empty() && !run.may_go_around() {
                of_run.push(format!("connected to {:?} past cqlens", run.gone_around));
            }
            complaints.extend(of_run.into_iter().map(|what| {
                format!(
                    "{} {} {} {}: {what}\n  see {}",
                    run.job.program.name,
                    run.job.dialect.name(),
                    run.job.place.name(),
                    run.job.mode.name(),
                    run.log.display()
                )
            }));
        }
        complaints
    }
}

/// The names of all checks of some runs, in their order.
fn checks<'r>(runs: &[&'r Seen<'_>]) -> Vec<&'r str> {
    let mut names: Vec<&str> = Vec::new();
    for line in runs.iter().flat_map(|run| &run.lines) {
        if !names.contains(&line.check.as_str()) {
            names.push(&line.check);
        }
    }
    names
}

/// Whether these lines are of a failure that some attempt without a proxy did not have.
fn has_gone_wrong_once(lines: &[&Line], attempts: usize) -> bool {
    lines.len() < attempts && lines.iter().all(|line| line.outcome == Outcome::Failed)
}

/// What some runs say of one check: a line of each that has come to it.
fn lines<'r>(runs: &[&'r Seen<'_>], check: &str) -> Vec<&'r Line> {
    let of_run = |run: &&'r Seen<'_>| run.lines.iter().find(|line| line.check == check);
    runs.iter().filter_map(of_run).collect()
}

fn row(run: &Seen<'_>) -> Row {
    (
        run.job.place,
        format!("{} {}", run.job.program.title, run.job.program.version),
        run.job.dialect.name(),
    )
}

impl Seen<'_> {
    /// What is to be told of it before there is another to compare it with.
    pub(super) fn summary(&self) -> String {
        let Job {
            program,
            dialect,
            place,
            mode,
        } = self.job;
        let of = |outcome| self.lines.iter().filter(move |line| line.outcome == outcome);
        let failed: String = of(Outcome::Failed)
            .map(|line| format!("\n  {}: {}", line.check, line.detail))
            .collect();
        format!(
            "{} {} {} {}: {} passed in {:.1?}{failed}",
            program.name,
            dialect.name(),
            place.name(),
            mode.name(),
            of(Outcome::Passed).count(),
            self.took
        )
    }
}
