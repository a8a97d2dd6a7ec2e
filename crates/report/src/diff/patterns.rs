//! Statements that are new, gone, or behave differently.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::{
    noise::{quantile_differs, rate_differs, share_differs},
    reading::{ReadPattern, ReadReport},
};
use cqlens_window::{OVERFLOW, PatternId, number};

/// The statements of two reports, each group by the time that it takes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PatternChanges {
    /// Those in the new report only.
    pub new: Vec<PatternChange>,
    /// Those in the base report only.
    pub gone: Vec<PatternChange>,
    /// Those with other figures.
    pub changed: Vec<PatternChange>,
    /// How many others are in both reports.
    pub unchanged: u64,
    /// How many are in one report only, where the other may have missed them by chance.
    pub too_rare: u64,
}

/// A statement that is not as it was.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PatternChange {
    /// The fingerprint.
    pub id: PatternId,
    /// Its keyspace.
    pub keyspace: Option<String>,
    /// Its table; the first one of a batch.
    pub table: Option<String>,
    /// The template.
    pub cql: String,
    /// Executions in the report that has it; of one that both have, in the new one.
    pub count: u64,
    /// Executions per second, in the same way.
    pub rate: f64,
    /// What is different, where both reports have it.
    pub figures: Vec<FigureChange>,
    /// Microseconds a second, in the report that has more of it.
    #[serde(skip)]
    time: f64,
}

/// A figure that is different.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct FigureChange {
    /// Which.
    pub figure: Figure,
    /// What it was.
    pub before: f64,
    /// What it is.
    pub after: f64,
}

/// A figure of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Executions per second.
    Rate,
    /// The p99 of the latency in microseconds.
    LatencyP99,
    /// The p99 of the partitions of one execution.
    PartitionsP99,
    /// Executions whose response was an error, as a share.
    Errors,
}

impl PatternChanges {
    pub(super) fn between(base: &ReadReport, new: &ReadReport) -> Self {
        let by_id = |report: &'_ ReadReport| -> BTreeMap<PatternId, ReadPattern> {
            let patterns = report.seen.patterns.iter();
            let told_apart = patterns.filter(|pattern| pattern.id != OVERFLOW);
            told_apart.map(|pattern| (pattern.id, pattern.clone())).collect()
        };
        let (before, after) = (by_id(base), by_id(new));
        let mut changes = Self::default();
        for (id, pattern) in &after {
            match before.get(id) {
                Some(earlier) => match figure_changes(earlier, pattern) {
                    figures if figures.is_empty() => changes.unchanged += 1,
                    figures => {
                        let mut change = PatternChange::of(pattern, figures);
                        change.time = change.time.max(earlier.time_per_second());
                        changes.changed.push(change);
                    }
                },
                None if pattern.counted().would_be_seen_in(base.seconds()) => {
                    changes.new.push(PatternChange::of(pattern, Vec::new()));
                }
                None => changes.too_rare += 1,
            }
        }
        for pattern in before.values().filter(|pattern| !after.contains_key(&pattern.id)) {
            match pattern.counted().would_be_seen_in(new.seconds()) {
                true => changes.gone.push(PatternChange::of(pattern, Vec::new())),
                false => changes.too_rare += 1,
            }
        }
        for group in [&mut changes.new, &mut changes.gone, &mut changes.changed] {
            group.sort_by(|left, right| right.time.total_cmp(&left.time));
        }
        changes
    }
}

/// The figures that chance does not explain.
pub(super) fn figure_changes(before: &ReadPattern, after: &ReadPattern) -> Vec<FigureChange> {
    let mut changes = Vec::new();
    let mut add = |figure, is_different, before, after| {
        if is_different {
            changes.push(FigureChange {
                figure,
                before,
                after,
            });
        }
    };
    let (then, now) = (before.counted(), after.counted());
    add(Figure::Rate, rate_differs(then, now), then.rate(), now.rate());
    let quantiles = [
        (Figure::LatencyP99, before.latency(), after.latency()),
        (Figure::PartitionsP99, before.partitions(), after.partitions()),
    ];
    for (figure, then, now) in quantiles {
        let is_different = then.value > 0 && now.value > 0 && quantile_differs(then, now);
        add(figure, is_different, then.value as f64, now.value as f64);
    }
    let (then, now) = ((before.errors, before.count), (after.errors, after.count));
    let share = |(part, whole): (u64, u64)| part as f64 / whole.max(1) as f64;
    add(Figure::Errors, share_differs(then, now), share(then), share(now));
    changes
}

impl PatternChange {
    fn of(pattern: &ReadPattern, figures: Vec<FigureChange>) -> Self {
        Self {
            id: pattern.id,
            keyspace: pattern.keyspace.clone(),
            table: pattern.table.clone(),
            cql: pattern.cql.clone(),
            count: pattern.count,
            rate: pattern.counted().rate(),
            figures,
            time: pattern.time_per_second(),
        }
    }

    /// What is different, or how often it comes.
    pub(super) fn remarks(&self) -> String {
        match self.figures.is_empty() {
            true => number::rate(self.rate),
            false => {
                let figures: Vec<_> = self.figures.iter().map(ToString::to_string).collect();
                figures.join("; ")
            }
        }
    }
}

impl FigureChange {
    /// Whether there is more of it than before: of all figures, more is worse.
    pub(super) fn is_rise(&self) -> bool {
        self.after > self.before
    }
}

impl fmt::Display for FigureChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: f64| match self.figure {
            Figure::Rate => number::rate(value),
            Figure::LatencyP99 => number::micros(number::rounded(value)),
            Figure::PartitionsP99 => number::count(number::rounded(value)),
            Figure::Errors => number::percent(value),
        };
        let name = match self.figure {
            Figure::Rate => "rate",
            Figure::LatencyP99 => "p99",
            Figure::PartitionsP99 => "partitions p99",
            Figure::Errors => "errors",
        };
        write!(formatter, "{name} {} → {}", shown(self.before), shown(self.after))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{between, scan};

    #[test]
    fn statements_of_one_report_alone_are_new_or_gone_unless_they_are_rare() {
        let changes = between(&scan("items", 1_000), &scan("orders", 2)).patterns;
        assert_eq!((changes.new.len(), changes.gone.len()), (0, 1));
        assert_eq!(changes.too_rare, 1);
        let changes = between(&scan("items", 1_000), &scan("orders", 1_000)).patterns;
        assert!(changes.new[0].cql.contains("shop.orders"));
        assert!(changes.gone[0].cql.contains("shop.items"));
    }

    #[test]
    fn rates_quantiles_and_errors_are_told_apart_from_chance() {
        let before = scan("items", 1_000);
        let mut after = before.clone();
        let pattern = &mut after["patterns"][0];
        pattern["count"] = 1_020.into();
        pattern["errors"] = 1.into();
        assert_eq!(between(&before, &after).patterns.unchanged, 1);
        let pattern = &mut after["patterns"][0];
        pattern["count"] = 4_000.into();
        pattern["errors"] = 400.into();
        let changed = between(&before, &after).patterns.changed;
        let remarks = changed[0].remarks();
        assert!(
            remarks.starts_with("rate ") && remarks.ends_with("errors 0 % → 10 %"),
            "{remarks}"
        );
    }
}
