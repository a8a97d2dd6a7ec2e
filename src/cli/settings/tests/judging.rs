//! Thresholds of rules and accepted findings in the file of settings.

use super::*;
use cqlens_rules::{RuleSeverity, Severity};

const JUDGING: &str = "[proxy]
upstream = 'db'

[rules]
markdown = true

[severity]
large_share = 0.3

[rules.in-partition-key]
severity = 'medium'
medium_partitions = 20

[rules.select-star]
severity = 'off'

[[accept]]
rule = 'allow-filtering'
table = 'shop.settings'
at-most = 'medium'
owner = 'platform'
reason = 'admin \"page\" only'
until = 2027-03-01

[[accept]]
pattern = '00ff00ff00ff00ff'
owner = 'a'
reason = 'b'
until = '2027-03-02'
";

#[test]
fn thresholds_and_acceptances_stand_in_the_file() {
    let (_, settings) = Folder::new(JUDGING).read("proxy").unwrap();
    let judging = settings.judging();
    let key = ("in-partition-key".to_owned(), "medium_partitions".to_owned());
    let of_all = ("severity".to_owned(), "large_share".to_owned());
    assert_eq!(
        judging.settings.thresholds.iter().collect::<Vec<_>>(),
        [(&key, &20.0), (&of_all, &0.3)]
    );
    let severities =
        ["in-partition-key", "select-star", "full-scan"].map(|rule| judging.settings.severities.get(rule));
    let at_most = RuleSeverity::AtMost(Severity::Medium);
    assert_eq!(severities, [Some(&at_most), Some(&RuleSeverity::Off), None]);
    assert!(!judging.settings.runs("select-star") && judging.settings.runs("in-partition-key"));
    let [first, second] = &judging.acceptances[..] else {
        panic!("{judging:?}")
    };
    assert_eq!(first.scope(), "`allow-filtering` on `shop.settings` up to medium");
    assert_eq!(
        (first.owner.as_str(), first.reason.as_str()),
        ("platform", "admin \"page\" only")
    );
    assert_eq!(first.place, "c.toml:17");
    assert_eq!(second.scope(), "every finding of the pattern `00ff00ff00ff00ff`");
    assert_eq!(second.until.to_string(), "2027-03-02");
}

#[test]
fn thresholds_and_acceptances_are_printed_and_can_be_read_back() {
    let (_, settings) = Folder::new(JUDGING).read("proxy").unwrap();
    let printed = settings.to_string();
    assert!(
        printed.contains("[rules.in-partition-key]\nseverity = \"medium\"  # file: "),
        "{printed}"
    );
    assert!(printed.contains("medium_partitions = 20  # file: "), "{printed}");
    assert!(
        printed.contains("[rules.select-star]\nseverity = \"off\"  # file: "),
        "{printed}"
    );
    assert!(printed.contains("steady_per_hour = 60  # default"), "{printed}");
    let (_, again) = Folder::new(&printed).read("proxy").unwrap();
    let without_places = |settings: &Settings| {
        let mut acceptances = settings.judging().acceptances.clone();
        acceptances
            .iter_mut()
            .for_each(|acceptance| acceptance.place.clear());
        acceptances
    };
    assert_eq!(without_places(&settings), without_places(&again));
    assert_eq!(
        settings.judging_changes(&again),
        ["accept"],
        "their places differ, thresholds do not"
    );
}

#[test]
fn changes_of_thresholds_and_acceptances_are_told() {
    let (_, before) = Folder::new(JUDGING).read("proxy").unwrap();
    let newer = JUDGING
        .replace("= 20", "= 30")
        .replace("'off'", "'info'")
        .replace("0.3", "0.4")
        .replace("'b'", "'c'");
    let (_, mut after) = Folder::new(&newer).read("proxy").unwrap();
    assert_eq!(
        before.compare(&mut after.clone(), &[]).need_restart,
        Vec::<String>::new()
    );
    assert_eq!(
        before.compare(&mut after, &[]).applied,
        [
            "rules.in-partition-key.medium_partitions",
            "severity.large_share",
            "rules.select-star.severity",
            "accept"
        ]
    );
}

/// Reads the file, and returns the error.
fn said_of(text: &str) -> String {
    Folder::new(text).refused_at_line("proxy --upstream db")
}

