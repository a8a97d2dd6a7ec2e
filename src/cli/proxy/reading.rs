//! Reads and opens everything that a reload needs, in a thread that may have to wait for disks.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use tracing_subscriber::filter::Targets;

use super::{
    args::Args,
    listener::bind_pairs,
    topology::{Mode, RoutePair},
};
use crate::cli::{log, output::OutputPaths, schema_file, settings::Settings, tls::Tls};
use cqlens_admin::{ReloadResult, SettingChanges};
use cqlens_cql::schema::Schema;

/// Settled when the process starts: sockets that are open, hashes that must stay
/// comparable, what auditors show.
const FIXED: &[&str] = &[
    "log-format",
    "listen",
    "reuse-port",
    "admin",
    "admin-token-file",
    "admin-tls-cert",
    "admin-tls-key",
    "hash-key-file",
    "memory",
    "client-addresses",
    "show-values",
    "sequence-budget",
    "record",
    "record-values",
    "record-file-bytes",
    "record-file-age",
    "record-max-bytes",
    "record-keep",
    "topology",
    "transparent",
    "state-file",
    "shadow",
    "shadow-report",
    "shadow-sample",
    "shadow-keyspaces",
    "shadow-patterns",
    "shadow-rate",
    "shadow-write-keyspaces",
    "shadow-lwt-keyspaces",
    "shadow-counter-keyspaces",
    "shadow-ddl-keyspaces",
    "shadow-exclude-columns",
    "shadow-no-discovery",
    "shadow-ask-upstream",
    "shadow-noise-sample",
    "shadow-ask-again-after",
    "shadow-username",
    "shadow-password-file",
    "shadow-tls-ca",
    "shadow-tls-cert",
    "shadow-tls-key",
    "shadow-tls-name",
    "shadow-timeout",
    "sink",
    "sink-spool",
    "sink-spool-bytes",
    "sink-every",
    "otlp",
    "otlp-every",
    "otlp-header-file",
    "otlp-tls-ca",
];

/// What depends on the settings and has been made anew.
pub(super) struct NewParts {
    pub(super) filter: Option<Targets>,
    pub(super) tls: Option<Tls>,
    pub(super) places: Option<OutputPaths>,
    /// As the file has it, which may be what it had before.
    pub(super) schema: Option<Schema>,
    pub(super) mode: Mode,
    /// Sockets for routes that are new.
    pub(super) sockets: Vec<(RoutePair, TcpListener)>,
}

/// All that is new, not yet in force.
pub(super) struct ReadSettings {
    pub(super) args: Args,
    pub(super) settings: Settings,
    pub(super) changes: SettingChanges,
    pub(super) news: NewParts,
}

/// Reads the sources of the settings: the arguments, the filter of the log, and both as settings.
pub(in crate::cli) trait ReadAgain:
    Fn() -> anyhow::Result<(Args, String, Settings)> + Send + Sync
{
}

impl<F: Fn() -> anyhow::Result<(Args, String, Settings)> + Send + Sync> ReadAgain for F {}

pub(super) type ReloadAnswer = oneshot::Sender<ReloadResult>;

/// A reload under way: files are read by a thread that may have to wait for them, which the loop does not.
#[derive(Default)]
pub(super) struct Reloading {
    /// The deadline, and the thread that reads.
    pub(super) reading: Option<(Instant, JoinHandle<anyhow::Result<ReadSettings>>)>,
    /// The operators that wait for the result.
    pub(super) answers: Vec<ReloadAnswer>,
    /// The operators that want another reload after this one; `None` if no further one is due.
    pub(super) asked_again: Option<Vec<ReloadAnswer>>,
    /// Still waits for the files of a reload that was given up.
    pub(super) stuck: Option<JoinHandle<anyhow::Result<ReadSettings>>>,
}

/// The files of a reload must be read by then: sooner than the client of the admin listener gives up.
pub(super) const READING: Duration = Duration::from_secs(10);

impl ReadSettings {
    /// Reads and opens everything, which may take as long as a disk needs.
    pub(super) fn read(
        read_again: &dyn ReadAgain,
        before: &Settings,
        pairs: &[(RoutePair, SocketAddr)],
        tls: &Tls,
    ) -> anyhow::Result<Self> {
        let (mut args, filter, mut settings) = read_again()?;
        args.observer.login.read_password()?;
        let changes = before.compare(&mut settings, FIXED);
        let news = NewParts::prepare(&args, &filter, &changes, pairs)?;
        if news.tls.is_none() {
            // The files have the same names; their contents may be new.
            tls.renew();
        }
        Ok(Self {
            args,
            settings,
            changes,
            news,
        })
    }
}

impl Reloading {
    /// What was read, once something is; nothing is lost if the future is dropped.
    pub(super) async fn read(&mut self) -> anyhow::Result<ReadSettings> {
        let Some((until, task)) = &mut self.reading else {
            return std::future::pending().await;
        };
        let read = timeout_at(*until, task).await;
        let Some((_, task)) = self.reading.take() else {
            return std::future::pending().await;
        };
        match read {
            Ok(read) => read.context("reading has failed")?,
            Err(_elapsed) => {
                self.stuck = Some(task);
                bail!("the files that the settings name were not read within {READING:?}")
            }
        }
    }
}

impl NewParts {
    fn prepare(
        args: &Args,
        filter: &str,
        changes: &SettingChanges,
        pairs: &[(RoutePair, SocketAddr)],
    ) -> anyhow::Result<Self> {
        let mode = args.mode()?;
        let sockets = match &mode {
            Mode::Routes(routes) if changes.any_of(&["route"]) => {
                let is_new = |route: &&RoutePair| !pairs.iter().any(|(pair, _)| pair.listen == route.listen);
                let new: Vec<_> = routes.iter().filter(is_new).cloned().collect();
                bind_pairs(&new, args)?
            }
            _ => Vec::new(),
        };
        let of_tls = changes.applied.iter().any(|key| {
            (key.contains("-tls-") && !key.starts_with("admin-")) || key == "upstream" || key == "route"
        });
        let report = args.observer.report_file(None)?;
        let to_places = changes
            .any_of(&[
                "report",
                "snapshot-dir",
                "keep-minutes",
                "keep-hours",
                "keep",
                "keep-bytes",
            ])
            .then(|| {
                let folders = args.observer.snapshot_folders(args.record.as_deref());
                OutputPaths::open(report, folders)
            });
        Ok(Self {
            filter: changes.any_of(&["log"]).then(|| log::parse(filter)).transpose()?,
            tls: of_tls
                .then(|| Tls::open(args.tls.clone(), &args.first_upstream()))
                .transpose()?,
            places: to_places.transpose()?,
            schema: args
                .observer
                .schema
                .as_deref()
                .map(schema_file::read)
                .transpose()?,
            mode,
            sockets,
        })
    }
}
