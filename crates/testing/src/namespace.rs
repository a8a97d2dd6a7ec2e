//! Networks and lists of users of a test's own, which `unshare` makes: where rules of the kernel can be
//! changed, and processes can be anybody's.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::Missing;
use super::cache;

/// The rules of `examples/deploy`.
pub const NFTABLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/deploy/redirect.nft");
pub const IPTABLES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/deploy/redirect-iptables.sh"
);

/// The user `cqlens`, which the rules name.
pub const CQLENS: u32 = 4242;

/// How a process gets a network and a list of users of its own, and may be any user there: what root can do,
/// and what others can who have been lent further users (`/etc/subuid`).
const WAYS: [&[&str]; 2] = [
    &["--net", "--mount"],
    &["--user", "--map-root-user", "--map-auto", "--net", "--mount"],
];

/// What makes `unshare` start a process in a network of its own, as one of several users.
///
/// # Errors
/// [`Missing`] where this machine lets nobody be that.
pub fn with_users() -> Result<&'static [&'static str], Missing> {
    let as_another = [
        "setpriv",
        "--reuid=4242",
        "--regid=4242",
        "--clear-groups",
        "true",
    ];
    let works = |way: &&&[&str]| run_all(&[("unshare", &[**way, &as_another].concat())]).is_ok();
    let missing = || Missing("`unshare` and `setpriv` let nobody be another user here".to_owned());
    WAYS.iter().find(works).copied().ok_or_else(missing)
}

/// Runs a test of this binary, which is ignored otherwise, where it can change the rules of the network.
///
/// # Panics
/// If it fails, with what it says.
pub fn in_a_network_of_its_own(test: &str) {
    run_inside(&["--user", "--map-root-user", "--net"], test);
}

/// Runs a test of this binary, which is ignored otherwise, below `unshare` with these flags; returns what it
/// printed.
///
/// # Panics
/// If it fails, with what it says.
pub fn run_inside(flags: &[&str], test: &str) -> String {
    let mut unshare = Command::new("unshare");
    unshare.args(flags).arg(std::env::current_exe().unwrap());
    run_with(unshare, test)
}

/// Runs an ignored test of this binary in a process in which no other test runs, and returns what it prints.
///
/// # Panics
/// If it fails.
pub fn run_alone(test: &str) -> String {
    run_with(Command::new(std::env::current_exe().unwrap()), test)
}

fn run_with(mut program: Command, test: &str) -> String {
    let output = program
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(cache::INSIDE, test.replace("::", "-"))
        .output()
        .unwrap();
    let [said, complaints] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{complaints}"
    );
    said
}

/// Whether all of these programs run here.
///
/// # Errors
/// [`Missing`] with the first that does not.
pub fn run_all(programs: &[(&str, &[&str])]) -> Result<(), Missing> {
    for &(program, arguments) in programs {
        let ran = Command::new(program).args(arguments).output();
        if !ran.is_ok_and(|output| output.status.success()) {
            return Err(Missing(format!(
                "`{program} {}` does not run",
                arguments.join(" ")
            )));
        }
    }
    Ok(())
}

/// # Panics
/// If the command fails.
pub fn run(command: &str) {
    let words: Vec<_> = command.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
}

/// What a command begins with to be one of `user`.
pub fn as_user(user: u32) -> Vec<String> {
    vec![
        "setpriv".to_owned(),
        format!("--reuid={user}"),
        format!("--regid={user}"),
        "--clear-groups".to_owned(),
    ]
}

/// A list of users with `cqlens` in it, in place of the machine's, and cqlens as a program of that user.
pub struct Users {
    folder: TempDir,
}

impl Users {
    /// `program` is `env!("CARGO_BIN_EXE_cqlens")`, which is copied to where every user can reach it.
    ///
    /// # Panics
    /// If this process has no list of users of its own.
    pub fn with_cqlens(program: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let list = format!("root:x:0:0::/:/bin/sh\ncqlens:x:{CQLENS}:{CQLENS}::/:/bin/sh\n");
        fs::write(path("passwd"), list).unwrap();
        run(&format!("mount --bind {} /etc/passwd", path("passwd").display()));
        fs::copy(program, path("cqlens")).unwrap();
        let become_cqlens = as_user(CQLENS).join(" ");
        let script = format!(
            "#!/bin/sh\nexec {become_cqlens} {} \"$@\"\n",
            path("cqlens").display()
        );
        fs::write(path("as-cqlens"), script).unwrap();
        fs::set_permissions(path("as-cqlens"), Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    /// What runs the program as the user `cqlens`.
    pub fn cqlens(&self) -> PathBuf {
        self.path().join("as-cqlens")
    }

    /// A folder that everybody can read, which goes with this.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}
