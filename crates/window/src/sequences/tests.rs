//! What is merged, and its limits.

use super::*;
use proptest::{collection::vec, prelude::*};

#[test]
fn values_are_dates_only_if_all_of_them_are() {
    assert_eq!(BucketUnit::Days.and(None), BucketUnit::Days);
    assert_eq!(
        BucketUnit::Days.and(Some(BucketUnit::Numbers)),
        BucketUnit::Numbers
    );
    let reads = |unit| BucketReads {
        unit,
        ..BucketReads::default()
    };
    let mut none = reads(None);
    none.merge(&reads(Some(BucketUnit::Days)));
    assert_eq!(none.unit, Some(BucketUnit::Days));
    none.merge(&reads(None));
    assert_eq!(none.unit, Some(BucketUnit::Days));
}

/// Something of everything for two patterns; the fewer patterns there are, the more often they meet.
fn note(sequences: &mut Sequences, (from, to, value): (u64, u64, u64)) {
    let (from, to) = (PatternId(from), PatternId(to));
    let mut some = Distribution::default();
    some.record(value);
    let column = format!("c{}", value % 90);
    let link = Link {
        keys: some.clone(),
        rows: value,
        requests: 1,
        columns: [(column.clone(), [("k".to_owned(), 1)].into())].into(),
        ..Link::default()
    };
    let followed = FollowedReads {
        reads: 1,
        operation_us: some.clone(),
        links: [(to, link)].into(),
        ..FollowedReads::default()
    };
    let buckets = BucketReads {
        partitions: some.clone(),
        limit: some.clone(),
        step_sizes: [(value, 1)].into(),
        unit: Some(BucketUnit::Days),
        values: [value.cast_signed()].into(),
        ..BucketReads::default()
    };
    let pairs = WritePairs {
        pairs: value,
        apart_us: some,
        ..WritePairs::default()
    };
    let rewrites = Rewrites {
        writes: 1,
        late: value % 3,
        elapsed_us: pairs.apart_us.clone(),
    };
    let copies = CopiedWrites {
        writes: 1,
        pairs: [(to, pairs)].into(),
    };
    let mut keys = Distinct::default();
    keys.insert(value.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let repeats = RepeatedReads {
        runs: 1,
        reads: value,
        keys,
        bursts: Bursts {
            runs: 1,
            reads: value,
            ..Bursts::default()
        },
    };
    sequences.add(&Sequences {
        followed: [(from, followed)].into(),
        buckets: [(from, [(column, buckets)].into())].into(),
        copies: [(from, copies)].into(),
        rewrites: [(from, [(to, rewrites)].into())].into(),
        repeats: [(to, repeats)].into(),
        requests: [(from, value), (to, 1)].into(),
        ..Sequences::default()
    });
    sequences.note_batch(to, value % 2 == 0, true);
}

/// What a window has, which keeps to the limits by itself.
fn window(notes: &[(u64, u64, u64)]) -> Sequences {
    let mut all = Sequences::default();
    notes.iter().for_each(|one| note(&mut all, *one));
    let mut kept = Sequences::default();
    kept.merge(&all);
    kept
}

fn assert_is_bounded(sequences: &Sequences) {
    assert!(
        sequences.links() <= Sequences::MOST_LINKS,
        "{}",
        sequences.links()
    );
    let pairs: usize = sequences.copies.values().map(|writes| writes.pairs.len()).sum();
    assert!(pairs <= Sequences::MOST_LINKS, "{pairs}");
    let rewrites: usize = sequences.rewrites.values().map(BTreeMap::len).sum();
    assert!(rewrites <= Sequences::MOST_LINKS, "{rewrites}");
    assert!(sequences.repeats.len() <= Sequences::MOST_LINKS);
    assert!(sequences.requests.len() <= Sequences::MOST);
    let columns: usize = sequences.buckets.values().map(BTreeMap::len).sum();
    assert!(columns <= Sequences::MOST_LINKS, "{columns}");
    assert!(sequences.batched.len() <= Sequences::MOST);
    for reads in sequences.buckets.values().flat_map(BTreeMap::values) {
        assert!(reads.step_sizes.len() <= BucketReads::MOST_STEPS);
        assert!(reads.values.len() <= BucketReads::MOST_VALUES);
    }
    let links = sequences.followed.values().flat_map(|reads| reads.links.values());
    links.for_each(|link| assert!(link.columns.len() <= Sequences::MOST_COLUMNS));
}

#[test]
fn what_is_merged_for_weeks_is_bounded_and_what_stays_is_complete() {
    let mut all = Sequences::default();
    for day in 0..40_u64 {
        let notes: Vec<_> = (0..300)
            .map(|at| (at, 10_000 + day % 8, 7))
            .chain((0..90).map(|value| (3, 10_000, value)))
            .collect();
        all.merge(&window(&notes));
        assert_is_bounded(&all);
    }
    assert_eq!(all.links(), Sequences::MOST_LINKS);
    assert_eq!(all.followed[&PatternId(0)].reads, 40);
    assert_eq!(all.followed[&PatternId(0)].links[&PatternId(10_000)].requests, 5);
    assert_eq!(all.followed[&PatternId(299)].links.len(), 0);
}

/// Statements of a day, of which none comes on another one: writes that were read just before, repeated reads and buckets.
fn of_a_day(day: u64, statements: u64) -> Sequences {
    let notes: Vec<_> = (0..statements)
        .map(|at| at * 100 + day)
        .map(|id| (id, id, 50 + id % 2))
        .collect();
    window(&notes)
}

#[test]
fn of_ever_new_statements_the_lowest_ids_stay_however_many_windows_are_merged() {
    let mut all = Sequences::default();
    (0..40).for_each(|day| {
        all.merge(&of_a_day(day, 60));
        assert_is_bounded(&all);
    });
    let pairs: usize = all.rewrites.values().map(BTreeMap::len).sum();
    let columns: usize = all.buckets.values().map(BTreeMap::len).sum();
    assert_eq!(
        [pairs, all.repeats.len(), columns],
        [Sequences::MOST_LINKS; 3],
        "of 2,400 each"
    );
    // Forty in a hundred ids: 1,000 of those below 2,500, and 24 more.
    let highest = |ids: Vec<&PatternId>| ids.last().map(|id| id.0);
    for ids in [
        highest(all.rewrites.keys().collect()),
        highest(all.repeats.keys().collect()),
        highest(all.buckets.keys().collect()),
    ] {
        assert_eq!(ids, Some(25 * 100 + 23));
    }
    let (before, more) = (all.bytes(), of_a_day(40, 2_000));
    all.merge(&more);
    assert_is_bounded(&all);
    assert_eq!(all.repeats[&PatternId(40)].runs, 1, "lower than what was there");
    assert!(
        all.bytes() <= before + before / 4,
        "{} after {before}",
        all.bytes()
    );
}

#[test]
fn what_a_window_tells_apart_is_bounded_before_it_is_merged() {
    let mut sequences = Sequences::default();
    let taken = (0..3_000).filter(|id| sequences.repeated(PatternId(*id)).is_some());
    assert_eq!(taken.count(), Sequences::MOST_LINKS);
    assert!(sequences.repeated(PatternId(7)).is_some(), "known");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn merging_does_not_depend_on_order_or_grouping(
        a in vec((0..40_u64, 0..60_u64, 0..400_u64), 0..900),
        b in vec((0..40_u64, 0..60_u64, 0..400_u64), 0..900),
        c in vec((0..3_u64, 0..3_u64, 0..400_u64), 0..300),
    ) {
        let (a, b, c) = (window(&a), window(&b), window(&c));
        let mut left = a.clone();
        left.merge(&b);
        left.merge(&c);
        let mut of_others = b.clone();
        of_others.merge(&c);
        let mut right = a.clone();
        right.merge(&of_others);
        prop_assert_eq!(&left, &right, "another grouping");
        let mut backwards = c;
        backwards.merge(&b);
        backwards.merge(&a);
        prop_assert_eq!(&left, &backwards, "another order");
        assert_is_bounded(&left);
    }
}
