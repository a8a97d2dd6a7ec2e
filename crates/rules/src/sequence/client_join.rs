//! Joins in the client: a read, and then one for each of its rows.

use std::collections::BTreeSet;

use super::{
    About, Context, Finding, Findings, GROUP, Impact, PatternId, Rule, Sent, Severity, Threshold,
    join::{self, Chain, OPERATIONS, VALUES, round},
    number, often,
};

pub(crate) struct ClientJoin;

impl Rule for ClientJoin {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for chain in join::chains(context, found) {
            if chain.is_join(found) {
                judge(&chain, context, found);
            }
        }
    }
}

fn judge(chain: &Chain<'_>, context: &Context<'_>, found: &mut Findings<'_>) {
    let (Some(first), Some(widest)) = (chain.first(), chain.widest()) else {
        return;
    };
    let reaches = |threshold: &Threshold| widest.fan_out() >= found.threshold(&ABOUT, threshold);
    let each = if reaches(&LARGE_FAN_OUT) {
        Severity::High
    } else if reaches(&MEDIUM_FAN_OUT) {
        Severity::Medium
    } else {
        Severity::Low
    };
    let updates = chain.updates_per_join(context);
    let is_right = is_right(updates, found);
    let at_most = if is_right { Severity::Info } else { Severity::High };
    let impact = chain
        .steps
        .iter()
        .fold(Impact::each(each), |impact, step| impact.of(step.to.1));
    let severity = context.severity(found, &impact.at_most(at_most));
    let because = match is_right {
        true => format!(
            "; their rows change {} times per such read, so copies would cost more",
            number::decimal(round(updates))
        ),
        false => String::new(),
    };
    let title = format!(
        "The client joins `{}`: one read, then {}{}{because}",
        first.from_table,
        chain.words(),
        often(first.times(), context.watch(first.from.1))
    );
    let finding = Finding::on_all(&ABOUT, severity, chain.patterns(), context)
        .of_table(&first.from_table)
        .about(first.from.0.to_string())
        .title(title);
    let finding = chain.put_evidence(finding);
    found.push(match chain.copied_columns(context).filter(|_| !is_right) {
        Some(cql) => finding.suggest([cql]),
        None => finding,
    });
}

/// Whether rows that are looked up change so often for each time that copies would cost more: the exception that the
/// literature itself makes.
pub(super) fn is_right(updates_per_join: f64, found: &Findings<'_>) -> bool {
    updates_per_join >= found.threshold(&ABOUT, &UPDATES_PER_JOIN)
}

/// Reads that join by a list of keys (`IN`) where the join is right.
pub(crate) fn lists_of_right_joins(context: &Context<'_>, found: &Findings<'_>) -> BTreeSet<PatternId> {
    let chains = join::chains(context, found).into_iter();
    let right =
        chains.filter(|chain| chain.is_join(found) && is_right(chain.updates_per_join(context), found));
    let steps = right.flat_map(|chain| chain.steps);
    let lists = steps.filter(|step| step.sent() == Sent::InOneRequest);
    lists.map(|step| step.to.0).collect()
}

pub(super) const FAN_OUT: Threshold = Threshold {
    name: "fan_out",
    unit: "partitions per read, on average",
    default: 5.0,
    origin: "cqlens default; detectors of repeated queries in other databases start at two to five",
};

const MEDIUM_FAN_OUT: Threshold = Threshold {
    name: "medium_fan_out",
    unit: "partitions per read, on average",
    default: 10.0,
    origin: "\
        cqlens default: one in ten such operations then hits a response that is the slowest of a hundred",
};

const LARGE_FAN_OUT: Threshold = Threshold {
    name: "large_fan_out",
    unit: "partitions per read, on average",
    default: 100.0,
    origin: "cqlens default: nearly every such operation then waits for a response that is the slowest of a \
        hundred",
};

const UPDATES_PER_JOIN: Threshold = Threshold {
    name: "updates_per_join",
    unit: "UPDATEs and overwriting INSERTs of the joined tables per join",
    default: 10.0,
    origin: "cqlens default, as for `read-update-ratio`",
};

