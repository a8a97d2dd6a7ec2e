//! What networks and computers make of segments: sizes, orders, repetitions, numbers, addresses, beginnings and ends.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::sniff::{
    rewrapped::{Given, Row, same},
    tcp::{ACK, FIN, RST, SYN, Segment, capture},
};

pub(crate) fn rows(segments: &[Segment]) -> Vec<Row> {
    let mut rows = sizes(segments);
    rows.extend(orders(segments));
    rows.extend(repetitions(segments));
    rows.extend(numbers(segments));
    rows.extend(ends(segments));
    rows.extend(addresses(segments));
    rows
}

/// In pieces of so many bytes.
fn in_pieces(segments: &[Segment], size: usize) -> Vec<Segment> {
    let pieces = |segment: &Segment| -> Vec<Segment> {
        if segment.payload.len() <= size {
            return vec![segment.clone()];
        }
        let pieces = segment.payload.chunks(size).enumerate();
        let piece = |(index, piece): (usize, &[u8])| Segment {
            sequence: segment
                .sequence
                .wrapping_add(u32::try_from(index * size).unwrap()),
            payload: piece.to_vec(),
            ..segment.clone()
        };
        pieces.map(piece).collect()
    };
    segments.iter().flat_map(pieces).collect()
}

/// What one side sends without a break, in one segment.
fn in_one(segments: &[Segment]) -> Vec<Segment> {
    let mut out: Vec<Segment> = Vec::new();
    for segment in segments {
        let before = out.iter_mut().rev().find(|other| {
            [other.from, other.to] == [segment.from, segment.to]
                || [other.to, other.from] == [segment.from, segment.to]
        });
        match before {
            Some(before)
                if before.from == segment.from
                    && !before.payload.is_empty()
                    && !segment.payload.is_empty()
                    && before.end() == segment.sequence =>
            {
                before.payload.extend(&segment.payload);
            }
            _ => out.push(segment.clone()),
        }
    }
    out
}

fn sizes(segments: &[Segment]) -> Vec<Row> {
    let mut rows: Vec<_> = [5, 9, 64, 536, 1_220]
        .map(|size| same(format!("segments of {size} bytes"), in_pieces(segments, size)))
        .into();
    rows.push(same("segments as large as they can be", in_one(segments)));
    rows
}

fn orders(segments: &[Segment]) -> Vec<Row> {
    let swapped = |every: usize| {
        let mut segments = segments.to_vec();
        for at in (1..segments.len() - 1).step_by(every) {
            segments.swap(at, at + 1);
            let (one, other) = (segments[at].at, segments[at + 1].at);
            (segments[at].at, segments[at + 1].at) = (one.min(other), one.max(other));
        }
        segments
    };
    let small = in_pieces(segments, 40);
    // Pieces of one segment, the last one first.
    let mut backwards = small.clone();
    backwards
        .chunk_by_mut(|one, other| one.from == other.from && one.to == other.to && one.at == other.at)
        .for_each(|chunk| {
            chunk.reverse();
        });
    let late = |by: usize| {
        let mut segments = segments.to_vec();
        let mut at = 10;
        while at + by < segments.len() {
            segments[at..=at + by].rotate_left(1);
            let times: Vec<_> = segments[at..=at + by].iter().map(|segment| segment.at).collect();
            let earliest = times.iter().min().copied().unwrap();
            segments[at..=at + by]
                .iter_mut()
                .for_each(|segment| segment.at = earliest);
            at += 4 * by;
        }
        segments
    };
    // As two captures that were put behind each other, of machines one of which did not know the time.
    let last = client(segments.last().unwrap());
    let (mut merged, mut of_last): (Vec<_>, Vec<_>) = segments
        .iter()
        .cloned()
        .partition(|segment| client(segment) != last);
    let begin = of_last[0].at;
    of_last.iter_mut().for_each(|segment| segment.at -= begin);
    merged.extend(of_last);
    vec![
        same("a connection at the beginning of time behind the others", merged),
        same("every second pair of packets swapped", swapped(4)),
        same("every pair of packets swapped", swapped(2)),
        same("pieces of segments backwards", backwards),
        same("packets two places late", late(2)),
        same("packets five places late", late(5)),
    ]
}

