//! Statements that are prepared again and again instead of once.

use super::{About, Finding, Findings, Severity, Threshold, executions};
use crate::{
    number,
    rules::{
        Rule,
        figures::{OFTEN_PER_SECOND, STEADY_PER_HOUR, by_load, often, table, user_patterns},
    },
    window::{Pattern, PatternId, RetryCause, Window},
};
use cqlens_cql::schema::Schema;

pub(in crate::rules) struct PrepareChurn;

impl Rule for PrepareChurn {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_patterns(window).filter(|(_, pattern)| pattern.prepared_again > 0) {
            // Each client prepares at each node when it starts: what counts is what one of them does.
            let each = pattern.prepared_again / (pattern.clients.len() as u64).max(1);
            let severity = by_load(found, &ABOUT, each, window);
            let few = per_prepare(pattern) < found.threshold(&ABOUT, &FEW_EXECUTIONS);
            if few && severity > Severity::Info {
                found.push(finding(severity, id, pattern, window));
            }
        }
    }
}

/// Executions of the prepared statement for each PREPARE of it.
fn per_prepare(pattern: &Pattern) -> f64 {
    pattern.prepared as f64 / pattern.prepared_again.max(1) as f64
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let forgotten = pattern.repeats.retries.get(&RetryCause::Unprepared).copied();
    let title = format!(
        "{} {} are prepared again for every {} executions{}",
        executions(pattern),
        table(pattern),
        number::decimal(per_prepare(pattern)),
        often(pattern.prepared_again, window)
    );
    Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .first("forgotten_by_the_server", forgotten.unwrap_or_default())
        .first("executions_per_prepare", per_prepare(pattern))
        .first("prepared_again", pattern.prepared_again)
}

const FEW_EXECUTIONS: Threshold = Threshold {
    name: "few_executions",
    unit: "executions for each PREPARE",
    default: 10.0,
    origin: "own choice: preparing costs a round trip and a parse; spread over ten executions it hardly shows",
};

const ABOUT: About = About {
    id: "prepare-churn",
    group: "client habits",
    summary: "A statement is prepared anew for nearly every execution.",
    why: "\
        PREPARE is a round trip of its own, is parsed and checked, and drivers send it to every node besides. \
        Done for each execution it costs more than sending the text. If the texts differ, because values or \
        lists of changing length are written into them, each is an entry of its own in the server's cache, \
        which throws out others: their next execution is answered UNPREPARED and prepared again.",
    fix: "\
        Prepare once for each session and keep the prepared statement. Bind values instead of writing them \
        into the text; bind a list as a whole (`IN ?`).",
    before: "-- prepared in the function that runs it\nSELECT name FROM shop.users WHERE id = 7;",
    after: "-- prepared when the application starts\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        Where there are fewer than `few_executions` for each PREPARE: low from `steady_per_hour` of them an \
        hour and client, medium from `often_per_second` a second. Below, nothing: clients prepare when they \
        start.",
    thresholds: &[FEW_EXECUTIONS, STEADY_PER_HOUR, OFTEN_PER_SECOND],
    needs: "\
        PREPARE requests of statements that were executed before in the same window. Clients are told apart by what they say of \
        themselves and their address.",
    source: "\
        Scylla Monitoring, CQL optimization: prepared statements cache evictions; cassandra.yaml \
        `prepared_statements_cache_size`",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn prepared(prepares: u64, executions: u64, clients: u64) -> Pattern {
        let cql = "SELECT name FROM shop.users WHERE id = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, executions);
        pattern.prepared_again = prepares;
        (0..clients).for_each(|client| pattern.count_client(&format!("client {client}"), 1));
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&PrepareChurn, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_rate() {
        assert_eq!(severity(prepared(59, 59, 1)), None);
        assert_eq!(severity(prepared(60, 60, 1)), Some(Severity::Low));
        assert_eq!(severity(prepared(360_000, 360_000, 1)), Some(Severity::Medium));
    }

    #[test]
    fn what_is_executed_often_enough_is_fine() {
        assert_eq!(severity(prepared(60, 600, 1)), None);
        assert_eq!(severity(prepared(0, 1_000_000, 1)), None);
    }

    #[test]
    fn a_fleet_that_starts_is_no_churn() {
        assert_eq!(severity(prepared(90, 90, 30)), None);
    }

    #[test]
    fn the_title_says_how_few_executions_there_are() {
        let judgement = run(&PrepareChurn, &window([prepared(60, 90, 1)]));
        assert_eq!(
            judgement.findings[0].title,
            "Reads of `shop.users` are prepared again for every 1.5 executions, 1 a minute"
        );
    }
}
