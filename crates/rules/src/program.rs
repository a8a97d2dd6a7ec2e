//! Programs whose CQL their users cannot change: what helps is a setting.
//!
//! A program is known by its tables, which it creates itself, or by the name that its driver sends. Settings are those of
//! the program's own documentation.

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, Finding, Severity, application};
use cqlens_cql::schema::Keyspace;

/// A program that many clusters serve.
struct Program {
    name: &'static str,
    /// Tables that a keyspace of it has, all of them; empty if it is known by its clients.
    tables: &'static [&'static str],
    /// How the name begins under which it connects, in whatever keyspace it works.
    client: Option<&'static str>,
    settings: &'static [Setting],
}

/// What can be set instead of writing other CQL.
struct Setting {
    /// The rules whose findings it concerns.
    rules: &'static [&'static str],
    advice: &'static str,
}

const fn setting(rules: &'static [&'static str], advice: &'static str) -> Setting {
    Setting { rules, advice }
}

const fn of_tables(
    name: &'static str,
    tables: &'static [&'static str],
    settings: &'static [Setting],
) -> Program {
    Program {
        name,
        tables,
        client: None,
        settings,
    }
}

/// Reads of whole tables, and those by columns that are no key.
const SEARCHES: &[&str] = &[
    "allow-filtering",
    "full-scan",
    "sasi-index",
    "secondary-index-read",
    "index-low-cardinality",
    "index-high-cardinality",
    "query-without-table",
];

const BATCHES: &[&str] = &[
    "batch-too-large",
    "unlogged-batch-multi-partition",
    "logged-batch-multi-partition",
    "server-warning",
];

const PROGRAMS: &[Program] = &[
    of_tables(
        "JanusGraph",
        &["edgestore", "graphindex", "janusgraph_ids"],
        &[
            setting(
                SEARCHES,
                "A traversal starts without an index, from all vertices or edges: define a composite or mixed index \
                 for its first step, or run it as an OLAP job.",
            ),
            setting(
                &["in-partition-key", "in-cartesian-product"],
                "`storage.cql.grouping.keys-allowed = false` sends one read per key; \
                 `storage.cql.grouping.keys-limit` limits how many keys one read names.",
            ),
            setting(
                &["small-pages", "large-pages"],
                "`storage.page-size` sets the rows of a page.",
            ),
            setting(
                BATCHES,
                "`storage.cql.batch-statement-size` limits the statements of a batch, and \
                 `storage.cql.atomic-batch-mutate` decides whether it is logged.",
            ),
        ],
    ),
    of_tables(
        "Zipkin",
        &["span", "trace_by_service_span", "span_by_service"],
        &[
            setting(
                SEARCHES,
                "Searches by annotation and tag filter the span table: keep them to short time ranges and one \
                 service, or turn them off (`SEARCH_ENABLED=false`), which also stops writing their index tables.",
            ),
            setting(
                &["dual-write-without-batch"],
                "The index tables of searches are not written with `SEARCH_ENABLED=false`.",
            ),
        ],
    ),
    of_tables(
        "Jaeger",
        &["traces", "service_names", "tag_index", "duration_index"],
        &[setting(
            &["dual-write-without-batch", "large-partition", "hot-partition"],
            "Index fewer tags: `--cassandra.index.tag-blacklist` or `-whitelist`, `--cassandra.index.logs=false`, \
             `--cassandra.index.process-tags=false`. Each indexed tag is one more row per span.",
        )],
    ),
    of_tables(
        "Temporal",
        &["executions", "history_node", "history_tree", "cluster_membership"],
        &[setting(
            &[
                "hot-partition",
                "lwt-heavy",
                "uneven-token-load",
                "mixed-conditional-writes",
            ],
            "A shard of workflows and a partition of a task queue are one partition each, written under \
                 conditions that must stay. Raise `matching.numTaskqueueWritePartitions` and \
                 `matching.numTaskqueueReadPartitions` of a busy task queue; `numHistoryShards` cannot be changed \
                 after the cluster was set up.",
        )],
    ),
    of_tables(
        "Cadence",
        &["executions", "history_node", "history_tree", "domains"],
        &[setting(
            &[
                "hot-partition",
                "lwt-heavy",
                "uneven-token-load",
                "mixed-conditional-writes",
            ],
            "A shard of workflows and a partition of a task list are one partition each, written under conditions \
             that must stay. Raise `matching.numTasklistWritePartitions` and `matching.numTasklistReadPartitions` \
             of a busy task list.",
        )],
    ),
    of_tables(
        "KairosDB",
        &["data_points", "row_keys", "string_index"],
        &[setting(
            BATCHES,
            "`kairosdb.queue_processor.batch_size` sets how many data points are written together.",
        )],
    ),
    of_tables(
        "Reaper",
        &["repair_run", "repair_unit", "running_reapers"],
        &[setting(
            SEARCHES,
            "These tables stay small: fewer runs are kept with `purgeRecordsAfterInDays` and \
             `numberOfRunsToKeepPerUnit`.",
        )],
    ),
    of_tables(
        "Akka Persistence",
        &["messages", "tag_views", "tag_write_progress"],
        &[setting(
            &["large-partition", "hot-partition"],
            "`akka.persistence.cassandra.journal.target-partition-size` sets the events of a partition of the journal, \
             `akka.persistence.cassandra.events-by-tag.bucket-size` the span of time of one of a tag.",
        )],
    ),
    of_tables(
        "ThingsBoard",
        &["ts_kv_cf", "ts_kv_partitions_cf"],
        &[setting(
            &[
                "large-partition",
                "hot-partition",
                "bucket-fan-out",
                "time-bucket-walk",
            ],
            "`TS_KV_PARTITIONING` sets the span of time of a partition (`DAYS`, `MONTHS` and so on).",
        )],
    ),
    Program {
        name: "the Spark Cassandra Connector",
        tables: &[],
        client: Some("Spark-Cassandra-Connector"),
        settings: &[
            setting(
                BATCHES,
                "`spark.cassandra.output.batch.size.bytes` (1,024) and `spark.cassandra.output.batch.grouping.key` \
                 (`partition`) decide what is written together.",
            ),
            setting(
                &["full-scan", "token-range-scan", "allow-filtering"],
                "Push filters down to the partition key, or join with `joinWithCassandraTable` on distinct keys; \
                 `spark.cassandra.input.split.sizeInMB` sets how much of the table a task reads.",
            ),
            setting(
                &["small-pages", "large-pages"],
                "`spark.cassandra.input.fetch.sizeInRows` sets the rows of a page.",
            ),
            setting(
                &["in-partition-key", "redundant-reads", "timeouts"],
                "`spark.cassandra.concurrent.reads` and `spark.cassandra.output.concurrent.writes` limit the requests \
                 that a task has in flight; make keys distinct before a join.",
            ),
        ],
    },
];

