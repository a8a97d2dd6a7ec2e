//! The files of snapshots, read one after the other: which there are, and what is said of those that are not merged.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use jiff::Timestamp;

use super::{
    clusters::Clusters,
    left_out::LeftOut,
    merged::{Choice, Merged},
    progress::Progress,
};
use crate::sink::{SNAPSHOT_ENDINGS, snapshots_in};
use cqlens_proxy::files;
use cqlens_rehearse::recording::{SNAPSHOTS, is_recording};
use cqlens_window::{Snapshot, SnapshotError, number};

/// So often reading begins anew because files have gone that were there: a proxy merges or removes old ones.
pub(super) const MOST_ATTEMPTS: usize = 5;

/// A window that begins before a limit of time and ends so long after it is said to be cut, in seconds. Of shorter
/// ones nobody expects more.
const CUT: i64 = 60;

/// A file that may be a snapshot.
pub(super) struct FoundFile {
    path: PathBuf,
    /// Whether it was in a folder that was named, and not named itself.
    is_listed: bool,
}

/// Who sees each snapshot that is counted, before it is merged with the others.
pub(in crate::cli) trait Visitor {
    /// Snapshots are read from the first one on, perhaps once more.
    ///
    /// # Errors
    /// Its own.
    fn begin(&mut self) -> anyhow::Result<()>;

    /// The next one.
    ///
    /// # Errors
    /// Its own, which end the reading.
    fn see(&mut self, snapshot: &Snapshot) -> anyhow::Result<()>;
}

/// Nobody.
impl Visitor for () {
    fn begin(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn see(&mut self, _snapshot: &Snapshot) -> anyhow::Result<()> {
        Ok(())
    }
}

/// One attempt to read all files.
pub(super) struct Reading<'v> {
    choice: Choice,
    visitor: &'v mut dyn Visitor,
    merged: Option<Merged>,
    damaged: LeftOut,
    later: LeftOut,
    gone: LeftOut,
    /// What a store has under names of no window, or too large.
    unnamed: LeftOut,
    /// Windows in the folders of others.
    misplaced: LeftOut,
    /// Those of other clusters.
    of_others: LeftOut,
    /// Those whose schema cannot be read.
    without_schema: LeftOut,
    clusters: Clusters,
    /// Why the first of those that are damaged or of a later format cannot be read.
    error: Option<anyhow::Error>,
    cut: CutWindows,
}

/// Windows that the limits of time cut.
#[derive(Default)]
struct CutWindows {
    /// How many begin before `--since` and go on after it; and until when.
    by_since: Option<(u64, Timestamp)>,
    /// The same of `--until`.
    by_until: Option<(u64, Timestamp)>,
}

impl<'v> Reading<'v> {
    /// Reads the windows of that cluster, or finds out of which most are.
    ///
    /// # Errors
    /// Those of the visitor.
    pub(super) fn new(
        choice: Choice,
        cluster: Option<String>,
        visitor: &'v mut dyn Visitor,
    ) -> anyhow::Result<Self> {
        visitor.begin()?;
        Ok(Self {
            choice,
            visitor,
            merged: None,
            damaged: LeftOut::default(),
            later: LeftOut::default(),
            gone: LeftOut::default(),
            unnamed: LeftOut::default(),
            misplaced: LeftOut::default(),
            of_others: LeftOut::default(),
            without_schema: LeftOut::default(),
            clusters: Clusters::of(cluster),
            error: None,
            cut: CutWindows::default(),
        })
    }

