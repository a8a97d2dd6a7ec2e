//! Whether two clusters have answered the same: digests in, a verdict out.

mod latency;
mod report;
mod settle;
mod tally;
mod whole_read;

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
};

use cqlens_proto::message::ErrorCode;
pub use cqlens_report::{
    Comparison, ComparisonAbout, ComparisonFormat, Difference, DifferenceExample, DifferenceKind, NotCompared,
};

pub use latency::Latencies;
pub use report::report;
pub use settle::{PendingDifference, Settled};
pub use tally::{Counted, PatternTally, Tally};
pub use whole_read::{PageStep, WholeReads};

use crate::{
    digest::{ResponseDigest, RowsDigest},
    statement::Unstable,
};

/// How two responses to one request are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Whether CQL promises the order of the rows.
    pub is_ordered: bool,
    /// What depends on when and where the statement is run.
    pub unstable: Unstable,
}

/// What a comparison has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The same.
    Equal,
    /// Not the same.
    Differs(Difference),
    /// It cannot be said.
    NotCompared(NotCompared),
}

/// Columns that are left out of comparisons, by name.
pub type ExcludedColumns = BTreeSet<String>;

/// Compares what two clusters gave.
pub fn compare(
    expected: &ResponseDigest,
    actual: &ResponseDigest,
    terms: &Terms,
    excluded: &ExcludedColumns,
) -> Verdict {
    use ResponseDigest::{Error, Missing, Rows};
    if terms.unstable == Unstable::All && !matches!((expected, actual), (Error(_), _) | (_, Error(_))) {
        return Verdict::NotCompared(NotCompared::Unstable);
    }
    match (expected, actual) {
        (Missing, _) | (_, Missing) => Verdict::NotCompared(NotCompared::FirstUnknown),
        (Error(code), _) if is_trouble(*code) => Verdict::NotCompared(NotCompared::FirstFailed),
        (Error(first), Error(second)) if first == second => Verdict::Equal,
        (Error(_), Error(_)) => differs(DifferenceKind::OtherError, expected, actual),
        (_, Error(_)) => differs(DifferenceKind::Error, expected, actual),
        (Error(_), _) => differs(DifferenceKind::NoError, expected, actual),
        (Rows(first), Rows(second)) => compare_rows(first, second, terms, excluded),
        (first, second) if first == second => Verdict::Equal,
        _ => differs(DifferenceKind::Kind, expected, actual),
    }
}

/// Whether a code says that the cluster was in trouble, not that the request was wrong.
pub(crate) fn is_trouble(code: i32) -> bool {
    code == ErrorCode::SERVER_ERROR.0 || (0x1000..0x2000).contains(&code)
}

fn compare_rows(
    expected: &RowsDigest,
    actual: &RowsDigest,
    terms: &Terms,
    excluded: &ExcludedColumns,
) -> Verdict {
    if let Some(difference) = compare_columns(expected, actual) {
        return Verdict::Differs(difference);
    }
    let rows = |kind, columns| {
        Verdict::Differs(Difference {
            kind,
            expected: rows_text(expected),
            actual: rows_text(actual),
            columns,
        })
    };
    if expected.count != actual.count {
        return rows(DifferenceKind::RowCount, Vec::new());
    }
    if expected.ordered == actual.ordered && expected.columns.len() == actual.columns.len() {
        return Verdict::Equal;
    }
    let names = names(expected, actual);
    let Some(left_out) = left_out(terms, excluded, names) else {
        return Verdict::NotCompared(NotCompared::UnknownColumns);
    };
    if !left_out.is_empty() && expected.columns.is_empty() {
        return Verdict::NotCompared(NotCompared::UnknownColumns);
    }
    if expected.unordered == actual.unordered {
        return match terms.is_ordered && left_out.is_empty() {
            true => rows(DifferenceKind::Order, Vec::new()),
            false => Verdict::Equal,
        };
    }
    let pairs = expected.columns.iter().zip(&actual.columns).enumerate();
    let differing = pairs.filter(|(place, (first, second))| first != second && !left_out.contains(place));
    let differing: Vec<String> = differing
        .map(|(place, _)| {
            names
                .and_then(|names| names.get(place))
                .map_or(format!("#{place}"), |name| cut(&name.0, LONGEST_NAME))
        })
        .take(MOST_LISTED)
        .collect();
    // Cells that have changed places between rows: each column has the same ones.
    if differing.is_empty() && !left_out.is_empty() {
        return Verdict::Equal;
    }
    rows(DifferenceKind::Rows, differing)
}

type Names = [(String, String)];

fn names<'d>(expected: &'d RowsDigest, actual: &'d RowsDigest) -> Option<&'d Names> {
    expected
        .column_types
        .as_deref()
        .or(actual.column_types.as_deref())
}

