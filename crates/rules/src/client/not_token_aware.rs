//! Requests for one partition that go to a node that does not hold it.

use super::{About, Findings, Severity, Threshold, application, user_statements};
use crate::{
    Context, Finding, Rule,
    figures::{is_steady, often, share},
};
use cqlens_window::{Pattern, PatternId, Routing, number};

pub(crate) struct NotTokenAware;

impl Rule for NotTokenAware {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        if context.is_single_node() {
            return found.blind_on_one_node(&ABOUT);
        }
        let mut all = Routing::default();
        user_statements(context).for_each(|(_, pattern)| all.merge(&pattern.routing));
        let counts = others(all) >= found.threshold(&ABOUT, &OTHER_SHARE);
        if counts && is_steady(found, all.other, context.window) {
            found.push(finding(found, all, context));
        }
        if all.share().is_none() && all.unknown > 0 {
            let executions = number::plural(all.unknown, "execution", "executions");
            let text = format!(
                "for {executions}, the coordinator or the nodes that hold the partition are not known"
            );
            found.blind(&ABOUT, text);
        }
    }
}

/// The number of nodes, where clients reached only one of them: who connects to the one listener of a proxy in
/// front of several nodes cannot choose.
fn behind_one_listener(context: &Context<'_>) -> Option<u64> {
    let nodes = &context.window.load.nodes;
    let asked = nodes.values().filter(|node| node.coordinated > 0).count();
    (asked == 1 && nodes.len() > 1).then_some(nodes.len() as u64)
}

/// Share of the requests that went elsewhere, of those of which it is known.
fn others(all: Routing) -> f64 {
    share(all.other, all.other + all.replica)
}

fn finding(found: &Findings<'_>, all: Routing, context: &Context<'_>) -> Finding {
    let missed = |(_, pattern): &(PatternId, &Pattern)| pattern.routing.other > 0;
    let patterns: Vec<_> = user_statements(context).filter(missed).collect();
    let mut unprepared = Routing::default();
    for (_, pattern) in patterns.iter().filter(|(_, pattern)| pattern.prepared == 0) {
        unprepared.merge(&pattern.routing);
    }
    let others = others(all);
    let title = format!(
        "{} of the requests for one partition go to a node that does not hold it{}",
        number::percent(others),
        often(all.other, context.window)
    );
    let impact = application::impact(Severity::Low, &patterns).times(all.other);
    let severity = context.severity(found, &impact.at_most(Severity::Medium));
    let mut finding = Finding::on_all(&ABOUT, severity, patterns, context).title(title);
    if let Some(nodes) = behind_one_listener(context) {
        let title = format!("{}; all of them went to one of the {nodes} nodes", finding.title);
        finding = finding.title(title).advice(format!(
            "Clients reach only one of the {nodes} nodes, so no driver could do better. If cqlens shows them \
             a single address, run `cqlens proxy --topology cluster`, which listens on one address per node. \
             The same applies to any other load balancer in front of the cluster."
        ));
    }
    finding
        .first("to_other_nodes_as_text", unprepared.other)
        .first("not_known", all.unknown)
        .first("to_replicas", all.replica)
        .first("to_other_nodes", all.other)
        .first("to_other_nodes_share", others)
}

const OTHER_SHARE: Threshold = Threshold {
    name: "other_share",
    unit: "of the requests",
    default: 0.1,
    origin: "\
        cqlens default: topology changes cause a few misses; without token awareness, RF 3 on 6 nodes misses \
        half of the time",
};

const ABOUT: About = About {
    id: "not-token-aware",
    group: "client habits",
    summary: "Requests for one partition go to nodes that do not hold it.",
    why: "Such a coordinator has no data of its own to read: it forwards the request to a replica and passes \
        the response on. Every request takes an extra hop, loads an extra node, and depends on an extra node \
        that may be slow.",
    fix: "\
        Use the driver's token-aware policy (most drivers enable it by default) and prepared statements that \
        bind the whole partition key, because only then can the driver compute the token. For statements \
        sent as text, set the routing key. A driver that was given a single address in front of several \
        nodes cannot choose a node: run `cqlens proxy --topology cluster`, so that it sees one address per \
        node.",
    fix_in_short: "Token-aware policy",
    before: "-- round robin over all nodes\nSELECT name FROM shop.users WHERE id = 7;",
    after: "-- prepared, with a token-aware policy\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        From `other_share` of the requests whose replicas and coordinator are known, if they come steadily: \
        low, raised or lowered by their share of time and work, medium at most. Nothing below.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[OTHER_SHARE],
    needs: "The nodes' tokens and the keyspaces' replication, read over the control connection; Murmur3.",
    source: "Scylla Monitoring, CQL optimization: non-token-aware queries; the drivers' `TokenAwarePolicy`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn routed(replica: u64, other: u64, unknown: u64) -> Pattern {
        let cql = "SELECT name FROM shop.users WHERE id = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, replica + other + unknown);
        pattern.routing = Routing {
            replica,
            other,
            unknown,
        };
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&NotTokenAware, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn it_is_low_from_a_share_that_comes_steadily() {
        assert_eq!(severity(routed(541, 60, 0)), None);
        assert_eq!(severity(routed(400, 200, 0)), Some(Severity::Low));
        assert_eq!(severity(routed(0, 9, 0)), None);
        let all = run(&NotTokenAware, &window([routed(0, 360_000, 0)]));
        assert_eq!(all.findings[0].severity, Severity::Medium);
        let little = run(
            &NotTokenAware,
            &window([routed(0, 1_000, 0), routed(1_000_000, 0, 0)]),
        );
        assert_eq!(little.findings, [], "a thousandth of the requests");
        let mut heavy = routed(9_000, 0, 0);
        heavy.rows.record_n(10_000, 9_000);
        heavy.latency_us.record_n(2_000_000, 9_000);
        let cheap = run(&NotTokenAware, &window([routed(0, 1_000, 0), heavy]));
        assert_eq!(
            cheap.findings[0].severity,
            Severity::Info,
            "a tenth, of next to no cost"
        );
    }

    #[test]
    fn behind_one_listener_no_driver_could_do_better() {
        let mut window = window([routed(0, 600, 0)]);
        for (node, coordinated) in [("a", 600), ("b", 0), ("c", 0)] {
            let load = window.load.nodes.entry(node.to_owned()).or_default();
            load.coordinated = coordinated;
        }
        let finding = &run(&NotTokenAware, &window).findings[0];
        assert!(
            finding
                .title
                .ends_with("; all of them went to one of the 3 nodes"),
            "{}",
            finding.title
        );
        assert!(
            finding.advice.contains("--topology cluster"),
            "{}",
            finding.advice
        );
    }

    #[test]
    fn requests_that_go_to_replicas_are_fine() {
        assert_eq!(severity(routed(1_000_000, 0, 0)), None);
    }

    #[test]
    fn all_patterns_are_judged_together_and_those_that_miss_are_named() {
        let judgement = run(&NotTokenAware, &window([routed(100, 0, 0), routed(0, 100, 7)]));
        let finding = &judgement.findings[0];
        assert_eq!(finding.patterns.len(), 1);
        assert_eq!(
            finding.title,
            "50 % of the requests for one partition go to a node that does not hold it, 1.7 a minute"
        );
    }

    #[test]
    fn where_nobody_knows_it_says_so() {
        let judgement = run(&NotTokenAware, &window([routed(0, 0, 7)]));
        assert_eq!((judgement.findings.len(), judgement.blind_spots.len()), (0, 1));
        assert!(judgement.blind_spots[0].text.starts_with("for 7 executions"));
    }
}