    /// Reads them. Nothing if one has gone in the meantime and reading may begin anew: what was in it may be in
    /// another one now, which was read before it was.
    ///
    /// # Errors
    /// See [`Merged::read`].
    pub(super) fn read(
        mut self,
        files: &[FoundFile],
        may_begin_anew: bool,
        progress: &mut Progress,
    ) -> anyhow::Result<Option<Finished>> {
        for (place, file) in files.iter().enumerate() {
            progress.show(place, files.len());
            match open(file) {
                Ok(Some(opened)) => self.take(&file.path, file.is_listed, Snapshot::read(opened))?,
                Ok(None) if may_begin_anew => return Ok(None),
                Ok(None) => self.gone.add(&file.path),
                // A named pipe, a folder, a file that nobody may read.
                Err(error) if file.is_listed => {
                    self.damaged.add(&file.path);
                    self.complain(error)?;
                }
                Err(error) => return Err(error),
            }
        }
        progress.clear();
        self.finish(files.len()).map(Some)
    }

    /// Takes what was read of a snapshot. One that was found in a folder or store may be of anybody: it does not
    /// make the whole report fail.
    ///
    /// # Errors
    /// A damaged one where that is an error, one that was named and is of another cluster or has a damaged schema, and those of
    /// the visitor.
    pub(super) fn take(
        &mut self,
        path: &Path,
        is_listed: bool,
        read: Result<Snapshot, SnapshotError>,
    ) -> anyhow::Result<()> {
        let mut snapshot = match read {
            Ok(snapshot) => snapshot,
            Err(error) => return self.leave_out(path, error),
        };
        let (start, end) = (snapshot.window.start, snapshot.window.end);
        self.cut.see(&self.choice, start, end);
        if !self.choice.has_snapshot(&snapshot) {
            return Ok(());
        }
        if let Some(theirs) = self.clusters.other(snapshot.cluster.name.as_deref()) {
            let error = self.of_another_cluster(path, theirs);
            return match is_listed {
                true => self.leave_out_of_another(path, error),
                false => Err(error),
            };
        }
        if let Some(merged) = &mut self.merged
            && !merged.takes(&snapshot, path)
        {
            return Ok(());
        }
        self.visitor.see(&snapshot)?;
        let schema = std::mem::take(&mut snapshot.schema);
        let end = snapshot.window.end;
        match &mut self.merged {
            Some(merged) => merged.add(snapshot),
            None => self.merged = Some(Merged::new(snapshot, path)),
        }
        self.take_schema(end, schema, path, is_listed)
    }

    fn take_schema(
        &mut self,
        end: Timestamp,
        schema: String,
        path: &Path,
        is_listed: bool,
    ) -> anyhow::Result<()> {
        let taken = self
            .merged
            .as_mut()
            .map(|merged| merged.take_schema(end, schema, path));
        match taken {
            Some(Err(error)) if is_listed => {
                self.without_schema.add(path);
                self.complain(error)
            }
            Some(taken) => taken,
            None => Ok(()),
        }
    }

    fn of_another_cluster(&self, path: &Path, theirs: &str) -> anyhow::Error {
        let ours = self.clusters.ours();
        let first = self
            .merged
            .as_ref()
            .map(|merged| format!("{} from cluster ", merged.first().display()));
        anyhow::anyhow!(
            "{} is from cluster {theirs:?}, but {}{ours:?}: report them separately",
            path.display(),
            first.unwrap_or_else(|| "others from cluster ".to_owned())
        )
    }

    /// Leaves out a window of another cluster than most.
    ///
    /// # Errors
    /// If what is damaged is an error.
    fn leave_out_of_another(&mut self, path: &Path, error: anyhow::Error) -> anyhow::Result<()> {
        self.of_others.add(path);
        if self.choice.strict {
            return Err(error);
        }
        tracing::warn!("{error:#}: it is left out");
        self.clusters.leave_out(error);
        Ok(())
    }

    /// Leaves out a window of a store that is in the folder of another source than what it has says.
    ///
    /// # Errors
    /// If what is damaged is an error.
    #[cfg(feature = "fleet")]
    pub(super) fn misplace(&mut self, folder: &str, name: &str, sources: &[&str]) -> anyhow::Result<()> {
        let sources = sources.join(", ");
        let sources = sources.escape_debug();
        self.misplaced.add_name(format!("{name} (of {sources})"));
        let error = anyhow::anyhow!("{name} is in the folder of {folder}, and has a window of {sources}");
        self.complain(error)
    }

