#![allow(clippy::unwrap_used)]
use std::net::SocketAddr;

use cqlens_capture::Moment;
use cqlens_proto::envelope::{Direction, Version};

use super::MAX_COPIES;
use crate::{
    Segment,
    testing::{Conversation, Followed, follow, query, void},
};

const CQL: &str = "INSERT INTO shop.orders (id, total) VALUES (17, 4)";

fn numbers() -> (u32, u32) {
    (u32::MAX - 60, 900_355_282)
}

/// Opens it, executes the statement so many times, and ends it.
fn session(talk: &mut Conversation, count: i16) -> Vec<Segment> {
    let mut segments = talk.open();
    for stream in 0..count {
        segments.extend(talk.send(Direction::Request, &query(Version::V4, stream, CQL), 40));
        segments.extend(talk.send(Direction::Response, &void(Version::V4, stream), 40));
    }
    segments.extend(talk.close());
    segments
}

/// The same segments between other ends, microseconds later; earlier from the server on.
fn translated(segments: &[Segment], client: &str, server: &str, microseconds: i64) -> Vec<Segment> {
    let (client, server): (SocketAddr, SocketAddr) = (client.parse().unwrap(), server.parse().unwrap());
    let translate = |segment: &Segment| {
        let is_request = segment.to.port() == 9042;
        let (from, to) = if is_request {
            (client, server)
        } else {
            (server, client)
        };
        let later = if is_request { microseconds } else { -microseconds };
        let at = Moment::from_unix_nanoseconds(segment.at.unix_nanoseconds() + later * 1_000);
        Segment {
            at,
            from,
            to,
            ..segment.clone()
        }
    };
    segments.iter().map(translate).collect()
}

fn by_time(copies: &[Vec<Segment>]) -> Vec<Segment> {
    let mut all = copies.concat();
    all.sort_by_key(|segment| segment.at);
    all
}

/// Whether it is one connection, of which nothing is missing.
fn is_one(told: &Followed, count: usize) -> bool {
    let connection = &told.captures[0].connection;
    (told.requests.len(), told.responses.len()) == (count, count)
        && told.losses.missing_bytes() == 0
        && told
            .captures
            .iter()
            .all(|capture| capture.connection.id == connection.id)
}

#[test]
fn a_connection_before_and_after_a_translation_counts_once_by_its_outer_addresses() {
    let outer = session(&mut Conversation::new(numbers()), 20);
    for (client, server) in [
        // To a container or a pod, from the address of a node, from another port.
        ("10.0.0.1:40000", "172.17.0.2:9042"),
        ("10.0.0.9:40000", "172.17.0.2:9042"),
        ("10.0.0.9:61000", "172.17.0.2:9042"),
        ("10.0.0.9:61000", "10.0.0.2:9042"),
    ] {
        for later in [1, 20, 49] {
            let told = follow(by_time(&[
                outer.clone(),
                translated(&outer, client, server, later),
            ]));
            assert!(is_one(&told, 20), "{client} {server} {later}: {told:?}");
            let connection = &told.captures[0].connection;
            let named = (connection.client, connection.upstream().unwrap());
            assert_eq!(named, (outer[0].from, outer[0].to));
            let copied = told.losses.copies.into_iter().collect::<Vec<_>>();
            assert_eq!(copied, [((outer[0].to, server.parse().unwrap()), 1)]);
        }
    }
}

#[test]
fn three_copies_with_clocks_of_their_own_count_once() {
    let outer = session(&mut Conversation::new(numbers()), 20);
    let copies = [
        outer.clone(),
        translated(&outer, "10.0.0.1:40000", "172.17.0.2:9042", 20),
        translated(&outer, "10.9.0.1:40000", "172.17.0.2:9042", 30),
    ];
    assert!(is_one(&follow(by_time(&copies)), 20));
    // One behind the other, as two files that are not merged by time.
    assert!(is_one(&follow(copies.concat()), 20));
}

/// Whoever sends packets can make up as many as they like.
#[test]
fn beyond_a_number_of_copies_a_connection_is_one_of_its_own() {
    let outer = session(&mut Conversation::new(numbers()), 4);
    let copies = (0..=MAX_COPIES).map(|copy| {
        let later = i64::try_from(copy).unwrap();
        translated(
            &outer,
            "10.0.0.1:40000",
            &format!("172.17.0.{}:9042", 2 + copy),
            later,
        )
    });
    let copies: Vec<_> = copies.collect();
    assert!(is_one(&follow(by_time(&copies)), 4));
    let more = translated(&outer, "10.0.0.1:40000", "172.17.1.1:9042", 99);
    let told = follow(by_time(&[copies.concat(), more]));
    assert_eq!(told.requests.len(), 2 * 4);
}

