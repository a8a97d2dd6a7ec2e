//! Texts that were made to do harm: none of them may get through to a terminal, to XML, to SARIF or to GitHub's commands.

use cqlens_testing::with_everything;
use serde_json::Value;

use crate::explain::{Folder, sarif_schema};

/// Statements, and what stands in for file names where texts say where they are from.
const HOSTILE: &[&str] = &[
    "SELECT v FROM \"k\x1b[2Jv\" WHERE k = 1",
    "SELECT \"a\nb\n::error file=x::pwned\" FROM kv",
    "SELECT v FROM kv WHERE w = ']]> <![CDATA[ </failure> &amp; \u{202e}' ALLOW FILTERING",
    "SELECT \0 FROM kv",
    "\u{1}\u{2}\u{fffe}\u{ffff}\u{85}\u{2028} SELECT",
    "SELECT v FROM kv WHERE w = '\r\n::set-output name=x::y' ALLOW FILTERING",
    "CREATE TABLE shop.\"x<y>&\"\"z%0A\" (k boolean, c int, PRIMARY KEY (k, c))",
    "SELECT v FROM shop.\"%s%n%25\" WHERE k = 1",
    "INSERT INTO kv (k, \"\u{1b}]0;title\u{7}\") VALUES (1, 2)",
    "/* open",
];

fn script() -> String {
    HOSTILE.iter().map(|text| format!("{text};\n")).collect()
}

fn explained(form: &str, input: &str, more: &[&str]) -> String {
    let arguments = ["--schema", "schema.cql", "--verbose", "--format", form];
    let ended = Folder::new().explain(&[&arguments, more].concat(), input.as_bytes());
    assert!(ended.code == Some(2), "{form}: {:?} {}", ended.code, ended.err);
    let is_plain =
        |letter: char| matches!(letter, '\n' | '\t') || !cqlens_report::text::is_unprintable(letter);
    assert!(ended.out.chars().all(is_plain), "{form}: {:?}", ended.out);
    assert!(ended.err.chars().all(is_plain), "{form}: {:?}", ended.err);
    ended.out
}

#[test]
fn nothing_that_moves_a_cursor_gets_out_in_any_form() {
    for form in ["text", "json", "github", "sarif", "junit"] {
        explained(form, &script(), &[]);
    }
}

#[test]
fn json_sarif_and_xml_stay_what_they_are() {
    let json: Value = serde_json::from_str(&explained("json", &script(), &[])).unwrap();
    assert!(json["findings"].as_array().unwrap().len() >= HOSTILE.len() - 1);
    let sarif: Value = serde_json::from_str(&explained("sarif", &script(), &[])).unwrap();
    sarif_schema::check(&sarif);
    let xml = explained("junit", &script(), &[]);
    let document = roxmltree::Document::parse(&xml).unwrap();
    assert!(
        document
            .descendants()
            .any(|node| node.text().is_some_and(|text| text.contains("]]> <![CDATA[")))
    );
}

#[test]
fn every_line_for_github_is_one_command() {
    let out = explained("github", &script(), &[]);
    for line in out.lines() {
        let known = ["::error ", "::warning ", "::notice "];
        assert!(known.iter().any(|command| line.starts_with(command)), "{line}");
        let (properties, _) = line[2..].split_once("::").unwrap();
        let names: Vec<_> = properties
            .split_once(' ')
            .unwrap()
            .1
            .split(',')
            .map(|property| property.split_once('=').unwrap().0)
            .collect();
        let known = ["file", "line", "endLine", "col", "endColumn", "title"];
        assert!(names.iter().all(|name| known.contains(name)), "{line}");
    }
}

#[test]
fn names_of_files_are_no_better() {
    let input =
        "a,line=9::b\u{1b}[2J<x>&\"'.java:1:SELECT v FROM nothing\n../../etc/p%61sswd:4294967295:3:SELECT\n";
    for form in ["text", "json", "github", "sarif", "junit"] {
        let out = explained(form, input, &["--located"]);
        match form {
            "github" => {
                let start = "::error file=a%2Cline=9%3A%3Ab\\u{1b}[2J<x>&\"'.java,line=1,endLine=1,col=15,";
                assert!(out.starts_with(start), "{out}");
            }
            "sarif" => sarif_schema::check(&serde_json::from_str(&out).unwrap()),
            "junit" => drop(roxmltree::Document::parse(&out).unwrap()),
            _ => {}
        }
    }
}

#[test]
fn huge_lines_many_errors_and_deep_nesting_end_soon() {
    let times = if with_everything("the hugest scripts to explain") {
        4
    } else {
        1
    };
    let long = format!(
        "SELECT v FROM kv WHERE w = '{}' ALLOW FILTERING;",
        "x".repeat(times << 20)
    );
    // 25,000 are written.
    let errors = 25_000 + times * 9_000;
    let many = "SELEC 1;".repeat(errors);
    let deep = format!(
        "SELECT v FROM kv WHERE k = {}1{};",
        "(".repeat(times * 25_000),
        ")".repeat(times * 25_000)
    );
    let colons = format!("a:1:{}", "1:".repeat(times * 50_000));
    for (input, more) in [
        (&long, &[][..]),
        (&many, &[]),
        (&deep, &[]),
        (&colons, &["--located"]),
    ] {
        for form in ["github", "sarif"] {
            let arguments = ["--schema", "schema.cql", "--format", form];
            let ended = Folder::new().explain(&[&arguments, more].concat(), input.as_bytes());
            let limit = 40 << 20;
            assert!(ended.out.len() < limit, "{form}: {}", ended.out.len());
        }
    }
    let ended = Folder::new().explain(&["--format", "github"], many.as_bytes());
    assert_eq!(ended.out.lines().count(), 25_000);
    let thousands = |count: usize| format!("{},000", count / 1_000);
    let more = format!(
        "{} more findings are counted but not written",
        thousands(errors - 25_000)
    );
    assert!(ended.err.contains(&more), "{}", ended.err);
    let all = format!("{} errors", thousands(errors));
    assert!(ended.err.contains(&all), "{}", ended.err);
}
