//! The file of settings that belongs to the working directory, for commands that judge what a team has in a repository.
//!
//! As formatters and linters have it: `cqlens.toml` in the working directory or the nearest folder above it, up to the
//! root of the repository. Commands that carry traffic read no file that was not named.

use std::path::{Path, PathBuf};

/// The commands that look for it.
pub(super) const COMMANDS: &[&str] = &["report", "diff", "explain", "rules"];

const NAME: &str = "cqlens.toml";

/// The file in `folder`, or in the nearest folder above it. The search ends at the root of a repository, at `home`, and at
/// the root of the file system.
pub(super) fn upwards(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    for folder in folder.ancestors() {
        let file = folder.join(NAME);
        if file.is_file() {
            return Some(file);
        }
        if folder.join(".git").exists() || Some(folder) == home {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn the_nearest_file_up_to_the_root_of_the_repository_is_found() {
        let root = tempfile::tempdir().unwrap();
        let below = |path: &str| root.path().join(path);
        fs::create_dir_all(below("repository/queries/deep")).unwrap();
        let (outside, inside) = (below(NAME), below("repository/cqlens.toml"));
        fs::write(&outside, "").unwrap();
        let repository = below("repository");
        let found = |home| upwards(&below("repository/queries/deep"), home);
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
}
