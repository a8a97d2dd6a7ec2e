//! What is on the screen after reports and keys, without a terminal.
#![allow(clippy::unwrap_used)]

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use crate::{
    keys,
    model::{Detail, Screen, View},
    source::{Http, HttpSettings},
    terminal::plain,
};

fn pattern(id: &str, table: &str, cql: &str, count: u64) -> Value {
    json!({
        "id": id, "keyspace": "shop", "table": table, "cql": cql, "count": count, "errors": 0,
        "observed_seconds": 100.0, "time_share": 0.25, "work_share": 0.5,
        "latency_us": {"count": count, "p50": 900, "p99": 2_500},
        "partitions": {"class": "single", "p99": 1}, "rows": {"p50": 1, "p99": 3},
        "clients": {"orders 2.1 (Java 4.19.3) 10.0.0.7": count},
    })
}

/// Of 100 seconds, or more: what is executed more often since.
fn report(seconds: f64, executions: u64) -> Value {
    let mut scan = pattern("b", "items", "SELECT * FROM shop.items;", 20);
    scan["time_share"] = json!(0.75);
    scan["work_share"] = json!(0.25);
    scan["partitions"]["class"] = json!("scan");
    scan["clients"] = json!({"jobs for orders (gocql) 10.0.0.8": 20});
    json!({
        "format": "cqlens.report.v1",
        "window": {"start": "2026-11-27T10:00:00Z", "end": "2026-11-27T10:01:40Z", "seconds": seconds},
        "cluster": {"name": "test"},
        "patterns": [pattern("a", "users", "SELECT * FROM shop.users WHERE id = ?;", executions), scan],
        "findings": [{
            "id": "f1", "rule": "full-scan", "severity": "high", "keyspace": "shop", "table": "items", "patterns": ["b"],
            "title": "Full table scan of `shop.items`, 20 times in 2 min, 600 rows per query",
            "why": "The coordinator queries all token ranges.", "advice": "Query by partition key.",
            "suggested_cql": ["CREATE TABLE shop.items_by_kind (…);"], "time_share": 0.75, "work_share": 0.25,
        }],
        "applications": [
            {"name": "orders", "requests": executions, "errors": 0, "latency_us": {"count": 1, "p50": 1, "p99": 2_500}, "drivers": ["Java 4.19"]},
            {"name": "jobs for orders", "requests": 20, "errors": 2, "latency_us": {"count": 0}, "drivers": []},
        ],
    })
}

fn screen() -> Screen {
    let mut screen = Screen::new("http://127.0.0.1:9143".to_owned());
    take(&mut screen, report(100.0, 1_000));
    screen
}

fn take(screen: &mut Screen, report: Value) {
    screen.take(Ok(serde_json::from_value(report).unwrap()));
}

fn press(screen: &mut Screen, codes: impl IntoIterator<Item = KeyCode>) {
    for code in codes {
        let action = keys::action(KeyEvent::new(code, KeyModifiers::NONE), screen);
        action.into_iter().for_each(|action| screen.apply(action));
    }
}

fn typed(screen: &mut Screen, letters: &str) {
    press(screen, letters.chars().map(KeyCode::Char));
}

fn listed(screen: &Screen) -> Vec<String> {
    screen.rows().into_iter().map(|row| row.key).collect()
}

#[test]
fn statements_stand_by_the_column_that_sorts_them() {
    let mut screen = screen();
    assert_eq!(listed(&screen), ["b", "a"], "by time");
    typed(&mut screen, "s");
    assert_eq!(listed(&screen), ["a", "b"], "by work");
    typed(&mut screen, "sss");
    assert_eq!(
        listed(&screen),
        ["a", "b"],
        "by errors, of which there are none, then by rate"
    );
    typed(&mut screen, "s");
    assert_eq!(listed(&screen), ["b", "a"], "by severity");
}

#[test]
fn rates_are_those_since_the_report_before_and_not_of_a_proxy_that_has_started_anew() {
    let mut screen = screen();
    let rate = |screen: &Screen| screen.rows().iter().find(|row| row.key == "a").unwrap().rate;
    assert!((rate(&screen) - 10.0).abs() < 1e-9, "1,000 in 100 s");
    take(&mut screen, report(110.0, 1_500));
    assert!((rate(&screen) - 50.0).abs() < 1e-9, "500 in 10 s");
    take(&mut screen, report(110.0, 1_500));
    assert!(
        (rate(&screen) - 50.0).abs() < 1e-9,
        "the same report again is no time without requests"
    );
    let mut anew = report(10.0, 100);
    anew["window"]["start"] = json!("2026-11-27T11:00:00Z");
    take(&mut screen, anew);
    assert!(
        (rate(&screen) - 1.0).abs() < 1e-9,
        "100 in the 100 s that its sources observed"
    );
}

