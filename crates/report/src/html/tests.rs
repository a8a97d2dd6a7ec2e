//! The page of reports that show everything, of an empty one, and of large ones.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::testing::{busy_report, report};
use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::TableName};
use cqlens_rules::testing::{read, window};
use cqlens_window::Window;

fn html(report: &Report) -> String {
    let mut html = Vec::new();
    render(report, &mut html).unwrap();
    String::from_utf8(html).unwrap()
}

#[test]
fn hostile_text_stays_text() {
    let page = html(&busy_report());
    assert!(
        page.contains("&#60;script&#62;alert(1)&#60;/script&#62;"),
        "the client's name is shown"
    );
    assert!(!page.contains("<script"), "no element is made of it");
    assert_eq!(prose("`a<b` & \"c\"").0, "<code>a&#60;b</code> &#38; &#34;c&#34;");
    assert_eq!(prose("an odd ` backtick").0, "an odd ` backtick");
}

#[test]
fn what_is_accepted_or_gone_is_shown_with_what_is_said_of_it() {
    let report = busy_report();
    assert!(!report.accepted.is_empty() && !report.idle_acceptances.is_empty());
    let page = html(&report);
    for said in [
        "Accepted by team &#60;b&#62; until 1 March 2027: it is <code>rare</code> &#38; &#60;i&#62;cheap&#60;/i&#62; (cqlens.toml:7).",
        "Was accepted by team &#60;b&#62; until 1 March 2026, now expired",
        "No finding matches what is accepted by team &#60;b&#62; until 1 March 2027: \
            <code>counter-batch</code> (cqlens.toml:7).",
        "A mistake:</b> The comment of <code>lab.users_by_id</code> contains <code>cqlens:accept \
            &#60;u&#62; select-star</code>",
        "Gone since the last review",
        "<a href=\"#accepted\">1 accepted</a>",
        "<span class=\"new\">new</span>",
    ] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn the_file_needs_nothing_but_itself() {
    let page = html(&busy_report());
    for outside in [
        "http:", "https:", "url(", "@import", "src=", "<link", "<iframe", "onclick",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn every_link_leads_somewhere_and_every_id_is_unique() {
    for report in [busy_report(), busy_report().table_by_table()] {
        links_lead_somewhere(&html(&report));
    }
}

fn links_lead_somewhere(page: &str) {
    let after = |mark: &str| -> Vec<String> {
        let rest = page.split(mark).skip(1);
        rest.map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect()
    };
    let ids = after(" id=\"");
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len());
    for link in after("href=\"#") {
        assert!(unique.contains(&link), "#{link}");
    }
}

#[test]
fn every_picture_has_a_label_or_is_not_read_out() {
    for svg in html(&busy_report()).split("<svg").skip(1) {
        let tag = svg.split('>').next().unwrap();
        assert!(
            tag.contains("aria-label=\"") || tag.contains("aria-hidden"),
            "{tag}"
        );
    }
}

#[test]
fn every_element_is_closed_in_order() {
    const VOID: [&str; 6] = ["meta", "br", "wbr", "rect", "path", "!doctype"];
    // They end with the next one, or with what they are in.
    const CELLS: [&str; 2] = ["td", "th"];
    const ITEMS: [&str; 4] = ["li", "dt", "dd", "tr"];
    const AROUND: [&str; 4] = ["/ul", "/dl", "/thead", "/tbody"];
    let by_table = busy_report().table_by_table();
    for report in [busy_report(), report(&window([])), by_table] {
        let page = html(&report);
        let body = page.split_once("</style>").unwrap().1;
        let mut open = vec!["html", "head"];
        for tag in body
            .split('<')
            .skip(1)
            .map(|rest| rest.split('>').next().unwrap())
        {
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            let ends_an_item = ITEMS.contains(&name) || AROUND.contains(&tag);
            let ends_a_cell = ends_an_item || CELLS.contains(&name);
            open.pop_if(|last| ends_a_cell && CELLS.contains(last));
            open.pop_if(|last| ends_an_item && ITEMS.contains(last));
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "{tag}");
            } else if !VOID.contains(&name) || (name == "rect" && !tag.ends_with('/')) {
                open.push(name);
            }
        }
        assert_eq!(open, Vec::<&str>::new());
    }
}

#[test]
fn table_by_table_each_problem_is_in_the_section_of_its_table() {
    let report = busy_report().table_by_table();
    let page = html(&report);
    let (before, tables) = page.split_once("<h2 id=\"tables\">").unwrap();
    assert!(!before.contains("<h2 id=\"details\">"), "tables come first");
    assert!(before.contains("<th scope=\"col\">Worst<"), "{before}");
    let sections = tables.split("<details class=\"fold table\"").skip(1);
    let jobs = sections
        .clone()
        .find(|section| section.contains("<h3>work.jobs</h3>"))
        .unwrap();
    let worst = report.problems.first().unwrap();
    assert!(jobs.contains(&format!("id=\"problem-{}\"", worst.id)), "{jobs}");
    assert!(jobs.contains(&format!("id=\"fix-{}\"", worst.id)));
    let found = page.matches("<details class=\"fold prob ").count();
    let above_info = report.problems.iter().filter(|one| one.severity > Severity::Info);
    assert_eq!(found, above_info.count(), "each once");
}

#[test]
fn an_empty_window_does_not_look_healthy() {
    let page = html(&report(&window([])));
    assert!(page.contains("No requests were seen."));
    assert!(!page.contains("100 %") && !page.contains("0 high"));
    assert!(
        page.contains("<span class=\"rule\">allow-filtering, "),
        "the rules that ran are named"
    );
}

/// A window of so many statements on tables of ten each, with a spread of latencies and rows; one of twenty filters.
fn large(statements: usize) -> Window {
    let patterns = (0..statements).map(|at| {
        let (table, column) = (at / 10, at % 10);
        let filters = at % 20 == 0;
        let ending = if filters { " ALLOW FILTERING" } else { "" };
        let cql = format!(
            "SELECT first_name, last_name, address FROM shop.customers_{table} WHERE customer_{column} = ?{ending}"
        );
        let (flags, class) = match filters {
            true => ([Flag::AllowFiltering, Flag::FilteringNeeded], PartitionClass::Scan),
            false => ([Flag::FullPartitionKey, Flag::Limit], PartitionClass::Single),
        };
        let mut pattern = read(&cql, &flags, class, 1_000 + at as u64);
        for value in 0..40 {
            pattern.latency_us.record(400 + value * 31);
            pattern.rows.record(value * value);
        }
        pattern.clients.insert(format!("service-{} 1.{column} (driver 4.17) 10.0.0.{column}", at % 9), 1_000);
        pattern
    });
    let mut window = window(patterns);
    for table in 0..statements / 10 {
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: format!("customers_{table}"),
        };
        window.tables.entry(name).or_default().reads = 10_000;
    }
    window
}

#[test]
fn five_hundred_patterns_are_less_than_a_megabyte() {
    let page = html(&report(&large(500)));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    let pictures = page.matches("<svg").count();
    assert!(pictures < 120, "{pictures} pictures");
}

#[test]
fn of_ten_thousand_patterns_the_costliest_are_shown_and_the_others_counted() {
    let page = html(&report(&large(10_000)));
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(page.matches("<svg").count() < 200);
    assert!(page.contains("9,500 more patterns, each cheaper than these, are in the JSON form."));
    assert!(page.contains("800 more tables"));
}
