//! `ALLOW FILTERING` that is needed: replicas read rows and throw them away.

use super::{
    About, Findings, HIGH_PER_HOUR, MEDIUM_PER_HOUR, SLOW_MS, Severity, blind_on_unknown, by_rate, filters,
    how_often, table, user_reads, with_table,
};
use crate::{
    rules::{Finding, Rule},
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};

pub(in crate::rules) struct AllowFiltering;

impl Rule for AllowFiltering {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(window).filter(|(_, pattern)| pattern.is(Flag::AllowFiltering)) {
            let finding = if filters(pattern) {
                with_table(filtering(found, id, pattern, window), pattern, schema)
            } else if pattern.class() == PartitionClass::Scan {
                // Nothing is filtered, but the whole ring is read: a finding of its own kind.
                continue;
            } else {
                not_needed(id, pattern, window)
            };
            found.push(finding);
        }
        blind_on_unknown(found, &ABOUT, window);
    }
}

fn filtering(found: &Findings<'_>, id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let narrowed = pattern.is(Flag::Index) || pattern.is(Flag::OnToken);
    let severity = match by_rate(found, &ABOUT, pattern, window) {
        _ if pattern.is(Flag::FullPartitionKey) => Severity::Low,
        severity if narrowed => severity.lowered(),
        severity => severity,
    };
    let often = how_often(pattern, window);
    let table = table(pattern);
    let title = if pattern.is(Flag::FullPartitionKey) {
        format!("Reads of {table} filter the rows of a partition that they name{often}")
    } else if pattern.is(Flag::Index) {
        format!("Reads of {table} filter what an index finds on all nodes{often}")
    } else if pattern.is(Flag::OnToken) {
        format!("Reads of {table} filter a range of the ring row by row{often}")
    } else if pattern.class() == PartitionClass::Unknown {
        format!("Reads of {table} filter rows{often}; without its schema it is not known how many")
    } else {
        format!("Reads of {table} filter the whole table row by row{often}")
    };
    let finding = Finding::on(&ABOUT, severity, (id, pattern), window).title(title);
    if pattern.is(Flag::FullPartitionKey) {
        finding.advice(
            "Cheap while the partition stays small: every read passes all of its rows. \
             If partitions grow, make the filtered column a clustering column.",
        )
    } else {
        finding
    }
}

fn not_needed(id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let title = format!("Reads of {} say `ALLOW FILTERING` without need", table(pattern));
    Finding::on(&ABOUT, Severity::Info, (id, pattern), window)
        .title(title)
        .advice(
            "Remove `ALLOW FILTERING`: nothing is filtered today, and without it Cassandra refuses the \
             statement on the day when a change of the model turns it into a scan.",
        )
}

