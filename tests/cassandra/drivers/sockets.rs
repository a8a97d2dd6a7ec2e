//! What a program's sockets are connected to, seen from outside: `/proc`, looked at ten times a second.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::Duration;

/// Far shorter than drivers keep connections. Not less: the kernel takes some 10 ms to list the sockets of
/// this machine.
const EVERY: Duration = Duration::from_millis(100);

/// Watches a process and all that it starts.
pub(super) struct Watch {
    process: u32,
}

/// All that is watched, by process. One thread looks for all, since the kernel takes its time to list all
/// sockets.
static WATCHED: LazyLock<Mutex<HashMap<u32, Watched>>> = LazyLock::new(|| {
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(EVERY);
            look(&mut watched());
        }
    });
    Mutex::default()
});

fn watched() -> MutexGuard<'static, HashMap<u32, Watched>> {
    WATCHED.lock().unwrap()
}

#[derive(Default)]
struct Watched {
    remote: BTreeSet<SocketAddr>,
    /// The inodes that were there before; whose a socket is does not change.
    decided: HashSet<u64>,
}

impl Watch {
    pub(super) fn start(process: u32) -> Self {
        watched().insert(process, Watched::default());
        Self { process }
    }

    /// All remote addresses that were seen.
    pub(super) fn finish(self) -> BTreeSet<SocketAddr> {
        watched().remove(&self.process).unwrap().remote
    }
}

/// Does `work`, and says of which users' processes `nodes` had connections meanwhile: by the sockets at the
/// other ends of those that the nodes have, which is true also where the kernel leads a connection elsewhere
/// than its client believes.
pub(super) fn callers<T>(
    nodes: &[SocketAddr],
    work: impl FnOnce() -> T,
) -> (T, BTreeMap<SocketAddr, BTreeSet<u32>>) {
    std::thread::scope(|threads| {
        let (working, is_over) = mpsc::channel::<()>();
        let looking = threads.spawn(move || {
            let mut callers = BTreeMap::new();
            while is_over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                note_callers(nodes, &mut callers);
            }
            callers
        });
        let result = work();
        drop(working);
        (result, looking.join().unwrap())
    })
}

fn note_callers(nodes: &[SocketAddr], callers: &mut BTreeMap<SocketAddr, BTreeSet<u32>>) {
    let mut sockets = sockets();
    sockets.retain(|socket| socket.is_established);
    let users: HashMap<(SocketAddr, SocketAddr), u32> = sockets
        .iter()
        .map(|socket| ((socket.local, socket.remote), socket.user))
        .collect();
    for of_node in sockets.iter().filter(|socket| nodes.contains(&socket.local)) {
        // It may have been closed while the kernel was listing the others.
        if let Some(user) = users.get(&(of_node.remote, of_node.local)) {
            callers.entry(of_node.local).or_default().insert(*user);
        }
    }
}

fn look(watched: &mut HashMap<u32, Watched>) {
    if watched.is_empty() {
        return;
    }
    let sockets: HashMap<u64, SocketAddr> = sockets()
        .into_iter()
        .map(|socket| (socket.inode, socket.remote))
        .collect();
    for (process, watched) in watched {
        if sockets.keys().all(|inode| watched.decided.contains(inode)) {
            continue;
        }
        let own = family(*process).into_iter().flat_map(sockets_of);
        watched.remote.extend(own.filter_map(|inode| sockets.get(&inode)));
        watched.decided = sockets.keys().copied().collect();
    }
}

/// The process and its children, theirs, and so on.
fn family(process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut next = 0;
    while let Some(&id) = found.get(next) {
        next += 1;
        // A process may end at any time; one that has ended has no sockets.
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

/// A socket that is not listening.
struct Socket {
    inode: u64,
    /// Not of one that is being closed: the kernel no longer knows.
    user: u32,
    local: SocketAddr,
    remote: SocketAddr,
    is_established: bool,
}

/// All in the network of this process, which is that of the programs.
fn sockets() -> Vec<Socket> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    rows.filter_map(row).collect()
}

/// `sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode`.
fn row(line: &str) -> Option<Socket> {
    const ESTABLISHED: &str = "01";
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let state = *fields.get(3)?;
    (state != LISTENS).then_some(Socket {
        inode: fields.get(9)?.parse().ok()?,
        user: fields.get(7)?.parse().ok()?,
        local: address(fields.get(1)?)?,
        remote: address(fields.get(2)?)?,
        is_established: state == ESTABLISHED,
    })
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
