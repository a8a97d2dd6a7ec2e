//! Operations of several steps, and their times.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::{
    audit::sequence::{inside::Inside, result_columns::ResultColumn, values},
    window::Sequences,
};
use cqlens_proto::message::{ResultMetadata, RowsContent};
use jiff::Timestamp;

const ACTOR: u64 = 7;

/// Reads and their followers, of one actor.
struct Observed {
    key: HashKey,
    follow_ups: FollowUps,
    window: Window,
}

impl Observed {
    fn new() -> Self {
        Self {
            key: HashKey::random(),
            follow_ups: FollowUps::new(4_096),
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
        let hash = values::hash(self.key, ACTOR, &key.to_be_bytes()).unwrap();
        let value = KeyValue {
            key: 0,
            hash,
            column: "id",
        };
        let follows = self.follow_ups.follow(request, [value].into_iter());
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
            asked: &[hash],
        };
        let columns = Columns::from([ResultColumn {
            name: "id".into(),
            inside: Inside::Nothing,
        }]);
        self.follow_ups
            .remember(self.key, &read, columns, &mut self.window);
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