/// The places of the columns that are not compared; none if it is not known which they are.
fn left_out(terms: &Terms, excluded: &ExcludedColumns, names: Option<&Names>) -> Option<BTreeSet<usize>> {
    let mut places: BTreeSet<usize> = match &terms.unstable {
        Unstable::Columns(places) => places.iter().copied().collect(),
        Unstable::All => BTreeSet::new(),
    };
    if !excluded.is_empty() {
        let names = names?.iter().enumerate();
        places.extend(
            names
                .filter(|(_, (name, _))| excluded.contains(name))
                .map(|(place, _)| place),
        );
    }
    Some(places)
}

fn compare_columns(expected: &RowsDigest, actual: &RowsDigest) -> Option<Difference> {
    let (Some(first), Some(second)) = (&expected.column_types, &actual.column_types) else {
        // The number of columns is all that is known.
        let is_known = !expected.columns.is_empty() && !actual.columns.is_empty();
        let differ = is_known && expected.columns.len() != actual.columns.len();
        return differ.then(|| Difference {
            kind: DifferenceKind::Columns,
            expected: format!("{} columns", expected.columns.len()),
            actual: format!("{} columns", actual.columns.len()),
            columns: Vec::new(),
        });
    };
    if first == second {
        return None;
    }
    let only_names = |columns| Names::iter(columns).map(|(name, _)| name.as_str());
    if !only_names(first).eq(only_names(second)) {
        let [before, after] = [first, second].map(|columns| only_names(columns).collect::<HashSet<_>>());
        let missing = only_names(first).filter(|name| !after.contains(name));
        let added = only_names(second).filter(|name| !before.contains(name));
        return Some(Difference {
            kind: DifferenceKind::Columns,
            expected: list(only_names(first)),
            actual: list(only_names(second)),
            columns: columns(missing.chain(added)),
        });
    }
    let pairs = first.iter().zip(second.iter());
    let other: Vec<_> = pairs.filter(|(first, second)| first.1 != second.1).collect();
    let described = |(name, column_type): &(String, String)| format!("{name} {column_type}");
    Some(Difference {
        kind: DifferenceKind::Types,
        expected: list(other.iter().map(|(first, _)| described(first))),
        actual: list(other.iter().map(|(_, second)| described(second))),
        columns: columns(other.iter().map(|(first, _)| first.0.as_str())),
    })
}

/// Longer lists are cut: tables have hundreds of columns, and clusters give names of any number and length.
const MOST_LISTED: usize = 20;
/// Bytes of a name, with its type, that is listed.
const LONGEST_NAME: usize = 64;

fn columns<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let names = names.take(MOST_LISTED);
    names.map(|name| cut(name, LONGEST_NAME)).collect()
}

fn list(names: impl Iterator<Item = impl AsRef<str>>) -> String {
    let (mut listed, mut count) = (Vec::new(), 0);
    for name in names {
        count += 1;
        if count <= MOST_LISTED {
            listed.push(cut(name.as_ref(), LONGEST_NAME));
        }
    }
    match count > MOST_LISTED {
        true => format!("{}, … ({count})", listed.join(", ")),
        false => listed.join(", "),
    }
}

/// No more than so many bytes of a text.
fn cut(text: &str, most: usize) -> String {
    match text.len() <= most {
        true => text.to_owned(),
        false => format!("{}…", &text[..text.floor_char_boundary(most)]),
    }
}

fn differs(kind: DifferenceKind, expected: &ResponseDigest, actual: &ResponseDigest) -> Verdict {
    Verdict::Differs(Difference {
        kind,
        expected: text(expected).into_owned(),
        actual: text(actual).into_owned(),
        columns: Vec::new(),
    })
}

fn text(response: &ResponseDigest) -> Cow<'static, str> {
    match response {
        ResponseDigest::Rows(rows) => rows_text(rows).into(),
        ResponseDigest::Void => "no rows".into(),
        ResponseDigest::SetKeyspace => "a keyspace was set".into(),
        ResponseDigest::SchemaChange => "the schema was changed".into(),
        ResponseDigest::Error(code) => ErrorCode(*code).to_string().into(),
        ResponseDigest::Missing => "nothing".into(),
    }
}