#[test]
fn a_filter_leaves_what_contains_it_and_is_cleared_by_escape() {
    let mut screen = screen();
    typed(&mut screen, "/USERS");
    assert_eq!(listed(&screen), ["a"]);
    // Letters are no orders while they are typed.
    typed(&mut screen, "q");
    assert!(!screen.is_done && listed(&screen).is_empty());
    press(&mut screen, [KeyCode::Backspace, KeyCode::Enter]);
    assert_eq!(listed(&screen), ["a"]);
    press(&mut screen, [KeyCode::Esc]);
    assert_eq!(listed(&screen), ["b", "a"]);
}

#[test]
fn tables_and_applications_lead_to_their_statements_and_those_to_their_details() {
    let mut screen = screen();
    typed(&mut screen, "3");
    assert_eq!(listed(&screen), ["shop.items", "shop.users"]);
    press(&mut screen, [KeyCode::Enter]);
    assert_eq!(
        (screen.view, listed(&screen)),
        (View::Statements, vec!["b".to_owned()])
    );
    press(&mut screen, [KeyCode::Enter]);
    assert_eq!(screen.detail, Some(Detail::Statement("b".to_owned())));
    press(&mut screen, [KeyCode::Esc, KeyCode::Esc]);
    assert_eq!(screen.view, View::Tables);
    typed(&mut screen, "4");
    assert_eq!(
        listed(&screen),
        ["orders", "jobs for orders"],
        "without shares by rate"
    );
    press(&mut screen, [KeyCode::Enter]);
    assert_eq!(listed(&screen), ["a"], "also of a version of it");
}

#[test]
fn findings_that_come_later_are_new() {
    let mut screen = screen();
    let mut later = report(110.0, 1_500);
    let mut second = later["findings"][0].clone();
    second["id"] = json!("f2");
    later["findings"].as_array_mut().unwrap().push(second);
    take(&mut screen, later);
    let new: Vec<_> = screen
        .findings()
        .into_iter()
        .map(|finding| screen.is_new(finding))
        .collect();
    assert_eq!(new, [false, true]);
}

#[test]
fn while_it_is_paused_and_while_there_is_no_report_the_last_one_stays() {
    let mut screen = screen();
    typed(&mut screen, " ");
    take(&mut screen, report(110.0, 1_500));
    assert_eq!(screen.pattern("a").unwrap().count, 1_000);
    typed(&mut screen, " ");
    screen.take(Err("connection refused".to_owned()));
    let text = plain(&screen, (80, 24)).unwrap();
    assert!(
        text.contains("no report: connection refused") && text.contains("shop.users"),
        "{text}"
    );
}

#[test]
fn text_from_outside_has_no_control_characters() {
    let mut report = report(100.0, 1_000);
    report["patterns"][0]["cql"] = json!("SELECT '\u{1b}[2J' FROM shop.users;");
    report["cluster"]["name"] = json!("\u{1b}]0;title\u{7}");
    let mut screen = Screen::new("x".to_owned());
    take(&mut screen, report);
    for keys in ["", "2", "4"] {
        typed(&mut screen, keys);
        let text = plain(&screen, (120, 40)).unwrap();
        assert!(
            !text.contains(|letter: char| letter.is_control() && letter != '\n'),
            "{text:?}"
        );
    }
}

#[test]
fn a_screen_that_is_too_small_says_what_it_needs() {
    assert!(plain(&screen(), (40, 5)).unwrap().starts_with("needs 60 x 10\n"));
}

#[test]
fn lists_and_details_fit_on_terminals() {
    let mut screen = screen();
    insta::assert_snapshot!("statements_80x24", plain(&screen, (80, 24)).unwrap());
    press(&mut screen, [KeyCode::Enter]);
    insta::assert_snapshot!("statement_80x24", plain(&screen, (80, 24)).unwrap());
    typed(&mut screen, "2");
    insta::assert_snapshot!("findings_120x40", plain(&screen, (120, 40)).unwrap());
    typed(&mut screen, "?");
    insta::assert_snapshot!("help_80x24", plain(&screen, (80, 24)).unwrap());
}

#[test]
fn only_http_has_an_admin_listener() {
    let settings = |url: &str, tls_ca: Option<&str>| HttpSettings {
        url: url.to_owned(),
        token_file: None,
        tls_ca: tls_ca.map(Into::into),
    };
    assert!(Http::new(settings("ftp://x", None)).is_err());
    let error = Http::new(settings("https://x", None)).unwrap_err();
    assert!(error.to_string().contains("--tls-ca"), "{error}");
    let error = Http::new(settings("https://x", Some("/nowhere.pem"))).unwrap_err();
    assert!(error.to_string().contains("/nowhere.pem"), "{error}");
}
