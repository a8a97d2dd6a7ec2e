//! The settings that say how clients reach nodes: through one listener, through pairs, or through
//! one listener for each node.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use anyhow::bail;

use super::cluster::{Listen, ListenFor, ListenRules, Mapped, overlap};
use crate::cli::config::{assignment, host_and_port, listen_address};
use cqlens_proxy::leads_back;

/// One listener for one node, or one for each node.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Topology")]
pub(super) struct TopologyArgs {
    /// What clients learn about the cluster
    #[arg(
        long,
        env = "CQLENS_TOPOLOGY",
        value_name = "MODE",
        value_enum,
        default_value = "passthrough"
    )]
    topology: Topology,
    /// Listen address of one node, with --topology cluster
    ///
    /// NODE is its host id or its address for clients. Repeatable; in the file, a table [proxy.map].
    #[arg(
        long,
        env = "CQLENS_MAP",
        value_name = "NODE=ADDRESS:PORT",
        value_delimiter = ',',
        hide_short_help = true
    )]
    map: Vec<Mapped>,
    /// Listen only for some nodes, with --topology cluster
    ///
    /// Clients learn about all listeners: other processes, with the same map, listen for the other nodes. `local`
    /// (nodes whose listen address is one of this machine), dc:NAME, or a node as in --map.
    #[arg(
        long,
        env = "CQLENS_LISTEN_FOR",
        value_name = "NODES",
        value_delimiter = ',',
        hide_short_help = true
    )]
    listen_for: Vec<ListenFor>,
    /// Remember which node has which listen address, with --topology cluster
    ///
    /// Without this file, the order of host ids decides at every start. Several processes may share it.
    #[arg(long, env = "CQLENS_STATE_FILE", value_name = "FILE", hide_short_help = true)]
    state_file: Option<PathBuf>,
    /// Forward connections from one address to one node
    ///
    /// Repeatable, in place of --listen and --upstream; in the file, a table [proxy.route].
    #[arg(long, env = "CQLENS_ROUTE", value_name = "LISTEN=UPSTREAM", value_delimiter = ',', conflicts_with_all = ["listen", "upstream"])]
    route: Vec<RoutePair>,
    /// Forward each connection to its original destination
    ///
    /// For connections that the kernel redirects here (REDIRECT, DNAT, TPROXY): one listener serves any node, at its own
    /// address. --upstream is where the control connection goes.
    #[arg(
        long,
        env = "CQLENS_TRANSPARENT",
        conflicts_with = "route",
        hide_short_help = true
    )]
    transparent: bool,
    /// What to do at startup if no node accepts the control connection
    #[arg(
        long,
        env = "CQLENS_START_WITHOUT_CLUSTER",
        value_name = "WHAT",
        value_enum,
        default_value = "wait",
        hide_short_help = true
    )]
    start_without_cluster: WithoutCluster,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Topology {
    /// What the cluster says of itself, byte by byte
    Passthrough,
    /// The addresses of cqlens in place of the nodes': one listener for each node, so that drivers' discovery and
    /// routing go through cqlens
    Cluster,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WithoutCluster {
    /// Wait for a node
    Wait,
    /// Refuse to start
    Refuse,
}

/// `LISTEN=UPSTREAM`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RoutePair {
    pub(super) listen: SocketAddr,
    pub(super) upstream: String,
}

impl FromStr for RoutePair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (listen, upstream) = assignment(text, "LISTEN=UPSTREAM, such as 127.0.0.1:9142=10.0.0.1:9042")?;
        Ok(Self {
            listen: listen_address(listen)?,
            upstream: host_and_port(upstream)?,
        })
    }
}

/// What all of it comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// One listener, one node.
    One(RoutePair),
    /// As many of them as there are pairs.
    Routes(Vec<RoutePair>),
    /// One listener for all nodes, whose addresses stay theirs; `upstream` is where
    /// the control connection goes.
    Transparent(RoutePair),
    /// One listener for each node that the contact points tell of.
    Cluster(ListenRules),
}

impl TopologyArgs {
    pub(super) fn state_file(&self) -> Option<PathBuf> {
        self.state_file.clone()
    }

    pub(super) fn refuses_without_cluster(&self) -> bool {
        self.start_without_cluster == WithoutCluster::Refuse
    }

