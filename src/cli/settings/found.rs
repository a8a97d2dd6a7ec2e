//! The file of settings that belongs to the working directory, for commands that judge what a team has in a repository.
//!
//! As formatters and linters have it: `cqlens.toml` in the working directory or the nearest folder above it, up to the
//! root of the repository. Commands that carry traffic read no file that was not named.
//!
//! A checkout may be another's, and nobody has said that its file is to be trusted. So such a file sets how things are judged
//! and shown ([`ALLOWED`]): no host, no credentials, no command, no file outside of its folder.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

use super::file::FileEntry;

/// The commands that look for it.
pub(super) const COMMANDS: &[&str] = &["report", "diff", "explain", "rules"];

const NAME: &str = "cqlens.toml";

/// The file in `folder`, or in the nearest folder above it. The search ends at the root of a repository, at `home`, and at
/// the root of the file system.
///
/// A file that belongs neither to the user that runs, nor to root, nor to the owner of `folder` is passed to `passed_over` and not
/// used: everybody can put one into `/tmp`, above the folders of others. The owner of `folder` counts because in a container root
/// runs in a checkout that belongs to a user outside.
pub(super) fn upwards(
    folder: &Path,
    home: Option<&Path>,
    mut passed_over: impl FnMut(&Path),
) -> Option<PathBuf> {
    let mut ours = vec![0, rustix::process::geteuid().as_raw()];
    ours.extend(fs::metadata(folder).map(|metadata| metadata.uid()));
    for folder in folder.ancestors() {
        let file = folder.join(NAME);
        match file.is_file() {
            true if belongs_to(&ours, &file) => return Some(file),
            true => passed_over(&file),
            false => {}
        }
        if folder.join(".git").exists() || Some(folder) == home {
            return None;
        }
    }
    None
}

/// Whether a file, and a link that leads to it, belong to these users.
fn belongs_to(users: &[u32], file: &Path) -> bool {
    let belongs =
        |metadata: io::Result<fs::Metadata>| metadata.is_ok_and(|metadata| users.contains(&metadata.uid()));
    belongs(fs::symlink_metadata(file)) && belongs(fs::metadata(file))
}

/// What a setting may be if the file that sets it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileReach {
    /// Anything: it judges, selects or shows.
    Free,
    /// A level of the log that shows no less than the default: the file must not hide that it is in force.
    Level,
    /// A file that is read, in the folder of the settings or below.
    Input,
    /// A file that is written, likewise; none whose path has a part that begins with a dot, such as `.git`.
    Output,
}

/// The settings that a file that was found may have, by table; above all tables where there is no name. All others are refused.
const ALLOWED: &[(&str, FileReach, &[&str])] = &[
    ("", FileReach::Free, &["log-format", "color"]),
    ("", FileReach::Level, &["log"]),
    (
        "report",
        FileReach::Free,
        &[
            "format",
            "keyspace",
            "table",
            "client",
            "rule",
            "min-severity",
            "top",
            "by-table",
            "fail-on",
            "fail-on-new",
            "strict",
            "since",
            "until",
            "cluster",
        ],
    ),
    ("report", FileReach::Input, &["baseline", "comparison"]),
    ("report", FileReach::Output, &["output"]),
    ("diff", FileReach::Free, &["format", "fail-on-new"]),
    ("diff", FileReach::Output, &["output"]),
    (
        "explain",
        FileReach::Free,
        &[
            "keyspace",
            "server",
            "format",
            "json",
            "located",
            "fail-on",
            "allow-unjudged",
            "quiet",
            "verbose",
        ],
    ),
    ("explain", FileReach::Input, &["schema"]),
    ("rules", FileReach::Free, &["format", "markdown"]),
];

const LEVELS: [&str; 3] = ["info", "debug", "trace"];

fn reach(table: &str, key: &str) -> Option<FileReach> {
    let has = |(name, _, keys): &&(&str, FileReach, &[&str])| *name == table && keys.contains(&key);
    ALLOWED.iter().find(has).map(|(_, reach, _)| *reach)
}

/// Whether the file at `file`, which was found, may set this; paths are below its folder already.
///
/// # Errors
/// It may not: which setting of which file, and what to do.
pub(super) fn check(entry: &FileEntry, file: &Path) -> Result<(), String> {
    let (table, key, file) = (
        entry.table.as_deref().unwrap_or_default(),
        &entry.key,
        file.display(),
    );
    let place = match table {
        "" => format!("{file}: {key}"),
        table => format!("{file}: [{table}] {key}"),
    };
    let so = format!("name it with --config {file} if you trust it, or use --{key}");
    let why = match reach(table, key) {
        None => "a settings file that was found and not named cannot set this".to_owned(),
        Some(FileReach::Free) => return Ok(()),
        Some(FileReach::Level)
            if entry
                .values()
                .iter()
                .all(|value| LEVELS.contains(&value.as_str())) =>
        {
            return Ok(());
        }
        Some(FileReach::Level) => "this would hide what cqlens says of this file".to_owned(),
        Some(reach) => {
            let leads_out = |value: &&String| !is_inside(Path::new(value), entry.folder(), reach);
            let Some(value) = entry.values().iter().find(leads_out) else {
                return Ok(());
            };
            format!("{value} is not in the folder of this file, which was found and not named")
        }
    };
    Err(format!("{place}: {why}: {so}"))
}

/// Whether `path` leads into `folder`, with all links on its way.
fn is_inside(path: &Path, folder: &Path, reach: FileReach) -> bool {
    let is_hidden = |part: Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    let (Some(real), Ok(folder)) = (followed(path), folder.canonicalize()) else {
        return false;
    };
    real.strip_prefix(folder)
        .is_ok_and(|below| reach == FileReach::Input || !below.components().any(is_hidden))
}

