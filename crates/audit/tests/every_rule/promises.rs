//! What was promised of single rules, from bytes: both sides of what decides.

use cqlens_proto::{
    envelope::Version,
    message::{BatchKind, Consistency},
};
use cqlens_rules::{Finding, Settings, Severity};

use crate::wire::{
    Answer::{self, Error, First, Rows, Void, Warned},
    Ask,
    Cell::{self, Bytes, Int, Text},
    ROW, SCHEMA, Wire, ask,
};

/// Tables that only these tests have.
const MORE: &str = "
    CREATE TABLE shop.articles (id int PRIMARY KEY, price int, sku text, place vector<float, 2>);
    CREATE CUSTOM INDEX ON shop.articles (place) USING 'StorageAttachedIndex';
    CREATE CUSTOM INDEX ON shop.articles (price) USING 'StorageAttachedIndex';
    CREATE INDEX ON shop.articles (sku);";

const HOUR: i64 = 3_600;

fn judged(settings: &Settings, traffic: impl FnOnce(&mut Wire)) -> Vec<Finding> {
    judged_in(HOUR, settings, traffic)
}

fn judged_in(seconds: i64, settings: &Settings, traffic: impl FnOnce(&mut Wire)) -> Vec<Finding> {
    let mut wire = Wire::new(&format!("{SCHEMA}{MORE}"), Version::V4);
    traffic(&mut wire);
    wire.findings_under(settings, seconds)
}

/// How severe the findings of a rule are, however little the load.
fn found(rule: &str, traffic: impl FnOnce(&mut Wire)) -> Vec<Severity> {
    let findings = judged(&Settings::whatever_the_load(), traffic).into_iter();
    let of_rule = findings.filter(|finding| finding.rule == rule);
    of_rule.map(|finding| finding.severity).collect()
}