#[test]
fn mistakes_in_thresholds_are_told_with_their_place() {
    let thresholds = cqlens_rules::find("lwt-heavy").unwrap().about().thresholds;
    let share = thresholds
        .iter()
        .find(|threshold| threshold.is_share())
        .unwrap()
        .name;
    for (text, said) in [
        (
            "[rules.alow-filtering]\n",
            "c.toml:1: [rules.alow-filtering]: no rule is called \"alow-filtering\": is it `allow-filtering`?",
        ),
        (
            "[rules.in-partition-key]\noften = 1",
            "c.toml:2: often: no such threshold of in-partition-key; there are ",
        ),
        (
            "[rules.in-partition-key]\n\nmedium_partitions = '1'",
            "c.toml:3: medium_partitions: expected a number, found a string",
        ),
        (
            "[rules.in-partition-key]\nmedium_partitions = -1",
            "c.toml:2: medium_partitions: expected a number that is not negative",
        ),
        (
            "[rules.in-partition-key]\nmedium_partitions = nan",
            "c.toml:2: medium_partitions: expected a number that is not negative",
        ),
        (
            "[rules.lwt-heavy]\nSHARE = 1.5",
            "c.toml:2: SHARE: a share of the ",
        ),
        (
            "[rules.select-star]\nseverity = 'none'",
            "c.toml:2: severity: \"none\" is not one of off, info, low, medium, high",
        ),
        (
            "[rules.select-star]\nseverity = 1",
            "c.toml:2: severity: expected a string in quotes, found an integer",
        ),
        (
            "[severity]\nlarge = 1",
            "c.toml:2: large: no such threshold of severity; is it `large_share`",
        ),
        (
            "[severity]\nlarge_share = 2",
            "c.toml:2: large_share: a share of the ",
        ),
        (
            "[rules]\nallow-filtering = 7",
            "c.toml:2: allow-filtering: no such setting",
        ),
    ] {
        let refused = said_of(&text.replace("SHARE", share));
        assert!(
            refused.contains(&said.replace("SHARE", share)),
            "{text:?}: {refused}"
        );
    }
}

/// An acceptance with this line instead of its own.
fn accept(line: &str) -> String {
    let rest = [
        "rule = 'timeouts'",
        "owner = 'a'",
        "reason = 'r'",
        "until = 2027-03-01",
    ];
    let key = line.split(' ').next().unwrap();
    let rest = rest.into_iter().filter(|other| !other.starts_with(key));
    format!("[[accept]]\n{}\n{}", line, rest.collect::<Vec<_>>().join("\n"))
}

#[test]
fn mistakes_in_acceptances_are_told_with_their_place() {
    for (text, said) in [
        (
            "[accept]\nrule = 'timeouts'".to_owned(),
            "c.toml:1: accept: write it as [[accept]]",
        ),
        (
            "accept = [1]".to_owned(),
            "c.toml:1: accept: write it as [[accept]]",
        ),
        (
            accept("rule = 'time-outs'"),
            "c.toml:2: rule: no rule is called \"time-outs\": is it `timeouts`?",
        ),
        (
            accept("rule = 7"),
            "c.toml:2: rule: expected a string in quotes, found an integer",
        ),
        (
            accept("tables = 'a.b'"),
            "c.toml:2: tables: not a field of an acceptance; is it `table`",
        ),
        (
            accept("table = 'items'"),
            "c.toml:2: table: \"items\" is not keyspace.table",
        ),
        (
            accept("pattern = 'ff'"),
            "c.toml:2: pattern: \"ff\" is not a fingerprint of 16 hex digits",
        ),
        (
            accept("at-most = 'tiny'"),
            "c.toml:2: at-most: \"tiny\" is not a severity",
        ),
        (accept("owner = ' '"), "c.toml:2: owner: it must not be empty"),
        (
            accept("until = 'soon'"),
            "c.toml:2: until: `soon` is not a date such as 2027-03-01",
        ),
        (
            accept("until = 2027-03-01T10:00:00Z"),
            "c.toml:2: until: `2027-03-01T10:00:00Z` is not a date",
        ),
        (
            "[[accept]]\nrule = 'timeouts'\nreason = 'r'\nuntil = 2027-03-01".to_owned(),
            "c.toml:1: [[accept]]: owner is missing",
        ),
        (
            "[[accept]]\nrule = 'timeouts'\nowner = 'r'\nuntil = 2027-03-01".to_owned(),
            "c.toml:1: [[accept]]: reason is missing",
        ),
        (
            "[[accept]]\nrule = 'timeouts'\nowner = 'r'\nreason = 'r'".to_owned(),
            "c.toml:1: [[accept]]: until is missing",
        ),
        (
            "[[accept]]\nowner = 'a'\nreason = 'r'\nuntil = 2027-03-01".to_owned(),
            "c.toml:1: [[accept]]: rule, table or pattern is missing",
        ),
    ] {
        let refused = said_of(&text);
        assert!(refused.contains(said), "{text:?}: {refused}");
    }
}
