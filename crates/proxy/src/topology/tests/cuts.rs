//! Wherever the bytes are cut, whatever they are.

use proptest::prelude::*;

use super::*;

fn spoken() -> impl Strategy<Value = Spoken> {
    let compressions = |version: Version| match version {
        Version::V5 => vec![Compression::None, Compression::Lz4],
        _ => vec![Compression::None, Compression::Lz4, Compression::Snappy],
    };
    prop::sample::select(vec![Version::V3, Version::V4, Version::V5]).prop_flat_map(move |version| {
        prop::sample::select(compressions(version))
            .prop_map(move |compression| Spoken { version, compression })
    })
}

/// A request, its answer, and what the client is to get.
#[derive(Debug, Clone)]
enum Asked {
    Peers(Vec<u8>),
    Prepared,
    Other(usize),
    Event(u8),
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        prop::collection::vec(2_u8..4, 0..40).prop_map(Asked::Peers),
        Just(Asked::Prepared),
        prop_oneof![0_usize..300, 100_000_usize..300_000].prop_map(Asked::Other),
        (1_u8..4).prop_map(Asked::Event),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn wherever_bytes_are_cut_only_the_addresses_of_nodes_change(
        spoken in spoken(),
        asked in prop::collection::vec(asked(), 1..8),
        cuts in prop::collection::vec(prop_oneof![1_usize..40, 1_usize..70_000], 1..6),
        is_v6: bool,
        is_registered: bool,
    ) {
        let nodes: Vec<NodeAddress> = (1..=3).map(|number| {
            let mut node = node(number);
            if is_v6 {
                node.listen.set_ip(IpAddr::from([0, 0, 0, 0, 0, 0, 0xff, u16::from(number)]));
            }
            node
        }).collect();
        let link = Link::new(spoken, pairing(nodes.clone(), Duration::ZERO));
        let (mut requests, mut answers, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        if is_registered {
            requests.push(spoken.request(0, &Request::Register(Register { event_types: vec!["STATUS_CHANGE"] })));
            answers.push(spoken.response(0, &Response::Ready));
            expected.push(spoken.response(0, &Response::Ready));
        }
        let id = |stream: i16| [b"id-of-peers-".to_vec(), stream.to_be_bytes().to_vec()].concat();
        for (stream, asked) in (1_i16..).zip(&asked) {
            match asked {
                Asked::Peers(numbers) => {
                    let nodes: Vec<_> = numbers.iter().map(|n| nodes[usize::from(*n) - 1].clone()).collect();
                    requests.push(spoken.query(stream, "SELECT * FROM system.peers_v2"));
                    answers.push(spoken.rows(stream, &peers(&nodes, native), false));
                    expected.push(spoken.rows(stream, &peers(&nodes, listen), false));
                }
                Asked::Prepared => {
                    requests.push(spoken.prepare(stream, "SELECT * FROM system.peers_v2"));
                    let prepared = spoken.prepared(stream, &id(stream), &peers(&[], native));
                    answers.push(prepared.clone());
                    expected.push(prepared);
                }
                Asked::Other(length) => {
                    requests.push(spoken.query(stream, "SELECT * FROM ks.peers"));
                    let rows = spoken.rows(stream, &others(*length), false);
                    answers.push(rows.clone());
                    expected.push(rows);
                }
                Asked::Event(_) if !is_registered => {}
                Asked::Event(number) => {
                    let node = &nodes[usize::from(*number) - 1];
                    answers.push(spoken.event("UP", node.native));
                    expected.push(spoken.event("UP", node.listen));
                }
            }
        }
        link.send_cut(&requests, &cuts);
        let wire = spoken.wire(&answers);
        let out = link.receive(wire, &cuts).unwrap();
        // Whoever prepared it, anybody may execute it.
        let other = Link::new(spoken, link.shared.pairing.clone());
        for (stream, _) in (1_i16..).zip(&asked).filter(|(_, asked)| matches!(asked, Asked::Prepared)) {
            other.send(&[spoken.execute(stream, &id(stream))]);
            let got = other.answers(&[spoken.rows(stream, &peers(&nodes, native), true)]);
            prop_assert_eq!(got, vec![spoken.rows(stream, &peers(&nodes, listen), true)]);
        }
        if spoken.compression == Compression::None && spoken.version != Version::V5 {
            prop_assert!(out == spoken.wire(&expected), "other bytes changed");
        }
        prop_assert!(spoken.envelopes(Direction::Response, out) == expected);
    }

    #[test]
    fn hostile_bytes_end_the_connection_or_pass(
        requests in prop::collection::vec(any::<u8>(), 0..300),
        garbage in prop::collection::vec(any::<u8>(), 0..300),
        damaged in prop::option::of(0_usize..400),
        spoken in spoken(),
        cuts in prop::collection::vec(1_usize..50, 1..4),
    ) {
        let link = Link::new(spoken, three_nodes());
        link.send(&[spoken.query(1, "SELECT * FROM system.peers_v2")]);
        let mut following = Requests::new(&link.shared);
        following.follow(&Bytes::from(requests));
        let rows = spoken.rows(1, &peers(&[node(2), node(3)], native), false);
        let mut wire = spoken.wire(&[rows]).to_vec();
        if let Some(at) = damaged.filter(|at| *at < wire.len()) {
            wire[at] ^= 0x55;
        }
        wire.extend(garbage);
        let _ = link.receive(Bytes::from(wire), &cuts);
    }
}