fn repetitions(segments: &[Segment]) -> Vec<Row> {
    let each = |more: &dyn Fn(&Segment) -> Vec<Segment>| -> Vec<Segment> {
        segments
            .iter()
            .flat_map(|segment| [vec![segment.clone()], more(segment)].concat())
            .collect()
    };
    let cut_in_two = each(&|segment| in_pieces(std::slice::from_ref(segment), segment.payload.len() / 2 + 1));
    let second_half = each(&|segment| {
        in_pieces(std::slice::from_ref(segment), segment.payload.len() / 2 + 1)
            .into_iter()
            .skip(1)
            .collect()
    });
    let keep_alive = |segment: &Segment| -> Vec<Segment> {
        if segment.payload.is_empty() {
            return Vec::new();
        }
        let last = segment.payload.len() - 1;
        let sequence = segment.sequence.wrapping_add(u32::try_from(last).unwrap());
        let alive = Segment {
            sequence,
            payload: segment.payload[last..].to_vec(),
            flags: ACK,
            ..segment.clone()
        };
        vec![
            alive.clone(),
            Segment {
                payload: Vec::new(),
                ..alive
            },
        ]
    };
    let late = |by: usize| -> Vec<Segment> {
        let again = segments
            .iter()
            .enumerate()
            .filter_map(|(at, _)| segments.get(at.checked_sub(by)?));
        segments
            .iter()
            .zip([None].into_iter().cycle().take(by).chain(again.map(Some)))
            .flat_map(|(segment, again)| {
                let again = again.map(|again| Segment {
                    at: segment.at,
                    ..again.clone()
                });
                [Some(segment.clone()), again].into_iter().flatten()
            })
            .collect()
    };
    let mut probes = each(&|segment| {
        vec![Segment {
            payload: Vec::new(),
            flags: ACK,
            sequence: segment.end(),
            ..segment.clone()
        }]
    });
    // The first SYN has nothing to acknowledge.
    probes.retain(|segment| segment.flags != ACK || segment.acknowledgement > 0);
    vec![
        same("each packet twice", each(&|segment| vec![segment.clone()])),
        same(
            "each packet three times",
            each(&|segment| vec![segment.clone(); 2]),
        ),
        same("each packet again in pieces", cut_in_two),
        same("half of each packet again", second_half),
        same("each packet again seven places later", late(7)),
        same("each packet again forty places later", late(40)),
        same("keep-alives after each packet", each(&keep_alive)),
        same("acknowledgments after each packet", probes),
        same("no acknowledgments by themselves", {
            let by_itself = |segment: &Segment| segment.payload.is_empty() && segment.flags == ACK;
            segments
                .iter()
                .filter(|segment| !by_itself(segment))
                .cloned()
                .collect::<Vec<_>>()
        }),
    ]
}

/// With other sequence numbers of client and server.
fn renumbered(segments: &[Segment], number: impl Fn(bool, &Segment) -> u32) -> Vec<Segment> {
    let is_request = |segment: &Segment| segment.to.port() == 9042;
    let first = |segment: &Segment, is_request_side: bool| {
        let opens = segments.iter().find(|other| {
            let same = [other.from, other.to] == [segment.from, segment.to]
                || [other.to, other.from] == [segment.from, segment.to];
            same && other.flags & SYN != 0 && is_request(other) == is_request_side
        });
        opens.unwrap().sequence
    };
    let renumber = |segment: &Segment| {
        let asks = is_request(segment);
        let away = |side: bool| number(side, segment).wrapping_sub(first(segment, side));
        let acknowledgement = match segment.flags & ACK {
            0 => 0,
            _ => segment.acknowledgement.wrapping_add(away(!asks)),
        };
        Segment {
            sequence: segment.sequence.wrapping_add(away(asks)),
            acknowledgement,
            ..segment.clone()
        }
    };
    segments.iter().map(renumber).collect()
}

