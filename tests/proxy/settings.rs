//! Settings out of a file: which of them are in force, what is printed, what is refused.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Command, Output},
};

use cqlens_testing::proxy::Proxy;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

/// A file of settings in a folder of its own.
pub(crate) struct File {
    pub(crate) folder: tempfile::TempDir,
}

impl File {
    pub(crate) fn new(text: &str) -> Self {
        let file = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        file.write(text);
        file
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("cqlens.toml")
    }

    pub(crate) fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    pub(crate) fn below(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// A proxy with these settings and no arguments.
    pub(crate) fn proxy(&self) -> Proxy {
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

pub(crate) fn printed(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = run(arguments, environment);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
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
        "sequence-budget = \"on\"  # default",
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
fn the_examples_of_deployments_are_understood() {
    for name in ["cqlens.toml", "cluster.toml"] {
        let example = format!("{}/examples/deploy/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = printed(&["proxy", "--config", &example, "--print-config"], &[]);
        for line in fs::read_to_string(&example).unwrap().lines() {
            if line.contains(" = ") && !line.starts_with('#') {
                assert!(
                    text.contains(&format!("{line}  # file: {example}")),
                    "{line}\n{text}"
                );
            }
        }
    }
}

/// The settings of the service, in folders of this test's.
#[test]
fn the_settings_of_the_service_pass_a_check_and_its_reload_makes_one() {
    let deploy = |name: &str| {
        let path = format!("{}/examples/deploy/{name}", env!("CARGO_MANIFEST_DIR"));
        fs::read_to_string(path).unwrap()
    };
    let folder = File::new("secret\n");
    let state = folder.below("");
    let password = folder.path().display().to_string();
    let settings = deploy("cqlens.toml")
        .replace("/var/lib/cqlens/", &state)
        .replace("# username", "username")
        .replace("# password-file", "password-file")
        .replace("/run/credentials/cqlens.service/password", &password);
    assert!(
        settings.contains(&format!("\npassword-file = \"{password}\"\n")),
        "{settings}"
    );
    let settings = File::new(&settings);
    let output = run(
        &["proxy", "--check", "--config", settings.path().to_str().unwrap()],
        &[],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    let unit = deploy("cqlens.service");
    let commands = |what: &str| -> Vec<String> {
        let lines = unit.lines().filter_map(|line| line.strip_prefix(what));
        lines.map(ToOwned::to_owned).collect()
    };
    let start = commands("ExecStart=");
    assert_eq!(
        commands("ExecReload="),
        [
            start[0].replace(" proxy ", " proxy --check "),
            "/bin/kill -HUP $MAINPID".to_owned()
        ]
    );
}

#[test]
fn a_check_opens_the_files_and_binds_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let file = File::new("");
    let snapshots = file.below("snapshots");
    let check = ["proxy", "--check", "--listen", &listen];
    let fine = ["--upstream", "127.0.0.1", "--snapshot-dir", &snapshots];
    let output = run(&[&check[..], &fine].concat(), &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"The settings are valid.\n");
    assert!(!fs::exists(snapshots).unwrap(), "nothing is written");
}

#[test]
fn a_check_tells_all_faults_at_once() {
    let file = File::new("");
    let missing = |name: &str| file.below(name);
    let wrong = [
        ["--upstream", "no-such-host.invalid"],
        ["--schema", &missing("schema.cql")],
        ["--client-tls-cert", &missing("client.crt")],
        ["--client-tls-key", &missing("client.key")],
        ["--upstream-tls-ca", &missing("authorities.crt")],
        ["--username", "cqlens"],
        ["--password-file", &missing("password")],
        ["--report", &missing("no/report.html")],
        ["--snapshot-dir", &missing("cqlens.toml/snapshots")],
        ["--hash-key-file", &missing("cqlens.toml")],
        ["--state-file", &missing("state")],
    ];
    let output = run(&[&["proxy", "--check"], &wrong.concat()[..]].concat(), &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = said.lines().collect();
    let expected = [
        "state-file: only valid with topology = cluster",
        "cannot read the password file ",
        "cannot read the schema file ",
        "cannot write the report to ",
        "cqlens.toml is not a folder",
        "32 hex digits",
        "client.crt",
        "authorities.crt",
        "cannot resolve no-such-host.invalid:9042: ",
    ];
    assert_eq!(lines.len(), expected.len(), "{said}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(
            line.starts_with("cqlens: ") && line.contains(expected),
            "{expected}\n{said}"
        );
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
        said.contains(&format!(
            "{}:3:1: windwo: no such setting; is it `window`?",
            path.display()
        )),
        "{said}"
    );
    // Something that is missing is said as clap says it.
    let output = run(&["proxy"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--upstream"));
}
