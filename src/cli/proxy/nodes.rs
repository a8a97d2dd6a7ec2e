//! Listeners that follow the cluster: opened for nodes that join, moved with those that change their address,
//! closed after those that leave.

use std::{
    collections::{BTreeSet, HashSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use anyhow::bail;
use jiff::Timestamp;
use tokio::time::sleep;

use super::{
    cluster::{ListenerPlan, Planned, Problem},
    control,
    reach::Reach,
    routes::route,
    running::Running,
    shutdown::ShutdownPhase,
};
use cqlens_admin::{ListenerState, ListenerStatus, ReadyState};
use cqlens_audit::catalog::{ClusterState, Live};
use cqlens_proxy::topology::{Addresses, Pairing};

impl Running {
    /// Takes notice of the cluster as it is now.
    ///
    /// # Errors
    /// Settings that do not fit the cluster that was found when the process began.
    pub(super) fn take_notice(&mut self, cluster: Arc<ClusterState>) -> anyhow::Result<()> {
        self.view.known = cluster;
        self.follow_nodes()?;
        self.tell_reach();
        Ok(())
    }

    /// Opens, moves and closes listeners so that they fit the cluster that is known; nothing where
    /// addresses are not replaced.
    ///
    /// # Errors
    /// As [`Running::take_notice`] has it.
    pub(super) fn follow_nodes(&mut self) -> anyhow::Result<()> {
        if self.shutdown != ShutdownPhase::Serving || self.view.known.nodes.is_empty() {
            return Ok(());
        }
        let port = control::contacts(&self.args).port(&self.view.known);
        let Some(nodes) = &mut self.nodes else {
            return Ok(());
        };
        let ListenerPlan { nodes, mut problems } = match nodes.plan(&self.view.known, port, Timestamp::now())
        {
            Ok(plan) => plan,
            Err(problem) => {
                self.tell_problems(vec![problem]);
                return Ok(());
            }
        };
        if !nodes.is_empty() && !nodes.iter().any(|planned| planned.is_here) {
            let text = "listen-for: the cluster has none of these nodes".to_owned();
            problems.push(Problem::of_settings(text));
        }
        self.view.has_unopened = false;
        for planned in nodes.iter().filter(|planned| planned.is_here) {
            if let Err(problem) = self.serve(planned) {
                self.view.has_unopened = true;
                problems.push(problem);
            }
        }
        if !self.view.has_begun && problems.iter().any(|problem| problem.of_settings) {
            bail!("{}", texts(&problems).join("; "));
        }
        self.publish(&nodes);
        self.close_others(&nodes);
        self.fit_connections();
        let unserved = self
            .for_nodes
            .idle(|address| self.serving.route(address).is_some());
        problems.extend(unserved.map(|address| {
            let text = format!(
                "LISTEN_FDS: no node has the listener {address}: clients that connect there have to wait \
                    for one"
            );
            Problem::of_cluster(text)
        }));
        self.begin_accepting();
        self.show(&nodes);
        self.tell_problems(problems);
        Ok(())
    }

    /// Sees to it that a node has its listener, and that this leads to it.
    fn serve(&mut self, planned: &Planned) -> Result<(), Problem> {
        let Some(nodes) = &self.nodes else { return Ok(()) };
        let pairing = Pairing {
            addresses: nodes.addresses.clone(),
            own: Arc::new(planned.address(true)),
        };
        let upstream = planned.node.native.to_string();
        let new = route(&self.args, &self.tls, &upstream, Some(pairing));
        let listen = planned.listen;
        let Some(before) = self.serving.route(listen) else {
            let socket = self.for_nodes.open(listen, self.args.reuse_port);
            let opened = socket
                .map_err(anyhow::Error::from)
                .and_then(|(socket, backlog)| self.serving.open(socket, backlog, new));
            let listen = opened.map_err(|error| {
                let setting = nodes.rules.setting_of(&planned.node);
                Problem::of_settings(format!(
                    "{setting}: cannot listen on {listen} for the node {}: {error}",
                    planned.node
                ))
            })?;
            tracing::info!(%listen, upstream, host_id = %planned.node.host_id, "forwarding to a node");
            return Ok(());
        };
        let is_same_node = before
            .topology
            .as_ref()
            .is_some_and(|pairing| pairing.own.host_id == Some(planned.node.host_id));
        if is_same_node && before.upstream == upstream {
            self.serving.reroute(listen, new);
        } else {
            tracing::info!(%listen, before = before.upstream, upstream, host_id = %planned.node.host_id,
                "forwarding to another address: connections to the previous one end");
            self.serving.move_to(listen, new, self.args.grace);
        }
        Ok(())
    }

    /// Publishes the listener of each node to the connections.
    fn publish(&self, planned: &[Planned]) {
        let Some(nodes) = &self.nodes else { return };
        let open: HashSet<_> = self.serving.listening().collect();
        let addresses = planned
            .iter()
            .map(|planned| planned.address(!planned.is_here || open.contains(&planned.listen)));
        nodes.addresses.publish(addresses.collect());
    }

    /// Closes listeners whose node has gone, or listens elsewhere.
    fn close_others(&mut self, planned: &[Planned]) {
        let wanted: HashSet<_> = planned
            .iter()
            .filter(|planned| planned.is_here)
            .map(|planned| planned.listen)
            .collect();
        let others: Vec<_> = self
            .serving
            .listening()
            .filter(|listen| !wanted.contains(listen))
            .collect();
        for listen in others {
            let upstream = self.serving.route(listen).map(|route| route.upstream.clone());
            tracing::info!(%listen, upstream, grace = ?self.args.grace, "\
                no node is reached through this listener any more: requests in flight may end");
            self.serving.close(listen, self.args.grace);
        }
    }

    /// For the admin listener, and for reports.
    fn show(&self, planned: &[Planned]) {
        let open: HashSet<_> = self.serving.listening().collect();
        let state = |planned: &Planned| match (planned.is_here, open.contains(&planned.listen)) {
            (true, true) => ListenerState::Open,
            (true, false) => ListenerState::Failed,
            (false, _) => ListenerState::Elsewhere,
        };
        let listeners = planned.iter().map(|planned| ListenerStatus {
            listen: planned.listen.to_string(),
            upstream: planned.node.native.to_string(),
            host_id: Some(planned.node.host_id.to_string()),
            state: state(planned),
        });
        self.health.listeners.store(Arc::new(listeners.collect()));
        let natives = |wanted: ListenerState| -> BTreeSet<SocketAddr> {
            let those = planned.iter().filter(|planned| state(planned) == wanted);
            those.map(|planned| planned.node.native).collect()
        };
        self.health.reach.store(Arc::new(Reach::Cluster {
            here: natives(ListenerState::Open),
            elsewhere: natives(ListenerState::Elsewhere),
        }));
    }

    /// Logs what is wrong from now on, and what no longer is.
    fn tell_problems(&self, problems: Vec<Problem>) {
        let before = self.health.problems.load();
        let now = texts(&problems);
        for text in now.iter().filter(|text| !before.contains(text)) {
            tracing::error!("{text}");
        }
        for text in before.iter().filter(|text| !now.contains(text)) {
            tracing::info!("no longer: {text}");
        }
        self.health.problems.store(Arc::new(now));
    }

    fn begin_accepting(&mut self) {
        if !self.view.has_begun && self.serving.listening().next().is_some() {
            self.view.has_begun = true;
            self.health.turn(ReadyState::Accepting);
        }
    }

    /// Says in the log whether clients can get around this proxy, whenever that changes.
    pub(super) fn tell_reach(&mut self) {
        if self.view.known.nodes.is_empty() {
            return;
        }
        let notice = self.health.bypass();
        if notice == self.view.bypass {
            return;
        }
        match &notice {
            Some(notice) => tracing::warn!("{notice}"),
            None if self.view.bypass.is_some() => tracing::info!("all clients come through this proxy"),
            None => {}
        }
        self.view.bypass = notice;
    }
}

fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| problem.text.clone()).collect()
}

/// Lets the control connection look at the nodes whenever a client meets one that is not
/// known yet; never returns.
pub(super) async fn look_for_nodes(addresses: Addresses, live: Arc<Live>) {
    loop {
        addresses.wanted().await;
        for pause in LOOK_AGAIN {
            live.want_cluster();
            sleep(pause).await;
        }
    }
}

/// A node announces others a moment before its own tables have them.
const LOOK_AGAIN: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
