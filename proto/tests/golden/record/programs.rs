//! The programs whose sessions are recorded: real drivers, built or installed once into the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Missing, cache};

/// The command of a driver's program, without its arguments.
pub(crate) fn program(driver: &str) -> Result<Vec<String>, Missing> {
    match driver {
        "python" => python(),
        "gocql" => go(),
        "java" => java(),
        _ => rust(),
    }
}

fn python() -> Result<Vec<String>, Missing> {
    let requirements = source().join("../../../../tests/cassandra/python/requirements.txt");
    let recipe =
        std::fs::read_to_string(&requirements).expect("the requirements are a file of the repository");
    let environment = cache::folder("python", &recipe, |folder| {
        cache::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(["install", "--no-input", "--quiet", "--requirement"])
            .arg(&requirements);
        cache::run(&mut pip).map(|_| ())
    })?;
    Ok(vec![
        text(&environment.join("bin/python")),
        text(&source().join("python/session.py")),
    ])
}

fn go() -> Result<Vec<String>, Missing> {
    let folder = cache::root().join("golden-go");
    let mut build = Command::new("go");
    build
        .args(["build", "-o"])
        .arg(folder.join("session"))
        .arg(".")
        .current_dir(source().join("go"));
    cache::run(&mut build)?;
    Ok(vec![text(&folder.join("session"))])
}

fn java() -> Result<Vec<String>, Missing> {
    let source = source().join("java");
    let pom = include_str!("java/pom.xml");
    let folder = cache::folder("golden-java", pom, |folder| {
        std::fs::write(folder.join("pom.xml"), pom).expect("the cache is writable");
        let mut maven = Command::new("mvn");
        maven.args([
            "--batch-mode",
            "--quiet",
            "--no-transfer-progress",
            "dependency:copy-dependencies",
        ]);
        maven
            .args(["-DincludeScope=runtime", "-DoutputDirectory=lib"])
            .current_dir(folder);
        cache::run(&mut maven).map(|_| ())
    })?;
    // Java compiles a program of one file by itself.
    Ok(vec![
        "java".into(),
        "-cp".into(),
        text(&folder.join("lib/*")),
        text(&source.join("Session.java")),
    ])
}

fn rust() -> Result<Vec<String>, Missing> {
    let target = cache::root().join("golden-rust");
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--quiet", "--target-dir"])
        .arg(&target)
        .current_dir(source().join("rust"));
    cache::run(&mut build)?;
    Ok(vec![text(&target.join("debug/golden-session"))])
}

/// Where they are.
pub(crate) fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/tests/golden/record")
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> String {
    path.to_str()
        .expect("the paths of a checkout and its cache are text")
        .to_owned()
}
