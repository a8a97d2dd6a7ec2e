//! A node that does not answer: found out once for all clients, and again when it does.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use crate::proxy::{
    admin::get,
    limits::refusal,
    procfs::until,
    support::proxy::free_address,
    wire::{LIMIT, connect, envelope, proxy, query, read_to_end, void},
};

const QUERY: &str = "SELECT k FROM s.t";

/// A node whose machine takes no more connections: what begins one is dropped.
struct Silent {
    listener: TcpListener,
    waiting: Vec<TcpStream>,
}

impl Silent {
    fn new() -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        socket.bind(&any.into()).unwrap();
        socket.listen(1).unwrap();
        let mut node = Self {
            listener: socket.into(),
            waiting: Vec::new(),
        };
        while let Ok(client) = TcpStream::connect_timeout(&node.address(), Duration::from_millis(300)) {
            node.waiting.push(client);
        }
        node
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Accepts every client, and answers every query.
    fn wakes(self) {
        thread::spawn(move || {
            for connection in self.listener.incoming() {
                let mut connection = connection.unwrap();
                connection.set_read_timeout(Some(LIMIT)).unwrap();
                thread::spawn(move || {
                    let mut request = vec![0; query(7, QUERY).len()];
                    while connection.read_exact(&mut request).is_ok() {
                        connection.write_all(&void(7)).unwrap();
                    }
                });
            }
        });
    }
}

#[test]
fn a_node_that_does_not_answer_costs_no_client_the_timeout_once_it_is_known() {
    let node = Silent::new();
    let upstream = node.address().to_string();
    let admin = free_address();
    let arguments = ["--connect-timeout", "1s", "--admin", &admin.to_string()];
    let proxy = proxy(node.address(), &arguments);
    // With the one that has asked whether the proxy listens, as many as it takes.
    let mut clients = [connect(proxy.address), connect(proxy.address)];
    for client in &mut clients {
        assert_eq!(read_to_end(client), b"");
    }
    until("the node counts as down", || {
        proxy.log().contains("the upstream accepts no connections")
    });
    let problems = get(admin, "/readyz").json()["problems"].clone();
    let problem = problems[0].as_str().unwrap();
    assert!(problem.contains(&upstream), "{problem}");
    for _ in 0..10 {
        let (code, message) = refusal(&mut connect(proxy.address), &envelope(4, 1, 0x05, &[]));
        assert_eq!(code, 0x1001, "overloaded");
        assert!(
            message.contains(&format!("the node {upstream} has accepted no connection for")),
            "{message}"
        );
    }
    node.wakes();
    until("the node is back", || {
        proxy.log().contains("the upstream accepts connections again")
    });
    let mut client = connect(proxy.address);
    let mut answer = vec![0; void(7).len()];
    client.write_all(&query(7, QUERY)).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, void(7));
    assert!(get(admin, "/readyz").json()["problems"].is_null());
    drop(client);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert_eq!(
        ended.log.matches("the upstream accepts").count(),
        2,
        "{}",
        ended.log
    );
}
