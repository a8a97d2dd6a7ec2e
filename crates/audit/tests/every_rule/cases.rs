//! The cases, in the order of the catalogue.

use cqlens_cql::murmur3;
use cqlens_proto::{
    envelope::Version,
    message::{BatchKind, Consistency},
};

use jiff::Timestamp;

use crate::{
    Case, Side,
    wire::{
        Answer::{Error, Ints, Page, Rows, Void, Warned},
        Ask,
        Cell::{self, Bytes, Int, Null, Text},
        ROW, SCHEMA, Wire, ask,
    },
};

/// A case under the common schema, observed for an hour.
fn case(rule: &'static str, guilty: fn(&mut Wire), innocent: fn(&mut Wire)) -> Case {
    let side = |traffic| Side {
        schema: String::new(),
        version: Version::V4,
        traffic,
    };
    Case {
        rule,
        hours: 1,
        guilty: side(guilty),
        innocent: side(innocent),
    }
}

/// A case whose sides differ in their schema only.
fn definition(rule: &'static str, guilty: impl Into<String>, innocent: impl Into<String>) -> Case {
    let traffic: fn(&mut Wire) = |wire| {
        wire.times(
            10,
            &ask("SELECT name FROM shop.users WHERE id = ?", &[Int(1)]),
            &ROW,
        );
    };
    let mut case = case(rule, traffic, traffic);
    case.guilty.schema = guilty.into();
    case.innocent.schema = innocent.into();
    case
}

/// Reads of one user by the key.
const BY_KEY: &str = "SELECT name FROM shop.users WHERE id = ?";

const INSERT: &str = "INSERT INTO shop.users (id, name) VALUES (?, ?)";

fn by_key(wire: &mut Wire) {
    for id in 0..100 {
        wire.send(&ask(BY_KEY, &[Int(id)]), &ROW);
    }
}

fn inserts(wire: &mut Wire) {
    for id in 0..100 {
        wire.send(&ask(INSERT, &[Int(id), Text("anna")]), &Void);
    }
}

