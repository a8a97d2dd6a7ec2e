//! Settings out of a file: what is in force, what is printed, what is refused, what changes while clients are connected.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Command, Output},
    time::{Duration, Instant},
};

use crate::{
    support::proxy::Proxy,
    wire::{LIMIT, Node, connect, query, void},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

/// A file of settings in a folder of its own.
struct File {
    folder: tempfile::TempDir,
}

impl File {
    fn new(text: &str) -> Self {
        let file = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        file.write(text);
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("cqlens.toml")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    fn below(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// A proxy with these settings and no arguments.
    fn proxy(&self) -> Proxy {
        let environment = [(
            "CQLENS_CONFIG".to_owned(),
            self.path().to_str().unwrap().to_owned(),
        )];
        Proxy::launch(PROGRAM, &[], &environment, None)
    }
}

fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let variables = environment.iter().copied();
    Command::new(PROGRAM)
        .args(arguments)
        .envs(variables)
        .output()
        .unwrap()
}

fn printed(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = run(arguments, environment);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A node that answers every query of this text with `answer`.
fn node(answer: Vec<u8>) -> Node {
    Node::start(move |mut connection| {
        let mut request = vec![0; query(1, "SELECT k FROM s.t").len()];
        while connection.read_exact(&mut request).is_ok() {
            connection.write_all(&answer).unwrap();
        }
    })
}

fn ask(client: &mut TcpStream) -> Vec<u8> {
    client.write_all(&query(1, "SELECT k FROM s.t")).unwrap();
    let mut answer = vec![0; void(1).len()];
    client.read_exact(&mut answer).unwrap();
    answer
}

fn settings(upstream: SocketAddr, more: &str) -> String {
    format!(
        "[proxy]\nlisten = '127.0.0.1:0'\nupstream = '{upstream}'\nno-control-connection = true\n{more}\n"
    )
}

#[test]
fn flags_come_before_the_environment_and_that_before_the_file() {
    let file = File::new(
        "log = 'debug'\n[proxy]\nupstream = 'file'\nwindow = '1s'\ngrace = '1s'\nno-control-connection = true",
    );
    let path = file.path();
    let text = printed(
        &[
            "proxy",
            "--config",
            path.to_str().unwrap(),
            "--window",
            "3s",
            "--print-config",
        ],
        &[
            ("CQLENS_WINDOW", "2s"),
            ("CQLENS_GRACE", "2s"),
            ("CQLENS_NO_CONTROL_CONNECTION", "false"),
        ],
    );
    for line in [
        "window = \"3s\"  # flag",
        "grace = \"2s\"  # environment: CQLENS_GRACE",
        "no-control-connection = false  # environment: CQLENS_NO_CONTROL_CONNECTION",
        "connect-timeout = \"5s\"  # default",
        "# report is not set",
    ] {
        assert!(text.lines().any(|printed| printed == line), "{line}\n{text}");
    }
    let from_file = format!("upstream = \"file\"  # file: {}", path.display());
    assert!(text.contains(&from_file), "{text}");
    assert!(text.contains("log = \"debug\"  # file"), "{text}");
}

#[test]
fn what_is_printed_can_be_read_back_and_holds_no_password() {
    let file = File::new(
        "[proxy]\nupstream = 'db'\nusername = 'anna'\npassword = 'hunter2'\nreuse-port = true\nname = 'a \"b\" \\n'",
    );
    let first = printed(
        &[
            "proxy",
            "--config",
            file.path().to_str().unwrap(),
            "--print-config",
        ],
        &[],
    );
    assert!(!first.contains("hunter2"), "{first}");
    let copy = File::new(&first);
    let password = [("CQLENS_PASSWORD", "hunter2")];
    let second = printed(
        &[
            "proxy",
            "--config",
            copy.path().to_str().unwrap(),
            "--print-config",
        ],
        &password,
    );
    let values = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .map(|line| line.split("  # ").next().unwrap().to_owned());
        lines.collect()
    };
    assert_eq!(values(&first), values(&second));
    assert!(!second.contains("hunter2"), "{second}");
}

#[test]
fn the_example_of_a_deployment_is_understood() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/deploy/cqlens.toml");
    let text = printed(&["proxy", "--config", example, "--print-config"], &[]);
    for line in fs::read_to_string(example).unwrap().lines() {
        if line.contains(" = ") && !line.starts_with('#') {
            assert!(
                text.contains(&format!("{line}  # file: {example}")),
                "{line}\n{text}"
            );
        }
    }
}

#[test]
fn a_mistake_in_the_file_is_refused_with_its_place() {
    let file = File::new("[proxy]\nupstream = 'db'\nwindwo = '60s'\n");
    let path = file.path();
    let output = run(&["--config", path.to_str().unwrap(), "proxy"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains(&format!("{}:3: windwo: no such setting", path.display())),
        "{said}"
    );
    // Something that is missing is said as clap says it.
    let output = run(&["proxy"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--upstream"));
}

#[test]
fn new_settings_are_for_new_connections_and_old_connections_stay() {
    let (old, new) = (node(void(1)), node(void(2)));
    let file = File::new(&settings(old.address, ""));
    let mut proxy = file.proxy();
    let mut early = connect(proxy.address);
    assert_eq!(ask(&mut early), void(1));

    file.write(&settings(new.address, "window = '1h'"));
    proxy.signal("HUP");
    proxy.wait_for_log("settings read again, in force");
    let mut late = connect(proxy.address);
    assert_eq!(ask(&mut late), void(2));
    assert_eq!(ask(&mut early), void(1));

    proxy.signal("HUP");
    proxy.wait_for_log("nothing has changed");
    drop((early, late));
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.log.contains("upstream, window"), "{}", ended.log);
}

#[test]
fn what_needs_a_restart_is_named_and_stays() {
    let node = node(void(1));
    let file = File::new(&settings(node.address, ""));
    let mut proxy = file.proxy();
    let elsewhere = settings(node.address, "admin = '127.0.0.1:1'\nreuse-port = true").replace(":0'", ":1'");
    file.write(&elsewhere);
    proxy.signal("HUP");
    proxy.wait_for_log("nothing has changed");
    let log = proxy.log();
    for key in ["listen", "admin", "reuse-port"] {
        assert!(
            log.contains("needs a restart") && log.contains(&format!("setting=\"{key}\"")),
            "{key}: {log}"
        );
    }
    assert_eq!(ask(&mut connect(proxy.address)), void(1));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn a_broken_file_changes_nothing_and_no_secret_is_logged() {
    let (old, new) = (node(void(1)), node(void(2)));
    let file = File::new(&settings(old.address, ""));
    let mut proxy = file.proxy();
    for (broken, why) in [
        ("nonsense", "cqlens.toml:5: "),
        ("window = 'soon'", "window: \"soon\" is not a value for it"),
        ("report = 'report.pdf'", "must end in .html, .md or .json"),
        ("schema = '/no/such.cql'", "/no/such.cql"),
        (
            "client-tls-cert = '/no/such.crt'\nclient-tls-key = '/no/such.key'",
            "cannot read /no/such.crt",
        ),
        ("username = 'hunter2'", "--password"),
        ("password = 5", "password: a string in quotes is wanted"),
    ] {
        // Everything else in that file would be fine.
        file.write(&settings(new.address, broken));
        proxy.signal("HUP");
        proxy.wait_for_log(why);
        assert!(proxy.log().contains("those from before stay"), "{}", proxy.log());
        assert_eq!(ask(&mut connect(proxy.address)), void(1), "{broken}");
    }
    file.write(&settings(new.address, "username = 'anna'\npassword = 'hunter2'"));
    proxy.signal("HUP");
    proxy.wait_for_log("upstream, username, password");
    assert_eq!(ask(&mut connect(proxy.address)), void(2));
    let ended = proxy.stop(LIMIT);
    assert!(!ended.log.contains("hunter2"), "{}", ended.log);
}

#[test]
fn log_filter_report_snapshots_and_name_change_at_once() {
    let node = node(void(1));
    let file = File::new(&settings(
        node.address,
        "name = 'before'\ngrace = '1h'\nwindow = '1h'",
    ));
    let mut proxy = file.proxy();
    assert_eq!(ask(&mut connect(proxy.address)), void(1));
    assert!(!proxy.log().contains("connection opened"), "{}", proxy.log());

    let (report, snapshots) = (file.below("report.json"), file.below("snapshots"));
    let more = format!(
        "name = 'after'\ngrace = '0s'\nwindow = '100ms'\nreport = '{report}'\nsnapshot-dir = '{snapshots}'"
    );
    file.write(&format!("log = 'debug'\n{}", settings(node.address, &more)));
    proxy.signal("HUP");
    proxy.wait_for_log("settings read again, in force");
    let mut client = connect(proxy.address);
    assert_eq!(ask(&mut client), void(1));
    proxy.wait_for_log("connection opened");
    let deadline = Instant::now() + LIMIT;
    let written = |ending: &str| {
        let names = fs::read_dir(&snapshots).unwrap();
        names
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().ends_with(ending))
    };
    // The window that was begun before keeps its name.
    while !(written("-after.cqlens.json") && written("-before.cqlens.json")) {
        assert!(Instant::now() < deadline, "{}", proxy.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(written("hash.key"));
    let reported = crate::wire::report(report.as_ref());
    // Over everything since the start, not since the reload.
    assert!(
        reported["coverage"]["requests"].as_u64().unwrap() >= 1,
        "{reported}"
    );
    // Nobody waits for an hour.
    assert_eq!(proxy.stop(LIMIT).code, 0);
}
