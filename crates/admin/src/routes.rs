//! The requests of the admin listener, and their answers.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::{
    Extension, Json, Router,
    body::to_bytes,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::json;
use tokio::{
    sync::{Mutex, oneshot},
    task::spawn_blocking,
};

use super::{
    access::Peer,
    status::{Admin, AdminOrder, Exposition, ReadyState, Rendering, ShadowOrder},
};
use cqlens_proxy::throttle::Throttle;
use cqlens_report::Format;

/// All routes; [`Peer`] must be among a request's extensions.
pub(super) fn routes(admin: Arc<Admin>) -> Router {
    let for_operators = Router::new()
        .route("/config", get(config))
        .route("/metrics", get(metrics))
        .route("/report", get(report))
        .route("/findings", get(findings))
        .route("/snapshot", get(snapshot))
        .route(
            "/log-level",
            get(log_level).put(set_log_level).post(set_log_level),
        )
        .route("/{file}", get(report_file))
        .route("/reload", post(reload))
        .route("/drain", post(drain))
        .route("/shadow", get(shadow_report))
        .route("/shadow/start", post(shadow_start))
        .route("/shadow/stop", post(shadow_stop))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&admin), only_operators));
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .merge(for_operators)
        .with_state(admin)
}

async fn livez(State(admin): State<Arc<Admin>>) -> Response {
    match (admin.is_alive)() {
        true => "alive\n".into_response(),
        false => (
            StatusCode::SERVICE_UNAVAILABLE,
            "stuck, see /readyz and the log\n",
        )
            .into_response(),
    }
}

async fn readyz(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    let status = (admin.status)();
    let code = match status.state {
        ReadyState::Accepting => StatusCode::OK,
        ReadyState::Waiting | ReadyState::Draining => StatusCode::SERVICE_UNAVAILABLE,
    };
    match peer.check(&headers, (admin.token)().as_deref()) {
        Ok(()) => (code, Json(status)).into_response(),
        Err(_) => (code, Json(json!({ "state": status.state }))).into_response(),
    }
}

async fn config(State(admin): State<Arc<Admin>>) -> Response {
    ([(header::CONTENT_TYPE, "application/toml")], (admin.settings)()).into_response()
}

