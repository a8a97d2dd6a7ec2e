//! What the numbers of a report do not cover, in whole sentences.

mod away;
mod capture;
mod words;

use std::collections::BTreeMap;

use super::{Coverage, Report, load};
use capture::of_capture;
use cqlens_rules::RULES;
use cqlens_window::number;
use words::{in_words, opcodes, refusal, tls_failure};

/// One sentence for each gap; names and CQL stand in backticks. Never empty: it says so where nothing was
/// missed.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let mut lines: Vec<_> = report
        .coverage
        .notices
        .iter()
        .map(|notice| sentence(notice))
        .collect();
    lines.extend(away::lines(&report.window));
    lines.extend(counted(report));
    lines.extend(unknown_partitions(report));
    lines.extend(load::unknown(&report.load, report.cluster.partitioner.as_deref()));
    lines.extend(blind_spots(report));
    lines.extend(switched_off(report));
    if lines.is_empty() {
        let requests = number::exact(report.coverage.requests);
        lines.push(match report.coverage.requests {
            0 if report.coverage.capture.is_some() => "The capture contains no requests.".to_owned(),
            0 => {
                "No requests came through cqlens. Whether there were any elsewhere is not visible from here."
                    .to_owned()
            }
            _ => format!("Nothing is known to be missing: all {requests} requests were audited."),
        });
    }
    lines
}

fn switched_off(report: &Report) -> Option<String> {
    let rules = RULES.iter().map(|rule| rule.about().id);
    let off: Vec<_> = rules
        .filter(|rule| !report.rules.contains(rule))
        .map(|rule| format!("`{rule}`"))
        .collect();
    (!off.is_empty()).then(|| format!("Switched off by settings: {}.", off.join(", ")))
}

fn counted(report: &Report) -> Vec<String> {
    let coverage = &report.coverage;
    let mut lines = Vec::new();
    if coverage.dropped_bytes > 0 {
        lines.push(format!(
            "{}{} with {} were left out because the audit was behind; all of them were forwarded.",
            number::plural(coverage.dropped, "request", "requests"),
            opcodes(&coverage.dropped_by_opcode),
            number::bytes(coverage.dropped_bytes)
        ));
    }
    if let Some(capture) = &coverage.capture {
        lines.extend(of_capture(capture, coverage));
    }
    let mut say = |count: u64, one: &str, many: &str, what: &str| {
        if count > 0 {
            lines.push(format!("{} {what}.", number::plural(count, one, many)));
        }
    };
    of_audit(coverage, &mut say);
    of_answers(coverage, &mut say);
    of_statements(coverage, &mut say);
    of_sequences(coverage, &mut say);
    of_clients(report, &mut say);
    of_connections(coverage, say);
    lines
}

/// What the audit itself could not do.
fn of_audit(coverage: &Coverage, mut say: impl FnMut(u64, &str, &str, &str)) {
    let as_it_came = match coverage.capture {
        Some(_) => "could not be decoded",
        None => "could not be decoded; they were forwarded unchanged",
    };
    say(coverage.undecoded, "request", "requests", as_it_came);
    say(
        coverage.auditor_failures,
        "failure",
        "failures",
        "of the audit itself, a bug in cqlens: the requests in flight on that connection are among those \
         that could not be decoded",
    );
}

/// Statements that are in no pattern, or counted without their partitions, tables or columns.
fn of_statements(coverage: &Coverage, mut say: impl FnMut(u64, &str, &str, &str)) {
    say(
        coverage.refused,
        "execution was",
        "executions were",
        "refused by the server and touched no partition",
    );
    say(
        coverage.unparsed,
        "statement that could not be parsed is",
        "statements that could not be parsed are",
        "counted without partitions",
    );
    say(
        coverage.patterns_overflowed,
        "execution of another statement is",
        "executions of other statements are",
        "counted together: there was not enough room for each of them, and the \
            least costly were evicted first",
    );
    say(
        coverage.markers_disagreed,
        "execution was",
        "executions were",
        "of prepared statements whose partition key markers differ between the server's metadata and \
         the text and schema: the server's metadata was used",
    );
    say(
        coverage.patterns_collided,
        "execution of a template whose fingerprint collides with another one is",
        "executions of templates whose fingerprint collides with another one are",
        "counted together as other statements",
    );
    say(
        coverage.tables_overflowed,
        "read or write is",
        "reads and writes are",
        "not in the figures of tables: there was not enough room for all tables, and the least \
            used were evicted first",
    );
    say(
        coverage.indexed_columns_overflowed,
        "read or write of an indexed column is",
        "reads and writes of indexed columns are",
        "not in the figures of columns: there were too many such columns",
    );
}

