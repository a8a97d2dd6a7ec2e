//! The series of the heaviest of many things: tables, or patterns.

use std::collections::BTreeMap;

use super::{cell::Cell, grid::Grid, spread::Spread};

/// Series by their names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeriesSet<K: Ord> {
    series: BTreeMap<K, Series>,
    /// Whether there was no room for something: what is new from then on may have been there before.
    has_left_out: bool,
}

/// The points of one thing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    /// By their place on the grid.
    pub(super) cells: BTreeMap<i64, Cell>,
    /// All latencies together.
    time_us: u64,
    /// Whether nothing of it was left out.
    pub(super) is_whole: bool,
}

/// What a cell takes up in a tree, where two of three places are taken.
const PER_CELL: usize = (size_of::<Cell>() + size_of::<i64>()) * 3 / 2;

impl<K: Ord> Default for SeriesSet<K> {
    fn default() -> Self {
        Self {
            series: BTreeMap::new(),
            has_left_out: false,
        }
    }
}

impl<K: Ord + Clone> SeriesSet<K> {
    pub(super) fn len(&self) -> usize {
        self.series.len()
    }

    pub(super) fn get(&self, name: &K) -> Option<&Series> {
        self.series.get(name)
    }

    pub(super) fn series_mut(&mut self, name: &K) -> &mut Series {
        let is_whole = !self.has_left_out;
        self.series.entry(name.clone()).or_insert_with(|| Series {
            is_whole,
            ..Series::default()
        })
    }

    fn has_all_of(&self, name: &K) -> bool {
        !self.has_left_out || self.series.contains_key(name)
    }

    pub(super) fn coarsen(&mut self, factor: i64) {
        self.series.values_mut().for_each(|series| series.coarsen(factor));
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (name, series) in &mut self.series {
            series.is_whole &= other.has_all_of(name);
        }
        for (name, mut series) in other.series {
            series.is_whole &= self.has_all_of(&name);
            match self.series.get_mut(&name) {
                Some(mine) => mine.merge(series),
                None => drop(self.series.insert(name, series)),
            }
        }
        self.has_left_out |= other.has_left_out;
    }

    /// Leaves those that took most time; of those without latencies the busiest.
    pub(super) fn keep_heaviest(&mut self, most: usize) {
        if self.series.len() <= most {
            return;
        }
        let weight = |(name, series): (&K, &Series)| (series.weight(), name.clone());
        let mut weights: Vec<_> = self.series.iter().map(weight).collect();
        weights.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
        for (_, name) in weights.drain(most..) {
            self.series.remove(&name);
        }
        self.has_left_out = true;
    }

    /// Bytes that they take up, but for their names.
    pub(super) fn bytes(&self) -> usize {
        self.series.values().map(Series::bytes).sum()
    }
}

impl Default for Series {
    fn default() -> Self {
        Self {
            cells: BTreeMap::new(),
            time_us: 0,
            is_whole: true,
        }
    }
}

impl Series {
    /// Adds a window, evenly over the time in which it was watched.
    pub(super) fn add(&mut self, whole: &Cell, time_us: u64, (spread, grid): (&Spread, &Grid)) {
        self.time_us = self.time_us.saturating_add(time_us);
        if whole.is_empty() {
            return;
        }
        for (at, share) in spread.over(grid) {
            let part = whole.part(share);
            if !part.is_empty() {
                self.cells.entry(at).or_default().merge(&part);
            }
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.is_whole &= other.is_whole;
        self.time_us = self.time_us.saturating_add(other.time_us);
        for (at, cell) in other.cells {
            self.cells.entry(at).or_default().merge(&cell);
        }
    }

    pub(super) fn coarsen(&mut self, factor: i64) {
        for (at, cell) in std::mem::take(&mut self.cells) {
            self.cells.entry(at.div_euclid(factor)).or_default().merge(&cell);
        }
    }

    /// The time that it took, and the requests.
    fn weight(&self) -> (u64, u64) {
        let requests = self.cells.values().map(Cell::requests);
        (self.time_us, requests.fold(0, u64::saturating_add))
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() * 2 + self.cells.len() * PER_CELL
    }
}
