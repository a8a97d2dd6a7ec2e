//! The second cluster that requests are copied to: its settings, and its report.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::json;

use super::{args::Args, control, topology::refuse_loop};
use crate::{
    cli::{
        config::{host_and_port, percent, positive_duration},
        format,
        login::secret,
        plaintext,
        replay::OutputFormat,
        tls::{Tls, host, identity},
    },
    sink,
};
use cqlens_admin::ShadowOrder;
use cqlens_audit::catalog::Live;
use cqlens_capture::memory::{Part, Use};
use cqlens_client::{ClientOptions, Watch, Watched};
use cqlens_proxy::{
    OwnSockets,
    tls::{Authorities, Connector, HostnameCheck, MinVersion},
};
use cqlens_rehearse::{
    compare::{Comparison, ComparisonFormat},
    digest::DigestKey,
    gate::Permissions,
    rehearsal::RehearsalSettings,
    shadow::{Publish, Shadow, ShadowSettings},
    target::{ConnectTo, TargetSettings},
};
use tokio::net::TcpStream;

/// The second cluster, and what it is sent.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Shadow")]
pub(in crate::cli) struct ShadowArgs {
    /// Copy reads to another cluster, and compare
    ///
    /// Clients neither wait for it nor see its errors. Off if not set.
    #[arg(long, env = "CQLENS_SHADOW", value_name = "HOST[:PORT]", value_delimiter = ',', value_parser = host_and_port, help_heading = "Forwarding")]
    shadow: Vec<String>,
    /// Keep a report of the comparison current: .txt, .md or .json
    #[arg(
        long,
        env = "CQLENS_SHADOW_REPORT",
        value_name = "FILE",
        requires = "shadow",
        hide_short_help = true
    )]
    shadow_report: Option<PathBuf>,
    /// Copy the requests of this share of connections, in percent
    #[arg(long, env = "CQLENS_SHADOW_SAMPLE", value_name = "PERCENT", default_value = "100", value_parser = percent, hide_short_help = true)]
    shadow_sample: f64,
    /// Copy only requests to these keyspaces
    #[arg(
        long,
        env = "CQLENS_SHADOW_KEYSPACES",
        value_name = "KEYSPACE",
        value_delimiter = ',',
        requires = "shadow",
        hide_short_help = true
    )]
    shadow_keyspaces: Vec<String>,
    /// Copy only requests of these patterns, by their ids in reports
    #[arg(
        long,
        env = "CQLENS_SHADOW_PATTERNS",
        value_name = "ID",
        value_delimiter = ',',
        requires = "shadow",
        hide_short_help = true
    )]
    shadow_patterns: Vec<String>,
    /// Maximum number of requests to copy per second
    #[arg(long, env = "CQLENS_SHADOW_RATE", value_name = "PER_SECOND", requires = "shadow", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    shadow_rate: Option<u32>,
    /// Copy writes to these keyspaces, too
    ///
    /// Conditional writes, counters and definitions need a setting of their own.
    #[arg(
        long,
        env = "CQLENS_SHADOW_WRITE_KEYSPACES",
        value_name = "KEYSPACE",
        value_delimiter = ',',
        requires = "shadow",
        hide_short_help = true
    )]
    shadow_write_keyspaces: Vec<String>,
    /// Copy conditional writes (IF) to these keyspaces, too
    ///
    /// What they do depends on what the shadow has.
    #[arg(
        long,
        env = "CQLENS_SHADOW_LWT_KEYSPACES",
        value_name = "KEYSPACE",
        value_delimiter = ',',
        requires = "shadow",
        hide_short_help = true
    )]
    shadow_lwt_keyspaces: Vec<String>,
    /// Copy additions to the counters of these keyspaces, too
    ///
    /// Where the shadow gets them by another way as well, they count twice.
    #[arg(
        long,
        env = "CQLENS_SHADOW_COUNTER_KEYSPACES",
        value_name = "KEYSPACE",
        value_delimiter = ',',
        requires = "shadow",
        hide_short_help = true
    )]
    shadow_counter_keyspaces: Vec<String>,
    /// Copy CREATE, ALTER, DROP and TRUNCATE of what is in these keyspaces, too
    ///
    /// And of the keyspaces themselves. Roles and permissions are not copied.
    #[arg(
        long,
        env = "CQLENS_SHADOW_DDL_KEYSPACES",
        value_name = "KEYSPACE",
        value_delimiter = ',',
        requires = "shadow",
        hide_short_help = true
    )]
    shadow_ddl_keyspaces: Vec<String>,
    /// Columns that are not compared
    #[arg(
        long,
        env = "CQLENS_SHADOW_EXCLUDE_COLUMNS",
        value_name = "COLUMN",
        value_delimiter = ',',
        requires = "shadow",
        hide_short_help = true
    )]
    shadow_exclude_columns: Vec<String>,
    /// Send only to the named nodes of the shadow
    ///
    /// Otherwise the other nodes of their datacenter are discovered, and requests go to a node that holds the partition.
    #[arg(
        long,
        env = "CQLENS_SHADOW_NO_DISCOVERY",
        requires = "shadow",
        hide_short_help = true
    )]
    shadow_no_discovery: bool,
    /// Repeat differing requests on the upstream, over cqlens' own connections
    ///
    /// Without it, differences in tables that were written in the meantime are not judged.
    #[arg(
        long,
        env = "CQLENS_SHADOW_ASK_UPSTREAM",
        requires = "shadow",
        hide_short_help = true
    )]
    shadow_ask_upstream: bool,
    /// Share of reads sent twice to the upstream, in percent
    ///
    /// A pattern that differs no more often than these pairs of responses is noise.
    #[arg(long, env = "CQLENS_SHADOW_NOISE_SAMPLE", value_name = "PERCENT", default_value = "0", value_parser = percent, hide_short_help = true)]
    shadow_noise_sample: f64,
    /// Pause before a differing request is repeated on both clusters
    #[arg(long, env = "CQLENS_SHADOW_ASK_AGAIN_AFTER", value_name = "DURATION", default_value = "1s", value_parser = positive_duration, hide_short_help = true)]
    shadow_ask_again_after: Duration,
    /// User name for the shadow
    #[arg(
        long,
        env = "CQLENS_SHADOW_USERNAME",
        value_name = "NAME",
        requires = "shadow_password_file",
        hide_short_help = true
    )]
    shadow_username: Option<String>,
    /// Read the password for the shadow from a file
    #[arg(
        long,
        env = "CQLENS_SHADOW_PASSWORD_FILE",
        value_name = "FILE",
        requires = "shadow_username",
        hide_short_help = true
    )]
    shadow_password_file: Option<PathBuf>,
    /// Use TLS to the shadow: CA certificates to verify it, in PEM
    #[arg(
        long,
        env = "CQLENS_SHADOW_TLS_CA",
        value_name = "FILE",
        requires = "shadow",
        hide_short_help = true
    )]
    shadow_tls_ca: Option<PathBuf>,
    /// Client certificate for the shadow, in PEM (mutual TLS)
    #[arg(long, env = "CQLENS_SHADOW_TLS_CERT", value_name = "FILE", requires_all = ["shadow_tls_ca", "shadow_tls_key"], hide_short_help = true)]
    shadow_tls_cert: Option<PathBuf>,
    /// Private key of that certificate, in PEM, not encrypted
    #[arg(
        long,
        env = "CQLENS_SHADOW_TLS_KEY",
        value_name = "FILE",
        requires = "shadow_tls_cert",
        hide_short_help = true
    )]
    shadow_tls_key: Option<PathBuf>,
    /// Host name or address to verify in the shadow's certificates
    ///
    /// By default, the host of --shadow.
    #[arg(
        long,
        env = "CQLENS_SHADOW_TLS_NAME",
        value_name = "NAME",
        requires = "shadow_tls_ca",
        hide_short_help = true
    )]
    shadow_tls_name: Option<String>,
    /// Timeout for connecting to the shadow and for each response
    #[arg(long, env = "CQLENS_SHADOW_TIMEOUT", value_name = "DURATION", default_value = "10s", value_parser = positive_duration, hide_short_help = true)]
    shadow_timeout: Duration,
}

