//! The cases, in the order of the catalogue.

mod transactions;

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
        seconds: HOUR,
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

/// In seconds.
const HOUR: i64 = 3_600;

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
    claim_in(wire, "two.users", serial);
}

fn claim_at_both_levels(wire: &mut Wire, table: &str) {
    claim_in(wire, table, Consistency::Serial);
    claim_in(wire, table, Consistency::LocalSerial);
}

fn claim_in(wire: &mut Wire, table: &str, serial: Consistency) {
    let values = [Int(1), Text("anna")];
    let cql = format!("INSERT INTO {table} (id, name) VALUES (?, ?) IF NOT EXISTS");
    let mut claim = ask(&cql, &values);
    claim.serial = Some(serial);
    wire.times(20, &claim, &Void);
}

#[rustfmt::skip]
fn reads() -> Vec<Case> {
    let mut cases = vec![
        case("allow-filtering",
            |wire| wire.times(100, &ask("SELECT id FROM shop.users WHERE name = ? ALLOW FILTERING", &[Text("anna")]), &Rows(100, 8)),
            // All rows are wanted: a scan, of which nothing is thrown away.
            |wire| wire.times(100, &ask("SELECT id FROM shop.users ALLOW FILTERING", &[]), &Rows(100, 8))),
        case("full-scan",
            |wire| wire.times(100, &ask("SELECT id, name FROM shop.users", &[]), &Rows(500, 8)),
            |wire| wire.times(100, &ask("SELECT id, name FROM shop.users WHERE id = ?", &[Int(1)]), &Rows(500, 8))),
        case("full-scan",
            |wire| wire.times(100, &ask("SELECT id, name FROM shop.users", &[]), &Rows(500, 8)),
            |wire| wire.times(100, &ask("SELECT COUNT(*) FROM shop.users", &[]), &Rows(500, 8))),
        case("token-range-scan",
            |wire| wire.times(100, &ask("SELECT id FROM shop.users WHERE token(id) > ? AND token(id) <= ?", &[Bytes(&[0; 8]), Bytes(&[1; 8])]), &Rows(100, 8)),
            |wire| wire.times(100, &ask("SELECT id FROM shop.users WHERE token(id) > ? AND token(id) <= ? AND id = ?", &[Bytes(&[0; 8]), Bytes(&[1; 8]), Int(1)]), &Rows(100, 8))),
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
            |wire| wire.times(100, &ask("SELECT id FROM shop.people WHERE email = ? AND id = ?", &[Text("a@example.org"), Int(1)]), &ROW)),
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
            by_owner,
            by_owner),
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
            |wire| wire.times(100, &ask("SELECT * FROM shop.grid WHERE a = ? AND b = ?", &[Int(1), Int(1)]), &ROW),
            |wire| wire.times(100, &ask("SELECT a, b, v FROM shop.grid WHERE a = ? AND b = ?", &[Int(1), Int(1)]), &ROW)),
        // Of a key and one value nothing can be left out.
        case("select-star",
            |wire| wire.times(100, &ask("SELECT * FROM shop.people WHERE id = ?", &[Int(1)]), &ROW),
            |wire| wire.times(100, &ask("SELECT * FROM two.users WHERE id = ?", &[Int(1)]), &ROW)),
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
            |wire| wire.times(20, &ask("SELECT TTL(name) FROM shop.users WHERE id = ?", &[Int(1)]), &ROW)),
        case("empty-read",
            |wire| wire.times(60, &ask(BY_KEY, &[Int(1)]), &Rows(0, 8)),
            |wire| {
                wire.times(20, &ask(BY_KEY, &[Int(1)]), &Rows(0, 8));
                wire.times(40, &ask(BY_KEY, &[Int(1)]), &ROW);
            }),
    ];
    let view = cases.iter_mut().find(|case| case.rule == "materialized-view-read").unwrap();
    view.innocent.schema = with_a_table_of_owners();
    cases
}

