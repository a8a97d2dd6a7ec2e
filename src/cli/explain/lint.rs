//! What the rules find in one statement, and what that means for the exit code.

use std::collections::BTreeSet;
use std::process::ExitCode;

use jiff::civil::Date;

use cqlens_audit::audit::Once;
use cqlens_audit::rules::{self, Comment, Context, Finding, Judging, Severity, Sorted};
use cqlens_audit::window::Cluster;
use cqlens_cql::schema::Schema;

/// By what statements are judged.
#[derive(Debug)]
pub(super) struct Judge<'j> {
    judging: &'j Judging,
    today: Date,
}

impl<'j> Judge<'j> {
    /// Thresholds and acceptances as set, judged on that day.
    pub(super) fn new(judging: &'j Judging, today: Date) -> Self {
        Self { judging, today }
    }

    /// The findings on the statement that was executed once, by whether they are
    /// accepted, the severest first.
    pub(super) fn findings(&self, once: &Once, schema: &Schema) -> Sorted {
        let cluster = Cluster::default();
        let context = Context::new(&once.window, schema, &cluster);
        let mut findings = rules::check(&context, &self.judging.settings).findings;
        // What a rule says of the schema as a whole is said of no statement.
        findings.retain(|finding| finding.patterns.contains(&once.id));
        self.set_apart(findings, schema)
    }

    /// The findings on the definitions of a schema, by whether they are accepted, the severest first.
    pub(super) fn definitions(&self, schema: &Schema) -> Sorted {
        let findings = rules::lint(schema, &self.judging.settings).findings;
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
        rules::set_apart(findings, &acceptances, self.today)
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
    /// Texts that are no CQL, or that Cassandra would refuse.
    pub(super) wrong: usize,
    /// The severest finding that is not accepted.
    pub(super) worst: Option<Severity>,
    /// Statements that were explained.
    pub(super) statements: usize,
    /// Those of them that most rules had nothing to go by: without a schema their tables are not known.
    pub(super) unjudged: usize,
}

impl LintOutcome {
    /// Takes over what became of others.
    pub(super) fn add(&mut self, other: Self) {
        self.wrong += other.wrong;
        self.worst = self.worst.max(other.worst);
        self.statements += other.statements;
        self.unjudged += other.unjudged;
    }

    /// 2 if something is wrong, since that could not be judged; else 1 if there is a
    /// finding at or above the limit.
    pub(super) fn exit_code(self, fail_on: Option<Severity>) -> ExitCode {
        if self.wrong > 0 {
            ExitCode::from(2)
        } else if fail_on.is_some() && self.worst >= fail_on {
            ExitCode::from(1)
        } else {
            ExitCode::SUCCESS
        }
    }
}
