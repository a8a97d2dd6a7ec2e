//! A real node that stands still and that is killed, with requests in flight: clients see of it through the
//! proxy what they see without it.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use crate::{
    leaks::Holds,
    sight::{End, Sight, watch},
    support::{
        available,
        cassandra::{Cassandra, Options},
        proxy::Proxy,
        with_everything,
    },
    wire::{LIMIT, envelope, query, report},
};

/// How long the node stands still.
const STANDSTILL: Duration = Duration::from_secs(5);

const STARTUP: &[u8] = b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0";

/// A client of version 4 that is served.
fn served(address: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client.write_all(&envelope(4, 0, 0x01, STARTUP)).unwrap();
    let ready = answer(&mut client);
    assert_eq!(ready[4], 0x02, "READY");
    client
}

fn ask(client: &mut TcpStream) {
    client
        .write_all(&query(7, "SELECT key FROM system.local"))
        .unwrap();
}

/// The next envelope.
fn answer(client: &mut TcpStream) -> Vec<u8> {
    client.set_read_timeout(Some(LIMIT)).unwrap();
    let mut bytes = vec![0; 9];
    client.read_exact(&mut bytes).unwrap();
    let length = u32::from_be_bytes(bytes[5..9].try_into().unwrap());
    bytes.resize(9 + usize::try_from(length).unwrap(), 0);
    client.read_exact(&mut bytes[9..]).unwrap();
    bytes
}

#[test]
fn a_node_that_stands_still_is_killed_and_comes_back() {
    if !with_everything("the faults of a real node") {
        return;
    }
    let options = Options::default();
    let Some(mut node) = available("the faults of a real node", Cassandra::start(&options)) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let arguments = ["--window", "3600s", "--report", file.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &arguments);
    until_followed(&proxy, 1);
    let holds = Holds::of(&proxy);
    let mut clients = [node.address(), proxy.address].map(served);
    let answers = |clients: &mut [TcpStream; 2]| {
        let [direct, through] = clients.each_mut().map(answer);
        assert_eq!(through, direct);
        direct
    };
    clients.iter_mut().for_each(ask);
    let good = answers(&mut clients);

    node.signal("STOP");
    // The signal takes its way through a supervisor.
    thread::sleep(Duration::from_millis(300));
    clients.iter_mut().for_each(ask);
    let silent = Sight {
        bytes: Vec::new(),
        end: End::Silent,
    };
    let both_wait = |clients: &mut [TcpStream; 2], patience| {
        assert_eq!(
            clients.each_mut().map(|client| watch(client, patience)),
            [silent.clone(), silent.clone()]
        );
    };
    both_wait(&mut clients, STANDSTILL / 2);
    node.signal("CONT");
    assert_eq!(answers(&mut clients), good, "late, and the same");

    node.signal("STOP");
    thread::sleep(Duration::from_millis(300));
    clients.iter_mut().for_each(ask);
    both_wait(&mut clients, Duration::from_millis(300));
    node.signal("KILL");
    let [direct, through] = clients.each_mut().map(|client| watch(client, LIMIT));
    assert_eq!(through, direct);
    println!("of a node that was killed with a request unread a client sees {direct:?}");
    assert!(direct.bytes.is_empty());
    drop(clients);
    available("the node again", node.restart(&options)).expect("it was there before");
    let mut client = served(proxy.address);
    ask(&mut client);
    assert_eq!(answer(&mut client)[4], 0x08, "RESULT");
    drop(client);
    until_followed(&proxy, 2);
    holds.assert_back(16 << 10);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    let coverage = &report(&file)["coverage"];
    // Two STARTUPs and four queries, of which one was never answered.
    assert_eq!(
        (&coverage["audited"], &coverage["unanswered"]),
        (&6.into(), &1.into()),
        "{coverage}"
    );
}

/// Waits until the control connection is there, for the so manieth time.
fn until_followed(proxy: &Proxy, times: usize) {
    let deadline = Instant::now() + 2 * LIMIT;
    while proxy.log().matches("control connection open").count() < times {
        assert!(Instant::now() < deadline, "{}", proxy.log());
        thread::sleep(Duration::from_millis(50));
    }
}
