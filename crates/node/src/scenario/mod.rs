//! Scenarios: a schema and traffic as data, sent to any CQL node through [`cqlens_client`].
//!
//! The format (`traffic.toml`): phases run one after the other; the iterations of a phase are dealt to its
//! clients; the steps of an iteration run one after the other. A text may hold expressions, `expression` says
//! which. What a step reads can be used by later steps of the same iteration, so that a client-side join is
//! two steps.
//!
//! ```toml
//! title = "Two tables for one lookup"
//! source = "where the model comes from"
//! about = "what it shows"
//!
//! [[phase]]
//! repeat = 200                                  # iterations; ${i} counts them, from `first` on (0 if not said)
//! clients = 2                                   # connections; 1 if not said
//! [[phase.step]]
//! name = "entry"                                # so that later steps can say ${entry.id}
//! cql = "SELECT id FROM shop.users_by_name WHERE name = ?"
//! values = ["user-${random(100)}"]              # for the markers, read by their types
//! [[phase.step]]
//! for-each = "entry"                            # once for each row of that step
//! cql = "SELECT * FROM shop.users WHERE id = ?"
//! values = ["${entry.id}"]
//! ```
//!
//! `server = "6.0"` beside the title says which Cassandra is the first to read the statements.
//!
//! Further keys of a step: `prepared = false` sends the text instead of preparing it; `times = 4` runs it
//! four times, `${j}` counts; `together = true` sends all runs of the step at once; `until-rows = 10` stops
//! repeating once so many rows have come; `consistency`, `page-size`; `batch = "logged"` with `statements =
//! [{ cql = …, values = […] }]` instead of `cql`; `may-fail = true` where a refusal is part of the story.

mod client;
mod expression;
mod outcome;
mod run;
mod value;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use expression::{ExpressionError, Template};
pub use outcome::{RunError, StepError, Totals};

use cqlens_cql::schema::Schema;

/// A schema and the traffic on it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name: a folder of `tests/scenarios`.
    pub id: String,
    /// CQL that makes the keyspace and its tables; names are qualified.
    pub schema: String,
    /// What is sent.
    pub traffic: Traffic,
}

/// What a scenario sends.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Traffic {
    /// A few words.
    pub title: String,
    /// Where the model comes from.
    pub source: String,
    /// What it shows.
    pub about: String,
    /// The first Cassandra that reads its statements, as `major.minor`; none where all do.
    #[serde(default)]
    pub server: Option<String>,
    /// Decides what `random` gives: the same seed, the same traffic.
    #[serde(default = "one")]
    pub seed: u64,
    /// One after the other.
    #[serde(rename = "phase")]
    pub phases: Vec<Phase>,
}

/// Iterations of the same steps.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Phase {
    /// What it does, for those who read the file.
    #[serde(default)]
    pub name: String,
    /// The number of the first iteration.
    #[serde(default)]
    pub first: u64,
    /// How often.
    #[serde(default = "one")]
    pub repeat: u64,
    /// Over how many connections the iterations are dealt.
    #[serde(default = "one")]
    pub clients: u64,
    /// One after the other.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

/// A statement, or a batch of them, with how it is run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Step {
    /// Under which later steps find its rows.
    #[serde(default)]
    pub name: Option<String>,
    /// The statement; expressions only where it is not prepared.
    #[serde(default)]
    pub cql: Option<Template>,
    /// For its markers.
    #[serde(default)]
    pub values: Vec<ValueTemplate>,
    /// Whether it is prepared, once for each connection.
    #[serde(default = "yes")]
    pub prepared: bool,
    /// The name of a consistency level.
    #[serde(default = "local_one")]
    pub consistency: String,
    /// Rows a page; all pages are read.
    #[serde(default)]
    pub page_size: Option<i32>,
    /// The step whose rows it runs for.
    #[serde(default)]
    pub for_each: Option<String>,
    /// How often, for each row.
    #[serde(default = "one")]
    pub times: u64,
    /// Whether all runs are sent before the first answer is waited for.
    #[serde(default)]
    pub together: bool,
    /// From how many rows on it is not repeated any more.
    #[serde(default)]
    pub until_rows: Option<usize>,
    /// The kind of batch that `statements` are.
    #[serde(default)]
    pub batch: Option<BatchForm>,
    /// What is in the batch.
    #[serde(default)]
    pub statements: Vec<BatchPart>,
    /// Whether the server may refuse.
    #[serde(default)]
    pub may_fail: bool,
}

