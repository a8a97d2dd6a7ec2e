//! Schemas as people have them: with what cqlsh writes before them, with statements of other servers; and where findings on
//! definitions are shown.

use crate::explain::{Ended, Folder, inputs::drawn};

/// What `cqlsh -e 'DESCRIBE SCHEMA'` writes before the schema if it is not of the server's version.
const WARNING: &str =
    "WARNING: cqlsh was built against 5.0.0, but this server is 5.0.6.  All features may not work!\n\n";
const KEYSPACE: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};\n";

fn with_schema(schema: &str, script: &str) -> Ended {
    let folder = Folder::new().with("s.cql", schema);
    folder.explain(
        &["--quiet", "--fail-on", "info", "--schema", "s.cql"],
        script.as_bytes(),
    )
}

fn script(text: &str) -> Ended {
    Folder::new().explain(&["--quiet", "--fail-on", "info"], text.as_bytes())
}

#[test]
fn the_warning_of_cqlsh_before_a_schema_is_skipped() {
    let schema = format!("{WARNING}{KEYSPACE}CREATE TABLE shop.t (k int PRIMARY KEY, v int);\n");
    let read = "SELECT v FROM t WHERE k = 1;";
    let ended = with_schema(&schema, read);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{}", ended.out);
    let as_input = script(&format!("{schema}{read}"));
    assert_eq!(as_input.code, Some(0), "{}{}", as_input.out, as_input.err);
}

#[test]
fn a_statement_of_a_schema_that_is_not_understood_is_left_out_with_its_place() {
    let schema = format!(
        "{KEYSPACE}CREATE ROLE admin WITH SALTED HASH = 'x' AND LOGIN = true;\n\
         CREATE TABLE shop.pets (id uuid PRIMARY KEY, owner text, race text);\n\
         CREATE INDEX by_owner ON shop.pets\n    (owner) STORED AS x;\nCREATE TABLE shop.kv (k int PRIMARY KEY, v int);\n"
    );
    let ended = with_schema(
        &schema,
        "SELECT v FROM kv WHERE k = 1; SELECT owner FROM pets WHERE id = ?;",
    );
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    for place in [
        "s.cql:2:24: unexpected token, expected ",
        "s.cql:5:13: unexpected token, expected ",
    ] {
        assert!(ended.err.contains(place), "{}", ended.err);
    }
    assert!(ended.err.contains("; the statement is left out"), "{}", ended.err);
    // The index may serve it.
    let by_index = with_schema(&schema, "SELECT id FROM pets WHERE id = ? AND owner = ?;");
    assert_eq!(drawn(&by_index.out), Vec::<String>::new(), "{}", by_index.out);
    let why = "1 of 1 statement could not be judged: definitions of their tables are not understood";
    assert!(by_index.err.contains(why), "{}", by_index.err);
    assert_eq!(by_index.code, Some(2));
    // What is wrong beside it still is.
    let wrong = with_schema(&schema, "SELECT w FROM kv WHERE k = 1;");
    assert_eq!(drawn(&wrong.out), ["<stdin>:1:8 prepare"], "{}", wrong.out);
}

#[test]
fn a_schema_of_which_nothing_is_understood_is_an_error_with_places() {
    let ended = with_schema("-- no CQL\n  CREATE TABEL shop.t (k int);", "");
    assert_eq!(ended.code, Some(2));
    let error = "nothing in the schema file s.cql is understood: s.cql:2:10: unexpected token";
    assert!(ended.err.contains(error), "{}", ended.err);
}

#[test]
fn tables_whose_keyspace_a_schema_does_not_create_are_known_all_the_same() {
    let tables = "CREATE TABLE shop.t (k int PRIMARY KEY, v int);\nCREATE TABLE u (k int PRIMARY KEY);";
    let ended = with_schema(
        tables,
        "SELECT v FROM t WHERE k = 1; SELECT k FROM shop.u WHERE k = 1; SELECT w FROM t WHERE k = 1",
    );
    assert_eq!(
        drawn(&ended.out),
        ["<stdin>:1:71 prepare"],
        "{}{}",
        ended.out,
        ended.err
    );
}

