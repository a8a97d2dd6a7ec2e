//! What the applications of the shop send, and what the cluster makes of it: rates at the busiest hour, latencies, rows.

use cqlens_window::{Pattern, RetryCause};

use crate::distribution::{Range, spread};

/// A statement of an application.
#[derive(Clone, Copy)]
pub(crate) struct Statement {
    pub(crate) cql: &'static str,
    /// The application's name, as in [`APPLICATIONS`].
    pub(crate) from: &'static str,
    /// Executions of a second at the busiest hour, by all clients together.
    pub(crate) peak: f64,
    pub(crate) rhythm: Rhythm,
    pub(crate) latency_us: Range,
    /// Partitions of an execution.
    pub(crate) partitions: Range,
    /// Rows of an answer.
    pub(crate) rows: Range,
    /// Of a row of the answer; of the request where it writes.
    pub(crate) row_bytes: u64,
    /// Different partitions in a week.
    pub(crate) keys: u64,
    /// The part of the executions that the first of them gets.
    pub(crate) hottest: f64,
    pub(crate) seen: Seen,
    /// What else is counted of so many executions.
    pub(crate) more: fn(&mut Pattern, u64),
}

/// When a statement is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rhythm {
    /// When customers buy.
    Customers,
    /// When people work in the offices.
    Offices,
    /// By a job, from one o'clock to four.
    Nights,
    /// By a program that never sleeps.
    Always,
}

/// In which weeks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The one that is reported and the one before.
    Always,
    /// Until the last review.
    Before,
    /// From then on.
    After,
    /// Since the deployment in the middle of the week that is reported.
    SinceDeployment,
}

/// An application: its name, its version, its driver and how many of its clients are in each zone.
pub(crate) struct Application {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) driver: &'static str,
    pub(crate) clients: u64,
}

pub(crate) const APPLICATIONS: [Application; 6] = [
    application("storefront", "5.21.3", JAVA, 8),
    application("checkout", "7.12.0", JAVA, 4),
    application("session-service", "2.9.1", GO, 3),
    application("notifier", "4.2.0", NODE, 2),
    application("catalogue-import", "1.14.2", PYTHON, 1),
    application(BACKOFFICE, "3.7.2", PYTHON, 1),
];

pub(crate) const BACKOFFICE: &str = "backoffice";
/// The version that is deployed in the middle of the week.
pub(crate) const NEW_BACKOFFICE: &str = "3.8.0";

const JAVA: &str = "Java driver 4.17.0";
const GO: &str = "apache/cassandra-gocql-driver 2.0.0";
const NODE: &str = "Node.js driver 4.7.2";
const PYTHON: &str = "Python driver 3.29.2";

const fn application(
    name: &'static str,
    version: &'static str,
    driver: &'static str,
    clients: u64,
) -> Application {
    Application {
        name,
        version,
        driver,
        clients,
    }
}

const NOTHING_MORE: fn(&mut Pattern, u64) = |_, _| {};

/// A read of one row by its key.
const READ: Statement = Statement {
    cql: "",
    from: "storefront",
    peak: 0.0,
    rhythm: Rhythm::Customers,
    latency_us: (700, 3_100),
    partitions: (1, 1),
    rows: (1, 1),
    row_bytes: 180,
    keys: 100_000,
    hottest: 0.0,
    seen: Seen::Always,
    more: NOTHING_MORE,
};

/// A write of one row.
const WRITE: Statement = Statement {
    latency_us: (820, 3_600),
    rows: (0, 0),
    ..READ
};

