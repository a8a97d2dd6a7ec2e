//! The processes that are measured, and what the kernel says of them.

use std::{
    env,
    ffi::OsString,
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// The program of this build.
const CQLENS: &str = env!("CARGO_BIN_EXE_cqlens");

/// The program of another build, if there is one to compare with.
pub(crate) fn other_build() -> Option<OsString> {
    env::var_os("CQLENS_BENCH_OTHER")
}

/// A running proxy; killed when dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Running {
    pub(crate) fn cqlens(folder: &Path, upstream: SocketAddr) -> Self {
        Self::cqlens_of(CQLENS.as_ref(), folder, upstream)
    }

    /// Another build of cqlens.
    pub(crate) fn cqlens_of(program: &Path, folder: &Path, upstream: SocketAddr) -> Self {
        let schema = folder.join("schema.cql");
        fs::write(&schema, crate::backend::schema()).expect("a folder of our own");
        let address = free();
        let (listen, upstream) = (address.to_string(), upstream.to_string());
        let schema = schema.to_str().expect("the name of a temporary folder");
        let arguments = ["--listen", &listen, "--upstream", &upstream, "--schema", schema];
        let arguments = [&arguments[..], &["--no-control-connection"]].concat();
        Self::program_with(program, folder, address, &arguments)
    }

    /// With arguments that make it listen on `address`.
    pub(crate) fn cqlens_with(folder: &Path, address: SocketAddr, arguments: &[&str]) -> Self {
        Self::program_with(CQLENS.as_ref(), folder, address, arguments)
    }

    fn program_with(program: &Path, folder: &Path, address: SocketAddr, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(["--log", "error", "proxy"]).args(arguments);
        command.arg("--report").arg(folder.join("report.json"));
        Self::start(command, address)
    }

    /// None where there is no HAProxy.
    pub(crate) fn haproxy(folder: &Path, upstream: SocketAddr) -> Option<Self> {
        Command::new("haproxy").arg("-v").output().ok()?;
        let address = free();
        let settings = folder.join("haproxy.cfg");
        let text = format!(
            "global\n  maxconn 4000\n  nbthread 1\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  \
             timeout server 1h\nlisten bench\n  bind {address}\n  server node {upstream}\n"
        );
        fs::write(&settings, text).expect("a folder of our own");
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(settings);
        Some(Self::start(command, address))
    }

    fn start(mut command: Command, address: SocketAddr) -> Self {
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the program starts");
        let running = Self { child, address };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "a proxy does not listen on {address}");
            sleep(Duration::from_millis(20));
        }
        running
    }

    /// Time on a processor so far, all threads together.
    pub(crate) fn processor_time(&self) -> Duration {
        self.processor_time_of("")
    }

    /// Time on a processor so far, of threads whose names begin so: `wire-` of cqlens are those that forward.
    pub(crate) fn processor_time_of(&self, threads: &str) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("the process runs");
        let nanoseconds = tasks.flatten().filter_map(|task| {
            let read = |name| fs::read_to_string(task.path().join(name)).ok();
            if !read("comm")?.starts_with(threads) {
                return None;
            }
            read("schedstat")?.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// Memory that is in use now, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        kib(&self.child.id().to_string(), "VmRSS:")
    }

    /// The most memory that ever was in use, in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        kib(&self.child.id().to_string(), "VmHWM:")
    }

    /// Ends it as an operator would.
    pub(crate) fn stop(mut self) {
        let terminated = Command::new("kill").arg(self.child.id().to_string()).status();
        terminated.expect("there is a kill command");
        self.child.wait().expect("our own child");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the kernel says of the memory of a process, which may be `self`.
pub(crate) fn kib(process: &str, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("the kernel tells the memory of a process")
}

/// An address that was free a moment ago.
pub(crate) fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound socket has an address")
}

/// The share of requests that the last report was made of.
pub(crate) fn audited_share(folder: &Path) -> f64 {
    let text = fs::read_to_string(folder.join("report.json")).expect("cqlens has written its report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("the report is JSON");
    let count = |name: &str| report["coverage"][name].as_f64().expect("coverage has counts");
    count("audited") / count("requests")
}

/// Threads that wake each other across processors of a virtual machine cost more than what is measured here.
pub(crate) fn bind_to_one_processor() {
    const BOUND: &str = "CQLENS_BENCH_BOUND";
    if env::var_os(BOUND).is_some() {
        return;
    }
    let last = std::thread::available_parallelism().map_or(0, |processors| processors.get() - 1);
    let this = env::current_exe().expect("this program has a file");
    // Only returns where there is no such command.
    let error = Command::new("taskset")
        .args(["-c", &last.to_string()])
        .arg(this)
        .args(env::args_os().skip(1))
        .env(BOUND, "1")
        .exec();
    println!("not bound to one processor: {error}\n");
}
