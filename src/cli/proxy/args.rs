//! The arguments of `cqlens proxy`.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use anyhow::bail;

use super::{
    super::{
        config::{duration, host_and_port, positive_duration, traces_per_second},
        limits::LimitArgs,
        observer::ObserverArgs,
        recording::RecordArgs,
        tls::TlsArgs,
    },
    access::AccessArgs,
    cluster::Listen,
    shadow::ShadowArgs,
    topology::{DEFAULT_LISTEN, Mode, TopologyArgs},
};

/// Audit live traffic: a proxy before the cluster
///
/// Clients connect to cqlens in place of a node. Every byte is forwarded unchanged; reports show how the traffic and
/// the data model fit together.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Forwarding", after_help = MORE, after_long_help = ENDING)]
pub(in crate::cli) struct Args {
    // A style that ends where none began keeps `{n}` from being read as the end of a line.
    #[arg(
        help = "Where clients connect",
        long_help = "Where clients connect\n\nWith --topology cluster, one address for each node: 127.0.1.{\u{1b}[0mn}:9042 (the same port \
                at several addresses), 127.0.0.1:9042-9049 or 127.0.0.1:9042+ (several ports at one address, for drivers that distinguish \
                nodes by the ports in system.peers_v2: Java 4, Python).",
        long,
        env = "CQLENS_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value_t = Listen::One(DEFAULT_LISTEN)
    )]
    pub(super) listen: Listen,
    /// The node to forward connections to
    ///
    /// With --topology cluster, one or more contact points.
    #[arg(long, env = "CQLENS_UPSTREAM", value_name = "HOST[:PORT]", value_parser = host_and_port, value_delimiter = ',',
        required_unless_present = "route")]
    pub(super) upstream: Vec<String>,
    /// Share the listening address with other processes
    ///
    /// The next process can then start before this one ends. All of them must be started with this flag.
    #[arg(long, env = "CQLENS_REUSE_PORT", hide_short_help = true)]
    pub(super) reuse_port: bool,
    /// Timeout for the node to accept a connection
    #[arg(long, env = "CQLENS_CONNECT_TIMEOUT", value_name = "DURATION", default_value = "5s", value_parser = positive_duration, hide_short_help = true)]
    pub(super) connect_timeout: Duration,
    /// Grace period for requests in flight when cqlens is stopped
    #[arg(long, env = "CQLENS_GRACE", value_name = "DURATION", default_value = "10s", value_parser = duration, hide_short_help = true)]
    pub(super) grace: Duration,
    /// How long to keep accepting clients when cqlens is stopped
    ///
    /// /readyz returns 503 meanwhile: set it to the time that a load balancer needs to notice.
    #[arg(long, env = "CQLENS_DRAIN_DELAY", value_name = "DURATION", default_value = "0s", value_parser = duration, hide_short_help = true)]
    pub(super) drain_delay: Duration,
    #[command(flatten)]
    pub(super) topology: TopologyArgs,
    #[command(flatten)]
    pub(super) observer: ObserverArgs,
    /// Record requests, for `cqlens replay`
    ///
    /// Includes digests of their responses. `cqlens report` and `cqlens explain` read the folder as well; it can be
    /// replayed on another cluster only with --record-values. Off if not set.
    #[arg(
        long,
        env = "CQLENS_RECORD",
        value_name = "DIR",
        hide_short_help = true,
        help_heading = "Results"
    )]
    pub(super) record: Option<PathBuf>,
    #[command(flatten)]
    pub(super) record_args: RecordArgs,
    /// Do not open a control connection to the cluster
    ///
    /// The schema is then taken from --schema and the traffic.
    #[arg(
        long,
        env = "CQLENS_NO_CONTROL_CONNECTION",
        hide_short_help = true,
        help_heading = "Control connection"
    )]
    pub(super) no_control_connection: bool,
    /// Repeat this many reads per second with tracing, to count tombstones
    ///
    /// They are sent over cqlens' own connection. The cluster writes the traces, and keeps them for a day. Off if not
    /// set.
    #[arg(long, env = "CQLENS_TRACE_SAMPLE", value_name = "PER_SECOND", value_parser = traces_per_second,
        conflicts_with = "no_control_connection", hide_short_help = true, help_heading = "Control connection")]
    pub(super) trace_sample: Option<f64>,
    /// Interval for polling the nodes' counters of tombstones and rows per read
    ///
    /// They are in `system_views` of Cassandra 4.0 and later. Off if not set.
    #[arg(long, env = "CQLENS_POLL_SYSTEM_VIEWS", value_name = "DURATION", value_parser = positive_duration,
        conflicts_with = "no_control_connection", hide_short_help = true, help_heading = "Control connection")]
    pub(super) poll_system_views: Option<Duration>,
    #[command(flatten)]
    pub(super) shadow: ShadowArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
    /// Serve probes and operators over HTTP
    ///
    /// /livez and /readyz; from this machine or with the token, also /metrics, /report, /findings, /snapshot, /config,
    /// /log-level, /reload and /drain. With unix:PATH, on a socket that only the user running cqlens may connect to.
    /// Off if not set.
    #[arg(
        long,
        env = "CQLENS_ADMIN",
        value_name = "ADDRESS:PORT|unix:PATH",
        help_heading = "Operation"
    )]
    pub(super) admin: Option<AdminAddress>,
    #[command(flatten)]
    pub(super) access: AccessArgs,
    #[cfg(feature = "otlp")]
    #[command(flatten)]
    pub(super) otlp: crate::cli::otlp::OtlpArgs,
    /// Print the settings in force as TOML, and exit
    ///
    /// Each with its origin; passwords are left out.
    #[arg(long, help_heading = "Operation")]
    pub(super) print_config: bool,
    /// Check the settings without starting, and exit
    ///
    /// Reads the files that they name, including certificates and keys, and resolves host names. Nothing is bound,
    /// connected to or written. All errors are printed, with exit code 2.
    #[arg(long, help_heading = "Operation")]
    pub(super) check: bool,
}

