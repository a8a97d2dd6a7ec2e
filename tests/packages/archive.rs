//! What is shipped: `packaging/archive.sh`, what is in its archive, and that it is the same each time; and the container's recipe.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};

use crate::page::checkout;

fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(checkout())
        .env("CARGO_TARGET_DIR", folder)
        .env("CQLENS_ARCHIVE_DIR", folder.join("archive"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_archive_has_the_program_and_what_its_readers_need() {
    let folder = tempfile::tempdir().unwrap();
    // Stands for the program, which takes seconds to compress, and calls it.
    let program = folder.path().join("debug/cqlens");
    fs::create_dir(folder.path().join("debug")).unwrap();
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_cqlens"));
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();

    let pack = || {
        let printed = run("sh", &["packaging/archive.sh", "debug"], folder.path());
        let archive = Path::new(printed.trim()).to_owned();
        let sum = fs::read_to_string(format!("{}.sha256", archive.display())).unwrap();
        (archive, sum)
    };
    let (archive, sum) = pack();
    let name = archive.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with(concat!("cqlens-", env!("CARGO_PKG_VERSION"), "-")) && name.ends_with(".tar.gz"),
        "{name}"
    );
    assert!(sum.ends_with(&format!("  {name}\n")), "{sum}");
    assert_eq!(pack().1, sum, "the same program makes the same archive");

    let listed = run("tar", &["-tzf", archive.to_str().unwrap()], folder.path());
    let top = name.trim_end_matches(".tar.gz");
    for file in [
        "cqlens",
        "LICENSE",
        "README.md",
        "docs/proxy.md",
        "examples/deploy/cqlens.service",
        "completions/cqlens.bash",
        "man/cqlens-proxy.1",
    ] {
        assert!(
            listed.lines().any(|line| line == format!("{top}/{file}")),
            "{file}: {listed}"
        );
    }
}

#[test]
fn the_container_is_built_with_the_pinned_toolchain_and_runs_as_nobody() {
    let read = |name: &str| fs::read_to_string(checkout().join(name)).unwrap();
    let pinned = read("rust-toolchain.toml");
    let version = pinned
        .lines()
        .find_map(|line| line.strip_prefix("channel = "))
        .unwrap();
    let recipe = read("packaging/Dockerfile");
    let base = format!("FROM rust:{}-alpine AS build", version.trim_matches('"'));
    assert!(recipe.lines().any(|line| line == base), "{base}");
    let (_, shipped) = recipe.split_once("FROM scratch\n").unwrap();
    assert!(
        shipped.contains("USER 65532:65532") && !shipped.contains("RUN "),
        "{shipped}"
    );
}
