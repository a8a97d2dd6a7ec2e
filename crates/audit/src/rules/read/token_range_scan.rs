//! Reads between two tokens: the way in which exports and analytics walk a table.

use super::{About, Findings, Severity, blind_on_unknown, filters, how_often, table, user_reads};
use crate::{
    number,
    rules::{Finding, Rule},
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::{footprint::PartitionClass, schema::Schema};

pub(in crate::rules) struct TokenRangeScan;

impl Rule for TokenRangeScan {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        let walks = |pattern: &Pattern| pattern.class() == PartitionClass::TokenRange && !filters(pattern);
        for (id, pattern) in user_reads(window).filter(|(_, pattern)| walks(pattern)) {
            found.push(finding(id, pattern, window));
        }
        blind_on_unknown(found, &ABOUT, window);
    }
}

fn finding(id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let ranges = &pattern.token_ranges;
    let mut title = format!(
        "Reads of {} walk token ranges{}",
        table(pattern),
        how_often(pattern, window)
    );
    let cover = ranges.cover.share();
    let mut finding = Finding::on(&ABOUT, Severity::Info, (id, pattern), window);
    if ranges.sweeps > 0 {
        let times = match ranges.sweeps {
            1 => "once".to_owned(),
            sweeps => format!("{} times", number::count(sweeps)),
        };
        title += &format!("; they have gone round the whole ring {times}");
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
    summary: "A read walks a range of tokens: analytics or an export.",
    why: "\
        Every partition of the range is read from every file of its replicas, past what caches hold, and the \
        reads compete with those of users for disks and threads. Done range by range it is the right way to \
        read a whole table: each request goes to the replicas of one range and can be repeated by itself.",
    fix: "\
        Nothing, if it is a job. Keep it off the hours and the data centre that serve users, split ranges at \
        the nodes' tokens so that one replica set answers each, and read at LOCAL_ONE.",
    before: "SELECT id, email FROM shop.users WHERE token(id) > ? AND token(id) <= ?;",
    after: "SELECT id, email FROM shop.users WHERE id = ?;",
    severity: "Always info.",
    thresholds: &[],
    needs: "The table's schema; the tokens that statements name, to tell how much of the ring they cover.",
    source: "Cassandra documentation, SELECT: the token function; spark-cassandra-connector, `CassandraTableScanRDD`",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{read, run, window};
    use cqlens_cql::plan::Flag;

    fn range(times: u64) -> Pattern {
        let cql = "SELECT * FROM shop.users WHERE token(id) > ?";
        read(cql, &[Flag::OnToken], PartitionClass::TokenRange, times)
    }

    #[test]
    fn token_ranges_are_only_worth_knowing_however_many_there_are() {
        let judgement = run(&TokenRangeScan, &window([range(1_000_000)]));
        assert_eq!(judgement.findings[0].severity, Severity::Info);
    }

    #[test]
    fn sweeps_and_the_share_of_the_ring_are_told() {
        let title = |pattern: Pattern| run(&TokenRangeScan, &window([pattern])).findings[0].title.clone();
        let mut part = range(60);
        part.token_ranges.cover.insert(i64::MIN, 0);
        assert_eq!(
            title(part),
            "Reads of `shop.users` walk token ranges, 1 a minute; together they cover 50 % of the ring"
        );
        let mut sweep = range(60);
        sweep.token_ranges.sweeps = 2;
        assert!(title(sweep).ends_with("; they have gone round the whole ring 2 times"));
    }

    #[test]
    fn reads_of_one_partition_and_filtering_ones_are_not_its_business() {
        let single = read(
            "SELECT * FROM shop.users WHERE id = ?",
            &[],
            PartitionClass::Single,
            60,
        );
        let mut filtering = range(60);
        filtering
            .flags
            .extend([Flag::AllowFiltering, Flag::FilteringNeeded]);
        assert_eq!(run(&TokenRangeScan, &window([single, filtering])).findings, []);
    }
}
