//! A recording beside an audit: its settings, and the thread that writes it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;

use super::config::{OrOff, Size, SizeOrOff, age_or_off, positive_duration, size, size_or_off};
use crate::sink;
use cqlens_capture::{memory::Part, pulse::Pulse};
use cqlens_rehearse::{
    digest::DigestKey,
    left_out::{LeftOut, LeftOutCounts},
    observe::TakeExchange,
    recording::{self, Limits, RecordedValues, Recorder, RecordingWriter, SNAPSHOTS, Settings},
};
use cqlens_window::number;

/// How a recording is written.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Recording")]
pub(super) struct RecordArgs {
    /// Record values in clear text, which a replay needs
    ///
    /// Otherwise keyed hashes replace all values, including those in statement texts. In either case, only the owner
    /// can read the files.
    #[arg(long, env = "CQLENS_RECORD_VALUES", hide_short_help = true)]
    record_values: bool,
    /// Start a new file of the recording at this compressed size
    #[arg(long, env = "CQLENS_RECORD_FILE_BYTES", value_name = "SIZE", default_value = "64MiB", value_parser = size, hide_short_help = true)]
    record_file_bytes: Size,
    /// Start a new file of the recording after this time
    #[arg(long, env = "CQLENS_RECORD_FILE_AGE", value_name = "DURATION", default_value = "10m", value_parser = positive_duration, hide_short_help = true)]
    record_file_age: Duration,
    /// Remove the oldest files of the recording beyond this size
    ///
    /// Only files of this source count and are removed. `off` keeps all.
    #[arg(long, env = "CQLENS_RECORD_MAX_BYTES", value_name = "SIZE", default_value = "4GiB", value_parser = size_or_off, hide_short_help = true)]
    record_max_bytes: SizeOrOff,
    /// Remove files of the recording older than this, such as 7d or 12h
    ///
    /// Only files of this source are removed. `off` keeps all.
    #[arg(long, env = "CQLENS_RECORD_KEEP", value_name = "DURATION", default_value = "7d", value_parser = age_or_off, hide_short_help = true)]
    record_keep: OrOff,
}

impl RecordArgs {
    fn limits(&self) -> Limits {
        Limits {
            file_bytes: self.record_file_bytes.0,
            file_age: self.record_file_age,
            bytes: self.record_max_bytes.0.map(|size| size.0),
            age: self.record_keep.0,
        }
    }
}

/// Makes the folder of a recording, for its owner alone, before anything else is put into it.
///
/// # Errors
/// A folder that cannot be made, a link of another user to it.
pub(super) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    let resolved = sink::resolve(folder).and_then(|resolved| recording::make_folder(&resolved));
    resolved.with_context(|| format!("cannot write a recording to {}", folder.display()))
}

/// Where the windows of a recording go.
pub(super) fn snapshots_of(folder: &Path) -> PathBuf {
    folder.join(SNAPSHOTS)
}

/// A recording that is being written.
pub(super) struct Recording {
    folder: PathBuf,
    recorder: Arc<Recorder>,
}

impl Recording {
    /// Begins one of `source`, of exchanges whose digests have `key`; `left_out` counts what does not become one,
    /// `memory` what waits. With `waits`, exchanges wait for the thread that writes.
    ///
    /// # Errors
    /// A folder that cannot be made, a thread that cannot be had.
    pub(super) fn begin(
        folder: &Path,
        args: &RecordArgs,
        source: &str,
        key: DigestKey,
        left_out: &Arc<LeftOutCounts>,
        memory: &Part,
        waits: bool,
    ) -> anyhow::Result<Self> {
        let context = || format!("cannot write a recording to {}", folder.display());
        let settings = Settings {
            // Nobody exchanges a link meanwhile.
            folder: sink::resolve(folder).with_context(context)?,
            source: source.to_owned(),
            values: match args.record_values {
                true => RecordedValues::Clear,
                false => RecordedValues::Hashed,
            },
            digest_key: key,
            limits: args.limits(),
        };
        let writer = RecordingWriter::open(settings).with_context(context)?;
        let recorder = Recorder::start(writer, Arc::clone(left_out), memory, waits).context("no recorder")?;
        if args.record_values {
            tracing::warn!(folder = %folder.display(), "\
                values are recorded in clear text, readable by anyone who can read the files");
        }
        Ok(Self {
            folder: folder.to_owned(),
            recorder: Arc::new(recorder),
        })
    }

    /// What takes its exchanges.
    pub(super) fn taker(&self) -> Arc<dyn TakeExchange> {
        Arc::<Recorder>::clone(&self.recorder)
    }

    /// The sign of life of its thread.
    pub(super) fn pulse(&self) -> &Pulse {
        self.recorder.pulse()
    }

    /// Waits until all is written, no longer than `patience`; what there is, in a sentence.
    pub(super) fn end(&self, patience: Duration) -> String {
        let is_whole = self.recorder.stop(patience);
        let counts = self.recorder.counts();
        let losses = counts.left_out.iter().filter(|(why, _)| why.is_loss());
        let lost: u64 = losses.clone().map(|(_, count)| count).sum();
        let mut words = format!(
            "{} recorded in {}",
            number::plural(counts.written, "request", "requests"),
            self.folder.display()
        );
        if lost > 0 {
            let named = losses.map(|(why, count)| reason(*why, *count));
            let named = named.collect::<Vec<_>>().join(", ");
            words += &format!("; {} left out: {named}", number::count(lost));
        }
        if !is_whole {
            words += "; requests still waiting to be written at the end are missing";
        }
        words
    }
}

fn reason(why: LeftOut, count: u64) -> String {
    format!("{} {}", number::count(count), why.name())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        fs,
        os::unix::fs::{lchown, symlink},
    };

    use super::*;

    /// In a folder where others may write, such as `/tmp`.
    #[test]
    fn a_recording_does_not_follow_a_link_of_another_user() {
        // Only root can give a link to another user.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (shared, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = shared.path().join("recording");
        symlink(victim.path(), &link).unwrap();
        make_folder(&link).unwrap();
        lchown(&link, Some(65534), Some(65534)).unwrap();
        for folder in [link.clone(), link.join("inside")] {
            let refused = format!("{:#}", make_folder(&folder).unwrap_err());
            assert!(refused.contains("is a symbolic link of user 65534"), "{refused}");
        }
        assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0);
    }
}
