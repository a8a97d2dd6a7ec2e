//! The forms that programs read, one a file. All of them are written at the end, out of what was kept.

mod github;
mod json;
mod junit;
mod sarif;

use std::io::{self, Write};

use clap::ValueEnum;

use super::lint::LintOutcome;
use super::print::KeptRemarks;
use super::remark::RemarkLevel;

/// In which form findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// For people.
    Text,
    /// One JSON document.
    Json,
    /// Workflow commands, which GitHub Actions shows beside the lines.
    Github,
    /// SARIF 2.1.0, for code scanning and editors.
    Sarif,
    /// JUnit XML, for GitLab, Jenkins and others that show test results.
    Junit,
}

/// Writes what was kept; `fails` says which remarks make a job fail.
pub(super) fn write(
    form: Form,
    kept: &KeptRemarks,
    outcome: &LintOutcome,
    fails: &dyn Fn(RemarkLevel) -> bool,
    out: &mut impl Write,
) -> io::Result<()> {
    match form {
        // Written at once.
        Form::Text => Ok(()),
        Form::Json => json::write(kept, outcome, out),
        Form::Github => github::write(kept, out),
        Form::Sarif => sarif::write(kept, out),
        Form::Junit => junit::write(kept, fails, out),
    }
}

#[cfg(test)]
mod testing {
    use super::super::{
        print::{KeptRemarks, PlacedRemark},
        remark::{Remark, RemarkLevel},
        source::Position,
    };
    use cqlens_rules::Severity;

    /// A finding and an error in two files; names and texts are hostile.
    pub(super) fn hostile() -> KeptRemarks {
        let position = |line, column| Position { line, column };
        let finding = Remark {
            level: RemarkLevel::Finding(Severity::Medium),
            table: Some("shop.<kv>".to_owned()),
            advice: vec!["50 % & more:\n::error::fake".to_owned()],
            suggested_cql: vec!["SELECT ']]>' \u{1b}[2J \0;".to_owned()],
            subject: "shop.<kv>".to_owned(),
            ..Remark::error("full-scan", "A \"title\", 100 %\r\n::set-env::x".to_owned(), None)
        };
        let error = Remark {
            label: "expected `<`".to_owned(),
            ..Remark::error("parse", "unexpected token".to_owned(), None)
        };
        let placed = |file: &str, remark, start, end| PlacedRemark {
            file: file.into(),
            start,
            end,
            cql: "SELECT '\u{202e}\0<&>' FROM kv".to_owned(),
            remark,
        };
        KeptRemarks {
            remarks: vec![
                placed("a b,c:d%/<x>.cql", finding, position(2, 3), position(2, 9)),
                placed("./second.cql", error, position(1, 1), position(3, 2)),
            ],
            inputs: vec![
                "a b,c:d%/<x>.cql".into(),
                "./second.cql".into(),
                "clean\u{1b}.cql".into(),
            ],
            left_out: 0,
        }
    }
}
