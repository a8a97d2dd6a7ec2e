#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
use std::net::SocketAddr;

use super::*;
use crate::{
    packets::LINK_RAW,
    testing::{Conversation, follow, packet, query, void},
};
use cqlens_proto::envelope::Version;
use proptest::{collection::vec, prelude::*};

const CQL: &str = "SELECT name, email FROM users WHERE id = 4711 AND day = '2026-11-22'";

/// Requests and their answers, one after the other.
fn session(talk: &mut Conversation, count: i16, size: usize) -> Vec<Segment> {
    (0..count)
        .flat_map(|stream| {
            let mut segments = talk.send(Direction::Request, &query(Version::V4, stream, CQL), size);
            segments.extend(talk.send(Direction::Response, &void(Version::V4, stream), size));
            segments
        })
        .collect()
}

fn whole(talk: &mut Conversation, count: i16, size: usize) -> Vec<Segment> {
    [talk.open(), session(talk, count, size), talk.close()].concat()
}

#[test]
fn a_whole_session_is_told_whole() {
    for size in [1, 7, 50, 1_448] {
        let told = follow(whole(&mut Conversation::new((u32::MAX - 100, 77)), 20, size));
        assert_eq!((told.requests.len(), told.responses.len()), (20, 20), "{size}");
        assert_eq!(of_missing(told.losses), Losses::default());
    }
}

/// Without what is there.
fn of_missing(losses: Losses) -> Losses {
    Losses {
        seen_bytes: 0,
        understood: 0,
        ..losses
    }
}

#[test]
fn nearly_all_segments_take_the_short_cut() {
    let queue = Arc::new(ReplayQueue::new(64 << 20));
    let mut connections = TcpConnections::new(queue, vec![9042]);
    let mut talk = Conversation::new((5, 6));
    let (opening, data) = (talk.open(), session(&mut talk, 20, 1_448));
    let mut in_order = 0;
    for segment in [&opening[..], &data, &talk.close()].concat() {
        let bytes = packet(&segment);
        let packet = Packet::of(LINK_RAW, segment.at, bytes.len(), &bytes);
        match Headers::read(&packet).is_some_and(|headers| connections.take_in_order(&headers, &packet)) {
            true => in_order += 1,
            false => connections.take(segment),
        }
    }
    // The third of those that open it, but not the first request and its response, and not those that close it.
    assert_eq!(in_order, 1 + data.len() - 2);
}

#[test]
fn an_answer_that_was_captured_before_its_request_comes_after_it() {
    let mut talk = Conversation::new((5, 6));
    let mut segments = talk.open();
    let mut exchange = session(&mut talk, 2, 1_448);
    exchange.swap(0, 1);
    segments.extend(exchange);
    let told = follow(segments);
    let directions: Vec<_> = told.captures.iter().map(|capture| capture.direction).collect();
    let (request, response) = (Direction::Request, Direction::Response);
    assert_eq!(directions, [request, response, request, response]);
    assert_eq!(of_missing(told.losses), Losses::default());
}

#[test]
fn a_request_that_the_capture_lacks_is_missed_by_its_answer() {
    let mut talk = Conversation::new((5, 6));
    let mut segments = whole(&mut talk, 3, 1_448);
    let lost = segments.remove(5);
    let told = follow(segments);
    assert_eq!(told.losses.lost_bytes, lost.payload.len() as u64);
    assert_eq!((told.requests.len(), told.responses.len()), (2, 3));
    assert_eq!(told.losses.unplaced_bytes, 0);
}

#[test]
fn a_snap_length_costs_the_envelopes_that_it_cuts_and_no_others() {
    let mut segments = whole(&mut Conversation::new((5, 6)), 10, 1_448);
    let mut cut = 0;
    for segment in segments.iter_mut().skip(3).step_by(4) {
        let keep = segment.payload.len().min(20);
        segment.cut = segment.payload.len() - keep;
        segment.payload.truncate(keep);
        cut += segment.cut;
    }
    let told = follow(segments);
    assert_eq!(told.losses.cut_bytes, cut as u64);
    assert_eq!((told.requests.len(), told.skipped), (5, 5));
    assert_eq!(told.responses.len(), 10);
    assert_eq!(told.losses.unplaced_bytes, 0);
}

