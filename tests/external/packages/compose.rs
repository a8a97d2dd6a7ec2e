//! The example for Compose: its schema knows every field, cqlens the arguments, and Prometheus the files that it is
//! given. Containers are not started: nothing here can run them.

use std::fs;

use cqlens_testing::{available, cache};
use std::process::Command;

use crate::packages::{checkout, deploy, judged, understood};

/// Checks a file against the schema of Compose.
fn compose_agrees(file: &std::path::Path) -> Result<std::process::Output, cqlens_testing::Missing> {
    let schema = ["--builtin-schema", "vendor.compose-spec"];
    judged("check-jsonschema==0.39.0", "check-jsonschema", &schema, file)
}

#[test]
fn compose_knows_every_field() {
    let file = deploy("compose.yaml");
    let Some(said) = available("the schema of Compose", compose_agrees(&file)) else {
        return;
    };
    assert!(said.status.success(), "{said:?}");
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("compose.yaml");
    fs::write(
        &wrong,
        fs::read_to_string(file)
            .unwrap()
            .replace("read_only:", "readonly:"),
    )
    .unwrap();
    let said = compose_agrees(&wrong).unwrap();
    assert!(!said.status.success(), "{said:?}");
}

#[test]
fn cqlens_takes_its_arguments_and_prometheus_its_settings() {
    let text = fs::read_to_string(deploy("compose.yaml")).unwrap();
    let (_, command) = text.split_once("    image: cqlens\n    command:\n").unwrap();
    let arguments = command.lines().map_while(|line| line.strip_prefix("      - "));
    let settings = understood(arguments);
    for line in [
        r#"listen = "0.0.0.0:9142""#,
        r#"upstream = "cassandra""#,
        r#"snapshot-dir = "/var/lib/cqlens/snapshots""#,
    ] {
        assert!(settings.contains(line), "{line}\n{settings}");
    }
    // Where Prometheus looks for its settings in its image.
    assert!(text.contains("- ../prometheus:/etc/prometheus:ro\n"));
    let mut promtool = Command::new("promtool");
    promtool
        .args(["check", "config"])
        .arg(checkout().join("examples/prometheus/prometheus.yml"));
    available("what Prometheus says of its settings", cache::run(&mut promtool));
}
