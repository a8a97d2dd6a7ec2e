//! What everything that observes traffic can be told: where its results go and what they show,
//! and who asks the cluster.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use super::{
    config::{OrOff, Size, SizeOrOff, age_or_off, positive_duration, size, size_or_off},
    format,
    login::LoginArgs,
    recording, show,
};
use crate::sink::{Retention, RollUp};
use cqlens_audit::{
    audit::{self, ClientAddresses, SourceLimit, observe::Observer},
    catalog::Live,
};
use cqlens_capture::memory::{Memory, Use};
use cqlens_cql::schema::Schema;
use cqlens_report::Format;
use cqlens_window::Limits;

/// Of `cqlens proxy` and `cqlens sniff` alike.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub(super) struct ObserverArgs {
    /// Keep a report current: .html, .md, .json, .csv, .tsv or .svg
    ///
    /// It is rewritten after every window and at the end.
    #[arg(long, env = "CQLENS_REPORT", value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Write a snapshot of every window, for `cqlens report`
    #[arg(long, env = "CQLENS_SNAPSHOT_DIR", value_name = "DIR")]
    pub(super) snapshot_dir: Option<PathBuf>,
    /// Merge older snapshots into one per hour (UTC), such as 1d or 12h
    ///
    /// Only snapshots of this source are merged. `off` leaves every window a file of its own.
    #[arg(long, env = "CQLENS_KEEP_MINUTES", value_name = "DURATION", default_value = "1d", value_parser = age_or_off, hide_short_help = true)]
    keep_minutes: OrOff,
    /// Merge older snapshots into one per day (UTC)
    ///
    /// Only snapshots of this source are merged. `off` leaves them as they are.
    #[arg(long, env = "CQLENS_KEEP_HOURS", value_name = "DURATION", default_value = "14d", value_parser = age_or_off, hide_short_help = true)]
    keep_hours: OrOff,
    /// Remove snapshots older than this, such as 400d or 12h
    ///
    /// Only snapshots of this source are removed, and the latest one stays. `off` keeps all.
    #[arg(long, env = "CQLENS_KEEP", value_name = "DURATION", default_value = "400d", value_parser = age_or_off, hide_short_help = true)]
    keep: OrOff,
    /// Remove the oldest snapshots beyond this size, such as 512MiB
    ///
    /// Only snapshots of this source count and are removed, and the latest one stays. From 15/16 of it, the oldest ones
    /// are merged earlier than set by --keep-minutes and --keep-hours. `off` keeps all.
    #[arg(long, env = "CQLENS_KEEP_BYTES", value_name = "SIZE", default_value = "245MB", value_parser = size_or_off, hide_short_help = true)]
    keep_bytes: SizeOrOff,
    #[cfg(feature = "fleet")]
    #[command(flatten, next_help_heading = "Results")]
    pub(super) sink: super::fleet::SinkArgs,
    /// Length of a window
    ///
    /// For a capture, in the time of its packets.
    #[arg(long, env = "CQLENS_WINDOW", value_name = "DURATION", default_value = "60s", value_parser = positive_duration)]
    pub(super) window: Duration,
    /// Name of this source in reports
    ///
    /// By default: host and listening address, or the names of the captures.
    #[arg(long, env = "CQLENS_NAME", value_name = "NAME", hide_short_help = true)]
    pub(super) name: Option<String>,
    /// How much of clients' addresses reports and snapshots show
    ///
    /// `full`, `network` (10.1.2.0/24, 2001:db8:7::/48) or `none`. Names of clients are shown in any case.
    #[arg(
        long,
        env = "CQLENS_CLIENT_ADDRESSES",
        value_name = "HOW_MUCH",
        default_value = "full",
        hide_possible_values = true,
        hide_short_help = true
    )]
    client_addresses: ClientAddresses,
    /// File with the key for the hashes of partition keys
    ///
    /// It is created if it does not exist. By default, with a snapshot folder, it is hash.key in $STATE_DIRECTORY (of
    /// systemd), $XDG_STATE_HOME/cqlens or ~/.local/state/cqlens; without snapshots, each run has its own key.
    #[arg(
        long,
        env = "CQLENS_HASH_KEY_FILE",
        value_name = "FILE",
        hide_short_help = true
    )]
    pub(super) hash_key_file: Option<PathBuf>,
    /// Show requests with their values in the log, at level trace
    ///
    /// By default, no value is shown anywhere.
    #[arg(long, env = "CQLENS_SHOW_VALUES", hide_short_help = true)]
    show_values: bool,
    /// Read the schema from a file of CQL statements
    ///
    /// As printed by `cqlsh -e 'DESCRIBE SCHEMA'`.
    #[arg(
        long,
        env = "CQLENS_SCHEMA",
        value_name = "FILE",
        help_heading = "Control connection"
    )]
    pub(super) schema: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Control connection")]
    pub(super) login: LoginArgs,
    /// Memory for what is audited, besides connections
    ///
    /// It holds windows, statements, the schema, and traffic that waits for the audit. If a part of it is full, entries
    /// are evicted or left out, and counted. Connections take about 10 KiB each, in addition.
    #[arg(long, env = "CQLENS_MEMORY", value_name = "SIZE", default_value = "256MiB", value_parser = memory,
        hide_short_help = true, help_heading = "Resources")]
    memory: Size,
    /// Whether requests are recorded or copied beside the audit, which takes part of this memory.
    #[arg(skip)]
    pub(super) is_rehearsed: bool,
    /// Search for operations of several statements: `on`, `off`, or a number of sources
    ///
    /// cqlens identifies statements that belong together: client-side joins, walks over buckets, copies of rows. Of the
    /// requests that an operation may begin with it takes a sample in each second: 1,024 with `on`, or as many as you
    /// say. It is chosen by counts alone, so the same traffic shows the same operations on every machine, live and
    /// from a capture, and everything that follows a sampled request is counted. The report says how much was left out.
    #[arg(
        long,
        env = "CQLENS_SEQUENCE_BUDGET",
        value_name = "SOURCES",
        default_value = "on",
        hide_short_help = true,
        help_heading = "Resources"
    )]
    sequence_budget: SequenceBudget,
}

