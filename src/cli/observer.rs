//! What everything that observes traffic can be told: where its results go and what they show,
//! and who asks the cluster.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    config::{OrOff, Size, SizeOrOff, age_or_off, percent, positive_duration, size, size_or_off},
    show,
};
use crate::sink::{Retention, RollUp};
use cqlens_audit::{
    audit::{self, ClientAddresses, Relating},
    catalog::Live,
    memory::{Memory, Use},
    window::Limits,
};
use cqlens_cql::schema::Schema;

/// Of `cqlens proxy` and `cqlens sniff` alike.
#[derive(Debug, clap::Args)]
pub(super) struct ObserverArgs {
    /// Keep a report current: rewritten every window and at the end. The ending tells the
    /// format: .html, .md, .json, .csv, .tsv or .svg.
    #[arg(long, env = "CQLENS_REPORT", value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Write a snapshot of every window into this folder, for `cqlens report`.
    #[arg(long, env = "CQLENS_SNAPSHOT_DIR", value_name = "DIR")]
    pub(super) snapshot_dir: Option<PathBuf>,
    /// Merge snapshots of this source that were written longer ago, such as 2d or 12h, into one for each hour (UTC);
    /// `off` leaves every window a file of its own.
    #[arg(long, env = "CQLENS_KEEP_MINUTES", value_name = "DURATION", default_value = "2d", value_parser = age_or_off)]
    keep_minutes: OrOff,
    /// Merge snapshots of this source that were written longer ago into one for each day (UTC); `off` leaves them as
    /// they are.
    #[arg(long, env = "CQLENS_KEEP_HOURS", value_name = "DURATION", default_value = "30d", value_parser = age_or_off)]
    keep_hours: OrOff,
    /// Remove snapshots of this source that were written longer ago, such as 400d or 12h; `off` keeps
    /// them. The latest one stays.
    #[arg(long, env = "CQLENS_KEEP", value_name = "DURATION", default_value = "400d", value_parser = age_or_off)]
    keep: OrOff,
    /// Remove the oldest snapshots of this source when they take up more bytes together, such as 512MiB;
    /// `off` keeps them. The latest one stays. Before that, from three quarters of it on, the oldest ones are merged
    /// earlier than `--keep-minutes` and `--keep-hours` say.
    #[arg(long, env = "CQLENS_KEEP_BYTES", value_name = "SIZE", default_value = "245MB", value_parser = size_or_off)]
    keep_bytes: SizeOrOff,
    /// How long a window is; of a capture, in its own time.
    #[arg(long, env = "CQLENS_WINDOW", value_name = "DURATION", default_value = "60s", value_parser = positive_duration)]
    pub(super) window: Duration,
    /// Read the schema from a file of CQL statements, such as `cqlsh -e 'DESCRIBE SCHEMA'` prints.
    #[arg(long, env = "CQLENS_SCHEMA", value_name = "FILE")]
    pub(super) schema: Option<PathBuf>,
    /// User name of the control connection, where the node asks for one.
    #[arg(long, env = "CQLENS_USERNAME", value_name = "NAME", requires = "password")]
    username: Option<String>,
    /// Its password; better given as CQLENS_PASSWORD, since others can read the arguments of a process.
    #[arg(
        long,
        env = "CQLENS_PASSWORD",
        value_name = "PASSWORD",
        hide_env_values = true
    )]
    password: Option<String>,
    /// What this source is called in reports; host and listening address, or the names of
    /// the captures, if not set.
    #[arg(long, env = "CQLENS_NAME", value_name = "NAME")]
    pub(super) name: Option<String>,
    /// The key of the hashes that stand for partition keys; made where it is missing. Without it, and with a
    /// snapshot folder: hash.key in $STATE_DIRECTORY (of systemd), $XDG_STATE_HOME/cqlens or
    /// ~/.local/state/cqlens; otherwise a key of this run alone.
    #[arg(long, env = "CQLENS_HASH_KEY_FILE", value_name = "FILE")]
    pub(super) hash_key_file: Option<PathBuf>,
    /// How much of clients' addresses stands in reports and snapshots, beside their names: full, network
    /// (10.1.2.0/24, 2001:db8:7::/48) or none.
    #[arg(
        long,
        env = "CQLENS_CLIENT_ADDRESSES",
        value_name = "HOW_MUCH",
        default_value = "full",
        hide_possible_values = true
    )]
    client_addresses: ClientAddresses,
    /// Let the log show requests with their values, at the level trace; otherwise no value is shown anywhere.
    #[arg(long, env = "CQLENS_SHOW_VALUES")]
    show_values: bool,
    /// How much memory is kept for what is audited, besides connections (about 10 KiB each):
    /// windows, statements, the schema, what waits. Where a part of it is full, something is evicted
    /// or left out, and counted.
    #[arg(long, env = "CQLENS_MEMORY", value_name = "SIZE", default_value = "256MiB", value_parser = memory)]
    memory: Size,
    /// How much of one processor, in per cent, the search for statements that belong together may take: joins in the
    /// client, walks over buckets, copies of rows. Where there is more traffic, a sample is looked at, and the
    /// report says so. What a second takes too much is made up for in the next ones, in which nothing new is looked at; but one
    /// second in a minute is looked at, whatever it takes: with a very small budget that may be more. 0 looks for
    /// none, 100 at all that there is memory for. `sniff` looks at the same sample of a capture on every machine.
    #[arg(long, env = "CQLENS_SEQUENCE_BUDGET", value_name = "PERCENT", default_value_t = 3.0, value_parser = percent)]
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

    /// Where snapshots go, and which are kept.
    pub(super) fn snapshot_folder(&self) -> Option<(&Path, Retention)> {
        let retention = Retention {
            age: self.keep.0,
            bytes: self.keep_bytes.0.map(|size| size.0),
            roll_up: RollUp {
                minutes: self.keep_minutes.0,
                hours: self.keep_hours.0,
                bytes: self.keep_bytes.0.map(|size| size.0),
                limits: self.limits(),
            },
        };
        self.snapshot_dir.as_deref().map(|folder| (folder, retention))
    }

    fn memory(&self) -> Memory {
        Memory::of(usize::try_from(self.memory.0).unwrap_or(usize::MAX))
    }

    /// How much one window holds: the one being filled, and the one with everything since the start.
    pub(super) fn limits(&self) -> Limits {
        // The two parts are of the same size.
        Limits::of_bytes(self.memory().part(Use::Window).limit())
    }

    /// Name and password of the control connection.
    pub(super) fn credentials(&self) -> Option<(String, String)> {
        self.username.clone().zip(self.password.clone())
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
        assert_eq!(relating(&[]), [within(0.03), Relating::default()]);
        let half = ["--sequence-budget", "0.5"];
        assert_eq!(relating(&half), [within(0.005), Relating::default()]);
        assert_eq!(relating(&["--sequence-budget", "0"]), [Relating::NONE; 2]);
        assert_eq!(relating(&["--sequence-budget", "100"]), [Relating::ALL; 2]);
    }
}
