//! `--topology cluster`: which node gets which listener, now and after a restart.
//!
//! The control connection discovers the cluster, and the control loop opens listeners. [`ClusterNodes::plan`]
//! joins the two: for each view of the cluster it says where cqlens listens for which node.

mod endpoint;
mod listen_rules;
mod names;
mod numbers;
mod plan;
mod rule;
mod state;

use std::{collections::HashSet, path::PathBuf};

use cqlens_proto::types::Uuid;
use jiff::Timestamp;

use self::{endpoint::Endpoint, numbers::Numbers, state::StateFile};
pub(super) use self::{
    listen_rules::ListenRules,
    names::{ListenFor, Mapped},
    plan::{Planned, Problem},
    rule::{Listen, overlap},
};
use cqlens_audit::catalog::ClusterState;
use cqlens_proxy::topology::Addresses;

/// The nodes of one cluster, and their numbers.
#[derive(Debug)]
pub(super) struct ClusterNodes {
    /// Replaced when settings change.
    pub(super) rules: ListenRules,
    /// What connections know.
    pub(super) addresses: Addresses,
    numbers: Numbers,
    state_file: Option<StateFile>,
    /// The name of the cluster that was seen first.
    cluster: Option<String>,
    /// The nodes that have a listener.
    served: HashSet<Uuid>,
}

/// Which listener each node gets, and what keeps others from one.
#[derive(Debug, Default)]
pub(super) struct ListenerPlan {
    pub(super) nodes: Vec<Planned>,
    pub(super) problems: Vec<Problem>,
}

impl ClusterNodes {
    pub(super) fn new(rules: ListenRules, state_file: Option<PathBuf>, addresses: Addresses) -> Self {
        Self {
            rules,
            addresses,
            numbers: Numbers::default(),
            state_file: state_file.map(StateFile::new),
            cluster: None,
            served: HashSet::new(),
        }
    }

    /// The listener of each node in this view of the cluster. `port` is the port of
    /// nodes that advertise none.
    ///
    /// # Errors
    /// Why this view of the cluster is not to be acted upon.
    pub(super) fn plan(
        &mut self,
        cluster: &ClusterState,
        port: u16,
        now: Timestamp,
    ) -> Result<ListenerPlan, Problem> {
        self.check(cluster)?;
        let mut problems = Vec::new();
        let nodes = plan::identify(cluster, port, &self.served, &mut problems);
        if nodes.is_empty() {
            let why = problems.into_iter().map(|problem| problem.text);
            return Err(Problem::of_cluster(why.collect::<Vec<_>>().join("; ")));
        }
        if let Some(rule) = &self.rules.rule {
            let is_mapped = |node: &&Endpoint| self.rules.map.iter().any(|mapped| mapped.node.is(node));
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
        Ok(ListenerPlan { nodes, problems })
    }

    /// Refuses the view of another cluster: a contact point may lead to one by mistake.
    fn check(&mut self, cluster: &ClusterState) -> Result<(), Problem> {
        match (&self.cluster, &cluster.name) {
            (Some(before), Some(now)) if before != now => Err(Problem::of_cluster(format!(
                "upstream: the control connection now leads to the cluster {now:?} instead of {before:?}; \
                    its nodes are ignored"
            ))),
            (None, Some(_)) => {
                self.cluster.clone_from(&cluster.name);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