fn rows_text(rows: &RowsDigest) -> String {
    match rows.count {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERED: Terms = Terms {
        is_ordered: true,
        unstable: Unstable::NOTHING,
    };

    fn rows(ordered: u128, unordered: u128, columns: [u128; 2]) -> RowsDigest {
        let named = |name: &str, column_type: &str| (name.to_owned(), column_type.to_owned());
        RowsDigest {
            count: 2,
            ordered,
            unordered,
            columns: columns.to_vec(),
            column_types: Some([named("a", "int"), named("b", "text")].into()),
            has_more: false,
        }
    }

    fn kind(
        expected: RowsDigest,
        actual: RowsDigest,
        terms: &Terms,
        excluded: &[&str],
    ) -> Option<DifferenceKind> {
        let excluded = excluded.iter().map(|name| (*name).to_owned()).collect();
        match compare(
            &ResponseDigest::Rows(expected),
            &ResponseDigest::Rows(actual),
            terms,
            &excluded,
        ) {
            Verdict::Equal => None,
            Verdict::Differs(difference) => Some(difference.kind),
            Verdict::NotCompared(why) => unreachable!("{why:?}"),
        }
    }

    #[test]
    fn order_counts_where_cql_promises_it() {
        let (first, second) = (rows(1, 3, [1, 2]), rows(2, 3, [1, 2]));
        assert_eq!(
            kind(first.clone(), second.clone(), &ORDERED, &[]),
            Some(DifferenceKind::Order)
        );
        let any_order = Terms {
            is_ordered: false,
            ..ORDERED
        };
        assert_eq!(kind(first, second, &any_order, &[]), None);
    }

    #[test]
    fn columns_that_are_left_out_do_not_count() {
        let (first, second) = (rows(1, 3, [1, 2]), rows(2, 4, [1, 5]));
        assert_eq!(
            kind(first.clone(), second.clone(), &ORDERED, &[]),
            Some(DifferenceKind::Rows)
        );
        assert_eq!(kind(first.clone(), second.clone(), &ORDERED, &["b"]), None);
        assert_eq!(
            kind(first.clone(), second.clone(), &ORDERED, &["a"]),
            Some(DifferenceKind::Rows)
        );
        let unstable = Terms {
            unstable: Unstable::Columns(vec![1]),
            ..ORDERED
        };
        assert_eq!(kind(first, second, &unstable, &[]), None);
    }

    #[test]
    fn names_and_types_of_columns_come_before_rows() {
        let first = rows(1, 3, [1, 2]);
        let mut other_type = rows(2, 4, [1, 5]);
        let is_int = ["a", "b"].map(|name| (name.to_owned(), "int".to_owned()));
        other_type.column_types = Some(is_int.into());
        assert_eq!(
            kind(first.clone(), other_type, &ORDERED, &[]),
            Some(DifferenceKind::Types)
        );
        let mut more = rows(2, 4, [1, 5]);
        let added = ("c".to_owned(), "int".to_owned());
        let types = first.column_types.iter().flat_map(|types| types.iter().cloned());
        more.column_types = Some(types.chain([added]).collect());
        more.columns.push(9);
        let verdict = compare(
            &ResponseDigest::Rows(first.clone()),
            &ResponseDigest::Rows(more.clone()),
            &ORDERED,
            &ExcludedColumns::new(),
        );
        let Verdict::Differs(difference) = verdict else {
            unreachable!()
        };
        assert_eq!(
            (difference.kind, difference.columns),
            (DifferenceKind::Columns, vec!["c".to_owned()])
        );
        more.column_types = None;
        assert_eq!(
            kind(first, more, &ORDERED, &[]),
            Some(DifferenceKind::Columns),
            "their number is known"
        );
    }

    #[test]
    fn of_many_or_long_columns_a_few_are_named() {
        let named = |start: &str| {
            let columns = (0..5_000).map(|number| {
                let name = format!("{start}{number}{}", "c".repeat(5_000));
                (name, format!("frozen<{}>", "t".repeat(5_000)))
            });
            ResponseDigest::Rows(RowsDigest {
                column_types: Some(columns.collect()),
                ..rows(1, 1, [1, 2])
            })
        };
        let mut other_types = named("a");
        if let ResponseDigest::Rows(rows) = &mut other_types {
            let types = rows.column_types.iter().flat_map(|types| types.iter());
            let with_type = |(name, _): &(String, String)| (name.clone(), "int".to_owned());
            rows.column_types = Some(types.map(with_type).collect());
        }
        for (other, kind) in [
            (named("b"), DifferenceKind::Columns),
            (other_types, DifferenceKind::Types),
        ] {
            let verdict = compare(&named("a"), &other, &ORDERED, &ExcludedColumns::new());
            let Verdict::Differs(difference) = verdict else {
                unreachable!()
            };
            assert_eq!((difference.kind, difference.columns.len()), (kind, MOST_LISTED));
            let columns: usize = difference.columns.iter().map(String::len).sum();
            let bytes = columns + difference.expected.len() + difference.actual.len();
            assert!(bytes < Tally::OF_EXAMPLE, "{bytes}");
            assert!(difference.expected.ends_with("(5000)"), "{}", difference.expected);
        }
    }

    #[test]
    fn errors_are_compared_by_code_unless_the_first_cluster_was_in_trouble() {
        let compared = |first: i32, second: ResponseDigest| {
            compare(
                &ResponseDigest::Error(first),
                &second,
                &ORDERED,
                &ExcludedColumns::new(),
            )
        };
        assert_eq!(compared(0x2200, ResponseDigest::Error(0x2200)), Verdict::Equal);
        assert!(matches!(
            compared(0x2200, ResponseDigest::Error(0x2000)),
            Verdict::Differs(_)
        ));
        assert!(matches!(
            compared(0x2200, ResponseDigest::Void),
            Verdict::Differs(_)
        ));
        let failed = Verdict::NotCompared(NotCompared::FirstFailed);
        assert_eq!(compared(0x1200, ResponseDigest::Void), failed);
        assert_eq!(compared(0x1000, ResponseDigest::Error(0x2200)), failed);
    }
}
