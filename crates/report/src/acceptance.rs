//! What a report says of acceptances that speak of nothing in it.

use super::Report;
use cqlens_rules::{AcceptanceState, Applied};

impl Report {
    /// Whether there is anything to say of accepted findings.
    pub(super) fn speaks_of_acceptances(&self) -> bool {
        !(self.accepted.is_empty() && self.idle_acceptances.is_empty() && self.acceptance_mistakes.is_empty())
    }

    /// A sentence for each acceptance that matches nothing: it is not needed, or says something else than was
    /// meant.
    pub(super) fn idle_lines(&self) -> impl Iterator<Item = String> {
        self.idle_acceptances.iter().map(idle)
    }
}

fn idle(applied: &Applied) -> String {
    let acceptance = &applied.acceptance;
    let until = acceptance.until.strftime("%-d %B %Y");
    let (is, so) = match applied.state {
        AcceptanceState::Expired => ("was", ", now expired"),
        AcceptanceState::InForce | AcceptanceState::Exceeded => ("is", ""),
    };
    format!(
        "No finding matches what {is} accepted by {} until {until}{so}: {} ({}).",
        acceptance.owner,
        acceptance.scope(),
        acceptance.place
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Format, Report};
    use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};
    use cqlens_rules::{
        Acceptance, Context, Judging,
        testing::{read, window},
    };
    use cqlens_window::Cluster;

    fn acceptance(rule: &'static str) -> Acceptance {
        Acceptance {
            rule: Some(rule),
            table: None,
            pattern: None,
            at_most: None,
            owner: "platform".to_owned(),
            reason: "admin <page>".to_owned(),
            until: jiff::civil::date(2027, 3, 1),
            place: format!("{rule}.toml:1"),
        }
    }

    fn report() -> Report {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let cql = "SELECT a FROM shop.items WHERE a = ? ALLOW FILTERING";
        let window = window([read(cql, &flags, PartitionClass::Scan, 1_000)]);
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.items (id int PRIMARY KEY, a int) WITH comment = 'cqlens:acept timeouts';",
        )
        .unwrap();
        let judging = Judging {
            acceptances: vec![acceptance("allow-filtering"), acceptance("timeouts")],
            ..Judging::default()
        };
        let judgement = judging.judge(
            &Context::new(&window, &schema, &Cluster::default()),
            jiff::civil::date(2027, 1, 1),
        );
        Report::new(&window, &Cluster::default(), &schema, judgement, window.end)
    }

    fn text(format: Format) -> String {
        let mut text = Vec::new();
        report().render(format, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn accepted_findings_stand_apart_and_are_in_no_count() {
        let report = report();
        assert_eq!(report.accepted.len(), 1);
        assert!(
            report
                .findings
                .iter()
                .all(|finding| finding.rule != "allow-filtering")
        );
        assert_eq!(report.summary.headline, "No findings except an accepted one.");
    }

    #[test]
    fn every_form_names_owner_reason_and_day_and_what_matches_nothing() {
        let html = text(Format::Html);
        assert!(html.contains(
            "Accepted by platform until 1 March 2027: admin &#60;page&#62; (allow-filtering.toml:1)."
        ));
        let markdown = text(Format::Md);
        let accepted = markdown.split("## Accepted").nth(1).unwrap();
        assert!(
            accepted.contains(
                "Accepted by platform until 1 March 2027: admin &lt;page&gt; (allow-filtering.toml:1)."
            ),
            "{accepted}"
        );
        for text in [html, markdown] {
            assert!(
                text.contains("No finding matches what is accepted by platform until 1 March 2027: "),
                "{text}"
            );
            assert!(text.contains("(timeouts.toml:1)."), "{text}");
            assert!(
                text.contains("after <code>cqlens:</code> comes") || text.contains("after `cqlens:` comes"),
                "{text}"
            );
        }
    }
}
