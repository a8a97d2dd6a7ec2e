//! The programs in `examples/` do what their first lines say.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs an example, which cargo builds beside the program, with `input`.
fn example(name: &str, arguments: &[&str], input: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_cqlens"));
    let program = program.with_file_name("examples").join(name);
    let mut child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn cql_from_standard_input_is_audited() {
    let folder = tempfile::tempdir().unwrap();
    let schema = folder.path().join("schema.cql");
    let definitions =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE k.t (a int, b int, v text, PRIMARY KEY (a, b));";
    std::fs::write(&schema, definitions).unwrap();
    let printed = example(
        "audit_stdin",
        &[schema.to_str().unwrap()],
        "SELECT * FROM k.t WHERE a = 1;
         SELECT * FROM k.t WHERE a IN (1, 2, 2);
         SELECT v FROM k.t WHERE v = 'x' ALLOW FILTERING;",
    );
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "SELECT * FROM k.t WHERE a = 1",
            "  Exact(1)",
            "SELECT * FROM k.t WHERE a IN (1, 2, 2)",
            "  Exact(2)",
        ]
    );
    assert!(lines[4].contains("in-partition-key"), "{printed}");
    assert!(printed.contains("  Scan\n  Medium allow-filtering"), "{printed}");
}
