//! What a file can show: what a statement costs each time it runs, and nothing of the traffic that it is a part of.

use crate::explain::Folder;

const TABLES: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
    CREATE TABLE shop.users (name text PRIMARY KEY, mail text);
    CREATE TABLE shop.acct (id uuid PRIMARY KEY, mail text, name text, created timestamp);
    CREATE INDEX acct_mail ON shop.acct (mail);
    CREATE TABLE shop.msgs (thread text, id int, body text, PRIMARY KEY (thread, id)) WITH CLUSTERING ORDER BY (id DESC);
    CREATE TABLE shop.hits (page int PRIMARY KEY, n counter);
    CREATE TABLE shop.locks (name text PRIMARY KEY, owner text);
    CREATE TABLE shop.notes (id int PRIMARY KEY, lines list<text>);
    CREATE TABLE shop.spans (id int, day date, v int, PRIMARY KEY ((id, day), v))
        WITH default_time_to_live = 3600 AND compaction = {'class': 'TimeWindowCompactionStrategy',
        'compaction_window_unit': 'MINUTES', 'compaction_window_size': 2};";

/// The findings and errors of a script: `medium[full-scan]: …`.
fn found(script: &str) -> Vec<String> {
    let folder = Folder::new().with("s.cql", TABLES);
    let ended = folder.explain(&["--quiet", "--schema", "s.cql"], script.as_bytes());
    let lines = ended
        .out
        .lines()
        .filter(|line| line.contains("]: ") && !line.starts_with(' '));
    lines.map(ToOwned::to_owned).collect()
}

/// The severities and rules: `medium full-scan`.
fn rules(script: &str) -> Vec<String> {
    let names = found(script).into_iter().filter_map(|line| {
        let (severity, rest) = line.split_once('[')?;
        Some(format!("{severity} {}", rest.split_once(']')?.0))
    });
    names.collect()
}

#[test]
fn a_condition_is_info_and_says_nothing_of_other_writes() {
    let script = "INSERT INTO users (name, mail) VALUES (?, ?) IF NOT EXISTS;\nUPDATE users SET mail = ? WHERE name = ?;";
    let of_conditions = |line: &String| line.contains("[lwt-heavy]");
    assert_eq!(
        found(script)
            .into_iter()
            .filter(of_conditions)
            .collect::<Vec<_>>(),
        ["info[lwt-heavy]: Each execution of this write to `shop.users` is a lightweight transaction"]
    );
    let without_schema = Folder::new().explain(&["--quiet"], script.as_bytes());
    assert!(
        without_schema.out.contains("info[lwt-heavy]"),
        "{}",
        without_schema.out
    );
    for share in ["%", "bserved"] {
        assert!(!without_schema.out.contains(share), "{}", without_schema.out);
    }
}

#[test]
fn a_ttl_and_a_read_against_the_order_are_those_of_one_statement() {
    let ttl = |value: &str| {
        found(&format!(
            "INSERT INTO spans (id, day, v) VALUES (?, ?, ?) USING TTL {value};"
        ))
    };
    let title = "info[time-window-misuse]: This write to `shop.spans` sets its own TTL, not the table's of 1 h: \
                 a time window is dropped only after the longest TTL";
    assert_eq!(ttl("?"), [title]);
    assert_eq!(ttl("60"), [title]);
    assert_eq!(ttl("3600"), [""; 0], "the same");
    let folder = Folder::new().with("s.cql", TABLES);
    let read = "SELECT body FROM msgs WHERE thread = ? ORDER BY id ASC;\nSELECT body FROM msgs WHERE thread = ? LIMIT 10;";
    let ended = folder.explain(&["--quiet", "--schema", "s.cql"], read.as_bytes());
    assert!(ended.out.contains("info[reversed-read]"), "{}", ended.out);
    for claim in ["observed", "DROP TABLE", "%"] {
        assert!(!ended.out.contains(claim), "{claim}: {}", ended.out);
    }
}

#[test]
fn a_small_limit_ends_a_scan() {
    assert_eq!(rules("SELECT id FROM acct LIMIT 1;"), [""; 0]);
    assert_eq!(rules("SELECT DISTINCT id FROM acct LIMIT 100;"), [""; 0]);
    assert_eq!(rules("SELECT id FROM acct LIMIT 101;"), ["medium full-scan"]);
    assert_eq!(rules("SELECT id FROM acct LIMIT ?;"), ["medium full-scan"]);
    assert_eq!(
        rules("SELECT id FROM acct PER PARTITION LIMIT 1;"),
        ["medium full-scan"]
    );
}

#[test]
fn what_is_filtered_behind_an_index_is_not_less_than_the_index() {
    assert_eq!(
        rules("SELECT id FROM acct WHERE mail = ?;"),
        ["medium secondary-index-read"]
    );
    assert_eq!(
        rules("SELECT id FROM acct WHERE mail = ? AND name = ? ALLOW FILTERING;"),
        ["medium allow-filtering"]
    );
}