    /// Notes what a store has under names of no window, or too large.
    ///
    /// # Errors
    /// If what is damaged is an error.
    #[cfg(feature = "fleet")]
    pub(super) fn leave_out_names(&mut self, count: u64, names: Vec<String>) -> anyhow::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let error = anyhow::anyhow!(
            "the store has {count} objects that are no windows: {}",
            names.join(", ")
        );
        self.unnamed = LeftOut::of(count, names);
        self.complain(error)
    }

    fn leave_out(&mut self, path: &Path, error: SnapshotError) -> anyhow::Result<()> {
        match error {
            SnapshotError::LaterFormat(_) => self.later.add(path),
            _ => self.damaged.add(path),
        }
        self.complain(
            anyhow::Error::new(error).context(format!("cannot read the snapshot {}", path.display())),
        )
    }

    /// Warns of what is left out, or fails.
    fn complain(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        if self.choice.strict {
            return Err(error);
        }
        tracing::warn!("{error:#}: it is left out");
        self.error.get_or_insert(error);
        Ok(())
    }

    /// What was read, with what must be said of the rest.
    ///
    /// # Errors
    /// Nothing was merged, or windows of several clusters of which none has most.
    pub(super) fn finish(mut self, files: usize) -> anyhow::Result<Finished> {
        if let Some(name) = self.clusters.most_are_of()? {
            return Ok(Finished::IsOf(name));
        }
        let Some(mut merged) = self.merged else {
            return match self.error {
                Some(error) => Err(error),
                None => bail!("no window of {files} snapshots begins in that span of time"),
            };
        };
        let notices = [
            self.damaged.notice(
                ["snapshot is", "snapshots are"],
                "damaged and left out",
                "Traffic in that time is missing here.",
            ),
            self.later.notice(
                ["snapshot is", "snapshots are"],
                "of a later version of cqlens and left out",
                "Traffic in that time is missing here: report with that version.",
            ),
            self.gone.notice(
                ["snapshot was", "snapshots were"],
                "merged or removed while this report was made",
                "Traffic in that time may be missing here: make the report again.",
            ),
            self.unnamed.notice(
                ["object of the store is", "objects of the store are"],
                "no window of the folder, or too large, and left out",
                "Others can write to the store.",
            ),
            self.misplaced.notice(
                ["snapshot is", "snapshots are"],
                "in the folder of a source that it does not come from, and left out",
                "Those of the sources that they name count.",
            ),
            self.of_others.notice(
                ["snapshot is", "snapshots are"],
                "of another cluster than most, and left out",
                "Report the other cluster separately (`--cluster`).",
            ),
            self.without_schema.notice(
                ["snapshot has", "snapshots have"],
                "a damaged schema, which is left out",
                "The schema is that of another one.",
            ),
            self.cut
                .by_since
                .map(|(count, until)| cut(count, "--since", until, "left out as a whole")),
            self.cut
                .by_until
                .map(|(count, until)| cut(count, "--until", until, "counted as a whole")),
        ];
        merged
            .window
            .coverage
            .notices
            .extend(notices.into_iter().flatten());
        Ok(Finished::Merged(Box::new(merged)))
    }
}

/// What came of reading.
pub(super) enum Finished {
    Merged(Box<Merged>),
    /// The windows that were merged are of another cluster than most: reading begins anew with this one.
    IsOf(String),
}

impl CutWindows {
    fn see(&mut self, choice: &Choice, start: Timestamp, end: Timestamp) {
        let is_cut = |limit: &Timestamp| start < *limit && end.as_second() - limit.as_second() > CUT;
        let add = |cut: &mut Option<(u64, Timestamp)>| {
            let (count, until) = cut.unwrap_or((0, end));
            *cut = Some((count + 1, until.max(end)));
        };
        if choice.since.as_ref().is_some_and(is_cut) {
            add(&mut self.by_since);
        }
        if choice.has(start) && choice.until.as_ref().is_some_and(is_cut) {
            add(&mut self.by_until);
        }
    }
}