#[test]
fn what_a_refused_definition_would_have_defined_is_not_judged() {
    for definition in [
        "CREATE TABLE t (id uuid PRIMARY KEY, v text NUT NULL);",
        "CREATE TYPE a (x int NUT NULL); CREATE TABLE t (id uuid PRIMARY KEY, v frozen<a>);",
        "CREATE TABLE t (id uuid PRIMARY KEY, v text) WITH x = {;",
    ] {
        let ended = script(&format!(
            "{KEYSPACE}USE shop;\n{definition}\nSELECT v FROM t WHERE id = ?;\nDROP TABLE t;"
        ));
        let errors = drawn(&ended.out);
        assert_eq!(errors.len(), 1, "one fault, one error: {}", ended.out);
        assert!(
            errors[0].starts_with("<stdin>:3:") && errors[0].ends_with(" parse"),
            "{errors:?}"
        );
    }
    let altered = script(&format!(
        "{KEYSPACE}USE shop; CREATE TABLE t (id uuid PRIMARY KEY);\nALTER TABLE t ADDD w int;\nSELECT w FROM t WHERE id = ?;\n\
         SELECT id FROM t WHERE id = ?;"
    ));
    assert_eq!(drawn(&altered.out), ["<stdin>:3:15 parse"], "{}", altered.out);
    assert!(altered.out.contains("1 error; 1 not judged"), "{}", altered.out);
}

#[test]
fn values_of_a_type_that_is_defined_elsewhere_are_not_judged() {
    let text = "CREATE TABLE shop.t (k int PRIMARY KEY, v frozen<address>, w int);\n\
                INSERT INTO shop.t (k, v) VALUES (1, {street: 'a'});\nSELECT w FROM shop.t WHERE k = 1;";
    let elsewhere = script(text);
    assert_eq!(drawn(&elsewhere.out), Vec::<String>::new(), "{}", elsewhere.out);
    assert!(elsewhere.out.contains("1 not judged"), "{}", elsewhere.out);
    let here = script(&format!("CREATE TYPE shop.address (street int);\n{text}"));
    assert_eq!(drawn(&here.out), ["<stdin>:3:47 prepare"], "{}", here.out);
}

#[test]
fn what_is_defined_again_is_judged_again() {
    let ended = script(&format!(
        "{KEYSPACE}USE shop;\nCREATE TABLE t (id uuid PRIMARY KEY, v text NUT NULL);\n\
         CREATE TABLE t (id uuid PRIMARY KEY, v text);\nSELECT w FROM t WHERE id = ?;"
    ));
    assert_eq!(
        drawn(&ended.out),
        ["<stdin>:3:45 parse", "<stdin>:5:8 prepare"],
        "{}",
        ended.out
    );
    let unknown_keyspace = script(
        "CREATE KEYSPACE shop WITH replication {'class': 'SimpleStrategy'};\nCREATE TABLE shop.t (k int PRIMARY KEY);\n\
         SELECT k FROM shop.t WHERE k = 1; SELECT k FROM shop.elsewhere WHERE k = 1;",
    );
    assert_eq!(
        drawn(&unknown_keyspace.out),
        ["<stdin>:1:39 parse"],
        "{}",
        unknown_keyspace.out
    );
}

#[test]
fn a_finding_on_a_definition_stands_on_the_line_that_caused_it() {
    let places = |text: &str| {
        let mut places = drawn(&script(&format!("{KEYSPACE}USE shop;\n{text}")).out);
        places.sort();
        places
    };
    let indexes = "CREATE TABLE t (k int PRIMARY KEY, v text, w text);\n\
                   CREATE CUSTOM INDEX ON t (v) USING 'org.apache.cassandra.index.sasi.SASIIndex';\n\
                   CREATE CUSTOM INDEX w_idx ON t (w) USING 'org.apache.cassandra.index.sasi.SASIIndex';\n\
                   ALTER TABLE t ADD x int;";
    assert_eq!(
        places(indexes),
        ["<stdin>:4:1 sasi-index", "<stdin>:5:1 sasi-index"]
    );
    let options = "CREATE TABLE t (f boolean, id int, v int, PRIMARY KEY (f, id));\n\
                   ALTER TABLE t WITH gc_grace_seconds = 0;\n\
                   CREATE INDEX ON t (v);\nALTER TABLE t WITH comment = 'x';";
    assert_eq!(
        places(options),
        ["<stdin>:3:1 few-partitions", "<stdin>:4:1 gc-grace-zero"]
    );
    let views = "CREATE TABLE t (k int PRIMARY KEY, v int);\n\
                 CREATE MATERIALIZED VIEW t_by_v AS SELECT * FROM t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k);\n\
                 ALTER TABLE t WITH comment = 'x';";
    assert_eq!(places(views), ["<stdin>:4:1 materialized-view-write"]);
}
