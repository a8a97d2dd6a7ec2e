//! The requests of the admin listener, and their answers.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::{
    Extension, Json, Router,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, uri::Authority},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::json;
use tokio::{
    sync::{Mutex, oneshot},
    task::spawn_blocking,
};

use super::status::{Admin, AdminOrder, Exposition, ReadyState, ShadowOrder};
use cqlens_audit::report::Format;
use cqlens_proxy::throttle::Throttle;

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Peer {
    Tcp {
        from: SocketAddr,
        /// The address of this machine that was connected to.
        to: SocketAddr,
    },
    Unix,
}

impl Peer {
    /// Whether a request with these headers comes from an operator.
    ///
    /// # Errors
    /// Why not. Browsers send the origin of a page with anything but a GET, and with a request to another
    /// site; a page whose name was made to resolve to this machine (DNS rebinding) sends that name as Host.
    fn check(self, headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
        let Self::Tcp { from, to } = self else {
            return Ok(());
        };
        if !from.ip().to_canonical().is_loopback() || headers.contains_key(header::ORIGIN) {
            let why = "only from the machine that cqlens runs on, and from no web page\n";
            return Err((StatusCode::FORBIDDEN, why));
        }
        let mut hosts = headers.get_all(header::HOST).iter();
        if !hosts.all(|host| names(host, to.ip())) {
            let why = "Host: only localhost, or the address that was connected to\n";
            return Err((StatusCode::MISDIRECTED_REQUEST, why));
        }
        Ok(())
    }
}

/// Whether `host` can name nothing but this machine: `address` is its own.
fn names(host: &HeaderValue, address: IpAddr) -> bool {
    let authority = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    authority.is_some_and(|authority| {
        let host = authority.host();
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        match literal.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
            Ok(ip) => ip.is_loopback() || ip == address.to_canonical(),
            Err(_) => host.eq_ignore_ascii_case("localhost"),
        }
    })
}