pub(crate) const STATEMENTS: &[Statement] = &[
    Statement {
        cql: "SELECT session_id, user_id, last_seen FROM sessions.sessions WHERE session_id = ?",
        from: "session-service",
        peak: 620.0,
        keys: 900_000,
        ..READ
    },
    Statement {
        cql: "INSERT INTO sessions.sessions (session_id, user_id, created_at, last_seen, ip, agent, referrer, campaign) \
              VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        from: "session-service",
        peak: 46.0,
        row_bytes: 310,
        keys: 900_000,
        more: |pattern, times| {
            pattern.nulls.executions += times * 78 / 100;
            pattern.nulls.count(Some("campaign"), times * 74 / 100);
            pattern.nulls.count(Some("referrer"), times * 41 / 100);
        },
        ..WRITE
    },
    Statement {
        cql: "UPDATE sessions.sessions SET last_seen = ? WHERE session_id = ?",
        from: "session-service",
        peak: 180.0,
        row_bytes: 90,
        keys: 900_000,
        ..WRITE
    },
    Statement {
        cql: "SELECT session_id, created_at, agent FROM sessions.sessions WHERE user_id = ?",
        from: "session-service",
        peak: 2.2,
        latency_us: (9_400, 61_000),
        rows: (2, 6),
        keys: 40_000,
        ..READ
    },
    Statement {
        cql: "SELECT product_id, title, description, brand, price, currency, image FROM catalogue.products WHERE product_id = ?",
        peak: 410.0,
        row_bytes: 1_450,
        keys: 240_000,
        ..READ
    },
    Statement {
        cql: "SELECT product_id, title, price, image FROM catalogue.products WHERE product_id IN ?",
        peak: 41.0,
        latency_us: (3_900, 21_000),
        partitions: (8, 18),
        rows: (8, 18),
        row_bytes: 240,
        keys: 240_000,
        seen: Seen::Before,
        ..READ
    },
    Statement {
        cql: "SELECT product_id, title, price, image FROM catalogue.products WHERE product_id IN ?",
        peak: 65.0,
        latency_us: (8_300, 54_000),
        partitions: (24, 48),
        rows: (24, 48),
        row_bytes: 240,
        keys: 240_000,
        seen: Seen::After,
        ..READ
    },
    Statement {
        cql: "SELECT rank, product_id, title, price, image FROM catalogue.products_by_category WHERE category_id = ? LIMIT 60",
        peak: 120.0,
        latency_us: (1_600, 8_800),
        rows: (48, 60),
        row_bytes: 190,
        keys: 3_800,
        ..READ
    },
    Statement {
        cql: "SELECT rank, product_id, title, price FROM catalogue.bestsellers WHERE country = ? LIMIT 24",
        peak: 85.0,
        latency_us: (1_100, 6_900),
        rows: (24, 24),
        row_bytes: 150,
        keys: 14,
        hottest: 0.61,
        ..READ
    },
    Statement {
        cql: "SELECT warehouse_id, available FROM catalogue.stock WHERE product_id = ?",
        peak: 150.0,
        rows: (4, 9),
        row_bytes: 24,
        keys: 240_000,
        ..READ
    },
    Statement {
        cql: "UPDATE catalogue.stock SET available = ?, reserved = ? WHERE product_id = ? AND warehouse_id = ? IF available = ?",
        from: "checkout",
        peak: 14.0,
        latency_us: (9_200, 88_000),
        rows: (1, 1),
        row_bytes: 70,
        keys: 60_000,
        more: |pattern, times| {
            pattern.not_applied += times * 6 / 100;
            *pattern
                .serial_consistency
                .entry("LOCAL_SERIAL".to_owned())
                .or_default() += times;
        },
        ..WRITE
    },
    Statement {
        cql: "BEGIN UNLOGGED BATCH UPDATE catalogue.products SET price = ?, updated_at = ? WHERE product_id = ?; APPLY BATCH",
        from: "catalogue-import",
        peak: 6.0,
        rhythm: Rhythm::Nights,
        latency_us: (23_000, 140_000),
        partitions: (80, 80),
        row_bytes: 80 * 64,
        keys: 240_000,
        ..WRITE
    },
    Statement {
        cql: "SELECT product_id, quantity, added_at FROM carts.cart_items WHERE cart_id = ?",
        from: "checkout",
        peak: 190.0,
        latency_us: (900, 4_100),
        rows: (3, 14),
        row_bytes: 44,
        keys: 310_000,
        ..READ
    },
    Statement {
        cql: "INSERT INTO carts.cart_items (cart_id, added_at, product_id, quantity) VALUES (?, ?, ?, ?)",
        from: "checkout",
        peak: 24.0,
        row_bytes: 96,
        keys: 310_000,
        ..WRITE
    },
    Statement {
        cql: "DELETE FROM carts.cart_items WHERE cart_id = ? AND added_at = ? AND product_id = ?",
        from: "checkout",
        peak: 4.0,
        row_bytes: 80,
        keys: 120_000,
        ..WRITE
    },
    Statement {
        cql: NEWEST_ORDERS,
        from: "checkout",
        peak: 9.0,
        latency_us: (1_700, 9_600),
        rows: (11, 20),
        row_bytes: 40,
        keys: 190_000,
        ..READ
    },
    Statement {
        cql: ORDER_BY_ID,
        from: "checkout",
        peak: 118.0,
        latency_us: (800, 3_700),
        row_bytes: 210,
        keys: 600_000,
        ..READ
    },
    Statement {
        cql: "BEGIN BATCH INSERT INTO orders.orders_by_id (order_id, customer_id, placed_at, status, total, currency, ship_to) \
              VALUES (?, ?, ?, ?, ?, ?, ?); INSERT INTO orders.orders_by_customer (customer_id, placed_at, order_id) \
              VALUES (?, ?, ?); APPLY BATCH",
        from: "checkout",
        peak: 3.4,
        latency_us: (4_600, 26_000),
        partitions: (2, 2),
        row_bytes: 420,
        keys: 600_000,
        ..WRITE
    },
    Statement {
        cql: "UPDATE orders.orders_by_id SET status = ? WHERE order_id = ?",
        from: "checkout",
        peak: 7.0,
        row_bytes: 60,
        keys: 600_000,
        ..WRITE
    },
    Statement {
        cql: "INSERT INTO orders.order_events (order_id, at, status, actor) VALUES (?, ?, ?, ?)",
        from: "checkout",
        peak: 11.0,
        row_bytes: 110,
        keys: 600_000,
        ..WRITE
    },
    Statement {
        cql: "SELECT at, status, actor FROM orders.order_events WHERE order_id = ?",
        from: "checkout",
        peak: 6.0,
        rows: (4, 11),
        row_bytes: 60,
        keys: 300_000,
        ..READ
    },
    Statement {
        cql: "SELECT order_id, customer_id, total, status FROM orders.orders_by_id WHERE order_id = ?",
        from: BACKOFFICE,
        peak: 8.0,
        rhythm: Rhythm::Offices,
        latency_us: (1_500, 7_400),
        row_bytes: 120,
        keys: 90_000,
        more: |pattern, times| {
            pattern.prepared -= times;
            pattern.unprepared += times;
        },
        ..READ
    },
    Statement {
        cql: "SELECT order_id, customer_id, placed_at, total FROM orders.orders_by_id WHERE status = ? AND placed_at < ? \
              ALLOW FILTERING",
        from: BACKOFFICE,
        peak: 0.8,
        rhythm: Rhythm::Offices,
        latency_us: (640_000, 4_700_000),
        rows: (180, 1_400),
        row_bytes: 70,
        keys: 0,
        seen: Seen::SinceDeployment,
        more: |pattern, times| {
            let failed = times * 4 / 100;
            pattern.errors += failed;
            *pattern.error_codes.entry(READ_TIMEOUT).or_default() += failed;
            *pattern
                .repeats
                .retries
                .entry(RetryCause::ReadTimeout)
                .or_default() += failed;
        },
        ..READ
    },
    Statement {
        cql: "SELECT received_at, return_id, order_id, reason FROM orders.returns_by_warehouse WHERE warehouse_id = ? LIMIT 50",
        from: BACKOFFICE,
        peak: 0.6,
        rhythm: Rhythm::Offices,
        latency_us: (2_400, 14_000),
        rows: (50, 50),
        row_bytes: 90,
        keys: 9,
        ..READ
    },
    Statement {
        cql: INSERT_RETURN,
        from: BACKOFFICE,
        peak: 0.5,
        rhythm: Rhythm::Offices,
        row_bytes: 260,
        keys: 9,
        ..WRITE
    },
    Statement {
        cql: "SELECT due_at, notification_id, user_id, channel, payload FROM notifications.outbox WHERE shard = ? LIMIT 50",
        from: "notifier",
        peak: 48.0,
        rhythm: Rhythm::Always,
        latency_us: (4_200, 72_000),
        rows: (3, 50),
        row_bytes: 640,
        keys: 16,
        more: |pattern, times| {
            let warned = times * 4 / 100;
            pattern.warnings += warned;
            pattern.tombstones.warned += warned;
            pattern.tombstones.scanned.merge(&spread((2_900, 19_000), warned));
            pattern.tombstones.live_rows.merge(&spread((3, 50), warned));
        },
        ..READ
    },
    Statement {
        cql: "INSERT INTO notifications.outbox (shard, due_at, notification_id, user_id, channel, payload) \
              VALUES (?, ?, ?, ?, ?, ?)",
        from: "notifier",
        peak: 21.0,
        row_bytes: 760,
        keys: 16,
        ..WRITE
    },
    Statement {
        cql: "DELETE FROM notifications.outbox WHERE shard = ? AND due_at = ? AND notification_id = ?",
        from: "notifier",
        peak: 21.0,
        row_bytes: 70,
        keys: 16,
        ..WRITE
    },
    Statement {
        cql: "SELECT sent_at, notification_id, title FROM notifications.inbox_by_month WHERE user_id = ? AND month = ? LIMIT 20",
        from: "storefront",
        peak: 34.0,
        rows: (6, 20),
        row_bytes: 130,
        keys: 280_000,
        ..READ
    },
    Statement {
        cql: "INSERT INTO notifications.inbox_by_month (user_id, month, sent_at, notification_id, title, body) \
              VALUES (?, ?, ?, ?, ?, ?)",
        from: "notifier",
        peak: 21.0,
        row_bytes: 540,
        keys: 280_000,
        ..WRITE
    },
    // What was found at the last review, and repaired.
    Statement {
        cql: "SELECT cart_id, added_at FROM carts.cart_items WHERE product_id = ? ALLOW FILTERING",
        from: "checkout",
        peak: 0.6,
        latency_us: (210_000, 1_300_000),
        rows: (9, 80),
        row_bytes: 32,
        keys: 0,
        seen: Seen::Before,
        ..READ
    },
];

/// From which the next one's keys come.
pub(crate) const NEWEST_ORDERS: &str = "SELECT placed_at, order_id FROM orders.orders_by_customer WHERE customer_id = ? ORDER BY placed_at DESC LIMIT 20";
pub(crate) const ORDER_BY_ID: &str =
    "SELECT order_id, placed_at, status, total, currency FROM orders.orders_by_id WHERE order_id = ?";
pub(crate) const INSERT_RETURN: &str = "INSERT INTO orders.returns_by_warehouse (warehouse_id, received_at, return_id, order_id, product_id, \
     reason, note) VALUES (?, ?, ?, ?, ?, ?, ?)";

/// The code of the protocol.
const READ_TIMEOUT: u32 = 0x1200;