fn cut(count: u64, limit: &str, until: Timestamp, what: &str) -> String {
    match count {
        1 => format!(
            "1 window that began before {limit} went on until {until} and is {what}: a window that was merged cannot be cut."
        ),
        _ => format!(
            "{} windows that began before {limit} went on, the last one until {until}, and are {what}: windows that were merged \
             cannot be cut.",
            number::count(count)
        ),
    }
}

/// None if it was listed and has gone since.
///
/// # Errors
/// A file that cannot be opened.
fn open(file: &FoundFile) -> anyhow::Result<Option<fs::File>> {
    match files::open(&file.path) {
        Err(error) if file.is_listed && error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened
            .map(Some)
            .with_context(|| format!("cannot open the snapshot {}", file.path.display())),
    }
}

/// The named files, and those in the named folders, each once, in the order of their names: by time.
///
/// # Errors
/// A folder that cannot be read or holds no snapshot.
pub(super) fn files(named: &[PathBuf]) -> anyhow::Result<Vec<FoundFile>> {
    let mut files = Vec::new();
    for path in named {
        let of_recording = path.join(SNAPSHOTS);
        if of_recording.is_dir() && is_recording(path) {
            files.extend(listed(&of_recording)?);
        } else if path.is_dir() {
            files.extend(listed(path)?);
        } else {
            files.push(FoundFile {
                path: path.clone(),
                is_listed: false,
            });
        }
    }
    // A window that is named twice must not count twice.
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| seen.insert(file.path.canonicalize().unwrap_or_else(|_| file.path.clone())));
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

fn listed(folder: &Path) -> anyhow::Result<Vec<FoundFile>> {
    let paths =
        snapshots_in(folder).with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let found = |path| FoundFile {
        path,
        is_listed: true,
    };
    let files: Vec<_> = paths.into_iter().map(found).collect();
    ensure!(
        !files.is_empty(),
        "the folder {} holds no *{}",
        folder.display(),
        SNAPSHOT_ENDINGS.join(" and no *")
    );
    Ok(files)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{
        super::tests::{folder, snapshot},
        *,
    };

    /// A proxy merges a file into the first, which was read before, or removes it.
    #[test]
    fn reading_begins_anew_where_a_file_has_gone_and_says_so_where_files_go_on_to() {
        let folder = folder(&[7, 8, 9].map(|hour| snapshot("a", &format!("2026-11-21T0{hour}:00:00Z"))));
        let found = files(&[folder.path().to_owned()]).unwrap();
        fs::remove_file(folder.path().join("2.cqlens.json")).unwrap();
        let read = |may_begin_anew| {
            let mut nobody = ();
            let reading = Reading::new(Choice::default(), None, &mut nobody).unwrap();
            reading
                .read(&found, may_begin_anew, &mut Progress::begin("snapshots"))
                .unwrap()
        };
        assert!(read(true).is_none());
        let Some(Finished::Merged(merged)) = read(false) else {
            unreachable!("one cluster");
        };
        let coverage = merged.window.coverage;
        assert_eq!(coverage.requests, 200);
        let notices: Vec<_> = coverage.notices.into_iter().collect();
        assert!(
            notices[0]
                .starts_with("1 snapshot was merged or removed while this report was made: 2.cqlens.json."),
            "{notices:?}"
        );
        let named = [folder.path().join("2.cqlens.json")];
        assert!(
            Reading::new(Choice::default(), None, &mut ())
                .unwrap()
                .read(&files(&named).unwrap(), true, &mut Progress::begin("snapshots"))
                .is_err()
        );
    }
}
