//! Cassandra's jars, fetched once by Maven from the `pom.xml` beside this file.

use std::path::PathBuf;
use std::process::Command;

use super::super::{Missing, cache};

const POM: &str = include_str!("pom.xml");

/// The class path of a Cassandra node: every jar of one cache folder.
///
/// # Errors
/// [`Missing`] where there is no `java` or no `mvn`.
pub(super) fn class_path() -> Result<String, Missing> {
    let version = Command::new("java").arg("-version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Err(Missing("`java` (JDK 17) was not found".to_owned()));
    }
    let folder = cache::folder("cassandra", POM, |folder| {
        std::fs::write(folder.join("pom.xml"), POM).unwrap();
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
        cache::run(&mut maven).map(|_| ())
    })?;
    Ok(jars(folder.join("lib")))
}

/// The wildcard form keeps the command line short; its order does not matter, the jars do not overlap.
fn jars(folder: PathBuf) -> String {
    folder.join("*").to_string_lossy().into_owned()
}
