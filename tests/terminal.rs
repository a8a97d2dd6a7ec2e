//! The habits of terminals that `cqlens` has: completions, manual pages, colors, settings that are found.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use cqlens_testing::{Missing, available};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

/// `cqlens` in a folder, with nothing in its environment that says anything about colors.
fn cqlens(arguments: &[&str], folder: &Path, environment: &[(&str, &str)]) -> Output {
    Command::new(PROGRAM)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR")
        .env_remove("CLICOLOR_FORCE")
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = cqlens(arguments, Path::new("."), &[]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a program prints that is given this text; it must not complain.
fn fed(program: &str, arguments: &[&str], text: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What bash proposes for the last of these words.
fn proposed(words: &[&str]) -> Vec<String> {
    let last = words.last().unwrap();
    let before = words[words.len() - 2];
    let script = format!(
        "{}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_cqlens cqlens '{last}' '{before}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        printed(&["completions", "bash"]),
        words
            .iter()
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>()
            .join(" "),
        words.len() - 1,
    );
    let proposed = fed("bash", &["--norc", "-s"], &script);
    proposed.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    fed("bash", &["-n"], &printed(&["completions", "bash"]));
    assert_eq!(proposed(&["cqlens", "repo"]), ["report"]);
    assert_eq!(proposed(&["cqlens", "report", "--base"]), ["--baseline"]);
    assert_eq!(
        proposed(&["cqlens", "report", "--format", ""]),
        ["html", "md", "json", "csv", "tsv", "svg"]
    );
    assert_eq!(proposed(&["cqlens", "--color", "n"]), ["never"]);
}

#[test]
fn zsh_and_fish_get_scripts_of_their_own() {
    assert!(printed(&["completions", "zsh"]).starts_with("#compdef cqlens\n"));
    assert!(printed(&["completions", "fish"]).contains("complete -c cqlens"));
    let refused = cqlens(&["completions", "tcsh"], Path::new("."), &[]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn manual_pages_are_written_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let man = folder.path().join("share/man1");
    let output = cqlens(&["man", "-o", man.to_str().unwrap()], folder.path(), &[]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    for name in ["cqlens", "cqlens-proxy", "cqlens-report", "cqlens-man"] {
        let page = fs::read_to_string(man.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
    assert_eq!(
        printed(&["man"]),
        fs::read_to_string(man.join("cqlens.1")).unwrap()
    );
    let groff = Command::new("groff").arg("--version").output();
    let groff = groff.map_err(|_| Missing("there is no groff".to_owned()));
    if available("manual pages as they are drawn", groff).is_none() {
        return;
    }
    let page = fs::read_to_string(man.join("cqlens-proxy.1")).unwrap();
    let drawn = fed("groff", &["-man", "-Tascii", "-ww", "-P-cbou"], &page);
    for part in [
        "--upstream",
        "CQLENS_UPSTREAM",
        "127.0.1.{n}:9042",
        "\nEXAMPLES\n",
        "\nEXIT CODES\n",
    ] {
        assert!(drawn.contains(part), "{part}\n{drawn}");
    }
}

#[test]
fn colors_are_where_they_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cqlens.toml"), "").unwrap();
    fs::write(folder.path().join("wrong.cql"), "SELEKT 1;").unwrap();
    let is_colored = |bytes: &[u8]| bytes.contains(&0x1b);
    let colors = |environment: &[(&str, &str)], flag: &[&str]| {
        let run = |arguments: &[&str]| cqlens(&[arguments, flag].concat(), folder.path(), environment);
        [
            is_colored(&run(&["--help"]).stdout),
            is_colored(&run(&["no-such-command"]).stderr),
            is_colored(&run(&["rules", "--log", "debug"]).stderr),
            is_colored(&run(&["explain", "wrong.cql"]).stdout),
        ]
    };
    let (all, none) = ([true; 4], [false; 4]);
    assert_eq!(colors(&[], &[]), none, "a pipe");
    assert_eq!(colors(&[], &["--color", "always"]), all);
    assert_eq!(colors(&[("CLICOLOR_FORCE", "1")], &[]), all);
    let both = [("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")];
    assert_eq!(colors(&both, &[]), none);
    assert_eq!(colors(&both, &["--color=always"]), all);
    assert_eq!(colors(&both[..1], &["--color=never"]), none);
    fs::write(folder.path().join("cqlens.toml"), "color = 'always'").unwrap();
    assert_eq!(colors(&[], &[]), [false, false, true, true], "the file");
}

/// How the rule is limited, as `cqlens rules` sees it.
fn limit(arguments: &[&str], folder: &Path) -> Option<String> {
    let output = cqlens(
        &[&["rules", "timeouts", "--format", "json"], arguments].concat(),
        folder,
        &[],
    );
    assert!(output.status.success(), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    json["severity_limit"].as_str().map(str::to_owned)
}

#[test]
fn settings_are_found_above_the_working_directory_up_to_the_repository() {
    let folder = tempfile::tempdir().unwrap();
    let below = |path: &str| folder.path().join(path);
    fs::create_dir_all(below("queries/deep")).unwrap();
    fs::create_dir_all(below("other/.git")).unwrap();
    let rule = |severity| format!("[rules.timeouts]\nseverity = '{severity}'\n");
    fs::write(below("cqlens.toml"), rule("off")).unwrap();
    fs::write(below("named.toml"), rule("low")).unwrap();
    let named = below("named.toml");
    let deep = below("queries/deep");
    assert_eq!(limit(&[], &deep).as_deref(), Some("off"));
    assert_eq!(limit(&[], &below("other")), None);
    let config = ["--config", named.to_str().unwrap()];
    assert_eq!(limit(&config, &deep).as_deref(), Some("low"));
    let said = cqlens(&["rules", "--log", "debug"], &deep, &[]).stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains(below("cqlens.toml").to_str().unwrap()), "{said}");
    let proxy = ["proxy", "--upstream", "db", "--print-config"];
    let proxy = String::from_utf8(cqlens(&proxy, &deep, &[]).stdout).unwrap();
    assert!(
        !proxy.contains("# file"),
        "what carries traffic looks for none: {proxy}"
    );
}

#[test]
fn paths_in_settings_that_were_found_are_relative_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("queries");
    fs::create_dir(&deep).unwrap();
    fs::write(
        folder.path().join("cqlens.toml"),
        "[explain]\nschema = 'schema.cql'",
    )
    .unwrap();
    let schema = "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE s.t (k int PRIMARY KEY);";
    fs::write(folder.path().join("schema.cql"), schema).unwrap();
    fs::write(deep.join("q.cql"), "SELECT k FROM s.t WHERE k = 1;").unwrap();
    let output = cqlens(&["explain", "q.cql", "--fail-on", "high"], &deep, &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn every_mistake_in_the_settings_is_a_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("cqlens.toml"),
        "lgo = 'info'\n[reprot]\n[report]\n  foramt = 'html'\n",
    )
    .unwrap();
    let output = cqlens(&["rules"], folder.path(), &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    let places: Vec<_> = said
        .lines()
        .map(|line| line.split_once("cqlens.toml:").unwrap().1)
        .collect();
    assert_eq!(
        places[1..],
        [
            "2:2: [reprot]: no such command; is it `report`?",
            "4:3: foramt: no such setting; is it `format`?"
        ]
    );
    assert!(places[0].starts_with("1:1: lgo: no such setting; "), "{said}");
}

#[test]
fn the_formats_of_rules_have_two_names() {
    let pages = printed(&["rules", "--format", "markdown"]);
    assert_eq!(pages, printed(&["rules", "--markdown"]));
    assert_eq!(pages, printed(&["rules", "--format", "md"]));
    assert!(printed(&["rules"]).contains("`cqlens rules ID` explains a rule."));
}

/// A checkout of others has a file of settings, which nobody has named.
#[test]
fn settings_that_were_found_name_no_host_and_no_file_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let file = folder.path().join("cqlens.toml");
    let victim = elsewhere.path().join("profile");
    fs::write(&victim, "precious").unwrap();
    let said = |settings: &str, arguments: &[&str]| {
        fs::write(&file, settings).unwrap();
        let output = cqlens(arguments, folder.path(), &[]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let store = "[report]\nfrom = 'cassandra://203.0.113.1/ks?username=u&password-file=/etc/passwd'\n";
    let output = format!("[report]\noutput = '{}'\n", victim.display());
    let silent = "log = 'off'\n[rules.timeouts]\nseverity = 'off'\n";
    for (settings, key) in [
        (store, "[report] from"),
        (&output, "[report] output"),
        (silent, "log"),
    ] {
        let (code, said) = said(settings, &["report", "--since", "1d", "snapshots"]);
        assert_eq!(code, Some(2), "{said}");
        let place = format!("{}: {key}: ", file.display());
        assert!(said.contains(&place) && said.contains("--config"), "{said}");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    // They change nothing of other commands.
    let (code, _) = said(store, &["rules"]);
    assert_eq!(code, Some(0));
    let (code, said) = said("[rules.timeouts]\nseverity = 'off'\n", &["rules"]);
    assert_eq!(code, Some(0));
    let named = format!("Settings of {} are in force: timeouts = off.", file.display());
    assert!(said.contains(&named), "{said}");
}
