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

    /// One row for each driver, dialect and place, one column for each mode; Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = "| where | driver | protocol |".to_owned();
        for mode in Mode::ALL {
            let _ = write!(text, " {} |", mode.name());
        }
        text.push_str("\n| --- | --- | --- | --- | --- | --- |\n");
        for ((place, driver, dialect), cells) in self.rows() {
            let _ = write!(text, "| {} | {driver} | {dialect} |", place.name());
            for mode in Mode::ALL {
                let _ = write!(text, " {} |", cells.get(&mode).map_or("not run", String::as_str));
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
        let count = |outcome| {
            let lines = runs.iter().flat_map(|run| &run.lines);
            lines.filter(|line| line.outcome == outcome).count()
        };
        let mut words = vec![format!("{} passed", count(Outcome::Passed))];
        let others = [
            (count(Outcome::Failed), "failed"),
            (
                runs.iter().map(|run| self.regressions(run).len()).sum(),
                "regressions",
            ),
            (
                runs.iter()
                    .filter(|run| !run.gone_around.is_empty() && !run.job.may_go_around())
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
            .any(|run| !run.gone_around.is_empty() && run.job.may_go_around())
        {
            words.push("around cqlens".to_owned());
        }
        words.join(", ")
    }

    /// What the same program saw in the same place without a proxy, and sees otherwise through one.
    fn regressions(&self, run: &Seen<'a>) -> Vec<String> {
        let is_baseline = |other: &&Seen<'a>| {
            other.job.mode == Mode::Direct && row(other) == row(run) && other.part() == run.part()
        };
        let Some(baseline) = self.runs.iter().find(is_baseline) else {
            return vec!["nothing to compare with".to_owned()];
        };
        let same = |a: &Line, b: &Line| a.outcome == b.outcome && a.detail == b.detail;
        let mut found = Vec::new();
        for before in &baseline.lines {
            match run.lines.iter().find(|line| line.check == before.check) {
                Some(line) if same(line, before) => {}
                Some(line) => found.push(format!(
                    "{}: {:?} {}\n  without a proxy {:?} {}",
                    line.check, line.outcome, line.detail, before.outcome, before.detail
                )),
                None => found.push(format!("{}: not reached", before.check)),
            }
        }
        let is_new = |line: &&Line| baseline.lines.iter().all(|before| before.check != line.check);
        found.extend(
            run.lines
                .iter()
                .filter(is_new)
                .map(|line| format!("{}: {}, only here", line.check, line.detail)),
        );
        found
    }

    /// Everything that must not be: a line each.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for run in &self.runs {
            let failed = run.lines.iter().filter(|line| line.outcome == Outcome::Failed);
            let mut of_run: Vec<String> = failed
                .filter(|_| run.job.mode == Mode::Direct)
                .map(|line| format!("{} fails without a proxy: {}", line.check, line.detail))
                .collect();
            of_run.extend(self.regressions(run));
            if !run.gone_around.is_empty() && !run.job.may_go_around() {
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

    /// Runs of the same checks have the same part.
    fn part(&self) -> bool {
        self.outage
    }
}
