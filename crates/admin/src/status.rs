//! What the admin listener shows of a process, and the orders that it passes on.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use super::access::Token;
use cqlens_capture::memory::MemoryStatus;
use cqlens_report::Format;

/// What the admin listener knows of the process that it is part of.
pub struct Admin {
    /// Whether the threads that serve clients and operators make progress.
    pub is_alive: Box<dyn Fn() -> bool + Send + Sync>,
    /// How the process is, now.
    pub status: Box<dyn Fn() -> Status + Send + Sync>,
    /// Its settings as TOML, without secrets.
    pub settings: Box<dyn Fn() -> String + Send + Sync>,
    /// What Prometheus is told, in a text format of its choice.
    pub metrics: Box<dyn Fn(Exposition) -> String + Send + Sync>,
    /// What is logged: a level, or a filter.
    pub log_level: Box<dyn Fn() -> String + Send + Sync>,
    /// What operators over TCP have to send; none where they are on this machine.
    pub token: Box<dyn Fn() -> Option<Arc<Token>> + Send + Sync>,
    /// Takes the orders, for the control loop.
    pub orders: mpsc::Sender<AdminOrder>,
}

/// A text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' own, version 0.0.4, which everything reads.
    Prometheus,
    /// OpenMetrics 1.0.0, for those who ask for it.
    OpenMetrics,
}

/// Something to be done.
#[derive(Debug)]
pub enum AdminOrder {
    /// Read the settings again, and say what came of it.
    Reload(oneshot::Sender<ReloadResult>),
    /// End, gently.
    Drain,
    /// Make this of everything up to the last window.
    Render(Rendering, oneshot::Sender<Vec<u8>>),
    /// Log what this level or filter lets through, or say why that cannot be.
    LogLevel(String, oneshot::Sender<Result<(), String>>),
    /// About the second cluster that requests are copied to; the answer is JSON, and none where there is no such
    /// cluster.
    Shadow(ShadowOrder, oneshot::Sender<Option<Vec<u8>>>),
}

/// What can be made of everything up to the last window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rendering {
    /// The report.
    Report(Format),
    /// The findings of the report alone, as JSON.
    Findings,
    /// A snapshot, of which reports are made later: JSON, compressed with gzip.
    Snapshot,
}

/// What is to be done about the second cluster that requests are copied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShadowOrder {
    /// Say how its answers compare.
    Report,
    /// Go on with copying.
    Start,
    /// Copy nothing more.
    Stop,
}

/// What came of reading the settings again: the changes, or why there are none.
pub type ReloadResult = Result<SettingChanges, String>;

/// What a new reading of the settings brings, by key.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct SettingChanges {
    /// New values that take effect.
    pub applied: Vec<String>,
    /// New values that wait for a restart.
    pub need_restart: Vec<String>,
}

impl SettingChanges {
    /// Whether one of `keys` has a new value that takes effect.
    pub fn any_of(&self, keys: &[&str]) -> bool {
        self.applied.iter().any(|key| keys.contains(&key.as_str()))
    }
}

/// How a proxy is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Whether clients should come here.
    pub state: ReadyState,
    /// Since when the process is in this state.
    pub since: Timestamp,
    /// Where clients connect.
    pub listen: String,
    /// Where their connections go, or the contact points.
    pub upstream: String,
    /// All listeners, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<ListenerStatus>,
    /// What keeps nodes from having a listener, and which accept no connections, in whole sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What of the cluster's traffic does not come this way, or could go another one;
    /// null where all of it does.
    pub bypass: Option<String>,
    /// How many there are now.
    pub connections: usize,
    /// What is known of the cluster.
    pub control_connection: ControlConnection,
    /// Why there is none; null while there is one.
    pub control_connection_error: Option<String>,
    /// Whether a whole schema is known, from the cluster or a file.
    pub schema_known: bool,
    /// Lines of the log that were dropped because standard error was not read in time.
    pub log_lines_dropped: usize,
    /// How the audit keeps up.
    pub audit: AuditStatus,
    /// Whether each thread that is watched makes progress.
    pub threads: Vec<ThreadStatus>,
    /// How much memory is in use.
    pub memory: MemoryStatus,
}

/// Whether a thread makes progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadStatus {
    /// Its name: `audit`, `writer`, `wire-0`, `control`.
    pub thread: String,
    /// How long it has made none, though it had something to do.
    pub silent_seconds: u64,
    /// Whether that is so long that it is taken to be stuck.
    pub stuck: bool,
}

/// One of several listeners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListenerStatus {
    /// Where clients connect.
    pub listen: String,
    /// Where their connections go.
    pub upstream: String,
    /// The node there, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// Whether clients can connect.
    pub state: ListenerState,
}

/// Whether clients can connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListenerState {
    /// They can.
    Open,
    /// The address could not be listened at; it is tried again.
    Failed,
    /// Another process listens there.
    Elsewhere,
}

/// Whether clients should come here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyState {
    /// No listener is open yet: the nodes are not known.
    Waiting,
    /// They are accepted.
    Accepting,
    /// The process ends: clients that are still accepted will not stay for long.
    Draining,
}

/// How the control connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlConnection {
    /// There is none, as the settings have it.
    Off,
    /// It is open, and the schema in step with the cluster.
    Open,
    /// It is tried again and again.
    Trying,
}

/// How the audit keeps up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AuditStatus {
    /// Chunks that wait for the audit.
    pub waiting_chunks: usize,
    /// Their bytes.
    pub waiting_bytes: usize,
    /// Bytes that were left out since the current window began.
    pub dropped_bytes: u64,
    /// Windows that were longer than they were to be, because those before them could not be written in time.
    pub postponed_windows: u64,
    /// Reports that were not done in time.
    pub abandoned_reports: u64,
}