/// All metrics. Made beside the threads that answer, one answer at a time: two servers of Prometheus that ask at once wait for each
/// other.
async fn metrics(State(admin): State<Arc<Admin>>, headers: HeaderMap) -> Response {
    static ONE: Mutex<()> = Mutex::const_new(());
    let exposition = exposition(&headers);
    let one = ONE.lock().await;
    let exposed = spawn_blocking(move || (admin.metrics)(exposition)).await;
    drop(one);
    let content_type = match exposition {
        Exposition::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
    };
    match exposed {
        Ok(text) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
        Err(_panicked) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// OpenMetrics for those who name it, as Prometheus does.
fn exposition(headers: &HeaderMap) -> Exposition {
    let mut accepted = headers.get_all(header::ACCEPT).iter();
    let names = |accept: &HeaderValue| {
        let accept = accept.to_str().unwrap_or_default();
        accept.contains("application/openmetrics-text")
    };
    match accepted.any(names) {
        true => Exposition::OpenMetrics,
        false => Exposition::Prometheus,
    }
}

async fn reload(State(admin): State<Arc<Admin>>) -> Response {
    let (answer, answered) = oneshot::channel();
    if admin.orders.try_send(AdminOrder::Reload(answer)).is_err() {
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

async fn log_level(State(admin): State<Arc<Admin>>) -> Response {
    format!("{}\n", (admin.log_level)()).into_response()
}

/// The body is the level or filter, as `--log` takes it.
async fn set_log_level(State(admin): State<Arc<Admin>>, request: Request) -> Response {
    let body = tokio::time::timeout(BODY, to_bytes(request.into_body(), LONGEST_FILTER));
    let Ok(Ok(body)) = body.await else {
        let why = "a body with a level or a filter, such as debug or cqlens_proxy=debug\n";
        return (StatusCode::BAD_REQUEST, why).into_response();
    };
    let filter = String::from_utf8_lossy(&body).trim().to_owned();
    let (answer, answered) = oneshot::channel();
    if admin
        .orders
        .try_send(AdminOrder::LogLevel(filter, answer))
        .is_err()
    {
        return busy();
    }
    match tokio::time::timeout(PATIENCE, answered).await {
        Ok(Ok(Ok(()))) => log_level(State(admin)).await,
        Ok(Ok(Err(why))) => (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "error": why }))).into_response(),
        Ok(Err(_)) | Err(_) => busy(),
    }
}

async fn drain(State(admin): State<Arc<Admin>>) -> Response {
    match admin.orders.try_send(AdminOrder::Drain) {
        Ok(()) => (StatusCode::ACCEPTED, "draining\n").into_response(),
        Err(_full_or_gone) => busy(),
    }
}

async fn shadow_report(State(admin): State<Arc<Admin>>) -> Response {
    about_shadow(&admin, ShadowOrder::Report).await
}

async fn shadow_start(State(admin): State<Arc<Admin>>) -> Response {
    about_shadow(&admin, ShadowOrder::Start).await
}

async fn shadow_stop(State(admin): State<Arc<Admin>>) -> Response {
    about_shadow(&admin, ShadowOrder::Stop).await
}

async fn about_shadow(admin: &Admin, order: ShadowOrder) -> Response {
    let (answer, answered) = oneshot::channel();
    if admin.orders.try_send(AdminOrder::Shadow(order, answer)).is_err() {
        return busy();
    }
    match tokio::time::timeout(PATIENCE, answered).await {
        Ok(Ok(Some(json))) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Ok(Ok(None)) => (StatusCode::NOT_FOUND, "there is no shadow\n").into_response(),
        Ok(Err(_)) | Err(_) => busy(),
    }
}

/// The page of the report, which reloads itself when there may be another window.
async fn report(State(admin): State<Arc<Admin>>) -> Response {
    let mut response = rendered(&admin, Rendering::Report(Format::Html)).await;
    let refresh = HeaderValue::from_static("60");
    response.headers_mut().insert(header::REFRESH, refresh);
    response
}

/// The report in one of its forms: `report.json`, `report.md`, …
async fn report_file(State(admin): State<Arc<Admin>>, Path(file): Path<String>) -> Response {
    let format = file
        .strip_prefix("report.")
        .and_then(|_| Format::of_path(file.as_ref()));
    match format {
        Some(format) => rendered(&admin, Rendering::Report(format)).await,
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn findings(State(admin): State<Arc<Admin>>) -> Response {
    rendered(&admin, Rendering::Findings).await
}

async fn snapshot(State(admin): State<Arc<Admin>>) -> Response {
    let mut response = rendered(&admin, Rendering::Snapshot).await;
    if response.status() == StatusCode::OK {
        let name = HeaderValue::from_static("attachment; filename=\"now.cqlens.json.gz\"");
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    response
}

/// One rendering at a time: what others ask for meanwhile is refused, so that windows are written in time.
async fn rendered(admin: &Admin, rendering: Rendering) -> Response {
    static ONE: Mutex<()> = Mutex::const_new(());
    let Ok(_one) = ONE.try_lock() else {
        return busy();
    };
    let (rendered, report) = oneshot::channel();
    if admin
        .orders
        .try_send(AdminOrder::Render(rendering, rendered))
        .is_err()
    {
        return busy();
    }
    let Ok(Ok(report)) = tokio::time::timeout(PATIENCE, report).await else {
        return busy();
    };
    let headers = [
        (header::CONTENT_TYPE, content_type(rendering)),
        (header::CACHE_CONTROL, "no-store"),
        // A report has no scripts, and loads nothing.
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, report).into_response()
}

fn content_type(rendering: Rendering) -> &'static str {
    let format = match rendering {
        Rendering::Report(format) => format,
        Rendering::Findings => Format::Json,
        Rendering::Snapshot => return "application/gzip",
    };
    match format {
        Format::Html => "text/html; charset=utf-8",
        Format::Md => "text/markdown; charset=utf-8",
        Format::Json => "application/json",
        Format::Csv => "text/csv; charset=utf-8",
        Format::Tsv => "text/tab-separated-values; charset=utf-8",
        Format::Svg => "image/svg+xml",
    }
}

fn busy() -> Response {
    let why = "cqlens is shutting down, or busy with other orders";
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": why }))).into_response()
}

/// Files of certificates may be on slow disks.
const PATIENCE: Duration = Duration::from_secs(15);

/// A body is a line, and comes with its head.
const BODY: Duration = Duration::from_secs(5);
const LONGEST_FILTER: usize = 1 << 10;

/// Of what is refused.
static REFUSED: LazyLock<Throttle> = LazyLock::new(Throttle::default);

async fn only_operators(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    match peer.check(request.headers(), (admin.token)().as_deref()) {
        Ok(()) => next.run(request).await,
        Err((code, why)) => {
            let later =
                |suppressed| tracing::warn!(suppressed, "more requests were refused on the admin listener");
            if REFUSED.is_new(later) {
                tracing::warn!(
                    ?peer,
                    path = request.uri().path(),
                    code = code.as_u16(),
                    "refused on the admin listener"
                );
            }
            let mut response = (code, why).into_response();
            if code == StatusCode::UNAUTHORIZED {
                let scheme = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            }
            response
        }
    }
}

#[cfg(test)]
mod tests;
