//! What is said of a statement: that it is wrong, or what a rule found.

use cqlens_cql::plan::Refusal;
use cqlens_cql::schema::SchemaError;
use cqlens_cql::syntax::{ParseError, Span};

use super::answer::StatementError;
use cqlens_rules::{Example, Finding, Severity};

/// Something to say of a statement.
#[derive(Debug, Clone)]
pub(super) struct Remark {
    pub(super) level: RemarkLevel,
    /// The stage at which a statement is refused, or the rule.
    pub(super) id: &'static str,
    pub(super) title: String,
    /// What is said at the place: what was expected there.
    pub(super) label: String,
    /// Where; the whole statement if there is no place.
    pub(super) spans: Vec<Span>,
    pub(super) table: Option<String>,
    pub(super) advice: Vec<String>,
    pub(super) suggested_cql: Vec<String>,
    pub(super) example: Option<Example>,
    /// What tells it from other remarks with its id: a template's fingerprint, a table.
    pub(super) subject: String,
}

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RemarkLevel {
    /// What a rule found.
    Finding(Severity),
    /// The text is no CQL, or Cassandra would refuse it.
    Error,
}

impl RemarkLevel {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Finding(Severity::High) => "high",
            Self::Finding(Severity::Medium) => "medium",
            Self::Finding(Severity::Low) => "low",
            Self::Finding(Severity::Info) => "info",
        }
    }
}

impl Remark {
    /// A text that is no CQL.
    pub(super) fn from_parse_error(error: &ParseError) -> Self {
        let expected: Vec<String> = error.expected.iter().map(ToString::to_string).collect();
        let label = match expected.as_slice() {
            [] => String::new(),
            [only] => format!("expected {only}"),
            [others @ .., last] => format!("expected {} or {last}", others.join(", ")),
        };
        Self {
            label,
            ..Self::error("parse", error.kind.to_string(), Some(error.span))
        }
    }

    /// A statement that Cassandra would refuse.
    pub(super) fn from_refusal(refusal: &Refusal) -> Self {
        Self::error(refusal.stage.name(), refusal.message.to_string(), refusal.span)
    }

    /// A definition that does not fit those before it.
    pub(super) fn from_schema_error(error: &SchemaError) -> Self {
        Self::error("definition", error.to_string(), Some(error.span))
    }

    /// A statement of another dialect.
    pub(super) fn from_extension(error: StatementError, span: Option<Span>) -> Self {
        Self::error(error.stage, error.message, span)
    }

    /// Something that is wrong.
    pub(super) fn error(id: &'static str, title: String, span: Option<Span>) -> Self {
        Self {
            level: RemarkLevel::Error,
            id,
            title,
            label: String::new(),
            spans: span.into_iter().collect(),
            table: None,
            advice: Vec::new(),
            suggested_cql: Vec::new(),
            example: None,
            subject: String::new(),
        }
    }

    /// The same, with what may have been meant.
    pub(super) fn hint(mut self, hint: Option<String>) -> Self {
        self.advice.extend(hint);
        self
    }

    /// What a rule found, and what would help.
    pub(super) fn from_finding(finding: Finding, spans: Vec<Span>) -> Self {
        let table = match (&finding.keyspace, &finding.table) {
            (Some(keyspace), Some(table)) => Some(format!("{keyspace}.{table}")),
            (_, table) => table.clone(),
        };
        let names = [table.clone().or(finding.keyspace), finding.subject];
        let lapsed = finding.acceptance.map(|acceptance| acceptance.to_string());
        Self {
            level: RemarkLevel::Finding(finding.severity),
            id: finding.rule,
            title: finding.title,
            label: String::new(),
            spans,
            table,
            advice: lapsed.into_iter().chain([finding.advice]).collect(),
            suggested_cql: finding.suggested_cql,
            example: finding.example,
            subject: names.into_iter().flatten().collect::<Vec<_>>().join(" "),
        }
    }

    /// Title and what was expected at the place, in one sentence.
    pub(super) fn sentence(&self) -> String {
        match self.label.as_str() {
            "" => self.title.clone(),
            label => format!("{}: {label}", self.title),
        }
    }

    /// All that would help, in lines.
    pub(super) fn help(&self) -> String {
        let advice = self.advice.iter().chain(&self.suggested_cql).cloned();
        let example = self.example.iter().map(|example| {
            let (instead, write) = example.words();
            format!("{instead}:\n{}\n{write}:\n{}", example.before, example.after)
        });
        advice.chain(example).collect::<Vec<_>>().join("\n")
    }
}