fn by_owner(wire: &mut Wire) {
    let read = ask(
        "SELECT name FROM shop.names_by_owner WHERE owner = ?",
        &[Text("anna")],
    );
    wire.times(100, &read, &ROW);
}

/// The common schema, with a table in the place of its view.
fn with_a_table_of_owners() -> String {
    let (tables, rest) = SCHEMA.split_once("CREATE MATERIALIZED VIEW").unwrap();
    let (_, others) = rest.split_once(';').unwrap();
    let owners = "CREATE TABLE shop.names_by_owner (owner text, name text, PRIMARY KEY (owner, name));";
    format!("{tables}{owners}{others}")
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
            |wire| phones(wire, 99),
            |wire| phones(wire, 100)),
        // To set a column to null is how an UPDATE deletes.
        case("null-insert",
            |wire| wire.times(100, &ask("INSERT INTO shop.users (phone, id) VALUES (?, ?)", &[Null, Int(1)]), &Void),
            |wire| wire.times(100, &ask("UPDATE shop.users SET phone = ? WHERE id = ?", &[Null, Int(1)]), &Void)),
        case("time-window-misuse",
            |wire| wire.times(100, &ask("DELETE FROM shop.events WHERE sensor = ? AND at = ?", &[Int(1), Bytes(&[0; 8])]), &Void),
            |wire| wire.times(100, &ask("INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?) USING TTL 60", &[Int(1), Bytes(&[0; 8]), Int(1)]), &Void)),
        // A time window goes when all of it has expired.
        case("time-window-misuse",
            |wire| events(wire, "", " USING TTL 60"),
            |wire| events(wire, " USING TTL 60", " USING TTL 60")),
        case("time-window-misuse",
            |wire| late_events(wire, 25),
            |wire| late_events(wire, 23)),
    ]
}

/// Events, half of them with one and half with another end of the INSERT.
fn events(wire: &mut Wire, one: &str, other: &str) {
    let values = [Int(1), Bytes(&[0; 8]), Int(1)];
    for end in [one, other] {
        let insert = format!("INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?){end}");
        wire.times(100, &ask(&insert, &values), &Void);
    }
}

/// Events with a timestamp so many hours ago; a window has a day.
fn late_events(wire: &mut Wire, hours_ago: i64) {
    let values = [Int(1), Bytes(&[0; 8]), Int(1)];
    let mut insert = ask(
        "INSERT INTO shop.events (sensor, at, v) VALUES (?, ?, ?) USING TTL 60",
        &values,
    );
    insert.timestamp = Some(Timestamp::now().as_microsecond() - hours_ago * 3_600_000_000);
    wire.times(100, &insert, &Void);
}