    /// Where the control connection may go: to the contact points, or to the nodes of the pairs.
    pub(super) fn contacts<'a>(&'a self, upstream: &'a [String]) -> Vec<String> {
        let of_routes = self.route.iter().map(|pair| pair.upstream.clone());
        upstream.iter().cloned().chain(of_routes).collect()
    }

    /// Whether the control connection may go to nodes that it has learnt of.
    pub(super) fn is_cluster(&self) -> bool {
        self.topology == Topology::Cluster
    }

    /// Settings that fit together.
    ///
    /// # Errors
    /// Those that do not, by name.
    pub(super) fn mode(
        &self,
        listen: &Listen,
        upstream: &[String],
        admin: Option<SocketAddr>,
    ) -> anyhow::Result<Mode> {
        if self.is_cluster() {
            return self.cluster(listen, upstream, admin);
        }
        for (key, is_set) in [
            ("map", !self.map.is_empty()),
            ("listen-for", !self.listen_for.is_empty()),
            ("state-file", self.state_file.is_some()),
        ] {
            if is_set {
                bail!("{key}: only valid with topology = cluster");
            }
        }
        if !self.route.is_empty() {
            check_routes(&self.route, admin)?;
            self.route
                .iter()
                .try_for_each(|pair| refuse_loop(UPSTREAM, pair.listen, &pair.upstream))?;
            return Ok(Mode::Routes(self.route.clone()));
        }
        let listen = match listen {
            Listen::One(listen) => *listen,
            rule => bail!("listen: {rule} is a rule for several nodes, which needs topology = cluster"),
        };
        let upstream = match upstream {
            [upstream] => upstream.clone(),
            several => bail!(
                "upstream: {} are {}, but passthrough supports one node behind one listener: use topology \
                    = cluster, or route",
                several.join(", "),
                several.len()
            ),
        };
        refuse_loop(UPSTREAM, listen, &upstream)?;
        let pair = RoutePair { listen, upstream };
        Ok(match self.transparent {
            true => Mode::Transparent(pair),
            false => Mode::One(pair),
        })
    }

    fn cluster(
        &self,
        listen: &Listen,
        upstream: &[String],
        admin: Option<SocketAddr>,
    ) -> anyhow::Result<Mode> {
        if !self.route.is_empty() || self.transparent {
            let key = if self.transparent { "transparent" } else { "route" };
            bail!("{key}: it leaves addresses as they are, and topology = cluster replaces them");
        }
        let rules = ListenRules {
            // The default is no rule.
            rule: (self.map.is_empty() || *listen != Listen::One(DEFAULT_LISTEN)).then(|| listen.clone()),
            map: self.map.clone(),
            listen_for: self.listen_for.clone(),
        };
        rules.check(admin)?;
        let mode = Mode::Cluster(rules);
        for (listen, upstream) in mode
            .listens()
            .iter()
            .flat_map(|listen| upstream.iter().map(move |node| (*listen, node)))
        {
            refuse_loop(UPSTREAM, listen, upstream)?;
        }
        Ok(mode)
    }
}

impl Mode {
    /// Where it listens, as far as the settings say by themselves.
    pub(super) fn listens(&self) -> Vec<SocketAddr> {
        match self {
            Self::One(pair) | Self::Transparent(pair) => vec![pair.listen],
            Self::Routes(pairs) => pairs.iter().map(|pair| pair.listen).collect(),
            Self::Cluster(rules) => rules.map.iter().map(|mapped| mapped.listen).collect(),
        }
    }
}

/// Refuses a node of a setting that is cqlens itself, if its address says so: names are looked up by `--check`, and when
/// it is connected to.
pub(super) fn refuse_loop(setting: &str, listen: SocketAddr, node: &str) -> anyhow::Result<()> {
    let here = |port: &str| port.parse().map(|port| (Ipv4Addr::LOCALHOST, port).into());
    let address = match node.strip_prefix("localhost:") {
        Some(port) => here(port).ok(),
        None => node.parse().ok(),
    };
    match address {
        Some(address) if leads_back(listen, address) => bail!(loops(setting, listen, node)),
        _ => Ok(()),
    }
}

/// Says that a node of a setting is cqlens itself.
pub(super) fn loops(setting: &str, listen: SocketAddr, node: &str) -> String {
    format!("{setting}: {node} leads back to cqlens, which listens at {listen}")
}

/// The setting that names the node.
const UPSTREAM: &str = "upstream";

/// Where clients connect by default.
pub(super) const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9142);