/// For how long a table counts as just written, where the shadow gets its writes by another way.
const WRITTEN_FOR: Duration = Duration::from_secs(5);

/// How long its last report may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(12);

impl ShadowArgs {
    /// Whether requests are copied.
    pub(super) fn is_set(&self) -> bool {
        !self.shadow.is_empty()
    }

    /// Its nodes, as they are named.
    pub(super) fn named(&self) -> &[String] {
        &self.shadow
    }

    /// Checks that no node is cqlens itself, which would copy each copy again.
    ///
    /// # Errors
    /// One that is, and its listener.
    pub(super) fn check_loops(&self, listens: &[SocketAddr]) -> anyhow::Result<()> {
        let pairs = listens
            .iter()
            .flat_map(|listen| self.shadow.iter().map(move |node| (*listen, node)));
        let mut checked = pairs.map(|(listen, node)| refuse_loop("shadow", listen, node));
        checked.find(Result::is_err).unwrap_or(Ok(()))
    }

    /// Checks that the settings fit together, and reads their files.
    ///
    /// # Errors
    /// Settings that do not, by name; files that cannot be used.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.shadow_noise_sample == 0.0 || self.shadow_ask_upstream,
            "--shadow-noise-sample: only with --shadow-ask-upstream"
        );
        self.report()?;
        self.nodes(&None).map(drop)
    }

    /// The file of the report, and its format.
    fn report(&self) -> anyhow::Result<Option<(PathBuf, OutputFormat)>> {
        let with_format = |path: &PathBuf| Ok((path.clone(), format::of_file(path)?));
        self.shadow_report.as_ref().map(with_format).transpose()
    }

    fn nodes(&self, watch: &Option<Arc<dyn Watch>>) -> anyhow::Result<Vec<(String, ClientOptions)>> {
        let node = |address: &String| Ok((address.clone(), self.options(address, watch)?));
        self.shadow.iter().map(node).collect()
    }

    /// How to connect to a node.
    fn options(&self, address: &str, watch: &Option<Arc<dyn Watch>>) -> anyhow::Result<ClientOptions> {
        let credentials = match (&self.shadow_username, &self.shadow_password_file) {
            (Some(name), Some(path)) => Some((name.clone(), secret(path, "password")?)),
            _ => None,
        };
        let tls = self.connector(address).context("no TLS to the shadow")?;
        Ok(ClientOptions {
            credentials,
            application: "cqlens shadow".to_owned(),
            plaintext_passwords: plaintext::is_allowed(),
            tls: tls.map(|tls| Arc::new(tls) as _),
            timeout: self.shadow_timeout,
            watch: watch.clone(),
            ..ClientOptions::default()
        })
    }

    /// How to connect to nodes that the shadow names, if it is to be done at all. A copy of a cluster may still name the
    /// nodes of the one that it was copied from: nothing is sent to those.
    fn connect_to(&self, upstream: Vec<String>, live: &Arc<Live>, own: &OwnSockets) -> Option<ConnectTo> {
        if self.shadow_no_discovery {
            return None;
        }
        let (shadow, live, own) = (self.clone(), Arc::clone(live), own.clone());
        let watch = watch(&own);
        Some(ConnectTo::new(move |node| {
            let address = node.to_string();
            let cluster = live.cluster();
            if upstream.contains(&address) || cluster.nodes.iter().any(|known| known.leads_to(node)) {
                tracing::warn!(
                    address,
                    "the shadow names a node of the upstream, which gets no requests of the shadow"
                );
                return None;
            }
            if own.listens_at(node) {
                tracing::warn!(
                    address,
                    "the shadow names a node whose address leads back to a listener of cqlens, which gets no copies: \
                     check broadcast_rpc_address"
                );
                return None;
            }
            shadow
                .options(&address, &watch)
                .inspect_err(|error| tracing::warn!(address, "shadow: {error:#}"))
                .ok()
        }))
    }

    fn connector(&self, address: &str) -> anyhow::Result<Option<Connector>> {
        let Some(authorities) = &self.shadow_tls_ca else {
            return Ok(None);
        };
        let authorities = Authorities::read(authorities)?;
        let identity = identity(self.shadow_tls_cert.as_deref(), self.shadow_tls_key.as_deref())?;
        let name = self.shadow_tls_name.as_deref().unwrap_or_else(|| host(address));
        let versions = MinVersion::default();
        let connector = Connector::with_versions(authorities, identity, name, HostnameCheck::On, versions)?;
        Ok(Some(connector))
    }

    fn rehearsal(&self, memory: Part) -> RehearsalSettings {
        RehearsalSettings {
            permissions: Permissions {
                writes: self.shadow_write_keyspaces.iter().cloned().collect(),
                conditional: self.shadow_lwt_keyspaces.iter().cloned().collect(),
                counters: self.shadow_counter_keyspaces.iter().cloned().collect(),
                definitions: self.shadow_ddl_keyspaces.iter().cloned().collect(),
            },
            excluded: self.shadow_exclude_columns.iter().cloned().collect(),
            ask_again_after: self.shadow_ask_again_after,
            noise_share: self.shadow_noise_sample / 100.0,
            unsent_writes_count_for: Some(WRITTEN_FOR),
            memory,
        }
    }
}

