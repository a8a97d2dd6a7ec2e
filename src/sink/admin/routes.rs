//! What is asked and what is answered.

use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::{
    Extension, Json, Router,
    extract::{Request, State as Shared},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::json;
use tokio::sync::oneshot;

use super::{Admin, Order, State};
use crate::throttle::Throttle;

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// All routes; [`Peer`] must be among a request's extensions.
pub(super) fn routes(admin: Arc<Admin>) -> Router {
    let for_operators = Router::new()
        .route("/config", get(config))
        .route("/reload", post(reload))
        .route("/drain", post(drain))
        .route_layer(middleware::from_fn(from_this_machine));
    Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(readyz))
        .merge(for_operators)
        .with_state(admin)
}

async fn readyz(Shared(admin): Shared<Arc<Admin>>) -> Response {
    let status = (admin.status)();
    let code = match status.state {
        State::Accepting => StatusCode::OK,
        State::Waiting | State::Draining => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, Json(status)).into_response()
}

async fn config(Shared(admin): Shared<Arc<Admin>>) -> Response {
    ([(header::CONTENT_TYPE, "application/toml")], (admin.settings)()).into_response()
}

async fn reload(Shared(admin): Shared<Arc<Admin>>) -> Response {
    let (answer, answered) = oneshot::channel();
    if admin.orders.try_send(Order::Reload(answer)).is_err() {
        return busy();
    }
    match tokio::time::timeout(PATIENCE, answered).await {
        Ok(Ok(Ok(changes))) => Json(changes).into_response(),
        Ok(Ok(Err(why))) => (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "error": why }))).into_response(),
        Ok(Err(_gone)) => busy(),
        Err(_elapsed) => (
            StatusCode::ACCEPTED,
            Json(json!({ "error": "not done yet, see the log" })),
        )
            .into_response(),
    }
}

async fn drain(Shared(admin): Shared<Arc<Admin>>) -> Response {
    match admin.orders.try_send(Order::Drain) {
        Ok(()) => (StatusCode::ACCEPTED, "draining\n").into_response(),
        Err(_full_or_gone) => busy(),
    }
}

fn busy() -> Response {
    let why = "cqlens ends, or is busy with other orders";
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": why }))).into_response()
}

/// Files of certificates may be on slow disks.
const PATIENCE: Duration = Duration::from_secs(15);

/// Of what is refused.
static REFUSED: LazyLock<Throttle> = LazyLock::new(Throttle::default);

/// Refuses what comes from elsewhere, or out of a web page that a browser on this machine shows: browsers say where a page is
/// from whenever it sends more than a GET, or asks another site.
async fn from_this_machine(Extension(Peer(peer)): Extension<Peer>, request: Request, next: Next) -> Response {
    let is_local = peer.ip().to_canonical().is_loopback();
    if is_local && !request.headers().contains_key(header::ORIGIN) {
        return next.run(request).await;
    }
    let later = |suppressed| tracing::warn!(suppressed, "more requests were refused on the admin listener");
    if REFUSED.is_new(later) {
        tracing::warn!(%peer, path = request.uri().path(), "refused on the admin listener");
    }
    (
        StatusCode::FORBIDDEN,
        "only from the machine that cqlens runs on, and from no web page\n",
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::body::Body;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use jiff::Timestamp;
    use tokio::sync::mpsc;

    use super::*;
    use crate::sink::admin::{AuditStatus, ControlConnection, Status};

    fn status() -> Status {
        Status {
            state: State::Accepting,
            since: Timestamp::UNIX_EPOCH,
            listen: "127.0.0.1:9142".to_owned(),
            upstream: "db:9042".to_owned(),
            listeners: Vec::new(),
            problems: Vec::new(),
            bypass: None,
            connections: 0,
            control_connection: ControlConnection::Off,
            control_connection_error: None,
            schema_known: false,
            audit: AuditStatus::default(),
        }
    }

    /// What is answered to `peer`, and whether an order came of it.
    async fn answered(peer: &str, method: &str, path: &str) -> (u16, bool) {
        let (orders, mut given) = mpsc::channel(1);
        let admin = Admin {
            status: Box::new(status),
            settings: Box::new(String::new),
            orders,
        };
        let routes = routes(Arc::new(admin)).layer(Extension(Peer(peer.parse().unwrap())));
        let request = Request::builder().method(method).uri(path).body(Body::empty());
        let response = TowerToHyperService::new(routes)
            .call(request.unwrap())
            .await
            .unwrap();
        (response.status().as_u16(), given.try_recv().is_ok())
    }

    #[tokio::test]
    async fn other_machines_may_probe_and_nothing_else() {
        for peer in [
            "192.0.2.1:50000",
            "[2001:db8::1]:50000",
            "[::ffff:192.0.2.1]:50000",
        ] {
            assert_eq!(answered(peer, "GET", "/livez").await, (200, false));
            assert_eq!(answered(peer, "GET", "/readyz").await, (200, false));
            assert_eq!(answered(peer, "GET", "/config").await, (403, false));
            assert_eq!(answered(peer, "POST", "/reload").await, (403, false));
            assert_eq!(answered(peer, "POST", "/drain").await, (403, false));
        }
        for peer in ["127.0.0.1:50000", "[::1]:50000", "[::ffff:127.0.0.1]:50000"] {
            assert_eq!(answered(peer, "GET", "/config").await, (200, false));
            assert_eq!(answered(peer, "POST", "/drain").await, (202, true));
        }
    }
}
