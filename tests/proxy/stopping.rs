//! SIGTERM and SIGINT: no new clients, requests in flight end, the last window is written, exit code 0.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI16, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use crate::proxy::{
    proxy_protocol::header,
    wire::{LIMIT, Node, connect, converse, envelope, proxy, query, read_to_end, report, void},
};

/// A node that answers a QUERY when the test says so.
fn slow_node() -> (Node, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (asked, was_asked) = mpsc::channel();
    let (answer, may_answer) = mpsc::channel::<()>();
    let may_answer = Arc::new(Mutex::new(may_answer));
    let node = Node::start(move |mut connection| {
        let mut request = vec![0; query(7, "SELECT k FROM s.t").len()];
        if connection.read_exact(&mut request).is_err() {
            return;
        }
        asked.send(()).unwrap();
        may_answer.lock().unwrap().recv().unwrap();
        connection.write_all(&void(7)).unwrap();
        // Until the proxy closes.
        let _ = connection.read(&mut [0; 1]);
    });
    (node, was_asked, answer)
}

#[test]
fn a_request_in_flight_is_answered_before_the_end_and_the_last_window_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let snapshots = folder.path().join("snapshots");
    let (node, was_asked, answer) = slow_node();
    let arguments = [
        "--report",
        file.to_str().unwrap(),
        "--snapshot-dir",
        snapshots.to_str().unwrap(),
    ];
    let proxy = proxy(node.address, &arguments);
    let address = proxy.address;
    let mut client = connect(address);
    client.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
    was_asked.recv_timeout(LIMIT).unwrap();

    let stopping = std::thread::spawn(move || proxy.stop(LIMIT));
    until("new clients are refused", || TcpStream::connect(address).is_err());
    answer.send(()).unwrap();
    assert_eq!(read_to_end(&mut client), void(7));
    drop(client);

    let ended = stopping.join().unwrap();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert_eq!(report(&file)["coverage"]["audited"], 1);
    assert_eq!(report(&file)["coverage"]["unanswered"], 0);
    let snapshots: Vec<_> = std::fs::read_dir(snapshots)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        snapshots
            .iter()
            .filter(|name| name.ends_with(".cqlens.json.gz"))
            .count(),
        1,
        "{snapshots:?}"
    );
}

#[test]
fn a_request_that_is_never_answered_is_waited_for_no_longer_than_the_grace_period() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let (node, was_asked, _never) = slow_node();
    let proxy = proxy(
        node.address,
        &["--grace", "300ms", "--report", file.to_str().unwrap()],
    );
    let mut client = connect(proxy.address);
    client.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
    was_asked.recv_timeout(LIMIT).unwrap();
    let stopping = std::thread::spawn(move || proxy.stop(LIMIT));
    assert_eq!(read_to_end(&mut client), b"");
    drop(client);
    let ended = stopping.join().unwrap();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert_eq!(report(&file)["coverage"]["unanswered"], 1);
}

#[test]
fn an_idle_connection_does_not_delay_the_end() {
    let node = Node::start(|mut connection| {
        let mut request = vec![0; query(7, "SELECT k FROM s.t").len()];
        if connection.read_exact(&mut request).is_ok() {
            connection.write_all(&void(7)).unwrap();
            // Until the proxy closes.
            let _ = connection.read(&mut request);
        }
    });
    let proxy = proxy(node.address, &["--grace", "1h"]);
    let mut idle = connect(proxy.address);
    idle.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
    let mut answer = vec![0; void(7).len()];
    idle.read_exact(&mut answer).unwrap();
    assert_eq!(proxy.stop(LIMIT).code, 0);
    assert_eq!(read_to_end(&mut idle), b"");
}

#[test]
fn an_interrupt_is_as_good_as_a_termination() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let (node, received) = Node::answering(b"");
    let proxy = proxy(node.address, &["--report", file.to_str().unwrap()]);
    assert_eq!(converse(proxy.address, &query(1, "SELECT k FROM s.t")), b"");
    assert_eq!(
        received.recv_timeout(LIMIT).unwrap(),
        query(1, "SELECT k FROM s.t")
    );
    let ended = proxy.stop_by("INT", LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.log.contains("SIGINT"), "{}", ended.log);
    assert_eq!(report(&file)["coverage"]["requests"], 1);
}

/// A node that answers every QUERY of this text after `pause`, with the stream that was asked on.
fn node_after(pause: Duration) -> Node {
    Node::start(move |mut connection| {
        let mut request = vec![0; query(0, "SELECT k FROM s.t").len()];
        while connection.read_exact(&mut request).is_ok() {
            std::thread::sleep(pause);
            let stream = i16::from_be_bytes([request[2], request[3]]);
            if connection.write_all(&void(stream)).is_err() {
                return;
            }
        }
    })
}

