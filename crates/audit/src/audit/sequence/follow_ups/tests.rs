//! Operations of several steps, their times, and which read a request follows.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::audit::sequence::{inside::Inside, result_columns::ResultColumn, values};
use cqlens_cql::{schema::DataType, syntax::ast::NativeType};
use cqlens_proto::message::{ResultMetadata, RowsContent};
use cqlens_window::{Link, Sequences};
use jiff::Timestamp;

const ACTOR: u64 = 7;
const LIST: PatternId = PatternId(8);
const JOINED: PatternId = PatternId(9);

/// Reads and their followers, of one actor.
struct Observed {
    key: HashKey,
    follow_ups: FollowUpFinder,
    window: Window,
}

impl Observed {
    fn new() -> Self {
        Self {
            key: HashKey::random(),
            follow_ups: FollowUpFinder::new(4_096),
            window: Window::new(Timestamp::UNIX_EPOCH, "test"),
        }
    }

    /// A read by a key, asked and answered at these milliseconds, of rows of one value each.
    fn read(&mut self, pattern: u64, key: u32, (asked, answered): (i64, i64), rows: &[u32]) {
        let request = KeyedRequest {
            pattern: PatternId(pattern),
            at: asked * MILLISECOND,
            answered_at: answered * MILLISECOND,
        };
        let follows = self.follow(request, &[key]);
        let mut content = RowsContent::new(1);
        rows.iter()
            .for_each(|row| content.push([Some(&row.to_be_bytes()[..])]).unwrap());
        let metadata = ResultMetadata {
            column_count: 1,
            ..ResultMetadata::none()
        };
        let rows = Rows::new(metadata, &content).unwrap();
        let read = ReadRows {
            pattern: request.pattern,
            actor: ACTOR,
            asked_at: request.at,
            answered_at: request.answered_at,
            follows,
            page: None,
            next_page: None,
            rows: &rows,
            asked: &[self.hash(key)],
        };
        let columns = Columns::from([ResultColumn {
            name: "id".into(),
            inside: Inside::Nothing,
        }]);
        self.follow_ups
            .remember(self.key, &read, columns, &mut self.window);
    }

    /// A list, answered at this time in milliseconds.
    fn list(&mut self, answered: i64, rows: &[u32]) {
        self.read(LIST.0, 1, (answered - 1, answered), rows);
    }

    /// A request by these keys, whose rows lead nowhere, which is answered a millisecond later.
    fn join(&mut self, at: i64, keys: &[u32]) {
        self.ask(JOINED, at, keys);
    }

    fn ask(&mut self, pattern: PatternId, at: i64, keys: &[u32]) {
        let request = KeyedRequest {
            pattern,
            at: at * MILLISECOND,
            answered_at: (at + 1) * MILLISECOND,
        };
        self.follow(request, keys);
    }

    fn follow(&mut self, request: KeyedRequest, keys: &[u32]) -> Option<u32> {
        let hashes: Vec<u64> = keys.iter().map(|key| self.hash(*key)).collect();
        let values = hashes.iter().enumerate().map(|(at, hash)| KeyValue {
            key: at,
            hash: *hash,
            column: 0,
        });
        let values: Vec<_> = values.collect();
        let columns = [KeyColumn {
            name: "id".into(),
            data_type: DataType::Native(NativeType::Int),
        }];
        match hashes.len() {
            1 => self.follow_ups.follow(request, (&values, &columns)),
            _ => self.follow_ups.follow_list(request, (&values, &columns)),
        }
    }

    fn hash(&self, value: u32) -> u64 {
        values::hash(self.key, ACTOR, &value.to_be_bytes()).unwrap()
    }

    /// What came of lists and joins.
    fn joined(self) -> Link {
        self.end().followed[&LIST].links[&JOINED].clone()
    }

    fn end(mut self) -> Sequences {
        self.follow_ups.end(&mut self.window);
        self.window.sequences
    }
}

#[test]
fn an_operation_lasts_from_its_first_request_to_the_last_answer_of_all_its_steps() {
    let mut observed = Observed::new();
    observed.read(1, 100, (1_000, 1_005), &[200]);
    observed.read(2, 200, (1_006, 1_010), &[300, 301]);
    observed.read(3, 300, (1_011, 1_013), &[1]);
    observed.read(3, 301, (1_014, 1_020), &[1]);
    let sequences = observed.end();
    let operation = |pattern| {
        let times = &sequences.followed[&PatternId(pattern)].operation_us;
        (times.count(), times.max())
    };
    assert_eq!(operation(1), (1, 20_000));
    assert_eq!(operation(2), (1, 14_000));
    assert_eq!(operation(3), (0, 0), "nothing follows");
    let link = &sequences.followed[&PatternId(1)].links[&PatternId(2)];
    assert_eq!(link.elapsed_us.max(), 5_000, "of the step alone");
}

