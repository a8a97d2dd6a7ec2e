//! Windows that are taken and merged.

use super::*;

mod amplified;
mod forged;

fn head(cql: &str) -> (PatternHead, BTreeSet<Flag>) {
    (
        PatternHead {
            cql: cql.to_owned(),
            ..overflow()
        },
        BTreeSet::new(),
    )
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or_default()
}

/// A window of `count` exchanges of each of the patterns `ids`.
fn window(start: i64, ids: std::ops::Range<u64>, count: u64) -> Window {
    let mut window = Window::new(at(start), if start % 2 == 0 { "even" } else { "odd" });
    for id in ids {
        for exchange in 0..count {
            let pattern = window.pattern_mut(PatternId(id), "SELECT", || head("SELECT"));
            pattern.count += 1;
            pattern.rows.record(exchange * id);
            pattern.see(at(start));
            read(pattern, id, exchange);
            let table = TableName {
                keyspace: "s".to_owned(),
                table: format!("t{}", id % 3),
            };
            let table = window.tables.entry(table).or_default();
            table.reads += 1;
            table.top_partitions.read(id);
            table.distinct_partitions.insert(id);
            table.inserted.inserts += 1;
            table.inserted.rows.insert(id);
            table.inserted.contents.insert(id * 100 + exchange);
            beside_requests(table, id, exchange);
            index(&mut window, id, exchange);
        }
        load(&mut window.load, id, count);
        window.count_client(&format!("client {id}"), 1);
    }
    window.coverage.requests = count;
    window.coverage.audited = count;
    window.close(at(start + 60));
    window
}

/// What else is known of a table.
fn beside_requests(table: &mut TableTraffic, id: u64, exchange: u64) {
    table.weights.read(id, exchange + 1, id * 100);
    table.weights.write(id + 1, 1, exchange);
    table.partition_reads.see(id, 1_000 + exchange, (1 << 20) + id);
    table.key_sizes.count(id * 100);
    let row = WrittenRow {
        partition: id,
        bytes: 10,
        at: exchange.cast_signed(),
    };
    table.inserted.sample.insert(id * 100 + exchange, row);
    let value = RepeatedValue {
        within: 1,
        same_within: exchange % 2,
        across: id,
        same_across: 0,
    };
    // More columns than are told apart.
    (0..3).for_each(|column| table.repeated.count(&format!("c{}", id * 3 + column), value));
}

/// What is beside single exchanges: everything that depends on `id` and `exchange` somehow.
fn read(pattern: &mut Pattern, id: u64, exchange: u64) {
    pattern.prepared_again += id;
    pattern.nulls.executions += exchange;
    pattern.nulls.count(id.is_multiple_of(2).then_some("name"), id);
    pattern.unpaged += id;
    pattern.tombstones.short_pages += exchange;
    pattern.tombstones.empty_pages += id;
    pattern.unpaged_rows.record(exchange);
    pattern.paging.rows.record(id * 100 + exchange);
    pattern.paging.pages.record(exchange);
    pattern.paging.abandoned += id % 2;
    pattern.paging.unlinked += exchange;
    pattern.repeats.in_flight += id;
    let cause = if id.is_multiple_of(3) {
        RetryCause::Unprepared
    } else {
        RetryCause::ReadTimeout
    };
    *pattern.repeats.retries.entry(cause).or_default() += 1;
    pattern.scanned.rows += id;
    pattern.scanned.partitions.record(id);
    if id.is_multiple_of(2) {
        pattern.scanned.see(id * exchange);
    }
    let width = i64::try_from(id).unwrap_or(0) << 52;
    pattern.token_ranges.cover.insert(width, width + (1 << 53));
    pattern.token_ranges.sweeps += exchange % 2;
    pattern.token_ranges.sweep_reads += 1;
    let routed = [Routed::ToReplica, Routed::ToOther, Routed::Unknown];
    (0..=exchange % 3).for_each(|at| pattern.routing.count(routed[usize::try_from(at).unwrap_or(0)]));
}

