//! What programs have done, as they say it themselves, and how well a report finds it.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::loads::Outcome;
use super::shop::Sent;

/// An operation of one application.
#[derive(Debug, Deserialize)]
pub(crate) struct Label {
    /// The rule of a report that tells it; none of what only looks like something.
    kind: Option<String>,
    tables: BTreeSet<String>,
    count: u64,
    /// Keys that were asked for, the mean.
    fan_out: f64,
}

/// A report speaks of what it has seen 20 times, of copies 50 times: what was done more seldom than these need not be in it.
const OFTEN: u64 = 25;
const OFTEN_COPIED: u64 = 60;

const COPIES: &str = "dual-write-without-batch";

/// How far a mean may be from the true one, as a part of it.
const NEAR: f64 = 0.1;

/// What was found right, what was found that is not there, and what was missed.
#[derive(Default)]
pub(crate) struct Score {
    right: usize,
    wrong: Vec<String>,
    missed: Vec<String>,
    far: Vec<String>,
}

/// What a program has written.
pub(crate) fn read(file: &Path) -> (Vec<Label>, Sent) {
    let text = std::fs::read_to_string(file).unwrap();
    let (labels, sent) = text.trim_end().rsplit_once('\n').unwrap();
    let labels = labels.lines().map(|line| serde_json::from_str(line).unwrap());
    (labels.collect(), serde_json::from_str(sent).unwrap())
}

impl Score {
    /// That of all loads.
    pub(crate) fn of(outcomes: &[Outcome]) -> Self {
        let mut score = Self::default();
        outcomes.iter().for_each(|outcome| score.add(outcome));
        score
    }

    /// Adds what a report says of a load, of which the labels are all that was done.
    fn add(&mut self, outcome: &Outcome) {
        let (load, labels) = (outcome.load, &outcome.labels);
        let sequences = outcome.report["sequences"].as_array().unwrap();
        for sequence in sequences {
            match labels.iter().find(|label| label.is(sequence)) {
                Some(label) => {
                    self.right += 1;
                    let far = label.is_far_from(sequence);
                    self.far.extend(far.map(|far| format!("{load}: {far}")));
                }
                None => self.wrong.push(format!("{load}: {sequence}")),
            }
        }
        let is_missed = |label: &&Label| !sequences.iter().any(|sequence| label.is(sequence));
        let expected = labels.iter().filter(|label| label.is_expected());
        let missed = expected.filter(is_missed);
        self.missed
            .extend(missed.map(|label| format!("{load}: {label:?}")));
    }

    fn precision(&self) -> f64 {
        self.right as f64 / (self.right + self.wrong.len()) as f64
    }

    fn recall(&self) -> f64 {
        self.right as f64 / (self.right + self.missed.len()) as f64
    }

    /// Prints the score, and fails if it is not good enough, or of fewer sequences than `least`.
    pub(crate) fn check(&self, least: usize) {
        println!(
            "{} right, precision {:.3}, recall {:.3}, {} fan-outs are not within a tenth",
            self.right,
            self.precision(),
            self.recall(),
            self.far.len()
        );
        for what in [&self.wrong, &self.missed, &self.far].into_iter().flatten() {
            println!("{what}");
        }
        assert!(self.right + self.missed.len() >= least, "too little was sent");
        assert!(self.precision() >= 0.98);
        assert!(self.recall() >= 0.95);
        assert!(self.far.is_empty());
    }
}

impl Label {
    /// Whether a report has to have it.
    fn is_expected(&self) -> bool {
        match self.kind.as_deref() {
            None => false,
            Some(COPIES) => self.count >= OFTEN_COPIED,
            Some(_) => self.count >= OFTEN,
        }
    }

    fn is(&self, sequence: &Value) -> bool {
        let tables = sequence["tables"].as_array().unwrap().iter();
        let tables = tables.map(|table| table.as_str().unwrap().to_owned());
        self.kind.as_deref() == sequence["rule"].as_str() && self.tables == tables.collect()
    }

    /// The fan-out of a report that is another one; copies have none.
    fn is_far_from(&self, sequence: &Value) -> Option<String> {
        let mean = sequence["fan_out"]["mean"].as_f64()?;
        let is_near = (mean - self.fan_out).abs() <= NEAR * self.fan_out;
        let has_none = self.kind.as_deref() == Some(COPIES);
        (!is_near && !has_none).then(|| format!("{mean} in {sequence}, of {self:?}"))
    }
}
