//! What the rules find in one statement, and what that means for the exit code.

use std::collections::BTreeSet;
use std::fmt;
use std::process::ExitCode;

use jiff::civil::Date;

use super::server::Server;
use cqlens_audit::audit::Once;
use cqlens_cql::schema::Schema;
use cqlens_cql::syntax::ast::Statement;
use cqlens_rules::{Comment, Context, Finding, Judging, Severity, Sorted, SuggestedNames};
use cqlens_window::number;
use cqlens_window::{Cluster, Window};

/// By what statements are judged.
#[derive(Debug)]
pub(super) struct Judge<'j> {
    judging: &'j Judging,
    today: Date,
    /// What tables are called that were suggested so far.
    names: SuggestedNames,
    /// Who would read the statements.
    pub(super) server: Server,
}

impl<'j> Judge<'j> {
    /// Thresholds and acceptances as set, judged on that day.
    pub(super) fn new(judging: &'j Judging, today: Date) -> Self {
        Self {
            judging,
            today,
            names: SuggestedNames::default(),
            server: Server::default(),
        }
    }

    /// The same for statements that this server reads.
    pub(super) fn for_server(self, server: Server) -> Self {
        Self { server, ..self }
    }

    /// The findings on the statement that was executed once (none for a BATCH message of several), by whether they are
    /// accepted, the severest first.
    pub(super) fn findings(&self, once: &Once, statement: Option<&Statement<'_>>, schema: &Schema) -> Sorted {
        let cluster = self.cluster();
        let context = Context::new(&once.window, schema, &cluster)
            .of_text(statement)
            .naming(&self.names);
        let mut findings = cqlens_rules::check(&context, &self.judging.settings).findings;
        // What a rule says of the schema as a whole is said of no statement.
        findings.retain(|finding| finding.patterns.contains(&once.id));
        self.set_apart(findings, schema)
    }

    /// The findings on the statements of a run beside each other.
    pub(super) fn together(&self, window: &Window, schema: &Schema) -> Sorted {
        let cluster = self.cluster();
        let context = Context::new(window, schema, &cluster).of_text(None);
        let judgement = cqlens_rules::check_together(&context, &self.judging.settings);
        self.set_apart(judgement.findings, schema)
    }

    /// What is known of the cluster.
    fn cluster(&self) -> Cluster {
        Cluster {
            product: Some(self.server.product()),
            release_version: match self.server {
                Server::Cassandra(version) => Some(version.to_string()),
                Server::ScyllaDb | Server::Keyspaces | Server::Dse => None,
            },
            ..Cluster::default()
        }
    }

    /// The findings on the definitions of a schema, by whether they are accepted, the severest first.
    pub(super) fn definitions(&self, schema: &Schema) -> Sorted {
        let findings = cqlens_rules::lint_on(&self.cluster(), schema, &self.judging.settings).findings;
        self.set_apart(findings, schema)
    }

    fn set_apart(&self, findings: Vec<Finding>, schema: &Schema) -> Sorted {
        // Only the comments that may speak of it are read, since this is done for each statement.
        let tables: BTreeSet<_> = findings
            .iter()
            .filter_map(|finding| Some((finding.keyspace.as_deref()?, finding.table.as_deref()?)))
            .collect();
        let of_comments = tables
            .into_iter()
            .filter_map(|(keyspace, table)| schema.table(keyspace, table))
            .flat_map(|table| Comment::of(table).acceptances);
        let acceptances: Vec<_> = self
            .judging
            .acceptances
            .iter()
            .cloned()
            .chain(of_comments)
            .collect();
        cqlens_rules::set_apart(findings, &acceptances, self.today)
    }
}

/// Says what comments of tables mean to accept and do not.
pub(super) fn warn_of_mistakes(schema: &Schema) {
    let tables = schema
        .keyspaces
        .values()
        .flat_map(|keyspace| keyspace.tables.values());
    for mistake in tables.flat_map(|table| Comment::of(table).mistakes) {
        tracing::warn!("{mistake}");
    }
}