pub(super) const ABOUT: About = About {
    id: "client-join",
    group: GROUP,
    summary: "The client reads rows, and then looks up more rows by a value of each.",
    why: "A page that shows twenty users of a group reads one partition for the group and one for each user. \
        Each of these reads goes to other replicas, and the page is as slow as the slowest of them: a delay \
        that hits one response in a hundred hits one page in five. Sent one after the other, the reads' \
        latencies add up as well. Cassandra has no joins because data that is read together should be stored \
        together.",
    fix: "\
        Copy the columns that are looked up into the table that is read first, and write both in one logged \
        batch when they change. If they change much more often than they are read, keep the join, but send \
        the reads in parallel, prepared, one key each, and not with `IN`.",
    fix_in_short: "Copy the columns",
    before: "SELECT user_id FROM shop.groups WHERE groupname = ?;\nSELECT * FROM shop.users WHERE id = ?;  -- for each user_id",
    after: "ALTER TABLE shop.groups ADD (username text, email text);\n\
            SELECT user_id, username, email FROM shop.groups WHERE groupname = ?;",
    severity: "By the average number of partitions per first read: low from `fan_out`, medium from \
        `medium_fan_out`, high from `large_fan_out`, and then by the share of time and work that the reads \
        by key take. Info if the joined rows are updated at least `updates_per_join` times per join: then \
        the join is the cheaper way. Only from `operations`, with `values` distinct values; fewer are enough \
        for UUIDs, and where the values of another execution of the first read are hardly ever read by.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[
        FAN_OUT,
        MEDIUM_FAN_OUT,
        LARGE_FAN_OUT,
        UPDATES_PER_JOIN,
        OPERATIONS,
        VALUES,
    ],
    needs: "\
        The rows of a sample of reads, the sources, and the partition keys of what the same session (or \
        application and address) reads within 50 ms of a response, or within 250 ms if it is the key of the \
        next row; the first of these follow-ups may come up to 5 s later. Coincidental keys are recognised \
        by their order, which is not that of the rows, by the rows that they skip, by the reads just before \
        the response, and by the values of another execution of the source, which are then read as often. A \
        list counts if nearly all of its keys come from the rows. Elements of collections and fields of tuples \
        are values, too. Not seen: keys that the client computes or converts, and responses that cannot be \
        decoded.",
    source: "Basic Rules of Cassandra Data Modeling, example 2: user groups without duplication; rule 2: minimise the number of partitions read",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{
        super::{PatternId, TableName},
        *,
    };
    use crate::{
        Sent, Sequence, Settings,
        sequence::{
            self, IndexTableLookup,
            testing::{Taken, follow, taken},
        },
        testing::{amid, read, run_with, write},
    };
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind, schema::Schema};
    use cqlens_window::{Cluster, Pattern, Window};

    const SCHEMA: &str = "
        CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
        CREATE TABLE shop.groups (groupname text, user_id int, PRIMARY KEY (groupname, user_id));
        CREATE TABLE shop.users (id int PRIMARY KEY, name text);
        CREATE TABLE shop.letters (writer int, at int, text text, PRIMARY KEY (writer, at));";

    const GROUP_READ: &str = "SELECT user_id FROM shop.groups WHERE groupname = ?";
    const USER_READ: &str = "SELECT name FROM shop.users WHERE id = ?";

    /// Reads of groups, each followed by such reads of users, and other statements.
    fn window(step: Taken, others: Vec<Pattern>) -> Window {
        let mut groups = read(GROUP_READ, &[], PartitionClass::Single, 100);
        groups.clients = [("web 1.4 10.0.0.1".to_owned(), 60), ("jobs 2".to_owned(), 40)].into();
        let mut users = read(USER_READ, &[], PartitionClass::Single, 100 * step.fan_out);
        users.clients = [("web 1.4 10.0.0.1".to_owned(), 60), ("admin".to_owned(), 1)].into();
        let patterns = [groups, users].into_iter().chain(others);
        let mut window = amid(patterns);
        follow(&mut window, (1, 2), ("user_id", "id"), step);
        window
    }

    fn schema() -> Schema {
        Schema::from_cql(SCHEMA).unwrap()
    }

    fn found(window: &Window) -> Option<Finding> {
        run_with(&ClientJoin, window, &schema()).findings.pop()
    }

    fn sequences(window: &Window) -> Vec<Sequence> {
        let (schema, cluster, settings) = (schema(), Cluster::default(), Settings::default());
        sequence::all(
            &Context::new(window, &schema, &cluster),
            &Findings::new(&settings),
        )
    }

    fn evidence(finding: &Finding, name: &str) -> serde_json::Value {
        let of = finding.evidence.iter().find(|(key, _)| *key == name);
        serde_json::to_value(&of.unwrap().1).unwrap()
    }

    fn insert(overwrites: u64) -> Pattern {
        let cql = "INSERT INTO shop.users (id, name) VALUES (?, ?)";
        write(cql, StatementKind::Insert, &[], overwrites)
    }

    fn update(times: u64) -> Pattern {
        let cql = "UPDATE shop.users SET name = ? WHERE id = ?";
        write(cql, StatementKind::Update, &[], times)
    }

    #[test]
    fn severity_goes_by_the_fan_out() {
        let severity = |fan_out| found(&window(taken(fan_out), Vec::new())).map(|finding| finding.severity);
        assert_eq!(severity(4), None);
        assert_eq!(severity(5), Some(Severity::Low));
        assert_eq!(severity(10), Some(Severity::Medium));
        assert_eq!(severity(100), Some(Severity::High));
    }

    #[test]
    fn joins_of_rows_that_change_all_the_time_are_right() {
        let severity = |others| found(&window(taken(20), others)).unwrap().severity;
        assert_eq!(severity(vec![update(990)]), Severity::Medium);
        assert_eq!(severity(vec![update(1_000)]), Severity::Info);
        let finding = found(&window(taken(20), vec![update(1_500)])).unwrap();
        let expected = "; their rows change 15 times per such read, so copies would cost more";
        assert!(finding.title.ends_with(expected), "{}", finding.title);
        assert!(finding.suggested_cql.is_empty());
    }

    #[test]
    fn inserts_that_overwrite_are_changes_as_well() {
        let with_rows = |different: u64| {
            let mut window = window(taken(20), vec![insert(2_000)]);
            let name = TableName {
                keyspace: "shop".to_owned(),
                table: "users".to_owned(),
            };
            let inserted = &mut window.tables.entry(name).or_default().inserted;
            inserted.inserts = 2_000;
            (1..=different).for_each(|row| inserted.rows.insert(row.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
            found(&window).unwrap().severity
        };
        assert_eq!(with_rows(100), Severity::Info);
        assert_eq!(with_rows(2_000), Severity::Medium);
    }

    #[test]
    fn an_operation_is_as_long_as_all_its_steps() {
        let letters = read(
            "SELECT text FROM shop.letters WHERE writer = ?",
            &[],
            PartitionClass::Single,
            800,
        );
        let step = Taken {
            operation_us: 90_000,
            ..taken(8)
        };
        let mut window = window(step, vec![letters]);
        follow(&mut window, (2, 3), ("id", "writer"), taken(1));
        let finding = found(&window).unwrap();
        let p50 = evidence(&finding, "operation_p50_us").as_u64().unwrap();
        assert!((88_000..=92_000).contains(&p50), "{p50}");
        assert_eq!(evidence(&finding, "partitions_per_operation"), 17.0);
        let [sequence] = &sequences(&window)[..] else {
            unreachable!("one chain")
        };
        assert!((88_000..=92_000).contains(&sequence.elapsed_us.quantile(0.5)));
        let steps = sequence.steps.iter();
        let steps: Vec<_> = steps
            .map(|step| (&*step.from.table, &*step.to.table, step.fan_out.mean(), step.sent))
            .collect();
        let serial = Sent::OneAfterTheOther;
        assert_eq!(
            steps,
            [
                ("groups", "users", 8.0, serial),
                ("users", "letters", 1.0, serial)
            ]
        );
    }

    #[test]
    fn what_follows_one_read_is_one_operation() {
        let letters = read(
            "SELECT text FROM shop.letters WHERE writer = ?",
            &[],
            PartitionClass::Single,
            800,
        );
        let mut window = window(taken(20), vec![letters]);
        follow(&mut window, (1, 3), ("user_id", "writer"), taken(8));
        let [sequence] = &sequences(&window)[..] else {
            unreachable!("one operation")
        };
        assert_eq!(
            sequence.path,
            "`shop.groups` → 20 × `shop.users` and 8 × `shop.letters`"
        );
        assert_eq!(sequence.partitions, 29.0);
        let title = found(&window).unwrap().title;
        let expected = "one read, then 20 partitions of `users`, one after the other, and 8 partitions of `letters`, one after the other";
        assert!(title.contains(expected), "{title}");
    }

    #[test]
    fn a_sequence_says_who_how_often_and_how_it_is_sent() {
        let mut window = window(taken(20), Vec::new());
        let sequence = sequences(&window).pop().unwrap();
        assert_eq!(sequence.applications, ["web"]);
        assert_eq!((sequence.count, sequence.count_range), (100, (100, 100)));
        assert_eq!(sequence.serial_share, 1.0);
        // Ten times as many had rows as were sampled.
        window.sequences.pass_over(PatternId(1), 900);
        let sequence = sequences(&window).pop().unwrap();
        assert_eq!(sequence.count, 1_000);
        assert!(
            (950..980).contains(&sequence.count_range.0),
            "{:?}",
            sequence.count_range
        );
        let overlapping = Taken {
            overlapping: 1_425,
            ..taken(20)
        };
        follow(&mut window, (1, 2), ("user_id", "id"), overlapping);
        let sequence = sequences(&window).pop().unwrap();
        assert_eq!(
            (sequence.serial_share, sequence.sent),
            (0.25, Sent::AtTheSameTime)
        );
        let lists = Taken {
            lists: 100,
            ..taken(20)
        };
        follow(&mut window, (1, 2), ("user_id", "id"), lists);
        let sequence = sequences(&window).pop().unwrap();
        assert_eq!((sequence.serial_share, sequence.sent), (0.0, Sent::InOneRequest));
    }

    #[test]
    fn lookups_of_rows_that_change_all_the_time_are_right_too() {
        let found = |others| {
            let window = window(taken(1), others);
            run_with(&IndexTableLookup, &window, &schema())
                .findings
                .pop()
                .unwrap()
        };
        let plain = found(Vec::new());
        assert_eq!(plain.severity, Severity::Low);
        assert!(!plain.suggested_cql.is_empty());
        let tilted = found(vec![update(1_200)]);
        assert_eq!(tilted.severity, Severity::Info);
        let expected = "; its row changes 12 times per such read, so a copy would cost more";
        assert!(tilted.title.ends_with(expected), "{}", tilted.title);
        assert!(tilted.suggested_cql.is_empty());
    }
}
