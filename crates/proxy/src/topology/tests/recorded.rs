//! Sessions of real drivers with a real node.

use super::*;

#[path = "../../../../../proto/tests/golden/recording.rs"]
mod recording;

/// Every byte of real drivers and a real node: only addresses differ, and every statement that reads nodes is
/// found.
#[test]
fn sessions_of_real_drivers_differ_in_nothing_but_addresses() {
    // What the sessions were recorded with.
    let own = NodeAddress {
        host_id: None,
        broadcast: IpAddr::from([127, 0, 0, 1]),
        native: SocketAddr::from(([127, 0, 0, 1], 9042)),
        listen: SocketAddr::from(([127, 9, 9, 9], 9876)),
        ready: true,
    };
    let mut rewritten = 0;
    for recording in recording::recordings() {
        let addresses = Addresses::new(Duration::ZERO);
        for connection in recording.connections() {
            let pairing = Pairing {
                addresses: addresses.clone(),
                own: Arc::new(own.clone()),
            };
            let passed = replay(&connection, pairing);
            assert_eq!(passed.len(), connection.len());
            let sent = joined_responses(&connection, connection.iter().map(|chunk| chunk.bytes.clone()));
            let got = joined_responses(&connection, passed.into_iter());
            assert_eq!(sent.len(), got.len(), "{}", recording.name);
            for (sent, got) in sent.iter().zip(&got) {
                let unlike = unlike(&recording.name, sent, got);
                assert!(unlike.is_none_or(|unlike| unlike), "{}", recording.name);
                rewritten += usize::from(unlike.is_some());
            }
        }
        assert_eq!(addresses.counts().may_have_leaked, 0, "{}", recording.name);
    }
    assert!(rewritten > 30, "{rewritten} answers were rewritten");
}

/// What comes out for each chunk of a recorded connection; requests come out as they are.
fn replay(connection: &[&recording::Chunk], pairing: Pairing) -> Vec<Bytes> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.unwrap();
    let shared = Shared::new(pairing);
    let (mut requests, mut responses) = (Requests::new(&shared), Responses::new(&shared));
    let through = |chunk: &&recording::Chunk| {
        if chunk.direction == Direction::Request {
            requests.follow(&chunk.bytes);
            return chunk.bytes.clone();
        }
        responses.feed(chunk.bytes.clone());
        let mut out = BytesMut::new();
        while let Some(bytes) = runtime.block_on(responses.next()).unwrap() {
            out.extend(bytes);
        }
        out.freeze()
    };
    connection.iter().map(through).collect()
}

fn joined_responses(connection: &[&recording::Chunk], bytes: impl Iterator<Item = Bytes>) -> Vec<Envelope> {
    let negotiated = Arc::new(Negotiated::new());
    let mut requests = EnvelopeStream::new(Direction::Request, negotiated.clone());
    let mut responses = EnvelopeStream::new(Direction::Response, negotiated);
    let mut envelopes = Vec::new();
    for (chunk, bytes) in connection.iter().zip(bytes) {
        let is_response = chunk.direction == Direction::Response;
        let stream = if is_response {
            &mut responses
        } else {
            &mut requests
        };
        stream.feed(bytes);
        while let Some(item) = stream.next_item() {
            let StreamItem::Envelope(envelope) = item else {
                panic!("{item:?}")
            };
            if is_response {
                envelopes.push(envelope);
            }
        }
    }
    assert!(!responses.is_joining());
    envelopes
}

/// Whether two bodies differ, and if so, whether in nothing but what has to: the loopback address and the
/// port, where a client finds them.
fn unlike(name: &str, sent: &Envelope, got: &Envelope) -> Option<bool> {
    assert_eq!(
        (sent.header.stream_id, sent.header.opcode, sent.header.flags),
        (got.header.stream_id, got.header.opcode, got.header.flags),
        "{name}"
    );
    if sent.body == got.body {
        return None;
    }
    assert_eq!(sent.body.len(), got.body.len(), "{name}");
    let mut differing = sent
        .body
        .iter()
        .zip(&got.body[..])
        .enumerate()
        .filter(|(_, (a, b))| a != b);
    // 127.0.0.1 and a port became 127.9.9.9 and 9876, the first byte of which may be the same.
    Some(differing.all(|(at, (_, new))| {
        let before = &got.body[..at];
        let in_address = *new == 9 && before.iter().rev().take(3).any(|byte| *byte == 127);
        let in_port = [0x26, 0x94].contains(new);
        in_address || in_port
    }))
}
