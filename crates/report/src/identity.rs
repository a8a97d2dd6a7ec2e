//! What a finding is known by in another report: its id, or its rule and table with one of its templates.

use std::collections::HashMap;

use cqlens_rules::{Severity, StableId, work};
use cqlens_window::PatternId;

/// What a finding is known by. Two are the same if they have one id, or come from one rule on one table, about one of the
/// same templates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity<'f> {
    pub(super) id: Option<StableId>,
    pub(super) rule: &'f str,
    pub(super) place: (Option<&'f str>, Option<&'f str>),
    pub(super) patterns: &'f [PatternId],
}

/// One of the names of a finding: findings that share one are the same.
#[derive(PartialEq, Eq, Hash)]
enum Name<'f> {
    Id(StableId),
    /// Without templates.
    Alone(&'f str, (Option<&'f str>, Option<&'f str>)),
    OnPattern(&'f str, (Option<&'f str>, Option<&'f str>), PatternId),
}

impl<'f> Identity<'f> {
    fn names(self) -> impl Iterator<Item = Name<'f>> {
        let (rule, place) = (self.rule, self.place);
        let alone = self.patterns.is_empty().then_some(Name::Alone(rule, place));
        let patterns = self.patterns.iter();
        let on_patterns = patterns.map(move |id| Name::OnPattern(rule, place, *id));
        let names = self.id.map(Name::Id).into_iter().chain(alone).chain(on_patterns);
        names.inspect(|_| work::look(1))
    }
}

/// The findings of a report by their names.
pub(super) struct Known<'f>(HashMap<Name<'f>, (Severity, usize)>);

impl<'f> Known<'f> {
    pub(super) fn of(findings: impl Iterator<Item = (Identity<'f>, Severity)>) -> Self {
        let mut known = HashMap::new();
        for (at, (identity, severity)) in findings.enumerate() {
            for name in identity.names() {
                let severest = known.entry(name).or_insert((severity, at));
                *severest = (severity, at).max(*severest);
            }
        }
        Self(known)
    }

    /// The severest of the findings that are the same, the last of those that are as severe: its severity and its place.
    pub(super) fn severest(&self, identity: Identity<'_>) -> Option<(Severity, usize)> {
        identity
            .names()
            .filter_map(|name| self.0.get(&name))
            .max()
            .copied()
    }
}