/// Users of whom so many have a telephone, and one has none.
fn phones(wire: &mut Wire, with: i32) {
    for id in 0..=with {
        let phone = if id == with { Null } else { Text("1") };
        let insert = "INSERT INTO shop.users (id, name, phone) VALUES (?, ?, ?)";
        wire.send(&ask(insert, &[Int(id), Text("anna"), phone]), &Void);
    }
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
            |wire| wire.times(100, &ask("INSERT INTO shop.names (name, owner) VALUES (?, ?)", &[Text("a"), Text("b")]), &Void)),
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
        case("counter-delete",
            |wire| wire.times(60, &ask("DELETE FROM shop.hits WHERE page = ?", &[Int(1)]), &Void),
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
        // A list keeps what is added twice.
        case("retried-increment",
            |wire| again(wire, "UPDATE shop.users SET emails = emails + ['a'] WHERE id = ?"),
            |wire| again(wire, "UPDATE shop.users SET tags = tags + {'a'} WHERE id = ?")),
        case("large-mutation",
            |wire| wire.times(5, &ask(INSERT, &[Int(1), Bytes(&vec![b'x'; 1 << 20])]), &Void),
            |wire| wire.times(5, &ask(INSERT, &[Int(1), Bytes(&vec![b'x'; (1 << 20) - 100])]), &Void)),
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
        // Each piece of a walk over the table is another statement.
        case("unprepared-statement",
            |wire| in_text(wire, "SELECT name FROM shop.users WHERE id = ?"),
            |wire| in_text(wire, "SELECT name FROM shop.users WHERE token(id) > ?")),
        case("prepare-churn",
            |wire| prepare_again(wire, 60, 9),
            |wire| prepare_again(wire, 60, 10)),
        // Clients prepare when they start.
        case("prepare-churn",
            |wire| prepare_again(wire, 60, 1),
            |wire| prepare_again(wire, 59, 1)),
        // The server has forgotten what to execute.
        case("prepare-churn",
            |wire| unprepared(wire, 60),
            |wire| unprepared(wire, 59)),
        case("not-token-aware",
            |wire| {
                // Whatever the key, to one node of four.
                for id in 0..200 {
                    wire.send(&ask("SELECT v FROM lone.t WHERE k = ?", &[Int(id)]), &ROW);
                }
            },
            |wire| wire.times(200, &ask("SELECT v FROM lone.t WHERE k = ?", &[Int(local_key())]), &ROW)),
        case("consistency-all",
            |wire| send(wire, |ask| ask.consistency = Consistency::All),
            |wire| send(wire, |ask| ask.consistency = Consistency::Quorum)),
        // All of one replica is one.
        case("consistency-all",
            |wire| send(wire, |ask| ask.consistency = Consistency::All),
            |wire| send(wire, |ask| ask.consistency = Consistency::All)),
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
        // One datacenter has one quorum.
        case("mixed-serial-consistency",
            |wire| claim_at_both_levels(wire, "two.users"),
            |wire| claim_at_both_levels(wire, "shop.users")),
        case("retries",
            |wire| fail_and_delete(wire, 10, |id| id),
            |wire| fail_and_delete(wire, 9, |id| id)),
        case("retries",
            |wire| fail_and_delete(wire, 40, |id| id),
            |wire| fail_and_delete(wire, 40, |id| id + 1_000)),
        case("retries",
            |wire| speculate(wire, 10, 80),
            |wire| speculate(wire, 10, 81)),
        // Nodes that are down are not late.
        case("timeouts",
            |wire| wire.times(20, &ask(BY_KEY, &[Int(1)]), &Error(0x1200)),
            |wire| wire.times(20, &ask(BY_KEY, &[Int(1)]), &Error(0x1000))),
        // Of tombstones another rule speaks.
        case("server-warning",
            |wire| wire.times(20, &ask(BY_KEY, &[Int(1)]), &Warned("Aggregation query used without partition key")),
            |wire| wire.times(20, &ask(BY_KEY, &[Int(1)]),
                &Warned("Read 1 live rows and 2500 tombstone cells for query SELECT (see tombstone_warn_threshold)"))),
        case("server-error",
            |wire| wire.times(20, &ask(BY_KEY, &[Int(1)]), &Error(0x1000)),
            |wire| wire.times(20, &ask(BY_KEY, &[Int(1)]), &Error(0x1200))),
    ];
    let one_of_all = cases.iter_mut().rfind(|case| case.rule == "consistency-all").unwrap();
    one_of_all.innocent.schema = SCHEMA.replacen("'dc1': 3", "'dc1': 1", 1);
    let one_replica = "CREATE KEYSPACE lone WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1};
                       CREATE TABLE lone.t (k int PRIMARY KEY, v int);";
    for case in cases.iter_mut().filter(|case| case.rule == "not-token-aware") {
        case.guilty.schema = one_replica.to_owned();
        case.innocent.schema = one_replica.to_owned();
    }
    cases
}

/// The same again and again, as text.
fn in_text(wire: &mut Wire, cql: &str) {
    let values = [Int(7)];
    let mut text = ask(cql, &values);
    text.as_text = true;
    wire.times(100, &text, &ROW);
}