fn check_routes(routes: &[RoutePair], admin: Option<SocketAddr>) -> anyhow::Result<()> {
    for (index, one) in routes.iter().enumerate() {
        let others = routes.iter().skip(index + 1);
        if let Some(other) = others.into_iter().find(|other| overlap(one.listen, other.listen)) {
            bail!(
                "route: {} (to {}) and {} (to {}) overlap",
                one.listen,
                one.upstream,
                other.listen,
                other.upstream
            );
        }
        if let Some(admin) = admin.filter(|admin| overlap(*admin, one.listen)) {
            bail!(
                "admin: {admin} overlaps with route {}={}",
                one.listen,
                one.upstream
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        topology: TopologyArgs,
        #[arg(long, default_value = "127.0.0.1:9142")]
        listen: Listen,
        #[arg(long)]
        upstream: Vec<String>,
    }

    fn mode(arguments: &str) -> Result<Mode, String> {
        let arguments = ["cqlens"].into_iter().chain(arguments.split_whitespace());
        let command = Command::try_parse_from(arguments).map_err(|error| error.to_string())?;
        let admin = Some("127.0.0.1:9143".parse().unwrap());
        command
            .topology
            .mode(&command.listen, &command.upstream, admin)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn settings_come_to_a_mode() {
        let pair = |text: &str| text.parse::<RoutePair>().unwrap();
        assert_eq!(
            mode("--upstream db:1").unwrap(),
            Mode::One(pair("127.0.0.1:9142=db:1"))
        );
        assert_eq!(
            mode("--upstream db:1 --transparent").unwrap(),
            Mode::Transparent(pair("127.0.0.1:9142=db:1"))
        );
        assert_eq!(
            mode("--route 127.0.0.1:1=a --route 127.0.0.1:2=b:7").unwrap(),
            Mode::Routes(vec![pair("127.0.0.1:1=a:9042"), pair("127.0.0.1:2=b:7")])
        );
        let Mode::Cluster(rules) =
            mode("--topology cluster --upstream a,b --listen 127.0.1.{n}:9042").unwrap()
        else {
            panic!("it is a cluster");
        };
        assert_eq!(rules.rule, Some("127.0.1.{n}:9042".parse().unwrap()));
        let Mode::Cluster(rules) =
            mode("--topology cluster --upstream a --map 10.0.0.1=127.0.1.1:9042").unwrap()
        else {
            panic!("it is a cluster");
        };
        assert_eq!((rules.rule, rules.map.len()), (None, 1));
    }

    #[test]
    fn settings_that_do_not_fit_together_are_named() {
        for (arguments, says) in [
            ("--upstream a --upstream b", "upstream: a, b are 2"),
            (
                "--upstream a --listen 127.0.1.{n}:9042",
                "listen: 127.0.1.{n}:9042 is a rule for several nodes",
            ),
            (
                "--upstream a --map 10.0.0.1=127.0.1.1:9042",
                "map: only valid with topology = cluster",
            ),
            ("--upstream a --state-file x", "state-file: only valid"),
            ("--upstream a --listen-for local", "listen-for: only valid"),
            (
                "--upstream a --topology cluster",
                "listen: 127.0.0.1:9142 is one address",
            ),
            (
                "--upstream a --topology cluster --transparent",
                "transparent: it leaves addresses",
            ),
            ("--route 127.0.0.1:1=a --upstream b", "cannot be used with"),
            ("--route 127.0.0.1:1=a --transparent", "cannot be used with"),
            (
                "--route 127.0.0.1:1=a --route 0.0.0.0:1=b",
                "route: 127.0.0.1:1 (to a:9042) and 0.0.0.0:1 (to b:9042) overlap",
            ),
            (
                "--route 127.0.0.1:9143=a",
                "admin: 127.0.0.1:9143 overlaps with route 127.0.0.1:9143=a:9042",
            ),
            (
                "--listen 0.0.0.0:9042 --upstream 127.0.0.1:9042",
                "upstream: 127.0.0.1:9042 leads back to cqlens, which listens at 0.0.0.0:9042",
            ),
            (
                "--listen 127.0.0.1:9042 --upstream 0.0.0.0:9042",
                "upstream: 0.0.0.0:9042 leads back",
            ),
            ("--upstream localhost:9142", "upstream: localhost:9142 leads back"),
            (
                "--route 127.0.0.1:1=127.0.0.1:1",
                "upstream: 127.0.0.1:1 leads back",
            ),
            (
                "--upstream 127.0.1.1:9042 --topology cluster --map 10.0.0.1=127.0.1.1:9042",
                "upstream: 127.0.1.1:9042 leads back",
            ),
            ("--route 127.0.0.1=a", "\"127.0.0.1\" is not the address and port"),
            ("--route 127.0.0.1:1", "LISTEN=UPSTREAM"),
        ] {
            let error = mode(arguments).unwrap_err();
            assert!(error.contains(says), "{arguments}: {error}");
        }
    }
}
