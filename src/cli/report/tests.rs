#![allow(clippy::unwrap_used)]
use std::fs::{self, File};

use clap::Parser;

use super::{merged::OTHER_KEY, *};
use cqlens_cql::{footprint::PartitionClass, plan::Flag};
use cqlens_rules::{
    Acceptance,
    testing::{read, window},
};
use cqlens_window::{Cluster, Snapshot};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn run_typed(args: &Args) -> anyhow::Result<ExitCode> {
    run(args, &Judging::default(), None)
}

fn typed(arguments: &[&str]) -> Args {
    Command::parse_from(["report"].iter().chain(arguments)).args
}

/// An hour of a filtering read.
pub(in crate::cli) fn snapshot(cluster: &str, start: &str) -> Snapshot {
    lasting(cluster, start, 1)
}

pub(in crate::cli) fn lasting(cluster: &str, start: &str, hours: i64) -> Snapshot {
    let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
    let scan = read(
        "SELECT * FROM shop.items WHERE a = ? ALLOW FILTERING",
        &flags,
        PartitionClass::Scan,
        20_000,
    );
    let mut window = window([scan]);
    window.start = start.parse().unwrap();
    window.close(window.start + jiff::SignedDuration::from_hours(hours));
    window.coverage.requests = 100;
    window.coverage.audited = 100;
    let cluster = Cluster {
        name: Some(cluster.to_owned()),
        ..Cluster::default()
    };
    Snapshot::new(window, cluster, String::new(), "key".to_owned())
}

/// Writes the snapshots into a folder as `1.cqlens.json`, `2.cqlens.json`, …
pub(in crate::cli) fn folder(snapshots: &[Snapshot]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (at, snapshot) in (1..).zip(snapshots) {
        let mut file = File::create(folder.path().join(format!("{at}.cqlens.json"))).unwrap();
        snapshot.write(&mut file).unwrap();
    }
    folder
}

pub(in crate::cli) fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

pub(in crate::cli) fn json(folder: &tempfile::TempDir, more: &[&str]) -> serde_json::Value {
    let (from, to) = (path(folder, ""), path(folder, "report.json"));
    run_typed(&typed(&[&[from.as_str(), "-o", to.as_str()], more].concat())).unwrap();
    serde_json::from_slice(&fs::read(to).unwrap()).unwrap()
}

#[test]
fn snapshots_of_a_folder_are_merged_into_one_report() {
    let folder = folder(&[
        snapshot("a", "2026-11-21T07:00:00Z"),
        snapshot("a", "2026-11-21T08:00:00Z"),
    ]);
    let report = json(&folder, &[]);
    assert_eq!(report["coverage"]["requests"], 200);
    assert_eq!(report["window"]["start"], "2026-11-21T07:00:00Z");
    assert_eq!(report["findings"][0]["rule"], "allow-filtering");
    // A file that is named beside its folder counts once.
    let one = path(&folder, "1.cqlens.json");
    assert_eq!(json(&folder, &[&one])["coverage"]["requests"], 200);
}

#[test]
fn the_same_time_of_a_source_is_not_counted_twice() {
    let folder = folder(&[
        snapshot("a", "2026-11-21T07:00:00Z"),
        snapshot("a", "2026-11-21T07:30:00Z"),
        snapshot("a", "2026-11-21T10:00:00Z"),
    ]);
    let report = json(&folder, &[]);
    assert_eq!(report["coverage"]["requests"], 200);
    assert_eq!(report["window"]["seconds"], 7_200.0);
    let notices = report["coverage"]["notices"].to_string();
    assert!(notices.contains("2.cqlens.json was left out"), "{notices}");
    assert!(
        notices.contains("Nothing was observed for 2 h of the time"),
        "{notices}"
    );
    assert_eq!(report["window"]["gaps"][0]["start"], "2026-11-21T08:00:00Z");
}

#[test]
fn since_and_until_choose_windows_by_their_beginning() {
    let folder = folder(&[
        snapshot("a", "2026-11-21T07:00:00Z"),
        snapshot("a", "2026-11-21T08:00:00Z"),
    ]);
    let since = json(&folder, &["--since", "2026-11-21T08:00:00Z"]);
    assert_eq!(since["window"]["start"], "2026-11-21T08:00:00Z");
    let until = json(&folder, &["--until", "2026-11-21T08:00"]);
    assert_eq!(until["window"]["start"], "2026-11-21T07:00:00Z");
    assert_eq!(until["coverage"]["requests"], 100);
    let from = path(&folder, "");
    let error = run_typed(&typed(&[&from, "--until", "2020-01-01"]))
        .unwrap_err()
        .to_string();
    assert_eq!(error, "no window of 2 snapshots begins in that span of time");
}

