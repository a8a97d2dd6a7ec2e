#![allow(clippy::unwrap_used)]
use bytes::Bytes;
use cqlens_capture::Moment;
use cqlens_proto::envelope::{Direction, Version};

use crate::{
    Segment,
    testing::{Conversation, Followed, follow, query, void},
};

/// Microseconds that a relay takes to pass bytes on.
const PASSING: i64 = 40;

fn client_to(port: u16, server: &str) -> Conversation {
    let mut talk = Conversation::new((u32::from(port) * 91_237, 4_081_766_131));
    talk.client.set_port(port);
    talk.server = server.parse().unwrap();
    talk
}

/// Says so many statements, each with a response, beginning with the statement `from`.
fn speak(talk: &mut Conversation, from: i16, count: i16, size: usize) -> Vec<Segment> {
    let exchange = |stream| {
        let cql = format!("INSERT INTO shop.orders (id, total) VALUES ({stream}, 4)");
        let mut segments = talk.send(Direction::Request, &query(Version::V4, stream, &cql), size);
        talk.at += 500_000;
        segments.extend(talk.send(Direction::Response, &void(Version::V4, stream), size));
        segments
    };
    (from..from + count).flat_map(exchange).collect()
}

fn session(talk: &mut Conversation, count: i16) -> Vec<Segment> {
    [talk.open(), speak(talk, 0, count, 1_448), talk.close()].concat()
}

/// What a relay makes of a connection: other ends, other numbers, later requests and earlier responses.
fn relayed(outer: &[Segment], client: &str, server: &str, microseconds: i64) -> Vec<Segment> {
    let (client, server) = (client.parse().unwrap(), server.parse().unwrap());
    let (asks, answers) = (912_345_678_u32, 3_428_134_776_u32);
    let relay = |segment: &Segment| {
        let is_request = segment.to.port() == 9042;
        let ((from, to), (own, other)) = match is_request {
            true => ((client, server), (asks, answers)),
            false => ((server, client), (answers, asks)),
        };
        let later = if is_request { microseconds } else { -microseconds };
        Segment {
            at: Moment::from_unix_nanoseconds(segment.at.unix_nanoseconds() + later * 1_000),
            from,
            to,
            sequence: segment.sequence.wrapping_add(own),
            acknowledgment: segment.acknowledgment.map(|number| number.wrapping_add(other)),
            ..segment.clone()
        }
    };
    outer.iter().map(relay).collect()
}

const FROM: &str = "172.17.0.1:53956";
const TO: &str = "172.17.0.2:9042";

fn by_time(sides: &[Vec<Segment>]) -> Vec<Segment> {
    let mut all = sides.concat();
    all.sort_by_key(|segment| segment.at);
    all
}

fn counts(told: &Followed) -> (usize, usize) {
    (told.requests.len(), told.responses.len())
}

#[test]
fn both_sides_of_a_relay_count_once_by_the_outer_one() {
    let outer = session(&mut client_to(40_000, "10.0.0.2:9042"), 30);
    let told = follow(by_time(&[outer.clone(), relayed(&outer, FROM, TO, PASSING)]));
    assert_eq!(counts(&told), (30, 30));
    assert_eq!(told.losses.missing_bytes(), 0);
    let copies: Vec<_> = told.losses.copies.into_iter().collect();
    assert_eq!(
        copies,
        [(("10.0.0.2:9042".parse().unwrap(), TO.parse().unwrap()), 1)]
    );
    let connection = &told.captures[0].connection;
    assert_eq!(
        (connection.client, connection.upstream()),
        (outer[0].from, Some(outer[0].to))
    );
}

#[test]
fn two_relays_one_behind_the_other_count_once() {
    let outer = session(&mut client_to(40_000, "10.0.0.2:9042"), 30);
    let middle = relayed(&outer, FROM, TO, PASSING);
    let inner = relayed(&middle, "172.18.0.1:40100", "172.18.0.2:9042", PASSING);
    assert_eq!(counts(&follow(by_time(&[outer, middle, inner]))), (30, 30));
}

/// A relay passes bytes on as they come, in pieces of its own.
#[test]
fn pieces_of_other_sizes_are_the_same_bytes() {
    let mut talk = client_to(40_000, "10.0.0.2:9042");
    let outer = [talk.open(), speak(&mut talk, 0, 30, 17)].concat();
    let mut talk = client_to(40_000, "10.0.0.2:9042");
    let whole = [talk.open(), speak(&mut talk, 0, 30, 1_448)].concat();
    let mut inner = relayed(&whole, FROM, TO, PASSING);
    // As late as the last piece of the request, before the first one of the response.
    let last = |segment: &Segment| {
        let same = |other: &&Segment| {
            let end = other
                .sequence
                .wrapping_add(u32::try_from(other.payload.len()).unwrap());
            other.to == segment.to
                && segment
                    .sequence
                    .wrapping_add(u32::try_from(segment.payload.len()).unwrap())
                    == end
        };
        outer.iter().find(same).map_or(segment.at, |other| other.at)
    };
    for (segment, whole) in inner.iter_mut().zip(&whole) {
        let first = outer
            .iter()
            .find(|other| other.from == whole.from && other.sequence == whole.sequence);
        let at = match whole.to.port() == 9042 {
            true => last(whole).unix_nanoseconds() + 1_000,
            false => first.unwrap().at.unix_nanoseconds() - 1_000,
        };
        segment.at = Moment::from_unix_nanoseconds(at);
    }
    assert_eq!(counts(&follow(by_time(&[outer, inner]))), (30, 30));
}

