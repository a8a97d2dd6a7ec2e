//! Nodes that do not have the same schema for longer than a change takes.

use super::{About, Findings, Severity, Threshold};
use crate::{Context, Finding, Rule};
use cqlens_window::number;

pub(crate) struct SchemaDisagreement;

impl Rule for SchemaDisagreement {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let Some(disagreement) = &context.window.schema_disagreement else {
            return;
        };
        let reaches =
            |threshold: &Threshold| disagreement.seconds as f64 >= found.threshold(&ABOUT, threshold);
        let severity = match (reaches(&LONG), reaches(&SHORT)) {
            (true, _) => Severity::Medium,
            (false, true) => Severity::Low,
            (false, false) => return,
        };
        found.push(finding(severity, disagreement, context));
    }
}

fn finding(
    severity: Severity,
    disagreement: &cqlens_window::LongestDisagreement,
    context: &Context<'_>,
) -> Finding {
    let title = format!(
        "Nodes had {} versions of the schema for {}: {}",
        disagreement.versions.len(),
        number::seconds(disagreement.seconds as f64),
        minority(disagreement)
    );
    Finding::on_definition(&ABOUT, severity, context)
        .title(title)
        .first("versions", disagreement.versions.len() as u64)
        .first("seconds", disagreement.seconds)
}

/// The nodes that do not have the version that most have, some of them by name.
fn minority(disagreement: &cqlens_window::LongestDisagreement) -> String {
    let most = disagreement.versions.iter().max_by_key(|(_, nodes)| nodes.len());
    let common = most.map(|(version, _)| version);
    let others = disagreement
        .versions
        .iter()
        .filter(|(version, _)| Some(*version) != common);
    let nodes: Vec<&str> = others.flat_map(|(_, nodes)| nodes).map(String::as_str).collect();
    let (named, rest) = nodes.split_at(nodes.len().min(3));
    let named = named.join(", ");
    match rest.len() {
        0 => format!(
            "{named} differ{} from most",
            if nodes.len() == 1 { "s" } else { "" }
        ),
        rest => format!("{named} and {rest} others differ from most"),
    }
}

const SHORT: Threshold = Threshold {
    name: "some_seconds",
    unit: "seconds",
    default: 60.0,
    origin: "cqlens default; drivers wait 10 s for agreement after a change",
};

const LONG: Threshold = Threshold {
    name: "long_seconds",
    unit: "seconds",
    default: 600.0,
    origin: "cqlens default: no change takes ten minutes",
};

const ABOUT: About = About {
    id: "schema-disagreement",
    group: "client habits",
    summary: "Nodes disagree on the schema version for minutes.",
    why: "Until nodes agree, a coordinator may use a table that a replica does not have: requests fail, and \
        results depend on the coordinator. Definitions sent by two clients at the same time can make \
        versions differ for good; a node that is down keeps its old version until it is back.",
    fix: "\
        Run `nodetool describecluster`. If the node is down, bring it back; if it is up, restart it or make \
        it fetch the schema from the others (`nodetool resetlocalschema`). Send definitions from one place, \
        one at a time, and wait for schema agreement in between.",
    fix_in_short: "Wait for agreement",
    before: "-- two migrations at once, from two clients\nCREATE TABLE shop.carts (id uuid PRIMARY KEY);\nSELECT schema_version FROM system.peers;",
    after: "-- one client, which waits until all nodes report the same version\nSELECT schema_version FROM \
        system.local;\nSELECT schema_version FROM system.peers;",
    severity: "Low from `some_seconds`, medium from `long_seconds`.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[SHORT, LONG],
    needs: "A control connection, on which cqlens checks every 30 seconds.",
    source: "`nodetool describecluster`; `schema_version` of `system.local` and `system.peers`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, window};

    fn found(seconds: u64, others: &[&str]) -> Vec<(Severity, String)> {
        let mut window = window([]);
        let nodes = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect();
        window.schema_disagreement = Some(cqlens_window::LongestDisagreement {
            seconds,
            versions: [
                ("a".to_owned(), nodes(&["10.9.0.1", "10.9.0.2", "10.9.0.9"])),
                ("b".to_owned(), nodes(others)),
            ]
            .into(),
        });
        let findings = run(&SchemaDisagreement, &window).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn minutes_are_found_and_the_seconds_of_a_change_are_not() {
        assert_eq!(found(30, &["10.9.0.3"]), []);
        assert_eq!(
            found(120, &["10.9.0.3"]),
            [(
                Severity::Low,
                "Nodes had 2 versions of the schema for 2 min: 10.9.0.3 differs from most".to_owned()
            )]
        );
        let long = found(3_600, &["10.9.0.3", "10.9.0.4"]);
        assert_eq!(long[0].0, Severity::Medium);
        assert!(
            long[0].1.ends_with("10.9.0.3, 10.9.0.4 differ from most"),
            "{long:?}"
        );
    }
}