#[test]
fn a_finding_at_or_above_the_limit_is_exit_code_one() {
    let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
    let (from, to) = (path(&folder, ""), path(&folder, "report.md"));
    let code = |limit| run_typed(&typed(&[&from, "-o", &to, "--fail-on", limit])).unwrap();
    assert_eq!(code("high"), ExitCode::from(1));
    let rare = lasting("a", "2026-11-01T08:00:00Z", 480);
    let file = File::create(path(&folder, "1.cqlens.json"));
    rare.write(&mut file.unwrap()).unwrap();
    assert_eq!(code("high"), ExitCode::SUCCESS);
}

#[test]
fn what_was_in_the_baseline_is_no_failure_of_a_new_finding() {
    let folder = folder(&[lasting("a", "2026-11-01T08:00:00Z", 480)]);
    let (from, to) = (path(&folder, "1.cqlens.json"), path(&folder, "report.json"));
    let baseline = path(&folder, "baseline.json");
    json(&folder, &[]);
    fs::copy(&to, &baseline).unwrap();
    let code = |snapshot: &str, limit| {
        let options = [
            snapshot,
            "-o",
            &to,
            "--baseline",
            &baseline,
            "--fail-on-new",
            limit,
        ];
        run_typed(&typed(&options)).unwrap()
    };
    assert_eq!(code(&from, "info"), ExitCode::SUCCESS);
    // As often in one hour as in twenty days: the same finding, and more severe.
    let frequent = path(&folder, "2.cqlens.json");
    let file = File::create(&frequent).unwrap();
    snapshot("a", "2026-11-21T08:00:00Z")
        .write(&mut { file })
        .unwrap();
    assert_eq!(code(&frequent, "high"), ExitCode::from(1));
    assert!(Command::try_parse_from(["report", "x", "--fail-on-new", "high"]).is_err());
}

#[test]
fn a_part_of_a_report_is_written_in_every_form() {
    let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
    let from = path(&folder, "");
    for ending in ["html", "md", "json", "csv", "tsv"] {
        let to = path(&folder, &format!("part.{ending}"));
        let written = |table| {
            let options = [
                &from,
                "-o",
                &to,
                "--table",
                table,
                "--top",
                "3",
                "--rule",
                "allow-filtering",
            ];
            run_typed(&typed(&options)).unwrap();
            fs::read_to_string(&to).unwrap()
        };
        assert!(written("shop.items").contains("ALLOW FILTERING"), "{ending}");
        assert!(!written("orders").contains("ALLOW FILTERING"), "{ending}");
    }
    let wrong = [
        "--rule",
        "alow-filtering",
        "--rule",
        "timeouts",
        "--rule",
        "xyzzy",
    ];
    let error = run_typed(&typed(&[&[from.as_str()], &wrong[..]].concat())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no rule is called \"alow-filtering\": is it `allow-filtering`?\n\
         no rule is called \"xyzzy\": `cqlens rules` lists all"
    );
}

#[test]
fn a_report_table_by_table_is_written_in_every_form() {
    let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
    let from = path(&folder, "");
    let written = |ending: &str| {
        let to = path(&folder, &format!("by_table.{ending}"));
        run_typed(&typed(&[&from, "-o", &to, "--by-table", "--top", "1"])).unwrap();
        fs::read_to_string(&to).unwrap()
    };
    let html = written("html");
    assert!(html.find("id=\"tables\"") < html.find("class=\"fold prob "));
    assert!(written("md").contains("### `shop.items`"));
    let json: serde_json::Value = serde_json::from_str(&written("json")).unwrap();
    assert_eq!(json["by_table"][0]["table"], "items");
    assert_eq!(json["by_table"][0]["problems"][0], json["problems"][0]["id"]);
    for ending in ["csv", "tsv"] {
        assert!(written(ending).contains("items"), "{ending}");
    }
}

