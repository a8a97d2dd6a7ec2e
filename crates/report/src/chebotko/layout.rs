//! Where everything stands: tables in two columns, queries at their outer sides, joins between the columns.
//!
//! Queries enter at the sides and cross nothing. Tables that are joined stand in opposite columns, in the order in
//! which the joins lead to them, so that the arrows of a tree of joins do not cross either.

use std::collections::BTreeMap;

use super::model::{Model, Table};

/// Of the whole picture.
pub(super) const WIDTH: f64 = 1_200.0;
/// Of a table.
pub(super) const TABLE: f64 = 285.0;
/// The left edges of the two columns.
const COLUMNS: [f64; 2] = [215.0, 700.0];
/// A line of a table.
pub(super) const LINE: f64 = 19.0;
/// From a query to the next one: two lines of words and the arrow.
pub(super) const QUERY: f64 = 46.0;
/// From a table's top to its first arrow: two lines of words above it.
pub(super) const FIRST_ARROW: f64 = 40.0;
/// Between two tables.
const GAP: f64 = 26.0;

/// The column in which a table stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayoutColumn {
    Left,
    Right,
}

/// A table's place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TableBox {
    pub(super) side: LayoutColumn,
    pub(super) top: f64,
    pub(super) height: f64,
}

/// The points that a join runs between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Curve {
    pub(super) from: (f64, f64),
    pub(super) to: (f64, f64),
}

/// The places of all tables and the curves of all joins, in the order of the model.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) places: Vec<TableBox>,
    pub(super) curves: Vec<Curve>,
    pub(super) height: f64,
}

impl LayoutColumn {
    fn opposite(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Left => 0,
            Self::Right => 1,
        }
    }

    /// The left edge of its tables.
    pub(super) fn left(self) -> f64 {
        COLUMNS[self.index()]
    }

    /// The edge of its tables that the other column is beyond.
    pub(super) fn inner(self) -> f64 {
        match self {
            Self::Left => self.left() + TABLE,
            Self::Right => self.left(),
        }
    }
}

impl Layout {
    pub(super) fn of(model: &Model) -> Self {
        let mut bottoms = [0.0; 2];
        let mut places = vec![None; model.tables.len()];
        for group in groups(model) {
            // What belongs together begins at one height.
            let is_joined = group.len() > 1;
            let top = f64::max(bottoms[0], bottoms[1]);
            if is_joined {
                bottoms = [top; 2];
            }
            let shorter = match bottoms[0] <= bottoms[1] {
                true => LayoutColumn::Left,
                false => LayoutColumn::Right,
            };
            for (table, side) in group {
                let side = if is_joined { side } else { shorter };
                let height = height(model, table);
                if let Some(place) = places.get_mut(table) {
                    *place = Some(TableBox {
                        side,
                        top: bottoms[side.index()],
                        height,
                    });
                }
                bottoms[side.index()] += height + GAP;
            }
        }
        let places: Vec<_> = places.into_iter().flatten().collect();
        Self {
            curves: curves(model, &places),
            height: f64::max(bottoms[0], bottoms[1]),
            places,
        }
    }
}

/// Tables that joins connect, each group from where its joins begin; those without joins alone.
fn groups(model: &Model) -> Vec<Vec<(usize, LayoutColumn)>> {
    let is_target = |table: &usize| model.joins.iter().any(|join| join.to == *table);
    let all = 0..model.tables.len();
    let (targets, sources): (Vec<_>, Vec<_>) = all.partition(is_target);
    let mut placed = vec![false; model.tables.len()];
    let mut groups = Vec::new();
    // Circles have no beginning: they begin anywhere.
    for first in sources.into_iter().chain(targets) {
        let group = connected(model, first, &mut placed);
        if !group.is_empty() {
            groups.push(group);
        }
    }
    groups
}

/// The tables that joins connect with `first`, breadth first, each opposite to the one that leads to it.
fn connected(model: &Model, first: usize, placed: &mut [bool]) -> Vec<(usize, LayoutColumn)> {
    let mut group = Vec::new();
    let mut add = |table: usize, side, group: &mut Vec<(usize, LayoutColumn)>| {
        if placed.get(table) == Some(&false) {
            placed[table] = true;
            group.push((table, side));
        }
    };
    add(first, LayoutColumn::Left, &mut group);
    let mut next = 0;
    while let Some(&(table, side)) = group.get(next) {
        for join in &model.joins {
            if join.from == table {
                add(join.to, side.opposite(), &mut group);
            } else if join.to == table {
                add(join.from, side.opposite(), &mut group);
            }
        }
        next += 1;
    }
    untangled(group, model)
}