/// The sockets of cqlens, to which no copy is sent: it would be copied again. Which says so once.
#[derive(Debug)]
struct NotToItself {
    own: OwnSockets,
    has_said: AtomicBool,
}

impl Watch for NotToItself {
    fn opened(&self, node: &TcpStream) -> io::Result<Watched> {
        let connected = self.own.connected(node);
        if let Err(error) = &connected
            && !self.has_said.swap(true, Ordering::Relaxed)
        {
            tracing::error!(%error, "shadow: no request is copied there");
        }
        Ok(Box::new(connected?))
    }
}

fn watch(own: &OwnSockets) -> Option<Arc<dyn Watch>> {
    Some(Arc::new(NotToItself {
        own: own.clone(),
        has_said: AtomicBool::new(false),
    }))
}

/// Begins to copy the requests of the source called `name`, if the settings ask for it. The digests of its exchanges
/// have `key`; `own` are the sockets of this process.
///
/// # Errors
/// Settings that do not fit together, files that cannot be used, a thread that cannot be had.
pub(super) fn begin(
    args: &Args,
    tls: &Tls,
    name: &str,
    key: DigestKey,
    live: &Arc<Live>,
    own: &OwnSockets,
) -> anyhow::Result<Option<Arc<Shadow>>> {
    let shadow = &args.shadow;
    if !shadow.is_set() {
        return Ok(None);
    }
    shadow.check()?;
    let memory = live.memory().part(Use::Rehearsal);
    let first = shadow.shadow_ask_upstream.then(|| {
        let options = control::options(args, tls);
        let contacts = control::contacts(args).points.into_iter();
        let nodes = contacts.map(|address| {
            let options = ClientOptions {
                watch: watch(own),
                ..options(&address)
            };
            (address, options)
        });
        TargetSettings {
            memory: memory.clone(),
            ..TargetSettings::new(nodes.collect(), key)
        }
    });
    let settings = ShadowSettings {
        source: name.to_owned(),
        other: TargetSettings {
            connect_to: shadow.connect_to(control::contacts(args).points, live, own),
            memory: memory.clone(),
            ..TargetSettings::new(shadow.nodes(&watch(own))?, key)
        },
        first,
        rehearsal: shadow.rehearsal(memory),
        share: shadow.shadow_sample / 100.0,
        keyspaces: shadow.shadow_keyspaces.iter().cloned().collect(),
        patterns: shadow.shadow_patterns.iter().cloned().collect(),
        most_per_second: shadow.shadow_rate,
    };
    let begun = Shadow::start(settings, publish(shadow.report()?)).context("no shadow")?;
    tracing::info!(
        to = shadow.shadow.join(", "),
        "requests are copied to another cluster"
    );
    Ok(Some(Arc::new(begun)))
}

/// Writes each report to its file; one that cannot be written is logged.
fn publish(report: Option<(PathBuf, OutputFormat)>) -> Publish {
    Box::new(move |comparison: &Comparison| {
        let Some((path, format)) = &report else { return };
        let written = sink::replace(path, |to| comparison.render(format.rendered(), to));
        if let Err(error) = written {
            tracing::error!(%error, path = %path.display(), "shadow-report: cannot be written");
        }
    })
}

/// Carries out an order of the admin listener; what there is to say, as JSON.
pub(super) fn carry_out(shadow: &Shadow, order: ShadowOrder) -> Vec<u8> {
    let turned = |on| {
        let was_on = shadow.set_copying(on);
        tracing::info!(on, "shadow: turned by the admin listener");
        json!({ "copying": on, "before": was_on })
            .to_string()
            .into_bytes()
    };
    match order {
        ShadowOrder::Start => turned(true),
        ShadowOrder::Stop => turned(false),
        ShadowOrder::Report => {
            let mut report = Vec::new();
            match shadow.latest() {
                // Into memory it cannot fail.
                Some(latest) => drop(latest.render(ComparisonFormat::Json, &mut report)),
                None => report.extend(b"{}\n"),
            }
            report
        }
    }
}
