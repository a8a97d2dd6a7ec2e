//! Acceptances in the comment of a table, where those see them who read the model.
//!
//! ```text
//! Q4. Find settings by owner
//! cqlens:accept allow-filtering owner=platform until=2027-03-01 reason=admin page only
//! ```
//!
//! After the rule (`*`: every rule) come `owner`, `until`, `reason` and, if wanted, `at-most`. A value with
//! blanks stands in double quotes; a reason without them goes on to the end of the line. Everything from
//! `cqlens:` on that is nothing of the kind is a mistake, which reports name: its author believes that
//! it works.

use jiff::civil::Date;

use super::Acceptance;
use crate::Severity;
use cqlens_cql::schema::{Schema, Table, TableName, is_system};

/// What is said in the comment of a table.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Comment {
    /// What is there for people: all that is before the first acceptance.
    pub text: String,
    /// What it accepts of this table.
    pub acceptances: Vec<Acceptance>,
    /// What looks like an acceptance and is none, in whole sentences.
    pub mistakes: Vec<String>,
}

const MARK: &str = "cqlens:";

/// What comments of the application's tables accept, and the mistakes in them.
pub(super) fn of_schema(schema: &Schema) -> (Vec<Acceptance>, Vec<String>) {
    let (mut acceptances, mut mistakes) = (Vec::new(), Vec::new());
    let keyspaces = schema.keyspaces.values();
    for table in keyspaces
        .filter(|keyspace| !is_system(&keyspace.name))
        .flat_map(|keyspace| keyspace.tables.values())
    {
        let comment = Comment::of(table);
        acceptances.extend(comment.acceptances);
        mistakes.extend(comment.mistakes);
    }
    (acceptances, mistakes)
}

impl Comment {
    /// Reads the comment of a table.
    pub fn of(table: &Table) -> Self {
        let text = table.comment();
        let name = TableName {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
        };
        let marks = marks(text);
        let mut comment = Self {
            text: before(text, &marks).to_owned(),
            ..Self::default()
        };
        for (&start, end) in marks.iter().zip(marks.iter().skip(1).chain([&text.len()])) {
            let said = text.get(start..*end).unwrap_or_default();
            let line = said.lines().next().unwrap_or_default().trim();
            match acceptance(line, &name) {
                Ok(acceptance) => comment.acceptances.push(acceptance),
                Err(what) => comment.mistakes.push(format!(
                    "The comment of `{name}` contains `{}`, which accepts nothing: {what}.",
                    line.replace('`', "'")
                )),
            }
        }
        comment
    }
}

/// Where the mark stands, in bytes; in any case of letters.
fn marks(text: &str) -> Vec<usize> {
    // Letters outside ASCII stay as they are, so that offsets do too.
    let lower = text.to_ascii_lowercase();
    lower.match_indices(MARK).map(|(at, _)| at).collect()
}

fn before<'t>(text: &'t str, marks: &[usize]) -> &'t str {
    let end = marks.first().copied();
    match end.and_then(|end| text.get(..end)) {
        Some(text) => {
            text.trim_end_matches(|letter: char| letter.is_whitespace() || ";,.|-".contains(letter))
        }
        None => text,
    }
}

/// Reads `cqlens:accept RULE key=value …`.
fn acceptance(line: &str, table: &TableName) -> Result<Acceptance, String> {
    let said = line.get(MARK.len()..).unwrap_or_default();
    let (verb, rest) = word(said);
    if verb != "accept" {
        return Err(format!("after `{MARK}` comes `accept`, then a rule"));
    }
    let (rule, mut rest) = word(rest);
    let rule = match rule {
        "*" => None,
        "" => return Err("no rule is named; use `*` for every rule".to_owned()),
        _ if rule.contains('=') => return Err("the rule comes first; use `*` for every rule".to_owned()),
        _ => match crate::find(rule) {
            Some(rule) => Some(rule.about().id),
            None => return Err(format!("no rule is called `{rule}`")),
        },
    };
    let mut said = Said::default();
    while !rest.is_empty() {
        rest = said.next(rest)?;
    }
    Ok(Acceptance {
        rule,
        table: Some(table.clone()),
        pattern: None,
        at_most: said.at_most,
        owner: said.owner.ok_or("`owner=` is missing")?,
        until: said.until.ok_or("`until=` is missing")?,
        reason: said.reason.ok_or("`reason=` is missing")?,
        place: format!("comment of {table}"),
    })
}

#[derive(Default)]
struct Said {
    owner: Option<String>,
    reason: Option<String>,
    until: Option<Date>,
    at_most: Option<Severity>,
}

impl Said {
    /// Takes one `key=value` and gives what comes after it.
    fn next<'t>(&mut self, text: &'t str) -> Result<&'t str, String> {
        let (key, behind) = text
            .split_once('=')
            .filter(|(key, _)| !key.contains(char::is_whitespace))
            .ok_or_else(|| {
                format!(
                    "`{}` is not `key=value`; put values with spaces into double quotes",
                    word(text).0
                )
            })?;
        let (value, rest) = value(key, behind)?;
        if value.is_empty() {
            return Err(format!("`{key}` is empty"));
        }
        let is_new = match key {
            "owner" => self.owner.replace(value.to_owned()).is_none(),
            "reason" => self.reason.replace(value.to_owned()).is_none(),
            "until" => self.until.replace(day(value)?).is_none(),
            "at-most" => self.at_most.replace(severity(value)?).is_none(),
            _ => {
                return Err(format!(
                    "`{key}` is not known; the keys are owner, until, reason and at-most"
                ));
            }
        };
        if is_new {
            Ok(rest)
        } else {
            Err(format!("`{key}` appears twice"))
        }
    }
}

/// The value, and what comes after it.
fn value<'t>(key: &str, text: &'t str) -> Result<(&'t str, &'t str), String> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (value, rest) = quoted
            .split_once('"')
            .ok_or_else(|| format!("the quotes of `{key}` are not closed"))?;
        return Ok((value.trim(), rest.trim_start()));
    }
    match key {
        "reason" => Ok((text.trim(), "")),
        _ => Ok(word(text)),
    }
}

/// The first word, and what comes after it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

/// Reads a day: `2027-03-01`, and nothing else that a date could be written as.
///
/// # Errors
/// Says that it is none.
pub fn day(text: &str) -> Result<Date, String> {
    let is_plain = text.len() == "2027-03-01".len();
    let date = is_plain.then(|| text.parse().ok()).flatten();
    date.ok_or_else(|| format!("`{text}` is not a date such as 2027-03-01"))
}

fn severity(text: &str) -> Result<Severity, String> {
    match text {
        "info" => Ok(Severity::Info),
        "low" => Ok(Severity::Low),
        "medium" => Ok(Severity::Medium),
        "high" => Ok(Severity::High),
        _ => Err(format!("`{text}` is not a severity (info, low, medium or high)")),
    }
}