#[test]
fn fifty_clients_with_requests_in_flight_see_whole_answers_and_then_the_end() {
    let node = node_after(Duration::from_millis(700));
    let proxy = proxy(node.address, &[]);
    let mut clients: Vec<_> = (0..50).map(|_| connect(proxy.address)).collect();
    for client in &mut clients {
        // Two each: the second waits at the node, behind the first.
        client.write_all(&query(1, "SELECT k FROM s.t")).unwrap();
        client.write_all(&query(2, "SELECT k FROM s.t")).unwrap();
    }
    until("all requests are on their way", || {
        proxy.log().matches("connection opened").count() > clients.len()
    });
    let stopping = std::thread::spawn(move || proxy.stop(LIMIT));
    for client in &mut clients {
        assert_eq!(read_to_end(client), [void(1), void(2)].concat());
    }
    drop(clients);
    let ended = stopping.join().unwrap();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(!ended.log.contains("requests in flight\n"), "{}", ended.log);
}

#[test]
fn clients_that_the_kernel_has_connected_are_served_though_nobody_had_accepted_them() {
    waiting_clients_are_served(&[], query(3, "SELECT k FROM s.t"));
}

#[test]
fn so_are_those_that_come_through_a_load_balancer() {
    let header = header("203.0.113.7:50000", "192.0.2.1:9042");
    let request = [header, query(3, "SELECT k FROM s.t")].concat();
    waiting_clients_are_served(&["--accept-proxy-protocol"], request);
}

fn waiting_clients_are_served(arguments: &[&str], request: Vec<u8>) {
    let node = node_after(Duration::ZERO);
    let mut proxy = proxy(node.address, arguments);
    // Held, it accepts nobody; the kernel does what it can.
    proxy.signal("STOP");
    until("the proxy is held", || {
        let mut client = connect(proxy.address);
        client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        client.write_all(&request).unwrap();
        client.read(&mut [0; 1]).is_err()
    });
    let mut clients: Vec<_> = (0..300).map(|_| connect(proxy.address)).collect();
    for client in &mut clients {
        client.write_all(&request).unwrap();
    }
    // To a process that is held, the signal to end comes when it goes on: together with all those clients.
    proxy.signal("TERM");
    proxy.signal("CONT");
    for client in &mut clients {
        assert_eq!(read_to_end(client), void(3));
    }
    drop(clients);
    let ended = proxy.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
}

/// A node that answers each QUERY of this text after `pause`, however many have come meanwhile; how many
/// there were.
fn pipelining_node(pause: Duration) -> (Node, Arc<AtomicI16>) {
    let taken = Arc::new(AtomicI16::new(0));
    let count = Arc::clone(&taken);
    let node = Node::start(move |mut connection| {
        let mut answering = connection.try_clone().unwrap();
        let (asked, due) = mpsc::channel::<(i16, Instant)>();
        let answers = std::thread::spawn(move || {
            for (stream, at) in due {
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                if answering.write_all(&void(stream)).is_err() {
                    return;
                }
            }
        });
        let mut request = vec![0; query(0, "SELECT k FROM s.t").len()];
        while connection.read_exact(&mut request).is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
            let stream = i16::from_be_bytes([request[2], request[3]]);
            asked.send((stream, Instant::now() + pause)).unwrap();
        }
        drop(asked);
        answers.join().unwrap();
    });
    (node, taken)
}