/// What became of the statements that were explained.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct LintOutcome {
    /// Files, parts of files and standard input.
    pub(super) inputs: usize,
    /// Texts that are no CQL, or that Cassandra would refuse.
    pub(super) wrong: usize,
    /// Findings that are not accepted: info, low, medium, high.
    pub(super) findings: [usize; 4],
    /// Those that are.
    pub(super) accepted: usize,
    /// Statements that were explained.
    pub(super) statements: usize,
    /// Those of them that most rules had nothing to go by: without a schema their tables are not known.
    pub(super) unjudged: usize,
    /// Those of them whose tables have definitions that are not understood.
    pub(super) undefined: usize,
    /// Those of them that do not even say in which keyspace that would be.
    pub(super) without_keyspace: usize,
}

impl LintOutcome {
    /// Takes over what became of others.
    pub(super) fn add(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.wrong += other.wrong;
        for (count, more) in self.findings.iter_mut().zip(other.findings) {
            *count += more;
        }
        self.accepted += other.accepted;
        self.statements += other.statements;
        self.unjudged += other.unjudged;
        self.undefined += other.undefined;
        self.without_keyspace += other.without_keyspace;
    }

    /// Counts a finding that is not accepted.
    pub(super) fn found(&mut self, severity: Severity) {
        self.findings[severity as usize] += 1;
    }

    /// The severest finding that is not accepted.
    pub(super) fn worst(&self) -> Option<Severity> {
        let severities = [Severity::High, Severity::Medium, Severity::Low, Severity::Info];
        severities
            .into_iter()
            .find(|severity| self.findings[*severity as usize] > 0)
    }

    /// 2 if something is wrong, since that could not be judged; else 1 if there is a
    /// finding at or above the limit.
    pub(super) fn exit_code(self, fail_on: Option<Severity>) -> ExitCode {
        if self.wrong > 0 {
            ExitCode::from(2)
        } else if fail_on.is_some() && self.worst() >= fail_on {
            ExitCode::from(1)
        } else {
            ExitCode::SUCCESS
        }
    }
}

/// `12 statements in 3 inputs: 1 error, 2 high, 1 low; 1 accepted; 4 not judged`.
impl fmt::Display for LintOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statements = number::plural(self.statements as u64, "statement", "statements");
        let inputs = number::plural(self.inputs as u64, "input", "inputs");
        write!(out, "{statements} in {inputs}: ")?;
        let [info, low, medium, high] = self.findings;
        let errors = number::plural(self.wrong as u64, "error", "errors");
        let counts = [(self.wrong, errors)].into_iter().chain(
            [(high, "high"), (medium, "medium"), (low, "low"), (info, "info")]
                .map(|(count, severity)| (count, format!("{count} {severity}"))),
        );
        let counts: Vec<_> = counts
            .filter(|(count, _)| *count > 0)
            .map(|(_, said)| said)
            .collect();
        match counts.as_slice() {
            [] => out.write_str("no findings")?,
            counts => out.write_str(&counts.join(", "))?,
        }
        for (count, what) in [(self.accepted, "accepted"), (self.unjudged, "not judged")] {
            if count > 0 {
                write!(out, "; {count} {what}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_what_there_is() {
        let mut outcome = LintOutcome::default();
        assert_eq!(outcome.to_string(), "0 statements in 0 inputs: no findings");
        outcome.add(LintOutcome {
            inputs: 2,
            statements: 12,
            wrong: 1,
            findings: [1, 0, 0, 2],
            accepted: 3,
            unjudged: 4,
            ..LintOutcome::default()
        });
        assert_eq!(
            outcome.to_string(),
            "12 statements in 2 inputs: 1 error, 2 high, 1 info; 3 accepted; 4 not judged"
        );
        assert_eq!(outcome.worst(), Some(Severity::High));
    }
}
