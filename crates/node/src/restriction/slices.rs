//! Clustering relations as stretches of a partition.

use bytes::Bytes;

use super::predicate::Predicate;
use super::relation::Restricted;
use crate::layout::Layout;
use crate::store::Stretch;

/// Clustering relations turned into stretches, column after column.
pub(super) struct Slices<'c> {
    layout: &'c Layout,
    /// Values of the first columns; several after an IN.
    pub(super) named: Vec<Vec<Bytes>>,
    /// Slices behind them.
    pub(super) bounds: Vec<&'c Restricted>,
    /// Part of a slice, but to be checked for each row.
    pub(super) checked: Vec<&'c Restricted>,
    /// Neither equal beginnings nor slices right behind them.
    pub(super) left_over: Vec<&'c Restricted>,
}

impl<'c> Slices<'c> {
    /// Sorts the relations on clustering columns; without named partitions all of them are left over.
    pub(super) fn of(conditions: &[&'c Restricted], layout: &'c Layout, names_keys: bool) -> Slices<'c> {
        let mut slices = Slices {
            layout,
            named: vec![Vec::new()],
            bounds: Vec::new(),
            checked: Vec::new(),
            left_over: Vec::new(),
        };
        if names_keys {
            slices.narrow(conditions);
        } else {
            slices.left_over = conditions.to_vec();
        }
        slices
    }

    fn narrow(&mut self, conditions: &[&'c Restricted]) {
        let mut waiting = conditions.to_vec();
        let mut next = self.layout.partition_key_len;
        let names_next = |condition: &&Restricted, next| condition.begins_at(next) && !condition.is_slice();
        while let Some(at) = waiting.iter().position(|condition| names_next(condition, next)) {
            let condition = waiting.remove(at);
            self.extend(condition);
            next += condition.columns.len();
        }
        for condition in waiting {
            match condition.is_slice() && condition.begins_at(next) {
                true if condition.is_in_one_direction(self.layout) => self.bounds.push(condition),
                true => self.checked.push(condition),
                false => self.left_over.push(condition),
            }
        }
    }

    fn extend(&mut self, condition: &Restricted) {
        let alternatives = match &condition.predicate {
            Predicate::Equal(values) => std::slice::from_ref(values),
            Predicate::In(alternatives) => alternatives,
            _ => return,
        };
        let extended = |named: &Vec<Bytes>| -> Vec<Vec<Bytes>> {
            alternatives
                .iter()
                .map(|values| [&named[..], values].concat())
                .collect()
        };
        self.named = self.named.iter().flat_map(extended).collect();
    }

    /// The stretches that the relations name, sorted.
    pub(super) fn stretches(&self) -> Vec<Stretch> {
        let stretch = |named: &Vec<Bytes>| {
            let prefix = self.layout.clustering_key(named.clone()).position;
            let whole = Stretch::of_prefix(prefix.clone());
            let slices = self
                .bounds
                .iter()
                .map(|condition| condition.stretch(&prefix, self.layout));
            slices.fold(whole, |stretch, slice| stretch.intersection(&slice))
        };
        let stretches = self
            .named
            .iter()
            .map(stretch)
            .filter(|stretch| !stretch.is_empty());
        let mut stretches: Vec<Stretch> = stretches.collect();
        stretches.sort();
        stretches.dedup();
        stretches
    }
}
