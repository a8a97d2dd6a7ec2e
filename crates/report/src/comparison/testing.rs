//! Comparisons that tests begin with.

use std::{borrow::Cow, collections::BTreeMap};

use super::*;

/// Two patterns of a shadow: one lacks rows on the other cluster and takes twice as long there, one is the same.
pub(crate) fn comparison() -> Comparison {
    let difference = Difference {
        kind: DifferenceKind::RowCount,
        expected: "3 rows".to_owned(),
        actual: "2 rows".to_owned(),
        columns: Vec::new(),
    };
    let differing = ComparedPattern {
        id: Some("00000000000000aa".to_owned()),
        cql: "SELECT v FROM shop.items WHERE a = ? AND b = '<script>|`'".to_owned(),
        compared: 1_000,
        differing: 3,
        differences: [(DifferenceKind::RowCount, 2), (DifferenceKind::Order, 1)].into(),
        example: Some(DifferenceExample {
            difference,
            at_us: 1_000_000,
            exchange: 17,
        }),
        latency_us: BothLatencies {
            first: Some(latency(1_000)),
            other: Some(latency(2_000)),
        },
        ..nothing()
    };
    let same = ComparedPattern {
        id: Some("00000000000000bb".to_owned()),
        cql: "SELECT * FROM shop.orders WHERE a = ?".to_owned(),
        compared: 500,
        latency_us: BothLatencies {
            first: Some(latency(1_000)),
            other: Some(latency(1_050)),
        },
        ..nothing()
    };
    let totals = ComparedPattern {
        executions: 1_510,
        compared: 1_500,
        differing: 3,
        differences: differing.differences.clone(),
        skipped: [(Skipped::Write, 10)].into(),
        not_compared: [(NotCompared::Unsettled, 4)].into(),
        noise: AskedTwice {
            asked: 20,
            differed: 0,
        },
        ..nothing()
    };
    Comparison {
        format: Cow::Borrowed(COMPARISON_FORMAT),
        tool: Tool::this(),
        about: ComparisonAbout {
            first: "proxy-a".to_owned(),
            other: "10.1.0.1:9042".to_owned(),
            started: Timestamp::UNIX_EPOCH,
            ended: Timestamp::UNIX_EPOCH,
            connections: ConnectionCounts {
                nodes: 3,
                nodes_unreachable: 1,
                sent_to_replicas: 1_200,
                ..ConnectionCounts::default()
            },
            pace: None,
            not_offered: [("too many requests waiting".to_owned(), 2)].into(),
        },
        totals,
        patterns_that_differ: 1,
        patterns: vec![differing, same],
    }
}

/// The same of a replay.
pub(crate) fn replay() -> Comparison {
    let mut comparison = comparison();
    comparison.about.pace = Some(ReplayPace {
        end: ReplayEnd::Complete,
        exchanges: 10,
        sent: 9,
        seconds: 2.5,
        per_second: 3.6,
        late_us: Some(latency(40)),
    });
    comparison
}

fn latency(p50: u64) -> ComparedLatency {
    let quantile = |value: u64| ComparedQuantile {
        value,
        low: Some(value * 9 / 10),
        high: Some(value * 11 / 10),
    };
    ComparedLatency {
        count: 1_000,
        mean: 1.0,
        p50: quantile(p50),
        p99: ComparedQuantile {
            high: None,
            ..quantile(p50 * 10)
        },
    }
}

fn nothing() -> ComparedPattern {
    ComparedPattern {
        id: None,
        cql: String::new(),
        keyspace: None,
        executions: 0,
        compared: 0,
        agreed_later: 0,
        differing: 0,
        differences: BTreeMap::new(),
        is_noise: false,
        example: None,
        skipped: BTreeMap::new(),
        not_compared: BTreeMap::new(),
        noise: AskedTwice::default(),
        latency_us: BothLatencies {
            first: None,
            other: None,
        },
    }
}