#[test]
fn a_relay_that_is_known_needs_no_more_than_a_handshake() {
    let outer = session(&mut client_to(40_000, "10.0.0.2:9042"), 30);
    let mut second = client_to(40_001, "10.0.0.2:9042");
    second.at = outer.last().unwrap().at.unix_nanoseconds() + 1_000_000_000;
    let second = session(&mut second, 3);
    let inner = [
        relayed(&outer, FROM, TO, PASSING),
        relayed(&second, "172.17.0.1:53958", TO, PASSING),
    ];
    let told = follow(by_time(&[outer, second, inner.concat()]));
    assert_eq!(counts(&told), (33, 33));
    assert!(told.losses.alike.is_empty());
}

#[test]
fn what_is_likely_and_not_certain_is_named_and_not_merged() {
    let outer = session(&mut client_to(40_000, "10.0.0.2:9042"), 5);
    let told = follow(by_time(&[outer.clone(), relayed(&outer, FROM, TO, PASSING)]));
    assert_eq!(counts(&told), (10, 10));
    let (client, server) = (FROM.parse().unwrap(), TO.parse().unwrap());
    let alike: Vec<_> = told.losses.alike.into_iter().collect();
    assert_eq!(alike, [[(outer[0].from, outer[0].to), (client, server)]]);
}

#[test]
fn a_relay_is_found_in_a_capture_that_begins_in_the_middle() {
    let outer = session(&mut client_to(40_000, "10.0.0.2:9042"), 60);
    let inner = relayed(&outer, FROM, TO, PASSING);
    let from = outer[63].at;
    let all: Vec<_> = by_time(&[outer, inner])
        .into_iter()
        .filter(|segment| segment.at >= from)
        .collect();
    let alone = follow(
        all.iter()
            .filter(|segment| segment.from.ip() != all[1].from.ip())
            .cloned(),
    );
    let told = follow(all.clone());
    assert!(
        told.requests.len() < 31 && told.losses.copies.len() == 1,
        "{:?} {:?}",
        told.losses,
        alone.losses
    );
}

#[test]
fn two_clients_that_say_the_same_to_two_servers_are_two() {
    let one = session(&mut client_to(40_000, "10.0.0.2:9042"), 30);
    for microseconds in [0, 1, 30, 99, 100, 130, 450] {
        let mut other = client_to(40_010, "10.0.0.3:9042");
        other.at += microseconds * 1_000;
        let other = session(&mut other, 30);
        let told = follow(by_time(&[one.clone(), other]));
        assert_eq!(counts(&told), (60, 60), "{microseconds}");
        assert!(told.losses.copies.is_empty());
    }
}

#[test]
fn clients_that_begin_alike_are_told_apart_by_what_they_say_then() {
    let mut one = client_to(40_000, "10.0.0.2:9042");
    let outer = [one.open(), speak(&mut one, 0, 4, 1_448)].concat();
    let inner = relayed(&outer, FROM, TO, PASSING);
    let mut two = client_to(40_001, "10.0.0.9:9042");
    (two.at, two.client, two.server) = (one.at, FROM.parse().unwrap(), TO.parse().unwrap());
    let last = inner.last().unwrap();
    let length = u32::try_from(last.payload.len()).unwrap();
    two.next = (last.acknowledgment.unwrap(), last.sequence.wrapping_add(length));
    let rest = [speak(&mut one, 4, 20, 1_448), speak(&mut two, 100, 20, 1_448)];
    let told = follow(by_time(&[outer, inner, rest.concat()]));
    assert_eq!(counts(&told), (48, 48));
    assert!(told.losses.copies.is_empty() && told.losses.missing_bytes() == 0);
}

/// Nothing is held for longer than it is of use, and no packet keeps it from coming out.
#[test]
fn a_connection_that_says_nothing_more_is_not_held() {
    let outer = session(&mut client_to(40_000, "10.0.0.2:9042"), 2);
    let inner = relayed(&outer, FROM, TO, PASSING);
    let mut later = client_to(40_003, "10.0.0.2:9042");
    later.at += 20_000_000_000;
    let told = follow([by_time(&[outer, inner]), session(&mut later, 1)].concat());
    assert_eq!(counts(&told), (5, 5));
    assert!(told.captures.iter().all(|capture| capture.bytes != Bytes::new()));
}
