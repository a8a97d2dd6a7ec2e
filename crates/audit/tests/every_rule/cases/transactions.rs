//! Those of transactions.

use super::{Case, case};
use crate::wire::{
    Answer::{self, Error, Void},
    Cell::{self, Int},
    ROW, Wire, ask,
};

/// What transactions need beside the common schema.
const TABLES: &str = "
    CREATE TABLE shop.stock (item int PRIMARY KEY, left int, note int) WITH transactional_mode = 'full';";

fn transactions(rule: &'static str, guilty: fn(&mut Wire), innocent: fn(&mut Wire)) -> Case {
    let mut case = case(rule, guilty, innocent);
    case.guilty.schema = TABLES.to_owned();
    case.innocent.schema = TABLES.to_owned();
    case
}

const TAKE_ONE: &str = "UPDATE shop.stock SET left -= ? WHERE item = ?;";

const READ_STOCK: &str = "LET stock = (SELECT left FROM shop.stock WHERE item = ?);";

fn transact(wire: &mut Wire, body: &str, values: &[Cell<'_>], answer: &Answer<'_>) {
    let cql = format!("BEGIN TRANSACTION {body} COMMIT TRANSACTION");
    wire.send(&ask(&cql, values), answer);
}

/// Sixty orders of so many items each.
fn order(wire: &mut Wire, items: i32) {
    let body: String = (0..items).map(|_| TAKE_ONE).collect();
    for customer in 0..60 {
        let values: Vec<_> = (0..items)
            .flat_map(|item| [Int(1), Int(customer * 100 + item)])
            .collect();
        transact(wire, &body, &values, &Void);
    }
}

/// Takes one of each item if there is any left, of which some requests are not decided in time.
fn take_if_left(wire: &mut Wire, items: i32, timeouts: i32) {
    let body = format!("{READ_STOCK} IF stock.left > ? THEN {TAKE_ONE} END IF");
    for request in 0..200 {
        let item = Int(request % items);
        let answer = if request < timeouts { Error(0x1100) } else { Void };
        transact(wire, &body, &[item, Int(0), Int(1), item], &answer);
    }
}

/// The same table, with transactions in this mode.
fn mode(mode: &str) -> String {
    TABLES.replace("'full'", &format!("'{mode}'"))
}

pub(super) fn all() -> Vec<Case> {
    let mut modes = case(
        "transactional-mode",
        |wire| take_if_left(wire, 100, 0),
        |wire| take_if_left(wire, 100, 0),
    );
    modes.guilty.schema = mode("mixed_reads");
    modes.innocent.schema = mode("full");
    let mut unsafe_mode = case(
        "transactional-mode",
        |wire| {
            take_if_left(wire, 100, 0);
            let refill = "UPDATE shop.stock SET left = ? WHERE item = ?";
            wire.times(60, &ask(refill, &[Int(9), Int(1)]), &Void);
        },
        |wire| take_if_left(wire, 100, 0),
    );
    unsafe_mode.guilty.schema = mode("unsafe_writes");
    unsafe_mode.innocent.schema = mode("unsafe_writes");
    vec![
        transactions(
            "multi-partition-transaction",
            |wire| order(wire, 12),
            |wire| order(wire, 3),
        ),
        // The last writer wins, or each of them counts.
        transactions(
            "single-partition-transaction",
            |wire| {
                for item in 0..60 {
                    let body = "UPDATE shop.stock SET note = ? WHERE item = ?;";
                    transact(wire, body, &[Int(1), Int(item)], &Void);
                }
            },
            |wire| order(wire, 1),
        ),
        transactions(
            "unused-transaction-read",
            |wire| {
                for item in 0..60 {
                    transact(
                        wire,
                        &format!("{READ_STOCK} {TAKE_ONE}"),
                        &[Int(item), Int(1), Int(item)],
                        &Void,
                    );
                }
            },
            |wire| {
                for item in 0..60 {
                    let body = format!("{READ_STOCK} SELECT stock.left; {TAKE_ONE}");
                    transact(wire, &body, &[Int(item), Int(1), Int(item)], &ROW);
                }
            },
        ),
        // One item that all want, or a hundred.
        transactions(
            "contended-transaction",
            |wire| take_if_left(wire, 1, 4),
            |wire| take_if_left(wire, 100, 4),
        ),
        modes,
        unsafe_mode,
    ]
}
