//! Metrics as pages, dashboard and alerts name them: each is there, with those labels, and each alert has a line that says what to do.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use cqlens::metrics::{FAMILIES, Family, Kind};
use cqlens_testing::{available, program};
use serde_json::Value;

use crate::docs::{
    page::{Page, checkout},
    promql::Names,
};

const PAGE: &str = "docs/metrics.md";
const DASHBOARD: &str = "examples/grafana/cqlens.json";
const ALERTS: &str = "examples/prometheus/alerts.yml";
/// Set to anything, it writes the table anew.
const WRITE: &str = "CQLENS_WRITE_DOCS";
const HEADER: &str = "| metric | type | labels | |\n| --- | --- | --- | --- |\n";

/// What Prometheus adds to each series.
const OF_A_SCRAPE: [&str; 2] = ["job", "instance"];

fn row(family: &Family) -> String {
    let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    let (name, kind) = (family.full_name(), family.kind.name());
    format!(
        "| `{name}` | {kind} | {} | {} |\n",
        labels.join(", "),
        family.help
    )
}

#[test]
fn the_page_has_every_metric() {
    let text = Page::read(PAGE).text;
    let (before, table) = text.split_once(HEADER).expect("a table of metrics");
    let (_, after) = table.split_once("\n\n").unwrap_or((table, ""));
    let rows: String = FAMILIES.iter().map(row).collect();
    let written = [before, HEADER, &rows, "\n", after].concat();
    if std::env::var_os(WRITE).is_some() {
        fs::write(checkout().join(PAGE), &written).unwrap();
    }
    let kept = Page::read(PAGE).text;
    assert!(
        kept == written,
        "{PAGE} does not have the metrics of this version: `{WRITE}=1 cargo test --test hermetic docs::metrics` writes them anew"
    );
}

/// What a query, or the text beside it, names wrongly. `shown` are labels that the text shows.
fn faults(query: &str, shown: &BTreeSet<String>) -> Vec<String> {
    let names = Names::of(query);
    let mut faults = Vec::new();
    let mut of_all: BTreeSet<&str> = OF_A_SCRAPE.into();
    for (series, compared) in &names.series {
        let Some(labels) = labels_of(series) else {
            faults.push(format!("{series} is not exposed: {query}"));
            continue;
        };
        let wrong = compared.iter().filter(|label| !labels.contains(label.as_str()));
        faults.extend(wrong.map(|label| format!("{series} has no label {label}: {query}")));
        of_all.extend(labels);
    }
    let used = names.groups.iter().chain(shown);
    let wrong = used.filter(|label| !of_all.contains(label.as_str()));
    faults.extend(wrong.map(|label| format!("nothing has a label {label}: {query}")));
    if names.series.is_empty() {
        faults.push(format!("no series: {query}"));
    }
    faults
}

/// The labels of a series, if it is exposed; those of a scrape among them.
fn labels_of(series: &str) -> Option<BTreeSet<&'static str>> {
    if series == "up" {
        return Some(OF_A_SCRAPE.into());
    }
    let has = |family: &&Family| match family.kind {
        Kind::Counter | Kind::Gauge => family.full_name() == series,
        Kind::Histogram => series
            .strip_prefix(&family.full_name())
            .is_some_and(|part| ["_bucket", "_sum", "_count"].contains(&part)),
    };
    let family = FAMILIES.iter().find(has)?;
    let le = series.ends_with("_bucket").then_some("le");
    Some(
        family
            .labels
            .iter()
            .copied()
            .chain(OF_A_SCRAPE)
            .chain(le)
            .collect(),
    )
}

/// The names between `open` and the next blank or bracket, wherever it stands in a template.
fn shown(template: &str, open: &str) -> BTreeSet<String> {
    let parts = template.split(open).skip(1);
    let names = parts.filter_map(|part| part.split([' ', '}']).next());
    names.map(str::to_owned).collect()
}

/// Every value of `key`, anywhere in a document.
fn all_of<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key));
            fields.values().for_each(|value| all_of(value, key, found));
        }
        Value::Array(values) => values.iter().for_each(|value| all_of(value, key, found)),
        _ => {}
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(checkout().join(DASHBOARD)).unwrap()).unwrap()
}