fn client(segment: &Segment) -> SocketAddr {
    if segment.to.port() == 9042 {
        segment.from
    } else {
        segment.to
    }
}

fn numbers(segments: &[Segment]) -> Vec<Row> {
    let all = |number: u32| renumbered(segments, |_, _| number);
    let of_client = |segment: &Segment| u32::from(client(segment).port()).wrapping_mul(0x9e37_79b9);
    vec![
        same("numbers from 0 on", all(0)),
        same("numbers that wrap around in the handshake", all(u32::MAX)),
        same("numbers that wrap around in the session", all(u32::MAX - 300)),
        same("numbers that pass the sign", all(0x7fff_ff00)),
        same(
            "numbers of the requests that wrap around",
            renumbered(segments, |asks, _| if asks { u32::MAX - 99 } else { 7 }),
        ),
        same(
            "numbers of their own",
            renumbered(segments, |asks, segment| {
                if asks {
                    of_client(segment)
                } else {
                    !of_client(segment)
                }
            }),
        ),
    ]
}

/// Without some of what opens and closes connections.
fn ends(segments: &[Segment]) -> Vec<Row> {
    let without = |name: &str, is_left_out: fn(&Segment) -> bool| {
        let kept: Vec<_> = segments
            .iter()
            .filter(|segment| !is_left_out(segment))
            .cloned()
            .collect();
        same(name, kept)
    };
    let mut reset = segments.to_vec();
    for segment in &mut reset {
        if segment.flags & FIN != 0 {
            segment.flags = RST | ACK;
        }
    }
    let mut cookies = segments.to_vec();
    cookies.retain(|segment| segment.flags & SYN == 0 || segment.to.port() == 9042);
    vec![
        without("no SYN", |segment| segment.flags & (SYN | ACK) == SYN),
        without("no answer to SYN", |segment| {
            segment.flags & (SYN | ACK) == SYN | ACK
        }),
        without("no FIN", |segment| segment.flags & FIN != 0),
        without("nothing but SYN and data", |segment| {
            segment.payload.is_empty() && segment.flags & SYN == 0
        }),
        same("RST in the place of FIN", reset),
        same("no SYN of the server", cookies),
    ]
}

fn addresses(segments: &[Segment]) -> Vec<Row> {
    let moved = |change: &dyn Fn(SocketAddr) -> SocketAddr| -> Vec<Segment> {
        let change = |segment: &Segment| Segment {
            from: change(segment.from),
            to: change(segment.to),
            ..segment.clone()
        };
        segments.iter().map(change).collect()
    };
    let at_port = |port: u16| {
        moved(&|end| SocketAddr::new(end.ip(), if end.port() == 9042 { port } else { end.port() }))
    };
    let by_arguments = |segments: &[Segment], arguments| Given {
        files: vec![capture(segments).plain()],
        arguments,
    };
    let is_server = |end: SocketAddr| end.port() == 9042;
    let of = |server: IpAddr, client: IpAddr| {
        moved(&|end| SocketAddr::new(if is_server(end) { server } else { client }, end.port()))
    };
    let v6 = |last: u16| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
    let mapped = IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x0a00, 1));
    vec![
        same(
            "other addresses",
            of([10, 0, 0, 9].into(), [192, 168, 7, 3].into()),
        ),
        same("addresses of IPv6", of(v6(1), v6(2))),
        same("addresses of IPv4 in IPv6", of(mapped, mapped)),
        same(
            "clients at low ports",
            moved(&|end| {
                if is_server(end) {
                    end
                } else {
                    SocketAddr::new(end.ip(), end.port() - 39_000)
                }
            }),
        ),
        same(
            "a server at port 9142",
            by_arguments(&at_port(9_142), vec!["--port", "9142"]),
        ),
        same(
            "a server at one of several ports",
            by_arguments(&at_port(19_042), vec!["--port", "9042,19042"]),
        ),
    ]
}
