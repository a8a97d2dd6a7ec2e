//! Settings of a command made up for it, so that each kind occurs.
#![allow(clippy::unwrap_used, clippy::panic)]

mod judging;

use std::{path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};
use proptest::strategy::Strategy as _;

use super::{super::config::positive_duration, *};

#[derive(Debug, Parser)]
struct Cli {
    #[arg(long, global = true, default_value = "info")]
    log: String,
    #[arg(long, global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Sub,
}

#[derive(Debug, Subcommand)]
enum Sub {
    Proxy(Proxy),
    Report {
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    Rules {
        #[arg(long)]
        markdown: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Proxy {
    #[arg(long)]
    upstream: String,
    #[arg(long, default_value = "60s", value_parser = positive_duration)]
    window: Duration,
    #[arg(long, default_value_t = 7)]
    most: u32,
    #[arg(long)]
    share: Option<f64>,
    #[arg(long, requires = "password")]
    username: Option<String>,
    #[arg(long, hide_env_values = true)]
    password: Option<String>,
    #[arg(long, conflicts_with = "strict")]
    lax: bool,
    #[arg(long)]
    strict: bool,
    #[arg(long)]
    from: Vec<String>,
    #[arg(long, value_name = "A=B")]
    pair: Vec<String>,
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("c.toml"), text).unwrap();
        Self(folder)
    }

    fn read(&self, typed: &str) -> anyhow::Result<(Proxy, Settings)> {
        let file = self.0.path().join("c.toml");
        let mut arguments: Vec<OsString> = vec!["cqlens".into(), "--config".into(), file.into()];
        arguments.extend(typed.split_whitespace().map(OsString::from));
        let (cli, settings) = Sources { arguments }.read::<Cli>()?;
        match cli.command {
            Sub::Proxy(proxy) => Ok((proxy, settings)),
            Sub::Report { .. } | Sub::Rules { .. } => anyhow::bail!("no proxy"),
        }
    }

    fn refused(&self, typed: &str) -> String {
        let text = self.read(typed).unwrap_err().to_string();
        text.replace(self.0.path().to_str().unwrap(), "")
    }

    /// The same without columns.
    fn refused_at_line(&self, typed: &str) -> String {
        let text = self.refused(typed);
        let mut parts = text.split("c.toml:");
        let mut without = parts.next().unwrap().to_owned();
        for part in parts {
            let (line, rest) = part.split_once(':').unwrap();
            let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
            without += &format!("c.toml:{line}{rest}");
        }
        without
    }
}

#[test]
fn the_file_says_what_nobody_typed() {
    let folder = Folder::new(
        "log = 'debug'\n[proxy]\nupstream = 'db'\nwindow = '5s'\nmost = 0x10\nshare = 1\nlax = true\nfrom = ['a', 'b']",
    );
    let (proxy, _) = folder.read("proxy --window 9s").unwrap();
    assert_eq!((proxy.upstream.as_str(), proxy.most, proxy.lax), ("db", 16, true));
    assert_eq!(proxy.window, Duration::from_secs(9));
    assert_eq!(
        (proxy.share, proxy.from),
        (Some(1.0), vec!["a".to_owned(), "b".to_owned()])
    );
}

#[test]
fn a_list_that_is_typed_replaces_the_list_of_the_file() {
    let folder = Folder::new("[proxy]\nupstream = 'db'\nfrom = ['a', 'b']");
    let (proxy, _) = folder.read("proxy --from=c").unwrap();
    assert_eq!(proxy.from, ["c"]);
}

#[test]
fn pairs_are_a_table() {
    let folder =
        Folder::new("[proxy]\nupstream = 'db'\n[proxy.pair]\n'10.0.0.1:9042' = '127.0.1.1:9042'\nb = 'c'");
    let (proxy, settings) = folder.read("proxy").unwrap();
    assert_eq!(proxy.pair, ["10.0.0.1:9042=127.0.1.1:9042", "b=c"]);
    let printed = settings.to_string();
    assert!(
        printed.contains("pair = { \"10.0.0.1:9042\" = \"127.0.1.1:9042\", b = \"c\" }  # file"),
        "{printed}"
    );
    let (again, _) = Folder::new(&printed).read("proxy").unwrap();
    assert_eq!(again.pair, proxy.pair);
    let (proxy, _) = folder.read("proxy --pair=d=e").unwrap();
    assert_eq!(proxy.pair, ["d=e"]);
    for (text, said) in [
        (
            "[proxy.pair]\na = 1",
            "c.toml:1: pair: expected a table of strings",
        ),
        (
            "[proxy]\npair = 'a=b'",
            "c.toml:2: pair: expected a table of strings, found a string",
        ),
    ] {
        let refused = Folder::new(text).refused_at_line("proxy --upstream db");
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn what_belongs_together_may_come_from_different_places() {
    let folder = Folder::new("[proxy]\nupstream = 'db'\npassword = 'hunter2'");
    assert_eq!(
        folder.read("proxy --username anna").unwrap().0.password.unwrap(),
        "hunter2"
    );
    let folder = Folder::new("[proxy]\nupstream = 'db'\nusername = 'anna'");
    assert!(folder.read("proxy --password p").is_ok());
    assert_eq!(
        folder.refused("proxy"),
        "the following required arguments were not provided: --password <PASSWORD> (/c.toml says upstream, username)"
    );
}

#[test]
fn what_excludes_each_other_does_so_from_different_places() {
    let folder = Folder::new("[proxy]\nupstream = 'db'\nlax = true");
    assert!(folder.refused("proxy --strict").contains("cannot be used with"));
    let folder = Folder::new("[proxy]\nupstream = 'db'\nlax = false");
    assert!(folder.read("proxy --strict").is_ok());
}

#[test]
fn tables_of_other_commands_are_checked_and_left_alone() {
    let folder = Folder::new("[proxy]\nupstream = 'db'\n[report]\noutput = 'r.html'");
    assert!(folder.read("--log proxy proxy").is_ok());
    let folder = Folder::new("[report]\noutptu = 'r.html'");
    assert!(
        folder
            .refused("proxy --upstream db")
            .contains("c.toml:2:1: outptu: no such setting; is it `output`?")
    );
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, said) in [
        ("[proxy]\nupstream = 'db", "c.toml:2: "),
        (
            "[proxy]\n\nupstraem = 'db'",
            "c.toml:3: upstraem: no such setting; is it `upstream`?",
        ),
        (
            "[prxoy]\nupstream = 'db'",
            "c.toml:1: [prxoy]: no such command; is it `proxy`?",
        ),
        (
            "upstream = 'db'",
            "c.toml:1: upstream: no such setting here; `upstream` belongs in [proxy]",
        ),
        (
            "[proxy]\nlog = 'info'",
            "c.toml:2: log: no such setting here; `log` belongs above all tables",
        ),
        ("config = 'other.toml'", "c.toml:1: config: no such setting"),
        (
            "[proxy]\nwindow = 60",
            "c.toml:2: window: expected a string in quotes, found an integer",
        ),
        (
            "[proxy]\nwindow = '60'",
            "c.toml:2: window: \"60\" is not a valid value: a duration such as",
        ),
        (
            "[proxy]\nmost = '7'",
            "c.toml:2: most: expected an integer, found a string",
        ),
        (
            "[proxy]\nmost = -7",
            "c.toml:2: most: \"-7\" is not a valid value",
        ),
        (
            "[proxy]\nlax = 'yes'",
            "c.toml:2: lax: expected true or false, found a string",
        ),
        (
            "[proxy]\n[[proxy.route]]\nupstream = 'db'",
            "c.toml:2: route: no such setting",
        ),
        (
            "[proxy]\nupstream = 'a'\nupstream = 'b'",
            "c.toml:3: duplicate key",
        ),
    ] {
        let refused = Folder::new(text).refused_at_line("proxy --upstream db");
        assert!(refused.contains(said), "{text:?}: {refused}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_each_with_line_and_column() {
    let text = "lgo = 'info'
[proxy]
  windwo = '60s'
most = 'ä'; upstream = 'db'
";
    // What is no TOML is told alone.
    let refused = Folder::new(text).refused("proxy");
    assert!(
        refused.starts_with("/c.toml:4:11: ") && !refused.contains("windwo"),
        "{refused}"
    );
    let text = "lgo = 'info'
'ä' = 1
[proxy]
  windwo = '60s'
most = 'ä'
upstream = 'db'
[rules.timeouts]
severity = 'none'
[[accept]]
rule = 'timeouts'
onwer = 'a'
until = 'soon'
";
    let error = Folder::new(text).read("proxy").unwrap_err();
    let lines: Vec<_> = error.downcast::<SettingsFaults>().unwrap().into_lines().collect();
    let expected = [
        "c.toml:1:1: lgo: no such setting; is it `log`?",
        "c.toml:2:1: ä: no such setting; ",
        "c.toml:4:3: windwo: no such setting; is it `window`?",
        "c.toml:5:8: most: expected an integer, found a string",
        "c.toml:8:12: severity: \"none\" is not one of ",
        "c.toml:9:1: [[accept]]: owner is missing",
        "c.toml:9:1: [[accept]]: reason is missing",
        "c.toml:11:1: onwer: not a field of an acceptance; is it `owner`?",
        "c.toml:12:9: until: `soon` is not a date",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{expected}\n{lines:#?}");
    }
}

#[test]
fn a_file_that_is_missing_is_named_but_does_not_keep_help_away() {
    let arguments = |more: &[&str]| Sources {
        arguments: ["cqlens", "--config=/no/such.toml"]
            .iter()
            .chain(more)
            .map(OsString::from)
            .collect(),
    };
    let error = arguments(&["proxy"]).read::<Cli>().unwrap_err();
    assert!(format!("{error:#}").contains("/no/such.toml: No such file"));
    let help = arguments(&["proxy", "--help"]).read::<Cli>().unwrap_err();
    assert_eq!(
        help.downcast::<clap::Error>().unwrap().kind(),
        ErrorKind::DisplayHelp
    );
}

#[test]
fn what_is_printed_can_be_read_back() {
    let folder = Folder::new(
        "log = 'a\"b'\n[proxy]\nupstream = 'db'\nusername = 'anna'\npassword = 'hunter2'\nfrom = ['a', \"b\\n\"]\nlax = true\nshare = 0.5",
    );
    let (_, settings) = folder.read("proxy --most 9").unwrap();
    let printed = settings.to_string();
    assert!(
        printed.contains("most = 9  # flag") && printed.contains("window = \"60s\"  # default"),
        "{printed}"
    );
    assert!(
        printed.contains("c.toml") && !printed.contains("hunter2"),
        "{printed}"
    );
    let (_, again) = Folder::new(&printed).read("proxy --password hunter2").unwrap();
    let values = |settings: &Settings| -> Vec<_> {
        settings
            .list
            .iter()
            .map(|setting| (setting.key.clone(), setting.values.clone()))
            .collect()
    };
    assert_eq!(values(&settings), values(&again));
}

#[test]
fn changes_are_told_by_key_and_what_is_fixed_stays() {
    let (_, before) = Folder::new("[proxy]\nupstream = 'a'\nmost = 1")
        .read("proxy")
        .unwrap();
    let (_, mut after) = Folder::new("[proxy]\nupstream = 'b'\nmost = 2")
        .read("proxy")
        .unwrap();
    let changes = before.compare(&mut after, &["most"]);
    assert_eq!(changes.applied, ["upstream"]);
    assert_eq!(changes.need_restart, ["most"]);
    assert!(after.to_string().contains("most = 1 ") && after.to_string().contains("upstream = \"b\""));
}

proptest::proptest! {
    /// A checkout may have anything as its settings: they are read, or refused with a line.
    #[test]
    fn no_text_makes_the_settings_panic(
        pieces in proptest::collection::vec(
            proptest::prop_oneof![
                proptest::sample::select(vec![
                    "[proxy]", "[report]", "[rules.timeouts]", "[[accept]]", "[severity]", "[proxy.pair]", "upstream",
                    "output", "severity", "rule", "until", "log", " = ", "\n", "'", "\"", "{", "}", "[", "]", ",", ".",
                    "'off'", "'10s'", "2026-01-01", "-1", "1e999", "0x7fffffffffffffffff", "true", "\u{feff}", "#", "\0",
                ]).prop_map(str::to_owned),
                ".{0,4}",
            ],
            0..40,
        )
    ) {
        let folder = Folder::new(&pieces.concat());
        if let Err(error) = folder.read("proxy --upstream db") {
            proptest::prop_assert!(!error.to_string().is_empty());
        }
    }
}