/// Advises settings on findings about the CQL of known programs, and no CQL.
pub(super) fn advise(findings: &mut [Finding], context: &Context<'_>) {
    let keyspaces: BTreeMap<&str, &Program> = context
        .schema
        .keyspaces
        .values()
        .filter_map(|keyspace| Some((keyspace.name.as_str(), of_keyspace(keyspace)?)))
        .collect();
    for finding in findings
        .iter_mut()
        .filter(|finding| finding.severity > Severity::Info)
    {
        let by_table = finding
            .keyspace
            .as_deref()
            .and_then(|keyspace| keyspaces.get(keyspace).copied());
        if let Some(program) = by_table.or_else(|| of_clients(finding, context)) {
            set(finding, program);
        }
    }
}

/// Leaves out what is found on the definitions of such programs: they create their tables themselves, and need them as they
/// are.
pub(super) fn leave_out(findings: &mut Vec<Finding>, context: &Context<'_>) {
    findings.retain(|finding| {
        let keyspace = finding.keyspace.as_ref().filter(|_| finding.table.is_some());
        let keyspace = keyspace.and_then(|name| context.schema.keyspaces.get(name));
        keyspace.and_then(of_keyspace).is_none()
    });
}

fn of_keyspace(keyspace: &Keyspace) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| {
        let mut tables = program.tables.iter();
        !program.tables.is_empty() && tables.all(|table| keyspace.tables.contains_key(*table))
    })
}

