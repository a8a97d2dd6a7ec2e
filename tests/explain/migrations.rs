//! Folders as migration tools lay them out: each file is applied once, in the order of the tool, and nothing is taken back.
//! The table of `docs/migrations.md` names the tools.

use std::fs;
use std::path::PathBuf;

use crate::explain::{Ended, Folder};

const CREATE: &str = "CREATE TABLE t (k int PRIMARY KEY, v int);";
const ADD: &str = "ALTER TABLE t ADD w int;";
const REMOVE: &str = "ALTER TABLE t DROP w;";
const DROP: &str = "DROP TABLE t;";
/// Valid after CREATE and ADD only.
const BOTH: &str = "SELECT v, w FROM t WHERE k = 1;";

/// A tool as the table of the guide calls it, and the files of a project of it.
struct Layout {
    tool: &'static str,
    files: Vec<(&'static str, String)>,
}

fn layout<const N: usize>(tool: &'static str, files: [(&'static str, &str); N]) -> Layout {
    let files = files.into_iter();
    Layout {
        tool,
        files: files.map(|(name, text)| (name, text.to_owned())).collect(),
    }
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn layouts() -> Vec<Layout> {
    vec![
        layout(
            "Flyway",
            [
                ("V1__create_t.cql", CREATE),
                ("V1.2__add_w.cql", ADD),
                ("V1.10__read.cql", BOTH),
                ("U1.2__add_w.cql", REMOVE),
                ("R__read.cql", BOTH),
            ],
        ),
        layout(
            "golang-migrate",
            [
                ("000001_t.up.cql", CREATE),
                ("000001_t.down.cql", DROP),
                ("000002_w.up.cql", ADD),
                ("000002_w.down.cql", REMOVE),
                ("000010_read.up.cql", BOTH),
            ],
        ),
        layout(
            "cassandra-migration",
            [
                ("001_init.cql", CREATE),
                ("init/003_add_another_table.cql", BOTH),
                ("002_add_events_table.cql", ADD),
            ],
        ),
        layout(
            "cassandra-migrate",
            [
                ("v1_init.cql", CREATE),
                ("v2_add_w.cql", ADD),
                ("v10_read.cql", BOTH),
            ],
        ),
        layout(
            "cquill",
            [
                ("v001-create-t.cql", CREATE),
                ("V002-add-w.cql", ADD),
                ("v003-read.cql", BOTH),
            ],
        ),
        layout(
            "cqlmigrate",
            [
                ("bootstrap.cql", CREATE),
                ("2015-04-01-13:56-create-status-table.cql", ADD),
                ("2015-04-01-13:57-add-column-to-status-table.cql", BOTH),
            ],
        ),
        layout(
            "gocqlx migrate",
            [("m1.cql", CREATE), ("m2.cql", ADD), ("m3.cql", BOTH)],
        ),
        layout(
            "Temporal",
            [
                ("versioned/v1.0/schema.cql", CREATE),
                ("versioned/v1.2/queue.cql", ADD),
                ("versioned/v1.10/nexus_endpoints.cql", BOTH),
            ],
        ),
        layout(
            "Cadence",
            [
                ("versioned/s0.0-0.23/schema.cql", CREATE),
                ("versioned/v0.9/schema.cql", CREATE),
                ("versioned/v0.11/blob_headers.cql", ADD),
                ("versioned/v0.11/sync_activity.cql", BOTH),
            ],
        ),
        pillar(),
        layout(
            "cdeploy",
            [
                ("001_create_t.cql", &format!("{CREATE}\n\n--//@UNDO\n\n{DROP}\n")),
                ("002_add_w.cql", &format!("{ADD}\n--//@UNDO\n{REMOVE}\n")),
                ("003_read.cql", BOTH),
            ],
        ),
        layout(
            "MyBatis Migrations",
            [
                (
                    "20090802210249_create_t.cql",
                    &format!("-- // create t\n{CREATE}\n-- //@UNDO\n{DROP}\n"),
                ),
                (
                    "20090802210305_add_w.cql",
                    &format!("{ADD}\n-- // @UNDO\n{REMOVE}\n"),
                ),
                ("20090803000000_read.cql", BOTH),
            ],
        ),
        layout(
            "Liquibase",
            [
                (
                    "changelog/001-t.sql",
                    "--liquibase formatted sql\n\n--changeset me:1\nCREATE TABLE t (k int PRIMARY KEY, v int)\n\
                     --rollback DROP TABLE t;\n\n--changeset me:2 dbms:cassandra\nALTER TABLE t ADD w int;\n\
                     --rollback ALTER TABLE t DROP w;\n\n--changeset me:3 dbms:postgresql\nALTER TABLE t ADD COLUMN w int;\n",
                ),
                (
                    "changelog/002-read.sql",
                    &format!("-- liquibase formatted sql\n-- changeset me:4\n{BOTH}\n"),
                ),
            ],
        ),
        layout(
            "goose",
            [
                (
                    "00001_t.cql",
                    &format!("-- +goose Up\n{CREATE}\n{ADD}\n\n-- +goose Down\n{DROP}\n"),
                ),
                ("00002_read.cql", &format!("-- +goose Up\n{BOTH}\n")),
            ],
        ),
        layout(
            "sql-migrate",
            [
                (
                    "1_t.cql",
                    &format!("-- +migrate Up\n{CREATE}\n-- +migrate Down\n{DROP}\n"),
                ),
                (
                    "2_w.cql",
                    &format!("-- +migrate Up\n{ADD}\n{BOTH}\n-- +migrate Down\n{REMOVE}\n"),
                ),
            ],
        ),
        layout(
            "dbmate",
            [
                (
                    "20240115103000_t.cql",
                    &format!("-- migrate:up\n{CREATE}\n{ADD}\n\n-- migrate:down\n{DROP}\n"),
                ),
                ("20240115103001_read.cql", &format!("-- migrate:up\n{BOTH}\n")),
            ],
        ),
        layout(
            "mig31",
            [
                (
                    "01_t.cql",
                    &format!("-- @up\n\n{CREATE}\n{ADD}\n\n-- @down\n\n{DROP}\n"),
                ),
                ("02_read.cql", &format!("-- @up\n{BOTH}\n")),
            ],
        ),
    ]
}

/// It separates statements by stages, not by semicolons.
fn pillar() -> Layout {
    let header = "-- description: creates the table\n-- authoredAt: 1370028262000\n-- up:\n\n";
    let create = "CREATE TABLE t (\n  k int PRIMARY KEY,\n  v int\n)";
    let in_stages = "-- stage: 1\nALTER TABLE t ADD w int\n\n-- stage: 2\nSELECT v, w FROM t WHERE k = 1\n\n\
                     -- down:\n\n-- stage: 1\nALTER TABLE t DROP w\n\n-- stage: 2\nDROP TABLE t\n";
    layout(
        "pillar",
        [
            (
                "1370028262000_creates_events_table.cql",
                &format!("{header}{create}\n\n-- down:\n\nDROP TABLE t\n"),
            ),
            (
                "1370028263000_creates_events_table_with_stages.cql",
                &format!("{header}{in_stages}"),
            ),
        ],
    )
}

fn explained(layout: &Layout) -> Ended {
    let in_folder = |folder: Folder, (name, text): &(&str, String)| folder.with(&format!("m/{name}"), text);
    let folder = layout.files.iter().fold(Folder::new(), in_folder);
    folder.explain(&["--fail-on", "info", "m"], b"")
}

#[test]
fn each_tool_s_migrations_are_applied_in_its_order_and_none_is_taken_back() {
    for layout in layouts() {
        let ended = explained(&layout);
        assert_eq!(ended.code, Some(0), "{}: {}{}", layout.tool, ended.out, ended.err);
        assert!(
            ended.out.contains(": select on shop.t: 1 partition"),
            "{}: {}",
            layout.tool,
            ended.out
        );
    }
}

#[test]
fn the_guide_names_the_tools_that_are_tried() {
    let guide = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/migrations.md");
    let guide = fs::read_to_string(guide).unwrap();
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| ["));
    let named: Vec<_> = rows.filter_map(|row| row.split(']').next()).collect();
    let tried: Vec<_> = layouts().iter().map(|layout| layout.tool).collect();
    assert_eq!(named, tried);
}

/// What a shell makes of `m/*`: all files by name.
#[test]
fn a_migration_that_is_named_beside_what_takes_it_back_is_applied_alone() {
    let folder = Folder::new()
        .with("m/1_t.down.sql", DROP)
        .with("m/1_t.up.sql", CREATE)
        .with("m/2_w_down.cql", REMOVE)
        .with("m/2_w_up.cql", ADD)
        .with("q.cql", BOTH);
    let files = [
        "m/1_t.down.sql",
        "m/1_t.up.sql",
        "m/2_w_down.cql",
        "m/2_w_up.cql",
        "q.cql",
    ];
    let ended = folder.explain(&[&["--fail-on", "info"], &files[..]].concat(), b"");
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    let alone = folder.explain(&["m/1_t.up.sql", "m/2_w_up.cql", "q.cql"], b"");
    assert_eq!(alone.code, Some(0), "{}", alone.out);
    let named = folder.explain(&["--quiet", "m/1_t.up.sql", "m/2_w_down.cql"], b"");
    assert_eq!(named.code, Some(2), "named alone, it is read: {}", named.out);
}

#[test]
fn errors_in_a_part_of_a_file_have_their_line_in_it() {
    let layout = Layout {
        tool: "pillar",
        files: vec![(
            "1_t.cql",
            "-- authoredAt: 1\n-- up:\n-- stage: 1\nCREATE TABLE t (k int PRIMARY KEY)\n-- stage: 2\n\n  ALTER TABLE t ADDD w int\n"
                .to_owned(),
        )],
    };
    let ended = explained(&layout);
    assert!(ended.out.contains("--> m/1_t.cql:7:17"), "{}", ended.out);
}

#[test]
fn a_keyspace_that_one_changeset_uses_is_used_by_the_next() {
    let text = "--liquibase formatted sql\n--changeset me:1\nUSE other;\n--changeset me:2\nCREATE TABLE t (k int PRIMARY KEY);\n\
                --changeset me:3\nSELECT k FROM other.t WHERE k = 1;\n";
    let ended = Folder::new().with("c.sql", text).explain(&["c.sql"], b"");
    assert!(
        ended.out.contains("c.sql:7: select on other.t: 1 partition"),
        "{}",
        ended.out
    );
    assert_eq!(ended.code, Some(0), "{}", ended.out);
}