/// Reads that were followed, and keys of all of them.
fn followed(link: &Link) -> (u64, u64) {
    (link.keys.count(), link.keys.total())
}

#[test]
fn a_value_of_several_reads_follows_the_one_of_which_its_row_is_next() {
    let mut observed = Observed::new();
    observed.list(1_000, &[10, 11, 12, 13, 14, 15]);
    for row in 0..3 {
        observed.join(1_010 + 10 * i64::from(row), &[10 + row]);
    }
    observed.list(1_035, &[10, 11, 12, 13, 14, 15]);
    for row in 3..6 {
        observed.join(1_010 + 10 * i64::from(row), &[10 + row]);
    }
    for row in 0..6 {
        observed.join(1_080 + 20 * i64::from(row), &[10 + row]);
    }
    let link = observed.joined();
    assert_eq!(
        followed(&link),
        (2, 12),
        "the second does not take those of the first"
    );
    assert_eq!(link.keys.max(), 6);
    // What was chosen by the order of rows is no evidence of it: only what could follow nothing else.
    assert_eq!((link.compared, link.in_order), (7, 7));
}

#[test]
fn a_request_of_several_keys_follows_the_read_that_has_most_of_them() {
    let mut observed = Observed::new();
    observed.list(1_000, &[10, 11, 12, 13]);
    observed.list(1_001, &[10, 20, 21, 23]);
    observed.join(1_005, &[10, 11, 12, 13]);
    observed.join(1_006, &[10, 20, 21, 23]);
    let link = observed.joined();
    assert_eq!(followed(&link), (2, 8));
    assert_eq!((link.requests, link.lists), (2, 2));

    let mut observed = Observed::new();
    for answered in [1_000, 1_001] {
        observed.list(answered, &[10, 11]);
    }
    for at in [1_005, 1_006, 1_007] {
        observed.join(at, &[10, 11]);
    }
    assert_eq!(followed(&observed.joined()), (2, 4), "each once");
}

#[test]
fn the_next_row_may_come_later_than_another_one() {
    let list = [10, 11, 12, 13, 14, 15];
    let mut observed = Observed::new();
    observed.list(1_000, &list);
    observed.join(1_051, &[10]);
    observed.list(2_000, &list);
    // Each is answered a millisecond after it was sent.
    for (at, value) in [(2_050, 10), (2_301, 11), (2_552, 13)] {
        observed.join(at, &[value]);
    }
    // Neither the next one, nor soon; and the next one, too late.
    observed.join(2_604, &[12]);
    observed.join(2_804, &[14]);
    let link = observed.joined();
    assert_eq!(followed(&link), (1, 3), "of the second list");
    assert_eq!((link.compared, link.in_order), (0, 0));
}

#[test]
fn each_row_may_lead_to_several_tables() {
    let mut observed = Observed::new();
    observed.list(1_000, &[10, 11, 12]);
    for (at, value) in [(1_005, 10), (1_010, 11), (1_015, 12)] {
        for pattern in 9..19 {
            observed.ask(PatternId(pattern), at, &[value]);
        }
        // Nothing by the same pattern again.
        observed.join(at + 2, &[value]);
    }
    let sequences = observed.end();
    let links = sequences.followed[&LIST].links.values();
    let keys: Vec<u64> = links.map(|link| link.keys.total()).collect();
    // What has no bit of its own is the one that comes first.
    assert_eq!(keys, [3, 3, 3, 3, 3, 3, 3, 3]);
}

#[test]
fn a_read_is_compared_with_as_many_places_however_many_came_before() {
    let mut observed = Observed::new();
    for number in 0..10_000_u32 {
        let at = i64::from(number) / 10;
        let before = observed.follow_ups.places.compared;
        // A statement of its own, which asks for the rows of the one before it and of a row that all of them find.
        let rows = [number + 1_000_001, 7];
        observed.read(u64::from(number), number + 1_000_000, (at, at), &rows);
        let compared = observed.follow_ups.places.compared - before;
        assert!(compared <= 8 * 6, "{compared} for the {number}th");
    }
    let (sources, places) = (observed.follow_ups.sources.len(), 10_000);
    assert!(sources <= MOST_SOURCES.min(places), "{sources}");
    let links = observed.end().links();
    assert_eq!(links, Sequences::MOST_LINKS);
}

#[test]
fn a_list_is_compared_with_as_many_places_for_each_key() {
    let mut observed = Observed::new();
    let keys: Vec<u32> = (10..110).collect();
    (0..100).for_each(|number| observed.list(1_000 + number, &keys));
    let before = observed.follow_ups.places.compared;
    observed.join(1_105, &keys);
    let compared = observed.follow_ups.places.compared - before;
    assert!(compared <= 8 * (3 * keys.len() + MOST_COMPARED), "{compared}");
}
