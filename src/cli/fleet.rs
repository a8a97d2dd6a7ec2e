//! Where windows of many proxies come together: the settings of who writes them, and how a store is opened.

use std::{env, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use cqlens_client::ClientOptions;
use cqlens_fleet::{Address, CassandraAddress, Store};
use cqlens_proxy::tls::{Authorities, Connector, HostnameCheck};
use cqlens_window::Limits;

use super::{
    config::{OrOff, Size, age_or_off, size},
    hash_key::state_directory,
    login::secret,
    plaintext,
    tls::host,
};
use crate::sink::{Spool, SpoolSettings};

/// The sink of a proxy or a capture.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct SinkArgs {
    /// Write snapshots to a store that proxies share
    ///
    /// For `cqlens report --from`. A folder, s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, az://CONTAINER/FOLDER or
    /// cassandra://HOST[,HOST][:PORT]/KEYSPACE. Keys for object stores come from the environment, such as
    /// AWS_ACCESS_KEY_ID. For Cassandra, ?username=NAME&password-file=FILE logs in, and tls-ca=FILE uses TLS.
    #[arg(long, env = "CQLENS_SINK", value_name = "URL")]
    pub(super) sink: Option<Address>,
    /// Folder in which snapshots wait for the sink
    ///
    /// By default, sink-spool in $STATE_DIRECTORY (of systemd), $XDG_STATE_HOME/cqlens or ~/.local/state/cqlens.
    #[arg(
        long,
        env = "CQLENS_SINK_SPOOL",
        value_name = "DIR",
        requires = "sink",
        hide_short_help = true
    )]
    sink_spool: Option<PathBuf>,
    /// Lose the oldest snapshots that wait beyond this size
    ///
    /// They are counted.
    #[arg(long, env = "CQLENS_SINK_SPOOL_BYTES", value_name = "SIZE", default_value = "245MB", value_parser = size, hide_short_help = true)]
    sink_spool_bytes: Size,
    /// Merge so much time (UTC) into one snapshot before it is written to the sink
    #[arg(long, env = "CQLENS_SINK_EVERY", value_name = "DURATION", default_value = "1h", value_parser = span_of_day, hide_short_help = true)]
    sink_every: Duration,
}

impl SinkArgs {
    /// Whether a store can be opened, which connects to nothing.
    ///
    /// # Errors
    /// As [`open`].
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Some(address) = &self.sink else {
            return Ok(());
        };
        let opened = open(address).with_context(|| format!("cannot use the sink {address}"));
        opened.map(drop)
    }

    /// Opens the spool, if there is a sink; whether the sink can be reached is seen later, and does not matter to a proxy.
    ///
    /// # Errors
    /// A spool that cannot be written, a file of the sink's address that cannot be read.
    pub(super) fn open(&self, window: Duration, limits: Limits) -> anyhow::Result<Option<Spool>> {
        let Some(address) = self.sink.clone() else {
            return Ok(None);
        };
        self.check()?;
        let folder = self.spool_folder()?;
        let settings = SpoolSettings {
            folder: folder.clone(),
            bytes: self.sink_spool_bytes.0,
            every: self.sink_every,
            window,
            limits,
        };
        let spool = Spool::open(settings, Box::new(move || open(&address)));
        spool
            .map(Some)
            .with_context(|| format!("cannot keep snapshots for the sink in {}", folder.display()))
    }

    /// The folder of the spool.
    ///
    /// # Errors
    /// None is named, and there is no place for state.
    pub(super) fn spool_folder(&self) -> anyhow::Result<PathBuf> {
        let of_state = || state_directory().map(|folder| folder.join("sink-spool"));
        let folder = self.sink_spool.clone().or_else(of_state);
        folder.context("neither STATE_DIRECTORY nor HOME is set: name a folder with --sink-spool")
    }
}

/// A part of a day that is in it a whole number of times, so that all sources merge the same.
fn span_of_day(text: &str) -> Result<Duration, String> {
    let wrong = || Err("a duration that divides a day, such as 10m, 1h or 1d".to_owned());
    let Ok(OrOff(Some(span))) = age_or_off(text) else {
        return wrong();
    };
    match Duration::from_secs(86_400).as_millis() % span.as_millis().max(1) {
        0 => Ok(span),
        _ => wrong(),
    }
}

/// Opens a store, without connecting to it.
///
/// # Errors
/// An environment that lacks what an object store needs, files that cannot be read.
pub(super) fn open(address: &Address) -> anyhow::Result<Store> {
    match address {
        Address::Objects(url) => {
            let environment = env::vars_os().filter_map(|(name, value)| {
                let name = name.into_string().ok()?.to_ascii_lowercase();
                Some((name, value.into_string().ok()?))
            });
            Ok(Store::objects(url, environment)?)
        }
        Address::Cassandra(address) => {
            let node = |node: &String| Ok((node.clone(), options(address, node)?));
            let nodes = address.nodes.iter().map(node).collect::<anyhow::Result<_>>()?;
            Ok(Store::cassandra(&address.keyspace, nodes))
        }
    }
}

/// How to connect to a node.
fn options(address: &CassandraAddress, node: &str) -> anyhow::Result<ClientOptions> {
    let credentials = match (&address.username, &address.password_file) {
        (Some(name), Some(path)) => Some((name.clone(), secret(path, "password")?)),
        _ => None,
    };
    let tls = address.tls_ca.as_deref().map(|authorities| {
        let authorities = Authorities::read(authorities)?;
        Connector::new(authorities, None, host(node), HostnameCheck::On)
    });
    Ok(ClientOptions {
        credentials,
        application: "cqlens sink".to_owned(),
        plaintext_passwords: plaintext::is_allowed(),
        tls: tls.transpose()?.map(|tls| Arc::new(tls) as _),
        ..ClientOptions::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_divide_a_day() {
        for (text, span) in [("1h", 3_600), ("10m", 600), ("1d", 86_400), ("1s", 1)] {
            assert_eq!(span_of_day(text), Ok(Duration::from_secs(span)));
        }
        for text in ["7m", "2d", "5h", "0s", "hour"] {
            assert!(span_of_day(text).is_err(), "{text}");
        }
    }
}
