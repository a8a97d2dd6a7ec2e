//! Several findings with one cause are one problem: what a consultant would say in one breath.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::Hasher,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip::SipHasher13;

use super::{Cause, Context, Cost, Finding, Severity, find};
use cqlens_cql::schema::Schema;
use cqlens_window::PatternId;

/// What a finding or a problem is called in every report that has it: 16 hex digits. It depends on the rule (or
/// the cause), the table and whatever else distinguishes it from others of its rule, and on no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StableId(
    #[cfg_attr(
        feature = "json-schema",
        schemars(with = "String", regex(pattern = "^[0-9a-f]{16}$"))
    )]
    u64,
);

impl StableId {
    /// The id of what these names tell from everything else.
    fn of(names: [Option<&str>; 4]) -> Self {
        let mut hasher = SipHasher13::new();
        for name in names {
            let name = name.unwrap_or_default();
            hasher.write(name.as_bytes());
            hasher.write_u8(0);
        }
        Self(hasher.finish())
    }
}

impl fmt::Display for StableId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl Serialize for StableId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StableId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16)
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

impl Finding {
    /// What it is called in every report that has it.
    pub fn id(&self) -> StableId {
        StableId::of([
            Some(self.rule),
            self.keyspace.as_deref(),
            self.table.as_deref(),
            self.subject.as_deref(),
        ])
    }
}

/// Findings with one cause, on one table or of one application.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// What it is called in every report that has it.
    pub id: StableId,
    /// The severity of its severest finding.
    pub severity: Severity,
    /// Its findings, by their place among all: the one that says it best comes first.
    pub findings: Vec<usize>,
    /// What their patterns cost, each counted once.
    pub cost: Cost,
}

/// Puts findings together that have one cause on one table, or of one application where they are on none: in
/// the order of their severest findings, which is that of `findings`.
pub fn problems(findings: &[Finding], context: &Context<'_>) -> Vec<Problem> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places: BTreeMap<ProblemKey<'_>, usize> = BTreeMap::new();
    for (at, finding) in findings.iter().enumerate() {
        let key = ProblemKey::of(finding, context.schema);
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.findings.push(at),
            None => groups.push(Group {
                key,
                findings: vec![at],
            }),
        }
    }
    let problems = together(groups, findings).into_iter();
    problems
        .map(|group| Problem {
            id: group.key.id(),
            severity: group.severity(findings),
            cost: group.patterns(findings).iter().map(|id| cost(*id, context)).sum(),
            findings: group.findings,
        })
        .collect()
}

fn cost(id: PatternId, context: &Context<'_>) -> Cost {
    let pattern = context.window.patterns.get(&id);
    pattern.map_or_else(Cost::default, Cost::of)
}

/// The findings of a problem, by their place among all.
struct Group<'f> {
    key: ProblemKey<'f>,
    findings: Vec<usize>,
}

impl Group<'_> {
    fn all<'a>(&'a self, findings: &'a [Finding]) -> impl Iterator<Item = &'a Finding> {
        self.findings.iter().filter_map(|&at| findings.get(at))
    }

    fn severity(&self, findings: &[Finding]) -> Severity {
        let severities = self.all(findings).map(|finding| finding.severity);
        severities.max().unwrap_or(Severity::Info)
    }

    fn patterns(&self, findings: &[Finding]) -> BTreeSet<PatternId> {
        self.all(findings)
            .flat_map(|finding| finding.patterns.iter().copied())
            .collect()
    }
}

/// Joins groups of one cause that speak of the same statements, where what one of them is on differs: an application
/// as a whole and one of its tables, or two tables that are read for the key of the same third one. Copies in a batch, too, are
/// one problem with the batch.
fn together<'f>(groups: Vec<Group<'f>>, findings: &[Finding]) -> Vec<Group<'f>> {
    let mut joined = Joined::default();
    groups.into_iter().for_each(|group| joined.add(group, findings));
    joined.groups()
}

