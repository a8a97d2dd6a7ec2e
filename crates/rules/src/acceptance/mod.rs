//! Accepted findings: with an owner, a reason and a date after which they come back.
//!
//! An acceptance hides nothing: reports list what is accepted apart, and say which acceptances have expired,
//! are exceeded or match nothing. It stands in the file of settings, or in the comment of the table that it
//! is about ([`comment`]).

mod comment;
mod index;

use std::fmt;

use jiff::civil::Date;
use serde::{Serialize, Serializer};

pub use comment::{Comment, day};
use index::Index;

use super::{Context, Finding, Judgement, Settings, Severity, check};
use cqlens_cql::schema::TableName;
use cqlens_window::PatternId;

/// What the operator says otherwise than the rules.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judging {
    /// Thresholds, and rules that are switched off or limited.
    pub settings: Settings,
    /// What the file of settings accepts; what comments of tables accept stands in the schema.
    pub acceptances: Vec<Acceptance>,
}

impl Judging {
    /// What the rules say, with what is accepted on that day set apart.
    pub fn judge(&self, context: &Context<'_>, today: Date) -> Judgement {
        let judgement = check(context, &self.settings);
        let (of_comments, mistakes) = comment::of_schema(context.schema);
        let all: Vec<_> = self.acceptances.iter().cloned().chain(of_comments).collect();
        let sorted = set_apart(judgement.findings, &all, today);
        let findings = sorted.open.iter().chain(&sorted.accepted);
        let idle = Index::of(&all, today).of_none(findings);
        Judgement {
            idle: idle
                .into_iter()
                .map(|acceptance| acceptance.applied(today))
                .collect(),
            findings: sorted.open,
            accepted: sorted.accepted,
            mistakes,
            ..judgement
        }
    }
}

/// Says that findings are known and borne. What is not named is any; at least one of rule, table and pattern
/// is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Acceptance {
    /// The rule's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'static str>,
    /// `keyspace.table`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[cfg_attr(feature = "json-schema", schemars(with = "Option<String>"))]
    pub table: Option<TableName>,
    /// The fingerprint of the only template that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<PatternId>,
    /// The budget: a finding above this severity is not accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Severity>,
    /// Who bears it.
    pub owner: String,
    /// Why.
    pub reason: String,
    /// The last day (UTC) on which it is in force.
    pub until: Date,
    /// Where it is said: a file and its line, or a table's comment.
    pub place: String,
}

/// An acceptance and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Applied {
    /// What was said.
    #[serde(flatten)]
    pub acceptance: Acceptance,
    /// Whether it holds.
    pub state: AcceptanceState,
}

/// Whether an acceptance holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AcceptanceState {
    /// The acceptance is in force.
    InForce,
    /// Its expiry date has passed.
    Expired,
    /// The finding is more severe than was accepted.
    Exceeded,
}

/// Findings, by whether they are accepted; each in the order that they had.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Sorted {
    /// Those that are not; those that were once say so.
    pub open: Vec<Finding>,
    /// Those that are.
    pub accepted: Vec<Finding>,
}

/// Sets apart what is accepted on that day.
pub fn set_apart(findings: Vec<Finding>, acceptances: &[Acceptance], today: Date) -> Sorted {
    let index = Index::of(acceptances, today);
    let mut sorted = Sorted::default();
    for mut finding in findings {
        let in_force = index.covering(&finding, true);
        let any = in_force.or_else(|| index.covering(&finding, false));
        finding.acceptance = any.map(|acceptance| Applied {
            state: acceptance.state(finding.severity, today),
            acceptance: acceptance.clone(),
        });
        match in_force {
            Some(_) => sorted.accepted.push(finding),
            None => sorted.open.push(finding),
        }
    }
    sorted
}

impl Acceptance {
    fn state(&self, severity: Severity, today: Date) -> AcceptanceState {
        if self.at_most.is_some_and(|limit| severity > limit) {
            AcceptanceState::Exceeded
        } else {
            self.state_on(today)
        }
    }

    fn state_on(&self, today: Date) -> AcceptanceState {
        match self.until < today {
            true => AcceptanceState::Expired,
            false => AcceptanceState::InForce,
        }
    }

    fn applied(&self, today: Date) -> Applied {
        Applied {
            acceptance: self.clone(),
            state: self.state_on(today),
        }
    }

    /// What is accepted, in words: `` `allow-filtering` on `shop.items` ``.
    pub fn scope(&self) -> String {
        let rule = self
            .rule
            .map_or_else(|| "every finding".to_owned(), |rule| format!("`{rule}`"));
        let table = self.table.as_ref().map(|table| format!(" on `{table}`"));
        let pattern = self.pattern.map(|id| format!(" of the pattern `{id}`"));
        let limit = self.at_most.map(|limit| format!(" up to {limit}"));
        [Some(rule), pattern, table, limit]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// `Accepted by platform until 1 March 2027: admin page only (cqlens.toml:12).`
impl fmt::Display for Applied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Acceptance {
            owner, reason, place, ..
        } = &self.acceptance;
        let until = self.acceptance.until.strftime("%-d %B %Y");
        match (self.state, self.acceptance.at_most) {
            (AcceptanceState::InForce, _) => {
                write!(
                    formatter,
                    "Accepted by {owner} until {until}: {reason} ({place})."
                )
            }
            (AcceptanceState::Expired, _) => write!(
                formatter,
                "Was accepted by {owner} until {until}, now expired: {reason} ({place})."
            ),
            (AcceptanceState::Exceeded, limit) => write!(
                formatter,
                "Was accepted by {owner} until {until}, but only up to {}: {reason} ({place}).",
                limit.unwrap_or(Severity::Info)
            ),
        }
    }
}

fn as_text<S: Serializer>(table: &Option<TableName>, serializer: S) -> Result<S::Ok, S::Error> {
    match table {
        Some(table) => serializer.collect_str(table),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests;
