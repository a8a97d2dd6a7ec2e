//! Tables that are read and written at levels which do not overlap: R + W ≤ N, whichever applications do it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    About, Findings, Patterns, Severity, Threshold, application,
    overlap::{Gap, gap, is_local},
    replicas_of, user_statements,
};
use crate::{Cause, Context, Finding, Rule, figures::share, statement::table_of};
use cqlens_cql::schema::TableName;
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct WeakConsistency;

impl Rule for WeakConsistency {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let (mut assumed, mut with_three) = (0, Vec::new());
        let mut groups: BTreeMap<Applications<'_>, Vec<Weak<'_>>> = BTreeMap::new();
        let least = found.threshold(&ABOUT, &SOME_SHARE);
        for (name, sides) in by_table(context) {
            let Some(replicas) = replicas_of(&name.keyspace, context.schema) else {
                continue;
            };
            if let [(_, 1)] = replicas[..] {
                let three: Vec<_> = replicas.iter().map(|(name, _)| (*name, 3)).collect();
                with_three.extend(Weak::of(name, &sides, least, &three).filter(|weak| is_half(&weak.gap)));
                continue;
            }
            assumed += u64::from(replicas.len() > 1 && is_local_to_both(&sides, least));
            if let Some(weak) = Weak::of(name, &sides, least, &replicas) {
                groups.entry(weak.applications()).or_default().push(weak);
            }
        }
        for (applications, weak) in groups {
            if let Some(finding) = finding(found, &applications, weak, context) {
                found.push(finding);
            }
        }
        if let Some(weak) = with_three.first() {
            let more = match with_three.len() {
                1 => String::new(),
                tables => format!(
                    " and {} like it",
                    number::plural(tables as u64 - 1, "table", "tables")
                ),
            };
            let text = format!(
                "`{}`{more}: writes at {} and reads at {} overlap with one replica, and would not with three",
                weak.name, weak.written.0, weak.read.0
            );
            found.blind(&ABOUT, text);
        }
        if assumed > 0 && data_centers_asked(context) > 1 {
            let text = format!(
                "{} read and written at local levels, by coordinators in several datacenters: whether each \
                 row is read where it was written is not known",
                number::plural(assumed, "table is", "tables are")
            );
            found.blind(&ABOUT, text);
        }
    }
}

/// Who writes, and who reads; an empty name is a client that gives none.
type Applications<'a> = (BTreeSet<&'a str>, BTreeSet<&'a str>);

/// The executions of a table's statements by their consistency level.
#[derive(Default)]
struct Sides<'a> {
    reads: Levels<'a>,
    writes: Levels<'a>,
}

/// By the name of the level, and whether the statements have a condition.
type Levels<'a> = BTreeMap<(&'a str, bool), LevelExecutions<'a>>;

#[derive(Default, Clone)]
struct LevelExecutions<'a> {
    executions: u64,
    statements: BTreeMap<PatternId, &'a Pattern>,
}

fn by_table<'a>(context: &Context<'a>) -> BTreeMap<TableName, Sides<'a>> {
    let mut tables: BTreeMap<TableName, Sides<'a>> = BTreeMap::new();
    for (name, writes) in context.writes() {
        let writes = writes.iter().filter(|write| write.pattern.is_confirmed());
        let sides = tables.entry(name.clone()).or_default();
        writes.for_each(|write| {
            count(
                &mut sides.writes,
                (write.id, write.pattern),
                write.is_conditional(),
            )
        });
    }
    let is_read = |pattern: &Pattern| pattern.head.kind.is_read() && pattern.is_confirmed();
    for (id, pattern) in user_statements(context).filter(|(_, pattern)| is_read(pattern)) {
        // What no write is seen of is not judged.
        if let Some(sides) = table_of(pattern).and_then(|name| tables.get_mut(&name)) {
            count(&mut sides.reads, (id, pattern), false);
        }
    }
    tables
}

