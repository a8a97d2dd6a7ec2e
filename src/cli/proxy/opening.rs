//! The listeners of a process that begins, and what decides where they lead.

use std::{net::SocketAddr, sync::Arc};

use super::{
    args::Args,
    cluster::ClusterNodes,
    listener::Listeners,
    routes::route,
    serving::Serving,
    topology::{Mode, RoutePair},
};
use crate::cli::tls::Tls;
use cqlens_proxy::{
    Transparent,
    topology::{self, Addresses},
};

/// Listeners at work. Those of a cluster come when its nodes are known.
pub(super) struct OpenListeners {
    pub(super) serving: Serving,
    /// The listeners that lead to one node each: the setting, and the bound address.
    pub(super) pairs: Vec<(RoutePair, SocketAddr)>,
    /// Where connections go to their original destinations.
    pub(super) transparent: Option<Arc<Transparent>>,
    /// Where listeners follow the cluster.
    pub(super) nodes: Option<ClusterNodes>,
}

/// Accepts clients on the sockets of `listeners` from now on.
///
/// # Errors
/// A socket that does not know its address.
pub(super) fn open(
    args: &Args,
    tls: &Tls,
    mode: Mode,
    listeners: &mut Listeners,
    mut serving: Serving,
) -> anyhow::Result<OpenListeners> {
    let transparent = match (&mode, listeners.clients.first()) {
        (Mode::Transparent(_), Some((_, socket))) => {
            let transparent = Arc::new(Transparent::new(socket.local_addr()?, !tls.has_name()));
            serving.redirect(&transparent);
            Some(transparent)
        }
        _ => None,
    };
    let mut pairs = Vec::with_capacity(listeners.clients.len());
    for (pair, socket) in listeners.clients.drain(..) {
        let route = route(args, tls, &pair.upstream, None);
        let listen = serving.open(socket, listeners.backlog, route)?;
        tracing::info!(listen = %listen, client_tls = tls.clients.is_some(), upstream = %pair.upstream,
            upstream_tls = tls.upstream.is_some(), "forwarding");
        pairs.push((pair, listen));
    }
    let nodes = match mode {
        Mode::Cluster(rules) => {
            let addresses = Addresses::new(topology::PATIENCE);
            Some(ClusterNodes::new(rules, args.topology.state_file(), addresses))
        }
        _ => None,
    };
    Ok(OpenListeners {
        serving,
        pairs,
        transparent,
        nodes,
    })
}
