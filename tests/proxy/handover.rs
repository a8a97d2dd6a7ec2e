//! One process takes over from another: clients that connect meanwhile are served, every request is answered.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixDatagram,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::proxy::{
    admin::get,
    reload::{answering, ask},
    ring::{Ring, Rule, host_id_at},
    support::proxy::{Ended, Proxy, free_address},
    wire::{LIMIT, Node, connect, query, void},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

/// A node that answers at once.
fn node() -> Node {
    Node::start(|mut connection| {
        let mut request = vec![0; query(0, "SELECT k FROM s.t").len()];
        while connection.read_exact(&mut request).is_ok() {
            let stream = i16::from_be_bytes([request[2], request[3]]);
            if connection.write_all(&void(stream)).is_err() {
                return;
            }
        }
    })
}

/// Clients that connect, ask three times and leave, over and over.
struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Tally>>,
}

#[derive(Default)]
struct Tally {
    conversations: usize,
    failures: Vec<String>,
    /// Connections that were closed while their client was silent.
    idle: usize,
    /// The longest that a client waited, from connecting to its last answer.
    longest: Duration,
}

impl Clients {
    fn start(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..6).map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut tally = Tally::default();
                while !stop.load(Ordering::Relaxed) {
                    tally.add(&converse(address));
                }
                tally
            })
        });
        Self {
            threads: threads.collect(),
            stop,
        }
    }

    fn finish(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Tally::default();
        for thread in self.threads {
            let one = thread.join().unwrap();
            all.conversations += one.conversations;
            all.failures.extend(one.failures);
            all.idle += one.idle;
            all.longest = all.longest.max(one.longest);
        }
        all
    }
}

impl Tally {
    fn add(&mut self, conversation: &(io::Result<Talked>, Duration)) {
        self.conversations += 1;
        self.longest = self.longest.max(conversation.1);
        match &conversation.0 {
            Ok(Talked::ToItsEnd) => {}
            Ok(Talked::UntilSilent) => self.idle += 1,
            Err(error) => self.failures.push(error.to_string()),
        }
    }

    #[allow(
        clippy::print_stderr,
        reason = "a measurement, of which the test asserts a part"
    )]
    /// Says what was measured (`--nocapture` shows it), and that nothing was lost.
    fn assert_nothing_lost(&self, way: &str) {
        eprintln!(
            "{way}: {} conversations, {} failed, {} closed while the client was silent, the longest took {:?}",
            self.conversations,
            self.failures.len(),
            self.idle,
            self.longest
        );
        assert!(self.conversations > 100, "{}", self.conversations);
        assert!(self.failures.is_empty(), "{way}: {:?}", self.failures);
        // An excuse for the few that were starved, not for a proxy that closes at will.
        assert!(self.idle * 20 < self.conversations, "{way}: {}", self.idle);
    }
}

/// How a conversation went that did not fail.
enum Talked {
    ToItsEnd,
    UntilSilent,
}

/// Connects and asks three times; an error is a connection that fails, or an answer that does not come or is
/// not whole.
///
/// A connection that carries nothing for a tenth of a second is idle, and may be closed between two answers.
/// A client that was not given the processor for so long (tests share theirs) and finds its connection closed
/// has seen just that, and no failure.
fn converse(address: SocketAddr) -> (io::Result<Talked>, Duration) {
    let began = Instant::now();
    let asked = || {
        let mut last = Instant::now();
        let mut client = TcpStream::connect(address)?;
        client.set_read_timeout(Some(LIMIT))?;
        for stream in 0..3 {
            let written = client.write_all(&query(stream, "SELECT k FROM s.t"));
            let was_idle = IDLE.contains(&last.elapsed());
            last = Instant::now();
            let mut answer = vec![0; void(stream).len()];
            match written.and_then(|()| client.read(&mut answer)) {
                Ok(length @ 1..) => client.read_exact(&mut answer[length..])?,
                Ok(_) | Err(_) if was_idle => return Ok(Talked::UntilSilent),
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) => return Err(error),
            }
            assert_eq!(answer, void(stream));
        }
        Ok(Talked::ToItsEnd)
    };
    (asked(), began.elapsed())
}