/// Counts the executions of a statement, once however often a batch writes the table.
fn count<'a>(levels: &mut Levels<'a>, (id, pattern): (PatternId, &'a Pattern), is_conditional: bool) {
    for (name, executions) in &pattern.consistency {
        let level = levels.entry((name, is_conditional)).or_default();
        if level.statements.insert(id, pattern).is_none() {
            level.executions += executions;
        }
    }
}

/// The levels that at least this part of the executions have, with their part.
fn common<'l, 'a>(
    levels: &'l Levels<'a>,
    least: f64,
) -> Vec<((&'a str, bool), &'l LevelExecutions<'a>, f64)> {
    let all = levels.values().map(|level| level.executions).sum();
    let levels = levels
        .iter()
        .map(|(&name, level)| (name, level, share(level.executions, all)));
    levels.filter(|(_, _, share)| *share >= least).collect()
}

/// Whether a table is both read and written at levels that are local to a datacenter.
fn is_local_to_both(sides: &Sides<'_>, least: f64) -> bool {
    let levels = [&sides.reads, &sides.writes];
    levels.iter().all(|levels| {
        let mut levels = common(levels, least).into_iter();
        levels.any(|((name, _), ..)| is_local(name))
    })
}

/// A table with two levels that leave it open whether a write is read.
struct Weak<'a> {
    name: TableName,
    gap: Gap<'a>,
    /// The level's name, its part of the table's reads or writes, and its statements.
    read: (&'a str, f64, LevelExecutions<'a>),
    written: (&'a str, f64, LevelExecutions<'a>),
}

impl<'a> Weak<'a> {
    /// The worst pair of levels: where one side waits for several replicas for nothing; then the pair that waits
    /// for fewest, then the one that is used most.
    fn of(name: TableName, sides: &Sides<'a>, least: f64, replicas: &[(&'a str, u64)]) -> Option<Self> {
        let mut pairs = Vec::new();
        for ((read, _), reads, reads_share) in common(&sides.reads, least) {
            for ((written, is_conditional), writes, writes_share) in common(&sides.writes, least) {
                // A read that takes part in the consensus sees what conditions decided.
                let meets = is_conditional && ["SERIAL", "LOCAL_SERIAL"].contains(&read);
                if let Some(gap) = gap(read, written, replicas).filter(|_| !meets) {
                    pairs.push((gap, (read, reads_share, reads), (written, writes_share, writes)));
                }
            }
        }
        let (gap, read, written) = pairs.into_iter().max_by_key(|(gap, read, written)| {
            let used = read.2.executions.min(written.2.executions);
            (is_half(gap), Reverse(gap.read + gap.written), used)
        })?;
        Some(Self {
            name,
            gap,
            read: (read.0, read.1, read.2.clone()),
            written: (written.0, written.1, written.2.clone()),
        })
    }

    fn applications(&self) -> Applications<'a> {
        let of = |level: &LevelExecutions<'a>| {
            let statements = level.statements.values();
            statements.flat_map(|pattern| application::of(pattern)).collect()
        };
        (of(&self.written.2), of(&self.read.2))
    }

    fn statements(&self) -> impl Iterator<Item = (PatternId, &'a Pattern)> {
        let levels = [&self.read.2, &self.written.2];
        levels
            .into_iter()
            .flat_map(|level| level.statements.iter().map(|(&id, &pattern)| (id, pattern)))
    }
}

/// Whether one side waits for several replicas, and the other makes that worthless.
fn is_half(gap: &Gap<'_>) -> bool {
    gap.read.max(gap.written) > 1
}

/// The datacenters whose nodes coordinated statements.
fn data_centers_asked(context: &Context<'_>) -> usize {
    let nodes = context.window.load.nodes.values();
    let asked = nodes.filter(|node| node.coordinated > 0);
    asked
        .filter_map(|node| node.data_center.as_deref())
        .collect::<BTreeSet<_>>()
        .len()
}