fn index(window: &mut Window, id: u64, exchange: u64) {
    let name = ColumnName {
        table: TableName {
            keyspace: "s".to_owned(),
            table: "t0".to_owned(),
        },
        column: format!("c{}", id % 5),
    };
    window.count_indexed(&name, |column| {
        column.inserts += 1;
        column.updates += id;
        column.known += exchange;
        column.rows.insert(id);
        column.values.insert(exchange);
        column.reads += exchange;
        column.reads_in_partition += id;
        column.asked.insert(id * exchange);
    });
}

fn load(load: &mut Load, id: u64, count: u64) {
    let node = load.nodes.entry(format!("node {}", id % 7)).or_default();
    node.address = Some(format!("10.0.0.{}", id % 7));
    node.coordinated += count;
    node.reads += id;
    let token = i64::try_from(id).unwrap_or(0) << 56;
    load.ring.read(token);
    load.ring.write(-token);
    load.coordinator_unknown += id % 2;
    *load.unplaced.entry(Unplaced::Tablets).or_default() += id;
    load.without_keys += count;
}

fn merged(parts: [&Window; 3]) -> Window {
    let mut all = parts[0].clone();
    all.merge(parts[1]);
    all.merge(parts[2]);
    all
}

#[test]
fn windows_merge_in_any_order_and_grouping() {
    let (a, b, c) = (window(0, 2..40, 3), window(61, 20..60, 2), window(122, 5..10, 40));
    let all = merged([&a, &b, &c]);
    assert_eq!(all, merged([&c, &a, &b]));
    let mut right = b.clone();
    right.merge(&c);
    let mut grouped = a.clone();
    grouped.merge(&right);
    assert_eq!(all, grouped);
    assert_eq!((all.start, all.end, all.coverage.audited), (at(0), at(182), 45));
}

#[test]
fn a_snapshot_from_before_there_was_anything_beside_exchanges_is_read() {
    let mut window = window(0, 2..4, 3);
    window.coverage.reads_forgotten = 7;
    let snapshot = Snapshot::new(window, Cluster::default(), String::new(), String::new());
    let mut text = Vec::new();
    snapshot.write(&mut text).unwrap_or_default();
    let read: Option<Snapshot> = Snapshot::read(&text[..]).ok();
    assert_eq!(read.as_ref(), Some(&snapshot), "today's comes back whole");

    let mut old: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let patterns = old["window"]["patterns"].as_object_mut().into_iter().flatten();
    for (_, pattern) in patterns {
        for name in [
            "prepared_again",
            "nulls",
            "unpaged",
            "unpaged_rows",
            "paging",
            "repeats",
            "scanned",
            "token_ranges",
            "routing",
        ] {
            let removed = pattern.as_object_mut().and_then(|pattern| pattern.remove(name));
            assert!(removed.is_some(), "{name}");
        }
    }
    let coverage = old["window"]["coverage"].as_object_mut();
    let removed = coverage.and_then(|coverage| coverage.remove("reads_forgotten"));
    assert!(removed.is_some());
    for (_, table) in old["window"]["tables"].as_object_mut().into_iter().flatten() {
        let removed = table.as_object_mut().and_then(|table| table.remove("inserted"));
        assert!(removed.is_some());
    }
    for name in ["load", "indexed"] {
        let window = old["window"].as_object_mut();
        assert!(window.and_then(|window| window.remove(name)).is_some(), "{name}");
    }
    let read = Snapshot::read(old.to_string().as_bytes()).map(|snapshot| snapshot.window);
    assert_eq!(
        read.as_ref().map(|window| &window.load).ok(),
        Some(&Load::default())
    );
    let expected = snapshot.window.patterns.into_iter().map(|(id, pattern)| {
        let without = Pattern {
            prepared_again: 0,
            nulls: Nulls::default(),
            unpaged: 0,
            unpaged_rows: Distribution::default(),
            paging: Paging::default(),
            repeats: Repeats::default(),
            scanned: Scanned::default(),
            token_ranges: TokenRanges::default(),
            routing: Routing::default(),
            ..pattern
        };
        (id, without)
    });
    assert_eq!(read.map(|window| window.patterns).ok(), Some(expected.collect()));
}