const MORE: &str = "These are the common options: `cqlens proxy --help` has all of them, with examples.";

const ENDING: &str = "Examples:
  Forward to one node, and keep a report current:
      cqlens proxy --upstream 10.0.0.1 --report report.html
  Keep a snapshot of every minute, for `cqlens report`:
      cqlens proxy --upstream 10.0.0.1 --snapshot-dir snapshots
  Listen for every node of a cluster, so that drivers discover cqlens instead:
      cqlens proxy --topology cluster --upstream db --listen 127.0.1.{\u{1b}[0mn}:9042
  Check the settings before a restart:
      cqlens proxy --config /etc/cqlens/cqlens.toml --check

SIGHUP reads settings, certificates, keys and passwords again. SIGTERM and
SIGINT stop: requests in flight may end, within --grace.

Exit codes:
  0    done
  2    settings that cannot be used, a file that cannot be read, an address that
       cannot be bound
  3    not everything could be written in time at the end
  130  a second signal ended a process that was stuck";

impl Args {
    /// What clients are forwarded to, and from where.
    ///
    /// # Errors
    /// Settings that do not fit together, by name.
    pub(super) fn mode(&self) -> anyhow::Result<Mode> {
        for (key, needs) in [
            ("topology = cluster", self.topology.is_cluster()),
            (
                "start-without-cluster = refuse",
                self.topology.refuses_without_cluster(),
            ),
        ] {
            if needs && self.no_control_connection {
                bail!("no-control-connection: {key} needs the control connection");
            }
        }
        let admin = self.admin.as_ref().and_then(AdminAddress::tcp);
        self.access.check(admin)?;
        let mode = self.topology.mode(&self.listen, &self.upstream, admin)?;
        self.shadow.check_loops(&mode.listens())?;
        Ok(mode)
    }

    /// Whether anything of the audit outlives the process, or can be asked for.
    pub(super) fn keeps_anything(&self) -> bool {
        let observer = &self.observer;
        let keeps = [&observer.report, &observer.snapshot_dir, &self.record];
        #[cfg(feature = "fleet")]
        if observer.sink.sink.is_some() {
            return true;
        }
        #[cfg(feature = "otlp")]
        if self.otlp.otlp.is_some() {
            return true;
        }
        keeps.into_iter().any(Option::is_some) || self.admin.is_some()
    }

    /// The first contact point, which stands for all of them in the name of this process.
    pub(super) fn first_upstream(&self) -> String {
        let contacts = self.topology.contacts(&self.upstream);
        contacts.into_iter().next().unwrap_or_default()
    }
}

/// Where the admin listener is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum AdminAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl AdminAddress {
    /// Its address, if others could want the same one.
    pub(super) fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl FromStr for AdminAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("unix:") {
            Some("") => Err("unix: and the path of a socket"),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| "an address and a port, such as 127.0.0.1:9143, or unix:PATH"),
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_listener_has_an_address_or_a_path() {
        for text in ["127.0.0.1:9143", "[::1]:9143", "unix:/run/cqlens/admin"] {
            let address: Result<AdminAddress, _> = text.parse();
            assert_eq!(address.map(|address| address.to_string()), Ok(text.to_owned()));
        }
        for text in ["unix:", "localhost", "/run/cqlens", ""] {
            assert!(text.parse::<AdminAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn help_shows_the_number_of_a_node_in_a_listen_rule() {
        let help = <Args as clap::Args>::augment_args(clap::Command::new("proxy")).render_long_help();
        assert!(help.to_string().contains("127.0.1.{n}:9042"), "{help}");
    }
}
