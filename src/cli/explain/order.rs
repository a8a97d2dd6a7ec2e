//! In which order the files of a folder are explained: that in which migration tools apply them.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// Puts the files of one folder, and of those in it, in the order of their migrations.
///
/// With a `bootstrap.cql` that is cqlmigrate's: that one, then the others by name. Else numbers count, as Flyway and
/// cassandra-migration have it: `V1__a`, `V1.10__b`, `002_c`, `10_d`; then files without a number by name; what is
/// repeatable (`R__e`) comes last.
pub(super) fn sort(files: &mut [PathBuf]) {
    let by_name = files.iter().any(|file| is_bootstrap(file));
    files.sort_by(|left, right| {
        let order = match by_name {
            true => is_bootstrap(right).cmp(&is_bootstrap(left)),
            false => Turn::of(left).cmp(&Turn::of(right)),
        };
        order.then_with(|| left.cmp(right))
    });
}

/// Whether a file takes back a migration, and is not applied with the others (Flyway's `U1__a.cql`).
pub(super) fn is_undo(file: &Path) -> bool {
    name(file).strip_prefix('U').and_then(flyway_version).is_some()
}

fn is_bootstrap(file: &Path) -> bool {
    name(file) == "bootstrap.cql"
}

fn name(file: &Path) -> &str {
    file.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

/// When a file is due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Version(Vec<VersionNumber>),
    ByName,
    Repeatable,
}

impl Turn {
    fn of(file: &Path) -> Self {
        let name = name(file);
        if name.starts_with("R__") {
            return Self::Repeatable;
        }
        let version = name
            .strip_prefix(['V', 'B'])
            .and_then(flyway_version)
            .or_else(|| leading_number(name));
        version.map_or(Self::ByName, |mut parts| {
            // 1 and 1.0 are the same version.
            while parts.last().is_some_and(|part| part.0.is_empty()) {
                parts.pop();
            }
            Self::Version(parts)
        })
    }
}

/// `1.10` or `1_10` of `1.10__name`.
fn flyway_version(name: &str) -> Option<Vec<VersionNumber>> {
    let (version, _) = name.split_once("__")?;
    version.split(['.', '_']).map(VersionNumber::of).collect()
}

/// `001` of `001_name` or `001-name`.
fn leading_number(name: &str) -> Option<Vec<VersionNumber>> {
    let end = name.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, rest) = name.split_at(end);
    let number = VersionNumber::of(number)?;
    rest.starts_with(['_', '-', '.']).then(|| vec![number])
}

/// A whole number of any length, without leading zeros: dates with times are versions too.
#[derive(Debug, Clone, PartialEq, Eq)]
struct VersionNumber(String);

impl VersionNumber {
    fn of(digits: &str) -> Option<Self> {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| Self(digits.trim_start_matches('0').to_owned()))
    }
}

impl Ord for VersionNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        let (left, right) = (&self.0, &other.0);
        left.len().cmp(&right.len()).then_with(|| left.cmp(right))
    }
}

impl PartialOrd for VersionNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(names: &[&str]) -> Vec<String> {
        let mut files: Vec<_> = names.iter().map(PathBuf::from).collect();
        sort(&mut files);
        files.iter().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn numbers_of_versions_count_and_what_is_repeatable_comes_last() {
        assert_eq!(
            sorted(&[
                "m/R__views.cql",
                "m/V1.10__c.cql",
                "m/V1.9__b.cql",
                "m/x/V1__a.cql",
                "m/V2_1__d.cql",
                "m/V2__e.cql"
            ]),
            [
                "m/x/V1__a.cql",
                "m/V1.9__b.cql",
                "m/V1.10__c.cql",
                "m/V2__e.cql",
                "m/V2_1__d.cql",
                "m/R__views.cql"
            ]
        );
        assert_eq!(
            sorted(&[
                "10_c.cql",
                "002_b.cql",
                "001_a.cql",
                "notes.cql",
                "20260102030405006007008_d.cql"
            ]),
            [
                "001_a.cql",
                "002_b.cql",
                "10_c.cql",
                "20260102030405006007008_d.cql",
                "notes.cql"
            ]
        );
        assert!(is_undo(Path::new("U1__a.cql")) && !is_undo(Path::new("Users__a.cql")));
    }

    #[test]
    fn with_a_bootstrap_names_count() {
        assert_eq!(
            sorted(&["m/9.cql", "m/10.cql", "m/bootstrap.cql", "m/a.cql"]),
            ["m/bootstrap.cql", "m/10.cql", "m/9.cql", "m/a.cql"]
        );
        assert_eq!(sorted(&["m/b.cql", "m/a.cql"]), ["m/a.cql", "m/b.cql"]);
    }
}