/// The same statement a hundred times.
fn sent(rule: &str, cql: &str, values: &[Cell<'_>], answer: &Answer<'_>) -> Vec<Severity> {
    found(rule, |wire| wire.times(100, &ask(cql, values), answer))
}

#[test]
fn a_read_that_says_which_rows_is_not_unbounded() {
    let of = |clauses: &str, values: &[Cell<'_>]| {
        let cql = format!("SELECT total FROM shop.orders WHERE customer = ?{clauses}");
        let values = [&[Int(1)], values].concat();
        found("unbounded-read", |wire| {
            wire.times(20, &ask(&cql, &values), &Rows(6_000, 8));
        })
    };
    assert_eq!(of("", &[]), [Severity::Low]);
    // What begins somewhere grows at its end.
    assert_eq!(of(" AND at > ?", &[Int(1)]), [Severity::Low]);
    assert_eq!(of(" AND at > ? AND at <= ?", &[Int(1), Int(9)]), []);
    assert_eq!(of(" AND at = ?", &[Int(1)]), []);
    assert_eq!(of(" PER PARTITION LIMIT ?", &[Int(9_000)]), []);
    assert_eq!(of(" LIMIT ?", &[Int(9_000)]), []);
}

#[test]
fn a_vector_search_is_no_read_of_an_index_that_a_table_would_serve() {
    let neighbours = "SELECT id FROM shop.articles ORDER BY place ANN OF ? LIMIT 5";
    let by_sku = "SELECT id FROM shop.articles WHERE sku = ?";
    let rule = "secondary-index-read";
    assert_eq!(sent(rule, neighbours, &[Bytes(&[0; 8])], &Rows(5, 4)), []);
    assert_eq!(
        sent(rule, by_sku, &[Text("a")], &ROW),
        [Severity::Medium],
        "the same table by equality"
    );
}

/// So many articles with a price and a code of their own, and reads by one of them.
fn priced(articles: i32, column: &str, operator: &str) -> Vec<Severity> {
    let read = format!("SELECT id FROM shop.articles WHERE {column} {operator} ?");
    let findings = judged(&Settings::whatever_the_load(), |wire| {
        for id in 0..articles {
            let insert = "INSERT INTO shop.articles (id, price, sku) VALUES (?, ?, ?)";
            let sku = format!("sku-{id}");
            wire.send(&ask(insert, &[Int(id), Int(id), Text(&sku)]), &Void);
        }
        for id in 0..60 {
            let sku = format!("sku-{id}");
            let value = if column == "sku" { Text(&sku) } else { Int(id) };
            wire.send(&ask(&read, &[value]), &ROW);
        }
    });
    let of_column = |finding: &Finding| {
        finding.rule == "index-high-cardinality" && finding.subject.as_deref() == Some(column)
    };
    let findings = findings.into_iter().filter(of_column);
    findings.map(|finding| finding.severity).collect()
}

#[test]
fn four_hundred_values_in_four_hundred_rows_are_unique_and_ranges_are_what_an_index_is_for() {
    assert_eq!(priced(400, "sku", "="), [Severity::Medium]);
    assert_eq!(priced(99, "sku", "="), []);
    assert_eq!(priced(400, "price", "="), [Severity::Low], "storage-attached");
    assert_eq!(priced(400, "price", ">"), []);
}

#[test]
fn a_table_of_last_values_is_worth_knowing_at_most() {
    let orders = |rows: i32, times: i32| {
        found("overwriting-insert", |wire| {
            for (at, turn) in (0..times).flat_map(|turn| (0..rows).map(move |at| (at, turn))) {
                let insert = "INSERT INTO shop.orders (customer, at, total) VALUES (?, ?, ?)";
                wire.send(&ask(insert, &[Int(1), Int(at), Int(turn)]), &Void);
            }
        })
    };
    assert_eq!(orders(200, 3), [Severity::Medium]);
    assert_eq!(orders(20, 30), [Severity::Info]);
}

#[test]
fn conditions_reach_consensus_across_datacenters_unless_they_say_otherwise() {
    let claim = |serial: Option<Consistency>| {
        found("cross-dc-consistency", |wire| {
            let values = [Int(1), Text("anna")];
            let cql = "INSERT INTO two.users (id, name) VALUES (?, ?) IF NOT EXISTS";
            let claim = Ask {
                serial,
                ..ask(cql, &values)
            };
            wire.times(20, &claim, &Void);
        })
    };
    assert_eq!(claim(Some(Consistency::Serial)), [Severity::Low]);
    assert_eq!(claim(None), [Severity::Low], "SERIAL is the protocol's default");
    assert_eq!(claim(Some(Consistency::LocalSerial)), []);
    let at_one = |table: &str| {
        found("cross-dc-consistency", |wire| {
            let cql = format!("SELECT name FROM {table} WHERE id = ?");
            let values = [Int(1)];
            let mut read = ask(&cql, &values);
            read.consistency = Consistency::One;
            wire.times(20, &read, &ROW);
        })
    };
    assert_eq!(at_one("two.users"), [Severity::Info]);
    assert_eq!(at_one("shop.users"), []);
}

#[test]
fn a_queue_may_be_read_by_small_pages_of_which_the_first_is_enough() {
    let queue = |has_more: bool| {
        found("queue-pattern", |wire| {
            for at in 0..200 {
                let insert = "INSERT INTO shop.orders (customer, at, note) VALUES (?, ?, ?)";
                wire.send(&ask(insert, &[Int(1), Int(at), Text("job")]), &Void);
                let values = [Int(1)];
                let mut head = ask("SELECT at, note FROM shop.orders WHERE customer = ?", &values);
                head.page_size = Some(1);
                let state = at.to_be_bytes();
                let answer = if has_more { First(&state) } else { ROW };
                wire.send(&head, &answer);
                let delete = "DELETE FROM shop.orders WHERE customer = ? AND at = ?";
                wire.send(&ask(delete, &[Int(1), Int(at)]), &Void);
            }
        })
    };
    assert_eq!(queue(true), [Severity::Medium]);
    assert_eq!(queue(false), [], "partitions that hold one row");
}

#[test]
fn what_the_server_says_is_told_without_what_it_quotes() {
    let said = |text: &str| {
        let findings = judged(&Settings::default(), |wire| {
            let read = "SELECT name FROM shop.users WHERE id = ?";
            wire.times(20, &ask(read, &[Int(1)]), &Warned(text));
        });
        let warnings = findings
            .into_iter()
            .filter(|finding| finding.rule == "server-warning");
        warnings
            .map(|finding| format!("{} {:?}", finding.title, finding.evidence))
            .collect::<String>()
    };
    let rows = said(
        "Replica filtering protection has cached over 2000 rows during query SELECT * FROM shop.users WHERE name = 'anna'. \
         (See 'cached_replica_rows_warn_threshold' in cassandra.yaml.)",
    );
    assert!(rows.contains("2,000 rows cached to filter"), "{rows}");
    assert!(!rows.contains("anna"), "{rows}");
    let keys = said(
        "Guardrail partition_keys_in_select violated: Query with partition keys in IN clause on table users, with number of \
         partition keys 25 exceeds warning threshold of 20.",
    );
    assert!(
        keys.contains("the guardrail `partition_keys_in_select` (25)"),
        "{keys}"
    );
    let unknown = said("Something about the row of anna that no version has said before");
    assert!(unknown.contains("something unknown to cqlens"), "{unknown}");
    assert!(!unknown.contains("anna"), "{unknown}");
}

#[test]
fn a_new_row_with_a_collection_is_worth_knowing_and_one_that_replaces_it_more() {
    let users = |rows: i32| {
        found("collection-overwrite", |wire| {
            for id in 0..400 {
                let insert = "INSERT INTO shop.users (id, tags) VALUES (?, ?)";
                let tags = [Int(id % rows), Bytes(&[0, 0, 0, 0])];
                wire.send(&ask(insert, &tags), &Void);
            }
        })
    };
    assert_eq!(users(400), [Severity::Info]);
    assert_eq!(users(100), [Severity::Low]);
}

#[test]
fn nulls_are_seen_in_batches_and_in_what_a_json_document_leaves_out() {
    let batches = |phone: Cell<'static>| {
        found("null-insert", |wire| {
            let insert = "INSERT INTO shop.users (id, name, phone) VALUES (?, ?, ?)";
            let values: &[_] = &[Int(1), Text("anna"), phone];
            (0..60).for_each(|_| wire.batch(BatchKind::Logged, &[(insert, values)]));
        })
    };
    assert_eq!(batches(Cell::Null), [Severity::Low]);
    assert_eq!(batches(Text("1")), []);
    let document = |cql: &str| sent("null-insert", cql, &[Text(r#"{"id": 1, "name": "anna"}"#)], &Void);
    assert_eq!(document("INSERT INTO shop.users JSON ?"), [Severity::Low]);
    assert_eq!(document("INSERT INTO shop.users JSON ? DEFAULT UNSET"), []);
}

#[test]
fn a_server_that_forgets_statements_is_a_storm_from_ten_a_second() {
    let storm = |times: usize| {
        let findings = judged_in(60, &Settings::whatever_the_load(), |wire| {
            let read = "SELECT name FROM shop.users WHERE id = ?";
            wire.times(times, &ask(read, &[Int(1)]), &Error(0x2500));
            wire.send(&ask(read, &[Int(1)]), &ROW);
        });
        let mut of_rule = findings.iter().filter(|finding| finding.rule == "prepare-churn");
        of_rule.next().map(|finding| finding.severity)
    };
    assert_eq!(storm(599), Some(Severity::Low));
    assert_eq!(storm(600), Some(Severity::Medium));
}

#[test]
fn a_driver_that_asks_which_server_it_is_makes_no_mistake_of_the_application() {
    let probe = |table: &str| {
        let cql = format!("SELECT * FROM {table} LIMIT 1");
        let findings = judged(&Settings::default(), |wire| {
            let mut probe = ask(&cql, &[]);
            probe.as_text = true;
            wire.times(30, &probe, &Error(0x2200));
        });
        findings
            .into_iter()
            .map(|finding| finding.rule)
            .collect::<Vec<_>>()
    };
    assert_eq!(probe("system_schema.scylla_tables"), [""; 0]);
    assert!(probe("shop.no_such_table").contains(&"server-error"));
}

#[test]
fn a_health_check_that_scans_for_one_row_now_and_then_is_fine() {
    let check = |times: usize| {
        let findings = judged(&Settings::default(), |wire| {
            wire.times(times, &ask("SELECT id FROM shop.users LIMIT 1", &[]), &ROW);
        });
        let severities = findings.into_iter().map(|finding| finding.severity);
        severities.max()
    };
    assert!(check(2) < Some(Severity::Medium), "{:?}", check(2));
    assert!(check(60) < Some(Severity::Medium), "{:?}", check(60));
}

#[test]
fn distinct_keys_and_sums_of_a_whole_table_each_have_a_rule() {
    let rules = |cql: &str| {
        let findings = judged(&Settings::whatever_the_load(), |wire| {
            wire.times(100, &ask(cql, &[]), &Rows(500, 8));
        });
        let shapes = findings.iter().map(|finding| finding.rule);
        shapes
            .filter(|rule| ["full-scan", "aggregate-without-partition-key"].contains(rule))
            .collect::<Vec<_>>()
    };
    assert_eq!(rules("SELECT DISTINCT customer FROM shop.orders"), ["full-scan"]);
    let sum = rules("SELECT SUM(total) FROM shop.orders");
    assert_eq!(sum, ["aggregate-without-partition-key"]);
}
