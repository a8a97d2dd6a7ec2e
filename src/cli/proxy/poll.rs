//! `--poll-system-views`: queries the counters that nodes keep of their reads, now and then.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{args::Args, control};
use crate::{
    cli::tls::Tls,
    control::{Contacts, SystemReader},
};
use cqlens_audit::{
    audit::{Audit, ServerStats},
    catalog::Live,
};
use cqlens_client::{ClientError, ClientOptions};

/// Polls until it is dropped, if `args` say so.
pub(super) fn poll(
    args: &Args,
    tls: &Tls,
    live: &Arc<Live>,
    audit: &Audit,
) -> Option<impl Future<Output = ()> + use<>> {
    let (every, stats) = (args.poll_system_views?, audit.server_stats());
    let (contacts, options) = (control::contacts(args), control::options(args, tls));
    Some(ask_all(every, contacts, Arc::clone(live), options, stats))
}

async fn ask_all(
    every: Duration,
    contacts: Contacts,
    live: Arc<Live>,
    options: impl Fn(&str) -> ClientOptions,
    stats: ServerStats,
) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_failed = false;
    loop {
        ticks.tick().await;
        // Each knows its own reads only.
        for address in contacts.round(&live.cluster(), None) {
            match ask(&address, &options(&address), &stats).await {
                Ok(()) => has_failed = false,
                // Once until it works again.
                Err(error) if has_failed => {
                    tracing::debug!(%address, %error, "a node does not report its reads")
                }
                Err(error) => {
                    has_failed = true;
                    tracing::warn!(%address, %error, "poll-system-views: a node does not report its reads");
                }
            }
        }
    }
}

async fn ask(address: &str, options: &ClientOptions, stats: &ServerStats) -> Result<(), ClientError> {
    let mut reader = SystemReader::connect(address, options).await?;
    let (stats, histograms) = (stats.clone(), reader.read_histograms().await?);
    // A stuck auditor holds up only this thread.
    let _ = spawn_blocking(move || stats.histograms(histograms)).await;
    Ok(())
}
