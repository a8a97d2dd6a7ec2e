//! Partition keys of kilobytes.

use super::{About, Finding, Findings, Severity, Threshold};
use crate::{
    Context, Rule,
    figures::{bytes, share},
    severity::Impact,
};
use cqlens_cql::schema::{TableName, is_system};
use cqlens_window::{KeySizes, TableTraffic, number};

pub(crate) struct LargePartitionKey;

impl Rule for LargePartitionKey {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, traffic) in &context.window.tables {
            let KeySizes { named, long, .. } = traffic.key_sizes;
            let part = share(long, named);
            if !is_system(&name.keyspace) && long > 0 && part >= found.threshold(&ABOUT, &SHARE) {
                let severity = context.severity(found, &impact(name, context));
                found.push(finding(severity, name, traffic, part, context));
            }
        }
    }
}

/// The key goes with every statement on the table.
fn impact<'a>(name: &TableName, context: &Context<'a>) -> Impact<'a> {
    let on_table = context.patterns_of(name).iter();
    on_table.fold(Impact::each(Severity::Low), |impact, (_, pattern)| {
        impact.of(pattern)
    })
}

fn finding(
    severity: Severity,
    name: &TableName,
    traffic: &TableTraffic,
    part: f64,
    context: &Context<'_>,
) -> Finding {
    let KeySizes { long, longest, .. } = traffic.key_sizes;
    let title = format!(
        "Partition keys of `{name}` have up to {}: {} of them more than {}",
        bytes(longest),
        number::percent(part),
        bytes(KeySizes::LONG)
    );
    Finding::on_definition(&ABOUT, severity, context)
        .of_table(name)
        .title(title)
        .first("long_keys", long)
        .first("key_max_bytes", longest)
}

const SHARE: Threshold = Threshold {
    name: "share",
    unit: "of the keys are longer than 1 KiB",
    default: 0.01,
    origin: "cqlens default: a few long keys cost nothing",
};

const ABOUT: About = About {
    id: "large-partition-key",
    group: "model",
    summary: "Partition keys are longer than a kilobyte.",
    why: "The key is part of every read and write of its partition, and is stored in every SSTable, in its \
        index and in the key cache: with keys of several kilobytes, the index grows as large as the data. \
        Keys of more than 65,535 bytes are refused.",
    fix: "\
        Use a hash of the long value (SHA-256) as the partition key, and keep the value itself in a column, \
        to distinguish the rare rows that share a hash; or use a shorter name: an id, or a relative path.",
    fix_in_short: "Shorter keys",
    before: "CREATE TABLE crawl.pages (url text PRIMARY KEY, content text);\nSELECT content FROM crawl.pages WHERE url = ?;",
    after: "CREATE TABLE crawl.pages_by_hash (url_hash blob PRIMARY KEY, url text, content text);\nSELECT url, content FROM crawl.pages_by_hash WHERE url_hash = ?;",
    severity: "\
        From a `share` of the keys in statements that are longer than 1 KiB: low, raised or lowered by the \
        share of time and work that the statements on the table take.",
    severities: &[Severity::Low],
    thresholds: &[SHARE],
    needs: "The partition keys of statements.",
    source: "Cassandra's limit of 65,535 bytes for a partition key (`FBUtilities.MAX_UNSIGNED_SHORT`)",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, window};

    fn found(sizes: &[(u64, usize)]) -> Vec<String> {
        let mut window = window([]);
        let mut traffic = TableTraffic::default();
        for &(size, times) in sizes {
            (0..times).for_each(|_| traffic.key_sizes.count(size));
        }
        let name = TableName {
            keyspace: "crawl".to_owned(),
            table: "pages".to_owned(),
        };
        window.tables.insert(name, traffic);
        let findings = run(&LargePartitionKey, &window).findings.into_iter();
        findings.map(|finding| finding.title).collect()
    }

    #[test]
    fn kilobytes_are_found_and_names_are_not() {
        assert_eq!(
            found(&[(200, 60), (4_096, 40)]),
            ["Partition keys of `crawl.pages` have up to 4 KiB: 40 % of them more than 1 KiB"]
        );
        assert_eq!(found(&[(1_024, 100)]), Vec::<String>::new());
        assert_eq!(found(&[(200, 1_000), (4_096, 1)]), Vec::<String>::new());
    }
}
