//! What one side of a connection sees: bytes, then an end of some kind. The same script is run straight at a
//! node and through a proxy, and what both sides saw is compared.

use std::{
    fmt,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use cqlens_testing::proxy::Proxy;
use socket2::SockRef;

use super::{
    leaks::Holds,
    wire::{LIMIT, query, void},
};

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The other side said that nothing more comes.
    Finished,
    /// The other side has gone without a goodbye.
    Reset,
    /// Nothing came for a while.
    Silent,
}

/// All that one side saw.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: End,
}

impl fmt::Debug for Sight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.bytes[..self.bytes.len().min(40)];
        write!(
            formatter,
            "{:?} after {} bytes {shown:02x?}",
            self.end,
            self.bytes.len()
        )
    }
}

/// Reads until the end, or until nothing has come for `patience`.
pub(crate) fn watch(connection: &mut TcpStream, patience: Duration) -> Sight {
    connection.set_read_timeout(Some(patience)).unwrap();
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let end = loop {
        match connection.read(&mut buffer) {
            Ok(0) => break End::Finished,
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break End::Silent;
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break End::Reset,
            Err(error) => panic!("{error}"),
        }
    };
    Sight { bytes, end }
}

/// Ends the connection with a reset instead of a goodbye.
pub(crate) fn reset(connection: TcpStream) {
    SockRef::from(&connection)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

/// A connection of a script's node after the request that begins the fault.
pub(crate) type NodeScript = fn(TcpStream) -> Sight;
/// A connection of a script's client on which some requests have been answered.
pub(crate) type ClientScript = fn(TcpStream) -> Sight;

/// The request that begins the fault; all others are answered.
pub(crate) fn fault() -> Vec<u8> {
    query(13, "SELECT fault FROM s.t")
}

/// A node that answers every request but [`fault`], with which its script begins.
pub(crate) struct ScriptedNode {
    pub(crate) address: SocketAddr,
    pub(crate) seen: mpsc::Receiver<Sight>,
}

impl ScriptedNode {
    pub(crate) fn start(script: NodeScript) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = mpsc::channel();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (connection, sender) = (connection.unwrap(), sender.clone());
                thread::spawn(move || serve(connection, script, &sender));
            }
        });
        Self { address, seen }
    }
}

fn serve(mut connection: TcpStream, script: NodeScript, seen: &mpsc::Sender<Sight>) {
    connection.set_nodelay(true).unwrap();
    loop {
        let mut header = [0; 9];
        if connection.read_exact(&mut header).is_err() {
            return;
        }
        let length = u32::from_be_bytes(header[5..].try_into().unwrap());
        let mut body = vec![0; usize::try_from(length).unwrap()];
        if connection.read_exact(&mut body).is_err() {
            return;
        }
        if [&header[..], &body].concat() == fault() {
            // Nobody may be left who asks.
            let _ = seen.send(script(connection));
            return;
        }
        let stream = i16::from_be_bytes([header[2], header[3]]);
        if connection.write_all(&void(stream)).is_err() {
            return;
        }
    }
}

/// A client whose first requests are answered.
pub(crate) fn acquainted(address: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_nodelay(true).unwrap();
    for stream in 1..4 {
        ask(&mut client, stream);
    }
    client
}

/// A node's connection: answers [`ask`] until it ends, which is none; gives anything else back, unread.
pub(crate) fn acquainted_with(mut connection: TcpStream) -> Option<TcpStream> {
    let known = query(0, "SELECT k FROM s.t");
    let mut first = vec![0; known.len()];
    loop {
        let peeked = connection.peek(&mut first).ok()?;
        let stream = [0, 0, first[2], first[3]];
        let is_known = peeked >= 4 && first[4..peeked] == known[4..peeked] && first[..2] == known[..2];
        match peeked {
            0 => return None,
            _ if !is_known => return Some(connection),
            _ if peeked < known.len() => thread::sleep(Duration::from_millis(1)),
            _ => {
                connection.read_exact(&mut first).ok()?;
                connection
                    .write_all(&void(i16::from_be_bytes([stream[2], stream[3]])))
                    .ok()?;
            }
        }
    }
}

/// Asks what is always answered.
pub(crate) fn ask(client: &mut TcpStream, stream: i16) {
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client.write_all(&query(stream, "SELECT k FROM s.t")).unwrap();
    let mut answer = void(0);
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, void(stream));
}

/// Runs both scripts with nothing in between, then with a proxy, and checks that both sides saw the same;
/// meanwhile another connection through the proxy exchanges requests. Returns what client and node saw.
pub(crate) fn same_with_and_without(client: ClientScript, node: NodeScript) -> (Sight, Sight) {
    let node = ScriptedNode::start(node);
    let run = |address| {
        let at_client = client(acquainted(address));
        let at_node = node.seen.recv_timeout(LIMIT).expect("the node's script ends");
        (at_client, at_node)
    };
    let direct = run(node.address);
    let proxy = proxy(node.address, &[]);
    // What tables and the allocator keep is there afterwards.
    assert_eq!(run(proxy.address), direct, "through the proxy, then without");
    let holds = Holds::of(&proxy);
    let other = Other::start(proxy.address);
    // More than once: some ends are a matter of who comes first.
    for _ in 0..10 {
        assert_eq!(run(proxy.address), direct, "through the proxy, then without");
    }
    assert!(other.stop() > 0);
    // What waits for the audit for a moment is memory that the allocator keeps.
    holds.assert_back(16 << 10);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
    direct
}

/// The proxy in front of `upstream`, without a connection of its own and with little to say.
pub(crate) fn proxy(upstream: SocketAddr, arguments: &[&str]) -> Proxy {
    // Scripts do not log in.
    let arguments = [&["--no-control-connection", "--login-timeout", "off"], arguments].concat();
    Proxy::start(env!("CARGO_BIN_EXE_cqlens"), upstream, &arguments)
}

/// Another client, whose connection must not notice anything.
pub(crate) struct Other {
    stop: Arc<std::sync::atomic::AtomicBool>,
    asking: thread::JoinHandle<u64>,
}

impl Other {
    pub(crate) fn start(address: SocketAddr) -> Self {
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut client = acquainted(address);
        let asking = thread::spawn(move || {
            let mut asked = 0;
            while asked == 0 || !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                ask(&mut client, 1);
                asked += 1;
                thread::sleep(Duration::from_millis(1));
            }
            asked
        });
        Self { stop, asking }
    }

    /// How many answers it got; it fails where one did not come.
    pub(crate) fn stop(self) -> u64 {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.asking.join().expect("the other connection was disturbed")
    }
}
