//! What judging takes grows no faster than what is judged, whatever the shape: counted in steps and allocations, since
//! seconds say nothing on a busy machine.

#![allow(clippy::unwrap_used)]
use std::{collections::BTreeSet, fmt::Write};

use jiff::Timestamp;

use super::{Baseline, DiffFormat, Format, ReadReport, Report, ReportDiff};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::{Flag, StatementKind},
    schema::{Schema, TableName},
};
use cqlens_rules::{
    Acceptance, Context, Findings, Judgement, Judging, RULES, Rule, Settings, Severity, check,
    testing::{read, window, with_partitions, write},
    work,
};
use cqlens_window::{Cluster, Pattern, Window};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'a': 3, 'b': 3};";

/// A window of so many statements, and its schema.
type Shape = fn(usize) -> (Window, Schema);

const SHAPES: [(&str, Shape); 8] = [
    ("one table, many shapes", one_table),
    ("one table, read backwards", backwards),
    ("one table, written", written),
    ("many tables", many_tables),
    ("one application", one_application),
    ("one cause, many applications", one_cause),
    ("a chain of types", chain_of_types),
    ("one batch and its copies", batches),
];

/// `k.t` with so many columns.
fn wide(columns: usize) -> String {
    let mut cql = format!("{KEYSPACE}CREATE TABLE k.t (id int, at int, ");
    (0..columns).for_each(|column| write!(cql, "c{column} text, ").unwrap());
    cql + "PRIMARY KEY (id, at));CREATE INDEX by_c0 ON k.t (c0);"
}

fn filtering(cql: &str) -> Pattern {
    let flags = [Flag::AllowFiltering, Flag::FilteringNeeded, Flag::SelectStar];
    read(cql, &flags, PartitionClass::Scan, 50)
}

/// Pairs of numbers below 100, each once.
fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..100).flat_map(|one| (one + 1..100).map(move |other| (one, other)))
}

fn one_table(count: usize) -> (Window, Schema) {
    let reads = pairs().take(count).map(|(one, other)| {
        filtering(&format!(
            "SELECT * FROM k.t WHERE c{one} = ? AND c{other} = ? ALLOW FILTERING"
        ))
    });
    (window(reads), Schema::from_cql(&wide(100)).unwrap())
}

fn backwards(count: usize) -> (Window, Schema) {
    let reads = pairs().take(count).map(|(one, other)| {
        let cql = format!("SELECT c{one}, c{other} FROM k.t WHERE id = ? ORDER BY at DESC");
        let flags = [Flag::Reversed, Flag::FullPartitionKey];
        read(&cql, &flags, PartitionClass::Single, 50)
    });
    (window(reads), Schema::from_cql(&wide(100)).unwrap())
}

fn written(count: usize) -> (Window, Schema) {
    let writes = pairs()
        .take(count)
        .enumerate()
        .map(|(at, (one, other))| match at % 3 {
            0 => write(
                &format!("INSERT INTO k.t (id, at, c{one}, c{other}) VALUES (?, ?, ?, ?) IF NOT EXISTS"),
                StatementKind::Insert,
                &[Flag::Lwt],
                50,
            ),
            1 => write(
                &format!("UPDATE k.t SET c{one} = ?, c{other} = ? WHERE id = ? AND at = ?"),
                StatementKind::Update,
                &[],
                50,
            ),
            _ => write(
                &format!("DELETE c{one}, c{other} FROM k.t WHERE id = ? AND at = ?"),
                StatementKind::Delete,
                &[],
                50,
            ),
        });
    (window(writes), Schema::from_cql(&wide(100)).unwrap())
}

fn many_tables(count: usize) -> (Window, Schema) {
    let (mut cql, mut patterns) = (KEYSPACE.to_owned(), Vec::new());
    for table in 0..count.div_ceil(2) {
        write!(
            cql,
            "CREATE TABLE k.t{table} (id int, at int, v text, PRIMARY KEY (id, at));"
        )
        .unwrap();
        patterns.push(filtering(&format!(
            "SELECT * FROM k.t{table} WHERE v = ? ALLOW FILTERING"
        )));
        let delete = format!("DELETE FROM k.t{table} WHERE id = ? AND at = ?");
        patterns.push(write(&delete, StatementKind::Delete, &[], 5_000));
    }
    let mut window = window(patterns);
    for table in 0..count.div_ceil(2) {
        let name = TableName {
            keyspace: "k".to_owned(),
            table: format!("t{table}"),
        };
        let traffic = window.tables.entry(name).or_default();
        (traffic.reads, traffic.writes) = (50, 5_000);
    }
    (window, Schema::from_cql(&cql).unwrap())
}

