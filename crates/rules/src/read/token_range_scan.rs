//! Reads between two tokens: the way in which exports and analytics walk a table.

use std::collections::BTreeMap;

use super::{About, Findings, Impact, Severity, blind_on_unknown, is_sweep, reads, table, user_reads};
use crate::{
    Context, Finding, Rule,
    application::{self, Patterns},
    figures::often,
    statement::table_of,
};
use cqlens_cql::schema::TableName;
use cqlens_window::{TokenRanges, number};

pub(crate) struct TokenRangeScan;

impl Rule for TokenRangeScan {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let sweeps = user_reads(context).filter(|(_, pattern)| is_sweep(pattern));
        for (application, patterns) in application::by_application(sweeps) {
            let mut tables: BTreeMap<Option<TableName>, Patterns<'_>> = BTreeMap::new();
            for (id, pattern) in patterns {
                tables.entry(table_of(pattern)).or_default().push((id, pattern));
            }
            for patterns in tables.into_values() {
                found.push(finding(found, &application, patterns, context));
            }
        }
        blind_on_unknown(found, &ABOUT, context);
    }
}

/// Whatever pieces a job cuts a table into, and whatever its connector appends to them: it walks the table.
fn finding(
    found: &Findings<'_>,
    application: &str,
    patterns: Patterns<'_>,
    context: &Context<'_>,
) -> Finding {
    let mut ranges = TokenRanges::default();
    let mut times = 0;
    let mut waits_for_several = 0;
    for (_, pattern) in &patterns {
        ranges.merge(&pattern.token_ranges);
        times += reads(pattern);
        let of_one = ["LOCAL_ONE", "ONE"]
            .iter()
            .filter_map(|level| pattern.consistency.get(*level));
        waits_for_several += pattern.consistency.values().sum::<u64>() - of_one.sum::<u64>();
    }
    let each = if waits_for_several > 0 {
        Severity::Low
    } else {
        Severity::Info
    };
    let impact = Impact::each(each).at_most(Severity::Medium);
    let impact = patterns
        .iter()
        .fold(impact, |impact, (_, pattern)| impact.of(pattern));
    let name = patterns
        .first()
        .map_or_else(String::new, |(_, pattern)| table(pattern));
    let mut title = format!(
        "{} walks token ranges of {name}{}",
        application::subject(application, context),
        often(times, application::watch(&patterns, context))
    );
    let cover = ranges.cover.share();
    let templates = patterns.len();
    let mut finding = Finding::on_all(&ABOUT, context.severity(found, &impact), patterns, context)
        .about(application)
        .first("reads_above_local_one", waits_for_several)
        .first("statements", templates);
    if ranges.sweeps > 0 {
        let times = match ranges.sweeps {
            1 => "once".to_owned(),
            sweeps => format!("{} times", number::count(sweeps)),
        };
        title += &format!("; it read the whole ring {times}");
        finding = finding.first("whole_sweeps", ranges.sweeps);
    } else if cover > 0.0 {
        title += &format!("; together they cover {} of the ring", number::percent(cover));
    }
    if cover > 0.0 {
        finding = finding.first("ring_share", cover);
    }
    finding.title(title)
}

const ABOUT: About = About {
    id: "token-range-scan",
    group: "read shape",
    summary: "A read walks token ranges: analytics or an export.",
    why: "Every partition of the range is read from every SSTable of its replicas, without help from caches, \
        and the reads compete with those of users for disks and threads. Going range by range is the right \
        way to read a whole table: each request goes to the replicas of one range and can be repeated on its \
        own.",
    fix: "\
        Nothing, if it is a job. Run it away from the hours and the datacenter that serve users, split the \
        ranges at the nodes' tokens so that one replica set serves each, and read at LOCAL_ONE.",
    fix_in_short: "Run it off-peak",
    before: "SELECT id, email FROM shop.users WHERE token(id) > ? AND token(id) <= ?;",
    after: "SELECT id, email FROM shop.users WHERE id = ?;",
    severity: "\
        Info; low if ranges are read above LOCAL_ONE, one step more if the walk takes a large share of the \
        time or work. Medium at most.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "The table's schema; the tokens in statements, to know how much of the ring they cover.",
    source: "Cassandra documentation, SELECT: the token function; spark-cassandra-connector, `CassandraTableScanRDD`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{read, run, window};
    use cqlens_cql::{footprint::PartitionClass, plan::Flag};
    use cqlens_window::Pattern;

    fn range(times: u64) -> Pattern {
        let cql = "SELECT * FROM shop.users WHERE token(id) > ?";
        let mut pattern = read(cql, &[Flag::OnToken], PartitionClass::TokenRange, times);
        pattern.consistency.insert("LOCAL_ONE".to_owned(), times);
        pattern
    }

    fn titles(patterns: impl IntoIterator<Item = Pattern>) -> Vec<String> {
        let findings = run(&TokenRangeScan, &window(patterns)).findings;
        findings.into_iter().map(|finding| finding.title).collect()
    }

    #[test]
    fn a_walk_at_local_one_is_only_worth_knowing_unless_it_is_most_of_the_load() {
        let severity = |patterns: Vec<Pattern>| run(&TokenRangeScan, &window(patterns)).findings[0].severity;
        let lookup = || {
            read(
                "SELECT v FROM s.t WHERE id = ?",
                &[],
                PartitionClass::Single,
                90_000,
            )
        };
        assert_eq!(severity(vec![range(9_000), lookup()]), Severity::Info);
        assert_eq!(severity(vec![range(90_000)]), Severity::Low);
        let mut quorum = range(9_000);
        quorum.consistency = [("LOCAL_QUORUM".to_owned(), 9_000)].into();
        assert_eq!(severity(vec![quorum, lookup()]), Severity::Low);
    }

    #[test]
    fn sweeps_and_the_share_of_the_ring_are_told() {
        let mut part = range(60);
        part.token_ranges.cover.insert(i64::MIN, 0);
        assert_eq!(
            titles([part]),
            ["A client walks token ranges of `shop.users`, 1 a minute; together they cover 50 % of the ring"]
        );
        let mut sweep = range(60);
        sweep.token_ranges.sweeps = 2;
        assert!(titles([sweep])[0].ends_with("; it read the whole ring 2 times"));
    }

    #[test]
    fn the_pieces_of_one_job_and_table_are_one_finding_whatever_the_connector_appends() {
        let from = |client: &str, mut pattern: Pattern| {
            pattern.clients.insert(client.to_owned(), pattern.count);
            pattern
        };
        let mut filtering = range(60);
        filtering.head.cql += " AND country = ? ALLOW FILTERING";
        filtering
            .flags
            .extend([Flag::AllowFiltering, Flag::FilteringNeeded]);
        let all = [
            from("report (spark-connector 3.5) 10.0.0.1", range(60)),
            from("report (spark-connector 3.5) 10.0.0.2", filtering),
            from("export (gocql) 10.0.0.3", range(60)),
        ];
        let judgement = crate::testing::judge(&window(all.clone()));
        let rules: Vec<_> = judgement.findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(
            rules,
            ["token-range-scan", "token-range-scan"],
            "{:?}",
            titles(all)
        );
    }

    #[test]
    fn reads_of_one_partition_are_not_its_business() {
        let single = read(
            "SELECT * FROM shop.users WHERE id = ?",
            &[],
            PartitionClass::Single,
            60,
        );
        assert!(titles([single]).is_empty());
    }
}