/// All routes; [`Peer`] must be among a request's extensions.
pub(super) fn routes(admin: Arc<Admin>) -> Router {
    let for_operators = Router::new()
        .route("/config", get(config))
        .route("/metrics", get(metrics))
        .route("/report", get(report))
        .route("/{file}", get(report_file))
        .route("/reload", post(reload))
        .route("/drain", post(drain))
        .route("/shadow", get(shadow_report))
        .route("/shadow/start", post(shadow_start))
        .route("/shadow/stop", post(shadow_stop))
        .route_layer(middleware::from_fn(only_operators));
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
    match peer.check(&headers) {
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
    let mut response = rendered(&admin, Format::Html).await;
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
        Some(format) => rendered(&admin, format).await,
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// One report at a time: what others ask for meanwhile is refused, so that windows are written in time.
async fn rendered(admin: &Admin, format: Format) -> Response {
    static ONE: Mutex<()> = Mutex::const_new(());
    let Ok(_one) = ONE.try_lock() else {
        return busy();
    };
    let (rendered, report) = oneshot::channel();
    if admin
        .orders
        .try_send(AdminOrder::Report(format, rendered))
        .is_err()
    {
        return busy();
    }
    let Ok(Ok(report)) = tokio::time::timeout(PATIENCE, report).await else {
        return busy();
    };
    let headers = [
        (header::CONTENT_TYPE, content_type(format)),
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

fn content_type(format: Format) -> &'static str {
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
    let why = "cqlens ends, or is busy with other orders";
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": why }))).into_response()
}

/// Files of certificates may be on slow disks.
const PATIENCE: Duration = Duration::from_secs(15);

/// Of what is refused.
static REFUSED: LazyLock<Throttle> = LazyLock::new(Throttle::default);

async fn only_operators(Extension(peer): Extension<Peer>, request: Request, next: Next) -> Response {
    match peer.check(request.headers()) {
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
            (code, why).into_response()
        }
    }
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
    use crate::{AuditStatus, ControlConnection, Status};

    fn status() -> Status {
        Status {
            state: ReadyState::Accepting,
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
            log_lines_dropped: 0,
            audit: AuditStatus::default(),
            threads: Vec::new(),
            memory: cqlens_audit::memory::Memory::default().status(),
        }
    }

    /// The answer to a request of `peer` for `path` at `host`: the code, the text, and
    /// whether it gave an order.
    async fn asked(peer: Peer, host: &str, method: &str, path: &str) -> (u16, String, bool) {
        let (orders, mut given) = mpsc::channel(1);
        let admin = Admin {
            is_alive: Box::new(|| true),
            status: Box::new(status),
            settings: Box::new(String::new),
            metrics: Box::new(|exposition| format!("{exposition:?}")),
            orders,
        };
        let routes = routes(Arc::new(admin)).layer(Extension(peer));
        let request = Request::builder().method(method).uri(path).header("Host", host);
        let response = TowerToHyperService::new(routes)
            .call(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        let code = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        (code, body, given.try_recv().is_ok())
    }

    fn tcp(from: &str) -> Peer {
        Peer::Tcp {
            from: from.parse().unwrap(),
            to: "127.0.0.2:9143".parse().unwrap(),
        }
    }

    /// Answers to requests for a report, of which the first is still being made.
    #[tokio::test]
    async fn one_report_is_made_at_a_time() {
        let (orders, mut given) = mpsc::channel(8);
        let admin = Admin {
            is_alive: Box::new(|| true),
            status: Box::new(status),
            settings: Box::new(String::new),
            metrics: Box::new(|exposition| format!("{exposition:?}")),
            orders,
        };
        let making = rendered(&admin, Format::Json);
        tokio::pin!(making);
        let early = tokio::time::timeout(Duration::from_millis(1), making.as_mut()).await;
        assert!(early.is_err(), "it is not made yet");
        let refused = rendered(&admin, Format::Html).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        let Some(AdminOrder::Report(Format::Json, rendered)) = given.recv().await else {
            unreachable!("the only order")
        };
        rendered.send(b"{}".to_vec()).unwrap();
        let made = making.await;
        assert_eq!(made.status(), StatusCode::OK);
        assert_eq!(made.headers()[header::CONTENT_TYPE], "application/json");
        assert!(given.try_recv().is_err());
    }

    async fn answered(from: &str, method: &str, path: &str) -> (u16, bool) {
        let (code, _, is_order) = asked(tcp(from), "localhost", method, path).await;
        (code, is_order)
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
            assert_eq!(answered(peer, "GET", "/report.json").await, (403, false));
            assert_eq!(answered(peer, "GET", "/metrics").await, (403, false));
            assert_eq!(answered(peer, "POST", "/reload").await, (403, false));
            assert_eq!(answered(peer, "POST", "/drain").await, (403, false));
            assert_eq!(answered(peer, "GET", "/shadow").await, (403, false));
            assert_eq!(answered(peer, "POST", "/shadow/stop").await, (403, false));
        }
        for peer in ["127.0.0.1:50000", "[::1]:50000", "[::ffff:127.0.0.1]:50000"] {
            assert_eq!(answered(peer, "GET", "/config").await, (200, false));
            assert_eq!(answered(peer, "POST", "/drain").await, (202, true));
        }
    }

    #[test]
    fn metrics_are_in_the_format_that_was_asked_for() {
        let asked = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            exposition(&headers)
        };
        // What Prometheus sends, and what curl does.
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(asked(prometheus), Exposition::OpenMetrics);
        assert_eq!(asked("*/*"), Exposition::Prometheus);
        assert_eq!(exposition(&HeaderMap::new()), Exposition::Prometheus);
    }

    #[tokio::test]
    async fn details_are_for_operators() {
        let (code, own, _) = asked(tcp("127.0.0.1:50000"), "localhost:9143", "GET", "/readyz").await;
        assert!(code == 200 && own.contains("db:9042"), "{own}");
        for (from, host) in [
            ("192.0.2.1:50000", "localhost"),
            ("127.0.0.1:50000", "evil.example"),
        ] {
            let (code, others, _) = asked(tcp(from), host, "GET", "/readyz").await;
            assert_eq!((code, others.as_str()), (200, r#"{"state":"accepting"}"#));
        }
    }

    #[tokio::test]
    async fn only_a_host_that_is_this_machine_by_address_is_answered() {
        let own = tcp("127.0.0.1:50000");
        for host in [
            "localhost",
            "LOCALHOST:9143",
            "127.0.0.1:9143",
            "127.9.9.9",
            "127.0.0.2:9143",
            "[::1]:9143",
        ] {
            assert_eq!(asked(own, host, "GET", "/config").await.0, 200, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:9143",
            "127.0.0.1.evil.example",
            "192.0.2.1",
            "10.0.0.1:9143",
            "",
            "localhost@evil.example",
            "[::2]",
        ] {
            let (code, _, is_order) = asked(own, host, "POST", "/drain").await;
            assert_eq!((code, is_order), (421, false), "{host}");
            assert_eq!(asked(own, host, "GET", "/livez").await.0, 200, "{host}");
        }
        assert_eq!(asked(Peer::Unix, "whatever", "POST", "/drain").await.0, 202);
    }
}
