//! The HTML form of reports in a real browser: the demo's, and one of a schema, statements and clients that are made
//! to be taken for markup.
//!
//! The page under test stands in a frame, unchanged and under its own policy, which forbids scripts; what looks at it
//! is the page around the frame. The browser comes from the distribution's package `chromium`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::{Flag, StatementKind},
};
use cqlens_rules::testing::{read, window, write};
use cqlens_testing::{Missing, available};
use cqlens_window::{Cluster, Snapshot, WrittenRow};
use serde_json::Value;

use crate::demo::DEMO;

/// Who runs the demo has a build that is optimised: it takes a fifth of the time, so that rates are greater, and some notes
/// are problems with a section of their own, a tenth of the page together. The page that a user gets is at most 300 KiB.
#[test]
fn the_demos_report_is_small() {
    let most = if cfg!(debug_assertions) {
        295_000
    } else {
        300 * 1_024
    };
    assert!(DEMO.page.len() <= most, "{} bytes", DEMO.page.len());
    let pictures = DEMO.page.matches("<svg").count();
    assert!(pictures <= 60, "{pictures} pictures");
}

#[test]
fn the_demos_report_has_chapters_and_no_latencies() {
    let (_, chapters) = DEMO.page.split_once("<section id=\"chapters\"").unwrap();
    let (chapters, _) = chapters.split_once("</section>").unwrap();
    for model in [
        "A table for each look-up",
        "Take the first, delete it",
        "the ring",
    ] {
        assert!(chapters.contains(model), "{model}: {chapters}");
    }
    for unit in [" ms<", " ms ", " µs"] {
        let (before, _) = DEMO.page.split_once(unit).unwrap_or_default();
        let from = before.char_indices().rev().nth(80).map_or(0, |(at, _)| at);
        assert_eq!(&before[from..], "", "a latency of the stand-in");
    }
}

#[test]
fn the_demos_report_works_in_a_browser() {
    let Some(browser) = available("the report in a browser", Browser::find()) else {
        return;
    };
    let seen = browser.look_at(&DEMO.page, &[]);
    complain_of_nothing(&seen);
    let screens = seen["height"].as_f64().unwrap() / 900.0;
    assert!(screens <= 12.0, "{screens} screens");
    let first = seen["under_the_list"].as_f64().unwrap();
    assert!(first <= 900.0, "the list of problems ends at {first}");
    let pages = browser.pages_of(&DEMO.page);
    assert!((2..=15).contains(&pages), "{pages} pages");
}

#[test]
fn the_report_is_dark_where_the_reader_wants_it() {
    let Some(browser) = available("the report in the dark", Browser::find()) else {
        return;
    };
    let page = hostile();
    let light = browser.look_at(&page, &[]);
    let dark = browser.look_at(&page, &["--blink-settings=preferredColorScheme=0"]);
    assert_eq!(light["background"], "rgb(251, 250, 248)");
    assert_eq!(dark["background"], "rgb(22, 21, 20)");
    complain_of_nothing(&dark);
}

#[test]
fn nothing_that_a_client_sends_becomes_an_element() {
    let page = hostile();
    for text in ["Script alert", "&#60;/style&#62;", "\\u{202e}", "&#60;/code&#62;"] {
        assert!(page.contains(text), "{text} is shown: {page}");
    }
    assert!(!page.contains('\u{202e}'));
    let Some(browser) = available("hostile text in a browser", Browser::find()) else {
        return;
    };
    complain_of_nothing(&browser.look_at(&page, &[]));
}

#[test]
fn a_report_table_by_table_works_in_a_browser_with_the_line_of_a_partition_that_grows() {
    let page = growing();
    assert!(
        page.contains("class=\"chart\"") && page.contains("observed for 5 h"),
        "{page}"
    );
    assert!(page.contains("class=\"fold table\"") && page.contains("at this rate 100,000 rows in "));
    let Some(browser) = available("the report table by table in a browser", Browser::find()) else {
        return;
    };
    let seen = browser.look_at(&page, &[]);
    for nothing in [
        "dead_links",
        "folds_that_stay_closed",
        "strange_elements",
        "too_wide",
        "messages",
    ] {
        assert_eq!(seen[nothing], serde_json::json!([]), "{nothing}");
    }
}