/// How often both columns are ordered by each other.
const SWEEPS: usize = 8;

/// The same tables in the order in which the fewest arrows cross: each column in turn is ordered by where the other
/// one's tables stand (the barycenter method of Sugiyama).
fn untangled(group: Vec<(usize, LayoutColumn)>, model: &Model) -> Vec<(usize, LayoutColumn)> {
    let (mut best, mut tried) = (group.clone(), group);
    for sweep in 0..SWEEPS {
        let side = [LayoutColumn::Left, LayoutColumn::Right][sweep % 2];
        let ranks = ranks(&tried);
        let (of_side, others): (Vec<_>, Vec<_>) = tried.iter().copied().partition(|(_, of)| *of == side);
        let mut ordered: Vec<_> = of_side
            .into_iter()
            .map(|placed| (center(placed.0, &ranks, model), placed))
            .collect();
        ordered.sort_by(|(left, _), (right, _)| left.total_cmp(right));
        let ordered = ordered.into_iter().map(|(_, placed)| placed);
        tried = others.into_iter().chain(ordered).collect();
        if crossings(&tried, model) < crossings(&best, model) {
            best.clone_from(&tried);
        }
    }
    best
}

/// The place of each table in its column.
fn ranks(group: &[(usize, LayoutColumn)]) -> BTreeMap<usize, usize> {
    let mut next = [0_usize; 2];
    let ranked = group.iter().map(|&(table, side)| {
        let rank = next[side.index()];
        next[side.index()] += 1;
        (table, rank)
    });
    ranked.collect()
}

/// Where the tables that a table is joined with stand, on average.
fn center(table: usize, ranks: &BTreeMap<usize, usize>, model: &Model) -> f64 {
    let partners = model
        .joins
        .iter()
        .filter_map(|join| match (join.from == table, join.to == table) {
            (true, false) => ranks.get(&join.to),
            (false, true) => ranks.get(&join.from),
            _ => None,
        });
    let partners: Vec<_> = partners.map(|&rank| rank as f64).collect();
    match partners.is_empty() {
        true => 0.0,
        false => partners.iter().sum::<f64>() / partners.len() as f64,
    }
}

/// Pairs of arrows that cross between the columns.
fn crossings(group: &[(usize, LayoutColumn)], model: &Model) -> usize {
    let ranks = ranks(group);
    let side = |table| group.iter().find(|(of, _)| *of == table).map(|(_, side)| *side);
    let ends = model.joins.iter().filter_map(|join| {
        let (from, to) = (*ranks.get(&join.from)?, *ranks.get(&join.to)?);
        match (side(join.from)?, side(join.to)?) {
            (LayoutColumn::Left, LayoutColumn::Right) => Some((from, to)),
            (LayoutColumn::Right, LayoutColumn::Left) => Some((to, from)),
            _ => None,
        }
    });
    let ends: Vec<_> = ends.collect();
    let crossed = ends.iter().enumerate().map(|(at, one)| {
        let others = ends.get(at + 1..).unwrap_or_default().iter();
        others
            .filter(|other| one.0 < other.0 && one.1 > other.1 || one.0 > other.0 && one.1 < other.1)
            .count()
    });
    crossed.sum()
}

/// A table's height: that of its lines, or of the arrows at its sides.
fn height(model: &Model, table: usize) -> f64 {
    let Some(drawn) = model.tables.get(table) else {
        return 0.0;
    };
    let ends = model
        .joins
        .iter()
        .filter(|join| join.from == table || join.to == table);
    let arrows = drawn.queries.len().max(ends.count());
    let of_arrows = match arrows {
        0 => 0.0,
        arrows => FIRST_ARROW + (arrows - 1) as f64 * QUERY + 12.0,
    };
    lines(drawn).max(of_arrows)
}

/// The height of a table's lines: name, columns, footer.
fn lines(table: &Table) -> f64 {
    let footer = usize::from(!table.footer.is_empty());
    26.0 + LINE * (table.columns.len() + footer) as f64 + 8.0
}

