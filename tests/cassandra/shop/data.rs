//! The tables and rows of an application whose operations are known: of `python/mixed.py` and `go/mixed`.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use cqlens_client::{Client, ClientOptions, Run, RunOptions};
use jiff::{ToSpan, civil::date};

/// As in the programs.
const GROUPS: u64 = 60;
const EMAILS: u64 = 300;
const WORDS: u64 = 60;
const NAMES: u64 = 40;
const BUCKETS: u64 = 6;
const ITEMS: u64 = 200;
const LISTS: u64 = 40;
const TOPICS: u64 = 50;
const ARTICLES: u64 = 300;
const USERS: u64 = 10;
const OFFERS: u64 = 400;
const CATEGORIES: u64 = 32;
const DATES: i64 = 60;
/// Up to the programs' day; a reader of ten rows goes four days back.
const DAYS: u64 = 16;
const ROWS_OF_A_DAY: u64 = 3;

/// Where numbers of things begin: those of a table are in no other, but for what is read by them.
const ACCOUNT: u64 = 1_000_000;
const DOCUMENT: u64 = 3_000_000;
const PART: u64 = 5_000_000;
const ARTICLE: u64 = 7_000_000;
const ITEM: u64 = 9_000_000;

/// A list, and what its rows lead to: table, key column, its type and first letters, column; table, column.
const JOINS: [[&str; 7]; 4] = [
    [
        "members",
        "groupname",
        "text",
        "group-",
        "user_id",
        "users",
        "name",
    ],
    ["teams", "name", "text", "team-", "player", "players", "name"],
    ["baskets", "id", "bigint", "", "product", "products", "title"],
    ["playlists", "name", "text", "list-", "song", "songs", "title"],
];

const OTHERS: &str = "
    CREATE TABLE k.emails (email text PRIMARY KEY, id bigint);
    CREATE TABLE k.accounts (id bigint PRIMARY KEY, name text);
    CREATE TABLE k.words (word text, document bigint, PRIMARY KEY (word, document));
    CREATE TABLE k.documents (id bigint, part bigint, PRIMARY KEY (id, part));
    CREATE TABLE k.parts (id bigint PRIMARY KEY, text text);
    CREATE TABLE k.bucketed (name text, bucket int, at bigint, PRIMARY KEY ((name, bucket), at));
    CREATE TABLE k.daily (name text, day date, at bigint, PRIMARY KEY ((name, day), at));
    CREATE TABLE k.daily_text (name text, day text, at bigint, PRIMARY KEY ((name, day), at));
    CREATE TABLE k.by_phone (phone text PRIMARY KEY, id bigint, name text, town text);
    CREATE TABLE k.by_name (name text PRIMARY KEY, id bigint, phone text, town text);
    CREATE TABLE k.items (id bigint PRIMARY KEY, title text);
    CREATE TABLE k.likes (item bigint, who bigint, name text, PRIMARY KEY (item, who));
    CREATE TABLE k.lists (name text, item bigint, PRIMARY KEY (name, item));
    CREATE TABLE k.stock (item bigint PRIMARY KEY, pieces bigint, place text);
    CREATE TABLE k.news (topic text, item bigint, state text, PRIMARY KEY (topic, item));
    CREATE TABLE k.articles (id bigint PRIMARY KEY, title text);
    CREATE TABLE k.by_state (state text, item bigint, PRIMARY KEY (state, item));
    CREATE TABLE k.offers (id bigint PRIMARY KEY, category int, added date, sold boolean);
    CREATE TABLE k.by_category (category int, id bigint, PRIMARY KEY (category, id));
    CREATE TABLE k.by_date (added date, id bigint, PRIMARY KEY (added, id));
    CREATE TABLE k.by_sale (sold boolean, id bigint, PRIMARY KEY (sold, id));
    CREATE TABLE k.history (who bigint, item bigint, PRIMARY KEY (who, item));
    CREATE TABLE k.saved (who bigint, id bigint, item text, PRIMARY KEY (who, id));
    CREATE TABLE k.orders_by_user (who bigint, id bigint, item text, PRIMARY KEY (who, id));
    CREATE TABLE k.orders_by_day (day date, id bigint, who bigint, item text, PRIMARY KEY (day, id));
    CREATE TABLE k.carts (who bigint, item bigint, title text, PRIMARY KEY (who, item));";

/// Statements that are in flight at the same time.
const AT_ONCE: usize = 64;

/// Makes an application's keyspace on a node, with all its rows: there, and not through a proxy.
pub(crate) async fn fill(node: SocketAddr, keyspace: &str) {
    let mut client = connect(node).await;
    client.script(&schema(keyspace)).await.unwrap();
    for rows in rows(keyspace).chunks(AT_ONCE) {
        let inserts: Vec<Run<'_>> = rows.iter().map(|cql| Run::Text(cql, &[])).collect();
        for answer in client.run_all(&inserts, &RunOptions::default()).await.unwrap() {
            answer.unwrap();
        }
    }
}

pub(crate) async fn connect(node: SocketAddr) -> Client {
    let options = ClientOptions {
        timeout: Duration::from_secs(300),
        ..ClientOptions::default()
    };
    Client::connect(node, &options).await.unwrap()
}

fn schema(keyspace: &str) -> String {
    let mut schema = format!(
        "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};"
    );
    for [list, key, key_type, _, column, table, value] in JOINS {
        let (first, second) = (
            format!("{list} ({key} {key_type}, {column} bigint, PRIMARY KEY ({key}, {column}))"),
            format!("{table} (id bigint PRIMARY KEY, {value} text)"),
        );
        write!(schema, "CREATE TABLE k.{first}; CREATE TABLE k.{second};").unwrap();
    }
    (schema + OTHERS).replace(" k.", &format!(" {keyspace}."))
}

