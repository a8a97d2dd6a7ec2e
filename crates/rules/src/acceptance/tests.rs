//! What is accepted, what comes back, and what is said of acceptances that are none.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::testing::{read, window};
use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};
use cqlens_window::{Cluster, Window};

fn day(text: &str) -> Date {
    text.parse().unwrap()
}

fn acceptance() -> Acceptance {
    Acceptance {
        rule: Some("allow-filtering"),
        table: Some(table()),
        pattern: None,
        at_most: None,
        owner: "platform".to_owned(),
        reason: "admin page only".to_owned(),
        until: day("2027-03-01"),
        place: "cqlens.toml:3".to_owned(),
    }
}

fn table() -> TableName {
    TableName {
        keyspace: "shop".to_owned(),
        table: "items".to_owned(),
    }
}

/// One filtering of a whole table, which is a finding of `allow-filtering` alone: high, pattern 1.
fn traffic() -> Window {
    let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
    let cql = "SELECT * FROM shop.items WHERE a = ? ALLOW FILTERING";
    window([read(cql, &flags, PartitionClass::Scan, 1_000)])
}

fn judge(acceptances: &[Acceptance], today: &str) -> Judgement {
    let judging = Judging {
        acceptances: acceptances.to_vec(),
        ..Judging::default()
    };
    judge_with(&judging, &Schema::default(), today)
}

fn judge_with(judging: &Judging, schema: &Schema, today: &str) -> Judgement {
    let (window, cluster) = (traffic(), Cluster::default());
    judging.judge(&Context::new(&window, schema, &cluster), day(today))
}