fn finding(
    found: &Findings<'_>,
    (writers, readers): &Applications<'_>,
    mut tables: Vec<Weak<'_>>,
    context: &Context<'_>,
) -> Option<Finding> {
    // The table that says most stands for all.
    tables.sort_by_key(|weak| Reverse(is_half(&weak.gap)));
    let statements: BTreeMap<_, _> = tables.iter().flat_map(Weak::statements).collect();
    let patterns: Patterns<'_> = statements.into_iter().collect();
    let Weak {
        name,
        gap,
        read,
        written,
    } = tables.first()?;
    // To read at ONE what is written at ONE is a decision; half of a quorum is a mistake.
    let each = if is_half(gap) {
        Severity::Low
    } else {
        Severity::Info
    };
    let impact = application::impact(each, &patterns).at_most(Severity::Low);
    let severity = context.severity(found, &impact);
    let what = match tables.len() {
        1 => format!("`{name}`"),
        several => number::plural(several as u64, "table", "tables"),
    };
    let whose = match (readers == writers, writers.len()) {
        (true, 1) => "its own writes".to_owned(),
        (true, _) => "their own writes".to_owned(),
        (false, 1) => format!("writes of {}", names(writers, "a client")),
        (false, _) => format!("writes of {}", names(writers, "a client")),
    };
    let title = format!(
        "{} may miss {whose} to {what}: written at {}, read at {}, {}",
        names(readers, "A client"),
        written.0,
        read.0,
        replicas(gap)
    );
    let finding = Finding::on_all(&ABOUT, severity, patterns, context)
        .about(subject(writers, readers))
        .title(title)
        .first("written_at_this_level_share", written.1)
        .first("read_at_this_level_share", read.1)
        .first("replicas", gap.replicas)
        .first("replicas_written", gap.written)
        .first("replicas_read", gap.read);
    Some(if tables.len() == 1 {
        finding.of_table(name)
    } else {
        finding
    })
}

/// `3 replicas`, and where.
fn replicas(gap: &Gap<'_>) -> String {
    let replicas = number::plural(gap.replicas, "replica", "replicas");
    match gap.data_center {
        Some(name) => format!("{replicas} in `{name}`"),
        None => replicas,
    }
}

/// Who does it; `unnamed` where the client gives no name.
fn names(applications: &BTreeSet<&str>, unnamed: &str) -> String {
    let named: Vec<_> = applications
        .iter()
        .map(|name| match *name {
            "" => unnamed.to_owned(),
            name => format!("`{name}`"),
        })
        .collect();
    match named.as_slice() {
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        several => number::plural(several.len() as u64, "application", "applications"),
    }
}

/// What tells the finding from others: an application that reads what it writes by its name.
fn subject(writers: &BTreeSet<&str>, readers: &BTreeSet<&str>) -> String {
    let joined = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
    match readers == writers {
        true => joined(readers),
        false => format!("{} after {}", joined(readers), joined(writers)),
    }
}

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "of the reads, or of the writes",
    default: 0.05,
    origin: "cqlens default: a rarer level is used by a script, or by retries at a lower one",
};

