//! `--topology cluster`: which node gets which listener, now and after a restart.
//!
//! What is known of the cluster comes from the control connection; listeners are opened by whoever runs the proxy. Here the two are
//! joined: [`Nodes::plan`] says, for each view of the cluster, who listens where.

mod names;
mod numbers;
mod plan;
mod rule;
mod state;

use std::{collections::HashSet, fmt, net::SocketAddr, path::PathBuf};

use anyhow::bail;
use cqlens_proto::types::Uuid;
use jiff::Timestamp;

pub(super) use self::{
    names::{ListenFor, Mapped},
    plan::{Planned, Problem},
    rule::{Listen, overlap},
};
use self::{numbers::Numbers, state::StateFile};
use crate::proxy::topology::Addresses;
use cqlens_audit::catalog::Cluster;

/// Where nodes listen, as settings have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// For nodes that are not in the map.
    pub(super) rule: Option<Listen>,
    pub(super) map: Vec<Mapped>,
    /// The nodes that this process listens for; all if it is empty.
    pub(super) listen_for: Vec<ListenFor>,
}

impl fmt::Display for Rules {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.rule, self.map.first()) {
            (Some(rule), _) => rule.fmt(out),
            (None, Some(first)) if self.map.len() == 1 => first.listen.fmt(out),
            (None, Some(first)) => write!(out, "{} and {} more", first.listen, self.map.len() - 1),
            (None, None) => Ok(()),
        }
    }
}

impl Rules {
    /// The setting from which a node has its listen address.
    pub(super) fn setting_of(&self, node: &plan::Endpoint) -> &'static str {
        match self.map.iter().any(|mapped| mapped.node.is(node)) {
            true => "map",
            false => "listen",
        }
    }

    /// Whether a node could be given this address.
    pub(super) fn has(&self, address: SocketAddr) -> bool {
        self.map.iter().any(|mapped| mapped.listen == address)
            || self.rule.as_ref().is_some_and(|rule| rule.has(address))
    }

    /// Refuses what cannot work, whatever the cluster looks like.
    pub(super) fn check(&self, admin: Option<SocketAddr>) -> anyhow::Result<()> {
        if let Some(rule) = &self.rule {
            if let Listen::One(address) = rule {
                bail!(
                    "listen: {address} is one address, and topology = cluster needs one for each node: a rule (127.0.1.{{n}}:9042, \
                     127.0.0.1:9042-9049, 127.0.0.1:9042+), or a map"
                );
            }
            if rule.nth(1).is_none_or(|first| first.ip().is_unspecified()) {
                bail!("listen: clients are told to connect to {rule}, which is nowhere");
            }
        } else if self.map.is_empty() {
            bail!("listen: topology = cluster needs a listen address for each node: a rule, or a map");
        }
        self.check_overlaps(admin)
    }

    fn check_overlaps(&self, admin: Option<SocketAddr>) -> anyhow::Result<()> {
        for (index, one) in self.map.iter().enumerate() {
            let others = self.map.iter().skip(index + 1);
            if let Some(other) = others.clone().find(|other| other.node == one.node) {
                bail!(
                    "map: the node {} stands there twice, with {} and {}",
                    one.node,
                    one.listen,
                    other.listen
                );
            }
            if let Some(other) = others.clone().find(|other| other.listen == one.listen) {
                bail!(
                    "map: the nodes {} and {} have one listen address, {}",
                    one.node,
                    other.node,
                    one.listen
                );
            }
            if let Some(rule) = self.rule.as_ref().filter(|rule| rule.overlaps(one.listen)) {
                bail!(
                    "map: {}, the listen address of {}, overlaps with listen ({rule})",
                    one.listen,
                    one.node
                );
            }
        }
        let Some(admin) = admin else { return Ok(()) };
        if let Some(rule) = self.rule.as_ref().filter(|rule| rule.overlaps(admin)) {
            bail!("admin: {admin} overlaps with listen ({rule})");
        }
        if let Some(mapped) = self.map.iter().find(|mapped| overlap(mapped.listen, admin)) {
            bail!(
                "admin: {admin} overlaps with {}, the listen address of the node {} (map)",
                mapped.listen,
                mapped.node
            );
        }
        Ok(())
    }
}

/// The nodes of one cluster, and what they were given.
#[derive(Debug)]
pub(super) struct Nodes {
    /// Replaced when settings change.
    pub(super) rules: Rules,
    /// What connections know.
    pub(super) addresses: Addresses,
    numbers: Numbers,
    state_file: Option<StateFile>,
    /// The name of the cluster that was seen first.
    cluster: Option<String>,
    /// The nodes that have a listener.
    served: HashSet<Uuid>,
}

/// Who listens where.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) nodes: Vec<Planned>,
    pub(super) problems: Vec<Problem>,
}

