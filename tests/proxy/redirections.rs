//! The rules of `examples/deploy` and TPROXY do what they say: a neighbour on a network of its own asks a
//! node, and cqlens is in between.

use std::{
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::proxy::{
    ring::PROGRAM,
    support::{
        available,
        namespace::{IPTABLES, NFTABLES, in_a_network_of_its_own, run, run_all},
        proxy::Proxy,
    },
    transparent::{answered, node},
    wire::LIMIT,
};

/// The near end of the cable, where a node listens.
const NEAR: &str = "10.77.0.1";

/// The far end, from which the neighbour asks.
const FAR: &str = "10.77.0.2";

/// A node on this machine at an address that no network device has.
const LOCAL: &str = "127.20.0.1";

/// What the tests need, besides the tool that makes the rules.
const TOOLS: [(&str, &[&str]); 4] = [
    ("ip", &["-V"]),
    ("nsenter", &["--version"]),
    ("bash", &["--version"]),
    ("unshare", &["--user", "--map-root-user", "--net", "true"]),
];

fn run_where_there_is(tool: (&str, &[&str]), test: &str) {
    let needed = [&TOOLS[..], &[tool]].concat();
    if available("redirection by the kernel", run_all(&needed)).is_some() {
        in_a_network_of_its_own(test);
    }
}

#[test]
fn the_example_for_nftables_leads_neighbours_through_cqlens() {
    run_where_there_is(
        ("nft", &["--version"]),
        "proxy::redirections::inside_with_nftables",
    );
}

#[test]
fn the_example_for_iptables_leads_neighbours_through_cqlens() {
    run_where_there_is(
        ("iptables", &["--version"]),
        "proxy::redirections::inside_with_iptables",
    );
}

#[test]
fn tproxy_leads_neighbours_through_cqlens() {
    run_where_there_is(("nft", &["--version"]), "proxy::redirections::inside_with_tproxy");
}

/// What bash does to send OPTIONS there and show all that is answered.
pub(crate) fn ask(host: &str, port: u16) -> String {
    format!("exec 3<>/dev/tcp/{host}/{port} && printf '\\4\\0\\0\\0\\5\\0\\0\\0\\0' >&3 && cat <&3")
}

/// A machine at the other end of a cable, as far as the network goes.
struct Neighbour(Child);

impl Neighbour {
    fn start() -> Self {
        // It lives as long as its standard input is open.
        let started = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .spawn();
        let neighbour = Self(started.unwrap());
        let id = neighbour.0.id();
        let network = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/net")).unwrap();
        let deadline = Instant::now() + LIMIT;
        while network(&id.to_string()) == network("self") {
            assert!(Instant::now() < deadline, "no network of its own");
            std::thread::sleep(Duration::from_millis(10));
        }
        run("ip link set lo up");
        run("ip link add near type veth peer name far");
        run(&format!("ip link set far netns {id}"));
        let enter = format!("nsenter --target {id} --net");
        for (command, addresses) in [
            (
                "ip",
                [("near", format!("{NEAR}/24")), ("near", "fd77::1/64".to_owned())],
            ),
            (
                &format!("{enter} ip"),
                [("far", format!("{FAR}/24")), ("far", "fd77::2/64".to_owned())],
            ),
        ] {
            for (device, address) in addresses {
                let nodad = if address.contains(':') { " nodad" } else { "" };
                run(&format!("{command} addr add {address} dev {device}{nodad}"));
                run(&format!("{command} link set {device} up"));
            }
        }
        neighbour
    }

    /// The exit code is that of `timeout` where nobody answers at all.
    fn asks(&self, host: &str, port: u16) -> Output {
        Command::new("nsenter")
            .args(["--target", &self.0.id().to_string(), "--net"])
            .args(["timeout", "5", "bash", "-c", &ask(host, port)])
            .output()
            .unwrap()
    }

    fn answer(&self, host: &str) -> String {
        String::from_utf8(self.asks(host, 9042).stdout).unwrap()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A transparent cqlens at the port that the examples redirect to, for nodes like the one at `host`.
pub(crate) fn transparent(program: &str, host: &str) -> Proxy {
    let upstream = format!("{host}:9042");
    let arguments = [
        "--transparent",
        "--listen",
        "[::]:9142",
        "--upstream",
        &upstream,
        "--no-control-connection",
    ];
    Proxy::launch(program, &arguments, &[], None)
}

/// A neighbour, nodes, and a transparent cqlens.
struct Scene {
    neighbour: Neighbour,
    proxy: Proxy,
}

impl Scene {
    fn set() -> Self {
        let neighbour = Neighbour::start();
        for address in [NEAR, LOCAL, "[fd77::1]"] {
            node(&format!("{address}:9042"));
        }
        let scene = Self {
            proxy: transparent(PROGRAM, LOCAL),
            neighbour,
        };
        scene.assert_not_redirected();
        scene
    }

    /// The node sees the neighbour itself.
    fn assert_not_redirected(&self) {
        assert_eq!(self.neighbour.answer(NEAR), format!("{NEAR}:9042 to {FAR}"));
        assert_eq!(self.neighbour.answer("fd77::1"), "[fd77::1]:9042 to fd77::2");
    }

    /// The node sees cqlens, which is on its own machine.
    fn assert_redirected(&self) {
        let log = || self.proxy.log();
        assert_eq!(
            self.neighbour.answer(NEAR),
            format!("{NEAR}:9042 to {NEAR}"),
            "{}",
            log()
        );
        assert_eq!(
            self.neighbour.answer("fd77::1"),
            "[fd77::1]:9042 to fd77::1",
            "{}",
            log()
        );
    }

    /// What the user that cqlens runs as sends to a node goes there: who connects from another address is
    /// seen with that.
    fn assert_own_connections_are_let_through(&self) {
        let node = format!("{LOCAL}:9042");
        let answer = answered("127.0.0.98:0", node.parse().unwrap());
        assert_eq!(answer, format!("{node} to 127.0.0.98"), "{}", self.proxy.log());
    }

    fn end(self) {
        let ended = self.proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
}

#[test]
#[ignore = "it changes the rules of the network that it is in: a test above runs it in one of its own"]
fn inside_with_nftables() {
    let scene = Scene::set();
    // In here there is one user.
    let rules = std::fs::read_to_string(NFTABLES)
        .unwrap()
        .replace("\"cqlens\"", "\"root\"");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("redirect.nft");
    std::fs::write(&file, rules).unwrap();
    // A second time, too: the file replaces what it has made.
    for _again in 0..2 {
        run(&format!("nft -f {}", file.display()));
        scene.assert_redirected();
    }
    scene.assert_own_connections_are_let_through();
    let listener_itself = scene.neighbour.asks(NEAR, 9142);
    assert_eq!(listener_itself.status.code(), Some(124), "{listener_itself:?}");
    run("nft delete table inet cqlens");
    scene.assert_not_redirected();
    scene.end();
}

#[test]
#[ignore = "it changes the rules of the network that it is in: a test above runs it in one of its own"]
fn inside_with_iptables() {
    let scene = Scene::set();
    let script = |action: &str| {
        run(&format!(
            "env CQLENS_USER=root XTABLES_LOCKFILE=/dev/null sh {IPTABLES} {action}"
        ))
    };
    script("add");
    scene.assert_redirected();
    scene.assert_own_connections_are_let_through();
    script("delete");
    scene.assert_not_redirected();
    scene.end();
}

#[test]
#[ignore = "it changes the rules of the network that it is in: a test above runs it in one of its own"]
fn inside_with_tproxy() {
    let scene = Scene::set();
    run("nft add table inet t");
    run("nft add chain inet t pre { type filter hook prerouting priority -150 ; }");
    // Not what cqlens itself sends: that passes here too, but comes from no cable.
    run("nft add rule inet t pre iifname near tcp dport 9042 tproxy to :9142 meta mark set 1 accept");
    for version in ["-4", "-6"] {
        run(&format!("ip {version} rule add fwmark 1 lookup 100"));
        run(&format!("ip {version} route add local default dev lo table 100"));
    }
    scene.assert_redirected();
    scene.assert_own_connections_are_let_through();
    run("nft delete table inet t");
    scene.assert_not_redirected();
    scene.end();
}
