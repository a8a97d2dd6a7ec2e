//! What the rules find in one statement, and what that means for the exit code.

use std::process::ExitCode;

use crate::audit::Once;
use crate::catalog::Schema;
use crate::rules::{self, Finding, Settings, Severity};

/// The findings on the statement that was executed once, the severest first.
pub(super) fn findings(once: &Once, schema: &Schema) -> Vec<Finding> {
    let mut findings = rules::check(&once.window, schema, &Settings::new()).findings;
    // What a rule says of the schema as a whole is said of no statement.
    findings.retain(|finding| finding.patterns.contains(&once.id));
    findings
}

/// What became of the statements that were explained.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Texts that are no CQL, or that Cassandra would refuse.
    pub(super) wrong: usize,
    /// The severest finding.
    pub(super) worst: Option<Severity>,
}

impl Outcome {
    /// Takes over what became of others.
    pub(super) fn add(&mut self, other: Self) {
        self.wrong += other.wrong;
        self.worst = self.worst.max(other.worst);
    }

    /// 2 if something is wrong, since that could not be judged; else 1 if there is a finding at or above the limit.
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