/// Where a path leads; its last part may be missing. None if that cannot be known.
fn followed(path: &Path) -> Option<PathBuf> {
    if path.symlink_metadata().is_ok() {
        return path.canonicalize().ok();
    }
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use clap::CommandFactory;

    use super::{
        super::kind::{SettingKind, settings_of},
        *,
    };
    use crate::cli::command::Cli;

    #[test]
    fn the_nearest_file_up_to_the_root_of_the_repository_is_found() {
        let root = tempfile::tempdir().unwrap();
        let below = |path: &str| root.path().join(path);
        fs::create_dir_all(below("repository/queries/deep")).unwrap();
        let (outside, inside) = (below(NAME), below("repository/cqlens.toml"));
        fs::write(&outside, "").unwrap();
        let repository = below("repository");
        let found = |home| upwards(&below("repository/queries/deep"), home, |_| {});
        assert_eq!(found(None).as_ref(), Some(&outside));
        assert_eq!(found(Some(repository.as_path())), None);
        assert_eq!(
            found(Some(root.path())).as_ref(),
            Some(&outside),
            "home has one itself"
        );
        // A file in a worktree, a folder elsewhere.
        fs::write(below("repository/.git"), "").unwrap();
        assert_eq!(found(None), None);
        fs::write(&inside, "").unwrap();
        assert_eq!(found(None).as_ref(), Some(&inside));
        let nearest = below("repository/queries/cqlens.toml");
        fs::create_dir(&nearest).unwrap();
        assert_eq!(found(None).as_ref(), Some(&inside), "a folder is no file");
        fs::remove_dir(&nearest).unwrap();
        fs::write(&nearest, "").unwrap();
        assert_eq!(found(None), Some(nearest));
    }

    /// In a folder where everybody may write, above that of the user.
    #[test]
    fn a_file_of_another_user_is_passed_over_and_named() {
        // Only root can give a file to another user.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let (shared, mine) = (root.path().join("shared"), root.path().join("shared/mine"));
        fs::create_dir_all(&mine).unwrap();
        let [ours, theirs, target] = [root.path(), &shared, &mine].map(|folder| folder.join(NAME));
        fs::write(&ours, "").unwrap();
        fs::write(&theirs, "").unwrap();
        std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
        let mut passed_over = Vec::new();
        let found = upwards(&mine, None, |file| passed_over.push(file.to_owned()));
        assert_eq!(
            (found.as_ref(), &passed_over),
            (Some(&ours), &vec![theirs.clone()])
        );
        // A link of another user to a file of ours, and one of ours to theirs.
        std::os::unix::fs::symlink(&ours, &target).unwrap();
        std::os::unix::fs::lchown(&target, Some(65534), None).unwrap();
        assert_eq!(upwards(&mine, None, |_| {}), Some(ours.clone()));
        fs::remove_file(&target).unwrap();
        std::os::unix::fs::symlink(&theirs, &target).unwrap();
        assert_eq!(upwards(&mine, None, |_| {}), Some(ours));
        // A checkout of theirs, mounted into a container in which root runs.
        std::os::unix::fs::chown(&mine, Some(65534), None).unwrap();
        assert_eq!(upwards(&mine, None, |_| {}), Some(target));
    }

    /// A new setting is refused until it is put into the table, and this list says which are refused on purpose.
    #[test]
    fn every_setting_may_stand_in_a_file_that_was_found_or_is_refused_on_purpose() {
        let mut command = Cli::command();
        command.build();
        let mut refused = Vec::new();
        let mut known = 0;
        let mut see = |table: &str, argument: &clap::Arg| {
            let key = argument.get_long().unwrap();
            match reach(table, key) {
                None => refused.push(format!("{table}.{key}")),
                Some(reach) => {
                    known += 1;
                    assert_eq!(
                        SettingKind::is_path(argument),
                        matches!(reach, FileReach::Input | FileReach::Output),
                        "{table}.{key}"
                    );
                }
            }
        };
        settings_of(&command).for_each(|argument| see("", argument));
        for name in COMMANDS {
            let subcommand = command.find_subcommand(name).unwrap();
            let own = settings_of(subcommand).filter(|argument| !argument.is_global_set());
            own.for_each(|argument| see(name, argument));
        }
        let of_fleet = cfg!(feature = "fleet").then_some("report.from");
        let expected = [".allow-plaintext-passwords"].into_iter().chain(of_fleet);
        assert_eq!(refused, expected.collect::<Vec<_>>());
        let listed: usize = ALLOWED.iter().map(|(_, _, keys)| keys.len()).sum();
        assert_eq!(known, listed, "the table has settings that are gone");
    }

    #[test]
    fn files_outside_of_the_folder_are_refused_with_all_links_on_the_way() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("checkout");
        fs::create_dir_all(folder.join("build")).unwrap();
        fs::create_dir(folder.join(".git")).unwrap();
        fs::write(root.path().join("profile"), "").unwrap();
        std::os::unix::fs::symlink("../profile", folder.join("link.html")).unwrap();
        std::os::unix::fs::symlink("../new", folder.join("dangling.html")).unwrap();
        std::os::unix::fs::symlink("..", folder.join("up")).unwrap();
        let inside = |path: &str, reach| is_inside(&folder.join(path), &folder, reach);
        for path in ["report.html", "build/report.html", "build/../report.html"] {
            assert!(inside(path, FileReach::Output), "{path}");
        }
        assert!(inside(".git/schema.cql", FileReach::Input));
        for path in [
            "../profile",
            "/etc/passwd",
            "link.html",
            "dangling.html",
            "up/new.html",
            ".git/config",
            ".envrc",
            "no/such/folder",
        ] {
            assert!(!inside(path, FileReach::Output), "{path}");
        }
    }
}