/// The same statement with other options.
fn send(wire: &mut Wire, change: impl Fn(&mut Ask<'_>)) {
    for id in 0..100 {
        let values = [Int(id)];
        let mut ask = ask(BY_KEY, &values);
        change(&mut ask);
        wire.send(&ask, &ROW);
    }
}

fn claim(wire: &mut Wire, serial: Consistency) {
    let values = [Int(1), Text("anna")];
    let mut claim = ask(
        "INSERT INTO two.users (id, name) VALUES (?, ?) IF NOT EXISTS",
        &values,
    );
    claim.serial = Some(serial);
    wire.times(20, &claim, &Void);
}

#[rustfmt::skip]
fn reads() -> Vec<Case> {
    vec![
        case("allow-filtering",
            |wire| wire.times(100, &ask("SELECT id FROM shop.users WHERE name = ? ALLOW FILTERING", &[Text("anna")]), &Rows(100, 8)),
            by_key),
        case("full-scan",
            |wire| wire.times(100, &ask("SELECT id, name FROM shop.users", &[]), &Rows(500, 8)),
            by_key),
        case("token-range-scan",
            |wire| wire.times(100, &ask("SELECT id FROM shop.users WHERE token(id) > ? AND token(id) <= ?", &[Bytes(&[0; 8]), Bytes(&[1; 8])]), &Rows(100, 8)),
            by_key),
        case("in-partition-key",
            |wire| wire.times(100, &ask("SELECT name FROM shop.users WHERE id IN (?, ?, ?)", &[Int(1), Int(2), Int(3)]), &Rows(3, 8)),
            |wire| wire.times(100, &ask("SELECT name FROM shop.users WHERE id IN (?, ?, ?)", &[Int(1), Int(1), Int(1)]), &ROW)),
        case("in-cartesian-product",
            |wire| wire.times(100, &ask("SELECT v FROM shop.grid WHERE a IN (?, ?) AND b IN (?, ?)", &[Int(1), Int(2), Int(3), Int(4)]), &Rows(4, 8)),
            |wire| wire.times(100, &ask("SELECT v FROM shop.grid WHERE a IN (?, ?) AND b = ?", &[Int(1), Int(2), Int(3)]), &Rows(2, 8))),
        case("in-clustering",
            |wire| wire.times(20, &ask("SELECT total FROM shop.orders WHERE customer = ? AND at IN ?", &[Int(1), Bytes(&list(60))]), &Rows(60, 8)),
            |wire| wire.times(20, &ask("SELECT total FROM shop.orders WHERE customer = ? AND at IN ?", &[Int(1), Bytes(&list(3))]), &Rows(3, 8))),
        case("secondary-index-read",
            |wire| wire.times(100, &ask("SELECT id FROM shop.people WHERE email = ?", &[Text("a@example.org")]), &ROW),
            |wire| wire.times(100, &ask("SELECT email FROM shop.people WHERE id = ?", &[Int(1)]), &ROW)),
        case("index-low-cardinality",
            |wire| people(wire, |id| (format!("{id}@example.org"), format!("state-{}", id % 3))),
            |wire| people(wire, |id| (format!("{id}@example.org"), format!("state-{id}")))),
        case("index-high-cardinality",
            |wire| people(wire, |id| (format!("{id}@example.org"), format!("state-{}", id % 3))),
            |wire| people(wire, |id| (format!("{}@example.org", id % 40), format!("state-{}", id % 3)))),
        case("index-on-updated-column",
            |wire| change_states(wire, 400),
            |wire| change_states(wire, 0)),
        case("materialized-view-read",
            |wire| wire.times(100, &ask("SELECT name FROM shop.names_by_owner WHERE owner = ?", &[Text("anna")]), &ROW),
            by_key),
        case("reversed-read",
            |wire| wire.times(100, &ask("SELECT total FROM shop.orders WHERE customer = ? ORDER BY at DESC LIMIT 5", &[Int(1)]), &Rows(5, 8)),
            |wire| wire.times(100, &ask("SELECT total FROM shop.orders WHERE customer = ? LIMIT 5", &[Int(1)]), &Rows(5, 8))),
        case("unbounded-read",
            |wire| {
                for customer in 0..20 {
                    wire.send(&ask("SELECT total FROM shop.orders WHERE customer = ?", &[Int(customer)]), &Rows(6_000, 8));
                }
            },
            |wire| {
                for customer in 0..20 {
                    wire.send(&ask("SELECT total FROM shop.orders WHERE customer = ? LIMIT 6000", &[Int(customer)]), &Rows(6_000, 8));
                }
            }),
        case("select-star",
            |wire| wire.times(100, &ask("SELECT * FROM shop.users WHERE id = ?", &[Int(1)]), &ROW),
            by_key),
        case("large-result",
            |wire| wire.times(20, &ask("SELECT note FROM shop.orders WHERE customer = ? LIMIT 100", &[Int(1)]), &Rows(100, 40_000)),
            |wire| wire.times(20, &ask("SELECT note FROM shop.orders WHERE customer = ? LIMIT 100", &[Int(1)]), &Rows(100, 400))),
        case("aggregate-without-partition-key",
            |wire| wire.times(100, &ask("SELECT COUNT(*) FROM shop.users", &[]), &ROW),
            |wire| wire.times(100, &ask("SELECT COUNT(*) FROM shop.orders WHERE customer = ?", &[Int(1)]), &ROW)),
        case("unpaged-read",
            |wire| {
                let mut whole = ask("SELECT total FROM shop.orders WHERE customer = ?", &[Int(1)]);
                whole.page_size = None;
                wire.times(50, &whole, &Rows(3_000, 8));
            },
            |wire| wire.times(50, &ask("SELECT total FROM shop.orders WHERE customer = ?", &[Int(1)]), &Rows(3_000, 8))),
        case("small-pages",
            |wire| (0..20).for_each(|_| pages(wire, 10, 10)),
            |wire| (0..20).for_each(|_| pages(wire, 2, 5_000))),
        case("large-pages",
            |wire| {
                let mut read = ask("SELECT total FROM shop.orders WHERE customer = ?", &[Int(1)]);
                read.page_size = Some(50_000);
                wire.times(20, &read, &Rows(20_000, 8));
            },
            |wire| {
                let mut read = ask("SELECT total FROM shop.orders WHERE customer = ?", &[Int(1)]);
                read.page_size = Some(50_000);
                wire.times(20, &read, &Rows(40, 8));
            }),
        case("writetime-read",
            |wire| wire.times(20, &ask("SELECT WRITETIME(name) FROM shop.users WHERE id = ?", &[Int(1)]), &ROW),
            by_key),
    ]
}

/// A list of so many ints, as it is bound.
fn list(length: i32) -> Vec<u8> {
    let values = (0..length).flat_map(|value| [4_i32.to_be_bytes(), value.to_be_bytes()].concat());
    length.to_be_bytes().into_iter().chain(values).collect()
}

/// A read of so many pages.
fn pages(wire: &mut Wire, pages: usize, rows: usize) {
    let mut page = ask("SELECT total FROM shop.orders WHERE customer = ?", &[Int(1)]);
    page.page_size = i32::try_from(rows).ok();
    for number in 0..pages {
        page.paging_state = (number > 0).then_some(b"more");
        let answer = match number + 1 < pages {
            true => Page(rows, 8),
            false => Rows(rows, 8),
        };
        wire.send(&page, &answer);
    }
}

/// People with an e-mail address and a state each, and reads by both.
fn people(wire: &mut Wire, values: fn(i32) -> (String, String)) {
    for id in 0..600 {
        let (email, state) = values(id);
        let insert = "INSERT INTO shop.people (id, email, state) VALUES (?, ?, ?)";
        wire.send(&ask(insert, &[Int(id), Text(&email), Text(&state)]), &Void);
    }
    for id in 0..60 {
        let (email, state) = values(id);
        wire.send(
            &ask("SELECT id FROM shop.people WHERE email = ?", &[Text(&email)]),
            &ROW,
        );
        wire.send(
            &ask("SELECT id FROM shop.people WHERE state = ?", &[Text(&state)]),
            &Rows(200, 8),
        );
    }
}

fn change_states(wire: &mut Wire, changes: i32) {
    people(wire, |id| {
        (format!("{id}@example.org"), format!("state-{}", id % 30))
    });
    for id in 0..changes {
        let update = "UPDATE shop.people SET state = ? WHERE id = ?";
        wire.send(&ask(update, &[Text("done"), Int(id)]), &Void);
    }
}

#[rustfmt::skip]
fn tombstones() -> Vec<Case> {
    const TAIL: &str = "SELECT at, note FROM shop.orders WHERE customer = ? LIMIT 1";
    vec![
        case("tombstone-heavy-read",
            |wire| wire.times(40, &ask("SELECT at FROM shop.orders WHERE customer = ? LIMIT 10", &[Int(1)]),
                &Warned("Read 10 live rows and 2500 tombstone cells for query SELECT (see tombstone_warn_threshold)")),
            |wire| wire.times(40, &ask("SELECT at FROM shop.orders WHERE customer = ? LIMIT 10", &[Int(1)]), &Rows(10, 8))),
        case("queue-pattern",
            |wire| {
                for at in 0..200 {
                    wire.send(&ask("INSERT INTO shop.orders (customer, at, note) VALUES (?, ?, ?)", &[Int(1), Int(at), Text("job")]), &Void);
                    wire.send(&ask(TAIL, &[Int(1)]), &ROW);
                    wire.send(&ask("DELETE FROM shop.orders WHERE customer = ? AND at = ?", &[Int(1), Int(at)]), &Void);
                }
            },
            |wire| {
                for at in 0..200 {
                    wire.send(&ask("INSERT INTO shop.orders (customer, at, note) VALUES (?, ?, ?)", &[Int(1), Int(at), Text("job")]), &Void);
                    wire.send(&ask(TAIL, &[Int(1)]), &ROW);
                }
            }),
        case("collection-overwrite",
            |wire| wire.times(100, &ask("UPDATE shop.users SET tags = ? WHERE id = ?", &[Bytes(&[0, 0, 0, 0]), Int(1)]), &Void),
            |wire| wire.times(100, &ask("UPDATE shop.users SET tags = tags + ? WHERE id = ?", &[Bytes(&[0, 0, 0, 0]), Int(1)]), &Void)),
        case("delete-heavy",
            |wire| {
                for at in 0..200 {
                    wire.send(&ask("INSERT INTO shop.orders (customer, at, total) VALUES (?, ?, ?)", &[Int(1), Int(at), Int(5)]), &Void);
                    wire.send(&ask("DELETE FROM shop.orders WHERE customer = ? AND at = ?", &[Int(1), Int(at)]), &Void);
                    wire.send(&ask("SELECT total FROM shop.orders WHERE customer = ?", &[Int(1)]), &Rows(5, 8));
                }
            },
            |wire| {
                for customer in 0..200 {
                    wire.send(&ask("INSERT INTO shop.orders (customer, at, total) VALUES (?, ?, ?)", &[Int(customer), Int(1), Int(5)]), &Void);
                    wire.send(&ask("DELETE FROM shop.orders WHERE customer = ?", &[Int(customer)]), &Void);
                    wire.send(&ask("SELECT total FROM shop.orders WHERE customer = ?", &[Int(customer)]), &Rows(5, 8));
                }
            }),
        case("null-insert",
            |wire| {
                for id in 0..100 {
                    wire.send(&ask("INSERT INTO shop.users (id, name, phone) VALUES (?, ?, ?)", &[Int(id), Text("anna"), Null]), &Void);
                }
            },
            inserts),
        case("time-window-misuse",
            |wire| wire.times(100, &ask("DELETE FROM shop.events WHERE sensor = ? AND at = ?", &[Int(1), Bytes(&[0; 8])]), &Void),
            |wire| wire.times(100, &ask("INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?) USING TTL 60", &[Int(1), Bytes(&[0; 8]), Int(1)]), &Void)),
    ]
}

#[rustfmt::skip]
fn writes() -> Vec<Case> {
    const ORDER: &str = "INSERT INTO shop.orders (customer, at, total) VALUES (?, ?, ?)";
    fn orders(wire: &mut Wire, kind: BatchKind, customers: i32) {
        let values: Vec<Vec<Cell<'_>>> = (0..20).map(|at| vec![Int(at % customers), Int(at), Int(5)]).collect();
        let statements: Vec<_> = values.iter().map(|values| (ORDER, values.as_slice())).collect();
        (0..60).for_each(|_| wire.batch(kind, &statements));
    }
    vec![
        case("lwt-heavy",
            |wire| wire.times(100, &ask("INSERT INTO shop.names (name, owner) VALUES (?, ?) IF NOT EXISTS", &[Text("a"), Text("b")]), &Void),
            inserts),
        case("logged-batch-multi-partition",
            |wire| orders(wire, BatchKind::Logged, 20),
            |wire| orders(wire, BatchKind::Logged, 1)),
        case("unlogged-batch-multi-partition",
            |wire| orders(wire, BatchKind::Unlogged, 20),
            |wire| orders(wire, BatchKind::Unlogged, 1)),
        case("batch-too-large",
            |wire| {
                let note = "n".repeat(40_000);
                let values: Vec<Vec<Cell<'_>>> = (0..4).map(|at| vec![Int(at), Int(at), Text(&note)]).collect();
                let insert = "INSERT INTO shop.orders (customer, at, note) VALUES (?, ?, ?)";
                let statements: Vec<_> = values.iter().map(|values| (insert, values.as_slice())).collect();
                (0..60).for_each(|_| wire.batch(BatchKind::Logged, &statements));
            },
            |wire| orders(wire, BatchKind::Logged, 20)),
        case("counter-batch",
            |wire| (0..60).for_each(|_| wire.batch(BatchKind::Counter, &[
                ("UPDATE shop.hits SET n = n + 1 WHERE page = ?", &[Int(1)]),
                ("UPDATE shop.hits SET n = n + 1 WHERE page = ?", &[Int(2)]),
            ])),
            |wire| wire.times(60, &ask("UPDATE shop.hits SET n = n + 1 WHERE page = ?", &[Int(1)]), &Void)),
        case("list-modification",
            |wire| wire.times(60, &ask("UPDATE shop.users SET emails[0] = ? WHERE id = ?", &[Text("a"), Int(1)]), &Void),
            |wire| wire.times(60, &ask("UPDATE shop.users SET tags = tags + ? WHERE id = ?", &[Bytes(&[0, 0, 0, 0]), Int(1)]), &Void)),
        case("growing-collection",
            |wire| wire.times(60, &ask("UPDATE shop.users SET emails = emails + ? WHERE id = ?", &[Bytes(&[0, 0, 0, 0]), Int(1)]), &Void),
            |wire| {
                wire.times(60, &ask("UPDATE shop.users SET emails = emails + ? WHERE id = ?", &[Bytes(&[0, 0, 0, 0]), Int(1)]), &Void);
                wire.send(&ask("DELETE emails FROM shop.users WHERE id = ?", &[Int(1)]), &Void);
            }),
        case("growing-collection",
            |wire| wire.times(60, &ask("UPDATE shop.users SET tags = ? WHERE id = ?", &[Bytes(&list(200)), Int(1)]), &Void),
            |wire| wire.times(60, &ask("UPDATE shop.users SET tags = ? WHERE id = ?", &[Bytes(&list(99)), Int(1)]), &Void)),
        case("overwriting-insert",
            |wire| {
                for turn in 0..3 {
                    for at in 0..200 {
                        wire.send(&ask(ORDER, &[Int(1), Int(at), Int(turn)]), &Void);
                    }
                }
            },
            |wire| {
                for at in 0..600 {
                    wire.send(&ask(ORDER, &[Int(1), Int(at), Int(1)]), &Void);
                }
            }),
        case("mixed-conditional-writes",
            |wire| {
                wire.times(20, &ask("INSERT INTO shop.names (name, owner) VALUES (?, ?) IF NOT EXISTS", &[Text("a"), Text("b")]), &Void);
                wire.times(20, &ask("UPDATE shop.names SET owner = ? WHERE name = ?", &[Text("c"), Text("a")]), &Void);
            },
            |wire| {
                wire.times(20, &ask("INSERT INTO shop.names (name, owner) VALUES (?, ?) IF NOT EXISTS", &[Text("a"), Text("b")]), &Void);
                wire.times(20, &ask("UPDATE shop.names SET owner = ? WHERE name = ? IF owner = ?", &[Text("c"), Text("a"), Text("b")]), &Void);
            }),
        case("retried-increment",
            |wire| again(wire, "UPDATE shop.hits SET n = n + 1 WHERE page = ?"),
            |wire| again(wire, "DELETE FROM shop.users WHERE id = ?")),
        case("large-mutation",
            |wire| {
                let content = vec![b'x'; 2 << 20];
                wire.times(5, &ask("INSERT INTO shop.users (id, name) VALUES (?, ?)", &[Int(1), Bytes(&content)]), &Void);
            },
            inserts),
    ]
}

/// Writes that time out and are sent again at once.
fn again(wire: &mut Wire, cql: &str) {
    for key in 0..40 {
        wire.send(&ask(cql, &[Int(key)]), &Error(0x1100));
        wire.send(&ask(cql, &[Int(key)]), &Void);
    }
}

#[rustfmt::skip]
fn clients() -> Vec<Case> {
    let mut cases = vec![
        case("unprepared-statement", |wire| send(wire, |ask| ask.as_text = true), by_key),
        case("prepare-churn",
            |wire| {
                by_key(wire);
                for id in 0..100 {
                    wire.prepare_again(BY_KEY);
                    wire.send(&ask(BY_KEY, &[Int(id)]), &ROW);
                }
            },
            by_key),
        case("not-token-aware",
            |wire| {
                // Whatever the key, to one node of four.
                for id in 0..200 {
                    wire.send(&ask("SELECT v FROM lone.t WHERE k = ?", &[Int(id)]), &ROW);
                }
            },
            |wire| wire.times(200, &ask("SELECT v FROM lone.t WHERE k = ?", &[Int(local_key())]), &ROW)),
        case("consistency-all", |wire| send(wire, |ask| ask.consistency = Consistency::All), by_key),
        case("cross-dc-consistency",
            |wire| {
                let mut quorum = ask("SELECT name FROM two.users WHERE id = ?", &[Int(1)]);
                quorum.consistency = Consistency::Quorum;
                wire.times(100, &quorum, &ROW);
            },
            |wire| wire.times(100, &ask("SELECT name FROM two.users WHERE id = ?", &[Int(1)]), &ROW)),
        case("weak-consistency",
            |wire| {
                inserts(wire);
                send(wire, |ask| ask.consistency = Consistency::LocalOne);
            },
            |wire| {
                inserts(wire);
                by_key(wire);
            }),
        case("mixed-serial-consistency",
            |wire| {
                claim(wire, Consistency::Serial);
                claim(wire, Consistency::LocalSerial);
            },
            |wire| claim(wire, Consistency::Serial)),
        case("retries",
            |wire| again(wire, "DELETE FROM shop.users WHERE id = ?"),
            by_key),
        case("timeouts",
            |wire| {
                by_key(wire);
                wire.times(20, &ask(BY_KEY, &[Int(1)]), &Error(0x1200));
            },
            by_key),
        case("server-warning",
            |wire| wire.times(20, &ask(BY_KEY, &[Int(1)]), &Warned("Aggregation query used without partition key")),
            |wire| wire.times(20, &ask(BY_KEY, &[Int(1)]), &ROW)),
        case("server-error",
            |wire| {
                by_key(wire);
                wire.times(20, &ask(BY_KEY, &[Int(1)]), &Error(0x0000));
            },
            by_key),
    ];
    let one_replica = "CREATE KEYSPACE lone WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1};
                       CREATE TABLE lone.t (k int PRIMARY KEY, v int);";
    for case in cases.iter_mut().filter(|case| case.rule == "not-token-aware") {
        case.guilty.schema = one_replica.to_owned();
        case.innocent.schema = one_replica.to_owned();
    }
    cases
}

/// Writes with a timestamp so many hours ago.
fn stated(wire: &mut Wire, hours_ago: i64) {
    let now = Timestamp::now().as_microsecond();
    let values = [Int(1), Text("anna")];
    let mut write = ask(INSERT, &values);
    write.timestamp = Some(now - hours_ago * 3_600_000_000);
    wire.times(100, &write, &Void);
}

#[rustfmt::skip]
fn connections() -> Vec<Case> {
    let mut cases = vec![
        case("schema-change",
            |wire| {
                let mut truncate = ask("TRUNCATE shop.users", &[]);
                truncate.as_text = true;
                wire.times(20, &truncate, &Void);
            },
            by_key),
        case("future-timestamp",
            |wire| {
                let values = [Int(1), Text("anna")];
                let mut write = ask(INSERT, &values);
                // The year 2100.
                write.timestamp = Some(4_102_444_800_000_000);
                wire.times(20, &write, &Void);
            },
            |wire| {
                let values = [Int(1), Text("anna")];
                let mut write = ask(INSERT, &values);
                // The year 2020.
                write.timestamp = Some(1_577_836_800_000_000);
                wire.times(20, &write, &Void);
            }),
        case("past-timestamp",
            |wire| {
                inserts(wire);
                stated(wire, 7 * 24);
            },
            |wire| {
                inserts(wire);
                stated(wire, 2);
            }),
        case("schema-disagreement",
            |wire| {
                by_key(wire);
                wire.disagree(300);
            },
            |wire| {
                by_key(wire);
                wire.disagree(5);
            }),
        case("traced-requests",
            |wire| (0..2).for_each(|_| send(wire, |ask| ask.traced = true)),
            by_key),
        case("connection-churn",
            |wire| (0..400).for_each(|_| {
                wire.reconnect();
                wire.send(&ask(BY_KEY, &[Int(1)]), &ROW);
            }),
            |wire| (0..4).for_each(|_| {
                wire.reconnect();
                by_key(wire);
            })),
        case("many-connections",
            |wire| (0..40).for_each(|_| {
                wire.open_another();
                by_key(wire);
            }),
            |wire| (0..40).for_each(|_| {
                wire.reconnect();
                by_key(wire);
            })),
        case("old-driver",
            |wire| {
                wire.reconnect_with("DataStax Java Driver 3.11.2");
                by_key(wire);
            },
            by_key),
        case("old-protocol", by_key, by_key),
        case("no-compression",
            |wire| wire.times(4_000, &ask("SELECT note FROM shop.orders WHERE customer = ? LIMIT 100", &[Int(1)]), &Rows(10, 100_000)),
            by_key),
    ];
    let old = cases.iter_mut().filter(|case| case.rule == "old-protocol");
    old.for_each(|case| case.guilty.version = Version::V3);
    cases
}

/// A key whose partition is on the node that is asked.
fn local_key() -> i32 {
    // That node has the tokens above 4·10^18.
    let is_local = |key: &i32| murmur3::token(&key.to_be_bytes()) > 4_000_000_000_000_000_000;
    (0..).find(is_local).unwrap()
}

#[rustfmt::skip]
fn model() -> Vec<Case> {
    let mut cases = vec![
        case("unused-table", by_key, use_everything),
        case("unused-index", by_key, use_everything),
        case("query-without-table",
            |wire| {
                wire.times(100, &ask("SELECT id FROM shop.people WHERE email = ?", &[Text("a")]), &ROW);
                wire.times(100, &ask("SELECT id FROM shop.people WHERE state = ?", &[Text("a")]), &Rows(50, 8));
            },
            |wire| wire.times(100, &ask("SELECT email FROM shop.people WHERE id = ?", &[Int(1)]), &ROW)),
        case("large-partition-key",
            |wire| {
                let name = "x".repeat(2_000);
                wire.times(20, &ask("SELECT owner FROM shop.names WHERE name = ?", &[Text(&name)]), &ROW);
            },
            |wire| wire.times(20, &ask("SELECT owner FROM shop.names WHERE name = ?", &[Text("x")]), &ROW)),
        case("hot-partition",
            |wire| {
                by_key(wire);
                wire.times(200, &ask(BY_KEY, &[Int(7)]), &ROW);
            },
            |wire| {
                by_key(wire);
                wire.times(20, &ask(BY_KEY, &[Int(7)]), &ROW);
            }),
        case("uneven-token-load",
            |wire| by_token(wire, |token| token > 0 && token < i64::MAX / 16),
            |wire| by_token(wire, |_| true)),
        by_node(),
        case("large-partition",
            |wire| long_read(wire, 21),
            |wire| long_read(wire, 19)),
        case("large-partition",
            |wire| grow(wire, |row| (row % 10 / 9, row)),
            |wire| grow(wire, |row| (row / 200, row))),
        case("static-column",
            |wire| orders(wire, |customer, _| format!("customer {customer}")),
            |wire| orders(wire, |customer, at| format!("order {at} of {customer}"))),
        case("read-update-ratio",
            |wire| {
                wire.times(400, &ask("UPDATE shop.users SET name = ? WHERE id = ?", &[Text("a"), Int(1)]), &Void);
                wire.times(4, &ask(BY_KEY, &[Int(1)]), &ROW);
            },
            |wire| {
                wire.times(40, &ask("UPDATE shop.users SET name = ? WHERE id = ?", &[Text("a"), Int(1)]), &Void);
                by_key(wire);
            }),
    ];
    cases.iter_mut().filter(|case| case.rule.starts_with("unused")).for_each(|case| case.hours = 30);
    cases
}

/// A read of each of six hundred partitions whose tokens are such.
fn by_token(wire: &mut Wire, is_read: impl Fn(i64) -> bool) {
    let ids = (0..).filter(|id: &i32| is_read(murmur3::token(&id.to_be_bytes())));
    for id in ids.take(600) {
        wire.send(&ask(BY_KEY, &[Int(id)]), &ROW);
    }
}

/// A quarter of the ring, which is one node's where partitions have one replica, and all of it.
fn by_node() -> Case {
    let mut case = case(
        "uneven-token-load",
        |wire| by_token(wire, |token| token > 0 && token < 4_000_000_000_000_000_000),
        |wire| by_token(wire, |_| true),
    );
    for side in [&mut case.guilty, &mut case.innocent] {
        side.schema = SCHEMA.replacen("'dc1': 3", "'dc1': 1", 1);
    }
    case
}

/// One read of a partition, so many pages of 5,000 rows long.
fn long_read(wire: &mut Wire, pages: usize) {
    let values = [Int(7)];
    let mut ask = ask("SELECT note FROM shop.orders WHERE customer = ?", &values);
    for _ in 1..pages {
        wire.send(&ask, &Page(5_000, 8));
        ask.paging_state = Some(b"more");
    }
    wire.send(&ask, &Rows(5_000, 8));
}

/// A thousand new rows, one after the other.
fn grow(wire: &mut Wire, row: impl Fn(i32) -> (i32, i32)) {
    for (customer, at) in (0..1_000).map(row) {
        let insert = "INSERT INTO shop.orders (customer, at, total) VALUES (?, ?, ?)";
        wire.send(&ask(insert, &[Int(customer), Int(at), Int(at)]), &Void);
    }
}

/// Ten orders of each of a hundred customers.
fn orders(wire: &mut Wire, note: impl Fn(i32, i32) -> String) {
    for (customer, at) in (0..100).flat_map(|customer| (0..10).map(move |at| (customer, at))) {
        let note = note(customer, at);
        let values = [Int(customer), Int(at), Int(at), Text(&note)];
        let insert = "INSERT INTO shop.orders (customer, at, total, note) VALUES (?, ?, ?, ?)";
        wire.send(&ask(insert, &values), &Void);
    }
}

/// A read of each table and index of `shop`.
fn use_everything(wire: &mut Wire) {
    for cql in [
        "SELECT name FROM shop.users WHERE id = 1",
        "SELECT total FROM shop.orders WHERE customer = 1",
        "SELECT v FROM shop.grid WHERE a = 1 AND b = 1",
        "SELECT id FROM shop.people WHERE email = 'a'",
        "SELECT id FROM shop.people WHERE state = 'a'",
        "SELECT n FROM shop.hits WHERE page = 1",
        "SELECT v FROM shop.events WHERE sensor = 1",
        "SELECT owner FROM shop.names WHERE name = 'a'",
        "SELECT name FROM shop.names_by_owner WHERE owner = 'a'",
    ] {
        wire.send(&ask(cql, &[]), &ROW);
    }
}

fn definitions() -> Vec<Case> {
    let table = |columns: &str| format!("CREATE TABLE shop.more ({columns}");
    let keyspace = |replication: &str| {
        format!(
            "CREATE KEYSPACE shop WITH replication = {replication};
             CREATE TABLE shop.users (id int PRIMARY KEY, name text);"
        )
    };
    let three = keyspace("{'class': 'NetworkTopologyStrategy', 'dc1': 3}");
    let many = |count: usize| -> String {
        let tables = (0..count).map(|number| format!("CREATE TABLE shop.t{number} (k int PRIMARY KEY);"));
        tables.collect()
    };
    vec![
        definition(
            "few-partitions",
            table("done boolean, at timeuuid, PRIMARY KEY (done, at));"),
            table("owner text, at timeuuid, PRIMARY KEY (owner, at));"),
        ),
        definition(
            "ttl-without-windows",
            table("k int, at timestamp, PRIMARY KEY (k, at)) WITH default_time_to_live = 60;"),
            table("k int, at timestamp, PRIMARY KEY (k, at));"),
        ),
        definition("materialized-view-write", String::new(), three.clone()),
        definition(
            "gc-grace-zero",
            table("k int PRIMARY KEY) WITH gc_grace_seconds = 0;"),
            table("k int PRIMARY KEY) WITH gc_grace_seconds = 3600;"),
        ),
        definition(
            "sasi-index",
            table(
                "k int PRIMARY KEY, v text); CREATE CUSTOM INDEX ON shop.more (v) USING 'org.apache.cassandra.index.sasi.SASIIndex';",
            ),
            table("k int PRIMARY KEY, v text); CREATE INDEX ON shop.more (v);"),
        ),
        definition(
            "compact-storage",
            table("k int PRIMARY KEY, v text) WITH COMPACT STORAGE;"),
            table("k int PRIMARY KEY, v text);"),
        ),
        definition(
            "simple-strategy",
            keyspace("{'class': 'SimpleStrategy', 'replication_factor': 3}"),
            three.clone(),
        ),
        definition(
            "replication-factor",
            keyspace("{'class': 'NetworkTopologyStrategy', 'dc1': 1}"),
            three,
        ),
        definition("many-tables", many(150), many(100)),
    ]
}

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    [
        reads(),
        tombstones(),
        writes(),
        clients(),
        connections(),
        model(),
        sequences(),
        definitions(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[rustfmt::skip]
fn sequences() -> Vec<Case> {
    vec![
        // Each order leads to its user; a page that shows orders, and the customer by the same key, does not.
        case("client-join",
            |wire| join(wire, 8, |wire, id| wire.send(&ask(BY_KEY, &[Int(id)]), &ROW)),
            |wire| join(wire, 8, |_, _| {})),
        // A name leads to a user; of five that a name leads to somebody looks at one, now and then.
        case("index-table-lookup",
            |wire| {
                for id in 0..60 {
                    wire.send(&ask(OWNER, &[Text(&id.to_string())]), &Ints(&[id]));
                    wire.send(&ask(BY_KEY, &[Int(id)]), &ROW);
                }
            },
            |wire| {
                for id in 0..60 {
                    wire.send(&ask(OWNER, &[Text(&id.to_string())]), &Ints(&[id, id + 100, id + 200, id + 300, id + 400]));
                    if id % 4 == 0 {
                        wire.send(&ask(BY_KEY, &[Int(id)]), &ROW);
                    }
                }
            }),
        case("bucket-fan-out",
            |wire| cells(wire, |key| (0..4).map(|bucket| (key, bucket)).collect()),
            |wire| cells(wire, |key| vec![(key, key % 4)])),
        case("time-bucket-walk",
            |wire| cells(wire, |key| (0..5).map(|back| (key, 1_000 + 7 * key - back)).collect()),
            // Two days at midnight are what such a bucket is for.
            |wire| cells(wire, |key| (0..2).map(|back| (key, 1_000 + 7 * key - back)).collect())),
        case("dual-write-without-batch",
            |wire| copies(wire, |wire, id, name| {
                wire.send(&ask("INSERT INTO shop.people (id, email, state) VALUES (?, ?, ?)", &[Int(id), Text(name), Text("berlin")]), &Void);
            }),
            |wire| copies(wire, |wire, id, name| {
                let values: &[_] = &[Int(id), Text(name), Text("berlin")];
                wire.batch(BatchKind::Logged, &[("INSERT INTO shop.people (id, email, state) VALUES (?, ?, ?)", values)]);
            })),
        case("dual-write-without-batch",
            |wire| batched_copies(wire, BatchKind::Unlogged),
            |wire| batched_copies(wire, BatchKind::Logged)),
        // The user who is read is written, or another one.
        case("read-before-write",
            |wire| read_and_write(wire, |id| id),
            |wire| read_and_write(wire, |id| id + 1_000)),
        case("redundant-reads",
            |wire| again_and_again(wire, 6),
            |wire| again_and_again(wire, 4)),
    ]
}

const OWNER: &str = "SELECT owner FROM shop.names WHERE name = ?";

/// Reads the orders of sixty customers, and does something for each.
fn join(wire: &mut Wire, orders: i32, each: impl Fn(&mut Wire, i32)) {
    for customer in 0..60 {
        let ids: Vec<i32> = (0..orders).map(|order| 10_000 + customer * 100 + order).collect();
        let cql = "SELECT total FROM shop.orders WHERE customer = ?";
        wire.send(&ask(cql, &[Int(customer)]), &Ints(&ids));
        wire.send(&ask(BY_KEY, &[Int(customer)]), &ROW);
        ids.iter().for_each(|id| each(wire, *id));
    }
}

/// Reads cells of the grid for each of sixty keys.
fn cells(wire: &mut Wire, of: impl Fn(i32) -> Vec<(i32, i32)>) {
    for (a, b) in (0..60).flat_map(of) {
        wire.send(
            &ask("SELECT v FROM shop.grid WHERE a = ? AND b = ?", &[Int(a), Int(b)]),
            &ROW,
        );
    }
}

/// Writes sixty users into two tables, both in one batch.
fn batched_copies(wire: &mut Wire, kind: BatchKind) {
    for id in 0..60 {
        let name = format!("user-{id}");
        let values: &[_] = &[Int(id), Text(&name), Text("berlin")];
        let copies = [
            (
                "INSERT INTO shop.users (id, name, phone) VALUES (?, ?, ?)",
                values,
            ),
            (
                "INSERT INTO shop.people (id, email, state) VALUES (?, ?, ?)",
                values,
            ),
        ];
        wire.batch(kind, &copies);
    }
}

/// Reads sixty users, and after each of them writes one.
fn read_and_write(wire: &mut Wire, written: impl Fn(i32) -> i32) {
    for id in 0..60 {
        wire.send(&ask(BY_KEY, &[Int(id)]), &ROW);
        let values = [Text("anna"), Int(written(id))];
        wire.send(
            &ask("UPDATE shop.users SET name = ? WHERE id = ?", &values),
            &Void,
        );
    }
}

/// Reads sixty users, each so many times.
fn again_and_again(wire: &mut Wire, times: u32) {
    for id in 0..60 {
        (0..times).for_each(|_| wire.send(&ask(BY_KEY, &[Int(id)]), &ROW));
    }
}

/// Writes sixty users, and each once more.
fn copies(wire: &mut Wire, copy: impl Fn(&mut Wire, i32, &str)) {
    for id in 0..60 {
        let name = format!("user-{id}");
        let values = [Int(id), Text(&name), Text("berlin")];
        wire.send(
            &ask(
                "INSERT INTO shop.users (id, name, phone) VALUES (?, ?, ?)",
                &values,
            ),
            &Void,
        );
        copy(wire, id, &name);
    }
}