#[test]
fn a_capture_that_begins_in_mid_connection_finds_its_place() {
    let segments = whole(&mut Conversation::new((5, 6)), 10, 30);
    for from in 1..segments.len() - 12 {
        let told = follow(segments[from..].to_vec());
        assert_eq!(told.losses.begun_before, u64::from(from > 1), "{from}");
        assert!(
            told.requests.len() <= 10 && told.requests.len() + from / 4 + 2 >= 10,
            "{from}"
        );
        assert!(told.losses.unplaced_bytes < 200, "{from}");
    }
}

#[test]
fn one_direction_alone_is_told() {
    for direction in [Direction::Request, Direction::Response] {
        let mut segments = whole(&mut Conversation::new((5, 6)), 10, 1_448);
        segments.retain(|segment| (segment.to.port() == 9042) == (direction == Direction::Request));
        let told = follow(segments);
        assert_eq!(told.losses.one_way, 1);
        // What the others' acknowledgments tell of.
        let request = query(Version::V4, 0, CQL).len();
        let one = match direction {
            Direction::Request => void(Version::V4, 0).len(),
            Direction::Response => request,
        };
        assert_eq!(told.losses.missing_bytes(), 10 * one as u64);
        assert_eq!(told.requests.len() + told.responses.len(), 10);
    }
}

#[test]
fn a_damaged_acknowledgment_of_a_direction_that_is_not_there_counts_nothing_as_lost() {
    let mut talk = Conversation::new((5, 6));
    let mut segments = whole(&mut talk, 10, 1_448);
    segments.retain(|segment| segment.to.port() == 9042);
    let lost = follow(segments.clone()).losses.lost_bytes;
    for damaged in 2..segments.len() - 1 {
        for by in [1 << 26, 1 << 29, (1 << 30) + 7, 1 << 31, 3 << 30] {
            let mut segments = segments.clone();
            let number = &mut segments[damaged].acknowledgment;
            *number = number.map(|number| number.wrapping_add(by));
            let told = follow(segments);
            assert_eq!(told.losses.lost_bytes, lost, "{damaged}, {by}");
            assert_eq!(told.requests.len(), 10);
        }
    }
}

#[test]
fn a_direction_that_is_not_there_may_move_on_by_more_than_anybody_can_count() {
    let mut talk = Conversation::new((5, 6));
    let mut segments = [talk.open(), session(&mut talk, 5, 1_448)].concat();
    for jump in [1 << 27, 1 << 31] {
        talk.next.1 = talk.next.1.wrapping_add(jump);
        segments.extend(session(&mut talk, 5, 1_448));
    }
    segments.extend(talk.close());
    segments.retain(|segment| segment.to.port() == 9042);
    let told = follow(segments);
    let one = void(Version::V4, 0).len() as u64;
    // The answer before each jump is acknowledged together with it, and the one after it is what the next
    // number is believed by.
    assert_eq!(
        (told.requests.len(), told.losses.lost_bytes),
        (15, (4 + 3 + 4) * one)
    );
}

#[test]
fn what_is_missing_at_the_end_shows_by_what_comes_after_it() {
    // The last answer, whose end the client acknowledges; the last request, which is answered; both, where
    // both close.
    for (lost, of_all) in [(vec![1], 0), (vec![0], 1), (vec![0, 1], 1)] {
        let mut talk = Conversation::new((5, 6));
        let mut segments = whole(&mut talk, 3, 1_448);
        let last = segments.len() - 4;
        let mut bytes = 0;
        for index in lost.iter().rev() {
            bytes += segments.remove(last + index).payload.len() as u64;
        }
        let told = follow(segments);
        assert_eq!(told.losses.lost_bytes, bytes, "{lost:?}");
        assert_eq!(told.requests.len(), 3 - of_all, "{lost:?}");
        assert_eq!(told.losses.unplaced_bytes, 0);
    }
}

#[test]
fn the_end_of_a_request_that_is_missing_costs_that_request() {
    let mut talk = Conversation::new((5, 6));
    let mut segments = talk.open();
    segments.extend(talk.send(Direction::Request, &query(Version::V4, 1, CQL), 50));
    segments.pop();
    segments.extend(talk.close());
    let told = follow(segments);
    let length = query(Version::V4, 1, CQL).len() as u64;
    assert_eq!(told.losses.lost_bytes, length - 50);
    assert_eq!((told.requests.len(), told.skipped), (0, 1));
}