#[test]
fn what_one_copy_lacks_another_one_has() {
    let outer = session(&mut Conversation::new(numbers()), 40);
    let inner = translated(&outer, "10.0.0.1:40000", "172.17.0.2:9042", 20);
    let without = |segments: &[Segment], nth: usize| {
        let kept = segments
            .iter()
            .enumerate()
            .filter(|(at, _)| *at < 3 || at % 7 != nth);
        kept.map(|(_, segment)| segment.clone()).collect::<Vec<_>>()
    };
    let told = follow(by_time(&[without(&outer, 1), without(&inner, 4)]));
    assert!(is_one(&told, 40), "{:?}", told.losses);
    let cut = |segments: &[Segment]| {
        let mut segments = segments.to_vec();
        for segment in &mut segments {
            segment.cut = segment.payload.len().saturating_sub(10);
            segment.payload.truncate(10);
        }
        segments
    };
    for copies in [[cut(&outer), inner.clone()], [outer.clone(), cut(&inner)]] {
        let told = follow(by_time(&copies));
        assert!(is_one(&told, 40), "{:?}", told.losses);
    }
    let told = follow(by_time(&[cut(&outer), cut(&inner)]));
    assert!(
        told.losses.cut_bytes > 0 && told.losses.copies.len() == 1,
        "{:?}",
        told.losses
    );
}

#[test]
fn copies_that_begin_in_the_middle_count_once() {
    let outer = session(&mut Conversation::new(numbers()), 40);
    let inner = translated(&outer, "10.9.0.1:52000", "172.17.0.2:9042", 20);
    let counted = |copies: &[Vec<Segment>]| {
        let told = follow(by_time(copies));
        assert!(told.requests.len() > 15, "{:?}", told.losses);
        (
            told.requests.len(),
            told.responses.len(),
            told.losses.unplaced_bytes,
        )
    };
    // The middle of a request: both begin there, or one of them after the other.
    for (first, second) in [(30, 30), (30, 31), (31, 30), (30, 60), (60, 30), (0, 60), (60, 0)] {
        let alone = counted(&[outer[first.min(second)..].to_vec()]);
        let both = counted(&[outer[first..].to_vec(), inner[second..].to_vec()]);
        assert_eq!(both, alone, "from {first} and {second} on");
    }
}

#[test]
fn two_clients_that_say_the_same_are_two() {
    let mut other = Conversation::new((77_777_777, 88_888_888));
    other.client = "10.0.0.1:40002".parse().unwrap();
    let segments = [
        session(&mut Conversation::new(numbers()), 20),
        session(&mut other, 20),
    ];
    let (one, two) = (&segments[0], &segments[1]);
    let elsewhere = [
        two.clone(),
        translated(two, "10.0.0.2:40000", "10.0.0.2:9042", 0),
        translated(two, "10.0.0.1:40000", "10.0.0.3:9042", 0),
    ];
    for other in elsewhere {
        let told = follow(by_time(&[one.clone(), other]));
        assert_eq!((told.requests.len(), told.responses.len()), (40, 40));
        assert!(told.losses.copies.is_empty());
    }
}

/// Packets that no computer has sent.
#[test]
fn two_clients_that_begin_with_the_same_made_up_number_are_two() {
    let mut other = Conversation::new((1_000, 5_000));
    other.client = "10.0.0.7:40002".parse().unwrap();
    let segments = [
        session(&mut Conversation::new((1_000, 5_000)), 20),
        session(&mut other, 20),
    ];
    let told = follow(by_time(&segments));
    assert_eq!(told.requests.len(), 40);
}

#[test]
fn addresses_of_a_copy_that_are_used_again_are_a_copy_of_what_they_carry_then() {
    let mut talk = Conversation::new(numbers());
    let first = session(&mut talk, 10);
    let mut later = Conversation::new((123_456_789, 987_654_321));
    later.at = talk.at + 1_000_000_000;
    let second = session(&mut later, 10);
    let inner = ("10.0.0.1:40000", "172.17.0.2:9042");
    let copies = [&first, &second].map(|outer| translated(outer, inner.0, inner.1, 20));
    // The second one is captured behind the translation first.
    let early = translated(&second, inner.0, inner.1, -20);
    for copy in [&copies[1], &early] {
        let told = follow(by_time(&[
            first.clone(),
            copies[0].clone(),
            second.clone(),
            copy.clone(),
        ]));
        assert_eq!((told.requests.len(), told.responses.len()), (20, 20));
        assert_eq!(told.losses.missing_bytes(), 0);
    }
    // And once on their own.
    let told = follow(by_time(&[first.clone(), copies[0].clone(), copies[1].clone()]));
    assert_eq!((told.requests.len(), told.responses.len()), (20, 20));
    assert_eq!(told.losses.missing_bytes(), 0);
}