/// The queries of all panels, with what their legends show.
fn queries_of_dashboard(dashboard: &Value) -> Vec<(String, BTreeSet<String>)> {
    let mut targets = Vec::new();
    all_of(dashboard, "targets", &mut targets);
    let targets = targets
        .into_iter()
        .flat_map(|targets| targets.as_array().unwrap());
    let query = |target: &Value| {
        let legend = target["legendFormat"].as_str().unwrap();
        (target["expr"].as_str().unwrap().to_owned(), shown(legend, "{{"))
    };
    targets.map(query).collect()
}

#[test]
fn the_dashboard_shows_nothing_that_is_not_exposed() {
    let dashboard = dashboard();
    let queries = queries_of_dashboard(&dashboard);
    assert!(queries.len() > 30, "{}", queries.len());
    let mut wrong: Vec<_> = queries
        .iter()
        .flat_map(|(query, shown)| faults(query, shown))
        .collect();
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["definition"].as_str() {
            let (_, label) = query.trim_end_matches(')').rsplit_once(", ").unwrap();
            wrong.extend(faults(query, &[label.to_owned()].into()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut ids = Vec::new();
    all_of(&dashboard["panels"], "id", &mut ids);
    let ids: Vec<_> = ids.into_iter().filter_map(Value::as_u64).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
}

/// The alerts: name, query, and the labels that the summary shows.
fn alerts() -> Vec<(String, String, BTreeSet<String>)> {
    let text = fs::read_to_string(checkout().join(ALERTS)).unwrap();
    let rules = text.split("- alert: ").skip(1);
    let alert = |rule: &str| {
        let (name, rest) = rule.split_once('\n').unwrap();
        let (_, rest) = rest.split_once("expr: ").unwrap();
        let (query, rest) = rest.split_once('\n').unwrap();
        (name.to_owned(), query.to_owned(), shown(rest, "$labels."))
    };
    rules.map(alert).collect()
}

#[test]
fn every_alert_names_what_is_exposed_and_has_a_line_that_says_what_to_do() {
    let alerts = alerts();
    let wrong: Vec<_> = alerts
        .iter()
        .flat_map(|(_, query, shown)| faults(query, shown))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let page = Page::read(PAGE);
    let lines = page
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("| `Cqlens")?.split('`').next());
    let lines: BTreeSet<_> = lines.map(|name| format!("Cqlens{name}")).collect();
    let names: BTreeSet<_> = alerts.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(lines, names);
}

fn promtool(promtool: &str, arguments: &[&str], folder: &Path) {
    let output = Command::new(promtool)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn prometheus_understands_alerts_settings_and_the_queries_of_the_dashboard() {
    let Some(tool) = available("queries in Prometheus' own eyes", program("promtool")) else {
        return;
    };
    let examples = checkout().join("examples/prometheus");
    promtool(tool, &["check", "config", "prometheus.yml"], &examples);
    promtool(tool, &["test", "rules", "alerts_test.yml"], &examples);
    // As rules that record what they find.
    let folder = tempfile::tempdir().unwrap();
    let rules: String = queries_of_dashboard(&dashboard())
        .iter()
        .zip(0..)
        .map(|((query, _), number)| {
            let query = Value::from(query.replace("$__rate_interval", "5m"));
            format!("      - {{record: \"query:{number}\", expr: {query}}}\n")
        })
        .collect();
    let rules = format!("groups:\n  - name: dashboard\n    rules:\n{rules}");
    fs::write(folder.path().join("dashboard.yml"), rules).unwrap();
    promtool(tool, &["check", "rules", "dashboard.yml"], folder.path());
}

#[test]
fn a_query_that_names_what_is_not_there_is_found() {
    let none = BTreeSet::new();
    assert_eq!(faults(r#"up{job="a"} == 0"#, &none), [""; 0]);
    for (query, fault) in [
        (
            "rate(cqlens_nothing_total[5m])",
            "cqlens_nothing_total is not exposed",
        ),
        (
            "cqlens_table_latency_seconds",
            "cqlens_table_latency_seconds is not exposed",
        ),
        (
            r#"cqlens_connections{table="t"}"#,
            "cqlens_connections has no label table",
        ),
        ("sum by (rule) (cqlens_connections)", "nothing has a label rule"),
        ("vector(1)", "no series"),
    ] {
        assert_eq!(faults(query, &none), [format!("{fault}: {query}")]);
    }
}
