//! Where the measured time goes, in one sentence.

use std::collections::BTreeMap;

use super::Facts;
use crate::{PatternReport, TableReport};
use cqlens_cql::plan::StatementKind;
use cqlens_window::number;

/// From this share on, what takes it is what the time goes into.
const MOST_OF_IT: f64 = 0.5;

/// Reading or writing one table; a batch counts for its first table.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Use<'a> {
    verb: &'static str,
    table: Option<(&'a str, &'a str)>,
}

/// What the statements of one use took.
#[derive(Default)]
struct Taken {
    share: f64,
    time_us: u64,
    measured: u64,
}

/// `88 % of the time is writing `latte.sai_new`, 76 ms each: 6 indexes, 3 of them never read.`; nothing where no time was
/// measured.
pub(super) fn sentence(facts: &Facts<'_>) -> Option<String> {
    let mut uses: BTreeMap<Use<'_>, Taken> = BTreeMap::new();
    for pattern in facts.patterns {
        let Some((verb, share)) = verb(pattern).zip(pattern.time_share) else {
            continue;
        };
        let table = pattern.keyspace.as_deref().zip(pattern.table.as_deref());
        let taken = uses.entry(Use { verb, table }).or_default();
        taken.share += share;
        taken.time_us += pattern.time_us;
        taken.measured += pattern.latency_us.count;
    }
    let of = |verb: &str| -> f64 {
        let its = uses.iter().filter(|(one, _)| one.verb == verb);
        its.map(|(_, taken)| taken.share).sum()
    };
    let verbs = [WRITING, READING].map(|verb| (verb, of(verb)));
    let (verb, share) = verbs.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let (first, taken) = uses
        .iter()
        .max_by(|one, other| one.1.share.total_cmp(&other.1.share))?;
    let Some((keyspace, table)) = first.table.filter(|_| taken.share > 0.0) else {
        return (share > 0.0).then(|| format!("{} of the time is {verb}.", number::percent(share)));
    };
    let each = number::micros(taken.time_us / taken.measured.max(1));
    let name = format!("`{keyspace}.{table}`");
    let its = facts
        .tables
        .iter()
        .find(|one| one.keyspace == keyspace && one.table == table);
    let indexes = match first.verb {
        WRITING => its
            .and_then(indexes)
            .map_or_else(String::new, |indexes| format!(": {indexes}")),
        _ => String::new(),
    };
    if taken.share >= MOST_OF_IT {
        let share = number::percent(taken.share);
        return Some(format!(
            "{share} of the time is {} {name}, {each} each{indexes}.",
            first.verb
        ));
    }
    Some(format!(
        "{} of the time is {verb}; {} {name} takes {}, {each} each{indexes}.",
        number::percent(share),
        first.verb,
        number::percent(taken.share),
    ))
}

const READING: &str = "reading";
const WRITING: &str = "writing";

fn verb(pattern: &PatternReport) -> Option<&'static str> {
    match pattern.kind {
        StatementKind::Select => Some(READING),
        StatementKind::Insert | StatementKind::Update | StatementKind::Delete | StatementKind::Batch => {
            Some(WRITING)
        }
        StatementKind::Transaction | StatementKind::Ddl | StatementKind::Other => None,
    }
}

/// `6 indexes, 3 of them never read`: what each write pays for; nothing where there are none.
fn indexes(table: &TableReport) -> Option<String> {
    let reads: Vec<_> = table
        .columns
        .iter()
        .filter_map(|column| column.index_reads)
        .collect();
    let unread = reads.iter().filter(|reads| **reads == 0).count();
    let all = number::plural(reads.len() as u64, "index", "indexes");
    match (reads.len(), unread) {
        (0, _) => None,
        (_, 0) => Some(all),
        (1, _) => Some(format!("{all}, never read here")),
        (many, unread) if many == unread => Some(format!("{all}, none of them read here")),
        (_, unread) => Some(format!("{all}, {unread} of them never read here")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::testing::under;
    use cqlens_cql::{
        footprint::PartitionClass,
        plan::StatementKind,
        schema::{ColumnName, Schema, TableName},
    };
    use cqlens_rules::testing::{pattern, read, window};
    use cqlens_window::{Distribution, Pattern, Window};

    fn taking(mut pattern: Pattern, micros: u64) -> Pattern {
        pattern.latency_us = Distribution::default();
        pattern.latency_us.record_n(micros, pattern.count);
        pattern
    }

    fn of(patterns: impl IntoIterator<Item = Pattern>, schema: &str) -> Option<String> {
        let mut window: Window = window(patterns);
        let table = TableName {
            keyspace: "lab".to_owned(),
            table: "wide".to_owned(),
        };
        window.tables.entry(table.clone()).or_default().writes = 100;
        let column = ColumnName {
            table,
            column: "a".to_owned(),
        };
        window.indexed.entry(column).or_default().reads = 9;
        let schema = match schema {
            "" => Schema::default(),
            text => Schema::from_cql(text).unwrap(),
        };
        under(&window, &schema).summary.time
    }

    fn insert(times: u64, micros: u64) -> Pattern {
        let cql = "INSERT INTO lab.wide (id, a, b) VALUES (?, ?, ?)";
        taking(pattern(cql, StatementKind::Insert, times), micros)
    }

    fn lookup(table: &str, times: u64, micros: u64) -> Pattern {
        let cql = format!("SELECT a FROM lab.{table} WHERE id = ?");
        taking(read(&cql, &[], PartitionClass::Single, times), micros)
    }

    #[test]
    fn the_first_sentence_says_where_the_time_goes() {
        let wide = "CREATE KEYSPACE lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; \
                    CREATE TABLE lab.wide (id int PRIMARY KEY, a int, b int); \
                    CREATE INDEX ON lab.wide (a); CREATE INDEX ON lab.wide (b);";
        let costly = [insert(100, 76_000), lookup("other", 500, 2_000)];
        assert_eq!(
            of(costly, wide).unwrap(),
            "88 % of the time is writing `lab.wide`, 76 ms each: 2 indexes, 1 of them never read here."
        );
        let spread = [
            lookup("a", 100, 1_000),
            lookup("b", 100, 900),
            lookup("c", 100, 800),
            insert(50, 1_000),
        ];
        assert_eq!(
            of(spread, "").unwrap(),
            "84 % of the time is reading; reading `lab.a` takes 31 %, 1.0 ms each."
        );
        assert_eq!(of([lookup("a", 100, 0)], ""), None, "nothing was measured");
    }
}