/// From a little less than what cqlens takes for idle, up to the second that a connection takes whose first
/// packet was dropped: such a one must not fail.
const IDLE: std::ops::Range<Duration> = Duration::from_millis(90)..Duration::from_millis(900);

fn assert_ended_well(ended: &Ended) {
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(
        !ended.log.contains("ERROR") && !ended.log.contains("panicked"),
        "{}",
        ended.log
    );
}

#[test]
fn two_processes_on_one_port_lose_nothing_when_the_first_one_ends() {
    let node = node();
    let (address, admin) = (free_address(), free_address());
    let (listen, at, upstream) = (address.to_string(), admin.to_string(), node.address.to_string());
    let arguments = [
        "--listen",
        &listen,
        "--upstream",
        &upstream,
        "--no-control-connection",
        "--reuse-port",
        "--admin",
        &at,
    ];
    let mut current = Proxy::launch(PROGRAM, &arguments, &[], None);
    let clients = Clients::start(address);
    for _replaced in 0..4 {
        std::thread::sleep(Duration::from_millis(200));
        let next = Proxy::launch(PROGRAM, &arguments, &[], None);
        assert_ended_well(&current.stop(LIMIT));
        // Whoever asks now asks the next one.
        assert_eq!(get(admin, "/readyz").code, 200);
        current = next;
    }
    let tally = clients.finish();
    assert_ended_well(&current.stop(LIMIT));
    tally.assert_nothing_lost("one port, two sockets");
}

#[test]
fn a_port_is_shared_only_if_both_say_so() {
    let node = node();
    let upstream = node.address.to_string();
    let first = Proxy::start(PROGRAM, node.address, &["--no-control-connection"]);
    let output = std::process::Command::new(PROGRAM)
        .args(["proxy", "--upstream", &upstream, "--reuse-port", "--listen"])
        .arg(first.address.to_string())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot listen on"), "{said}");
    assert_eq!(first.stop(LIMIT).code, 0);
}

#[test]
fn processes_that_share_a_socket_lose_nothing_when_one_takes_over() {
    let node = node();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let upstream = node.address.to_string();
    let arguments = ["--upstream", &upstream, "--no-control-connection"];
    let launch = || Proxy::launch(PROGRAM, &arguments, &[], Some(socket.try_clone().unwrap()));
    let mut current = launch();
    assert_eq!(current.address, address);
    let clients = Clients::start(address);
    // The next one begins before the first ends.
    for _replaced in 0..4 {
        std::thread::sleep(Duration::from_millis(200));
        let next = launch();
        assert_ended_well(&current.stop(LIMIT));
        current = next;
    }
    // And after it has ended, as `systemctl restart` does it: clients wait in the socket meanwhile.
    for _replaced in 0..2 {
        assert_ended_well(&current.stop(LIMIT));
        current = launch();
        std::thread::sleep(Duration::from_millis(200));
    }
    let tally = clients.finish();
    assert_ended_well(&current.stop(LIMIT));
    tally.assert_nothing_lost("one socket, two processes");
}

/// Two sockets of a service manager's, at addresses that are free.
fn two_sockets() -> ([TcpListener; 2], [SocketAddr; 2]) {
    let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
    (sockets, addresses)
}

/// Two of them for another process, the last one first: their order means nothing.
fn given(sockets: &[TcpListener; 2]) -> Vec<TcpListener> {
    let given = sockets.iter().rev().map(|socket| socket.try_clone().unwrap());
    given.collect()
}

