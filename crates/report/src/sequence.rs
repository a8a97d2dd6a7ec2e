//! Operations of several statements, as the forms of a report show them.

use serde::Serialize;

use super::{Quantiles, build::quantiles};
use cqlens_rules::{Sent, Sequence, SequenceStep};
use cqlens_window::number;

/// Statements that belong together, found by the values that they share.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SequenceReport {
    /// `client-join`, `index-table-lookup`, `bucket-fan-out`, `time-bucket-walk` or `dual-write`.
    pub kind: &'static str,
    /// The rule about these.
    pub rule: &'static str,
    /// The first table.
    pub from: String,
    /// The last table; the same as the first if one table is read several times.
    pub to: String,
    /// All tables, in the order in which they are read.
    pub tables: Vec<String>,
    /// From table to table, as people read it.
    pub path: String,
    /// The ids of the patterns, in the same order.
    pub patterns: Vec<String>,
    /// How often; estimated from those that were sampled.
    pub count: u64,
    /// No fewer than this, in nineteen of twenty estimates.
    pub count_at_least: u64,
    /// No more than this, in nineteen of twenty estimates.
    pub count_at_most: u64,
    /// How many operations were sampled.
    pub sampled: u64,
    /// What the widest step asks for, for each time that the step before it was taken.
    pub fan_out: Quantiles,
    /// Partitions per operation, on average.
    pub partitions: f64,
    /// From the first request to the last response of all steps; for copies, to the last request.
    pub elapsed_us: Quantiles,
    /// How the requests of the widest step are sent.
    pub sent: Sent,
    /// The part of these requests that wait for the response to the one before, 0 to 1.
    pub serial_share: f64,
    /// The applications that send the statements, those that send most of them first: at most five.
    pub applications: Vec<String>,
    /// From table to table.
    pub steps: Vec<StepReport>,
}

/// A step from one table to another one, or to more partitions of the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StepReport {
    /// Where it begins.
    pub from: String,
    /// Where it leads.
    pub to: String,
    /// Partitions of the second table per step.
    pub fan_out: Quantiles,
    /// How its requests are sent.
    pub sent: Sent,
}

impl SequenceReport {
    pub(super) fn of(sequence: &Sequence) -> Self {
        let tables: Vec<String> = sequence.tables.iter().map(ToString::to_string).collect();
        Self {
            // The contract of the JSON form has this name.
            kind: match sequence.kind {
                "dual-write-without-batch" => "dual-write",
                rule => rule,
            },
            rule: sequence.kind,
            from: tables.first().cloned().unwrap_or_default(),
            to: tables.last().cloned().unwrap_or_default(),
            tables,
            path: sequence.path.clone(),
            patterns: sequence.patterns.iter().map(ToString::to_string).collect(),
            count: sequence.count,
            count_at_least: sequence.count_range.0,
            count_at_most: sequence.count_range.1,
            sampled: sequence.sampled,
            fan_out: quantiles(&sequence.fan_out),
            partitions: sequence.partitions,
            elapsed_us: quantiles(&sequence.elapsed_us),
            sent: sequence.sent,
            serial_share: sequence.serial_share,
            applications: sequence.applications.clone(),
            steps: sequence.steps.iter().map(StepReport::of).collect(),
        }
    }

    /// Microseconds for people; a dash where no time was measured.
    pub(super) fn time(&self, micros: u64) -> String {
        match self.elapsed_us.steps.is_empty() {
            true => "–".to_owned(),
            false => number::micros(micros),
        }
    }

    /// How requests are sent, in words.
    pub(super) fn words(&self, sent: Sent) -> &'static str {
        match sent {
            Sent::InOneRequest if self.kind == "dual-write" => "in one unlogged batch",
            sent => sent.words(),
        }
    }

    /// `950 to 1,050`, where the number is an estimate.
    pub(super) fn range(&self) -> Option<String> {
        let (least, most) = (self.count_at_least, self.count_at_most);
        (least < most).then(|| format!("{} to {}", number::count(least), number::count(most)))
    }

    /// From table to table with the partitions of each step, `` `a` -20x-> `b` -2x-> `c` ``: a line for each way through the
    /// tables.
    pub(super) fn lines(&self) -> Vec<String> {
        if self.kind == "dual-write" {
            return self
                .tables
                .iter()
                .map(|table| format!("row --> `{table}`"))
                .collect();
        }
        let mut lines: Vec<(String, &str)> = Vec::new();
        for step in &self.steps {
            let times = number::decimal((step.fan_out.mean * 10.0).round() / 10.0);
            let arrow = format!(" -{times}x-> `{}`", step.to);
            let is_same = step.from == step.to;
            match lines.last_mut() {
                Some((line, end)) if *end == step.from && !is_same => {
                    *line += &arrow;
                    *end = &step.to;
                }
                _ => {
                    let from = if is_same {
                        "key".to_owned()
                    } else {
                        format!("`{}`", step.from)
                    };
                    lines.push((from + &arrow, &step.to));
                }
            }
        }
        lines.into_iter().map(|(line, _)| line).collect()
    }
}

impl StepReport {
    fn of(step: &SequenceStep) -> Self {
        Self {
            from: step.from.to_string(),
            to: step.to.to_string(),
            fan_out: quantiles(&step.fan_out),
            sent: step.sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(kind: &'static str, steps: &[(&str, &str, f64)]) -> Vec<String> {
        let steps = steps.iter().map(|(from, to, mean)| StepReport {
            from: (*from).to_owned(),
            to: (*to).to_owned(),
            fan_out: Quantiles {
                mean: *mean,
                ..Quantiles::default()
            },
            sent: Sent::default(),
        });
        let report = SequenceReport {
            kind,
            steps: steps.collect(),
            tables: vec!["s.a".to_owned(), "s.b".to_owned()],
            ..SequenceReport::default()
        };
        report.lines()
    }

    #[test]
    fn each_way_through_the_tables_is_a_line() {
        let chain = lines("client-join", &[("s.a", "s.b", 20.0), ("s.b", "s.c", 1.52)]);
        assert_eq!(chain, ["`s.a` -20x-> `s.b` -1.5x-> `s.c`"]);
        let fork = lines("client-join", &[("s.a", "s.b", 20.0), ("s.a", "s.c", 6.0)]);
        assert_eq!(fork, ["`s.a` -20x-> `s.b`", "`s.a` -6x-> `s.c`"]);
        assert_eq!(
            lines("bucket-fan-out", &[("s.a", "s.a", 4.0)]),
            ["key -4x-> `s.a`"]
        );
        let copies = lines("dual-write", &[("s.a", "s.b", 1.0)]);
        assert_eq!(copies, ["row --> `s.a`", "row --> `s.b`"]);
    }
}
