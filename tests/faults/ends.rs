//! Connections that end badly, on either side: what one side sees of the other is the same with and without a
//! proxy.

use std::{
    io::Write,
    net::{Shutdown, TcpStream},
    time::Duration,
};

use crate::faults::{
    leaks::Holds,
    sight::{End, ScriptedNode, Sight, acquainted, fault, proxy, reset, same_with_and_without, watch},
    wire::{LIMIT, void},
};

/// Long enough for anything that is going to come.
const A_WHILE: Duration = Duration::from_millis(300);

/// Half of an answer.
fn half() -> Vec<u8> {
    let whole = void(13);
    whole[..whole.len() / 2].to_vec()
}

fn nothing() -> Sight {
    Sight {
        bytes: Vec::new(),
        end: End::Reset,
    }
}

/// Sends the fault, then reads until the end.
fn sends_and_watches(mut client: TcpStream) -> Sight {
    client.write_all(&fault()).unwrap();
    watch(&mut client, LIMIT)
}

#[test]
fn a_node_that_resets_the_connection_in_the_middle_of_an_answer() {
    let (client, _) = same_with_and_without(sends_and_watches, |mut node| {
        node.write_all(&half()).unwrap();
        // Bytes in flight at a reset may be lost on the way with and without a proxy: not so here.
        std::thread::sleep(Duration::from_millis(50));
        reset(node);
        nothing()
    });
    assert_eq!((client.bytes, client.end), (half(), End::Reset));
}

#[test]
fn a_node_that_resets_the_connection_instead_of_an_answer() {
    let (client, _) = same_with_and_without(sends_and_watches, |node| {
        reset(node);
        nothing()
    });
    assert_eq!((client.bytes, client.end), (Vec::new(), End::Reset));
}

#[test]
fn a_node_that_closes_the_connection_in_the_middle_of_an_answer() {
    let (client, _) = same_with_and_without(sends_and_watches, |mut node| {
        node.write_all(&half()).unwrap();
        drop(node);
        nothing()
    });
    assert_eq!((client.bytes, client.end), (half(), End::Finished));
}

#[test]
fn a_node_that_never_answers() {
    let waits = |mut client: TcpStream| {
        client.write_all(&fault()).unwrap();
        watch(&mut client, A_WHILE)
    };
    let (client, node) = same_with_and_without(waits, |mut node| watch(&mut node, LIMIT));
    assert_eq!((client.bytes, client.end), (Vec::new(), End::Silent));
    assert_eq!(node.end, End::Finished, "when the client gives up");
}

#[test]
fn a_client_that_resets_the_connection_with_a_request_in_flight() {
    let (_, node) = same_with_and_without(
        |mut client| {
            client.write_all(&fault()).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            reset(client);
            nothing()
        },
        |mut node| watch(&mut node, LIMIT),
    );
    assert_eq!((node.bytes, node.end), (Vec::new(), End::Reset));
}

#[test]
fn a_client_that_goes_away_with_requests_in_flight() {
    let (_, node) = same_with_and_without(
        |mut client| {
            client.write_all(&fault()).unwrap();
            drop(client);
            nothing()
        },
        |mut node| watch(&mut node, LIMIT),
    );
    assert_eq!((node.bytes, node.end), (Vec::new(), End::Finished));
}

#[test]
fn a_client_that_goes_away_before_the_answer_comes() {
    let (_, node) = same_with_and_without(
        |mut client| {
            client.write_all(&fault()).unwrap();
            drop(client);
            nothing()
        },
        |mut node| {
            let seen = watch(&mut node, LIMIT);
            assert_eq!(seen.end, End::Finished);
            // To nobody: the client's system says so, in its own time.
            let mut written = 0;
            while node.write_all(&void(13)).is_ok() {
                written += 1;
                assert!(written < 1_000, "nobody says that the client has gone");
                std::thread::sleep(Duration::from_millis(5));
            }
            seen
        },
    );
    assert_eq!(node.end, End::Finished);
}

#[test]
fn a_client_that_has_sent_everything_gets_everything() {
    let finishes = |mut client: TcpStream| {
        client.write_all(&fault()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        watch(&mut client, LIMIT)
    };
    let (client, node) = same_with_and_without(finishes, |mut node| {
        let seen = watch(&mut node, LIMIT);
        std::thread::sleep(A_WHILE);
        node.write_all(&void(13).repeat(100_000)).unwrap();
        seen
    });
    assert_eq!(
        (client.bytes.len(), client.end),
        (void(13).len() * 100_000, End::Finished)
    );
    assert_eq!(node.end, End::Finished);
}

#[test]
fn a_thousand_bad_ends_leave_nothing_behind() {
    let node = ScriptedNode::start(|mut node| {
        let _ = node.write_all(&half());
        reset(node);
        nothing()
    });
    let proxy = proxy(node.address, &[]);
    let bad_ends = |count| {
        for number in 0..count {
            let mut client = acquainted(proxy.address);
            client.write_all(&fault()).unwrap();
            if number % 2 == 0 {
                let _ = watch(&mut client, LIMIT);
            } else {
                reset(client);
            }
        }
    };
    // What the allocator and the runtime keep is there afterwards.
    bad_ends(500);
    let holds = Holds::of(&proxy);
    bad_ends(1_000);
    holds.assert_back(2 << 10);
}