#[test]
fn templates_that_share_an_id_are_not_counted_as_one() {
    let of = |templates: &[&str]| {
        let mut window = Window::new(at(0), "proxy");
        for cql in templates {
            window.pattern_mut(PatternId(7), cql, || head(cql)).count += 1;
        }
        window.make_room();
        window
    };
    let mut window = of(&["SELECT a", "SELECT b", "SELECT a", "SELECT c"]);
    let counted = |window: &Window| {
        let pattern = &window.patterns[&PatternId(7)];
        let others = window.patterns.get(&OVERFLOW).map_or(0, |others| others.count);
        (
            pattern.head.cql.clone(),
            pattern.count,
            others,
            window.coverage.patterns_collided,
        )
    };
    assert_eq!(counted(&window), ("SELECT a".to_owned(), 2, 2, 2));
    window.merge(&of(&["SELECT b", "SELECT b"]));
    assert_eq!(counted(&window), ("SELECT a".to_owned(), 2, 4, 4));
    window.merge(&of(&["SELECT a"]));
    assert_eq!(counted(&window), ("SELECT a".to_owned(), 3, 4, 4));
}

#[test]
fn a_condensed_window_keeps_all_counts_and_the_heaviest_partitions() {
    let name = TableName {
        keyspace: "s".to_owned(),
        table: "t".to_owned(),
    };
    let busy = |first: u64| {
        let mut window = Window::new(at(0), "proxy");
        let table = window.tables.entry(name.clone()).or_default();
        for key in first..first + 400 {
            let times = if key % 100 == 0 { 1_000 } else { 1 };
            table.reads += times;
            table.distinct_partitions.insert(key);
            (0..times).for_each(|_| table.top_partitions.read(key));
            table.weights.read(key, times, times);
            let row = WrittenRow {
                partition: key,
                bytes: 10,
                at: 0,
            };
            table.inserted.sample.insert(key, row);
        }
        window
    };
    let whole = busy(0);
    let mut condensed = whole.clone();
    condensed.condense(Detail::Hour);
    let (before, after) = (&whole.tables[&name], &condensed.tables[&name]);
    assert_eq!((after.reads, after.top_partitions.total()), (4_396, 4_396));
    assert_eq!(after.distinct_partitions, before.distinct_partitions);
    assert_eq!(after.top_partitions.top(4), before.top_partitions.top(4));
    assert_eq!(after.weights.bytes.top(3), before.weights.bytes.top(3));
    assert_eq!(
        (before.inserted.sample.len(), after.inserted.sample.len()),
        (400, 64)
    );
    let size = |window: &Window| serde_json::to_string(window).unwrap_or_default().len();
    assert!(
        size(&condensed) * 4 < size(&whole),
        "{} of {}",
        size(&condensed),
        size(&whole)
    );
    // A whole sample beside one that was cut would have too many rows with large hashes: both end where that one does.
    let (mut one, mut other) = (condensed.clone(), busy(1_000));
    one.merge(&busy(1_000));
    other.merge(&condensed);
    assert_eq!(one, other);
    assert_eq!(one.tables[&name].inserted.sample.len(), 64);
    assert_eq!(one.tables[&name].reads, 8_792);
}

/// The attack: a client that takes all names before anybody else comes.
#[test]
fn clients_with_many_connections_stay_however_late_they_come() {
    let mut window = Window::new(at(0), "proxy");
    let many = MAX_CLIENTS * 3;
    for junk in 0..many {
        window.connections_mut(&format!("junk {junk}")).open(4, true);
    }
    for _ in 0..7 {
        window.connections_mut("shop").open(5, true);
    }
    window.connections_mut("standing").are_open("10.0.0.1:9042", 9);
    let mut other = Window::new(at(0), "other");
    for junk in many..many * 2 {
        other.connections_mut(&format!("junk {junk}")).open(4, true);
    }
    let (mut there, mut back) = (window.clone(), other.clone());
    there.merge(&other);
    back.merge(&window);
    for merged in [window, there, back] {
        assert_eq!(merged.connections["shop"].opened, 7);
        assert_eq!(merged.connections["standing"].weight(), 9);
        assert!(merged.connections.len() <= MAX_CLIENTS + 1);
        let opened: u64 = merged.connections.values().map(|client| client.opened).sum();
        let junk = if merged.sources.len() == 1 { many } else { many * 2 };
        assert_eq!(opened, junk as u64 + 7, "nothing is lost");
    }
}
