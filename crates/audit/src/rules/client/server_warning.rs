//! Warnings that the server attached to its answers.

use std::collections::BTreeMap;

use super::{About, Findings, Patterns, Severity, application, by_application, user_statements};
use crate::{
    number,
    rules::{
        Context, Finding, Rule,
        figures::{at_rate, bytes, share},
    },
    window::{Pattern, Warned},
};

pub(in crate::rules) struct ServerWarning;

impl Rule for ServerWarning {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let warned = user_statements(context).filter(|(_, pattern)| others(pattern) > 0);
        for (application, patterns) in by_application(warned) {
            let warnings = application::sum(&patterns, others);
            found.push(finding(warnings, (&application, patterns), context));
        }
    }
}

/// Warnings that do not speak of tombstones: those have a rule of their own.
fn others(pattern: &Pattern) -> u64 {
    pattern.warnings.saturating_sub(pattern.tombstones.warned)
}

fn finding(warnings: u64, (application, patterns): (&str, Patterns<'_>), context: &Context<'_>) -> Finding {
    let whom = match application {
        "" => "clients".to_owned(),
        name => format!("`{name}`"),
    };
    let told = told(&patterns);
    let of = match told.first() {
        Some((class, warned)) => words(class, *warned),
        None => application::on_tables(&patterns),
    };
    let others = match told.len() {
        0 | 1 => String::new(),
        several => format!(
            " and {}",
            number::plural(several as u64 - 1, "other thing", "other things")
        ),
    };
    let title = format!(
        "The server warns {whom} of {of}{others}: {}{}",
        number::plural(warnings, "warning", "warnings"),
        at_rate(warnings, application::watch(&patterns, context))
    );
    let executions = application::sum(&patterns, |pattern| pattern.count);
    let all: Vec<_> = told
        .iter()
        .map(|(class, warned)| format!("{} ({})", words(class, *warned), number::count(warned.times)))
        .collect();
    let finding = application::finding(&ABOUT, Severity::Info, (application, patterns), context).title(title);
    let finding = match all.is_empty() {
        true => finding,
        false => finding.first("warned_of", all.join("; ")),
    };
    finding
        .first("warnings_share", share(warnings, executions))
        .first("warnings", warnings)
}

/// What the server warned of, the most frequent first.
fn told(patterns: &Patterns<'_>) -> Vec<(String, Warned)> {
    let mut classes: BTreeMap<&str, Warned> = BTreeMap::new();
    for (class, warned) in patterns.iter().flat_map(|(_, pattern)| &pattern.warned) {
        let all = classes.entry(class).or_default();
        all.times += warned.times;
        all.largest = all.largest.max(warned.largest);
    }
    let mut told: Vec<_> = classes
        .into_iter()
        .map(|(class, warned)| (class.to_owned(), warned))
        .collect();
    told.sort_by(|(left_class, left), (right_class, right)| {
        right.times.cmp(&left.times).then(left_class.cmp(right_class))
    });
    told
}

/// A class of warnings as a title says it, with its largest figure.
fn words(class: &str, warned: Warned) -> String {
    let largest = warned.largest;
    match class {
        "batch size" => format!(
            "batches of up to {} (`batch_size_warn_threshold`)",
            bytes(largest)
        ),
        "unlogged batch" => format!(
            "unlogged batches over up to {} (`unlogged_batch_across_partitions_warn_threshold`)",
            number::plural(largest, "partition", "partitions")
        ),
        "logged batch, gc_grace_seconds 0" => "logged batches on tables with `gc_grace_seconds` 0".to_owned(),
        "aggregate without partition key" => "aggregates without a partition key".to_owned(),
        "aggregate over partitions" => "aggregates over several partition keys".to_owned(),
        "local read size" => format!(
            "reads of more than {} on a replica (`local_read_size_warn_threshold`)",
            bytes(largest)
        ),
        "row index size" => format!(
            "partition indexes of more than {} (`row_index_read_size_warn_threshold`)",
            bytes(largest)
        ),
        "read size" => format!(
            "reads of more than {} (`coordinator_read_size_warn_threshold`)",
            bytes(largest)
        ),
        "index parts" => format!(
            "reads of up to {} of an index on a node (`sai_sstable_indexes_per_query_warn_threshold`)",
            number::plural(largest, "part", "parts")
        ),
        "replica filtering protection" => format!(
            "{} kept to filter rows of several replicas (`cached_replica_rows_warn_threshold`)",
            number::plural(largest, "row", "rows")
        ),
        "USE with prepared statements" => "`USE` together with prepared statements".to_owned(),
        "TTL beyond 2038" => "TTLs that end after 2038".to_owned(),
        "top-k consistency" => "nearest-neighbour searches that are read at ONE instead".to_owned(),
        "literal values" => "statements with values in their text".to_owned(),
        "filtering without ALLOW FILTERING" => {
            "filtering without ALLOW FILTERING, which later versions refuse".to_owned()
        }
        "consistency level" => {
            "consistency levels that are to be avoided (`write_consistency_levels_warned`)".to_owned()
        }
        "large data" => "partitions, rows or cells above the soft limits".to_owned(),
        "other" => "something that cqlens does not know".to_owned(),
        other => match other.strip_prefix("guardrail ") {
            Some(name) if largest > 0 => format!("the guardrail `{name}` ({})", number::count(largest)),
            Some(name) => format!("the guardrail `{name}`"),
            None => other.to_owned(),
        },
    }
}

const ABOUT: About = About {
    id: "server-warning",
    group: "client habits",
    summary: "The server attaches warnings to its answers, and nobody may be reading them.",
    why: "\
        Cassandra warns of batches that are large or span many partitions, of aggregates without a partition \
        key, and of whatever guardrails were set to warn. A warning comes with the answer, the driver logs it \
        at best, and the next step of a guardrail is to refuse.",
    fix: "\
        Take each warning for a refusal to come: the threshold at which the server warns has another one above it at which it \
        refuses. What the server says of a statement, the other findings on the same table mostly explain.",
    before: "SELECT COUNT(*) FROM shop.orders;",
    after: "SELECT COUNT(*) FROM shop.orders_by_day WHERE placed = ?;",
    severity: "Always info: what they warn of is judged by other rules. The statements of one application are one finding.",
    thresholds: &[],
    needs: "\
        Protocol version 4 or later. Of the texts the kind and the figure are kept, and not what they quote: the statement with \
        its values. Guardrails never warn superusers.",
    source: "native protocol v4 §2.2, the warning flag; Cassandra class `ClientWarn`",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{amid, read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn warned(warnings: u64) -> Pattern {
        let cql = "SELECT at FROM shop.events WHERE sensor = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, 600);
        pattern.warnings = warnings;
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&ServerWarning, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn warnings_are_worth_knowing_however_many_there_are() {
        assert_eq!(severity(warned(1)), Some(Severity::Info));
        let all = run(&ServerWarning, &window([warned(600_000)]));
        assert_eq!(all.findings[0].severity, Severity::Info);
    }

    #[test]
    fn warnings_of_tombstones_have_a_rule_of_their_own() {
        let mut tombstones = warned(60);
        tombstones.tombstones.warned = 60;
        assert_eq!(severity(tombstones), None);
        assert_eq!(severity(warned(0)), None);
    }

    #[test]
    fn the_title_says_what_the_server_said() {
        let mut pattern = warned(60);
        let class = |times, largest| Warned { times, largest };
        pattern.count_warned("batch size", class(50, 61_440));
        pattern.count_warned("guardrail page_size", class(10, 0));
        let judgement = run(&ServerWarning, &window([pattern]));
        let finding = &judgement.findings[0];
        assert_eq!(
            finding.title,
            "The server warns clients of batches of up to 60 KiB (`batch_size_warn_threshold`) and 1 other thing: 60 warnings, 1 a minute"
        );
        let all =
            "batches of up to 60 KiB (`batch_size_warn_threshold`) (50); the guardrail `page_size` (10)";
        assert!(
            finding.evidence.contains(&("warned_of", all.into())),
            "{:?}",
            finding.evidence
        );
    }

    #[test]
    fn the_title_counts_them() {
        let judgement = run(&ServerWarning, &window([warned(60)]));
        assert_eq!(
            judgement.findings[0].title,
            "The server warns clients of 1 statement on `shop.events`: 60 warnings, 1 a minute"
        );
    }
}