const ABOUT: About = About {
    id: "allow-filtering",
    group: "read shape",
    summary: "A read needs `ALLOW FILTERING`: Cassandra reads rows and throws most of them away.",
    why: "\
        Without the partition key the coordinator cannot know where the rows are. It asks the replicas of \
        every token range, a few ranges at a time, until enough rows match; each replica reads whole \
        partitions from disk and drops what does not match. The cost grows with the table, not with the \
        answer.",
    fix: "\
        Create a table whose partition key is what the query asks for, and write it together with the base \
        table. A storage-attached index (Cassandra 5.0) helps where the partition key is given as well.",
    before: "CREATE TABLE shop.orders (id uuid PRIMARY KEY, status text, amount decimal);\n\
             SELECT * FROM shop.orders WHERE status = ? ALLOW FILTERING;",
    after: "CREATE TABLE shop.orders_by_status (\n  status text, day date, id uuid, amount decimal,\n  PRIMARY KEY ((status, day), id));\n\
            SELECT * FROM shop.orders_by_status WHERE status = ? AND day = ?;",
    severity: "\
        Low where the full partition key is given. Otherwise high from `high_per_hour` reads an hour, medium \
        from `medium_per_hour`, low below; one step up where the p99 latency reaches `slow_ms`; one step \
        down where an index or `token()` narrows the read. Info where `ALLOW FILTERING` is written without \
        need.",
    thresholds: &[HIGH_PER_HOUR, MEDIUM_PER_HOUR, SLOW_MS],
    needs: "The statement's text, and the table's schema to tell whether the partition key is given.",
    source: "\
        Cassandra guardrail `allow_filtering_enabled` (4.1); Cassandra documentation, SELECT: Allowing \
        filtering",
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rules::testing::{read, run, run_with, window};

    const BAD: &str = "SELECT * FROM shop.orders WHERE status = ? ALLOW FILTERING";

    fn bad(times: u64) -> Pattern {
        read(
            BAD,
            &[Flag::AllowFiltering, Flag::FilteringNeeded],
            PartitionClass::Scan,
            times,
        )
    }

    #[test]
    fn a_frequent_filtering_scan_is_high() {
        let judgement = run(&AllowFiltering, &window([bad(60)]));
        let finding = &judgement.findings[0];
        assert_eq!(finding.severity, Severity::High);
        assert_eq!(
            finding.title,
            "Reads of `shop.orders` filter the whole table row by row, 1 a minute"
        );
    }

    #[test]
    fn severity_follows_the_rate() {
        let severity = |times| run(&AllowFiltering, &window([bad(times)])).findings[0].severity;
        assert_eq!(severity(59), Severity::Medium);
        assert_eq!(severity(1), Severity::Medium);
        let mut day = window([bad(10)]);
        day.observed_seconds = 86_400.0;
        assert_eq!(run(&AllowFiltering, &day).findings[0].severity, Severity::Low);
    }

    #[test]
    fn a_rare_scan_that_is_slow_costs_one_step_more() {
        let mut day = window([bad(10)]);
        day.observed_seconds = 86_400.0;
        day.patterns
            .values_mut()
            .for_each(|pattern| pattern.latency_us.record_n(500_000, 10));
        assert_eq!(run(&AllowFiltering, &day).findings[0].severity, Severity::Medium);
    }

    #[test]
    fn with_the_full_partition_key_it_is_low_however_often_it_runs() {
        let flags = [
            Flag::AllowFiltering,
            Flag::FilteringNeeded,
            Flag::FullPartitionKey,
        ];
        let pattern = read(
            "SELECT * FROM shop.orders_by_user WHERE user = ? AND status = ? ALLOW FILTERING",
            &flags,
            PartitionClass::Single,
            1_000_000,
        );
        let judgement = run(&AllowFiltering, &window([pattern]));
        assert_eq!(judgement.findings[0].severity, Severity::Low);
    }

    #[test]
    fn an_index_that_narrows_the_read_takes_one_step_off() {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded, Flag::Index];
        let judgement = run(
            &AllowFiltering,
            &window([read(BAD, &flags, PartitionClass::Index, 60)]),
        );
        assert_eq!(judgement.findings[0].severity, Severity::Medium);
    }

    #[test]
    fn written_without_need_it_is_only_worth_knowing() {
        let flags = [Flag::AllowFiltering, Flag::FullPartitionKey];
        let judgement = run(
            &AllowFiltering,
            &window([read(BAD, &flags, PartitionClass::Single, 60)]),
        );
        assert_eq!(judgement.findings[0].severity, Severity::Info);
    }

    #[test]
    fn the_query_on_its_own_table_is_fine() {
        let repaired = read(
            "SELECT * FROM shop.orders_by_status WHERE status = ? AND day = ?",
            &[Flag::FullPartitionKey],
            PartitionClass::Single,
            1_000_000,
        );
        assert_eq!(run(&AllowFiltering, &window([repaired])).findings, []);
    }

    #[test]
    fn with_a_schema_it_writes_the_table_that_is_missing() {
        let shop =
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
                    CREATE TABLE shop.orders (id uuid PRIMARY KEY, status text);";
        let schema = Schema::from_cql(shop).unwrap();
        let judgement = run_with(&AllowFiltering, &window([bad(60)]), &schema);
        let cql = &judgement.findings[0].suggested_cql;
        assert!(
            cql[0].starts_with("CREATE TABLE shop.orders_by_status ("),
            "{cql:?}"
        );
        assert_eq!(cql[1], "SELECT * FROM shop.orders_by_status WHERE status = ?;");
        assert!(judgement.findings[0].advice.contains("add a bucket"));
    }

    #[test]
    fn drivers_own_statements_are_not_judged() {
        let mut pattern = bad(60);
        pattern.head.system = true;
        assert_eq!(run(&AllowFiltering, &window([pattern])).findings, []);
    }

    #[test]
    fn what_the_server_always_refuses_is_not_judged() {
        let mut refused = bad(60);
        refused.errors = 60;
        refused.classes.clear();
        assert_eq!(run(&AllowFiltering, &window([refused])), Default::default());
    }

    #[test]
    fn without_a_schema_it_fires_and_says_what_is_not_known() {
        let pattern = read(BAD, &[Flag::AllowFiltering], PartitionClass::Unknown, 60);
        let judgement = run(&AllowFiltering, &window([pattern]));
        assert!(judgement.findings[0].title.ends_with("it is not known how many"));
        assert_eq!(
            judgement.blind_spots[0].text,
            "60 of 60 reads (1 pattern) touch partitions that are not known"
        );
    }
}
