//! The `cqlens proxy` of this build, as a process of its own, the way an operator runs it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::cache;
use super::process::Supervised;

const ACCEPTS_WITHIN: Duration = Duration::from_secs(120);

/// A running proxy; killed when dropped, so that a failing test leaves nothing behind.
pub struct Proxy {
    /// Where clients connect.
    pub address: SocketAddr,
    process: Supervised,
}

/// How a proxy ended.
pub struct Ended {
    /// The exit code; 128 + the number of the signal that killed it.
    pub code: i32,
    /// All that it wrote to standard output and error.
    pub log: String,
}

impl Proxy {
    /// Starts `program proxy --listen … --upstream …` with `arguments` added; returns when it accepts
    /// connections. `program` is `env!("CARGO_BIN_EXE_cqlens")`, which only test binaries know.
    ///
    /// # Panics
    /// If it does not accept, with its log.
    pub fn start(program: &str, upstream: SocketAddr, arguments: &[&str]) -> Self {
        Self::start_at(free_address(), program, upstream, arguments)
    }

    /// The same on an address of the caller's choice.
    ///
    /// # Panics
    /// If it does not accept, with its log.
    pub fn start_at(address: SocketAddr, program: &str, upstream: SocketAddr, arguments: &[&str]) -> Self {
        let mut command: Vec<String> = [program, "proxy", "--listen"].map(str::to_owned).to_vec();
        command.extend([address.to_string(), "--upstream".to_owned(), upstream.to_string()]);
        command.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let process = Supervised::spawn(&command, &[], &cache::log_file("proxy"), None);
        let mut proxy = Self { address, process };
        proxy.wait_until_it_accepts();
        proxy
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Starts a proxy that need not be the only one at its address; returns when it says that it forwards.
    /// With `socket`, the proxy listens on that one, as one started by systemd would.
    ///
    /// # Panics
    /// If it ends instead, with its log.
    pub fn launch(
        program: &str,
        arguments: &[&str],
        environment: &[(String, String)],
        socket: Option<TcpListener>,
    ) -> Self {
        Self::launch_with(program, arguments, environment, socket.into_iter().collect())
    }

    /// The same with any number of sockets up to two.
    ///
    /// # Panics
    /// If it ends instead, with its log.
    pub fn launch_with(
        program: &str,
        arguments: &[&str],
        environment: &[(String, String)],
        sockets: Vec<TcpListener>,
    ) -> Self {
        let log = cache::log_file("proxy");
        let mut command: Vec<String> = Vec::new();
        if !sockets.is_empty() {
            let take_them = r#"
                number=$1 log=$2
                shift 2
                exec 3<&1 4<&2 >>"$log" 2>&1
                LISTEN_FDS=$number LISTEN_PID=$$ exec "$@""#;
            command.extend(["sh", "-c", take_them, "sh"].map(str::to_owned));
            command.extend([sockets.len().to_string(), log.display().to_string()]);
        }
        command.extend([program, "proxy"].map(str::to_owned));
        command.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let process = Supervised::spawn_with(&command, environment, &log, None, sockets);
        let mut proxy = Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            process,
        };
        proxy.wait_for_log("forwarding");
        let log = proxy.log();
        let listen = log
            .split("listen=")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        proxy.address = listen.unwrap().parse().unwrap();
        proxy
    }

    /// Starts `program proxy` with nothing but `arguments`, and does not wait for anything.
    pub fn spawn(program: &str, arguments: &[&str]) -> Self {
        let mut command: Vec<String> = [program, "proxy"].map(str::to_owned).to_vec();
        command.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            process: Supervised::spawn(&command, &[], &cache::log_file("proxy"), None),
        }
    }

    /// Waits until it has logged `text`.
    ///
    /// # Panics
    /// If it ends before, or does not log that.
    pub fn wait_for_log(&mut self, text: &str) {
        let deadline = Instant::now() + ACCEPTS_WITHIN;
        while !self.process.log().contains(text) {
            let ended = self.process.ended();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the proxy does not log {text:?}; ended: {ended:?}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// If it has not ended within `limit`.
    pub fn wait(mut self, limit: Duration) -> Ended {
        let status = self.process.wait(limit);
        let log = self.log();
        let status = status.unwrap_or_else(|| panic!("the proxy has not ended within {limit:?}\n{log}"));
        Ended {
            code: status.code().expect("the supervisor exits, it is not killed"),
            log,
        }
    }

    /// What it has logged so far. Its log has a thread of its own, which may be a moment behind.
    pub fn log(&self) -> String {
        std::thread::sleep(Duration::from_millis(20));
        self.process.log()
    }

    /// Where it logs to.
    pub fn log_path(&self) -> &Path {
        self.process.log_path()
    }

    /// Sends a signal, by its name without SIG.
    pub fn signal(&mut self, name: &str) {
        self.process.signal(name);
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    /// If it has not ended within `limit`.
    pub fn stop(self, limit: Duration) -> Ended {
        self.stop_by("TERM", limit)
    }

    /// Sends a signal, by its name without SIG, and waits for the end.
    ///
    /// # Panics
    /// If it has not ended within `limit`.
    pub fn stop_by(mut self, signal: &str, limit: Duration) -> Ended {
        self.process.signal(signal);
        let status = self.process.wait(limit);
        let log = self.log();
        let status =
            status.unwrap_or_else(|| panic!("the proxy runs on after SIG{signal} and {limit:?}\n{log}"));
        Ended {
            code: status.code().expect("the supervisor exits, it is not killed"),
            log,
        }
    }

    /// Connecting is the question and also makes a connection upstream, which is closed at once without a
    /// byte.
    fn wait_until_it_accepts(&mut self) {
        let deadline = Instant::now() + ACCEPTS_WITHIN;
        while TcpStream::connect(self.address).is_err() {
            let ended = self.process.ended();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the proxy does not accept on {}; ended: {ended:?}\n{}",
                self.address,
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The body of what an HTTP server answers, in one piece.
pub fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut connection = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    connection.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some(body.to_owned())
}

/// An address that nobody has, and that nobody is given who asks for any: its port is below those that
/// systems choose from, or a node or client of another test could have it before the proxy does.
///
/// # Panics
/// If there is none.
pub fn free_address() -> SocketAddr {
    const PORTS: Range<u32> = 10_000..32_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Other processes that run tests begin elsewhere, most of the time.
    let first = std::process::id().wrapping_mul(997);
    let of_number = |_| {
        let number = first.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + number % (PORTS.end - PORTS.start);
        SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(port).unwrap()))
    };
    let mut addresses = PORTS.map(of_number);
    // Asked, not bound: a process that another test starts at that moment would have the socket, too, and
    // accept for a while.
    addresses
        .find(|address| TcpStream::connect(address).is_err())
        .expect("a port is free")
}
