//! `packaging/archive.sh`: what is in its archive, and that it is the same each time.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::packages::{checkout, printed};

/// Runs a script of `packaging`, with what it makes in a folder, and returns what it prints.
pub(crate) fn script(name: &str, arguments: &[&str], folder: &Path, path: &str) -> String {
    let script = &mut Command::new("sh");
    script
        .arg(checkout().join("packaging").join(name))
        .args(arguments);
    script.env("CARGO_TARGET_DIR", folder).env("PATH", path);
    printed(script.env("CQLENS_ARCHIVE_DIR", folder.join("archive")))
}

/// The archive of a program that stands for cqlens, which takes seconds to compress, and calls it.
pub(crate) fn archive(folder: &Path) -> PathBuf {
    let program = folder.join("debug/cqlens");
    fs::create_dir_all(folder.join("debug")).unwrap();
    let calls = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_cqlens"));
    fs::write(&program, calls).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    PathBuf::from(script("archive.sh", &["debug"], folder, &path).trim())
}

#[test]
fn an_archive_has_the_program_and_what_its_readers_need() {
    let folder = tempfile::tempdir().unwrap();
    let pack = || {
        let archive = archive(folder.path());
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

    let listed = printed(Command::new("tar").arg("-tzf").arg(&archive));
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
