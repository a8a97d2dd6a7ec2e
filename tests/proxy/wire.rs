//! Raw bytes: a node that answers by script, a client that sends what it likes.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use cqlens_testing::proxy::Proxy;

/// Nothing here takes longer on a machine that works, however busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A node that runs `script` on every connection that sends anything; what came is sent to the test.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    _accepting: JoinHandle<()>,
}

impl Node {
    /// Listens; `script` gets each connection.
    pub(crate) fn start(script: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _accepting = thread::spawn(move || {
            for connection in listener.incoming() {
                let (script, connection) = (script.clone(), connection.unwrap());
                connection.set_read_timeout(Some(LIMIT)).unwrap();
                thread::spawn(move || script(connection));
            }
        });
        Self { address, _accepting }
    }

    /// A node that records what comes until the client has finished, answers with `answer`, and closes.
    pub(crate) fn answering(answer: &'static [u8]) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (sender, received) = mpsc::channel();
        let node = Self::start(move |mut connection| {
            let mut bytes = Vec::new();
            connection.read_to_end(&mut bytes).unwrap();
            // The connection that only asked whether the proxy listens sends nothing.
            if !bytes.is_empty() {
                connection.write_all(answer).unwrap();
                sender.send(bytes).unwrap();
            }
        });
        (node, received)
    }
}

/// The proxy in front of `upstream`, without a connection of its own.
pub(crate) fn proxy(upstream: SocketAddr, arguments: &[&str]) -> Proxy {
    let arguments = [&["--no-control-connection", "--log", "debug"], arguments].concat();
    Proxy::start(env!("CARGO_BIN_EXE_cqlens"), upstream, &arguments)
}

/// Connects to `address`.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client
}

/// Sends `bytes`, says that nothing more comes, and reads until the other side says the same.
pub(crate) fn converse(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut client = connect(address);
    client.write_all(bytes).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    read_to_end(&mut client)
}

/// All that comes until the other side has finished.
pub(crate) fn read_to_end(client: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    bytes
}

/// An envelope.
pub(crate) fn envelope(version: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![version, 0];
    bytes.extend(stream.to_be_bytes());
    bytes.push(opcode);
    bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    bytes.extend(body);
    bytes
}

/// A QUERY of version 4 at consistency ONE.
pub(crate) fn query(stream: i16, cql: &str) -> Vec<u8> {
    let mut body = u32::try_from(cql.len()).unwrap().to_be_bytes().to_vec();
    body.extend(cql.as_bytes());
    body.extend([0, 1, 0]);
    envelope(4, stream, 0x07, &body)
}

/// A RESULT of kind Void of version 4.
pub(crate) fn void(stream: i16) -> Vec<u8> {
    envelope(0x84, stream, 0x08, &[0, 0, 0, 1])
}

/// The report's `field` of section `section`.
pub(crate) fn report(path: &std::path::Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
