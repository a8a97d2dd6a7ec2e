//! How many entries are kept: after merging, and of what a document has.

use std::collections::BTreeMap;

use super::{BucketReads, Link, Sequences};

impl Sequences {
    /// Where there is too much, what has the lowest ids stays, which are hashes: that is the same in any order and grouping of
    /// what is merged, and what stays is counted in full.
    pub(crate) fn keep_within_limits(&mut self) {
        keep_lowest(&mut self.followed, Self::MOST);
        keep_lowest(&mut self.buckets, Self::MOST_LINKS);
        keep_lowest(&mut self.copies, Self::MOST);
        keep_lowest(&mut self.batched, Self::MOST);
        keep_lowest(&mut self.repeats, Self::MOST_LINKS);
        keep_lowest(&mut self.requests, Self::MOST);
        let mut room = Self::MOST_LINKS;
        for reads in self.followed.values_mut() {
            room -= keep_lowest(&mut reads.links, room);
            reads.links.values_mut().for_each(Link::keep_within_limits);
        }
        let mut room = Self::MOST_LINKS;
        for writes in self.copies.values_mut() {
            room -= keep_lowest(&mut writes.pairs, room);
        }
        let mut room = Self::MOST_LINKS;
        for reads in self.rewrites.values_mut() {
            room -= keep_lowest(reads, room);
        }
        self.rewrites.retain(|_, reads| !reads.is_empty());
        let mut room = Self::MOST_LINKS;
        for columns in self.buckets.values_mut() {
            room -= keep_lowest(columns, room);
            columns.values_mut().for_each(BucketReads::keep_within_limits);
        }
        self.buckets.retain(|_, columns| !columns.is_empty());
    }
}

impl Link {
    fn keep_within_limits(&mut self) {
        keep_lowest(&mut self.columns, Sequences::MOST_COLUMNS);
        for keys in self.columns.values_mut() {
            keep_lowest(keys, Sequences::MOST_COLUMNS);
        }
    }
}

impl BucketReads {
    /// The lowest values stay, whatever the order.
    fn keep_within_limits(&mut self) {
        keep_lowest(&mut self.step_sizes, Self::MOST_STEPS);
        while self.values.len() > Self::MOST_VALUES {
            self.values.pop_last();
        }
    }
}

/// Keeps the entries with the lowest keys, at most so many; how many there are then.
fn keep_lowest<K: Ord, V>(entries: &mut BTreeMap<K, V>, most: usize) -> usize {
    while entries.len() > most {
        entries.pop_last();
    }
    entries.len()
}