#[test]
fn a_list_has_as_many_keys_as_markers() {
    let list = |item: &str, count: usize| vec![item; count].join(", ");
    let title = found(&format!(
        "SELECT mail FROM users WHERE name IN ({});",
        list("?", 30)
    ));
    assert_eq!(
        title,
        ["high[in-partition-key]: Reads of `shop.users` fetch up to 30 partitions at once"]
    );
    assert_eq!(
        rules(&format!(
            "SELECT mail FROM users WHERE name IN ({});",
            list("?", 2)
        )),
        ["info in-partition-key"]
    );
    assert_eq!(
        found("SELECT mail FROM users WHERE name IN ?;"),
        ["info[in-partition-key]: Reads of `shop.users` fetch an unknown number of partitions at once"]
    );
}

#[test]
fn a_write_with_a_long_list_of_keys_is_found() {
    let keys: Vec<_> = (0..21).map(|key| key.to_string()).collect();
    let keys = keys.join(", ");
    let update = found(&format!("UPDATE hits SET n = n + 1 WHERE page IN ({keys});"));
    assert_eq!(
        update,
        ["high[in-partition-key]: Writes to `shop.hits` change 21 partitions at once"]
    );
    let delete = rules(&format!("DELETE FROM notes WHERE id IN ({keys});"));
    assert_eq!(delete, ["high in-partition-key"]);
    assert_eq!(rules("DELETE FROM notes WHERE id = ?;"), [""; 0]);
    assert_eq!(
        rules("UPDATE notes SET lines = ? WHERE id = ?;"),
        ["low collection-overwrite"]
    );
}

#[test]
fn nulls_in_a_text_are_found_and_unset_columns_are_not() {
    assert_eq!(
        found("INSERT INTO acct (id, mail, name) VALUES (?, ?, null);"),
        ["low[null-insert]: Each execution of this INSERT into `shop.acct` writes 1 null, which is a delete"]
    );
    let json = "INSERT INTO acct JSON '{\"id\": \"123e4567-e89b-12d3-a456-426655440000\"}'";
    assert_eq!(
        found(json),
        [
            "low[null-insert]: Each execution of this INSERT into `shop.acct` writes 3 nulls, which are deletes"
        ]
    );
    assert_eq!(rules(&format!("{json} DEFAULT UNSET")), [""; 0]);
    assert_eq!(rules("INSERT INTO acct (id, mail) VALUES (?, ?);"), [""; 0]);
    assert_eq!(
        rules("UPDATE acct SET name = null WHERE id = ?;"),
        [""; 0],
        "that is how to delete"
    );
}

#[test]
fn a_timestamp_in_another_unit_is_found() {
    let milliseconds = "UPDATE users USING TIMESTAMP 1700000000000 SET mail = ? WHERE name = ?;";
    assert_eq!(
        found(milliseconds),
        ["medium[future-timestamp]: The timestamp of this write to `shop.users` is not in microseconds"]
    );
    for fine in ["1700000000000000", "?"] {
        let script = format!("INSERT INTO users (name, mail) VALUES (?, ?) USING TIMESTAMP {fine};");
        assert_eq!(rules(&script), [""; 0]);
    }
    assert_eq!(
        rules("BEGIN BATCH USING TIMESTAMP 1700000000 DELETE FROM users WHERE name = ?; APPLY BATCH;"),
        ["medium future-timestamp"]
    );
}

#[test]
fn the_table_of_a_migration_tool_is_left_alone() {
    let table = "CREATE TABLE schema_migration (applied_successful boolean, version int, script text,\n\
                 PRIMARY KEY (applied_successful, version));";
    assert_eq!(rules(table), [""; 0]);
    assert_eq!(
        rules(&table.replace("schema_migration", "tasks")),
        ["medium few-partitions"]
    );
}

#[test]
fn deletes_of_counters_are_found_in_a_file() {
    assert_eq!(rules("DELETE FROM hits WHERE page = 1;"), ["low counter-delete"]);
}

#[test]
fn statements_of_a_run_are_compared() {
    let script =
        "INSERT INTO locks (name, owner) VALUES (?, ?) IF NOT EXISTS;\nDELETE FROM locks WHERE name = ?;";
    let title =
        "low[mixed-conditional-writes]: The same columns of `shop.locks` are written with IF and without";
    assert!(
        found(script).iter().any(|line| line == title),
        "{:?}",
        found(script)
    );
    let one_decision = "BEGIN BATCH UPDATE locks SET owner = ? WHERE name = 'a' IF owner = ?;
                        UPDATE locks SET owner = ? WHERE name = 'a'; APPLY BATCH;";
    assert_eq!(rules(one_decision), ["info lwt-heavy"]);
    let alike = "INSERT INTO locks (name, owner) VALUES (?, ?) IF NOT EXISTS;\nDELETE FROM locks WHERE name = ? IF EXISTS;";
    assert_eq!(rules(alike), ["info lwt-heavy", "info lwt-heavy"]);
}