fn accepting_filters(until: &str) -> Judging {
    let acceptance = Acceptance {
        rule: Some("allow-filtering"),
        table: None,
        pattern: None,
        at_most: None,
        owner: "platform".to_owned(),
        reason: "admin page".to_owned(),
        until: until.parse().unwrap(),
        place: "cqlens.toml:1".to_owned(),
    };
    Judging {
        acceptances: vec![acceptance],
        ..Judging::default()
    }
}

#[test]
fn an_accepted_finding_is_no_failure_until_it_expires() {
    let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
    let (from, to) = (path(&folder, ""), path(&folder, "report.json"));
    let report = |until| {
        let args = typed(&[&from, "-o", &to, "--fail-on", "high"]);
        let code = run(&args, &accepting_filters(until), None).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&fs::read(&to).unwrap()).unwrap();
        (code, json)
    };
    let (code, json) = report("9999-01-01");
    assert_eq!(code, ExitCode::SUCCESS);
    let accepted = &json["accepted"][0];
    assert_eq!(accepted["rule"], "allow-filtering");
    assert_eq!(accepted["acceptance"]["owner"], "platform");
    assert_eq!(accepted["acceptance"]["until"], "9999-01-01");
    assert_eq!(accepted["acceptance"]["state"], "in-force");
    let (code, json) = report("2020-01-01");
    assert_eq!(code, ExitCode::from(1));
    assert_eq!(json["accepted"], serde_json::json!([]));
    assert_eq!(json["findings"][0]["acceptance"]["state"], "expired");
}

#[test]
fn a_report_is_the_baseline_of_the_next_one() {
    let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
    let first = json(&folder, &[]);
    assert_eq!(first["findings"][0].get("review"), None);
    let baseline = path(&folder, "baseline.json");
    fs::copy(path(&folder, "report.json"), &baseline).unwrap();
    let second = json(&folder, &["--baseline", &baseline]);
    assert_eq!(second["findings"][0]["review"], "known");
    assert_eq!(second["baseline"]["generated_at"], first["generated_at"]);
    let snapshot = path(&folder, "1.cqlens.json");
    let error = run_typed(&typed(&[&snapshot, "--baseline", &snapshot])).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot compare with {snapshot}"));
}

#[test]
fn a_damaged_snapshot_is_left_out_and_named_or_refused() {
    let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
    let damaged = path(&folder, "2.cqlens.json");
    let whole = fs::read(path(&folder, "1.cqlens.json")).unwrap();
    for bytes in [
        &whole[..whole.len() / 2],
        b"",
        b"{}",
        b"\x00\xff",
        b"{\"format\":\"cqlens.report.v1\"}",
    ] {
        fs::write(&damaged, bytes).unwrap();
        let report = json(&folder, &[]);
        assert_eq!(report["coverage"]["requests"], 100);
        let notices = report["notices"].to_string();
        assert!(
            notices.contains("1 snapshot is damaged and left out: 2.cqlens.json"),
            "{notices}"
        );
        for refused in [
            vec![path(&folder, ""), "--strict".to_owned()],
            vec![damaged.clone()],
        ] {
            let refused: Vec<_> = refused.iter().map(String::as_str).collect();
            let error = run_typed(&typed(&refused)).unwrap_err();
            assert_eq!(error.to_string(), format!("cannot read the snapshot {damaged}"));
        }
    }
    let missing = path(&folder, "no.cqlens.json");
    let error = run_typed(&typed(&[&missing])).unwrap_err().to_string();
    assert_eq!(error, format!("cannot open the snapshot {missing}"));
}

/// The attack: counts that make those of another source wrap around to nothing.
#[test]
fn a_snapshot_of_made_up_counts_leaves_those_of_others_as_they_are() {
    let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
    let alone = json(&folder, &[]);
    let mut forged = serde_json::to_value(snapshot("a", "2026-11-21T09:00:00Z")).unwrap();
    for count in ["requests", "audited"] {
        forged["window"]["coverage"][count] = (u64::MAX - 99).into();
    }
    for pattern in forged["window"]["patterns"].as_object_mut().unwrap().values_mut() {
        pattern["count"] = (u64::MAX - pattern["count"].as_u64().unwrap() + 1).into();
    }
    fs::write(path(&folder, "2.cqlens.json"), forged.to_string()).unwrap();
    let report = json(&folder, &[]);
    assert_eq!(report["coverage"]["requests"], 100);
    assert_eq!(report["patterns"], alone["patterns"]);
    let notices = report["notices"].to_string();
    assert!(
        notices.contains("1 snapshot is damaged and left out: 2.cqlens.json"),
        "{notices}"
    );
    let error = run_typed(&typed(&[&path(&folder, ""), "--strict"])).unwrap_err();
    assert!(format!("{error:#}").contains("window.coverage."), "{error:#}");
}