/// The program that sends all statements of the finding.
fn of_clients(finding: &Finding, context: &Context<'_>) -> Option<&'static Program> {
    let patterns = finding.patterns.iter();
    let senders: BTreeSet<&str> = patterns
        .filter_map(|id| context.window.patterns.get(id))
        .flat_map(application::of)
        .collect();
    PROGRAMS.iter().find(|program| {
        let is_its = |sender: &&str| program.client.is_some_and(|client| sender.starts_with(client));
        !senders.is_empty() && senders.iter().all(is_its)
    })
}

fn set(finding: &mut Finding, program: &Program) {
    let setting = program
        .settings
        .iter()
        .find(|setting| setting.rules.contains(&finding.rule));
    let name = program.name;
    finding.advice = match setting {
        Some(setting) => format!(
            "This is the CQL of {name}, so look at its settings. {}",
            setting.advice
        ),
        None => format!(
            "This is the CQL of {name}: look for a setting of it first. {}",
            finding.advice
        ),
    };
    if setting.is_some() {
        finding.fix_in_short = "Change its settings";
    }
    finding.program = Some(name);
    finding.suggested_cql.clear();
    finding.wishes.clear();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        RULES, Settings, check,
        testing::{amid, read},
    };
    use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};
    use cqlens_window::Cluster;

    const SCAN: &str = "SELECT * FROM graph.edgestore WHERE column1 = ? ALLOW FILTERING";

    fn found(tables: &str, client: &str) -> Finding {
        let schema = format!(
            "CREATE KEYSPACE graph WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
             CREATE TABLE graph.edgestore (key blob, column1 blob, value blob, PRIMARY KEY (key, column1));{tables}"
        );
        let schema = Schema::from_cql(&schema).unwrap();
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let mut scan = read(SCAN, &flags, PartitionClass::Scan, 100);
        scan.clients.insert(client.to_owned(), 100);
        let (window, cluster) = (amid([scan]), Cluster::default());
        let context = Context::new(&window, &schema, &cluster);
        let findings = check(&context, &Settings::whatever_the_load()).findings;
        let mut filtering = findings
            .into_iter()
            .filter(|finding| finding.rule == "allow-filtering");
        filtering.next().unwrap()
    }

    #[test]
    fn tables_of_a_known_program_get_its_settings_and_no_cql() {
        let tables = "CREATE TABLE graph.graphindex (key blob PRIMARY KEY);
                      CREATE TABLE graph.janusgraph_ids (key blob PRIMARY KEY);";
        let finding = found(tables, "orders (gocql)");
        assert!(
            finding
                .advice
                .starts_with("This is the CQL of JanusGraph, so look at its settings. A traversal"),
            "{}",
            finding.advice
        );
        assert_eq!(finding.suggested_cql, Vec::<String>::new());
        assert_eq!(finding.example, None);
    }

    #[test]
    fn one_table_of_the_same_name_is_nobody_s() {
        let finding = found("", "orders (gocql)");
        assert!(!finding.advice.contains("JanusGraph"), "{}", finding.advice);
        assert_ne!(finding.suggested_cql, Vec::<String>::new());
    }

    #[test]
    fn definitions_of_a_known_program_are_left_alone() {
        let rules = |tables: &str| {
            let schema = format!(
                "CREATE KEYSPACE t WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': 3}};
                 CREATE TABLE t.cluster_membership (part tinyint, host uuid, PRIMARY KEY (part, host));{tables}"
            );
            let findings = crate::lint(&Schema::from_cql(&schema).unwrap(), &Settings::default()).findings;
            findings.iter().map(|finding| finding.rule).collect::<Vec<_>>()
        };
        assert_eq!(rules(""), ["few-partitions"]);
        let all = ["executions", "history_node", "history_tree"]
            .map(|table| format!("CREATE TABLE t.{table} (k int PRIMARY KEY);"));
        assert_eq!(rules(&all.concat()), [""; 0]);
    }

    #[test]
    fn a_program_is_known_by_its_clients_if_all_of_them_are() {
        let spark = "Spark-Cassandra-Connector-local-1795918192237 (DataStax Java Driver 4.18.1)";
        let finding = found("", spark);
        assert!(
            finding.advice.contains("Spark Cassandra Connector"),
            "{}",
            finding.advice
        );
    }

    #[test]
    fn settings_are_of_rules_that_exist() {
        for setting in PROGRAMS.iter().flat_map(|program| program.settings) {
            for rule in setting.rules {
                assert!(RULES.iter().any(|known| known.about().id == *rule), "{rule}");
            }
        }
    }
}