#[test]
fn the_number_of_an_end_that_was_not_captured_is_no_byte() {
    let mut segments = whole(&mut Conversation::new((5, 6)), 3, 1_448);
    let fin = segments.len() - 2;
    // The server's own end acknowledges the client's.
    let last = segments.last_mut().unwrap();
    last.acknowledgment = last.acknowledgment.map(|number| number.wrapping_add(1));
    segments.remove(fin);
    assert_eq!(of_missing(follow(segments).losses), Losses::default());
}

#[test]
fn after_a_long_silence_the_same_ports_go_on_as_another_connection() {
    let mut talk = Conversation::new((5, 6));
    let mut segments = talk.open();
    segments.extend(session(&mut talk, 3, 1_448));
    // Ahead, and so far ahead that it looks like what was before.
    for jump in [1 << 30, 3 << 30] {
        talk.next.0 = talk.next.0.wrapping_add(jump);
        talk.next.1 = talk.next.1.wrapping_add(jump);
        talk.at += 3_600_000_000_000;
        segments.extend(session(&mut talk, 3, 1_448));
    }
    let told = follow(segments);
    assert_eq!((told.requests.len(), told.responses.len()), (9, 9));
    assert_eq!((told.losses.lost_bytes, told.losses.begun_before), (0, 2));
}

#[test]
fn a_port_that_is_used_again_is_another_connection() {
    let mut first = whole(&mut Conversation::new((5, 6)), 2, 1_448);
    first.truncate(first.len() - 2);
    let mut next = Conversation::new((90_000, 1_000_000));
    next.at += 1_000_000_000;
    let told = follow([first, whole(&mut next, 3, 1_448)].concat());
    assert_eq!(
        (told.requests.len(), of_missing(told.losses)),
        (5, Losses::default())
    );
}

#[test]
fn tls_is_said_once_with_its_server() {
    let mut talk = Conversation::new((5, 6));
    let mut segments = talk.open();
    segments.extend(talk.send(Direction::Request, &[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5], 1_448));
    segments.extend(talk.send(Direction::Response, &[0x16, 3, 3, 0, 1, 9], 1_448));
    let losses = follow(segments).losses;
    assert_eq!(losses.opaque, BTreeMap::from([("tls", 1)]));
    assert!(losses.tls_servers.keys().eq([&talk.server]));
}

/// A node refuses what it cannot read with an error, and reads on.
#[test]
fn nothing_that_a_client_sends_first_hides_what_follows() {
    for first in [&b"GET / HTTP/1.1\r\n"[..], &[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5]] {
        let mut talk = Conversation::new((5, 6));
        let mut segments = talk.open();
        segments.extend(talk.send(Direction::Request, first, 1_448));
        segments.extend(talk.send(Direction::Response, &void(Version::V4, 0), 1_448));
        segments.extend(session(&mut talk, 20, 1_448));
        segments.extend(talk.close());
        let told = follow(segments);
        assert_eq!((told.requests.len(), told.responses.len()), (20, 21), "{first:?}");
        assert_eq!(told.losses.opaque, BTreeMap::new(), "{first:?}");
        assert_eq!(told.losses.unplaced_bytes, first.len() as u64);
    }
}

#[test]
fn a_client_that_speaks_tls_to_a_node_that_does_not_is_said() {
    let mut talk = Conversation::new((5, 6));
    let mut segments = talk.open();
    segments.extend(talk.send(Direction::Request, &[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5], 1_448));
    segments.extend(talk.send(Direction::Response, &void(Version::V4, 0), 1_448));
    segments.extend(talk.close());
    let losses = follow(segments).losses;
    assert_eq!(losses.opaque, BTreeMap::from([("tls", 1)]));
    assert_eq!(losses.unplaced_bytes, 0);
}

#[test]
fn other_ports_that_speak_cql_are_found() {
    let mut talk = Conversation::new((5, 6));
    talk.server.set_port(9043);
    let queue = Arc::new(ReplayQueue::new(64 << 20));
    let mut connections = TcpConnections::new(queue, vec![9042]);
    for segment in whole(&mut talk, 4, 1_448) {
        connections.take(segment);
    }
    assert_eq!(connections.ports_like_cql(), BTreeMap::from([(9043, 8)]));
    assert_eq!(connections.segments(), 0);
}

