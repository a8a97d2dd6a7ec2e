//! The jobs in `examples/ci` and the commands of `docs/ci.md`, run in the sample project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::explain::sarif_schema;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A copy of the sample project.
struct Sample(tempfile::TempDir);

impl Sample {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(&root().join("examples/ci/sample"), folder.path());
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a script as a job does: it ends with the first command that fails.
    fn run(&self, script: &str) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_cqlens"));
        let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
        Command::new("sh")
            .args(["-e", "-c", script])
            .current_dir(self.0.path())
            .env("PATH", path)
            .output()
            .unwrap()
    }

    /// The exit code of a script and what it printed.
    fn ended(&self, script: &str) -> (Option<i32>, String) {
        let output = self.run(script);
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), printed)
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The commands of a file of jobs: what follows `run:`, `entry:` or a dash and begins with `cqlens`.
fn commands(name: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("examples/ci").join(name)).unwrap();
    let commands = text.lines().filter_map(|line| {
        let line = line.trim();
        let prefixes = ["run: ", "entry: ", "- "];
        let command = prefixes.iter().find_map(|prefix| line.strip_prefix(prefix))?;
        let command = command.split(" #").next()?.trim();
        command.starts_with("cqlens ").then(|| command.to_owned())
    });
    commands.collect()
}

#[test]
fn the_job_for_github_shows_findings_and_uploads_what_it_may() {
    let sample = Sample::new();
    let commands = commands("github-actions.yml");
    let codes: Vec<_> = commands.iter().map(|command| sample.ended(command)).collect();
    let expected = [Some(0), Some(0), Some(1), Some(0)];
    assert_eq!(
        codes.iter().map(|(code, _)| *code).collect::<Vec<_>>(),
        expected,
        "{codes:?}"
    );
    let (_, annotations) = &codes[2];
    assert!(
        annotations.contains("::warning file=queries/orders.cql,line=5,endLine=5,col=1,"),
        "{annotations}"
    );
    let sarif: Value = serde_json::from_slice(&fs::read(sample.path("cqlens.sarif")).unwrap()).unwrap();
    sarif_schema::check(&sarif);
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert!(
        results.iter().any(|result| result["ruleId"] == "allow-filtering"),
        "{sarif:#}"
    );
}

#[test]
fn the_job_for_gitlab_writes_test_results() {
    let sample = Sample::new();
    let codes: Vec<_> = commands("gitlab-ci.yml")
        .iter()
        .map(|command| sample.ended(command).0)
        .collect();
    assert_eq!(codes, [Some(0), Some(0), Some(1)]);
    let xml = fs::read_to_string(sample.path("cqlens.xml")).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let failures = document.descendants().filter(|node| node.has_tag_name("failure"));
    assert_eq!(failures.count(), 1, "{xml}");
}

#[test]
fn the_hook_stops_a_commit_with_a_finding_and_lets_others_pass() {
    let [entry] = <[String; 1]>::try_from(commands("pre-commit-config.yaml")).unwrap();
    let sample = Sample::new();
    assert_eq!(sample.ended(&format!("{entry} queries/orders.cql")).0, Some(1));
    assert_eq!(sample.ended(&format!("{entry} queries/write.cql")).0, Some(0));
    let hook = root().join("examples/ci/pre-commit.sh");
    let script = |file: &str| {
        format!(
            "rm -rf .git; git init -q .; cp '{}' .git/hooks/pre-commit; git add '{file}'; \
             git -c user.name=a -c user.email=a@example.org commit -q -m test",
            hook.display()
        )
    };
    let sample = Sample::new();
    fs::copy(
        sample.path("queries/write.cql"),
        sample.path("queries/two words.cql"),
    )
    .unwrap();
    let (code, printed) = sample.ended(&script("queries/two words.cql"));
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = sample.ended(&script("queries/orders.cql"));
    assert_ne!(code, Some(0), "{printed}");
    assert!(printed.contains("medium[allow-filtering]"), "{printed}");
    let (code, printed) = sample.ended(&script("schema.cql"));
    assert_eq!(code, Some(0), "nothing to lint: {printed}");
}

#[test]
fn statements_in_java_are_found_where_they_stand() {
    let script = root().join("examples/ci/cql-in-source.sh");
    let command = format!(
        "'{}' src --schema schema.cql --fail-on medium --quiet",
        script.display()
    );
    let (code, printed) = Sample::new().ended(&command);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("--> src/Orders.java:4:1"), "{printed}");
    assert!(printed.contains("2 statements in 1 input: 1 medium"), "{printed}");
}

/// The blocks of commands of the guide, in their order, and how they end.
#[test]
fn the_commands_of_the_guide_do_what_it_says() {
    let guide = fs::read_to_string(root().join("docs/ci.md")).unwrap();
    let blocks: Vec<_> = guide
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let expected: &[(Option<i32>, &str)] = &[
        (Some(1), " --> queries/orders.cql:5:1"),
        (Some(0), "in 3 inputs: no findings"),
        (Some(0), "could not be judged"),
        (Some(0), "queries/orders.cql:2: select on shop.orders"),
        (Some(0), "::warning file=queries/orders.cql"),
        (Some(1), " --> src/Orders.java:4:1"),
    ];
    assert_eq!(blocks.len(), expected.len());
    let sample = Sample::new();
    for (block, (code, part)) in blocks.iter().zip(expected) {
        let (ended, printed) = sample.ended(block);
        assert_eq!(ended, *code, "{block}\n{printed}");
        assert!(printed.contains(part), "{block}\n{printed}");
    }
    for drawn in guide.split("```\n").filter(|block| block.starts_with("medium[")) {
        let (_, printed) = sample.ended(blocks[0]);
        assert!(printed.contains(drawn.trim_end()), "{printed}");
    }
}