/// Prepares so often what was executed before, and executes it so often each time.
fn prepare_again(wire: &mut Wire, times: usize, executions: usize) {
    let values = [Int(1)];
    let read = ask(BY_KEY, &values);
    wire.send(&read, &ROW);
    for _ in 0..times {
        wire.prepare_again(BY_KEY);
        wire.times(executions, &read, &ROW);
    }
}

/// So many executions of what the server does not know; nobody prepares it again.
fn unprepared(wire: &mut Wire, times: usize) {
    by_key(wire);
    wire.times(times, &ask(BY_KEY, &[Int(1)]), &Error(0x2500));
}

/// So many reads that are sent twice at once, and so many that are sent once.
fn speculate(wire: &mut Wire, twice: i32, once: i32) {
    for id in 0..twice {
        wire.send_twice(&ask(BY_KEY, &[Int(id)]), &ROW);
    }
    for id in 0..once {
        wire.send(&ask(BY_KEY, &[Int(1_000 + id)]), &ROW);
    }
}

/// So many of a hundred DELETEs time out, each of which is followed by one of this key.
fn fail_and_delete(wire: &mut Wire, failures: i32, next: impl Fn(i32) -> i32) {
    const DELETE: &str = "DELETE FROM shop.users WHERE id = ?";
    for id in 0..100 {
        if id < failures {
            wire.send(&ask(DELETE, &[Int(id)]), &Error(0x1100));
        }
        wire.send(&ask(DELETE, &[Int(next(id))]), &Void);
    }
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
            |wire| truncate(wire, 5),
            |wire| truncate(wire, 4)),
        case("future-timestamp",
            // The years 2100 and 2020.
            |wire| timed(wire, 4_102_444_800_000_000),
            |wire| timed(wire, 1_577_836_800_000_000)),
        // Microseconds, and nanoseconds.
        case("future-timestamp",
            |wire| timed(wire, 1_577_836_800_000_000_000),
            |wire| timed(wire, 1_577_836_800_000_000)),
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
            |wire| traced(wire, 100),
            |wire| traced(wire, 99)),
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
            |wire| {
                wire.reconnect_with("DataStax Java Driver 4.17.0");
                by_key(wire);
            }),
        case("old-protocol", by_key, by_key),
        case("no-compression",
            |wire| notes(wire, 64),
            |wire| notes(wire, 62)),
        case("no-compression",
            |wire| {
                wire.reconnect();
                notes(wire, 64);
            },
            |wire| {
                wire.reconnect_compressed();
                notes(wire, 64);
            }),
    ];
    // 64 answers of a megabyte are a MiB a second.
    cases.iter_mut().filter(|case| case.rule == "no-compression").for_each(|case| case.seconds = 60);
    let old = cases.iter_mut().filter(|case| case.rule == "old-protocol");
    old.for_each(|case| case.guilty.version = Version::V3);
    cases
}

/// Writes with this timestamp.
fn timed(wire: &mut Wire, timestamp: i64) {
    let values = [Int(1), Text("anna")];
    let mut write = ask(INSERT, &values);
    write.timestamp = Some(timestamp);
    wire.times(20, &write, &Void);
}

fn truncate(wire: &mut Wire, times: usize) {
    let mut truncate = ask("TRUNCATE shop.users", &[]);
    truncate.as_text = true;
    wire.times(times, &truncate, &Void);
}

fn traced(wire: &mut Wire, times: usize) {
    let values = [Int(1)];
    let mut read = ask(BY_KEY, &values);
    read.traced = true;
    wire.times(times, &read, &ROW);
}

