//! PromQL, as far as these tests look into it: which series a query names, and by which labels.

use std::collections::BTreeSet;

/// What a query names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// The names of series, each with the labels that its selector compares.
    pub(crate) series: Vec<(String, BTreeSet<String>)>,
    /// The labels by which it groups.
    pub(crate) groups: BTreeSet<String>,
}

/// Names begin so that are those of series and not of functions.
const PREFIXES: [&str; 3] = ["cqlens_", "process_", "up"];

impl Names {
    pub(crate) fn of(query: &str) -> Self {
        let mut names = Self::default();
        let mut rest = query;
        while let Some(begin) = rest.find(|letter: char| letter.is_ascii_alphabetic() || letter == '"') {
            rest = &rest[begin..];
            if let Some(text) = rest.strip_prefix('"') {
                rest = text.split_once('"').map_or("", |(_, after)| after);
                continue;
            }
            let end = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after;
            if PREFIXES.iter().any(|prefix| word.starts_with(prefix)) {
                let selector = after.strip_prefix('{').map(until_end_of_selector);
                rest = selector.map_or(after, |(_, rest)| rest);
                let compared = selector.map(|(inside, _)| labels(inside));
                names.series.push((word.to_owned(), compared.unwrap_or_default()));
            } else if ["by", "without", "on", "ignoring"].contains(&word) {
                let inside = after.trim_start().strip_prefix('(').unwrap_or_default();
                let inside = inside.split(')').next().unwrap_or_default();
                let listed = inside.split(',').map(str::trim);
                names.groups.extend(listed.map(str::to_owned));
                rest = after.split_once(')').map_or("", |(_, after)| after);
            }
        }
        names
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// What stands between the brackets of a selector, of which the first is taken off, and what follows.
fn until_end_of_selector(text: &str) -> (&str, &str) {
    let mut in_quotes = false;
    let end = text.find(|letter| {
        in_quotes ^= letter == '"';
        letter == '}' && !in_quotes
    });
    text.split_at(end.expect("a selector ends"))
}

/// The names before `=`, `!=`, `=~` and `!~`.
fn labels(inside: &str) -> BTreeSet<String> {
    let outside_quotes: String = inside.split('"').step_by(2).collect();
    let compared = outside_quotes.split(',').map(str::trim);
    let names = compared.map(|compared| compared.trim_end_matches(['=', '!', '~']));
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

#[test]
fn series_labels_and_groups_of_a_query_are_found() {
    let names = Names::of(
        r#"topk(10, sum by (a, le) (rate(cqlens_x_bucket{job=~"}cqlens_no", to!="up"}[5m]))) / up > 0.1 or vector(0)"#,
    );
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let series = vec![
        ("cqlens_x_bucket".to_owned(), set(&["job", "to"])),
        ("up".to_owned(), set(&[])),
    ];
    let groups = set(&["a", "le"]);
    assert_eq!(names, Names { series, groups });
}