/// Groups that were joined so far; each statement is looked up once for each group that speaks of it.
#[derive(Default)]
struct Joined<'f> {
    /// By the place of the first of those that a group was made of; nothing at those of the others.
    groups: Vec<Option<Group<'f>>>,
    /// Where a group went that was joined with another one.
    joined_with: Vec<usize>,
    /// The groups that speak of a statement, by their places and by the cause that they are looked up by.
    of_statements: BTreeMap<(Cause, PatternId), Vec<usize>>,
}

impl<'f> Joined<'f> {
    /// Adds a group: all that it has something in common with become one, the first of them, which is the severest.
    fn add(&mut self, mut group: Group<'f>, findings: &[Finding]) {
        let place = self.groups.len();
        self.groups.push(None);
        self.joined_with.push(place);
        let mut first = place;
        if group.key.cause.is_of_statements() {
            let patterns = group.patterns(findings);
            for other in self.in_common(group.key.cause, &patterns) {
                if let Some(mut other_group) = self.groups.get_mut(other).and_then(Option::take) {
                    group.key = group.key.of_both(other_group.key);
                    // The shorter list goes to the longer one.
                    if other_group.findings.len() > group.findings.len() {
                        std::mem::swap(&mut group.findings, &mut other_group.findings);
                    }
                    group.findings.extend(other_group.findings);
                }
                first = first.min(other);
                self.join(other, first);
            }
            self.join(place, first);
            let cause = group.key.cause.looked_up_by();
            for id in patterns {
                self.of_statements.entry((cause, id)).or_default().push(first);
            }
        }
        if let Some(at) = self.groups.get_mut(first) {
            *at = Some(group);
        }
    }

    /// The places of the groups that are one with a group of this cause on these statements, in order.
    fn in_common(&mut self, cause: Cause, patterns: &BTreeSet<PatternId>) -> BTreeSet<usize> {
        let mut places = BTreeSet::new();
        for id in patterns {
            let mut of_statement = self
                .of_statements
                .remove(&(cause.looked_up_by(), *id))
                .unwrap_or_default();
            of_statement
                .iter_mut()
                .for_each(|place| *place = self.now_at(*place));
            of_statement.sort_unstable();
            of_statement.dedup();
            let is_one = |place: &&usize| {
                let group = self.groups.get(**place).and_then(Option::as_ref);
                group.is_some_and(|group| group.key.cause.is_one_with(cause))
            };
            places.extend(of_statement.iter().filter(is_one));
            self.of_statements
                .insert((cause.looked_up_by(), *id), of_statement);
        }
        places
    }

    fn join(&mut self, place: usize, with: usize) {
        if let Some(joined_with) = self.joined_with.get_mut(place) {
            *joined_with = with;
        }
    }

    /// Where the group is now that was at this place.
    fn now_at(&mut self, place: usize) -> usize {
        let mut at = place;
        while let Some(&next) = self.joined_with.get(at).filter(|next| **next != at) {
            // Ways that were gone become shorter.
            let after = self.joined_with.get(next).copied().unwrap_or(next);
            self.join(at, after);
            at = after;
        }
        at
    }

    fn groups(self) -> Vec<Group<'f>> {
        let groups = self.groups.into_iter().flatten();
        let sorted = groups.map(|mut group| {
            group.findings.sort_unstable();
            group
        });
        sorted.collect()
    }
}

/// What tells problems apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ProblemKey<'f> {
    cause: Cause,
    keyspace: Option<&'f str>,
    table: Option<&'f str>,
    subject: Option<&'f str>,
}

impl<'f> ProblemKey<'f> {
    fn of(finding: &'f Finding, schema: &'f Schema) -> Self {
        let cause = cause(finding.rule);
        let is_shared = cause.name() != finding.rule;
        let (keyspace, mut table) = (finding.keyspace.as_deref(), finding.table.as_deref());
        if cause == Cause::VIEWS {
            // A view is paid for by its base table.
            let definition = keyspace
                .zip(table)
                .and_then(|(keyspace, table)| schema.table(keyspace, table)?.base());
            table = definition.or(table);
        }
        Self {
            cause,
            keyspace,
            table,
            // Of several queries or columns with one cause on a table one problem is made; without a table it is
            // the application that has it.
            subject: finding
                .subject
                .as_deref()
                .filter(|_| !is_shared || finding.table.is_none()),
        }
    }