fn rules(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn an_accepted_finding_stands_apart_until_the_last_day() {
    let judgement = judge(&[acceptance()], "2027-03-01");
    assert!(!rules(&judgement.findings).contains(&"allow-filtering"));
    assert_eq!(rules(&judgement.accepted), ["allow-filtering"]);
    assert_eq!(judgement.idle, []);
    let said = judgement.accepted[0].acceptance.as_ref().unwrap().to_string();
    assert_eq!(
        said,
        "Accepted by platform until 1 March 2027: admin page only (cqlens.toml:3)."
    );
}

#[test]
fn an_expired_acceptance_comes_back_and_says_by_whom_and_until_when() {
    let judgement = judge(&[acceptance()], "2027-03-02");
    assert_eq!(judgement.accepted, []);
    let finding = judgement
        .findings
        .iter()
        .find(|finding| finding.rule == "allow-filtering");
    let said = finding.unwrap().acceptance.as_ref().unwrap().to_string();
    assert_eq!(
        said,
        "Was accepted by platform until 1 March 2027, now expired: admin page only (cqlens.toml:3)."
    );
    // Another one that holds counts, whatever the first one says.
    let renewed = Acceptance {
        until: day("2027-09-01"),
        ..acceptance()
    };
    let judgement = judge(&[acceptance(), renewed], "2027-03-02");
    assert_eq!(rules(&judgement.accepted), ["allow-filtering"]);
}

#[test]
fn a_finding_above_its_budget_comes_back() {
    let limited = |at_most| Acceptance {
        at_most: Some(at_most),
        ..acceptance()
    };
    assert_eq!(
        rules(&judge(&[limited(Severity::High)], "2027-01-01").accepted).len(),
        1
    );
    let judgement = judge(&[limited(Severity::Info)], "2027-01-01");
    assert_eq!(judgement.accepted, []);
    let applied = judgement.findings[0].acceptance.as_ref().unwrap();
    assert_eq!(applied.state, AcceptanceState::Exceeded);
    assert!(applied.to_string().contains("but only up to info"), "{applied}");
}

#[test]
fn rule_table_and_pattern_each_narrow_what_is_accepted() {
    let accepts = |acceptance: Acceptance| {
        let judgement = judge(&[acceptance], "2027-01-01");
        assert_eq!(judgement.idle.is_empty(), !judgement.accepted.is_empty());
        rules(&judgement.accepted).contains(&"allow-filtering")
    };
    let all = Acceptance {
        rule: None,
        table: None,
        ..acceptance()
    };
    let of_pattern = |id| Acceptance {
        pattern: Some(PatternId(id)),
        ..all.clone()
    };
    let of_table = |name: &str| Acceptance {
        table: Some(TableName {
            table: name.to_owned(),
            ..table()
        }),
        ..all.clone()
    };
    assert!(accepts(of_pattern(1)) && !accepts(of_pattern(2)));
    assert!(accepts(of_table("items")) && !accepts(of_table("item")));
    let of_rule = |rule| Acceptance {
        rule: Some(rule),
        ..all.clone()
    };
    assert!(accepts(of_rule("allow-filtering")) && !accepts(of_rule("timeouts")));
}

#[test]
fn a_finding_on_two_templates_is_accepted_when_both_are() {
    let mut finding = judge(&[], "2027-01-01").findings.remove(0);
    finding.patterns = vec![PatternId(1), PatternId(2)];
    let of_pattern = |id, until| Acceptance {
        pattern: Some(PatternId(id)),
        until: day(until),
        ..acceptance()
    };
    let both = [of_pattern(1, "2027-09-01"), of_pattern(2, "2027-08-01")];
    let sorted =
        |acceptances: &[Acceptance], today| set_apart(vec![finding.clone()], acceptances, day(today));
    assert_eq!(sorted(&both[..1], "2027-01-01").accepted.len(), 0);
    let accepted = sorted(&both, "2027-01-01").accepted;
    let applied = accepted[0].acceptance.as_ref().unwrap();
    assert_eq!(
        applied.acceptance.until,
        day("2027-08-01"),
        "it ends with the first"
    );
    assert_eq!(sorted(&both, "2027-08-02").accepted.len(), 0);
}

#[test]
fn an_acceptance_that_matches_nothing_is_idle() {
    let other = Acceptance {
        rule: Some("timeouts"),
        ..acceptance()
    };
    let judgement = judge(std::slice::from_ref(&other), "2028-01-01");
    assert_eq!(judgement.idle[0].acceptance, other);
    assert_eq!(judgement.idle[0].state, AcceptanceState::Expired);
    assert_eq!(other.scope(), "`timeouts` on `shop.items`");
}

fn commented(comment: &str) -> Schema {
    let comment = comment.replace('\'', "''");
    Schema::from_cql(&format!(
        "CREATE KEYSPACE shop WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
         CREATE TABLE shop.items (id int PRIMARY KEY, a int) WITH comment = '{comment}';"
    ))
    .unwrap()
}

fn read_comment(text: &str) -> Comment {
    Comment::of(commented(text).table("shop", "items").unwrap())
}

#[test]
fn the_comment_of_a_table_accepts_for_that_table() {
    let line = "cqlens:accept allow-filtering owner=platform until=2027-03-01 reason=admin page only";
    let schema = commented(&format!("Q4. Items by a.\n{line}"));
    let judgement = judge_with(&Judging::default(), &schema, "2027-01-01");
    let applied = judgement.accepted[0].acceptance.as_ref().unwrap();
    let expected = Acceptance {
        place: "comment of shop.items".to_owned(),
        ..acceptance()
    };
    assert_eq!(applied.acceptance, expected);
    assert_eq!(judgement.mistakes, Vec::<String>::new());
}

#[test]
fn a_comment_may_hold_several_acceptances_quotes_and_none() {
    let comment = read_comment(
        "It's for Q4; CQLENS:accept * reason=\"a = b\" owner=\"team a\" at-most=low until=2027-03-01",
    );
    assert_eq!(comment.text, "It's for Q4");
    let [one] = &comment.acceptances[..] else {
        panic!("{comment:?}")
    };
    assert_eq!((one.rule, one.at_most), (None, Some(Severity::Low)));
    assert_eq!((one.owner.as_str(), one.reason.as_str()), ("team a", "a = b"));

    let line = "cqlens:accept timeouts owner=a until=2027-03-01 reason=r";
    let comment = read_comment(&format!("{line} {line}\n{line}"));
    assert_eq!((comment.acceptances.len(), comment.text.as_str()), (3, ""));
    assert_eq!(comment.acceptances[0].reason, "r");

    let comment = read_comment("Seen by cqlens.");
    assert_eq!(
        (comment.text.as_str(), comment.acceptances.len()),
        ("Seen by cqlens.", 0)
    );
    assert_eq!(comment.mistakes.len(), 0);
}

#[test]
fn a_comment_that_accepts_nothing_is_a_mistake_that_is_told() {
    for (said, why) in [
        ("cqlens:", "after `cqlens:` comes `accept`"),
        ("cqlens:acept timeouts", "after `cqlens:` comes `accept`"),
        ("cqlens: ignore", "after `cqlens:` comes `accept`"),
        ("cqlens:accept", "no rule is named"),
        (
            "cqlens:accept owner=a until=2027-03-01 reason=r",
            "the rule comes first",
        ),
        (
            "cqlens:accept time-outs owner=a until=2027-03-01 reason=r",
            "no rule is called `time-outs`",
        ),
        (
            "cqlens:accept timeouts until=2027-03-01 reason=r",
            "`owner=` is missing",
        ),
        ("cqlens:accept timeouts owner=a reason=r", "`until=` is missing"),
        (
            "cqlens:accept timeouts owner=a until=2027-03-01",
            "`reason=` is missing",
        ),
        (
            "cqlens:accept timeouts owner=a until=2027-03-01 reason=",
            "`reason` is empty",
        ),
        (
            "cqlens:accept timeouts owner=a until=2027-02-30 reason=r",
            "`2027-02-30` is not a date",
        ),
        (
            "cqlens:accept timeouts owner=a until=soon reason=r",
            "`soon` is not a date",
        ),
        (
            "cqlens:accept timeouts owner=team b until=2027-03-01 reason=r",
            "`b` is not `key=value`",
        ),
        (
            "cqlens:accept timeouts owner=a owner=b until=2027-03-01 reason=r",
            "`owner` appears twice",
        ),
        (
            "cqlens:accept timeouts owner=a expires=2027-03-01 reason=r",
            "`expires` is not known",
        ),
        (
            "cqlens:accept timeouts owner=\"a until=2027-03-01 reason=r",
            "the quotes of `owner`",
        ),
        (
            "cqlens:accept timeouts owner=a at-most=tiny until=2027-03-01 reason=r",
            "`tiny` is not a severity",
        ),
    ] {
        let comment = read_comment(said);
        assert_eq!(comment.acceptances, [], "{said}");
        let [mistake] = &comment.mistakes[..] else {
            panic!("{said}: {comment:?}")
        };
        assert!(
            mistake.starts_with("The comment of `shop.items` contains `cqlens:"),
            "{mistake}"
        );
        assert!(mistake.contains(why), "{said}: {mistake}");
        let judgement = judge_with(&Judging::default(), &commented(said), "2027-01-01");
        assert_eq!(judgement.mistakes, comment.mistakes);
    }
}