/// Statements of one client, each unprepared and at weak levels.
fn one_application(count: usize) -> (Window, Schema) {
    let (mut window, schema) = written(count);
    for pattern in window.patterns.values_mut() {
        pattern
            .clients
            .insert("shop 1.0 (driver) 10.0.0.1".to_owned(), 50);
        pattern.consistency.insert("ONE".to_owned(), 50);
        (pattern.prepared, pattern.unprepared) = (0, 50);
    }
    (window, schema)
}

/// Applications that all fail, some of them on the same statements.
fn one_cause(count: usize) -> (Window, Schema) {
    let (mut window, schema) = written(count);
    for (at, pattern) in window.patterns.values_mut().enumerate() {
        for application in [at, at / 10 * 10] {
            pattern.clients.insert(format!("app-{application}"), 25);
        }
        pattern.errors = 20;
        // WRITE_TIMEOUT and UNAVAILABLE.
        pattern.error_codes.insert(0x1100, 10);
        pattern.error_codes.insert(0x1000, 10);
    }
    (window, schema)
}

fn chain_of_types(count: usize) -> (Window, Schema) {
    let mut cql = format!("{KEYSPACE}CREATE TYPE k.u0 (a int);");
    for at in 1..count {
        write!(cql, "CREATE TYPE k.u{at} (a frozen<u{}>);", at - 1).unwrap();
    }
    let last = count - 1;
    write!(
        cql,
        "CREATE TABLE k.t (id int PRIMARY KEY, v text, u frozen<u{last}>);"
    )
    .unwrap();
    let read = filtering("SELECT * FROM k.t WHERE v = ? ALLOW FILTERING");
    (window([read]), Schema::from_cql(&cql).unwrap())
}

fn batches(count: usize) -> (Window, Schema) {
    let (mut cql, mut patterns) = (KEYSPACE.to_owned(), Vec::new());
    for table in 0..count {
        write!(cql, "CREATE TABLE k.t{table} (id int PRIMARY KEY);").unwrap();
        let insert = |table| format!("INSERT INTO k.t{table} (id) VALUES (?);");
        let batch = format!("BEGIN UNLOGGED BATCH {}{} APPLY BATCH", insert(table), insert(0));
        let flags = [Flag::UnloggedBatch, Flag::SeveralTables];
        let mut batch = write(&batch, StatementKind::Batch, &flags, 50);
        batch.head.keyspace = Some("k".to_owned());
        batch.head.table = Some(format!("t{table}"));
        patterns.push(with_partitions(batch, 20));
    }
    (window(patterns), Schema::from_cql(&cql).unwrap())
}

/// What each rule takes, in steps.
fn steps_by_rule((window, schema): &(Window, Schema)) -> Vec<(&'static str, u64)> {
    let (cluster, settings) = (Cluster::default(), Settings::default());
    let of_rule = |rule: &&dyn Rule| {
        let context = Context::new(window, schema, &cluster);
        let mut found = Findings::new(&settings);
        rule.check(&context, &mut found);
        found.ranked(&context);
        (rule.about().id, context.steps())
    };
    RULES.iter().map(of_rule).collect()
}

