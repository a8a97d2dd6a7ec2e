//! Errors other than timeouts: the cluster could not, or the client should not have asked.

use super::{
    About, FEW, Finding, Findings, HIGH_SHARE, MEDIUM_SHARE, Severity, by_share, executions, user_statements,
};
use crate::{
    number,
    rules::{
        Rule, error_code,
        figures::{often, share, table},
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::schema::Schema;

pub(in crate::rules) struct ServerError;

impl Rule for ServerError {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_statements(window) {
            let (server, client) = (errors(pattern, is_servers), errors(pattern, is_clients));
            let of_server = by_share(found, &ABOUT, server, pattern.count);
            // What is wrong with a statement costs its sender, not the cluster.
            let of_client = by_share(found, &ABOUT, client, pattern.count).map(|_| Severity::Low);
            if let Some(severity) = of_server.max(of_client) {
                found.push(finding(severity, (id, pattern), (server, client), window));
            }
        }
    }
}

/// The cluster could not do it: SERVER_ERROR, UNAVAILABLE, OVERLOADED, failures of replicas and functions.
fn is_servers(code: u32) -> bool {
    matches!(code, 0x0000 | 0x1000..=0x1003 | 0x1300 | 0x1400 | 0x1500 | 0x1600)
}

/// The client asked for something wrong or forbidden. UNPREPARED is not among them: drivers prepare again by
/// themselves.
fn is_clients(code: u32) -> bool {
    matches!(code, 0x000A | 0x0100 | 0x2000..=0x24FF)
}

fn errors(pattern: &Pattern, is_its: fn(u32) -> bool) -> u64 {
    let codes = pattern.error_codes.iter();
    codes
        .filter(|(code, _)| is_its(**code))
        .map(|(_, count)| count)
        .sum()
}

/// The errors by name, the most frequent first.
fn names(pattern: &Pattern) -> String {
    let is_its = |code: u32| is_servers(code) || is_clients(code);
    let mut codes: Vec<_> = pattern
        .error_codes
        .iter()
        .filter(|(code, _)| is_its(**code))
        .collect();
    codes.sort_by_key(|&(code, count)| (std::cmp::Reverse(count), code));
    let names: Vec<_> = codes
        .iter()
        .map(|&(&code, &count)| format!("{} {}", number::count(count), error_code::name(code)))
        .collect();
    names.join(", ")
}

fn finding(
    severity: Severity,
    (id, pattern): (PatternId, &Pattern),
    (server, client): (u64, u64),
    window: &Window,
) -> Finding {
    let all = server + client;
    let title = format!(
        "{} {} fail: {}, {}{}",
        executions(pattern),
        table(pattern),
        names(pattern),
        number::percent(share(all, pattern.count)),
        often(all, window)
    );
    let finding = Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .first("failures_share", share(all, pattern.count))
        .first("refused_requests", client)
        .first("failures_of_the_cluster", server);
    if server > 0 {
        return finding;
    }
    finding.advice(
        "The server refuses what the client asks: the statement, its values or its rights are wrong. The server's message in the \
         application's log says which.",
    )
}

const ABOUT: About = About {
    id: "server-error",
    group: "client habits",
    summary: "The server answers executions with errors.",
    why: "\
        UNAVAILABLE: fewer replicas are alive than the consistency level needs. OVERLOADED: a node sheds load. \
        READ_FAILURE and WRITE_FAILURE: a replica could not do it, for example because of too many \
        tombstones. Each is tried again or lost. Errors on the client's side (INVALID, SYNTAX_ERROR, \
        UNAUTHORIZED) cost little, but somebody does not get what they asked for.",
    fix: "\
        Where the cluster fails, look at its nodes and at what else is said of the pattern; a lower \
        consistency level survives more nodes that are down. Where the client is refused, the server's \
        message in the application's log says why.",
    before: "-- CONSISTENCY ALL while a replica is down: UNAVAILABLE\nSELECT name FROM shop.users WHERE id = ?;",
    after: "-- CONSISTENCY LOCAL_QUORUM\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        Failures of the cluster by their share of the executions: high from `high_share`, medium from \
        `medium_share`, low below; one step down where there were fewer than `few`. Requests that are refused \
        as wrong: low.",
    thresholds: &[HIGH_SHARE, MEDIUM_SHARE, FEW],
    needs: "The server's errors.",
    source: "native protocol v4 §9, error codes",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn failing(code: u32, failures: u64, times: u64) -> Pattern {
        let cql = "SELECT at FROM shop.events WHERE sensor = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, times);
        (0..failures).for_each(|_| pattern.count_error(code));
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&ServerError, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn failures_of_the_cluster_follow_their_share() {
        assert_eq!(severity(failing(0x1000, 10, 100_000)), Some(Severity::Low));
        assert_eq!(severity(failing(0x1300, 10, 10_000)), Some(Severity::Medium));
        assert_eq!(severity(failing(0x0000, 10, 1_000)), Some(Severity::High));
    }

    #[test]
    fn requests_that_are_wrong_are_low_however_many() {
        assert_eq!(severity(failing(0x2200, 1_000, 1_000)), Some(Severity::Low));
        let judgement = run(&ServerError, &window([failing(0x2200, 60, 60)]));
        assert!(judgement.findings[0].advice.starts_with("The server refuses"));
    }

    #[test]
    fn timeouts_and_forgotten_statements_are_not_its_business() {
        assert_eq!(severity(failing(0x1200, 500, 1_000)), None);
        assert_eq!(severity(failing(0x2500, 500, 1_000)), None);
        assert_eq!(severity(failing(0x1000, 0, 1_000)), None);
    }

    #[test]
    fn the_title_names_the_errors() {
        let mut both = failing(0x1000, 59, 600);
        both.count_error(0x2200);
        let judgement = run(&ServerError, &window([both]));
        assert_eq!(
            judgement.findings[0].title,
            "Reads of `shop.events` fail: 59 UNAVAILABLE, 1 INVALID, 10 %, 1 a minute"
        );
    }
}
