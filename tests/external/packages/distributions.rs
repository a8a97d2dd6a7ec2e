//! The packages for Debian and Red Hat: what they install and where, and that they are the same each time.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use cqlens_testing::{Missing, available, tools};

use crate::packages::{
    archive::{archive, script},
    judged, printed,
};

const MODULE: &str = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4";

/// What is in both, and where: `{MAN}` and others are named by each distribution.
const FILES: &[&str] = &[
    "/usr/bin/cqlens",
    "/etc/cqlens/cqlens.toml",
    "/usr/lib/systemd/system/cqlens.service",
    "/usr/lib/systemd/system/cqlens.socket",
    "/usr/lib/systemd/system/cqlens-sniff.timer",
    "/usr/lib/systemd/system/cqlens-weekly.service",
    "/usr/share/bash-completion/completions/cqlens",
    "/usr/share/fish/vendor_completions.d/cqlens.fish",
    "/usr/share/man/man1/cqlens.1.gz",
    "/usr/share/man/man1/cqlens-proxy.1.gz",
    "/usr/share/doc/cqlens/docs/operations.md",
    "/usr/share/doc/cqlens/copyright",
];

struct Packages {
    folder: tempfile::TempDir,
    deb: PathBuf,
    rpm: PathBuf,
}

fn packages() -> Result<Packages, Missing> {
    let nfpm = tools::of_go(MODULE)?;
    let folder = tempfile::tempdir().unwrap();
    archive(folder.path());
    let path = format!(
        "{}:{}",
        nfpm.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let made = script("packages.sh", &[], folder.path(), &path);
    let file = |ending: &str| made.lines().find(|line| line.ends_with(ending)).unwrap().into();
    let (deb, rpm) = (file(".deb"), file(".rpm"));
    Ok(Packages { folder, deb, rpm })
}

fn sum(package: &Path) -> String {
    fs::read_to_string(format!("{}.sha256", package.display())).unwrap()
}

fn assert_has(listed: &str, files: &[&str]) {
    for file in files {
        let found = listed.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.any(|word| word.trim_start_matches('.').trim_start_matches('/') == &file[1..])
        });
        assert!(found, "{file} is missing:\n{listed}");
    }
}

#[test]
fn they_install_the_program_its_units_pages_and_completions() {
    let Some(packages) = available("packages of distributions", packages()) else {
        return;
    };
    let rpm = judged("rpmfile==2.1.0", "rpmfile", &["--list"], &packages.rpm).unwrap();
    assert!(rpm.status.success(), "{rpm:?}");
    let listed = String::from_utf8(rpm.stdout).unwrap();
    assert_has(&listed, FILES);
    assert_has(&listed, &["/usr/share/zsh/site-functions/_cqlens"]);

    let deb = |argument: &str| printed(Command::new("dpkg-deb").arg(argument).arg(&packages.deb));
    if available("dpkg", cqlens_testing::program("dpkg-deb")).is_none() {
        return;
    }
    let listed = deb("--contents");
    assert_has(&listed, FILES);
    assert_has(&listed, &["/usr/share/zsh/vendor-completions/_cqlens"]);
    for file in listed.lines() {
        assert!(file.contains(" root/root ") || file.contains(" 0/0 "), "{file}");
    }
    let said = deb("--info");
    assert!(
        said.contains(concat!("Version: ", env!("CARGO_PKG_VERSION"))),
        "{said}"
    );
    assert!(said.contains("conffiles"), "{said}");

    // What the units run is where the package puts the program.
    let root = packages.folder.path().join("root");
    printed(
        Command::new("dpkg-deb")
            .arg("--extract")
            .arg(&packages.deb)
            .arg(&root),
    );
    for unit in fs::read_dir(root.join("usr/lib/systemd/system")).unwrap() {
        let text = fs::read_to_string(unit.unwrap().path()).unwrap();
        assert!(!text.contains("/usr/local/bin"), "{text}");
    }
}

#[test]
fn they_are_the_same_each_time() {
    let Some(first) = available("packages of distributions", packages()) else {
        return;
    };
    let second = packages().unwrap();
    assert_eq!(sum(&first.deb), sum(&second.deb));
    assert_eq!(sum(&first.rpm), sum(&second.rpm));
}

/// A new version stops nothing; and the end of the package is the end of the service.
#[test]
fn an_update_does_not_stop_what_runs() {
    let read =
        |name: &str| fs::read_to_string(crate::packages::checkout().join("packaging").join(name)).unwrap();
    for name in ["after-install.sh", "before-remove.sh", "after-remove.sh"] {
        printed(Command::new("sh").args(["-n", "-c", &read(name)]));
    }
    // Where systemd does not run, and for an update, there is nothing to do.
    let ran = |argument: &str| {
        let folder = tempfile::tempdir().unwrap();
        let calls = folder.path().join("calls");
        let systemctl = format!("#!/bin/sh\necho \"$*\" >>'{}'\n", calls.display());
        let program = folder.path().join("systemctl");
        fs::write(&program, systemctl).unwrap();
        printed(Command::new("chmod").arg("+x").arg(&program));
        let script = read("before-remove.sh").replace("/run/systemd/system", folder.path().to_str().unwrap());
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        printed(
            Command::new("sh")
                .args(["-c", &script, "before-remove", argument])
                .env("PATH", path),
        );
        fs::read_to_string(calls).unwrap_or_default()
    };
    // dpkg's and rpm's words for it.
    for update in ["upgrade", "1"] {
        assert_eq!(ran(update), "", "{update}");
    }
    for removal in ["remove", "0"] {
        assert!(
            ran(removal).contains("disable --now cqlens.socket cqlens.service"),
            "{removal}"
        );
    }
}
