//! In which order the files of a folder are explained, and which are left out: as migration tools apply them.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// Puts the files of one folder, and of those in it, in the order of their migrations.
///
/// With a `bootstrap.cql` that is cqlmigrate's: that one, then the others by name. Else versions count: those of folders
/// (`v1.2/a.cql` before `v1.10/b.cql`), then those of files (`V1__a`, `V1.10__b`, `002_c`, `10_d`, `v3_e`), whose numbers are
/// compared as such; Flyway's do not depend on folders. Then come files without a version by name, and last what is
/// repeatable (`R__f`).
pub(super) fn sort(files: &mut [PathBuf]) {
    if files.iter().any(|file| is_bootstrap(file)) {
        files.sort_by(|left, right| {
            let bootstrap_first = is_bootstrap(right).cmp(&is_bootstrap(left));
            bootstrap_first.then_with(|| left.cmp(right))
        });
    } else {
        files.sort();
        files.sort_by_cached_key(|file| Turn::of(file));
    }
}

/// Whether a file takes back a migration, and is not applied with the others: Flyway's `U1__a.cql`, `1_a.down.cql`, or
/// `1_a_down.cql` and `down.cql` if the file that they take back `is_there`.
pub(super) fn is_undo(file: &Path, is_there: impl Fn(&Path) -> bool) -> bool {
    stem(file).ends_with(".down")
        || flyway_version(stem(file), &['U']).is_some()
        || applied_by(file).is_some_and(|applied| is_there(&applied))
}

/// The file that applies what this one takes back: `1_a.up.cql` of `1_a.down.cql`, `V1__a.cql` of `U1__a.cql`.
pub(super) fn applied_by(file: &Path) -> Option<PathBuf> {
    let stem = stem(file);
    let applied = match flyway_version(stem, &['U']) {
        Some(_) => format!("V{}", &stem[1..]),
        None => {
            let migration = stem.strip_suffix("down")?;
            let is_word = migration.is_empty() || migration.ends_with(['.', '_', '-']);
            is_word.then(|| format!("{migration}up"))?
        }
    };
    let extension = file.extension().map(|extension| extension.to_string_lossy());
    Some(file.with_file_name(match extension {
        Some(extension) => format!("{applied}.{extension}"),
        None => applied,
    }))
}

/// Whether a file is in a folder that stands for many versions at once (Cadence's `s0.0-0.23`, which a new cluster begins
/// with in place of `v0.1` to `v0.23`).
pub(super) fn is_of_shortcut(file: &Path) -> bool {
    let is_version = |text: &str| leading_version(text).is_some() && !text.contains(['_', ' ']);
    let mut folders = file.parent().into_iter().flat_map(Path::components);
    folders.any(|folder| {
        let name = folder
            .as_os_str()
            .to_str()
            .and_then(|name| name.strip_prefix('s'));
        let versions = name.and_then(|versions| versions.split_once('-'));
        versions.is_some_and(|(from, to)| is_version(from) && is_version(to))
    })
}

fn is_bootstrap(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "bootstrap.cql")
}

/// The name without its extension.
fn stem(file: &Path) -> &str {
    file.file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default()
}

/// When a file is due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    phase: Phase,
    /// Of its folders, the outermost first.
    folders: Vec<VersionNumber>,
    has_no_version: bool,
    version: Vec<VersionNumber>,
    path: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Versioned,
    ByName,
    Repeatable,
}

impl Turn {
    fn of(file: &Path) -> Self {
        let stem = stem(file);
        let of_flyway = flyway_version(stem, &['V', 'B']);
        let folders = match of_flyway {
            Some(_) => Vec::new(),
            None => versions_of_folders(file),
        };
        let version = of_flyway.or_else(|| leading_version(stem));
        let phase = match version {
            _ if stem.starts_with("R__") => Phase::Repeatable,
            None if folders.is_empty() => Phase::ByName,
            _ => Phase::Versioned,
        };
        let has_no_version = version.is_none();
        let mut version = version.unwrap_or_default();
        // 1 and 1.0 are the same version.
        while version.last().is_some_and(|part| part.0.is_empty()) {
            version.pop();
        }
        let components = file.components();
        Self {
            phase,
            folders,
            has_no_version,
            version,
            path: components
                .map(|part| pieces(&part.as_os_str().to_string_lossy()))
                .collect(),
        }
    }
}

fn versions_of_folders(file: &Path) -> Vec<VersionNumber> {
    let folders = file.parent().into_iter().flat_map(Path::components);
    let names = folders.filter_map(|folder| folder.as_os_str().to_str());
    names.filter_map(leading_version).flatten().collect()
}

