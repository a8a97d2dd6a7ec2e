//! What is asked and what is answered.

use std::{net::SocketAddr, sync::Arc, time::Duration};

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
        State::Draining => StatusCode::SERVICE_UNAVAILABLE,
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

/// Refuses what comes from elsewhere, or out of a web page that a browser on this machine shows: browsers say where a page is
/// from whenever it sends more than a GET, or asks another site.
async fn from_this_machine(Extension(Peer(peer)): Extension<Peer>, request: Request, next: Next) -> Response {
    let is_local = peer.ip().to_canonical().is_loopback();
    if is_local && !request.headers().contains_key(header::ORIGIN) {
        return next.run(request).await;
    }
    tracing::warn!(%peer, path = request.uri().path(), "refused on the admin listener");
    (
        StatusCode::FORBIDDEN,
        "only from the machine that cqlens runs on, and from no web page\n",
    )
        .into_response()
}