#[test]
fn each_of_two_shared_sockets_stays_with_its_route() {
    let (busy, other) = (node(), answering(void(2)));
    let (sockets, [to_busy, to_other]) = two_sockets();
    let routes = [(to_busy, &busy), (to_other, &other)].map(|(at, node)| format!("{at}={}", node.address));
    let arguments = [
        "--no-control-connection",
        "--route",
        &routes[0],
        "--route",
        &routes[1],
    ];
    let launch = || {
        let mut proxy = Proxy::launch_with(PROGRAM, &arguments, &[], given(&sockets));
        proxy.wait_for_log(&format!("listen={to_other}"));
        proxy
    };
    let mut current = launch();
    let clients = Clients::start(to_busy);
    for _replaced in 0..3 {
        assert_eq!(ask(&mut connect(to_other)), void(2));
        let next = launch();
        assert_ended_well(&current.stop(LIMIT));
        assert_eq!(ask(&mut connect(to_other)), void(2));
        current = next;
        std::thread::sleep(Duration::from_millis(200));
    }
    // Between two processes clients wait in both sockets.
    assert_ended_well(&current.stop(LIMIT));
    let mut waiting = connect(to_other);
    let current = launch();
    assert_eq!(ask(&mut waiting), void(2));
    let tally = clients.finish();
    assert_ended_well(&current.stop(LIMIT));
    tally.assert_nothing_lost("two sockets, two routes");
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_sockets_of_a_cluster_stay_with_their_nodes() {
    let ring = Ring::start(2).await;
    let rule = Rule::new();
    let addresses = [rule.nth(1), rule.nth(2)];
    let sockets = addresses.map(|address| TcpListener::bind(address).unwrap());
    let (contact, listen) = (ring.address(0), rule.text());
    let arguments = [
        "--topology",
        "cluster",
        "--upstream",
        &contact,
        "--listen",
        &listen,
    ];
    let launch = || {
        let mut proxy = Proxy::launch_with(PROGRAM, &arguments, &[], given(&sockets));
        for address in addresses {
            proxy.wait_for_log(&format!("forwarding to a node listen={address}"));
        }
        proxy
    };
    let host_ids = async || {
        let mut found = Vec::new();
        for address in addresses {
            found.push(host_id_at(address).await);
        }
        found
    };
    let expected: Vec<String> = ring.nodes.iter().map(|node| node.host_id().to_string()).collect();
    let mut current = launch();
    assert_eq!(host_ids().await, expected);
    for _replaced in 0..2 {
        let next = launch();
        assert_ended_well(&current.stop(LIMIT));
        assert_eq!(host_ids().await, expected);
        current = next;
    }
    // And where the next one begins only after the end: who connects meanwhile waits for it.
    assert_ended_well(&current.stop(LIMIT));
    let waiting = tokio::spawn(host_id_at(addresses[1]));
    let current = launch();
    assert_eq!(waiting.await.unwrap(), expected[1]);
    assert_eq!(host_ids().await, expected);
    assert_ended_well(&current.stop(LIMIT));
}

#[test]
fn the_service_manager_is_told_of_each_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let told = || {
        let mut message = [0; 1024];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    let node = node();
    let upstream = node.address.to_string();
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--upstream",
        &upstream,
        "--no-control-connection",
    ];
    let environment = [("NOTIFY_SOCKET".to_owned(), path.to_str().unwrap().to_owned())];
    let mut proxy = Proxy::launch(PROGRAM, &arguments, &environment, None);
    assert_eq!(told(), "READY=1\n");
    // Ready means that clients are accepted.
    assert!(converse(proxy.address).0.is_ok());
    proxy.signal("HUP");
    let reloading = told();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(told(), "READY=1\n");
    assert_ended_well(&proxy.stop(LIMIT));
    assert_eq!(told(), "STOPPING=1\n");
}

#[test]
fn the_service_managers_watchdog_is_patted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let node = node();
    let upstream = node.address.to_string();
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--upstream",
        &upstream,
        "--no-control-connection",
    ];
    let environment = [
        ("NOTIFY_SOCKET".to_owned(), path.to_str().unwrap().to_owned()),
        ("WATCHDOG_USEC".to_owned(), "200000".to_owned()),
    ];
    let proxy = Proxy::launch(PROGRAM, &arguments, &environment, None);
    let mut pats = 0;
    while pats < 3 {
        let mut message = [0; 1024];
        let length = manager.recv(&mut message).unwrap();
        pats += usize::from(&message[..length] == b"WATCHDOG=1\n");
    }
    assert_ended_well(&proxy.stop(LIMIT));
}
