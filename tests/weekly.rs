//! The weekly report in `examples/deploy`: what the script leaves and how it ends, and that systemd, cron and Kubernetes
//! can run it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use cqlens_cql::{footprint::PartitionClass, plan::Flag};
use cqlens_rules::testing::{read, window};
use cqlens_testing::{available, cache};
use cqlens_window::{Cluster, Snapshot};
use serde_json::Value;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/deploy")
        .join(name)
}

/// Snapshots and reports of one cluster.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("snapshots")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A week in which these tables are searched with ALLOW FILTERING.
    fn see(&self, tables: &[&str]) {
        let patterns = tables.iter().map(|table| {
            let cql = format!("SELECT a FROM shop.{table} WHERE b = ? ALLOW FILTERING");
            read(&cql, &[Flag::AllowFiltering], PartitionClass::Scan, 100_000)
        });
        let (cluster, schema) = (Cluster::default(), String::new());
        let snapshot = Snapshot::new(window(patterns), cluster, schema, "key".to_owned());
        let mut file = fs::File::create(self.path("snapshots/1.cqlens.json")).unwrap();
        snapshot.write(&mut file).unwrap();
    }

    /// The script, as that week.
    fn write_report(&self, week: &str) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_cqlens"));
        let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
        Command::new("sh")
            .arg(example("weekly-report.sh"))
            .args([self.path("snapshots"), self.path("reports")])
            .env("PATH", path)
            // The windows of tests begin at the same time always.
            .env("CQLENS_WEEKLY_SINCE", "1970-01-01")
            .env("CQLENS_WEEKLY_NAME", week)
            .output()
            .unwrap()
    }

    fn report(&self, week: &str) -> Value {
        let text = fs::read(self.path("reports").join(format!("{week}.json"))).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

#[test]
fn a_week_is_compared_with_the_one_before_and_what_is_new_fails() {
    let place = Place::new();
    place.see(&["orders"]);
    let first = place.write_report("2026-11-16");
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    assert!(place.report("2026-11-16")["baseline"].is_null());
    assert!(place.path("reports/2026-11-16.html").exists());

    let same = place.write_report("2026-11-23");
    assert_eq!(same.status.code(), Some(0), "{same:?}");
    assert_eq!(place.report("2026-11-23")["findings"][0]["review"], "known");

    place.see(&["orders", "items"]);
    for _again in 0..2 {
        let another = place.write_report("2026-11-30");
        assert_eq!(another.status.code(), Some(1), "{another:?}");
        let report = place.report("2026-11-30");
        let findings = report["findings"].as_array().unwrap();
        let new = findings.iter().filter(|finding| finding["review"] == "new");
        assert!(new.clone().count() > 0);
        assert!(new.clone().all(|finding| finding["table"] == "items"));
    }
}

#[test]
fn a_week_without_snapshots_leaves_no_report() {
    let place = Place::new();
    place.see(&["orders"]);
    assert_eq!(place.write_report("2026-11-16").status.code(), Some(0));
    fs::remove_file(place.path("snapshots/1.cqlens.json")).unwrap();
    let without = place.write_report("2026-11-23");
    assert_eq!(without.status.code(), Some(2), "{without:?}");
    assert!(!place.path("reports/2026-11-23.json").exists());
    assert!(place.path("reports/2026-11-16.json").exists());
}

#[test]
fn systemd_takes_the_units_and_finds_little_that_they_expose() {
    let version = cache::run(Command::new("systemd-analyze").arg("--version"));
    if available("systemd's opinion of the weekly report", version).is_none() {
        return;
    }
    let units = ["cqlens-weekly.timer", "cqlens-weekly.service"].map(example);
    let verify = Command::new("systemd-analyze")
        .arg("verify")
        .args(&units)
        .output();
    let verified = verify.unwrap();
    assert!(verified.status.success(), "{verified:?}");
    let security = ["security", "--offline=true", "--no-pager", "--threshold", "10"];
    let exposed = Command::new("systemd-analyze")
        .args(security)
        .arg(&units[1])
        .output();
    let exposed = exposed.unwrap();
    assert!(exposed.status.success(), "{exposed:?}");
}

#[test]
fn kubernetes_takes_the_job_and_runs_the_script_on_the_folders() {
    let understood = Command::new("kubectl")
        .args(["set", "image", "--local", "--dry-run=client", "--output=json"])
        .arg("--filename")
        .arg(example("kubernetes-weekly.yaml"))
        .arg("cqlens=another")
        .output();
    let missing = |error| cqlens_testing::Missing(format!("`kubectl`: {error}"));
    let Some(output) = available("a job for Kubernetes", understood.map_err(missing)) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let manifest: Value = serde_json::from_slice(&output.stdout).unwrap();
    // What it does not know where it is it leaves out.
    for (field, value) in [
        ("/spec/concurrencyPolicy", "Forbid"),
        ("/spec/timeZone", "Etc/UTC"),
        ("/spec/jobTemplate/spec/template/spec/restartPolicy", "Never"),
    ] {
        assert_eq!(manifest.pointer(field).unwrap(), value, "{field}");
    }
    let job = &manifest["spec"]["jobTemplate"]["spec"];
    assert_eq!(job["backoffLimit"], 0);
    let container = &job["template"]["spec"]["containers"][0];
    assert_eq!(container["command"][1], "/etc/cqlens/weekly-report.sh");
    assert_eq!(container["args"][0], "/var/lib/cqlens/snapshots");
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["volumeMounts"][1]["readOnly"], true);
}

#[test]
fn cron_and_systemd_run_the_script_in_the_same_way() {
    let command =
        "sh /usr/local/lib/cqlens/weekly-report.sh /var/lib/cqlens/snapshots /var/lib/cqlens/reports";
    for name in ["weekly-report.crontab", "cqlens-weekly.service"] {
        let text = fs::read_to_string(example(name)).unwrap();
        assert!(text.contains(command), "{name}");
    }
}
