//! `cqlens top` in a real terminal (tmux), on a real proxy.

use std::{
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use cqlens_testing::{
    Missing, available,
    proxy::{Proxy, free_address},
};
use tokio::runtime::Runtime;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");
const LIMIT: Duration = Duration::from_secs(60);

/// A terminal of a tmux of its own, which ends with it.
struct Terminal {
    socket: String,
}

impl Terminal {
    fn start(columns: u16, lines: u16, command: &str) -> Self {
        let terminal = Self {
            socket: format!("cqlens-{}", free_address().port()),
        };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        // The shell stays, so that what is left on the screen can be seen.
        let shell = format!("{command}; echo ended with $?; exec cat");
        let output = terminal.tmux(&[
            "-f/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &lines,
            &shell,
        ]);
        assert!(output.status.success(), "{output:?}");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        Command::new("tmux")
            .args(["-L", &self.socket])
            .args(arguments)
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .output()
            .unwrap()
    }

    fn press(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()).status.success());
    }

    /// What it shows, with escape sequences if `arguments` have `-e`.
    fn shows(&self, arguments: &[&str]) -> String {
        let output = self.tmux(&[&["capture-pane", "-p"], arguments].concat());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until it shows all of these.
    fn until(&self, texts: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            let shown = self.shows(&[]);
            if texts.iter().all(|text| shown.contains(text)) {
                return shown;
            }
            assert!(begun.elapsed() < LIMIT, "{texts:?} is not in\n{shown}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// It says its version by `-V` alone.
fn tmux() -> Result<(), Missing> {
    let ran = Command::new("tmux").arg("-V").output();
    ran.map(drop)
        .map_err(|error| Missing(format!("`tmux` cannot be run: {error}")))
}

/// A proxy with an admin listener, and traffic that has gone through it: scans of one table, and point reads of another.
struct Watched {
    runtime: Runtime,
    _node: Node,
    proxy: Proxy,
    url: String,
}

impl Watched {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let node = runtime.block_on(Node::start(Options::default())).unwrap();
        let admin = free_address();
        let arguments = ["--admin", &admin.to_string(), "--window", "1s"];
        let watched = Self {
            proxy: Proxy::start(PROGRAM, node.address(), &arguments),
            url: format!("http://{admin}"),
            _node: node,
            runtime,
        };
        let schema =
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
            CREATE TABLE shop.items (id int PRIMARY KEY, v text);
            CREATE TABLE shop.users (id int PRIMARY KEY, v text);";
        watched.send(schema);
        for id in 0..30 {
            watched.send(&format!(
                "INSERT INTO shop.items (id, v) VALUES ({id}, 'x');
                SELECT * FROM shop.items;
                SELECT v FROM shop.users WHERE id = {id};"
            ));
        }
        watched
    }

    fn send(&self, script: &str) {
        self.runtime.block_on(async {
            let options = ClientOptions::default();
            let mut client = Client::connect(self.proxy.address, &options).await.unwrap();
            client.script(script).await.unwrap();
        });
    }

    /// `cqlens top` in a terminal, with something in its environment; none where there is no tmux.
    fn terminal(&self, environment: &str) -> Option<Terminal> {
        available("a terminal", tmux())?;
        let command = format!("{environment} {PROGRAM} top {} --every 100ms", self.url);
        Some(Terminal::start(100, 24, &command))
    }

    /// How `cqlens top` begins in the list of processes; no shell does that has it among its arguments.
    fn process(&self) -> String {
        format!("^{PROGRAM} top {} ", self.url)
    }
}

#[test]
fn a_running_proxy_is_watched_in_a_terminal() {
    let watched = Watched::start();
    let Some(terminal) = watched.terminal("") else {
        return;
    };
    terminal.until(&[
        "1 Statements",
        "SELECT * FROM shop.items",
        "SELECT v FROM shop.users",
    ]);

    // Another statement appears by itself.
    watched.send("DELETE FROM shop.users WHERE id = 1");
    terminal.until(&["DELETE FROM shop.users"]);

    terminal.press(&["-l", "/shop.items"]);
    terminal.press(&["Enter"]);
    let shown = terminal.until(&["/shop.items", "SELECT * FROM shop.items"]);
    assert!(!shown.contains("shop.users"), "{shown}");
    terminal.press(&["Escape"]);
    terminal.until(&["shop.users"]);

    terminal.press(&["3"]);
    terminal.until(&["table", "shop.items", "shop.users"]);
    terminal.press(&["-l", "/users"]);
    terminal.press(&["Enter"]);
    terminal.until(&["by time  /users", "shop.users"]);
    terminal.press(&["Enter"]);
    let shown = terminal.until(&["of table shop.users", "SELECT v FROM shop.users"]);
    assert!(!shown.contains("shop.items"), "{shown}");
    terminal.press(&["Enter"]);
    terminal.until(&["Table       shop.users", "Executions", "Partitions"]);

    terminal.tmux(&["resize-window", "-x", "50", "-y", "8"]);
    terminal.until(&["needs 60 x 10"]);
    terminal.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    terminal.until(&["Table       shop.users"]);

    // A proxy that has gone is said, and what it saw stays.
    assert_eq!(watched.proxy.stop(LIMIT).code, 0);
    terminal.until(&["no report:", "Table       shop.users"]);

    terminal.press(&["q"]);
    let shown = terminal.until(&["ended with 0"]);
    assert!(
        !shown.contains("Executions"),
        "the screen is left as it was: {shown}"
    );
}

#[test]
fn colours_go_with_no_color_and_a_signal_leaves_the_terminal_as_it_was() {
    let watched = Watched::start();
    let (Some(coloured), Some(plain)) = (watched.terminal(""), watched.terminal("NO_COLOR=1")) else {
        return;
    };
    for (terminal, has_colours) in [(&coloured, true), (&plain, false)] {
        terminal.press(&["2"]);
        terminal.until(&["Full table scan of shop.items"]);
        let shown = terminal.shows(&["-e"]);
        let is_coloured = shown.contains("\u{1b}[38;");
        assert_eq!(is_coloured, has_colours, "{shown:?}");
    }
    let ended = Command::new("pkill")
        .args(["-TERM", "-f", &watched.process()])
        .status();
    assert!(ended.unwrap().success());
    let shown = coloured.until(&["ended with"]);
    assert!(!shown.contains("Full table scan"), "{shown}");
}

#[test]
fn a_terminal_that_goes_takes_the_program_with_it() {
    let watched = Watched::start();
    let Some(terminal) = watched.terminal("") else {
        return;
    };
    terminal.until(&["1 Statements"]);
    let runs = || {
        let found = Command::new("pgrep").args(["-f", &watched.process()]).output();
        !found.unwrap().stdout.is_empty()
    };
    assert!(runs());
    drop(terminal);
    let begun = Instant::now();
    while runs() {
        assert!(begun.elapsed() < LIMIT, "it has outlived its terminal");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_screen_is_printed_once() {
    let watched = Watched::start();
    let top = |from: &str, more: &[&str]| {
        Command::new(PROGRAM)
            .args(["top", from])
            .args(more)
            .output()
            .unwrap()
    };
    let begun = Instant::now();
    let text = loop {
        let output = top(&watched.url, &["--once", "--size", "100x24"]);
        let text = String::from_utf8(output.stdout).unwrap();
        if text.contains("SELECT * FROM shop.items") {
            break text;
        }
        assert!(begun.elapsed() < LIMIT, "{text}");
        thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(text.lines().count(), 24);
    let gone = top(&format!("http://{}", free_address()), &["--once"]);
    assert_eq!(gone.status.code(), Some(2));
    let no_terminal = top(&watched.url, &[]);
    assert_eq!(no_terminal.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&no_terminal.stderr).contains("--once prints the screen as text"));
    let nothing = top("/nowhere", &["--once"]);
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("neither a folder nor"));
}
