//! Requests that are traced though nobody looks.

use super::{About, Findings, Patterns, Severity, Threshold, application, by_application, user_statements};
use crate::{
    Context, Finding, Rule,
    figures::{often, share},
};
use cqlens_window::number;

pub(crate) struct TracedRequests;

impl Rule for TracedRequests {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let traced = user_statements(context).filter(|(_, pattern)| pattern.traced > 0);
        for (application, patterns) in by_application(traced) {
            let times = application::sum(&patterns, |pattern| pattern.traced);
            if times as f64 >= found.threshold(&ABOUT, &SOME) {
                let impact = application::impact(Severity::Medium, &patterns).times(times);
                let severity = context.severity(found, &impact);
                found.push(finding(severity, times, (&application, patterns), context));
            }
        }
    }
}

fn finding(
    severity: Severity,
    times: u64,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let executions = application::sum(&patterns, |pattern| pattern.count);
    let title = format!(
        "{} traces {} of {}{}",
        application::subject(application, context),
        number::percent(share(times, executions)),
        application::on_tables(&patterns),
        often(times, application::watch(&patterns, context))
    );
    application::finding(&ABOUT, severity, (application, patterns), context)
        .title(title)
        .first("traced_share", share(times, executions))
        .first("traced", times)
}

const SOME: Threshold = Threshold {
    name: "some",
    unit: "traced executions",
    default: 100.0,
    origin: "cqlens default: tracing by hand covers a few",
};

const ABOUT: About = About {
    id: "traced-requests",
    group: "client habits",
    summary: "An application traces its requests.",
    why: "Each traced request writes one row to `system_traces.sessions` and ten to thirty to \
        `system_traces.events`, from every node involved: one read becomes dozens of writes, which are kept \
        for a day.",
    fix: "\
        Disable tracing on the driver's session or statement. To look at some requests, set a probability on \
        the nodes with `nodetool settraceprobability 0.001`, and set it back to 0 afterwards.",
    fix_in_short: "Stop tracing",
    before: "-- tracing is on\nSELECT name FROM shop.users WHERE id = ?;",
    after: "-- tracing is off\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "Medium, from `some`. The statements of one application are one finding.",
    severities: &[Severity::Medium],
    thresholds: &[SOME],
    needs: "The tracing flag of requests. Traces that nodes start by themselves are not visible.",
    source: "Native protocol v4 §2.2, the tracing flag; Cassandra documentation, `nodetool settraceprobability`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run};
    use cqlens_cql::footprint::PartitionClass;

    fn found(traced: u64) -> Vec<(Severity, String)> {
        let cql = "SELECT name FROM shop.users WHERE id = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, 600);
        pattern.traced = traced;
        let findings = run(&TracedRequests, &amid([pattern])).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn tracing_that_was_left_on_is_medium() {
        assert_eq!(
            found(600),
            [(
                Severity::Medium,
                "A client traces 100 % of 1 statement on `shop.users`, 10 a second".to_owned()
            )]
        );
    }

    #[test]
    fn a_few_traces_by_hand_are_fine() {
        assert_eq!(found(20), []);
    }
}