/// So many answers of a megabyte.
fn notes(wire: &mut Wire, times: usize) {
    let read = ask(
        "SELECT note FROM shop.orders WHERE customer = ? LIMIT 100",
        &[Int(1)],
    );
    wire.times(times, &read, &Rows(10, 100_000));
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
        case("unused-table", |wire| use_all_but(wire, "shop.orders"), |wire| use_all_but(wire, "nothing")),
        case("unused-index", |wire| use_all_but(wire, "WHERE state"), |wire| use_all_but(wire, "nothing")),
        case("query-without-table",
            |wire| by_email_state_and_id(wire, 100, 100, 22),
            |wire| by_email_state_and_id(wire, 100, 100, 23)),
        case("query-without-table",
            |wire| by_email_state_and_id(wire, 100, 1, 0),
            |wire| by_email_state_and_id(wire, 101, 0, 0)),
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
    cases.iter_mut().filter(|case| case.rule.starts_with("unused")).for_each(|case| case.seconds = 30 * HOUR);
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

/// A read of each table and index of `shop`, but for the one that has these words.
fn use_all_but(wire: &mut Wire, unused: &str) {
    let reads = [
        "SELECT name FROM shop.users WHERE id = 1",
        "SELECT total FROM shop.orders WHERE customer = 1",
        "SELECT v FROM shop.grid WHERE a = 1 AND b = 1",
        "SELECT id FROM shop.people WHERE email = 'a'",
        "SELECT id FROM shop.people WHERE state = 'a'",
        "SELECT n FROM shop.hits WHERE page = 1",
        "SELECT v FROM shop.events WHERE sensor = 1",
        "SELECT owner FROM shop.names WHERE name = 'a'",
        "SELECT name FROM shop.names_by_owner WHERE owner = 'a'",
    ];
    for cql in reads.iter().filter(|cql| !cql.contains(unused)) {
        wire.send(&ask(cql, &[]), &ROW);
    }
}

fn by_email_state_and_id(wire: &mut Wire, email: usize, state: usize, id: usize) {
    let person = [Text("a")];
    wire.times(
        email,
        &ask("SELECT id FROM shop.people WHERE email = ?", &person),
        &ROW,
    );
    wire.times(
        state,
        &ask("SELECT id FROM shop.people WHERE state = ?", &person),
        &ROW,
    );
    wire.times(
        id,
        &ask("SELECT email FROM shop.people WHERE id = ?", &[Int(1)]),
        &ROW,
    );
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
    // Without the common tables.
    let alone = |columns: &str| format!("{three}{}", table(columns));
    let indexes = |count: usize| -> String {
        let columns: String = (0..count).map(|number| format!(", c{number} int")).collect();
        let created = (0..count).map(|number| format!("CREATE INDEX ON shop.more (c{number});"));
        table(&format!("k int PRIMARY KEY{columns});")) + &created.collect::<String>()
    };
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
        definition(
            "ttl-without-windows",
            table(
                "k int, at timestamp, PRIMARY KEY (k, at)) WITH default_time_to_live = 60 AND compaction = {'class': 'LeveledCompactionStrategy'};",
            ),
            table(
                "k int, at timestamp, PRIMARY KEY (k, at)) WITH default_time_to_live = 60 AND compaction = {'class': 'TimeWindowCompactionStrategy'};",
            ),
        ),
        definition(
            "endless-partition",
            alone("k int, at timestamp, PRIMARY KEY (k, at));"),
            alone("k int, day date, at timestamp, PRIMARY KEY ((k, day), at));"),
        ),
        definition(
            "time-window-settings",
            alone("k int PRIMARY KEY) WITH compaction = {'class': 'TimeWindowCompactionStrategy'};"),
            alone(
                "k int PRIMARY KEY) WITH default_time_to_live = 2592000 AND compaction = {'class': 'TimeWindowCompactionStrategy'};",
            ),
        ),
        definition("many-indexes", indexes(6), indexes(5)),
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
            three.clone(),
        ),
        // Each datacenter has three nodes.
        definition(
            "replication-factor",
            keyspace("{'class': 'NetworkTopologyStrategy', 'dc1': 4}"),
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
        transactions::all(),
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
        // A name leads to a user; one in five of those is looked at.
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