/// What could not be put together with what came before.
fn of_sequences(coverage: &Coverage, mut say: impl FnMut(u64, &str, &str, &str)) {
    say(
        coverage.reads_forgotten,
        "read",
        "reads",
        "could not be followed to the last page: too many reads were paging at once, or the statement was \
            not executed again in the window in which they ended",
    );
    say(
        coverage.retries_forgotten,
        "failed request",
        "failed requests",
        "could not be compared with later requests: there were too many others",
    );
    say(
        coverage.sweeps_forgotten,
        "read of a token range",
        "reads of token ranges",
        "belonged to sweeps that were not followed to their end: too many were running at once",
    );
    say(
        coverage.not_related,
        "request was",
        "requests were",
        "not compared with those just before them: there were more per second than `sequence-budget` allows. \
            The frequency of walks, copies and repeated reads is estimated from the others",
    );
    say(
        coverage.reads_not_followed,
        "read had",
        "reads had",
        "rows that were not compared with the client's next requests: there were more per second than \
            `sequence-budget` allows. The frequency of joins is estimated from the others, and everything that \
            follows those is counted",
    );
    say(
        coverage.row_values_forgotten,
        "value of a row was",
        "values of rows were",
        "evicted before it was clear whether the client reads by them: joins may have more \
            reads than were seen",
    );
}

/// Answers that are missing, or not read as a whole.
fn of_answers(coverage: &Coverage, mut say: impl FnMut(u64, &str, &str, &str)) {
    say(
        coverage.responses_lost,
        "answer",
        "answers",
        "could not be decoded or had to be left out: latency, rows and warnings are missing",
    );
    say(
        coverage.rows_unknown,
        "answer",
        "answers",
        "did not say how many rows there are (DSE's continuous pages, or too long to be read as a whole): rows \
            are missing",
    );
    say(
        coverage.unanswered,
        "request",
        "requests",
        "had no response when the connection ended or the window closed",
    );
}

/// What clients sent that is in no pattern, or not wholly.
fn of_clients(report: &Report, mut say: impl FnMut(u64, &str, &str, &str)) {
    let coverage = &report.coverage;
    say(
        coverage.before_startup,
        "statement",
        "statements",
        "came before the STARTUP of the connection was complete: no server executes them, and they are in \
            no other figure",
    );
    let missed = report.patterns.iter().filter(|pattern| pattern.missed > 0);
    say(
        missed.count() as u64,
        "pattern lacks",
        "patterns lack",
        "some of the executions: those are counted among other statements, from times when there was no \
            room for the pattern",
    );
    for (client, &requests) in &coverage.refused_clients {
        let what = format!(
            "of {} refused by the server, with nothing else for a minute or longer",
            quoted(client)
        );
        say(requests, "request was", "requests were", &what);
    }
}

/// What whole connections are missing.
fn of_connections(coverage: &Coverage, mut say: impl FnMut(u64, &str, &str, &str)) {
    let not_looked_into = match coverage.capture {
        Some(_) => "not audited",
        None => "forwarded without being audited",
    };
    for (reason, &count) in &coverage.opaque_connections {
        say(
            count,
            "connection was",
            "connections were",
            &format!("{not_looked_into}: {}", in_words(reason)),
        );
    }
    for (reason, &count) in &coverage.tls_failures {
        say(count, "connection", "connections", &tls_failure(reason));
    }
    for (reason, &count) in &coverage.refused_connections {
        let what = format!("refused: {}", refusal(reason));
        say(count, "connection was", "connections were", &what);
    }
}