/// A report table by table of a table whose one partition got a hundred rows an hour.
fn growing() -> String {
    let schema = "
        CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
        CREATE TABLE shop.orders (lab text, at timestamp, id int, PRIMARY KEY (lab, at, id));";
    let insert = write(
        "INSERT INTO shop.orders (lab, at, id) VALUES (?, ?, ?)",
        StatementKind::Insert,
        &[],
        500,
    );
    let mut window = window([insert]);
    window.close(window.start + jiff::SignedDuration::from_hours(5));
    let name = cqlens_cql::schema::TableName {
        keyspace: "shop".to_owned(),
        table: "orders".to_owned(),
    };
    let begin = window.start.as_millisecond();
    window.count_table(&name, |traffic| {
        traffic.writes = 500;
        for row in 0..=500_u64 {
            let hash = (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            traffic.inserted.inserts += 1;
            traffic.inserted.rows.insert(hash);
            let at = begin + row.cast_signed() * 36_000;
            let written = WrittenRow {
                partition: 7,
                bytes: 40,
                at,
            };
            traffic.inserted.sample.insert(hash, written);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let snapshot = Snapshot::new(window, Cluster::default(), schema.to_owned(), "key".to_owned());
    let mut file = fs::File::create(folder.path().join("1.cqlens.json")).unwrap();
    snapshot.write(&mut file).unwrap();
    cqlens(
        &["report", "1.cqlens.json", "--by-table", "-o", "report.html"],
        folder.path(),
    );
    fs::read_to_string(folder.path().join("report.html")).unwrap()
}

/// Links that lead nowhere, folds that a link does not open, elements and attributes that the templates have not, text
/// that runs out of the page, messages of the browser.
fn complain_of_nothing(seen: &Value) {
    assert_eq!(seen["dead_links"], serde_json::json!([]));
    assert!(seen["links"].as_u64().unwrap() > 20, "{seen}");
    assert_eq!(seen["folds_that_stay_closed"], serde_json::json!([]));
    assert!(seen["folds"].as_u64().unwrap() > 3, "{seen}");
    assert_eq!(seen["strange_elements"], serde_json::json!([]));
    assert_eq!(seen["strange_attributes"], serde_json::json!([]));
    assert_eq!(seen["too_wide"], serde_json::json!([]));
    assert_eq!(seen["messages"], serde_json::json!([]));
}

/// A report of names, comments, statements and clients that would be markup if anything were not escaped.
fn hostile() -> String {
    let schema = "
        CREATE KEYSPACE \"</style><script>\" WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
        CREATE TABLE \"</style><script>\".\"<img src=x onerror=pwned()>\" (
            \"'\"\"><b id=problems>\" text PRIMARY KEY, \"\u{202e}gnp.exe\" text)
            WITH comment = 'Q1. </section></main><script>pwned()</script> \u{202e}';";
    let table = "\"</style><script>\".\"<img src=x onerror=pwned()>\"";
    let statements = [
        format!("SELECT * FROM {table} WHERE \"\u{202e}gnp.exe\" = ? ALLOW FILTERING"),
        format!(
            "SELECT \"</code></pre><svg onload=pwned()>\" FROM {table} WHERE \"'\"\"><b id=problems>\" = ?"
        ),
        "SELECT \"--></title><iframe src=javascript:pwned()>\" FROM nowhere.\"<!--\" WHERE a = ?".to_owned(),
    ];
    let mut patterns = statements.map(|cql| {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded, Flag::SelectStar];
        let mut pattern = read(&cql, &flags, PartitionClass::Scan, 40_000);
        pattern.head.keyspace = Some("</style><script>".to_owned());
        pattern.head.table = Some("<img src=x onerror=pwned()>".to_owned());
        let client = "Script alert<script>pwned()</script> 4.2 (\"><a href=javascript:pwned()>) 10.0.0.1";
        pattern.clients.insert(client.to_owned(), 40_000);
        pattern
    });
    patterns[1].head.kind = StatementKind::Batch;
    patterns[1].head.cql = format!("BEGIN BATCH {}; </pre>; APPLY BATCH", statements_of_batch());
    patterns[2].head.keyspace = None;
    patterns[2].head.table = None;
    let mut window = window(patterns);
    for client in window
        .patterns
        .values()
        .flat_map(|pattern| pattern.clients.keys().cloned())
        .collect::<Vec<_>>()
    {
        window.count_client(&client, 40_000);
    }
    let name = cqlens_cql::schema::TableName {
        keyspace: "</style><script>".to_owned(),
        table: "<img src=x onerror=pwned()>".to_owned(),
    };
    window.count_table(&name, |traffic| traffic.reads = 80_000);
    window.coverage.requests = 120_000;
    window.coverage.audited = 120_000;
    window.coverage.partitions_scan = 120_000;
    window
        .coverage
        .notices
        .insert("`<script>pwned()</script>` & \"quoted\"".to_owned());
    let cluster = Cluster {
        name: Some("</title><script>pwned()</script>".to_owned()),
        ..Cluster::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let snapshot = Snapshot::new(window, cluster, schema.to_owned(), "key".to_owned());
    let mut file = fs::File::create(folder.path().join("1.cqlens.json")).unwrap();
    snapshot.write(&mut file).unwrap();
    cqlens(&["report", "1.cqlens.json", "-o", "report.html"], folder.path());
    fs::read_to_string(folder.path().join("report.html")).unwrap()
}

fn statements_of_batch() -> String {
    let insert = "INSERT INTO a.\"</code><script>pwned();\" (b) VALUES (?)";
    [insert; 7].join("; ")
}

fn cqlens(arguments: &[&str], folder: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cqlens"));
    let output = command.args(arguments).current_dir(folder).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

struct Browser {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Browser {
    fn find() -> Result<Self, Missing> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let mut programs =
            std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
        let program = programs
            .find(|program| program.is_file())
            .ok_or_else(|| Missing("`chromium` was not found".to_owned()))?;
        Ok(Self {
            program,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    /// What `LOOK` finds, and what the browser says on its console.
    fn look_at(&self, page: &str, flags: &[&str]) -> Value {
        let text = serde_json::to_string(page).unwrap().replace('<', "\\u003c");
        let around = format!(
            "<!doctype html><meta charset=utf-8><script type=\"application/json\" id=page>{text}</script><script>{LOOK}</script>"
        );
        let mut flags = flags.to_vec();
        flags.extend([
            "--virtual-time-budget=20000",
            "--enable-logging=stderr",
            "--dump-dom",
        ]);
        let output = self.run(&around, &flags);
        let dom = String::from_utf8(output.stdout).unwrap();
        let found = dom
            .split("<title>")
            .nth(1)
            .and_then(|rest| rest.split("</title>").next());
        let found = STANDARD
            .decode(found.unwrap_or_else(|| panic!("no result: {dom:.400}")))
            .unwrap();
        let mut seen: Value = serde_json::from_slice(&found).unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        let messages: Vec<_> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        seen["messages"] = messages.into();
        seen
    }

    /// How many pages are printed.
    fn pages_of(&self, page: &str) -> usize {
        let paper = self.folder.path().join("page.pdf");
        let print = format!("--print-to-pdf={}", paper.display());
        self.run(page, &["--no-pdf-header-footer", &print]);
        let pdf = fs::read(paper).unwrap();
        let mark = b"/Type /Page\n";
        pdf.windows(mark.len()).filter(|bytes| bytes == mark).count()
    }

    fn run(&self, page: &str, flags: &[&str]) -> Output {
        let file = self.folder.path().join("page.html");
        fs::write(&file, page).unwrap();
        // The page is our own, and there is no sandbox for root.
        let output = Command::new("timeout")
            .arg("120")
            .arg(&self.program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--window-size=1440,900",
            ])
            .arg(format!(
                "--user-data-dir={}",
                self.folder.path().join("profile").display()
            ))
            .args(flags)
            .arg(format!("file://{}", file.display()))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }
}

/// Looks at the page in its frame, and leaves what it has found in the title.
const LOOK: &str = r##"
const frame = document.createElement('iframe');
const seen = {};
const wait = () => new Promise(done => setTimeout(done, 50));
const look = async () => {
    const page = frame.contentDocument, root = page.documentElement;
    seen.height = root.scrollHeight;
    seen.background = frame.contentWindow.getComputedStyle(page.body).backgroundColor;
    const list = page.getElementById('problems');
    seen.under_the_list = list ? list.getBoundingClientRect().bottom : 0;
    const links = [...page.querySelectorAll('[href]')].map(link => link.getAttribute('href'));
    seen.links = links.length;
    seen.dead_links = links.filter(link => !link.startsWith('#') || !page.getElementById(link.slice(1)));
    const known = ('html head meta title style body header main nav footer section h1 h2 h3 h4 p div span b i a ul ol li ' +
        'dl dt dd table caption thead tbody tr th td details summary pre code wbr br figure figcaption svg g path rect ' +
        'text tspan title line').split(' ');
    const elements = [...page.querySelectorAll('*')];
    seen.strange_elements = elements.map(one => one.localName).filter(name => !known.includes(name));
    const attributes = elements.flatMap(one => [...one.attributes].map(attribute => attribute.name));
    seen.strange_attributes = attributes.filter(name => /^on|^src|^action/.test(name));
    seen.too_wide = [];
    for (const width of [1440, 768, 390]) {
        frame.style.width = width + 'px';
        await wait();
        if (root.scrollWidth > width) seen.too_wide.push(width + ': ' + root.scrollWidth);
    }
    const closed = [...page.querySelectorAll('details:not([open]) > [id]')].map(one => one.id);
    const folds = closed.filter((_, at) => at % Math.ceil(closed.length / 12) === 0);
    seen.folds = folds.length;
    seen.folds_that_stay_closed = [];
    for (const id of folds) {
        frame.contentWindow.location.hash = '#' + id;
        await wait();
        for (let one = page.getElementById(id).parentElement; one; one = one.parentElement) {
            if (one.localName === 'details' && !one.open) seen.folds_that_stay_closed.push(id);
        }
    }
    const bytes = new TextEncoder().encode(JSON.stringify(seen));
    document.title = btoa(String.fromCharCode(...bytes));
};
frame.style.cssText = 'border:0;width:1440px;height:900px';
frame.onload = () => { frame.onload = null; look(); };
frame.srcdoc = JSON.parse(document.getElementById('page').textContent);
document.documentElement.append(frame);
"##;
