//! What everything that observes traffic can be told: where its results go and what they show,
//! and who asks the cluster.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    config::{OrOff, Size, SizeOrOff, age_or_off, percent, positive_duration, size, size_or_off},
    format,
    login::LoginArgs,
    recording, show,
};
use crate::sink::{Retention, RollUp};
use cqlens_audit::{
    audit::{self, ClientAddresses, Relating, observe::Observer},
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
    /// Processor time for relating statements, in per cent of one core
    ///
    /// cqlens identifies statements that belong together: client-side joins, walks over buckets, copies of rows. If
    /// there is more traffic than the budget allows, it takes a sample, and the report says so. If one second takes too
    /// much, sampling pauses in the following seconds; but one second per minute is always sampled, which may exceed a
    /// very small budget. 0 disables this, 100 takes everything that memory allows. `sniff` takes the same sample of a
    /// capture on every machine.
    #[arg(long, env = "CQLENS_SEQUENCE_BUDGET", value_name = "PERCENT", default_value_t = 1.0, value_parser = percent,
        hide_short_help = true, help_heading = "Resources")]
    sequence_budget: f64,
}

impl ObserverArgs {
    /// What the auditor of live traffic does otherwise than by default.
    pub(super) fn audit_options(&self) -> audit::Options {
        let mut options = self.replay_options();
        if options.relating == Relating::default() {
            options.relating.budget = Some(self.sequence_budget / 100.0);
        }
        options
    }

    /// The same for captures, of which the same is seen whatever else the machine does.
    pub(super) fn replay_options(&self) -> audit::Options {
        audit::Options {
            watch: show::watch(self.show_values),
            observer: Observer::default(),
            client_addresses: self.client_addresses,
            limits: self.limits(),
            relating: match self.sequence_budget {
                none if none <= 0.0 => Relating::NONE,
                all if all >= 100.0 => Relating::ALL,
                _ => Relating::default(),
            },
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
    fn live_traffic_is_related_within_a_budget_and_captures_within_fixed_limits() {
        let relating = |arguments: &[&str]| {
            let arguments = [&["cqlens"], arguments].concat();
            let observer = Command::try_parse_from(arguments).unwrap().observer;
            [observer.audit_options(), observer.replay_options()].map(|options| options.relating)
        };
        let within = |budget| Relating {
            budget: Some(budget),
            ..Relating::default()
        };
        assert_eq!(relating(&[]), [within(0.01), Relating::default()]);
        let half = ["--sequence-budget", "0.5"];
        assert_eq!(relating(&half), [within(0.005), Relating::default()]);
        assert_eq!(relating(&["--sequence-budget", "0"]), [Relating::NONE; 2]);
        assert_eq!(relating(&["--sequence-budget", "100"]), [Relating::ALL; 2]);
    }
}
