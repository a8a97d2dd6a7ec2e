//! `--trace-sample`: repeats some reads with tracing, over a connection of cqlens' own.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc::Receiver, task::spawn_blocking, time::sleep};

use super::{args::Args, control};
use crate::{
    cli::tls::Tls,
    control::{Contacts, SystemReader},
};
use cqlens_audit::{
    audit::{Audit, ServerStats, TraceSample},
    catalog::Live,
};
use cqlens_client::{ClientError, ClientOptions};

/// Traces until it is dropped, if `args` say so.
pub(super) fn trace(
    args: &Args,
    tls: &Tls,
    live: &Arc<Live>,
    audit: &Audit,
) -> Option<impl Future<Output = ()> + use<>> {
    let samples = audit.sample(Duration::from_secs_f64(args.trace_sample?.recip()))?;
    let repeater = Repeater {
        contacts: control::contacts(args),
        live: Arc::clone(live),
        stats: audit.server_stats(),
        reader: None,
        keyspace: None,
    };
    Some(repeater.run(samples, control::options(args, tls)))
}

struct Repeater {
    contacts: Contacts,
    live: Arc<Live>,
    stats: ServerStats,
    reader: Option<SystemReader>,
    /// What `reader` has in use.
    keyspace: Option<String>,
}

/// The pause after any failure.
const PAUSE: Duration = Duration::from_secs(5);

impl Repeater {
    async fn run(mut self, mut samples: Receiver<TraceSample>, options: impl Fn(&str) -> ClientOptions) {
        let mut has_failed = false;
        while let Some(sample) = samples.recv().await {
            let Err(error) = self.repeat(&sample, &options).await else {
                has_failed = false;
                continue;
            };
            // Once until it works again.
            if has_failed {
                tracing::debug!(%error, "a read could not be traced");
            } else {
                tracing::warn!(%error, "trace-sample: a read could not be traced");
            }
            has_failed = true;
            self.reader = None;
            sleep(PAUSE).await;
        }
    }

    async fn repeat(
        &mut self,
        sample: &TraceSample,
        options: &impl Fn(&str) -> ClientOptions,
    ) -> Result<(), ClientError> {
        let Some(query) = sample.query() else {
            return Ok(());
        };
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                self.keyspace = None;
                none.insert(connect(&self.contacts, &self.live, options).await?)
            }
        };
        if let Some(keyspace) = sample.keyspace()
            && self.keyspace.as_deref() != Some(keyspace)
        {
            reader.use_keyspace(keyspace).await?;
            self.keyspace = Some(keyspace.to_owned());
        }
        let events = reader.trace(query).await?;
        let (stats, sample) = (self.stats.clone(), sample.clone());
        // A stuck auditor holds up only this thread.
        let is_told = spawn_blocking(move || stats.trace(&sample, &events)).await;
        if let Ok(false) = is_told {
            tracing::debug!("a trace does not show what was read");
        }
        Ok(())
    }
}

/// To the first node that lets us in.
async fn connect(
    contacts: &Contacts,
    live: &Live,
    options: &impl Fn(&str) -> ClientOptions,
) -> Result<SystemReader, ClientError> {
    let mut result = Err(ClientError::Closed);
    for address in contacts.round(&live.cluster(), None) {
        result = SystemReader::connect(&address, &options(&address)).await;
        if result.is_ok() {
            break;
        }
    }
    result
}
