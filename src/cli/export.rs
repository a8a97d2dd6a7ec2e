//! `cqlens export SNAPSHOT…`: windows for other engines, or as one snapshot.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, ensure};

#[cfg(feature = "parquet")]
use super::report::Visitor;
use super::report::{self, SourceArgs};
use crate::sink::{SNAPSHOT_ENDINGS, write_snapshot};
#[cfg(feature = "parquet")]
use cqlens_parquet::Export;
#[cfg(feature = "parquet")]
use cqlens_window::Snapshot;

/// Write snapshots as tables for other engines, or as one snapshot
///
/// The same snapshots count as in `cqlens report`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ENDING)]
#[command(group = clap::ArgGroup::new("form").required(true).multiple(true))]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Write tables of Parquet into this folder
    ///
    /// One row for each window and statement, table or client, partitioned by cluster and day (UTC). A cluster and day that
    /// is there already is not written again: that is an error.
    #[cfg(feature = "parquet")]
    #[arg(long, value_name = "DIR", group = "form")]
    parquet: Option<PathBuf>,
    /// Write all of them as one snapshot
    ///
    /// A file that ends in .cqlens.json.gz or .cqlens.json, for `cqlens report`.
    #[arg(long, value_name = "FILE", group = "form")]
    snapshot: Option<PathBuf>,
}

const ENDING: &str = "Examples:
  Yesterday's windows, merged into one:
      cqlens export snapshots --since 1d --snapshot day.cqlens.json.gz

Exit codes:
  0  done
  2  snapshots that cannot be read or are of different clusters, no window in
     the span of time, an output that cannot be written";

/// Reads the snapshots, and writes tables and a merged snapshot.
///
/// # Errors
/// As `cqlens report`; outputs that cannot be written.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.snapshot {
        check_name(path)?;
    }
    #[cfg(feature = "parquet")]
    let merged = {
        let mut tables = Tables::of(args);
        let merged = report::read(&args.source, &mut tables)?;
        tables.finish()?;
        merged
    };
    #[cfg(not(feature = "parquet"))]
    let merged = report::read(&args.source, &mut ())?;
    if let Some(path) = &args.snapshot {
        let written = write_snapshot(&merged.into_snapshot(), path);
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A file of another name would be found by no report.
fn check_name(path: &Path) -> anyhow::Result<()> {
    let name = path.to_string_lossy();
    ensure!(
        SNAPSHOT_ENDINGS.iter().any(|ending| name.ends_with(ending)),
        "snapshot: {name} must end in .cqlens.json.gz or .cqlens.json"
    );
    Ok(())
}

/// The tables, if they are asked for.
#[cfg(feature = "parquet")]
struct Tables {
    folder: Option<PathBuf>,
    export: Option<Export>,
}

#[cfg(feature = "parquet")]
impl Tables {
    fn of(args: &Args) -> Self {
        Self {
            folder: args.parquet.clone(),
            export: None,
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        self.export
            .map_or(Ok(()), |export| export.finish().context("cannot write tables"))
    }
}

#[cfg(feature = "parquet")]
impl Visitor for Tables {
    /// What was written of an attempt before goes with it.
    fn begin(&mut self) -> anyhow::Result<()> {
        let begun = self
            .folder
            .as_deref()
            .map(|folder| Export::begin(folder, crate::sink::resolve));
        self.export = begun.transpose().context("cannot write tables")?;
        Ok(())
    }

    fn see(&mut self, snapshot: &Snapshot) -> anyhow::Result<()> {
        match &mut self.export {
            Some(export) => export.add(snapshot).context("cannot write tables"),
            None => Ok(()),
        }
    }
}

#[cfg(all(test, feature = "parquet"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        fs,
        os::unix::fs::{lchown, symlink},
    };

    use super::*;
    use crate::{cli::report::tests::snapshot, sink};

    /// In a folder where others may write, such as `/tmp`.
    #[test]
    fn tables_do_not_follow_a_link_of_another_user() {
        // Only root can give a link to another user.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (shared, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = |at: &str| {
            let link = shared.path().join(at);
            symlink(victim.path(), &link).unwrap();
            lchown(&link, Some(65534), Some(65534)).unwrap();
            link
        };
        let refused = |error: cqlens_parquet::ExportError| {
            let said = format!("{:#}", anyhow::Error::from(error));
            assert!(said.contains("symbolic link of user 65534"), "{said}");
        };
        refused(Export::begin(&link("tables"), sink::resolve).err().unwrap());
        // One for a table, inside of a folder that is not a link.
        link(cqlens_parquet::TABLES[1]);
        let mut export = Export::begin(shared.path(), sink::resolve).unwrap();
        export.add(&snapshot("cluster", "2026-11-21T06:00:00Z")).unwrap();
        refused(export.finish().err().unwrap());
        assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0);
    }
}
