//! What takes the exchanges that the audit sees: a recording, a second cluster.

use std::{sync::Arc, time::Duration};

use super::args::Args;
use crate::cli::recording::Recording;
use cqlens_audit::audit::observe::Observer;
use cqlens_capture::{memory::Part, pulse::Pulse};
use cqlens_rehearse::{
    digest::DigestKey,
    left_out::LeftOutCounts,
    observe::{Exchanges, TakeExchange},
    shadow::Shadow,
};

/// Who is handed exchanges beside the audit, for as long as the process lives.
pub(super) struct ObservedTraffic {
    key: DigestKey,
    left_out: Arc<LeftOutCounts>,
    recording: Option<Recording>,
}

/// How long the end of a recording may take, beside what is left of `--grace`.
const PATIENCE: Duration = Duration::from_secs(5);

impl ObservedTraffic {
    /// Begins the recording that the settings ask for, as the source called `name`. Digests have `key`.
    ///
    /// # Errors
    /// A recording that cannot be written.
    pub(super) fn begin(args: &Args, name: &str, key: DigestKey, memory: &Part) -> anyhow::Result<Self> {
        let left_out = Arc::default();
        let folder = args.record.as_deref();
        let begin = |folder| Recording::begin(folder, &args.record_args, name, key, &left_out, memory, false);
        let recording = folder.map(begin);
        Ok(Self {
            key,
            recording: recording.transpose()?,
            left_out,
        })
    }

    /// For the audit; none where nothing is asked for, which costs nothing then.
    pub(super) fn observer(&self, shadow: Option<&Arc<Shadow>>) -> Observer {
        let recording = self.recording.iter().map(Recording::taker);
        let shadow = shadow.map(|shadow| Arc::clone(shadow) as Arc<dyn TakeExchange>);
        let takers: Vec<_> = recording.chain(shadow).collect();
        match takers.is_empty() {
            true => Observer::default(),
            false => Exchanges::observer(self.key, takers, Arc::clone(&self.left_out)),
        }
    }

    /// What a recording lacks; none where nothing is recorded.
    pub(super) fn left_out(&self) -> Option<Arc<LeftOutCounts>> {
        self.recording.as_ref().map(|_| Arc::clone(&self.left_out))
    }

    /// The signs of life of its threads.
    pub(super) fn pulse(&self) -> Option<&Pulse> {
        self.recording.as_ref().map(Recording::pulse)
    }

    /// Writes what waits, once the audit has ended; for that there is also what is left of `--grace`.
    pub(super) fn end(&self, unused_grace: Duration) {
        if let Some(recording) = &self.recording {
            // Before it is logged: what a filter leaves out is not evaluated.
            let ended = recording.end(PATIENCE + unused_grace);
            tracing::info!("{ended}");
        }
    }
}