#[test]
fn a_client_that_never_pauses_gets_all_answers_to_what_was_taken_from_it() {
    let (node, taken) = pipelining_node(Duration::from_millis(200));
    let proxy = proxy(node.address, &["--grace", "1s"]);
    let mut client = connect(proxy.address);
    let mut sender = client.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        for stream in 0_i16.. {
            if sender.write_all(&query(stream, "SELECT k FROM s.t")).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let mut first = vec![0; void(0).len()];
    client.read_exact(&mut first).unwrap();
    let stopping = std::thread::spawn(move || proxy.stop(LIMIT));
    let rest = read_until_over(&mut client);
    drop(client);
    sending.join().unwrap();
    let ended = stopping.join().unwrap();
    assert_eq!(ended.code, 0, "{}", ended.log);
    let answered: Vec<u8> = (1..taken.load(Ordering::Relaxed)).flat_map(void).collect();
    assert!(answered.len() > 10 * first.len(), "{}", answered.len());
    assert!(rest == answered, "{} and {} bytes", rest.len(), answered.len());
}

/// A RESULT with so long a body.
fn long_answer(stream: i16, length: usize) -> Vec<u8> {
    envelope(0x84, stream, 0x08, &vec![0; length])
}

#[test]
fn an_answer_that_the_client_reads_slowly_comes_whole() {
    // More than the buffers of all sockets on the way hold.
    const LENGTH: usize = 48 << 20;
    let (sent, was_sent) = mpsc::channel();
    let node = Node::start(move |mut connection| {
        let mut request = vec![0; query(7, "SELECT k FROM s.t").len()];
        if connection.read_exact(&mut request).is_ok() {
            sent.send(()).unwrap();
            let _ = connection.write_all(&long_answer(7, LENGTH));
        }
        let _ = connection.read(&mut [0; 1]);
    });
    let proxy = proxy(node.address, &[]);
    let mut client = connect(proxy.address);
    client.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
    was_sent.recv_timeout(LIMIT).unwrap();
    let stopping = std::thread::spawn(move || proxy.stop(LIMIT));
    std::thread::sleep(Duration::from_millis(700));
    assert!(
        read_to_end(&mut client) == long_answer(7, LENGTH),
        "the answer is not whole"
    );
    drop(client);
    let ended = stopping.join().unwrap();
    assert_eq!(ended.code, 0, "{}", ended.log);
}

#[test]
fn an_answer_that_the_node_sends_slowly_comes_whole() {
    let answer = long_answer(7, 1000);
    let (half, rest) = (answer[..500].to_vec(), answer[500..].to_vec());
    let (sent, was_sent) = mpsc::channel();
    let node = Node::start(move |mut connection| {
        let mut request = vec![0; query(7, "SELECT k FROM s.t").len()];
        if connection.read_exact(&mut request).is_ok() {
            connection.write_all(&half).unwrap();
            sent.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(700));
            let _ = connection.write_all(&rest);
        }
        let _ = connection.read(&mut [0; 1]);
    });
    let proxy = proxy(node.address, &[]);
    let mut client = connect(proxy.address);
    client.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
    was_sent.recv_timeout(LIMIT).unwrap();
    let stopping = std::thread::spawn(move || proxy.stop(LIMIT));
    assert_eq!(read_to_end(&mut client), answer);
    drop(client);
    assert_eq!(stopping.join().unwrap().code, 0);
}

/// All that comes until the end or a reset.
fn read_until_over(client: &mut TcpStream) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..length]);
    }
    bytes
}

#[test]
fn a_second_signal_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    for (delay, first) in [("1h", "TERM"), ("0s", "INT")] {
        let (node, was_asked, _never) = slow_node();
        let mut proxy = proxy(
            node.address,
            &[
                "--grace",
                "1h",
                "--drain-delay",
                delay,
                "--report",
                file.to_str().unwrap(),
            ],
        );
        let mut client = connect(proxy.address);
        client.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
        was_asked.recv_timeout(LIMIT).unwrap();
        proxy.signal(first);
        proxy.wait_for_log("stopping:");
        let ended = proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
        assert!(ended.log.contains("stopping immediately"), "{}", ended.log);
        assert_eq!(read_until_over(&mut client), b"");
        // The last window is there all the same.
        assert_eq!(report(&file)["coverage"]["unanswered"], 1);
    }
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// As operators of other servers have it: not the end at once, which is the kernel's default.
#[test]
fn sigquit_ends_as_sigterm_does() {
    let (node, was_asked, answer) = slow_node();
    let mut proxy = proxy(node.address, &[]);
    let mut client = connect(proxy.address);
    client.write_all(&query(7, "SELECT k FROM s.t")).unwrap();
    was_asked.recv_timeout(LIMIT).unwrap();
    proxy.signal("QUIT");
    proxy.wait_for_log("stopping:");
    answer.send(()).unwrap();
    assert_eq!(read_to_end(&mut client), void(7));
    let ended = proxy.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
}

#[test]
fn signals_that_mean_nothing_change_nothing() {
    let (node, received) = Node::answering(b"");
    let mut proxy = proxy(node.address, &[]);
    for signal in ["USR1", "USR2", "ALRM"] {
        proxy.signal(signal);
        proxy.wait_for_log(&format!("signal=\"SIG{signal}\""));
    }
    proxy.signal("PIPE");
    assert_eq!(converse(proxy.address, &query(1, "SELECT k FROM s.t")), b"");
    received.recv_timeout(LIMIT).unwrap();
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
}