    /// What tells a problem apart that was two. One of copies stays that, whatever batches they are in.
    fn of_both(self, other: Self) -> Self {
        let order = |key: Self| (key.cause != Cause::COPIES, key);
        match order(other) < order(self) {
            true => other,
            false => self,
        }
    }

    fn id(self) -> StableId {
        StableId::of([Some(self.cause.name()), self.keyspace, self.table, self.subject])
    }
}

/// What findings of a rule come from; the rule itself if it stands alone.
fn cause(rule: &'static str) -> Cause {
    let shared = find(rule).and_then(|rule| rule.about().cause);
    shared.unwrap_or(Cause::of_rule(rule))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{judge, pattern, read, window};
    use cqlens_cql::{
        footprint::PartitionClass,
        plan::{Flag, StatementKind},
        schema::Schema,
    };
    use cqlens_window::{Cluster, Window};

    fn filtering(table: &str, column: &str, times: u64) -> cqlens_window::Pattern {
        let cql = format!("SELECT * FROM shop.{table} WHERE {column} = ? ALLOW FILTERING");
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        read(&cql, &flags, PartitionClass::Scan, times)
    }

    fn told(window: &Window) -> Vec<(Vec<&'static str>, StableId)> {
        let findings = judge(window).findings;
        let (schema, cluster) = (Schema::default(), Cluster::default());
        let problems = problems(&findings, &Context::new(window, &schema, &cluster));
        let rules = |problem: &Problem| problem.findings.iter().map(|&at| findings[at].rule).collect();
        problems
            .iter()
            .map(|problem| (rules(problem), problem.id))
            .collect()
    }

    #[test]
    fn findings_with_one_cause_on_a_table_are_one_problem() {
        let all = told(&window([
            filtering("orders", "status", 9_000),
            read("SELECT * FROM shop.orders", &[], PartitionClass::Scan, 900),
            filtering("items", "name", 900),
        ]));
        let filtering_and_scan =
            |(rules, _): &&(Vec<&str>, _)| rules.contains(&"allow-filtering") && rules.contains(&"full-scan");
        assert_eq!(all.iter().filter(filtering_and_scan).count(), 1, "{all:?}");
        let with_filtering = all.iter().filter(|(rules, _)| rules.contains(&"allow-filtering"));
        assert_eq!(with_filtering.count(), 2, "one for each table: {all:?}");
    }

    #[test]
    fn ids_depend_on_no_number_and_tell_findings_apart() {
        let ids = |times: u64| -> Vec<_> {
            let window = window([
                filtering("orders", "status", times),
                filtering("orders", "customer", times + 1),
            ]);
            let mut ids: Vec<_> = judge(&window).findings.iter().map(Finding::id).collect();
            ids.sort();
            ids
        };
        assert_eq!(ids(100), ids(70_000));
        let distinct: BTreeSet<_> = ids(100).into_iter().collect();
        assert_eq!(distinct.len(), ids(100).len());
    }

    /// A finding of a rule on a table (or none) of some patterns.
    fn on(rule: &'static str, table: Option<&str>, patterns: &[u64]) -> Finding {
        let window = window([]);
        let (schema, cluster) = (Schema::default(), Cluster::default());
        let context = Context::new(&window, &schema, &cluster);
        let about = find(rule).expect("a rule").about();
        let mut finding = Finding::on_all(about, Severity::Medium, Vec::new(), &context).about("app");
        finding.keyspace = table.map(|_| "shop".to_owned());
        finding.table = table.map(str::to_owned);
        finding.patterns = patterns.iter().map(|&id| PatternId(id)).collect();
        finding
    }

    /// The rules of each problem.
    fn together(findings: &[Finding]) -> Vec<Vec<&'static str>> {
        let schema =
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.users (id int PRIMARY KEY, phone text);
             CREATE MATERIALIZED VIEW shop.users_by_phone AS SELECT * FROM shop.users
                 WHERE phone IS NOT NULL AND id IS NOT NULL PRIMARY KEY (phone, id);";
        let (schema, cluster) = (Schema::from_cql(schema).unwrap_or_default(), Cluster::default());
        let select = || pattern("SELECT * FROM shop.t", StatementKind::Select, 10);
        let window = window((0..10).map(|_| select()));
        let problems = problems(findings, &Context::new(&window, &schema, &cluster));
        let of = |problem: &Problem| problem.findings.iter().map(|&at| findings[at].rule).collect();
        problems.iter().map(of).collect()
    }

    #[test]
    fn what_a_consultant_says_in_one_breath_is_one_problem() {
        for rules in [
            &["queue-pattern", "delete-heavy", "tombstone-heavy-read"][..],
            &["hot-partition", "large-partition", "uneven-token-load"],
            &["ttl-without-windows", "time-window-misuse"],
            &["lwt-heavy", "mixed-conditional-writes"],
            &["growing-collection", "collection-overwrite", "list-modification"],
            &["retried-increment", "retries"],
            &[
                "secondary-index-read",
                "index-low-cardinality",
                "index-on-updated-column",
            ],
        ] {
            let on_one: Vec<_> = rules.iter().map(|rule| on(rule, Some("t"), &[1])).collect();
            assert_eq!(together(&on_one), [rules]);
            let tables = ["a", "b", "c"].into_iter().enumerate().zip(rules);
            let on_several: Vec<_> = tables
                .map(|((at, table), rule)| on(rule, Some(table), &[at as u64]))
                .collect();
            assert_eq!(together(&on_several).len(), rules.len(), "{rules:?}");
        }
    }

    #[test]
    fn a_hot_partition_and_its_node_are_one_problem() {
        let mut window = crate::testing::amid([read(
            "SELECT name FROM shop.users WHERE id = ?",
            &[],
            PartitionClass::Single,
            10_000,
        )]);
        let name = cqlens_cql::schema::TableName {
            keyspace: "shop".to_owned(),
            table: "users".to_owned(),
        };
        let users = window.tables.entry(name).or_default();
        for partition in 1..=6_000_u64 {
            let hash = partition.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            users.distinct_partitions.insert(hash);
            users.top_partitions.read(hash);
        }
        (0..3_000).for_each(|_| users.top_partitions.read(7));
        for (node, own) in [7_000, 1_000, 1_000].into_iter().enumerate() {
            let in_ring = cqlens_window::InRing { own, mean: 3_000 };
            window
                .load
                .nodes
                .entry(format!("node-{node}"))
                .or_default()
                .in_ring = in_ring;
        }
        let all = told(&window);
        let uneven: Vec<_> = all
            .iter()
            .filter(|(rules, _)| rules.contains(&"uneven-token-load"))
            .collect();
        assert!(
            matches!(&uneven[..], [(rules, _)] if rules.contains(&"hot-partition")),
            "{all:?}"
        );
    }

    #[test]
    fn a_view_and_what_it_costs_its_base_are_one_problem() {
        let read = on("materialized-view-read", Some("users_by_phone"), &[1]);
        let write = on("materialized-view-write", Some("users"), &[2]);
        assert_eq!(
            together(&[read, write]),
            [["materialized-view-read", "materialized-view-write"]]
        );
    }

    #[test]
    fn what_an_application_does_is_one_problem_with_the_tables_that_it_does_it_to() {
        let everywhere = on("lwt-heavy", None, &[1, 2, 3]);
        let here = on("mixed-conditional-writes", Some("a"), &[1]);
        let there = on("mixed-conditional-writes", Some("b"), &[2]);
        let elsewhere = on("mixed-conditional-writes", Some("c"), &[9]);
        let rules = "mixed-conditional-writes";
        let all = [here, everywhere, elsewhere, there];
        assert_eq!(together(&all), [vec![rules, "lwt-heavy", rules], vec![rules]]);
        let context_free_id = |findings: &[Finding]| {
            let window = window([]);
            let (schema, cluster) = (Schema::default(), Cluster::default());
            let problems = problems(findings, &Context::new(&window, &schema, &cluster));
            problems.first().map(|problem| problem.id)
        };
        let [here, everywhere, _, there] = all;
        let ids = [
            context_free_id(&[here.clone(), everywhere.clone(), there.clone()]),
            context_free_id(&[there, here, everywhere]),
        ];
        assert_eq!(ids[0], ids[1], "whatever the order");
    }

    #[test]
    fn copies_in_a_batch_are_one_problem_with_the_batch() {
        let (copies, batch) = ("dual-write-without-batch", "unlogged-batch-multi-partition");
        // The batch is on the first table of its text, the copies on the first one by name.
        let both = [on(batch, Some("users"), &[1]), on(copies, Some("emails"), &[1])];
        assert_eq!(together(&both), [[batch, copies]]);
        let apart = [on(batch, Some("users"), &[1]), on(copies, Some("users"), &[2, 3])];
        assert_eq!(together(&apart), [[batch], [copies]], "copies without a batch");
        let of_others = [on(batch, Some("users"), &[1]), on(batch, Some("emails"), &[1])];
        assert_eq!(together(&of_others).len(), 2);
        let large = on("batch-too-large", Some("users"), &[4]);
        let [batch_of_users, copies_of_emails] = both;
        let facets = [large, copies_of_emails, batch_of_users];
        assert_eq!(together(&facets), [["batch-too-large", copies, batch]]);
    }

    #[test]
    fn copies_of_an_application_are_one_problem_with_all_of_its_batches() {
        let (copies, batch) = ("dual-write-without-batch", "unlogged-batch-multi-partition");
        let all = on(copies, None, &[1, 2]);
        let [users, orders] = [("users", 1), ("orders", 2)].map(|(table, id)| on(batch, Some(table), &[id]));
        let ids = [
            [&all, &users, &orders],
            [&users, &all, &orders],
            [&orders, &users, &all],
        ]
        .map(|findings| {
            let findings = findings.map(Clone::clone);
            let window = window([]);
            let (schema, cluster) = (Schema::default(), Cluster::default());
            let problems = problems(&findings, &Context::new(&window, &schema, &cluster));
            assert_eq!(problems.len(), 1);
            problems.first().map(|problem| problem.id)
        });
        assert_eq!(ids, [ids[0]; 3], "whatever the order");
    }

    #[test]
    fn an_unlogged_batch_of_copies_is_judged_as_one_problem() {
        let cql = "BEGIN UNLOGGED BATCH INSERT INTO shop.by_email (a, b) VALUES (?, ?); \
                   INSERT INTO shop.by_name (b, a) VALUES (?, ?); APPLY BATCH";
        let mut batch = crate::testing::batch(&[Flag::UnloggedBatch, Flag::SeveralTables], 2, 200);
        cql.clone_into(&mut batch.head.cql);
        batch.head.keyspace = Some("shop".to_owned());
        let mut window = crate::testing::amid([batch]);
        let copies = cqlens_window::BatchedCopies {
            batches: 200,
            copies: 200,
            failed: 0,
        };
        window.sequences.batched.insert(PatternId(1), copies);
        let all = told(&window);
        let of_batches = all.iter().filter(|(rules, _)| {
            rules.contains(&"unlogged-batch-multi-partition") || rules.contains(&"dual-write-without-batch")
        });
        let of_batches: Vec<_> = of_batches.map(|(rules, _)| rules.len()).collect();
        assert_eq!(of_batches, [2], "{all:?}");
    }

    #[test]
    fn tables_that_are_read_for_a_key_of_the_same_one_are_one_problem() {
        let by_email = on("index-table-lookup", Some("users_by_email"), &[1, 3]);
        let by_name = on("index-table-lookup", Some("users_by_name"), &[2, 3]);
        assert_eq!(together(&[by_email, by_name]).len(), 1);
    }
}