/// The arrows of joins: each end at a table has a height of its own, in the order of the tables at the other ends.
fn curves(model: &Model, places: &[TableBox]) -> Vec<Curve> {
    let end = |join: usize, table: usize| {
        let place = places.get(table)?;
        let mut ends: Vec<_> = model
            .joins
            .iter()
            .enumerate()
            .filter(|(_, other)| other.from == table || other.to == table)
            .map(|(at, other)| (at, if other.from == table { other.to } else { other.from }))
            .collect();
        let top = |table: usize| places.get(table).map_or(0.0, |place| place.top);
        ends.sort_by(|left, right| top(left.1).total_cmp(&top(right.1)));
        let slot = ends.iter().position(|(at, _)| *at == join)?;
        let y = place.top + FIRST_ARROW + slot as f64 * QUERY;
        Some((place.side.inner(), y))
    };
    let joins = model.joins.iter().enumerate();
    joins
        .filter_map(|(at, join)| {
            Some(Curve {
                from: end(at, join.from)?,
                to: end(at, join.to)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::model::{ArrowVerdict, Join, Query};
    use super::*;
    use proptest::prelude::*;

    fn table(queries: usize) -> Table {
        let query = |_| Query {
            label: "by id".to_owned(),
            figures: String::new(),
            verdict: ArrowVerdict::Fine,
            per_minute: 1.0,
            link: None,
        };
        Table {
            name: "t".to_owned(),
            columns: Vec::new(),
            footer: String::new(),
            is_unread: false,
            queries: (0..queries).map(query).collect(),
        }
    }

    fn model(tables: usize, joins: &[(usize, usize)]) -> Model {
        let join = |&(from, to): &(usize, usize)| Join {
            from,
            to,
            label: String::new(),
            figures: String::new(),
            verdict: ArrowVerdict::Fine,
            per_minute: 1.0,
        };
        Model {
            keyspace: "k".to_owned(),
            tables: (0..tables).map(|at| table(at % 4)).collect(),
            joins: joins.iter().map(join).collect(),
        }
    }

    /// Pairs of arrows that cross in the picture.
    fn crossings(layout: &Layout) -> usize {
        let by_side = |curve: &Curve| match curve.from.0 < curve.to.0 {
            true => (curve.from.1, curve.to.1),
            false => (curve.to.1, curve.from.1),
        };
        let curves: Vec<_> = layout.curves.iter().map(by_side).collect();
        let pairs = curves
            .iter()
            .enumerate()
            .flat_map(|(at, one)| curves[at + 1..].iter().map(move |other| (one, other)));
        pairs
            .filter(|(one, other)| (one.0 - other.0) * (one.1 - other.1) < 0.0)
            .count()
    }

    fn overlaps(layout: &Layout) -> bool {
        let places = layout.places.iter().enumerate();
        places.clone().any(|(at, one)| {
            layout.places[at + 1..].iter().any(|other| {
                let are_beside = one.top + one.height <= other.top || other.top + other.height <= one.top;
                one.side == other.side && !are_beside
            })
        })
    }

    #[test]
    fn joined_tables_stand_opposite_at_one_height() {
        let layout = Layout::of(&model(3, &[(1, 2)]));
        let (alone, from, to) = (layout.places[0], layout.places[1], layout.places[2]);
        assert_eq!((from.side, to.side), (LayoutColumn::Left, LayoutColumn::Right));
        assert!((from.top - to.top).abs() < 1e-9);
        assert_ne!(alone.top, from.top);
        assert!(layout.curves[0].from.0 < layout.curves[0].to.0);
    }

    #[test]
    fn several_joins_of_a_table_do_not_cross() {
        assert_eq!(crossings(&Layout::of(&model(4, &[(0, 1), (0, 2), (0, 3)]))), 0);
        assert_eq!(
            crossings(&Layout::of(&model(5, &[(0, 1), (1, 2), (0, 3), (3, 4)]))),
            0
        );
        // Both follow from the same table, and from each other.
        assert_eq!(Layout::of(&model(2, &[(0, 1), (1, 0)])).curves.len(), 2);
    }

    #[test]
    fn sixty_tables_fill_both_columns() {
        let layout = Layout::of(&model(60, &[]));
        let left = layout
            .places
            .iter()
            .filter(|place| place.side == LayoutColumn::Left);
        assert!((25..=35).contains(&left.count()));
        assert!(!overlaps(&layout));
    }

    proptest! {
        #[test]
        fn no_table_lies_on_another_and_stars_do_not_cross(
            tables in 1_usize..20,
            joins in proptest::collection::vec((0_usize..20, 0_usize..20), 0..12),
        ) {
            let joins: Vec<_> = joins
                .into_iter()
                .filter(|(from, to)| from != to && *from < tables && *to < tables)
                .collect();
            let layout = Layout::of(&model(tables, &joins));
            prop_assert_eq!(layout.places.len(), tables);
            prop_assert_eq!(layout.curves.len(), joins.len());
            prop_assert!(!overlaps(&layout));
            let star: Vec<_> = (1..tables).map(|to| (0, to)).collect();
            prop_assert_eq!(crossings(&Layout::of(&model(tables, &star))), 0);
        }
    }
}