#[test]
fn a_snapshot_of_a_later_format_is_left_out_and_named_or_refused() {
    let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
    let later = path(&folder, "2.cqlens.json");
    fs::write(&later, b"{\"format\":\"cqlens.snapshot.v9\"}").unwrap();
    let report = json(&folder, &[]);
    assert_eq!(report["coverage"]["requests"], 100);
    let notices = report["notices"].to_string();
    assert!(
        notices.contains("1 snapshot is of a later version of cqlens and left out: 2.cqlens.json"),
        "{notices}"
    );
    let error = run_typed(&typed(&[&path(&folder, ""), "--strict"])).unwrap_err();
    assert!(
        format!("{error:#}").contains("\"cqlens.snapshot.v9\", which a later version of cqlens wrote"),
        "{error:#}"
    );
}

/// A window of two minutes and what a killed process has left of its second one.
#[test]
fn parts_of_a_merged_snapshot_are_not_counted_again_and_nothing_is_said_of_them() {
    let mut hours = [7, 8].map(|hour| snapshot("a", &format!("2026-11-21T0{hour}:00:00Z")));
    let part = hours[1].clone();
    let late = snapshot("a", "2026-11-21T09:00:00Z");
    hours[0].append(part.clone());
    let folder = folder(&[hours[0].clone(), part, late]);
    let report = json(&folder, &[]);
    assert_eq!(report["coverage"]["requests"], 300);
    assert_eq!(report["window"]["seconds"], 10_800.0);
    assert_eq!(report["coverage"]["notices"], serde_json::json!([]));
}

#[test]
fn windows_that_since_and_until_cut_are_left_out_or_counted_as_a_whole_and_said() {
    let folder = folder(&[
        lasting("a", "2026-11-20T00:00:00Z", 24),
        lasting("a", "2026-11-21T00:00:00Z", 24),
    ]);
    let cut = |more: &[&str]| {
        let report = json(&folder, more);
        (
            report["coverage"]["requests"].as_u64(),
            report["coverage"]["notices"].to_string(),
        )
    };
    let (requests, notices) = cut(&["--since", "2026-11-20T18:00"]);
    assert_eq!(requests, Some(100));
    assert!(
        notices.contains(
            "1 window that began before --since went on until 2026-11-21T00:00:00Z and is left out as a whole"
        ),
        "{notices}"
    );
    let (requests, notices) = cut(&["--until", "2026-11-21T18:00"]);
    assert_eq!(requests, Some(200));
    assert!(
        notices.contains(
            "1 window that began before --until went on until 2026-11-22T00:00:00Z and is counted as a whole"
        ),
        "{notices}"
    );
    // A minute more or less is no news.
    for nearly in [
        ["--since", "2026-11-20T23:59"],
        ["--until", "2026-11-21T23:59"],
        ["--until", "2026-11-21"],
    ] {
        assert_eq!(cut(&nearly).1, "[]", "{nearly:?}");
    }
}

#[test]
fn snapshots_of_two_clusters_are_not_mixed() {
    let folder = folder(&[
        snapshot("a", "2026-11-21T07:00:00Z"),
        snapshot("b", "2026-11-21T08:00:00Z"),
    ]);
    let error = run_typed(&typed(&[&path(&folder, "")])).unwrap_err().to_string();
    assert!(
        error.contains("is from cluster \"b\", but") && error.ends_with("report them separately"),
        "{error}"
    );
}