/// A name that a client has given itself.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "'").escape_debug())
}

fn unknown_partitions(report: &Report) -> Vec<String> {
    let reasons = report.coverage.unknown_reasons.iter();
    reasons
        .map(|(reason, &count)| {
            let executions = number::plural(count, "execution", "executions");
            format!(
                "The partitions of {executions} are not known exactly: {}.",
                in_words(reason)
            )
        })
        .collect()
}

/// Rules that miss the same thing share a sentence.
fn blind_spots(report: &Report) -> Vec<String> {
    let mut rules: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for spot in &report.blind_spots {
        rules
            .entry(&spot.text)
            .or_default()
            .push(format!("`{}`", spot.rule));
    }
    let sentence = |(text, rules): (&str, Vec<String>)| format!("{}: {text}.", rules.join(", "));
    rules.into_iter().map(sentence).collect()
}

fn sentence(text: &str) -> String {
    if text.ends_with('.') {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use cqlens_cql::footprint::{PartitionClass, Reason};
    use cqlens_rules::testing::{read, window};

    #[test]
    fn every_gap_has_its_sentence() {
        let mut report = testing::busy_report();
        report.coverage.tls_failures.insert("upstream".to_owned(), 3);
        for (reason, count) in [("max-connections", 5), ("proxy-header", 1)] {
            report
                .coverage
                .refused_connections
                .insert(reason.to_owned(), count);
        }
        report.coverage.auditor_failures = 1;
        let dropped = [("QUERY", 100), ("EXECUTE", 1900)].map(|(opcode, count)| (opcode.to_owned(), count));
        report.coverage.dropped_by_opcode.extend(dropped);
        let lines = lines(&report);
        for expected in [
            "2 of 3 nodes can be reached without cqlens: drivers learn their addresses from `system.peers`.",
            "1 failure of the audit itself, a bug in cqlens: the requests in flight on that connection are \
             among those that could not be decoded.",
            "2,000 requests (1,900 EXECUTE, 100 QUERY) with 1.2 MiB were left out because the audit was \
                behind; all of them were forwarded.",
            "12 requests could not be decoded; they were forwarded unchanged.",
            "31 requests had no response when the connection ended or the window closed.",
            "2 connections were forwarded without being audited: TLS on a port expected to be plain.",
            "3 connections failed because of TLS with the node.",
            "5 connections were refused: max-connections allowed no more.",
            "1 connection was refused: it did not begin with a PROXY protocol header, which is required \
                from every client here.",
            "The partitions of 92,101 executions are not known exactly: prepared before cqlens started, and \
             `system.prepared_statements` does not list the statement.",
        ] {
            assert!(
                lines.iter().any(|line| line == expected),
                "{expected} is not in {lines:#?}"
            );
        }
    }

    #[test]
    fn rules_that_miss_the_same_share_a_sentence() {
        let unknown = read("SELECT * FROM a.b", &[], PartitionClass::Unknown, 3);
        let lines = lines(&testing::report(&window([unknown])));
        let shared = "`allow-filtering`, `full-scan`, `token-range-scan`, `in-partition-key`, `in-cartesian-product`, \
                      `secondary-index-read`, `aggregate-without-partition-key`: 3 of 3 reads (1 pattern) touch partitions that are not known.";
        assert!(lines.iter().any(|line| line == shared), "{lines:#?}");
    }

    #[test]
    fn every_reason_has_its_words() {
        for reason in Reason::ALL {
            assert_ne!(in_words(reason.name()), reason.name());
        }
        assert_eq!(in_words("something new"), "something new");
    }

    #[test]
    fn where_nothing_was_missed_it_says_so() {
        let mut window = window([]);
        assert_eq!(
            lines(&testing::report(&window)),
            ["No requests came through cqlens. Whether there were any elsewhere is not visible from here."]
        );
        window.coverage.requests = 12;
        assert_eq!(
            lines(&testing::report(&window)),
            ["Nothing is known to be missing: all 12 requests were audited."]
        );
    }
}
