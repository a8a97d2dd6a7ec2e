//! What can be said to `cqlens proxy`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::bail;

use super::{
    super::{
        config::{duration, host_and_port, positive_duration},
        limits::LimitArgs,
        show,
        tls::TlsArgs,
    },
    cluster::Listen,
    topology::{DEFAULT_LISTEN, Mode, TopologyArgs},
    trace_sample::per_second,
};
use crate::audit::{self, ClientAddresses};

/// Forward client connections to a node, unchanged, and report what the traffic does to the data model.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    // A style that ends where none began keeps `{n}` from being read as the end of a line.
    #[arg(
        help = "Where clients connect. With --topology cluster, one address for each node: 127.0.1.{\u{1b}[0mn}:9042 (the same port \
                at several addresses), 127.0.0.1:9042-9049 or 127.0.0.1:9042+ (several ports at one address, for drivers that read \
                system.peers_v2)",
        long,
        env = "CQLENS_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value_t = Listen::One(DEFAULT_LISTEN)
    )]
    pub(super) listen: Listen,
    /// Let other processes listen at the same address too, so that the next one can begin before this one ends. All must say so.
    #[arg(long, env = "CQLENS_REUSE_PORT")]
    pub(super) reuse_port: bool,
    /// The node that connections go to; with --topology cluster, one or more nodes that tell of all.
    #[arg(long, env = "CQLENS_UPSTREAM", value_name = "HOST[:PORT]", value_parser = host_and_port, value_delimiter = ',',
        required_unless_present = "route")]
    pub(super) upstream: Vec<String>,
    /// Keep a report current: rewritten every window and at exit. The ending tells the format: .html, .md or .json.
    #[arg(long, env = "CQLENS_REPORT", value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Write a snapshot of every window into this folder, for `cqlens report`.
    #[arg(long, env = "CQLENS_SNAPSHOT_DIR", value_name = "DIR")]
    pub(super) snapshot_dir: Option<PathBuf>,
    /// How long a window is.
    #[arg(long, env = "CQLENS_WINDOW", value_name = "DURATION", default_value = "60s", value_parser = positive_duration)]
    pub(super) window: Duration,
    /// How long requests in flight may take to end when cqlens is told to stop.
    #[arg(long, env = "CQLENS_GRACE", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(super) grace: Duration,
    /// How long clients are still accepted when cqlens is told to stop, while /readyz already says 503: the time that a
    /// load balancer needs to notice.
    #[arg(long, env = "CQLENS_DRAIN_DELAY", value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(super) drain_delay: Duration,
    /// How long to wait for the node to accept a connection.
    #[arg(long, env = "CQLENS_CONNECT_TIMEOUT", value_name = "DURATION", default_value = "5s", value_parser = positive_duration)]
    pub(super) connect_timeout: Duration,
    /// Read the schema from a file of CQL statements, such as `cqlsh -e 'DESCRIBE SCHEMA'` prints.
    #[arg(long, env = "CQLENS_SCHEMA", value_name = "FILE")]
    pub(super) schema: Option<PathBuf>,
    /// Open no connection of cqlens' own to the node: the schema is what --schema and the traffic tell.
    #[arg(long, env = "CQLENS_NO_CONTROL_CONNECTION")]
    pub(super) no_control_connection: bool,
    /// User name of the control connection, where the node asks for one.
    #[arg(long, env = "CQLENS_USERNAME", value_name = "NAME", requires = "password")]
    pub(super) username: Option<String>,
    /// Its password; better given as CQLENS_PASSWORD, since others can read the arguments of a process.
    #[arg(
        long,
        env = "CQLENS_PASSWORD",
        value_name = "PASSWORD",
        hide_env_values = true
    )]
    pub(super) password: Option<String>,
    /// Ask that many of the reads that pass again each second, with tracing, over a connection of cqlens' own, to learn how many
    /// tombstones they pass. The cluster writes the traces, and keeps them for a day. Off if not set.
    #[arg(long, env = "CQLENS_TRACE_SAMPLE", value_name = "PER_SECOND", value_parser = per_second, conflicts_with = "no_control_connection")]
    pub(super) trace_sample: Option<f64>,
    /// Ask the nodes every so often how many tombstones and rows their reads pass (`system_views`, Cassandra 4.0 and later). Off if not
    /// set.
    #[arg(long, env = "CQLENS_POLL_SYSTEM_VIEWS", value_name = "DURATION", value_parser = positive_duration, conflicts_with = "no_control_connection")]
    pub(super) poll_system_views: Option<Duration>,
    /// The name of this proxy in reports; the listening address if not set.
    #[arg(long, env = "CQLENS_NAME", value_name = "NAME")]
    pub(super) name: Option<String>,
    /// The key of the hashes that stand for partition keys; made where it is missing. Without it, hash.key in the
    /// snapshot folder, or a key of this run alone.
    #[arg(long, env = "CQLENS_HASH_KEY_FILE", value_name = "FILE")]
    pub(super) hash_key_file: Option<PathBuf>,
    /// How much of clients' addresses stands in reports and snapshots, beside their names: full, network (10.1.2.0/24,
    /// 2001:db8:7::/48) or none.
    #[arg(
        long,
        env = "CQLENS_CLIENT_ADDRESSES",
        value_name = "HOW_MUCH",
        default_value = "full",
        hide_possible_values = true
    )]
    pub(super) client_addresses: ClientAddresses,
    /// Where operators and probes ask, over HTTP: /livez, /readyz, and from this machine only /config, /reload and /drain.
    /// Off if not set.
    #[arg(long, env = "CQLENS_ADMIN", value_name = "ADDRESS:PORT")]
    pub(super) admin: Option<SocketAddr>,
    /// Print the settings as TOML, with the place that each comes from and without passwords, and exit.
    #[arg(long)]
    pub(super) print_config: bool,
    /// Let the log show requests with their values, at the level trace; otherwise no value is shown anywhere.
    #[arg(long, env = "CQLENS_SHOW_VALUES")]
    pub(super) show_values: bool,
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
        self.topology.mode(&self.listen, &self.upstream, self.admin)
    }

    /// What auditors do otherwise than by default.
    pub(super) fn audit_options(&self) -> audit::Options {
        audit::Options {
            watch: show::watch(self.show_values),
            client_addresses: self.client_addresses,
        }
    }

    /// The first node that is asked, which stands for all of them in what is said of this process.
    pub(super) fn first_upstream(&self) -> String {
        let contacts = self.topology.contacts(&self.upstream);
        contacts.into_iter().next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_shows_the_number_of_a_node_in_a_listen_rule() {
        let help = <Args as clap::Args>::augment_args(clap::Command::new("proxy")).render_help();
        assert!(help.to_string().contains("127.0.1.{n}:9042"), "{help}");
    }
}