impl ObserverArgs {
    /// What the auditor does otherwise than by default.
    pub(super) fn audit_options(&self) -> audit::Options {
        audit::Options {
            watch: show::watch(self.show_values),
            observer: Observer::default(),
            client_addresses: self.client_addresses,
            limits: self.limits(),
            sources: self.sequence_budget.limit(),
        }
    }

    /// A catalog within the budget, which may begin with a schema from a file.
    pub(super) fn live(&self, schema: Option<Schema>) -> Live {
        let live = Live::within(self.memory());
        match schema {
            Some(schema) => live.beginning_with(schema),
            None => live,
        }
    }

    /// The file of the report, and its format: what was `asked` for, else what its ending says.
    ///
    /// # Errors
    /// An ending that says no format.
    pub(super) fn report_file(&self, asked: Option<Format>) -> anyhow::Result<Option<(PathBuf, Format)>> {
        let with_format = |path: &PathBuf| {
            let format = asked.map_or_else(|| format::of_file(path), Ok)?;
            Ok((path.clone(), format))
        };
        self.report.as_ref().map(with_format).transpose()
    }

    /// Where snapshots go, also those of a recording in that folder, and which are kept.
    pub(super) fn snapshot_folders(&self, recording: Option<&Path>) -> Vec<(PathBuf, Retention)> {
        let retention = Retention {
            age: self.keep.0,
            bytes: self.keep_bytes.0.map(|size| size.0),
            roll_up: RollUp {
                minutes: self.keep_minutes.0,
                hours: self.keep_hours.0,
                bytes: self.keep_bytes.0.map(|size| size.0),
                limits: self.limits(),
            },
            in_full: false,
        };
        // The report of a recording says what the live one does. First, as long as everything is there.
        let in_full = Retention {
            in_full: true,
            ..retention
        };
        let of_recording = recording.map(recording::snapshots_of);
        let of_recording = of_recording.map(|folder| (folder, in_full));
        let own = self.snapshot_dir.clone().map(|folder| (folder, retention));
        of_recording.into_iter().chain(own).collect()
    }

    /// The folder whose snapshots are to compare with those of other runs, so that the key of their hashes is kept.
    pub(super) fn lasting_folder(
        &self,
        snapshots: &[(PathBuf, Retention)],
    ) -> anyhow::Result<Option<PathBuf>> {
        let folder = snapshots.first().map(|(folder, _)| folder.clone());
        #[cfg(feature = "fleet")]
        if folder.is_none() && self.sink.sink.is_some() {
            return self.sink.spool_folder().map(Some);
        }
        Ok(folder)
    }

    /// What windows are written to beside folders.
    ///
    /// # Errors
    /// A sink that cannot be used.
    #[cfg(feature = "fleet")]
    pub(super) fn spool(&self) -> anyhow::Result<Option<crate::sink::Spool>> {
        self.sink.open(self.window, self.limits())
    }

    fn memory(&self) -> Memory {
        let budget = usize::try_from(self.memory.0).unwrap_or(usize::MAX);
        match self.is_rehearsed {
            true => Memory::with_rehearsal(budget),
            false => Memory::of(budget),
        }
    }

    /// How much one window holds: the one being filled, and the one with everything since the start.
    pub(super) fn limits(&self) -> Limits {
        // The two parts are of the same size.
        Limits::of_bytes(self.memory().part(Use::Window).limit())
    }
}

/// How many requests of a second are sources of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SequenceBudget {
    On,
    Off,
    Sources(u32),
}

impl SequenceBudget {
    fn limit(self) -> SourceLimit {
        match self {
            Self::On => SourceLimit::default(),
            Self::Off => SourceLimit::NONE,
            Self::Sources(sources) => SourceLimit::of(sources),
        }
    }
}

impl FromStr for SequenceBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            number => number
                .parse()
                .map(Self::Sources)
                .map_err(|_| "`on`, `off` or a number of sources a second".to_owned()),
        }
    }
}

/// Reads the size of the budget.
fn memory(text: &str) -> Result<Size, String> {
    match size(text)? {
        Size(bytes) if bytes < Memory::LEAST as u64 => Err(format!("at least {} MiB", Memory::LEAST >> 20)),
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        observer: ObserverArgs,
    }

    #[test]
    fn operations_are_looked_for_in_a_sample_in_all_or_not_at_all() {
        let sources = |arguments: &[&str]| {
            let arguments = [&["cqlens"], arguments].concat();
            let command = Command::try_parse_from(arguments).map_err(|error| error.to_string())?;
            Ok::<_, String>(command.observer.audit_options().sources)
        };
        assert_eq!(sources(&[]), Ok(SourceLimit::default()));
        let of = |budget: &str| sources(&[&format!("--sequence-budget={budget}")]);
        assert_eq!(of("on"), Ok(SourceLimit::default()));
        assert_eq!(
            [of("off"), of("0")],
            [Ok(SourceLimit::NONE), Ok(SourceLimit::NONE)]
        );
        assert_eq!(of("100"), Ok(SourceLimit::of(100)));
        for wrong in ["1.0", "-1", "all", ""] {
            let error = of(wrong).unwrap_err();
            assert!(error.contains("`on`, `off` or a number"), "{error}");
        }
    }
}
