//! What stands in one line of a list: a problem without what the other columns say.

use cqlens_window::number;

/// A finding's title without its table and rates, which lists have columns for, and without what follows a semicolon:
/// `` Reads of `shop.orders` filter row by row, 54 a minute `` becomes `Reads filter row by row`.
pub(super) fn what(title: &str, table: Option<&str>) -> String {
    let mut text = main_clause(title).to_owned();
    if let Some(table) = table {
        text = without_table(&text, &format!("`{table}`"));
    }
    let kept: Vec<_> = text.split(", ").filter(|clause| !is_rate(clause)).collect();
    capitalized(&kept.join(", "))
}

/// Up to the first semicolon that is no part of a name.
fn main_clause(title: &str) -> &str {
    let mut is_name = false;
    let end = title.char_indices().find(|&(_, letter)| {
        is_name ^= letter == '`';
        letter == ';' && !is_name
    });
    end.map_or(title, |(at, _)| &title[..at])
}

/// Takes the table out where the sentence does not need it: `of the table`, and the table as its subject.
fn without_table(text: &str, table: &str) -> String {
    if let Some(rest) = text.strip_prefix(table) {
        let rest = rest.trim_start();
        return match rest.strip_prefix("is ") {
            Some(rest) => rest.to_owned(),
            // A subject that the sentence cannot do without, or another name that begins like the table.
            None => text.to_owned(),
        };
    }
    for word in ["of", "to", "over", "on", "from"] {
        let phrase = format!(" {word} {table}");
        let Some((before, after)) = text.split_once(&phrase) else {
            continue;
        };
        let ends = after.is_empty() || after.starts_with([' ', ',']) && !after.starts_with(" and ");
        if ends {
            return format!("{before}{after}");
        }
    }
    text.to_owned()
}

/// `54 a minute`, `3 times in 20 s`, `once in 7 s`.
fn is_rate(clause: &str) -> bool {
    let is_number = clause.starts_with(|first: char| first.is_ascii_digit());
    let units = [" a second", " a minute", " an hour", " a day"];
    is_number && (units.iter().any(|unit| clause.ends_with(unit)) || clause.contains(" times in "))
        || clause.starts_with("once in ")
}

/// With a capital letter at its beginning.
pub(super) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// As it stands inside a sentence: what is CQL keeps its capitals.
pub(super) fn inside(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

/// A rate in a column: `13/s`, `54/min`, `6.9/h`; `3 ×` where it was seen too rarely to speak of one.
pub(super) fn rate(times: u64, in_seconds: f64) -> String {
    let Some(per_second) = number::per_second(times, in_seconds) else {
        return format!("{} ×", number::count(times));
    };
    let units = [(1.0, "s"), (60.0, "min"), (3_600.0, "h"), (86_400.0, "day")];
    let fitting = units.iter().find(|(seconds, _)| per_second * seconds >= 0.995);
    let (seconds, unit) = fitting.unwrap_or(&units[3]);
    format!("{}/{unit}", number::decimal(per_second * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_leaves_out_what_its_columns_say() {
        let said = |title| what(title, Some("shop.orders"));
        for (title, line) in [
            (
                "Reads of `shop.orders` filter the whole table row by row, 54 a minute",
                "Reads filter the whole table row by row",
            ),
            (
                "Full table scan of `shop.orders`, 54 a minute, 600 rows per query",
                "Full table scan, 600 rows per query",
            ),
            (
                "`shop.orders` is used as a queue: 1,400 rows appended, 20 a second, and more",
                "Used as a queue: 1,400 rows appended, and more",
            ),
            (
                "One partition of `shop.orders` got 3 rows, once in 7 s; and 1 more statement",
                "One partition got 3 rows",
            ),
            (
                "Batches write 2 partitions of `shop.orders` and other tables, 3 times in 20 s",
                "Batches write 2 partitions of `shop.orders` and other tables",
            ),
            (
                "The index on `shop.orders.status` has 4 values",
                "The index on `shop.orders.status` has 4 values",
            ),
            ("`a;b` is large; very", "`a;b` is large"),
            ("`shop.orders` grows", "`shop.orders` grows"),
        ] {
            assert_eq!(said(title), line);
        }
    }

    #[test]
    fn inside_a_sentence_cql_keeps_its_capitals() {
        for (fix, inside_of) in [
            ("Always write with IF", "always write with IF"),
            ("A table instead", "a table instead"),
            ("LIMIT the read", "LIMIT the read"),
            ("", ""),
        ] {
            assert_eq!(inside(fix), inside_of);
        }
    }

    #[test]
    fn a_rate_is_short_and_of_the_unit_that_fits() {
        assert_eq!(rate(1_000, 100.0), "10/s");
        assert_eq!(rate(540, 600.0), "54/min");
        assert_eq!(rate(69, 36_000.0), "6.9/h");
        assert_eq!(rate(30, 1_000_000.0), "2.6/day");
        assert_eq!(rate(3, 7.0), "3 ×");
    }
}
