//! The arguments of `cqlens proxy`.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use anyhow::bail;

use super::{
    super::{
        config::{duration, host_and_port, positive_duration, traces_per_second},
        limits::LimitArgs,
        observer::ObserverArgs,
        tls::TlsArgs,
    },
    cluster::Listen,
    topology::{DEFAULT_LISTEN, Mode, TopologyArgs},
};

/// Forward client connections to a node, unchanged, and report what the traffic does to the data model.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    // A style that ends where none began keeps `{n}` from being read as the end of a line.
    #[arg(
        help = "Where clients connect. With --topology cluster, one address for each node: 127.0.1.{\u{1b}[0mn}:9042 (the same port \
                at several addresses), 127.0.0.1:9042-9049 or 127.0.0.1:9042+ (several ports at one address, for drivers that tell \
                nodes apart by the ports in system.peers_v2: Java 4, Python)",
        long,
        env = "CQLENS_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value_t = Listen::One(DEFAULT_LISTEN)
    )]
    pub(super) listen: Listen,
    /// Let other processes listen at the same address too, so that the next one can begin before this
    /// one ends. All must say so.
    #[arg(long, env = "CQLENS_REUSE_PORT")]
    pub(super) reuse_port: bool,
    /// The node that connections go to; with --topology cluster, one or more nodes that tell of all.
    #[arg(long, env = "CQLENS_UPSTREAM", value_name = "HOST[:PORT]", value_parser = host_and_port, value_delimiter = ',',
        required_unless_present = "route")]
    pub(super) upstream: Vec<String>,
    /// How long requests in flight may take to end when cqlens is told to stop.
    #[arg(long, env = "CQLENS_GRACE", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(super) grace: Duration,
    /// How long clients are still accepted when cqlens is told to stop, while /readyz already says 503: the
    /// time that a load balancer needs to notice.
    #[arg(long, env = "CQLENS_DRAIN_DELAY", value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(super) drain_delay: Duration,
    /// How long to wait for the node to accept a connection.
    #[arg(long, env = "CQLENS_CONNECT_TIMEOUT", value_name = "DURATION", default_value = "5s", value_parser = positive_duration)]
    pub(super) connect_timeout: Duration,
    /// Open no connection of cqlens' own to the node: the schema is what --schema and the traffic tell.
    #[arg(long, env = "CQLENS_NO_CONTROL_CONNECTION")]
    pub(super) no_control_connection: bool,
    /// Ask that many of the reads that pass again each second, with tracing, over a connection of
    /// cqlens' own, to learn how many tombstones they pass. The cluster writes the traces, and keeps
    /// them for a day. Off if not set.
    #[arg(long, env = "CQLENS_TRACE_SAMPLE", value_name = "PER_SECOND", value_parser = traces_per_second, conflicts_with = "no_control_connection")]
    pub(super) trace_sample: Option<f64>,
    /// Ask the nodes every so often how many tombstones and rows their reads pass (`system_views`, Cassandra
    /// 4.0 and later). Off if not set.
    #[arg(long, env = "CQLENS_POLL_SYSTEM_VIEWS", value_name = "DURATION", value_parser = positive_duration, conflicts_with = "no_control_connection")]
    pub(super) poll_system_views: Option<Duration>,
    /// Where operators and probes ask, over HTTP: /livez, /readyz, and from this machine only
    /// /config, /reload and /drain. With unix:PATH, at a socket that only the user may connect to
    /// whom cqlens runs as. Off if not set.
    #[arg(long, env = "CQLENS_ADMIN", value_name = "ADDRESS:PORT|unix:PATH")]
    pub(super) admin: Option<AdminAddress>,
    /// Print the settings as TOML, with the place that each comes from and without passwords, and exit.
    #[arg(long)]
    pub(super) print_config: bool,
    #[command(flatten)]
    pub(super) observer: ObserverArgs,
    #[command(flatten)]
    pub(super) topology: TopologyArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
}

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
        self.topology.mode(&self.listen, &self.upstream, admin)
    }

    /// Whether anything of the audit outlives the process, or can be asked for.
    pub(super) fn keeps_anything(&self) -> bool {
        let observer = &self.observer;
        observer.report.is_some() || observer.snapshot_dir.is_some() || self.admin.is_some()
    }

    /// The first contact point, which stands for all of them in the name of this process.
    pub(super) fn first_upstream(&self) -> String {
        let contacts = self.topology.contacts(&self.upstream);
        contacts.into_iter().next().unwrap_or_default()
    }
}

/// Where the admin listener is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AdminAddress {
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
        let help = <Args as clap::Args>::augment_args(clap::Command::new("proxy")).render_help();
        assert!(help.to_string().contains("127.0.1.{n}:9042"), "{help}");
    }
}
