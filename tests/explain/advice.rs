//! Advice that can be followed: suggestions of one run know each other.

use crate::explain::Folder;

const TABLES: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
    CREATE TABLE shop.acct (id uuid PRIMARY KEY, country text, name text, created timestamp, tags set<text>);";

fn explained(script: &str) -> String {
    let folder = Folder::new().with("s.cql", TABLES);
    folder
        .explain(&["--quiet", "--schema", "s.cql"], script.as_bytes())
        .out
}

/// The first words of each CREATE TABLE that is suggested.
fn suggested(out: &str) -> Vec<&str> {
    let lines = out.lines().filter_map(|line| line.split_once("CREATE TABLE "));
    lines.filter_map(|(_, rest)| rest.split(' ').next()).collect()
}

#[test]
fn two_keys_never_get_one_name() {
    let out = explained(
        "SELECT id FROM acct WHERE country = ? ALLOW FILTERING;\n\
         SELECT id FROM acct WHERE country = ? AND name > ? ALLOW FILTERING;\n\
         SELECT name FROM acct WHERE country = ? ALLOW FILTERING;",
    );
    let names = suggested(&out);
    assert_eq!(names.len(), 3, "{out}");
    assert_ne!(names[0], names[1], "{out}");
    assert_eq!(names[0], names[2], "one key, one table: {out}");
}

#[test]
fn a_range_and_contains_get_advice_of_their_own() {
    let range = explained("SELECT * FROM acct WHERE created > ? ALLOW FILTERING;");
    assert!(range.contains("A partition key has no ranges"), "{range}");
    assert!(
        !range.contains("whose partition key is the restricted column"),
        "{range}"
    );
    let element = explained("SELECT * FROM acct WHERE tags CONTAINS ? ALLOW FILTERING;");
    assert!(element.contains("a row for each element"), "{element}");
    let value = explained("SELECT * FROM acct WHERE name = ? ALLOW FILTERING;");
    assert!(
        value.contains("whose partition key is the restricted column"),
        "{value}"
    );
}

#[test]
fn a_clustering_column_is_not_to_become_one() {
    let of = |column: &str| {
        explained(&format!(
            "CREATE TABLE shop.ev (k text, a int, b int, v int, PRIMARY KEY (k, a, b));\n\
             SELECT v FROM shop.ev WHERE k = ? AND {column} = ? ALLOW FILTERING;"
        ))
    };
    assert!(of("v").contains("make the filtered column a clustering column"));
    let in_key = of("b");
    assert!(
        in_key.contains("the one before it is not") && !in_key.contains("make the filtered"),
        "{in_key}"
    );
}

#[test]
fn the_fixes_of_one_keyspace_are_one() {
    let out = Folder::new()
        .explain(
            &["--quiet"],
            b"CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};\n\
              CREATE KEYSPACE b WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1};",
        )
        .out;
    let fixes: Vec<_> = out
        .lines()
        .filter(|line| line.contains("ALTER KEYSPACE"))
        .map(str::trim)
        .collect();
    assert_eq!(fixes.len(), 4, "{out}");
    let of = |name: &str| {
        fixes
            .iter()
            .filter(|fix| fix.contains(&format!("KEYSPACE {name} ")))
            .collect::<Vec<_>>()
    };
    for (name, replication) in [
        (
            "a",
            "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}",
        ),
        ("b", "{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 3}"),
    ] {
        assert_eq!(of(name).len(), 2, "{out}");
        assert!(of(name).iter().all(|fix| fix.contains(replication)), "{out}");
    }
}

#[test]
fn expired_rows_do_not_stay_for_ten_days() {
    let set = |options: &str| {
        let table =
            format!("CREATE TABLE shop.t (k int PRIMARY KEY, v int) WITH gc_grace_seconds = 0{options};");
        explained(&table)
    };
    let expiring = set(" AND default_time_to_live = 3600");
    assert!(expiring.contains("gc_grace_seconds = 10800;"), "{expiring}");
    let other = set("");
    assert!(other.contains("gc_grace_seconds = 864000;"), "{other}");
}

#[test]
fn what_is_prepended_is_not_called_appended() {
    let of = |assignment: &str| {
        explained(&format!(
            "CREATE TABLE shop.notes (id int PRIMARY KEY, lines list<text>);\nUPDATE shop.notes SET {assignment} WHERE id = ?;"
        ))
    };
    assert!(of("lines = [?] + lines").contains("prepend to the list"));
    assert!(of("lines = lines + [?]").contains("append to the list"));
}
