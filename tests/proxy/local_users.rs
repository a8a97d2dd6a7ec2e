//! The rules of `examples/deploy`, to the letter, on the machine of the applications: what any local user
//! sends to a node comes to cqlens, and what the user `cqlens` sends does not.
//!
//! They name that user, so a network of its own comes with a list of users of its own here.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpListener},
    process::{Command, Output},
};

use crate::proxy::{
    redirections::{ask, transparent},
    ring::PROGRAM,
    support::{
        available,
        namespace::{CQLENS, IPTABLES, NFTABLES, Users, as_user, run, run_all, run_inside, with_users},
        proxy::Proxy,
    },
    wire::LIMIT,
};

const NODES: [&str; 2] = ["127.20.0.1", "fd00::1"];

/// Where there is a machine and no node.
const NOBODY: [&str; 2] = ["127.20.0.3", "fd00::3"];

/// Those of applications, one of which is root's.
const OTHERS: [u32; 3] = [4243, 4244, 0];

fn run_where_there_is(tool: &str, test: &str) {
    let tools = run_all(&[(tool, &["--version"]), ("ip", &["-V"]), ("bash", &["--version"])]);
    if let Some(way) = available("redirection of local users", tools.and_then(|()| with_users())) {
        run_inside(way, test);
    }
}

#[test]
fn the_example_for_nftables_leads_local_users_through_cqlens() {
    run_where_there_is("nft", "proxy::local_users::inside_with_nftables");
}

#[test]
fn the_example_for_iptables_leads_local_users_through_cqlens() {
    run_where_there_is("iptables", "proxy::local_users::inside_with_iptables");
}

/// A node that answers everything with the user whose connection it is.
fn node(address: IpAddr) {
    let listener = TcpListener::bind((address, 9042)).unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut request = [0; 9];
            if connection.read_exact(&mut request).is_ok() {
                let user = user_of(connection.peer_addr().unwrap());
                connection.write_all(user.to_string().as_bytes()).unwrap();
            }
        }
    });
}

/// Whose socket has this address on this machine, as the kernel says.
fn user_of(address: SocketAddr) -> u32 {
    // Words of four bytes in the machine's own order.
    let words = |bytes: &[u8]| -> String {
        let words = bytes
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
        words.map(|word| format!("{word:08X}")).collect()
    };
    let (file, ip) = match address.ip() {
        IpAddr::V4(ip) => ("/proc/net/tcp", words(&ip.octets())),
        IpAddr::V6(ip) => ("/proc/net/tcp6", words(&ip.octets())),
    };
    let own = format!("{ip}:{:04X}", address.port());
    let sockets = fs::read_to_string(file).unwrap();
    let mut sockets = sockets
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    // sl local_address rem_address st queues timer retrnsmt uid
    let socket = sockets.find(|fields| fields[1] == own).unwrap();
    socket[7].parse().unwrap()
}

/// Nodes, users, and a transparent cqlens of the user `cqlens`.
struct Scene {
    proxy: Proxy,
    _users: Users,
}

impl Scene {
    fn set() -> Self {
        run("ip link set lo up");
        for address in [NODES[1], NOBODY[1]] {
            run(&format!("ip addr add {address}/128 dev lo nodad"));
        }
        NODES
            .into_iter()
            .for_each(|address| node(address.parse().unwrap()));
        let users = Users::with_cqlens(PROGRAM);
        let scene = Self {
            proxy: transparent(users.cqlens().to_str().unwrap(), NODES[0]),
            _users: users,
        };
        scene.assert_not_redirected();
        scene
    }

    /// The node sees the user who asks, and nobody answers where there is no node.
    fn assert_not_redirected(&self) {
        for user in OTHERS {
            self.assert_goes_to_the_node_itself(user);
        }
    }

    /// The node sees the user of cqlens; where there is no node, cqlens accepts and has nobody to lead to.
    fn assert_redirected(&self) {
        for user in OTHERS {
            for (node, nobody) in NODES.into_iter().zip(NOBODY) {
                assert_eq!(
                    self.answer(user, node),
                    CQLENS.to_string(),
                    "{user}\n{}",
                    self.proxy.log()
                );
                assert_eq!(self.answer(user, nobody), "", "{user}\n{}", self.proxy.log());
            }
        }
    }

    fn assert_goes_to_the_node_itself(&self, user: u32) {
        for (node, nobody) in NODES.into_iter().zip(NOBODY) {
            assert_eq!(self.answer(user, node), user.to_string(), "{}", self.proxy.log());
            assert_eq!(
                self.answer(user, nobody),
                "refused",
                "{user}\n{}",
                self.proxy.log()
            );
        }
    }

    /// What a process of `user` is answered.
    fn answer(&self, user: u32, host: &str) -> String {
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new("setpriv")
            .args(&as_user(user)[1..])
            .args(["timeout", "30", "bash", "-c", &ask(host, 9042)])
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&stderr).into_owned();
        if complaint.contains("Connection refused") {
            return "refused".to_owned();
        }
        // A connection that cqlens ends may end in a reset.
        let is_reset = complaint.contains("Connection reset");
        assert!(
            status.success() || is_reset,
            "{status} {complaint}\n{}",
            self.proxy.log()
        );
        String::from_utf8(stdout).unwrap()
    }

    fn end(self) {
        let ended = self.proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
        assert!(!ended.log.contains("redirected back"), "{}", ended.log);
    }
}

#[test]
#[ignore = "it changes the rules of the network that it is in: a test above runs it in one of its own"]
fn inside_with_nftables() {
    let scene = Scene::set();
    run(&format!("nft -f {NFTABLES}"));
    scene.assert_redirected();
    scene.assert_goes_to_the_node_itself(CQLENS);
    run("nft delete table inet cqlens");
    scene.assert_not_redirected();
    scene.end();
}

#[test]
#[ignore = "it changes the rules of the network that it is in: a test above runs it in one of its own"]
fn inside_with_iptables() {
    let scene = Scene::set();
    // The lock is the machine's.
    let script = |action: &str| run(&format!("env XTABLES_LOCKFILE=/dev/null sh {IPTABLES} {action}"));
    script("add");
    scene.assert_redirected();
    scene.assert_goes_to_the_node_itself(CQLENS);
    script("delete");
    scene.assert_not_redirected();
    scene.end();
}
