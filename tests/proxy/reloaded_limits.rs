//! The settings of the edge that change while clients are connected: who comes later has the new ones, who is
//! in stays in.

use std::{
    io::Read,
    net::{SocketAddr, TcpStream},
    sync::mpsc,
};

use serde_json::{Value, json};

use crate::proxy::{
    admin::{get, post},
    limits::refusal,
    procfs::until,
    proxy_protocol::SIGNATURE,
    reload::{answering, ask},
    settings::File,
    silence::{KEEPALIVE, timers},
    support::proxy::{Proxy, free_address},
    wire::{LIMIT, Node, connect, envelope, read_to_end, void},
};

/// A proxy whose settings change.
struct Operator {
    file: File,
    node: SocketAddr,
    admin: SocketAddr,
}

impl Operator {
    fn new(node: SocketAddr, more: &str) -> (Self, Proxy) {
        let operator = Self {
            file: File::new(""),
            node,
            admin: free_address(),
        };
        operator.write(more);
        let proxy = operator.file.proxy();
        (operator, proxy)
    }

    fn write(&self, more: &str) {
        let Self { file, node, admin } = self;
        file.write(&format!(
            "[proxy]\nlisten = '127.0.0.1:0'\nupstream = '{node}'\nadmin = '{admin}'\n{more}\n"
        ));
    }

    /// Writes other settings and has them read; those that have changed.
    fn change(&self, more: &str) -> Value {
        self.write(more);
        let answer = post(self.admin, "/reload");
        assert_eq!(answer.code, 200, "{}", answer.body);
        let changes = answer.json();
        assert_eq!(changes["need_restart"], json!([]));
        changes["applied"].clone()
    }

    /// How many connections /readyz tells.
    fn connections(&self) -> u64 {
        get(self.admin, "/readyz").json()["connections"].as_u64().unwrap()
    }
}

fn is_refused(mut client: TcpStream, limit: &str) {
    let (code, message) = refusal(&mut client, &envelope(4, 1, 0x05, &[]));
    assert_eq!(code, 0x1001, "overloaded");
    assert!(message.contains(limit), "{message}");
}

#[test]
fn limits_keepalive_and_idle_timeout_change_and_who_is_in_stays() {
    let node = answering(void(1));
    let (operator, proxy) = Operator::new(node.address, "no-control-connection = true\nmax-connections = 2");
    let mut early = [connect(proxy.address), connect(proxy.address)];
    for client in &mut early {
        assert_eq!(ask(client), void(1));
    }
    assert_eq!(operator.connections(), 2);
    is_refused(connect(proxy.address), "2 connections are open");

    let changed = operator
        .change("no-control-connection = true\nmax-connections = 3\nkeepalive = 'off'\nidle-timeout = '4s'");
    assert_eq!(changed, json!(["max-connections", "keepalive", "idle-timeout"]));
    let mut late = connect(proxy.address);
    assert_eq!(ask(&mut late), void(1));
    assert_eq!(operator.connections(), 3);
    is_refused(connect(proxy.address), "3 connections are open");
    // Asked just now, all are idle; of the one that is new nobody asks whether it is there.
    for end in [("local", proxy.address), ("remote", node.address)] {
        until("the new connection alone has no timer", || {
            let mut timers = timers(end.0, end.1.port());
            timers.sort();
            timers == ["00", KEEPALIVE, KEEPALIVE]
        });
    }
    assert_eq!(read_to_end(&mut late), b"");
    drop(late);
    until("the idle connection is no longer counted", || {
        operator.connections() == 2
    });
    for client in &mut early {
        assert_eq!(ask(client), void(1));
    }

    // Fewer than there are.
    let changed = operator.change("no-control-connection = true\nmax-connections = 1");
    assert_eq!(changed, json!(["max-connections", "keepalive", "idle-timeout"]));
    is_refused(connect(proxy.address), "1 connection is open");
    for client in &mut early {
        assert_eq!(ask(client), void(1));
    }
    assert_eq!(operator.connections(), 2);
    drop(early);
    until("nobody is left", || operator.connections() == 0);
    assert_eq!(ask(&mut connect(proxy.address)), void(1));
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
}

#[test]
fn deadlines_and_rates_change_for_those_who_come_later() {
    let node = answering(void(1));
    let (operator, proxy) = Operator::new(node.address, "no-control-connection = true");
    let mut early = connect(proxy.address);
    assert_eq!(ask(&mut early), void(1));
    let changed = operator.change(
        "no-control-connection = true\nlogin-timeout = '1s'\nhalf-closed-timeout = 'off'\nmax-connection-rate = 1000\n\
         max-connection-rate-per-client = 100\nclient-networks = '24,56'",
    );
    let mut changed: Vec<_> = changed
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key.as_str().unwrap())
        .collect();
    changed.sort_unstable();
    assert_eq!(
        changed,
        [
            "client-networks",
            "half-closed-timeout",
            "login-timeout",
            "max-connection-rate",
            "max-connection-rate-per-client"
        ]
    );
    let mut late = connect(proxy.address);
    assert_eq!(ask(&mut late), void(1));
    assert_eq!(read_to_end(&mut late), b"");
    assert_eq!(ask(&mut early), void(1));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn the_control_connection_begins_as_the_node_now_expects_it() {
    let (sender, received) = mpsc::channel();
    let node = Node::start(move |mut connection| {
        let mut bytes = [0; SIGNATURE.len()];
        if connection.read_exact(&mut bytes).is_ok() {
            let _ = sender.send(bytes);
        }
    });
    let (operator, proxy) = Operator::new(node.address, "");
    assert_eq!(
        received.recv_timeout(LIMIT).unwrap()[0],
        5,
        "a request of version 5"
    );
    let changed = operator.change("send-proxy-protocol = true");
    assert_eq!(changed, json!(["send-proxy-protocol"]));
    // Attempts from before may still be on their way.
    until("the control connection begins with a header", || {
        received.recv_timeout(LIMIT).unwrap() == SIGNATURE
    });
    assert_eq!(proxy.stop(LIMIT).code, 0);
}
