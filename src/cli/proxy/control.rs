//! The control connection as a part of the process: begun, ended, begun anew with other settings.

use std::sync::Arc;

use anyhow::anyhow;
use tokio::task::JoinHandle;

use super::{args::Args, direct::DirectClients};
use crate::{
    cli::{plaintext, tls::Tls},
    control::{self, Contacts, SeeClients},
};
use cqlens_audit::catalog::Live;
use cqlens_client::ClientOptions;
use cqlens_proxy::PROXY_PROTOCOL_LOCAL;

/// A control connection, if there is to be one.
#[derive(Debug, Default)]
pub(super) struct Control(Option<JoinHandle<()>>);

impl Control {
    /// The settings that it depends on, beside those of TLS.
    pub(super) const SETTINGS: &[&str] = &[
        "upstream",
        "username",
        "password",
        "password-file",
        "no-control-connection",
        "schema",
        "send-proxy-protocol",
        "route",
    ];

    /// Begins to follow the cluster, as `args` have it.
    pub(super) fn begin(args: &Args, tls: &Tls, live: &Arc<Live>, direct: &Arc<DirectClients>) -> Self {
        if args.no_control_connection {
            return Self(None);
        }
        let direct = Arc::clone(direct);
        let see: SeeClients = Box::new(move |node, clients| direct.see(node, clients));
        let following = control::follow_any(Arc::clone(live), contacts(args), options(args, tls), Some(see));
        Self(Some(tokio::spawn(following)))
    }

    /// Closes the connection; when this returns, nothing more is read.
    pub(super) async fn end(&mut self, live: &Live) {
        if let Some(following) = self.0.take() {
            following.abort();
            // That it was aborted is what it says.
            let _ = following.await;
            live.end_following();
        }
    }
}

/// Looks for a node that lets cqlens in, if the settings do not want to begin without one.
///
/// # Errors
/// Why there is none.
pub(super) async fn check(args: &Args, tls: &Tls) -> anyhow::Result<()> {
    if !args.topology.refuses_without_cluster() {
        return Ok(());
    }
    let reached = control::reach(&contacts(args), options(args, tls)).await;
    reached.map_err(|why| anyhow!("start-without-cluster: no node accepts a control connection: {why}"))
}

/// The nodes that it may connect to.
pub(super) fn contacts(args: &Args) -> Contacts {
    Contacts {
        points: args.topology.contacts(&args.upstream),
        and_nodes: args.topology.is_cluster(),
    }
}

/// How it connects to an address.
pub(super) fn options(args: &Args, tls: &Tls) -> impl Fn(&str) -> ClientOptions + use<> {
    let tls = tls.to_upstreams();
    let options = ClientOptions {
        credentials: args.observer.login.credentials(),
        application: "cqlens control".to_owned(),
        plaintext_passwords: plaintext::is_allowed(),
        preamble: match args.limits.sends_proxy_protocol() {
            true => PROXY_PROTOCOL_LOCAL,
            false => &[],
        },
        ..ClientOptions::default()
    };
    move |address| ClientOptions {
        tls: tls.to(address).map(|tls| Arc::new(tls) as _),
        ..options.clone()
    }
}