/// Others may write into a folder or store.
#[test]
fn a_window_of_another_cluster_than_most_is_left_out_and_named() {
    let folder = folder(&[
        snapshot("x", "2026-11-21T06:00:00Z"),
        snapshot("a", "2026-11-21T06:00:00Z"),
        snapshot("a", "2026-11-21T07:00:00Z"),
        snapshot("y", "2026-11-21T08:00:00Z"),
        snapshot("a", "2026-11-21T09:00:00Z"),
    ]);
    let report = json(&folder, &[]);
    assert_eq!(report["coverage"]["requests"], 300);
    assert_eq!(report["cluster"]["name"], "a");
    let notices = report["coverage"]["notices"].to_string();
    let left_out =
        "2 snapshots are of another cluster than most, and left out: 1.cqlens.json, 4.cqlens.json.";
    assert!(notices.contains(left_out), "{notices}");
    let error = run_typed(&typed(&[&path(&folder, ""), "--strict"])).unwrap_err();
    assert!(error.to_string().contains("is from cluster"), "{error}");
    // Files that the user names are not left out.
    let named = [path(&folder, "2.cqlens.json"), path(&folder, "4.cqlens.json")];
    let error = run_typed(&typed(&[&named[0], &named[1]]))
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("report them separately"), "{error}");
}

#[test]
fn a_named_pipe_in_a_folder_is_left_out_and_named() {
    let folder = folder(&[snapshot("a", "2026-11-21T06:00:00Z")]);
    let pipe = path(&folder, "2.cqlens.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let notices = json(&folder, &[])["coverage"]["notices"].to_string();
    assert!(
        notices.contains("1 snapshot is damaged and left out: 2.cqlens.json."),
        "{notices}"
    );
    assert!(run_typed(&typed(&[&pipe])).is_err());
    assert!(run_typed(&typed(&[&path(&folder, ""), "--strict"])).is_err());
}

#[test]
fn a_damaged_schema_of_the_latest_window_leaves_the_one_before() {
    let hour = |hour: u8, schema: &str| {
        let mut snapshot = snapshot("a", &format!("2026-11-21T0{hour}:00:00Z"));
        schema.clone_into(&mut snapshot.schema);
        snapshot
    };
    let keyspace =
        |name: &str| format!("CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy'}};");
    let mut damaged = hour(6, "x");
    damaged.window.end = "9999-12-30T00:00:00Z".parse().unwrap();
    let good = [hour(7, &keyspace("one")), hour(8, &keyspace("two"))];
    let folder = folder(&[vec![damaged], good.to_vec(), vec![hour(9, "y")]].concat());
    let merged = Merged::read(
        &[folder.path().to_owned()],
        Choice::default(),
        &mut (),
        &mut Progress::begin("snapshots"),
    );
    let merged = merged.unwrap();
    assert_eq!(merged.schema().keyspaces.keys().collect::<Vec<_>>(), ["two"]);
    assert_eq!(merged.window.coverage.requests, 400);
    let notices = merged.window.coverage.notices.into_iter().collect::<String>();
    let said = "2 snapshots have a damaged schema, which is left out: 1.cqlens.json, 4.cqlens.json.";
    assert!(notices.contains(said), "{notices}");
    assert!(run_typed(&typed(&[&path(&folder, ""), "--strict"])).is_err());
    assert!(run_typed(&typed(&[&path(&folder, "1.cqlens.json")])).is_err());
}

#[test]
fn snapshots_with_another_hash_key_are_merged_with_a_notice() {
    let mut other = snapshot("a", "2026-11-21T08:00:00Z");
    other.key_id = "another".to_owned();
    let folder = folder(&[snapshot("a", "2026-11-21T07:00:00Z"), other]);
    assert_eq!(json(&folder, &[])["coverage"]["notices"][0], OTHER_KEY);
}

#[test]
fn the_ending_of_the_output_gives_the_format() {
    let folder = folder(&[snapshot("a", "2026-11-21T08:00:00Z")]);
    let from = path(&folder, "");
    for (name, beginning) in [("r.html", "<!doctype html>"), ("r.md", "# Query patterns")] {
        let to = path(&folder, name);
        run_typed(&typed(&[&from, "-o", &to])).unwrap();
        assert!(fs::read_to_string(&to).unwrap().starts_with(beginning), "{name}");
    }
    let text = path(&folder, "r.txt");
    let error = |to: &str| run_typed(&typed(&[&from, "-o", to])).unwrap_err().to_string();
    assert!(error(&text).ends_with("r.txt must end in .html, .md, .json, .csv, .tsv or .svg"));
    assert!(!fs::exists(&text).unwrap());
    run_typed(&typed(&[&from, "-o", &text, "--format", "md"])).unwrap();
    let unwritable = error(&path(&folder, "no/such/r.md"));
    assert!(
        unwritable.starts_with("cannot write the report to "),
        "{unwritable}"
    );
}
