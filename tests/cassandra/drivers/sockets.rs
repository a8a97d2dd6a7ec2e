//! What a program's sockets are connected to, seen from outside: `/proc`, looked at many times a second.

use std::collections::{BTreeSet, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Far shorter than a connection that asks for anything lives.
const EVERY: Duration = Duration::from_millis(20);

/// Watches a process and all that it starts.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    watcher: JoinHandle<BTreeSet<SocketAddr>>,
}

impl Watch {
    pub(super) fn start(process: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let watcher = std::thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !stopped.load(Ordering::Relaxed) {
                look(process, &mut seen);
                std::thread::sleep(EVERY);
            }
            seen
        });
        Self { stop, watcher }
    }

    /// All remote addresses that were seen.
    pub(super) fn finish(self) -> BTreeSet<SocketAddr> {
        self.stop.store(true, Ordering::Relaxed);
        self.watcher.join().unwrap()
    }
}

fn look(process: u32, seen: &mut BTreeSet<SocketAddr>) {
    let mut sockets = HashSet::new();
    for id in family(process) {
        sockets.extend(sockets_of(id));
    }
    if sockets.is_empty() {
        return;
    }
    // The network of the process is that of this one.
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        let rows = text.lines().skip(1).filter_map(row);
        seen.extend(
            rows.filter(|(_, inode)| sockets.contains(inode))
                .map(|(remote, _)| remote),
        );
    }
}

/// The process and its children, theirs, and so on.
fn family(process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut next = 0;
    while let Some(&id) = found.get(next) {
        next += 1;
        // A process may end at any time; whoever has gone has no sockets.
        let threads = std::fs::read_dir(format!("/proc/{id}/task"))
            .into_iter()
            .flatten();
        for thread in threads.flatten() {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(
                children
                    .split_whitespace()
                    .filter_map(|id| id.parse::<u32>().ok()),
            );
        }
    }
    found
}

/// The numbers of its sockets: its open files are links to `socket:[12345]`.
fn sockets_of(process: u32) -> Vec<u64> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd"))
        .into_iter()
        .flatten();
    files
        .flatten()
        .filter_map(|file| {
            let target = std::fs::read_link(file.path()).ok()?;
            target
                .to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')?
                .parse()
                .ok()
        })
        .collect()
}

/// `sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode`: remote address and inode of a socket that is not
/// listening.
fn row(line: &str) -> Option<(SocketAddr, u64)> {
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let remote = address(fields.get(2)?)?;
    if *fields.get(3)? == LISTENS {
        return None;
    }
    Some((remote, fields.get(9)?.parse().ok()?))
}

/// `0100007F:2382`: each word of the address as this machine keeps it, the port as everybody writes it.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Vec<u32> = (0..host.len() / 8)
        .map(|index| u32::from_str_radix(&host[index * 8..index * 8 + 8], 16))
        .collect::<Result<_, _>>()
        .ok()?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    if let Ok(four) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some(SocketAddr::new(Ipv4Addr::from(four).into(), port));
    }
    let sixteen = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?);
    // Java connects to IPv4 addresses through IPv6 sockets.
    Some(SocketAddr::new(sixteen.to_canonical(), port))
}

#[test]
fn sockets_of_a_process_and_its_children_are_seen() {
    use std::io::Read;
    let listeners = ["127.0.0.1:0", "127.0.0.2:0"].map(|at| std::net::TcpListener::bind(at).unwrap());
    let addresses = listeners
        .each_ref()
        .map(|listener| listener.local_addr().unwrap());
    let connect = |address: &SocketAddr| format!("exec 3<>/dev/tcp/{}/{}", address.ip(), address.port());
    // One socket of the shell itself, one of a child's child.
    let script = format!(
        "{}; bash -c '{}; sleep 5'; true",
        connect(&addresses[0]),
        connect(&addresses[1])
    );
    let mut shell = std::process::Command::new("bash")
        .args(["-c", &script])
        .spawn()
        .unwrap();
    let watch = Watch::start(shell.id());
    let mut accepted = listeners.each_ref().map(|listener| listener.accept().unwrap().0);
    std::thread::sleep(10 * EVERY);
    let seen = watch.finish();
    drop(shell.stdin.take());
    assert_eq!(seen, BTreeSet::from(addresses));
    shell.kill().unwrap();
    shell.wait().unwrap();
    // The child's child ends by itself.
    accepted
        .iter_mut()
        .for_each(|socket| assert_eq!(socket.read(&mut [0]).unwrap(), 0));
}