/// `1.10` or `1_10` of `V1.10__name`, with one of the prefixes.
fn flyway_version(stem: &str, prefixes: &[char]) -> Option<Vec<VersionNumber>> {
    let (version, _) = stem.strip_prefix(prefixes)?.split_once("__")?;
    version.split(['.', '_']).map(VersionNumber::of).collect()
}

/// `001` of `001_name`, `1.10` of `v1.10` or `1.10-name`.
fn leading_version(name: &str) -> Option<Vec<VersionNumber>> {
    let name = name.strip_prefix(['v', 'V']).unwrap_or(name);
    let end = name.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let version = name[..end.unwrap_or(name.len())].trim_end_matches('.');
    let rest = &name[version.len()..];
    let is_whole = rest.is_empty() || rest.starts_with(['_', '-', '.', ' ']);
    let numbers: Option<Vec<_>> = version.split('.').map(VersionNumber::of).collect();
    numbers.filter(|_| is_whole)
}

/// A part of a name: numbers are compared as such.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Number(VersionNumber),
    Text(String),
}

fn pieces(name: &str) -> Vec<Piece> {
    let runs = name
        .as_bytes()
        .chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit());
    runs.map(|run| {
        let run = String::from_utf8_lossy(run);
        VersionNumber::of(&run).map_or_else(|| Piece::Text(run.into_owned()), Piece::Number)
    })
    .collect()
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

    /// That the names, which are in order, are put in that order.
    fn assert_order(names: &[&str]) {
        let mut files: Vec<_> = names.iter().rev().map(PathBuf::from).collect();
        sort(&mut files);
        let sorted: Vec<_> = files
            .iter()
            .map(|file| file.to_str().unwrap_or_default())
            .collect();
        assert_eq!(sorted, names);
    }

    #[test]
    fn numbers_of_versions_count_and_what_is_repeatable_comes_last() {
        assert_order(&[
            "m/x/V1__a.cql",
            "m/V1.9__b.cql",
            "m/V1.10__c.cql",
            "m/V2__e.cql",
            "m/V2_1__d.cql",
            "m/R__views.cql",
        ]);
        assert_order(&[
            "001_a.cql",
            "002_b.cql",
            "v3_e.cql",
            "10_c.cql",
            "20260102030405006007008_d.cql",
            "notes.cql",
        ]);
    }

    #[test]
    fn versions_of_folders_count_before_those_of_files() {
        assert_order(&[
            "versioned/v1.2/002_b.cql",
            "versioned/v1.2/b.cql",
            "versioned/v1.10/001_a.cql",
            "versioned/v1.10/a.cql",
            "versioned/v1.10-hotfix/a.cql",
            "versioned/v2/a.cql",
            "views/a.cql",
        ]);
        assert_order(&["release-2/a.cql", "release-10/a.cql", "step2.cql", "step10.cql"]);
        assert_order(&["2020/7_a.cql", "2020/10_b.cql", "2021/1_c.cql"]);
    }

    #[test]
    fn a_folder_for_many_versions_is_known() {
        let is = |path: &str| is_of_shortcut(Path::new(path));
        assert!(is("versioned/s0.0-0.23/schema.cql"));
        for other in [
            "versioned/v0.1/a.cql",
            "s3-1/a/b-2.cql",
            "sales-2/a.cql",
            "s0.0/a.cql",
            "s0.0-x/a.cql",
        ] {
            assert_eq!(is(other), other.starts_with("s3-1"), "{other}");
        }
    }

    #[test]
    fn with_a_bootstrap_names_count() {
        assert_order(&["m/bootstrap.cql", "m/10.cql", "m/9.cql", "m/a.cql"]);
        assert_order(&["m/a.cql", "m/b.cql"]);
    }

    #[test]
    fn what_takes_back_a_migration_is_known_by_its_name_or_by_what_is_beside_it() {
        let alone = |name: &str| is_undo(Path::new(name), |_| false);
        let beside = |name: &str, other: &str| is_undo(Path::new(name), |path| path == Path::new(other));
        assert!(alone("U1__a.cql") && alone("m/000001_t.down.cql"));
        for other in [
            "Users__a.cql",
            "count_down.cql",
            "down.cql",
            "1_t.up.cql",
            "breakdown.cql",
        ] {
            assert!(!alone(other), "{other}");
        }
        assert!(beside("m/1_t_down.cql", "m/1_t_up.cql"));
        assert!(beside("m/1-t/down.cql", "m/1-t/up.cql"));
        assert!(beside("m/1_t.down.sql", "m/1_t.up.sql"));
        assert!(!beside("m/breakdown.cql", "m/breakup.cql"));
        assert_eq!(
            applied_by(Path::new("m/U1__a.cql")),
            Some(PathBuf::from("m/V1__a.cql"))
        );
    }
}
