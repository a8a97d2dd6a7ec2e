//! From what was tallied to a comparison as reports have it.

use std::borrow::Cow;

use cqlens_report::{BothLatencies, COMPARISON_FORMAT, ComparedPattern, Comparison, ComparisonAbout, Tool};

use super::{PatternTally, Tally};

/// The report of what was tallied.
pub fn report(tally: &Tally, about: ComparisonAbout) -> Comparison {
    let ranked = tally.ranked();
    let others = tally.others.as_deref().into_iter();
    let all = ranked.iter().map(|(_, tally)| *tally).chain(others);
    let differing = all.filter(|tally| tally.is_above_noise()).count();
    Comparison {
        format: Cow::Borrowed(COMPARISON_FORMAT),
        tool: Tool::this(),
        about,
        totals: pattern(None, &tally.total()),
        patterns_that_differ: differing as u64,
        patterns: ranked
            .iter()
            .map(|(id, tally)| pattern(Some(id), tally))
            .collect(),
    }
}

fn pattern(id: Option<&str>, tally: &PatternTally) -> ComparedPattern {
    ComparedPattern {
        id: id.map(ToOwned::to_owned),
        cql: tally.shape.to_string(),
        keyspace: tally.keyspace.as_deref().map(ToOwned::to_owned),
        executions: tally.executions,
        compared: tally.compared,
        agreed_later: tally.agreed_later,
        differing: tally.differing(),
        differences: tally.differences.clone(),
        is_noise: tally.differing() > 0 && !tally.is_above_noise(),
        example: tally.example.clone(),
        skipped: tally.skipped.clone(),
        not_compared: tally.not_compared.clone(),
        noise: tally.noise,
        latency_us: BothLatencies {
            first: tally.first_latency.summary(),
            other: tally.other_latency.summary(),
        },
    }
}
