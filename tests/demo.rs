//! `cqlens demo` as a user runs it: the report says of every scenario what its verdict says, and the terminal
//! says what was done and by whom.

use std::process::{Command, Output};
use std::sync::LazyLock;

use crate::verdict;
use cqlens_cql::{
    plan::Plan,
    schema::Schema,
    syntax::{
        self,
        ast::{Body, Statement},
    },
};
use cqlens_testing::with_everything;

pub(crate) struct Demo {
    output: Output,
    report: serde_json::Value,
    /// The same report as a page.
    pub(crate) page: String,
}

impl Demo {
    fn run() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let output = cqlens(&["demo", "-o", "demo.json", "-o", "demo.html"], folder.path());
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let written = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        Self {
            output,
            report: serde_json::from_str(&written("demo.json")).unwrap(),
            page: written("demo.html"),
        }
    }

    /// The ids of a list of the report, in its order.
    fn ids(&self, list: &str) -> Vec<String> {
        listed(&self.report, list, "id")
    }
}

/// One run for all tests: it sends tens of thousands of requests.
pub(crate) static DEMO: LazyLock<Demo> = LazyLock::new(Demo::run);

fn cqlens(arguments: &[&str], folder: &std::path::Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn the_report_says_of_every_scenario_what_its_verdict_says() {
    let ids = verdict::ids();
    assert!(ids.len() >= 12, "{ids:?}");
    let complaints: Vec<_> = ids
        .iter()
        .flat_map(|id| verdict::read(id).complaints(id, &DEMO.report))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn the_report_is_what_its_json_schema_says() {
    let schema = std::fs::read_to_string("docs/schema/cqlens.report.v1.json").unwrap();
    let schema = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap();
    let errors = validator.iter_errors(&DEMO.report);
    let errors: Vec<_> = errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// What the report says of a list's entries, in its order.
fn listed(report: &serde_json::Value, list: &str, name: &str) -> Vec<String> {
    let entries = report[list].as_array().unwrap();
    entries.iter().map(|entry| entry[name].to_string()).collect()
}

#[test]
fn the_page_has_the_same_problems_in_the_same_order() {
    for list in ["problems", "findings"] {
        let ids = DEMO.ids(list);
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(
            distinct.len(),
            ids.len(),
            "each of the {list} has an id of its own"
        );
    }
    let of_page = |kind: &str| -> Vec<String> {
        let start = format!("id=\"{kind}-");
        let sections = DEMO.page.split(&start).skip(1);
        let ids = sections.map(|section| section.split_once('"').unwrap().0);
        ids.map(|id| format!("\"{id}\"")).collect()
    };
    // A problem to plan for has a section, the others lie in a table at the end.
    let problems = DEMO.report["problems"].as_array().unwrap();
    let planned = problems.iter().filter(|problem| {
        let severity = problem["severity"].as_str().unwrap();
        ["high", "medium"].contains(&severity)
    });
    let planned: Vec<_> = planned.map(|problem| problem["id"].to_string()).collect();
    assert_eq!(of_page("problem")[..planned.len()], planned);
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    assert_eq!(sorted(of_page("finding")), sorted(DEMO.ids("findings")));
}

#[test]
fn another_run_finds_the_same_in_the_same_order() {
    if !with_everything("another run of the demo") {
        return;
    }
    let other = Demo::run();
    for list in ["problems", "findings"] {
        assert_eq!(other.ids(list), DEMO.ids(list), "{list}");
    }
}

/// What a consultant would put on the agenda, and with what is only worth knowing.
const PROBLEMS: (std::ops::RangeInclusive<usize>, usize) = (10..=17, 50);

#[test]
fn three_dozen_scenarios_have_about_a_dozen_problems() {
    let problems = DEMO.report["problems"].as_array().unwrap();
    let titles = |severities: &[&str]| -> Vec<&serde_json::Value> {
        let of = problems.iter().filter(|problem| {
            let severity = problem["severity"].as_str().unwrap();
            severities.contains(&severity)
        });
        of.map(|problem| &problem["title"]).collect()
    };
    let grave = titles(&["high", "medium"]);
    let (some, all) = PROBLEMS;
    assert!(
        some.contains(&grave.len()),
        "{} problems: {grave:#?}",
        grave.len()
    );
    assert!(problems.len() <= all, "{} problems", problems.len());
}

#[test]
fn a_queue_is_one_problem_however_many_rules_see_it() {
    let problems = DEMO.report["problems"].as_array().unwrap();
    let mut of_queue = problems.iter().filter(|problem| problem["keyspace"] == "queue");
    let rules = serde_json::json!(["queue-pattern", "tombstone-heavy-read", "delete-heavy"]);
    let mut found: Vec<_> = of_queue.next().unwrap()["rules"].as_array().unwrap().clone();
    let mut expected = rules.as_array().unwrap().clone();
    let text = |rule: &serde_json::Value| rule.to_string();
    found.sort_by_key(text);
    expected.sort_by_key(text);
    assert_eq!((found, of_queue.next()), (expected, None));
}

#[test]
fn what_is_grave_comes_with_cql_or_with_its_own_statement_in_a_better_way() {
    let findings = DEMO.report["findings"].as_array().unwrap();
    let grave = || findings.iter().filter(|finding| finding["severity"] == "high");
    assert!(grave().count() > 5);
    let bare: Vec<_> = grave()
        .filter(|finding| finding["suggested_cql"].as_array().is_none_or(Vec::is_empty))
        .filter(|finding| finding["example"]["own_statement"] != true)
        .map(|finding| &finding["title"])
        .collect();
    assert!(bare.is_empty(), "{bare:#?}");
}

#[test]
fn what_is_suggested_is_accepted_and_drops_nothing() {
    let schema = |id: &String| std::fs::read_to_string(format!("tests/scenarios/{id}/schema.cql")).unwrap();
    let schemas: String = verdict::ids().iter().map(schema).collect();
    let mut suggestions = 0;
    for finding in DEMO.report["findings"].as_array().unwrap() {
        let cql = finding["suggested_cql"].as_array().unwrap().iter();
        let script: Vec<_> = cql.map(|cql| cql.as_str().unwrap()).collect();
        let script = script.join("\n");
        let statements: Vec<_> = syntax::statements(&script)
            .map(|(span, statement)| (&script[span.range()], statement.unwrap()))
            .collect();
        let is_definition = |statement: &Statement<'_>| {
            !matches!(
                statement.body,
                Body::Select(_) | Body::Insert(_) | Body::Update(_) | Body::Delete(_) | Body::Batch(_)
            )
        };
        let (definitions, others): (Vec<_>, Vec<_>) = statements
            .iter()
            .partition(|(_, statement)| is_definition(statement));
        let definitions: String = definitions.iter().map(|(text, _)| format!("{text};\n")).collect();
        assert!(!definitions.contains("\nDROP"), "{definitions}");
        let schema = Schema::from_cql(&format!("{schemas}\n{definitions}")).unwrap();
        for (text, statement) in others {
            let plan = Plan::of(statement, None, &schema);
            assert_eq!(plan.refusal(), None, "{text}");
        }
        suggestions += usize::from(!script.is_empty());
    }
    assert!(suggestions > 20, "{suggestions}");
}

/// In each chapter but those of writes the first model is worse than the last one, in what it touches or in what was found.
#[test]
fn chapters_set_the_worse_model_beside_the_better_one() {
    let chapters = DEMO.report["chapters"].as_array().unwrap();
    assert!((6..=12).contains(&chapters.len()), "{} chapters", chapters.len());
    let figures = |chapter: usize, model: usize| {
        let model = &chapters[chapter]["models"][model];
        ["partitions_per_operation", "rows_per_operation", "tombstones_max"].map(|name| model[name].as_f64())
    };
    assert_eq!(
        figures(0, 0),
        [Some(2.0), Some(2.0), Some(0.0)],
        "the id, then the user"
    );
    assert_eq!(
        figures(0, 1),
        [Some(1.0), Some(1.0), Some(0.0)],
        "a table for each look-up"
    );
    assert_eq!(figures(1, 0)[0], Some(21.0), "a group of twenty ids");
    assert_eq!(
        figures(1, 1)[0],
        Some(4.0),
        "four buckets, by four reads or by one"
    );
    let of_jobs = [figures(6, 0)[2], figures(6, 1)[2]];
    assert_eq!(
        of_jobs,
        [Some(1_299.0), Some(0.0)],
        "the tombstones of all jobs before the last"
    );
    let problems = |model: &serde_json::Value| model["problems"].as_array().unwrap().len();
    for chapter in chapters.iter().filter(|chapter| chapter["title"] != "Writes.") {
        let models = chapter["models"].as_array().unwrap();
        let (worst, best) = (&models[0], models.last().unwrap());
        assert!(problems(worst) > 0, "{worst}");
        assert_ne!(best["reads_the_ring"], true, "{best}");
    }
}

#[test]
fn nothing_that_was_sent_is_missing_in_the_report() {
    let coverage = &DEMO.report["coverage"];
    assert_eq!(coverage["audited"], coverage["requests"]);
    for missing in [
        "dropped",
        "undecoded",
        "partitions_unknown",
        "unparsed",
        "unanswered",
    ] {
        assert_eq!(coverage[missing], 0, "{missing} of {coverage}");
    }
    // Users without an e-mail address.
    assert_eq!(DEMO.report["totals"]["errors"], 10);
}

#[test]
fn report_and_terminal_say_that_the_node_is_a_stand_in() {
    let notices = DEMO.report["coverage"]["notices"].to_string();
    assert!(notices.contains("stand-in"), "{notices}");
    let printed = String::from_utf8_lossy(&DEMO.output.stdout);
    assert!(
        printed.contains("The node is a stand-in, not Cassandra"),
        "{printed}"
    );
}

#[test]
fn what_is_piped_has_no_colour_and_names_findings_and_report() {
    let printed = String::from_utf8_lossy(&DEMO.output.stdout);
    assert!(!printed.contains('\x1b') && !printed.contains('\r'), "{printed}");
    assert!(printed.contains("\n  high      "), "{printed}");
    assert!(printed.lines().count() <= 24, "more than a screen: {printed}");
    let wide = printed.lines().filter(|line| !line.starts_with("Report: "));
    assert!(wide.clone().all(|line| line.chars().count() <= 100), "{printed}");
    let report = printed
        .lines()
        .find_map(|line| line.strip_prefix("Report: "))
        .unwrap();
    assert!(report.ends_with("/demo.json"), "{report}");
}

#[test]
fn a_report_of_an_unknown_format_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let output = cqlens(&["demo", "-o", "report.txt"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("must end in .html, .md, .json, .csv, .tsv or .svg")
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A text with every number as 0: they differ between machines and builds.
fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        let is_of_number = letter.is_ascii_digit() || plain.ends_with('0') && ",.".contains(letter);
        match is_of_number {
            true if plain.ends_with('0') => {}
            true => plain.push('0'),
            false => plain.push(letter),
        }
    }
    plain
}

/// The lines of the README's first block of a language.
fn readme_block<'r>(readme: &'r str, language: &str) -> Vec<&'r str> {
    let start = format!("```{language}");
    let lines = readme.lines().skip_while(|line| *line != start).skip(1);
    lines.take_while(|line| *line != "```").collect()
}

#[test]
fn the_readme_is_short_and_shows_what_the_demo_prints() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    assert!(readme.lines().count() <= 90, "{}", readme.lines().count());
    let printed = String::from_utf8_lossy(&DEMO.output.stdout);
    let printed: Vec<_> = printed.lines().map(without_numbers).collect();
    let shown = readme_block(&readme, "text");
    assert!(shown.len() > 4, "{shown:?}");
    // Lines are left out, none is changed.
    for line in shown.iter().filter(|line| **line != "…") {
        assert!(printed.contains(&without_numbers(line)), "{line}\n{printed:#?}");
    }
    let statements = readme_block(&readme, "sql");
    let comment = statements.iter().position(|line| line.starts_with("--"));
    let (queries, fix) = statements.split_at(comment.unwrap());
    let patterns = listed(&DEMO.report, "patterns", "cql");
    for query in queries {
        assert!(
            patterns
                .iter()
                .any(|cql| cql.trim_matches('"') == query.trim_end_matches(';')),
            "{query}"
        );
    }
    let suggested = DEMO.report["findings"].to_string();
    for statement in &fix[1..] {
        assert!(suggested.contains(statement.trim_end_matches(';')), "{statement}");
    }
}