const ABOUT: About = About {
    id: "weak-consistency",
    group: "client habits",
    summary: "A table is read and written at levels that do not overlap (R + W ≤ N).",
    why: "A read is guaranteed to see the last write only if both involve at least one common replica: with \
        three replicas, a quorum (two) on both sides, or ALL on one side. At ONE and ONE, the read may reach \
        a replica that has not received the write yet; a quorum on only one side costs latency and \
        guarantees nothing. The same holds if one service writes and another one reads.",
    fix: "\
        Use LOCAL_QUORUM for both if a user must see what was just saved; use LOCAL_ONE for both if slightly \
        stale data is acceptable, such as counts and recommendations. Agree on one of the two per table, in \
        all services that use it. A row written in one datacenter and read in another needs EACH_QUORUM for \
        the write, or QUORUM for both.",
    fix_in_short: "Use LOCAL_QUORUM",
    before: "-- written at LOCAL_QUORUM, read at LOCAL_ONE, {'dc1': 3}\nSELECT amount FROM shop.accounts WHERE id = ?;",
    after: "-- written and read at LOCAL_QUORUM\nSELECT amount FROM shop.accounts WHERE id = ?;",
    severity: "\
        Low at most, if one side waits for more than one replica; else info. Among the levels used by at \
        least `some_share` of a table's reads or writes, the worst pair decides.",
    severities: &[Severity::Info, Severity::Low],
    thresholds: &[SOME_SHARE],
    needs: "\
        Requests, and the keyspaces' replication. For LOCAL levels it is assumed that a row is read in the \
        datacenter that wrote it: two different datacenters never overlap at LOCAL_QUORUM. Reads at SERIAL \
        are assumed to see the outcome of conditional writes.",
    source: "Cassandra documentation, Dynamo: tunable consistency, W + R > RF",
    cause: Some(Cause::CONSISTENCY_LEVELS),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run_with, write};
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind, schema::Schema};
    use cqlens_window::{NodeLoad, Window};

    const ONE: &str = "'dc1': 3";
    const TWO: &str = "'dc1': 3, 'dc2': 3";

    fn reading(client: &str, levels: &[(&str, u64)]) -> Pattern {
        let cql = "SELECT amount FROM shop.accounts WHERE id = ?";
        at(read(cql, &[], PartitionClass::Single, 600), client, levels)
    }

    fn writing(client: &str, levels: &[(&str, u64)]) -> Pattern {
        let cql = "INSERT INTO shop.accounts (id, amount) VALUES (?, ?)";
        at(write(cql, StatementKind::Insert, &[], 600), client, levels)
    }

    fn at(mut pattern: Pattern, client: &str, levels: &[(&str, u64)]) -> Pattern {
        for (level, times) in levels {
            pattern.count_consistency(level, *times);
        }
        if !client.is_empty() {
            pattern.count_client(client, 600);
        }
        pattern
    }

    fn judged(window: &Window, replication: &str) -> crate::Judgement {
        let schema = format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', {replication}}};"
        );
        run_with(&WeakConsistency, window, &Schema::from_cql(&schema).unwrap())
    }

    fn all(patterns: impl IntoIterator<Item = Pattern>, replication: &str) -> Vec<(Severity, String)> {
        let findings = judged(&amid(patterns), replication).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    fn found(read_at: &str, written_at: &str, replication: &str) -> Vec<(Severity, String)> {
        let patterns = [reading("", &[(read_at, 600)]), writing("", &[(written_at, 600)])];
        all(patterns, replication)
    }

    #[test]
    fn a_quorum_on_one_side_is_low_and_ones_are_info() {
        assert_eq!(
            found("LOCAL_ONE", "LOCAL_QUORUM", ONE),
            [(
                Severity::Low,
                "A client may miss its own writes to `shop.accounts`: written at LOCAL_QUORUM, read at \
                 LOCAL_ONE, 3 replicas"
                    .to_owned()
            )]
        );
        assert_eq!(found("ONE", "ONE", ONE)[0].0, Severity::Info);
        assert_eq!(found("LOCAL_ONE", "LOCAL_ONE", TWO)[0].0, Severity::Info);
    }

    #[test]
    fn quorums_all_and_one_replica_are_fine() {
        assert_eq!(found("LOCAL_QUORUM", "LOCAL_QUORUM", TWO), []);
        assert_eq!(found("LOCAL_QUORUM", "EACH_QUORUM", TWO), []);
        assert_eq!(found("QUORUM", "QUORUM", TWO), []);
        assert_eq!(found("ONE", "ALL", ONE), []);
        assert_eq!(found("ONE", "ONE", "'dc1': 1"), []);
        assert_eq!(found("ONE", "QUORUM", "'dc1': 2"), []);
    }

    #[test]
    fn of_one_replica_it_is_said_what_three_would_show() {
        let blind = |read_at: &str, written_at: &str| {
            let patterns = [reading("", &[(read_at, 600)]), writing("", &[(written_at, 600)])];
            let judgement = judged(&amid(patterns), "'dc1': 1");
            assert_eq!(judgement.findings, []);
            let texts = judgement.blind_spots.into_iter().map(|spot| spot.text);
            texts.collect::<Vec<_>>()
        };
        assert_eq!(
            blind("ONE", "QUORUM"),
            [
                "`shop.accounts`: writes at QUORUM and reads at ONE overlap with one replica, and would not with three"
            ]
        );
        assert_eq!(blind("ONE", "ONE"), Vec::<String>::new(), "that is a decision");
        assert_eq!(blind("QUORUM", "QUORUM"), Vec::<String>::new());
    }

    #[test]
    fn several_datacenters_have_more_replicas() {
        assert_eq!(
            found("LOCAL_QUORUM", "QUORUM", TWO),
            [(
                Severity::Low,
                "A client may miss its own writes to `shop.accounts`: written at QUORUM, read at \
                 LOCAL_QUORUM, 6 replicas"
                    .to_owned()
            )]
        );
        assert!(
            found("LOCAL_ONE", "LOCAL_QUORUM", TWO)[0]
                .1
                .ends_with("3 replicas in `dc1`")
        );
    }

    #[test]
    fn one_service_writes_and_another_reads() {
        let patterns = [
            reading("web 1.0 10.0.0.2", &[("ONE", 600)]),
            writing("billing 2.1 10.0.0.1", &[("QUORUM", 600)]),
        ];
        assert_eq!(
            all(patterns, ONE),
            [(
                Severity::Low,
                "`web` may miss writes of `billing` to `shop.accounts`: written at QUORUM, read at ONE, 3 \
                 replicas"
                    .to_owned()
            )]
        );
    }

    #[test]
    fn the_worst_levels_that_a_part_of_the_statements_have_decide() {
        let quorum = || writing("", &[("LOCAL_QUORUM", 600)]);
        let rare = reading("", &[("LOCAL_QUORUM", 571), ("LOCAL_ONE", 29)]);
        assert_eq!(all([rare, quorum()], ONE), []);
        let some = reading("", &[("LOCAL_QUORUM", 570), ("LOCAL_ONE", 30)]);
        let title = &all([some, quorum()], ONE)[0].1;
        assert!(title.contains("read at LOCAL_ONE"), "{title}");
    }

    #[test]
    fn a_batch_writes_all_of_its_tables() {
        let cql = "BEGIN BATCH INSERT INTO shop.other (id) VALUES (?); INSERT INTO shop.accounts (id) VALUES (?); APPLY BATCH";
        let batch = at(
            write(cql, StatementKind::Batch, &[], 600),
            "",
            &[("LOCAL_QUORUM", 600)],
        );
        assert_eq!(all([reading("", &[("LOCAL_ONE", 600)]), batch], ONE).len(), 1);
    }

    #[test]
    fn reads_at_serial_meet_conditional_writes_and_no_others() {
        let serial = || reading("", &[("SERIAL", 600)]);
        let mut claim = writing("", &[("ONE", 600)]);
        assert_eq!(all([serial(), claim.clone()], ONE).len(), 1);
        claim.head.cql += " IF NOT EXISTS";
        assert_eq!(all([serial(), claim], ONE), []);
    }

    #[test]
    fn what_is_assumed_of_local_levels_is_said_where_several_datacenters_coordinate() {
        let quorums = || {
            [
                reading("", &[("LOCAL_QUORUM", 600)]),
                writing("", &[("LOCAL_QUORUM", 600)]),
            ]
        };
        let blind = |data_centers: &[&str]| {
            let mut window = amid(quorums());
            for name in data_centers {
                let load = NodeLoad {
                    data_center: Some((*name).to_owned()),
                    coordinated: 1,
                    ..NodeLoad::default()
                };
                window.load.nodes.insert((*name).to_owned(), load);
            }
            judged(&window, TWO).blind_spots.len()
        };
        assert_eq!((blind(&["dc1"]), blind(&["dc1", "dc2"])), (0, 1));
    }
}