/// An INSERT for each row.
fn rows(keyspace: &str) -> Vec<String> {
    let joined = (0..).step_by(20_000).zip(&JOINS).flat_map(joined).collect();
    let all: [Vec<String>; 4] = [joined, looked_up(), in_buckets(), innocent()];
    let insert = |row: &String| format!("INSERT INTO {keyspace}.{row}");
    all.concat().iter().map(insert).collect()
}

/// Eight to sixteen in each list, some of them in two.
fn joined((first, join): (u64, &[&str; 7])) -> Vec<String> {
    let [list, key, key_type, letters, column, table, value] = join;
    let mut rows = Vec::new();
    for group in 0..GROUPS {
        let name = match *key_type {
            "text" => format!("'{letters}{group}'"),
            _ => group.to_string(),
        };
        for member in 0..8 + group * 5 % 9 {
            let id = first + (group * 331 + member * 1_237) % 20_000;
            rows.push(format!("{list} ({key}, {column}) VALUES ({name}, {id})"));
            rows.push(format!("{table} (id, {value}) VALUES ({id}, '{value} {id}')"));
        }
    }
    rows
}

fn looked_up() -> Vec<String> {
    let mut rows = Vec::new();
    for id in 0..EMAILS {
        let account = ACCOUNT + id;
        rows.push(format!(
            "emails (email, id) VALUES ('{id}@example.org', {account})"
        ));
        rows.push(format!("accounts (id, name) VALUES ({account}, 'account {id}')"));
    }
    for word in 0..WORDS {
        let document = DOCUMENT + word * 7;
        rows.push(format!(
            "words (word, document) VALUES ('word-{word}', {document})"
        ));
        for part in 0..7 + word % 7 {
            let part = PART + word * 100 + part;
            rows.push(format!("documents (id, part) VALUES ({document}, {part})"));
            rows.push(format!("parts (id, text) VALUES ({part}, 'text of {part}')"));
        }
    }
    rows
}

fn in_buckets() -> Vec<String> {
    let mut rows = Vec::new();
    for name in 0..NAMES {
        for bucket in 0..BUCKETS {
            for at in 0..3 {
                rows.push(format!(
                    "bucketed (name, bucket, at) VALUES ('name-{name}', {bucket}, {at})"
                ));
            }
        }
        for day in 1..=DAYS {
            for at in 0..ROWS_OF_A_DAY {
                for table in ["daily", "daily_text"] {
                    rows.push(format!(
                        "{table} (name, day, at) VALUES ('name-{name}', '2026-02-{day:02}', {at})"
                    ));
                }
            }
        }
    }
    rows
}

fn innocent() -> Vec<String> {
    let mut rows = Vec::new();
    for id in 0..ITEMS {
        rows.push(format!("items (id, title) VALUES ({id}, 'item {id}')"));
        for like in 0..12 {
            // Some of them are numbers of items.
            let who = id * 31 % ITEMS + like;
            rows.push(format!("likes (item, who, name) VALUES ({id}, {who}, 'anna')"));
        }
    }
    for item in 0..LISTS * 20 {
        let (list, item) = (item / 20, ITEM + item);
        rows.push(format!("lists (name, item) VALUES ('list-{list}', {item})"));
        rows.push(format!("stock (item, pieces, place) VALUES ({item}, 3, 'shelf')"));
    }
    let states = ["open", "done", "late"];
    for article in 0..ARTICLES {
        let id = ARTICLE + article;
        rows.push(format!("articles (id, title) VALUES ({id}, 'title {article}')"));
    }
    for (number, state) in (0..).zip(states) {
        rows.extend(
            (1..4).map(|item| format!("by_state (state, item) VALUES ('{state}', {})", number * 3 + item)),
        );
    }
    for topic in 0..TOPICS {
        // The popular ones are in all topics, the others in some.
        let articles = (0..8).chain((0..7).map(|at| (topic * 37 + at * 41) % ARTICLES));
        for article in articles {
            let (id, state) = (ARTICLE + article, states[usize::try_from(article % 3).unwrap()]);
            rows.push(format!(
                "news (topic, item, state) VALUES ('topic-{topic}', {id}, '{state}')"
            ));
        }
    }
    rows.extend(offered());
    for who in 0..USERS {
        rows.extend((0..120).map(|item| format!("history (who, item) VALUES ({who}, {})", ITEM + item)));
    }
    rows
}

/// Offers, and one of each category, day and state: of these there are few.
fn offered() -> Vec<String> {
    let today = date(2026, 2, 16);
    let day = |back: i64| today.checked_sub(back.days()).unwrap();
    let mut rows = Vec::new();
    for (id, back) in (0..OFFERS).zip((0..DATES).cycle()) {
        let (category, added, sold) = (id * 7 % CATEGORIES, day(back), id % 3 > 0);
        rows.push(format!(
            "offers (id, category, added, sold) VALUES ({id}, {category}, '{added}', {sold})"
        ));
    }
    let id = OFFERS + 1;
    rows.extend(
        (0..CATEGORIES).map(|category| format!("by_category (category, id) VALUES ({category}, {id})")),
    );
    rows.extend((0..DATES).map(|back| format!("by_date (added, id) VALUES ('{}', {id})", day(back))));
    rows.extend([true, false].map(|sold| format!("by_sale (sold, id) VALUES ({sold}, {id})")));
    rows
}
