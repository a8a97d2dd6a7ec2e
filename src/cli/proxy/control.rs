//! The control connection as a part of the process: begun, ended, begun anew with other settings.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::args::Args;
use crate::{
    catalog::{self, Live, client::ClientOptions},
    proxy::PROXY_PROTOCOL_LOCAL,
    tls::Connector,
};

/// A control connection, if there is to be one.
#[derive(Debug, Default)]
pub(super) struct Control(Option<JoinHandle<()>>);

impl Control {
    /// The settings that it depends on, beside those of TLS.
    pub(super) const SETTINGS: &[&str] = &[
        "upstream",
        "username",
        "password",
        "no-control-connection",
        "schema",
        "send-proxy-protocol",
    ];

    /// Begins to follow the upstream, as `args` have it.
    pub(super) fn begin(args: &Args, tls: Option<Connector>, live: &Arc<Live>) -> Self {
        if args.no_control_connection {
            return Self(None);
        }
        let options = ClientOptions {
            credentials: args.username.clone().zip(args.password.clone()),
            application: "cqlens control".to_owned(),
            tls,
            preamble: match args.limits.sends_proxy_protocol() {
                true => PROXY_PROTOCOL_LOCAL,
                false => &[],
            },
            ..ClientOptions::default()
        };
        let following = catalog::follow(Arc::clone(live), args.upstream.clone(), options);
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