#[test]
fn twice_as_much_takes_every_rule_twice_the_steps_at_most() {
    let mut complaints = Vec::new();
    for (name, shape) in SHAPES {
        let (once, twice) = (steps_by_rule(&shape(150)), steps_by_rule(&shape(300)));
        for ((rule, once), (_, twice)) in once.into_iter().zip(twice) {
            if twice > 2 * once + 100 {
                complaints.push(format!("{rule}, {name}: {once} steps, then {twice}"));
            }
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// As many acceptances as statements: of everything on a table, of a rule, of one statement.
fn acceptances(window: &Window) -> Vec<Acceptance> {
    let each = window.patterns.iter().enumerate().map(|(at, (id, pattern))| {
        let table = pattern.head.table.clone().map(|table| TableName {
            keyspace: "k".to_owned(),
            table,
        });
        Acceptance {
            rule: [None, Some("allow-filtering"), None][at % 3],
            table: table.filter(|_| at % 3 != 1),
            pattern: [None, None, Some(*id)][at % 3],
            at_most: Some(Severity::Info),
            owner: "team".to_owned(),
            reason: String::new(),
            until: jiff::civil::date(2030, 1, 1),
            place: String::new(),
        }
    });
    each.collect()
}

/// What is looked at when findings are accepted, written, and compared with those of another report.
fn looks((window, schema): &(Window, Schema)) -> Vec<(&'static str, u64)> {
    let cluster = Cluster::default();
    let judging = Judging {
        acceptances: acceptances(window),
        ..Judging::default()
    };
    let mut looks = Vec::new();
    let mut looked = |name| looks.push((name, work::looks()));
    looked("before");
    let judgement = judging.judge(
        &Context::new(window, schema, &cluster),
        jiff::civil::date(2026, 1, 1),
    );
    looked("acceptances");
    let report = Report::new(window, &cluster, schema, judgement, Timestamp::UNIX_EPOCH);
    let report = report.table_by_table();
    for format in [Format::Csv, Format::Md, Format::Html, Format::Json] {
        report.render(format, &mut std::io::sink()).unwrap();
    }
    looked("forms");
    let mut json = Vec::new();
    report.render(Format::Json, &mut json).unwrap();
    let baseline = Baseline::read(&json[..]).unwrap();
    report.since(&baseline).unwrap();
    looked("baseline");
    let read = ReadReport::read(&json[..]).unwrap();
    let diff = ReportDiff::between(&read, &read).unwrap();
    diff.render(DiffFormat::Json, &mut std::io::sink()).unwrap();
    looked("difference");
    looks.split_off(1)
}

#[test]
fn twice_as_much_is_looked_at_twice_as_often_at_most() {
    let mut complaints = Vec::new();
    for (name, shape) in SHAPES {
        let (once, twice) = (looks(&shape(150)), looks(&shape(300)));
        for ((what, once), (_, twice)) in once.into_iter().zip(twice) {
            if twice > once * 5 / 2 + 100 {
                complaints.push(format!("{what}, {name}: {once} looks, then {twice}"));
            }
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

fn judged((window, schema): &(Window, Schema)) -> Judgement {
    let cluster = Cluster::default();
    check(&Context::new(window, schema, &cluster), &Settings::default())
}

/// Allocations of a judgement and of its report in all forms.
fn allocations(shape: &(Window, Schema)) -> [u64; 2] {
    let (window, schema) = shape;
    let all = allocation_counter::measure(|| {
        let judgement = judged(shape);
        let cluster = Cluster::default();
        let report = Report::new(window, &cluster, schema, judgement, Timestamp::UNIX_EPOCH);
        for format in [Format::Json, Format::Html, Format::Md, Format::Svg] {
            report.render(format, &mut std::io::sink()).unwrap();
        }
    });
    [all.count_total, all.bytes_total]
}

#[test]
fn twice_as_much_takes_a_report_about_twice_the_memory() {
    let mut complaints = Vec::new();
    for (name, shape) in SHAPES {
        let (once, twice) = (allocations(&shape(150)), allocations(&shape(300)));
        for (once, twice) in once.into_iter().zip(twice) {
            // Vectors that grow leave some room.
            if twice > once * 5 / 2 + 100_000 {
                complaints.push(format!("{name}: {once}, then {twice}"));
            }
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn cql_is_written_for_the_first_findings_and_the_rest_is_counted() {
    let (window, schema) = one_table(1_200);
    let judgement = judged(&(window.clone(), schema.clone()));
    let of_rule: Vec<_> = judgement
        .findings
        .iter()
        .filter(|finding| finding.rule == "allow-filtering")
        .collect();
    assert_eq!(of_rule.len(), 1_200);
    let with_cql = of_rule.iter().filter(|finding| !finding.suggested_cql.is_empty());
    let with_cql = with_cql.count() as u64;
    assert!((100..=1_000).contains(&with_cql), "{with_cql}");
    assert!(
        judgement.unwritten.findings >= 1_200 - with_cql,
        "{:?}",
        judgement.unwritten
    );
    let bytes: usize = judgement
        .findings
        .iter()
        .flat_map(|finding| &finding.suggested_cql)
        .map(String::len)
        .sum();
    assert!(bytes < 5 << 20, "{bytes}");
    let cluster = Cluster::default();
    let report = Report::new(&window, &cluster, &schema, judgement, Timestamp::UNIX_EPOCH);
    let notices = report.notices.iter();
    let said = notices.filter(|notice| notice.starts_with("There was not enough room for all suggestions: "));
    assert_eq!(said.count(), 1);
}

#[test]
fn a_finding_on_many_statements_has_cql_for_some_of_them() {
    let reads =
        (0..100).map(|column| filtering(&format!("SELECT c{column} FROM k.t WHERE c1 = ? ALLOW FILTERING")));
    let shape = (window(reads), Schema::from_cql(&wide(100)).unwrap());
    let judgement = judged(&shape);
    let finding = judgement
        .findings
        .iter()
        .find(|finding| finding.rule == "allow-filtering");
    let finding = finding.unwrap();
    assert_eq!(finding.patterns.len(), 100);
    let distinct: BTreeSet<_> = finding.suggested_cql.iter().collect();
    assert_eq!(distinct.len(), finding.suggested_cql.len());
    assert!((20..40).contains(&distinct.len()), "{}", distinct.len());
    assert!(judgement.unwritten.statements >= 80, "{:?}", judgement.unwritten);
}
