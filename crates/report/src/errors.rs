//! What the cluster refused or warned of, statement by statement.

use std::{cmp::Reverse, collections::BTreeMap};

use cqlens_cql::plan::StatementKind;
use cqlens_window::number;

use crate::{PatternReport, Report};

/// Statements with a line each.
const MOST: usize = 20;

/// Errors and warnings of a statement, or of all definitions together.
pub(crate) struct ErrorLine<'r> {
    /// The statement; none of definitions.
    pub(crate) pattern: Option<&'r PatternReport>,
    /// `3 errors in 120 executions (2.5 %): READ_TIMEOUT 2, OVERLOADED 1; 40 warnings`.
    pub(crate) said: String,
}

impl Report {
    /// The application's statements with errors or warnings, those with most first, and in a line before them the definitions.
    pub(crate) fn error_lines(&self) -> Vec<ErrorLine<'_>> {
        let troubled = self.patterns.iter().filter(|one| one.errors + one.warnings > 0);
        let (definitions, mut others): (Vec<_>, Vec<_>) =
            troubled.partition(|pattern| pattern.kind == StatementKind::Ddl);
        others.sort_by_key(|pattern| (Reverse(pattern.errors), Reverse(pattern.warnings), pattern.id));
        let all = self.patterns.iter().filter(|one| one.kind == StatementKind::Ddl);
        let of_definitions = (!definitions.is_empty()).then(|| ErrorLine {
            pattern: None,
            said: said(&definitions, all.map(|one| one.count).sum()),
        });
        let of_others = others.into_iter().take(MOST).map(|pattern| ErrorLine {
            pattern: Some(pattern),
            said: said(&[pattern], pattern.count),
        });
        of_definitions.into_iter().chain(of_others).collect()
    }
}

fn said(patterns: &[&PatternReport], executions: u64) -> String {
    let errors: u64 = patterns.iter().map(|pattern| pattern.errors).sum();
    let warnings: u64 = patterns.iter().map(|pattern| pattern.warnings).sum();
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in patterns.iter().flat_map(|pattern| &pattern.error_codes) {
        *by_name.entry(name).or_default() += count;
    }
    let mut by_name: Vec<_> = by_name.into_iter().collect();
    by_name.sort_by_key(|&(name, count)| (Reverse(count), name));
    let by_name: Vec<_> = by_name
        .iter()
        .map(|(name, count)| format!("{name} {}", number::count(*count)))
        .collect();
    let of_errors = (errors > 0).then(|| {
        let names = match by_name.is_empty() {
            true => String::new(),
            false => format!(": {}", by_name.join(", ")),
        };
        format!(
            "{} in {} ({}){names}",
            number::plural(errors, "error", "errors"),
            number::plural(executions, "execution", "executions"),
            number::share(errors, executions)
        )
    });
    let of_warnings = (warnings > 0).then(|| number::plural(warnings, "warning", "warnings"));
    let parts: Vec<_> = of_errors.into_iter().chain(of_warnings).collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use crate::testing::report;
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind};
    use cqlens_rules::testing::{pattern, read, window};

    #[test]
    fn errors_are_counted_by_their_names_and_definitions_together() {
        let mut timeouts = read(
            "SELECT a FROM shop.t WHERE id = ?",
            &[],
            PartitionClass::Single,
            120,
        );
        timeouts.errors = 3;
        timeouts.error_codes = [(0x1200, 2), (0x1001, 1)].into();
        let mut warned = read(
            "SELECT a FROM shop.u WHERE id = ?",
            &[],
            PartitionClass::Single,
            9,
        );
        warned.warnings = 4;
        let tables = (0..4).map(|at| {
            let mut create = pattern(
                &format!("CREATE TABLE shop.t{at} (a int PRIMARY KEY)"),
                StatementKind::Ddl,
                1,
            );
            create.errors = u64::from(at > 0);
            create.error_codes = [(0x2400, create.errors)].into();
            create
        });
        let report = report(&window(tables.chain([warned, timeouts])));
        let lines: Vec<_> = report.error_lines().into_iter().map(|line| line.said).collect();
        assert_eq!(
            lines,
            [
                "3 errors in 4 executions (75 %): ALREADY_EXISTS 3",
                "3 errors in 120 executions (2.5 %): READ_TIMEOUT 2, OVERLOADED 1",
                "4 warnings",
            ]
        );
    }
}