#[test]
fn no_more_connections_are_kept_than_there_is_room_for() {
    let queue = Arc::new(ReplayQueue::new(64 << 20));
    let mut connections = TcpConnections::new(queue, vec![9042]);
    for number in 0..MAX_CONNECTIONS + 100 {
        let mut talk = Conversation::new((number as u32 * 50_021, 6));
        talk.client = SocketAddr::new(std::net::Ipv4Addr::from(number as u32).into(), 1_024);
        talk.at += number as i64;
        connections.take(talk.open().remove(0));
    }
    assert!(connections.connections.len() <= MAX_CONNECTIONS);
    assert_eq!(
        connections.take_losses().evicted_connections,
        MAX_CONNECTIONS as u64 / 16
    );
}

#[test]
fn connections_that_are_not_cql_keep_to_one_bound_together() {
    let queue = Arc::new(ReplayQueue::new(64 << 20));
    let memory = Memory::of(Memory::LEAST);
    let mut connections = TcpConnections::new(queue, vec![9042]).within(&memory);
    let mut talks: Vec<_> = (0..400_u32)
        .map(|number| {
            let mut talk = Conversation::new((number * 5_000_011, 6));
            talk.client = SocketAddr::new(std::net::Ipv4Addr::from(number).into(), 1_024);
            talk
        })
        .collect();
    let mut sent = 0;
    for _ in 0..20 {
        for talk in &mut talks {
            for direction in [Direction::Request, Direction::Response] {
                for segment in talk.send(direction, &[0xff; 1_000], 1_000) {
                    sent += segment.payload.len() as u64;
                    connections.take(segment);
                }
            }
            assert!(connections.searching.used() <= connections.searching.limit());
        }
    }
    assert!(sent > 10 * connections.searching.limit() as u64);
    assert!(connections.searching.evicted() > 0);
    connections.end();
    assert_eq!(connections.searching.used(), 0);
    assert_eq!(connections.take_losses().unplaced_bytes, sent);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_order_and_no_loss_invents_a_request_and_every_lost_byte_is_counted(
        size in 5_usize..200,
        lost in vec(any::<prop::sample::Index>(), 0..6),
        moved in vec((any::<prop::sample::Index>(), 1_usize..4), 0..6),
        again in vec(any::<prop::sample::Index>(), 0..6),
        first in any::<(u32, u32)>(),
    ) {
        let mut talk = Conversation::new(first);
        let opening = talk.open();
        let mut data = session(&mut talk, 14, size);
        // What ends the connection shows what was lost before it.
        let end = talk.close();
        let mut expected = 0;
        for index in &lost {
            let segment = data.remove(index.index(data.len()));
            expected += segment.payload.len() as u64;
        }
        for index in &again {
            let segment = data[index.index(data.len())].clone();
            data.push(segment);
        }
        for (index, by) in &moved {
            let from = index.index(data.len());
            let to = (from + by).min(data.len() - 1);
            let segment = data.remove(from);
            data.insert(to, segment);
        }
        let told = follow([opening, data, end].concat());
        let known = query(Version::V4, 0, CQL);
        prop_assert!(told.requests.len() <= 14);
        for request in &told.requests {
            prop_assert_eq!(&request.body[..], &known[9..]);
        }
        let mut streams: Vec<_> = told.requests.iter().map(|request| request.header.stream_id.0).collect();
        streams.sort_unstable();
        prop_assert!(streams.windows(2).all(|two| two[0] != two[1]));
        let whole: usize = (0..14).map(|_| query(Version::V4, 0, CQL).len() + void(Version::V4, 0).len()).sum();
        prop_assert_eq!(told.losses.seen_bytes + told.losses.lost_bytes, whole as u64);
        prop_assert_eq!(told.losses.lost_bytes, expected);
        if expected == 0 {
            prop_assert_eq!(told.requests.len(), 14);
            prop_assert_eq!(told.losses.missing_bytes(), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_short_cut_makes_no_difference_whatever_is_lost_moved_cut_or_damaged(
        size in 5_usize..200,
        from_start in any::<bool>(),
        lost in vec(any::<prop::sample::Index>(), 0..4),
        moved in vec((any::<prop::sample::Index>(), 1_usize..4), 0..4),
        again in vec(any::<prop::sample::Index>(), 0..4),
        cut in vec((any::<prop::sample::Index>(), 0_usize..60), 0..3),
        damaged in vec((any::<prop::sample::Index>(), any::<(bool, bool, u32)>()), 0..3),
        first in any::<(u32, u32)>(),
    ) {
        let mut talk = Conversation::new(first);
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
        // Compares both ways.
        follow(segments);
    }
}
