//! The programs in `examples/` do what their first lines say.
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

/// What a consultant would put on the agenda of the shop of `examples/example_report`, with the state since the last
/// review.
const AGENDA: &[(&str, &str, &str)] = &[
    ("high", "queue-pattern", "known"),
    ("high", "in-partition-key", "worse"),
    ("high", "allow-filtering", "new"),
    ("high", "timeouts", "new"),
    ("high", "unlogged-batch-multi-partition", "known"),
    ("medium", "client-join", "known"),
    ("medium", "hot-partition", "known"),
    ("medium", "large-partition", "known"),
    ("low", "secondary-index-read", "known"),
    ("low", "delete-heavy", "better"),
    ("low", "unused-table", "known"),
    ("info", "null-insert", "known"),
    ("info", "reversed-read", "known"),
    ("info", "logged-batch-multi-partition", "known"),
];

#[test]
fn the_example_report_is_a_week_of_a_shop_with_a_dozen_problems() {
    let folder = tempfile::tempdir().unwrap();
    example("example_report", &["-o", folder.path().to_str().unwrap()], "");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let report: serde_json::Value = serde_json::from_str(&read("report.json")).unwrap();

    let problems = report["problems"].as_array().unwrap();
    let of_agenda = |problem| {
        (
            text(problem, "severity"),
            text(&problem["rules"], 0),
            state(&report, problem),
        )
    };
    assert_eq!(problems.iter().map(of_agenda).collect::<Vec<_>>(), AGENDA);
    assert_eq!(report["accepted"][0]["rule"], "lwt-heavy");
    let gone = &report["baseline"]["gone"];
    assert_eq!(
        (gone[0]["rule"].as_str(), gone.as_array().unwrap().len()),
        (Some("allow-filtering"), 1)
    );

    assert_eq!(report["timeline"]["points"].as_array().unwrap().len(), 7 * 24);
    let versions = report["timeline"]["new_versions"].as_array().unwrap();
    assert_eq!(versions.len(), 1, "{versions:?}");
    assert_eq!(versions[0]["version"], "3.8.0");
    assert_eq!(
        versions[0]["new_patterns"], report["findings"][3]["patterns"],
        "it brought the scan"
    );

    let page = read("report.html");
    assert!(page.contains("and at this rate will have 100,000 rows in 9 to 11 days"));
    assert!(page.contains("was not watching for 5 h while others were, from 2026-11-19 01:00"));
    assert!(page.len() <= 300 * 1_024, "{} bytes", page.len());
    assert!(read("report.md").starts_with("# Query patterns of shop-production, 16 November 2026"));
}

fn text(value: &serde_json::Value, index: impl serde_json::value::Index) -> &str {
    value[index].as_str().unwrap()
}

/// Of the finding that says a problem best.
fn state<'r>(report: &'r serde_json::Value, problem: &serde_json::Value) -> &'r str {
    let findings = report["findings"].as_array().unwrap();
    let first = findings
        .iter()
        .find(|finding| finding["id"] == problem["findings"][0]);
    let rank = |severity: &serde_json::Value| {
        ["info", "low", "medium", "high"]
            .iter()
            .position(|word| severity == word)
    };
    let first = first.unwrap();
    match (rank(&first["severity_before"]), rank(&first["severity"])) {
        (None, _) => "new",
        (before, now) if before < now => "worse",
        (before, now) if before > now => "better",
        _ => "known",
    }
}
