//! The routes of listeners that lead to one node each, and what is shown of them.

use std::{net::SocketAddr, sync::Arc};

use super::{args::Args, reach::Reach, topology::RoutePair};
use crate::cli::tls::Tls;
use cqlens_admin::{ListenerState, ListenerStatus};
use cqlens_proxy::{Route, Transparent, topology::Pairing};

/// The status of listeners, where there are several.
pub(super) fn listener_statuses(pairs: &[(RoutePair, SocketAddr)]) -> Vec<ListenerStatus> {
    if pairs.len() < 2 {
        return Vec::new();
    }
    let status = |(pair, listen): &(RoutePair, SocketAddr)| ListenerStatus {
        listen: listen.to_string(),
        upstream: pair.upstream.clone(),
        host_id: None,
        state: ListenerState::Open,
    };
    pairs.iter().map(status).collect()
}

/// How clients reach listeners that do not follow the cluster.
pub(super) fn reach(pairs: &[(RoutePair, SocketAddr)], transparent: Option<&Arc<Transparent>>) -> Reach {
    match transparent {
        Some(transparent) => Reach::Transparent(Arc::clone(transparent)),
        None => Reach::Listeners(pairs.iter().map(|(_, listen)| *listen).collect()),
    }
}

/// The way to one node, as settings have it.
pub(super) fn route(args: &Args, tls: &Tls, upstream: &str, topology: Option<Pairing>) -> Route {
    Route {
        upstream: upstream.to_owned(),
        connect_timeout: args.connect_timeout,
        client_tls: tls.clients.clone(),
        upstream_tls: tls.to_upstreams().to(upstream),
        topology,
        drain: None,
    }
}