impl Nodes {
    pub(super) fn new(rules: Rules, state_file: Option<PathBuf>, addresses: Addresses) -> Self {
        Self {
            rules,
            addresses,
            numbers: Numbers::default(),
            state_file: state_file.map(StateFile::new),
            cluster: None,
            served: HashSet::new(),
        }
    }

    /// Who is to listen where, since the cluster is as it is; `port` is that of nodes that tell none.
    ///
    /// # Errors
    /// Why this view of the cluster is not to be acted upon.
    pub(super) fn plan(&mut self, cluster: &Cluster, port: u16, now: Timestamp) -> Result<Plan, Problem> {
        self.check(cluster)?;
        let mut problems = Vec::new();
        let nodes = plan::identify(cluster, port, &self.served, &mut problems);
        if nodes.is_empty() {
            let why = problems.into_iter().map(|problem| problem.text);
            return Err(Problem::of_cluster(why.collect::<Vec<_>>().join("; ")));
        }
        if let Some(rule) = &self.rules.rule {
            let is_mapped = |node: &&plan::Endpoint| self.rules.map.iter().any(|mapped| mapped.node.is(node));
            let numbered: Vec<_> = nodes
                .iter()
                .filter(|node| !is_mapped(node))
                .map(|node| (node.host_id, node.native))
                .collect();
            self.numbers.assign(&numbered, rule.capacity(), now);
            if let Some(file) = &mut self.state_file {
                let capacity = rule.capacity();
                let assign = move |numbers: &mut Numbers| numbers.assign(&numbered, capacity, now);
                match file.update(assign) {
                    Ok(numbers) => self.numbers = numbers,
                    Err(error) => problems.push(Problem::of_settings(format!(
                        "{error:#}: after a restart, nodes may get other listen addresses"
                    ))),
                }
            }
        }
        let numbers = &self.numbers;
        let number = |host_id| numbers.number(host_id);
        let nodes = plan::listeners(nodes, &self.rules, number, &mut problems);
        self.served = nodes.iter().map(|planned| planned.node.host_id).collect();
        Ok(Plan { nodes, problems })
    }

    /// A contact point that leads to another cluster would turn everything upside down.
    fn check(&mut self, cluster: &Cluster) -> Result<(), Problem> {
        match (&self.cluster, &cluster.name) {
            (Some(before), Some(now)) if before != now => Err(Problem::of_cluster(format!(
                "upstream: the control connection has come to the cluster {now:?} instead of {before:?}; its nodes are left alone"
            ))),
            (None, Some(_)) => {
                self.cluster.clone_from(&cluster.name);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn checked(listen: &str, map: &[&str], admin: Option<&str>) -> String {
        let rules = Rules {
            rule: (!listen.is_empty()).then(|| listen.parse().unwrap()),
            map: map.iter().map(|pair| pair.parse().unwrap()).collect(),
            listen_for: Vec::new(),
        };
        let checked = rules.check(admin.map(|admin| admin.parse().unwrap()));
        checked.err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn rules_that_cannot_work_are_refused() {
        let one = "10.0.0.1=127.0.2.1:9042";
        assert_eq!(checked("127.0.1.{n}:9042", &[one], Some("127.0.1.1:9043")), "");
        assert_eq!(checked("", &[one], None), "");
        for (listen, map, admin, says) in [
            ("", &[][..], None, "listen: topology = cluster needs"),
            (
                "127.0.0.1:9042",
                &[],
                None,
                "listen: 127.0.0.1:9042 is one address",
            ),
            ("0.0.0.0:9042+", &[], None, "which is nowhere"),
            (
                "127.0.2.{n}:9042",
                &[one],
                None,
                "map: 127.0.2.1:9042, the listen address of 10.0.0.1, overlaps with listen (127.0.2.{n}:9042)",
            ),
            (
                "",
                &[one, "10.0.0.2=127.0.2.1:9042"],
                None,
                "map: the nodes 10.0.0.1 and 10.0.0.2 have one listen address, 127.0.2.1:9042",
            ),
            (
                "",
                &[one, "10.0.0.1=127.0.2.2:9042"],
                None,
                "map: the node 10.0.0.1 stands there twice",
            ),
            (
                "127.0.0.1:9042+",
                &[],
                Some("127.0.0.1:9143"),
                "admin: 127.0.0.1:9143 overlaps with listen",
            ),
            (
                "",
                &[one],
                Some("127.0.2.1:9042"),
                "admin: 127.0.2.1:9042 overlaps with 127.0.2.1:9042, the listen address of the node 10.0.0.1",
            ),
        ] {
            let error = checked(listen, map, admin);
            assert!(error.contains(says), "{listen} {map:?} {admin:?}: {error}");
        }
    }
}
