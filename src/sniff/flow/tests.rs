#![allow(clippy::unwrap_used)]

use cqlens_proto::envelope::Version;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::sniff::testing::{Talk, query, void};
use cqlens_audit::capture::{Capture, ConnectionId, Limits};

/// What comes of the segments of one connection, and how many were taken as those with which it goes on.
fn told(segments: &[Segment], may_go_on: bool) -> (Vec<Capture>, Losses, usize) {
    let queue = Arc::new(Queue::new(1, Limits::default()));
    let mut losses = Losses::default();
    let client = Talk::new((0, 0)).client;
    let connection = Arc::new(Connection::recorded(ConnectionId(0), client));
    let mut flow = Flow::new(
        connection,
        &segments[0],
        &queue,
        &memory::Part::new("test", 1 << 20),
        &mut losses,
    );
    let mut gone_on = 0;
    for segment in segments {
        let direction = match segment.from == client {
            true => Direction::Request,
            false => Direction::Response,
        };
        let step = Step {
            sequence: segment.sequence,
            acknowledgment: segment.acknowledgment.unwrap_or_default(),
            is_usual: segment.acknowledgment.is_some() && !(segment.syn || segment.fin || segment.rst),
        };
        if may_go_on && flow.goes_on_with(step, direction) {
            gone_on += 1;
            flow.last = flow.last.max(segment.at);
            if segment.payload.len() + segment.cut > 0 {
                let carried = (&segment.payload[..], segment.cut);
                let share = || segment.payload.clone();
                flow.go_on(direction, carried, share, segment.at, &mut losses);
            }
        } else {
            flow.take(segment.clone(), direction, &mut losses);
        }
    }
    flow.close(&mut losses);
    (std::iter::from_fn(|| queue.pop(0)).collect(), losses, gone_on)
}

fn session(talk: &mut Talk, count: i16, size: usize) -> Vec<Segment> {
    let cql = "SELECT name, email FROM users WHERE id = 4711 AND day = '2026-11-22'";
    let exchange = |stream| {
        let mut segments = talk.say(Direction::Request, &query(Version::V4, stream, cql), size);
        segments.extend(talk.say(Direction::Response, &void(Version::V4, stream), size));
        segments
    };
    (0..count).flat_map(exchange).collect()
}

#[test]
fn nearly_all_segments_go_on_with_their_connection() {
    let mut talk = Talk::new((5, 6));
    let opening = talk.open();
    let data = session(&mut talk, 20, 1_448);
    let all = [&opening[..], &data, &talk.close()].concat();
    // Not those that open and close it.
    assert_eq!(told(&all, true).2, data.len() + 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whichever_way_segments_are_taken_the_same_comes_of_them(
        size in 5_usize..200,
        from_start in any::<bool>(),
        lost in vec(any::<prop::sample::Index>(), 0..4),
        moved in vec((any::<prop::sample::Index>(), 1_usize..4), 0..4),
        again in vec(any::<prop::sample::Index>(), 0..4),
        cut in vec((any::<prop::sample::Index>(), 0_usize..60), 0..3),
        damaged in vec((any::<prop::sample::Index>(), any::<(bool, bool, u32)>()), 0..3),
        first in any::<(u32, u32)>(),
    ) {
        let mut talk = Talk::new(first);
        let mut segments = if from_start { talk.open() } else { Vec::new() };
        segments.extend(session(&mut talk, 14, size));
        segments.extend(talk.close());
        for index in &lost {
            segments.remove(index.index(segments.len()));
        }
        for index in &again {
            let place = index.index(segments.len());
            segments.insert(place, segments[place].clone());
        }
        for (index, by) in &moved {
            let from = index.index(segments.len());
            let segment = segments.remove(from);
            segments.insert((from + by).min(segments.len()), segment);
        }
        for (index, keep) in &cut {
            let place = index.index(segments.len());
            let segment = &mut segments[place];
            segment.cut += segment.payload.len().saturating_sub(*keep);
            segment.payload.truncate(*keep);
        }
        for (index, (of_sequence, is_near, by)) in &damaged {
            let place = index.index(segments.len());
            let segment = &mut segments[place];
            let by = if *is_near { by % 200 } else { *by };
            match of_sequence {
                true => segment.sequence = segment.sequence.wrapping_add(by),
                false => segment.acknowledgment = segment.acknowledgment.map(|number| number.wrapping_add(by)),
            }
        }
        let (captures, losses, _) = told(&segments, true);
        let (all_captures, all_losses, _) = told(&segments, false);
        prop_assert_eq!(format!("{captures:?}"), format!("{all_captures:?}"));
        prop_assert_eq!(losses, all_losses);
    }
}