/// The kinds of batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchForm {
    /// Written to the batch log first.
    Logged,
    /// Not.
    Unlogged,
}

/// A statement of a batch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchPart {
    /// The statement; it is prepared.
    pub cql: String,
    /// For its markers.
    #[serde(default)]
    pub values: Vec<ValueTemplate>,
}

/// The value of a marker; the marker's type decides how a text is read. The text `${null}` alone is null.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum ValueTemplate {
    /// A number as it is.
    Number(i64),
    /// A text with expressions.
    Text(Template),
    /// The elements of a list.
    List(Vec<ValueTemplate>),
}

/// A scenario that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("scenario {id}: {source}")]
pub struct ScenarioError {
    id: String,
    source: toml::de::Error,
}

impl Scenario {
    /// Reads a scenario from the texts of its files.
    ///
    /// # Errors
    /// Keys and expressions that there are not.
    pub fn parse(id: &str, schema: &str, traffic: &str) -> Result<Scenario, ScenarioError> {
        let traffic = toml::from_str(traffic).map_err(|source| ScenarioError {
            id: id.to_owned(),
            source,
        })?;
        Ok(Scenario {
            id: id.to_owned(),
            schema: schema.to_owned(),
            traffic,
        })
    }

    /// Whether a Cassandra of this version (`5.0.9`) reads its statements.
    #[must_use]
    pub fn is_read_by(&self, release: &str) -> bool {
        let major_and_minor = |version: &str| -> Option<(u32, u32)> {
            let mut parts = version.split(['.', '-']);
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        };
        let first = self.traffic.server.as_deref();
        first.is_none_or(|first| major_and_minor(first) <= major_and_minor(release))
    }

    /// The keyspaces that its tables are in.
    #[must_use]
    pub fn keyspaces(&self) -> Vec<String> {
        let (schema, _) = Schema::read_cql(&self.schema);
        schema.keyspaces.into_keys().collect()
    }
}

/// Rows of earlier steps, by the step's name.
type Results = BTreeMap<String, Vec<BTreeMap<String, String>>>;

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}

fn local_one() -> String {
    "LOCAL_ONE".to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HEAD: &str = "title = 't'\nsource = 's'\nabout = 'a'\n";

    #[test]
    fn a_step_that_says_little_is_prepared_and_runs_once() {
        let text = format!("{HEAD}[[phase]]\n[[phase.step]]\ncql = 'SELECT * FROM k.t'\n");
        let scenario = Scenario::parse("two-words", "", &text).unwrap();
        let step = &scenario.traffic.phases[0].steps[0];
        assert!(step.prepared && !step.together);
        assert_eq!((step.times, step.consistency.as_str()), (1, "LOCAL_ONE"));
    }

    #[test]
    fn a_server_reads_what_came_with_it_or_before() {
        let of = |head: &str| {
            let text = format!("{HEAD}{head}[[phase]]\n[[phase.step]]\ncql = 'SELECT * FROM k.t'\n");
            Scenario::parse("some", "", &text).unwrap()
        };
        let six = of("server = '6.0'\n");
        assert!(six.is_read_by("6.0-alpha2") && six.is_read_by("6.0.0") && six.is_read_by("10.1.2"));
        assert!(!six.is_read_by("5.0.9") && !six.is_read_by("4.1.10"));
        assert!(of("").is_read_by("4.0.19"));
    }

    #[test]
    fn its_keyspaces_are_those_of_its_schema() {
        let schema = "CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy'};
            CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy'};";
        let text = format!("{HEAD}[[phase]]\n[[phase.step]]\ncql = 'SELECT * FROM k.t'\n");
        let scenario = Scenario::parse("some", schema, &text).unwrap();
        assert_eq!(scenario.keyspaces(), ["a", "b"]);
    }

    #[test]
    fn a_misspelt_key_is_an_error_that_names_the_scenario_and_the_line() {
        let text = format!("{HEAD}[[phase]]\n[[phase.step]]\ncql = 'x'\nconsistancy = 'ONE'\n");
        let error = Scenario::parse("some", "", &text).unwrap_err().to_string();
        assert!(
            error.starts_with("scenario some: ") && error.contains("consistancy"),
            "{error}"
        );
    }

    #[test]
    fn an_expression_that_there_is_not_is_an_error() {
        let text = format!("{HEAD}[[phase]]\n[[phase.step]]\ncql = 'x'\nvalues = ['${{nobody(3)}}']\n");
        let error = Scenario::parse("some", "", &text).unwrap_err().to_string();
        assert!(error.contains("nobody"), "{error}");
    }
}
