#![allow(clippy::unwrap_used)]
use axum::body::Body;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::*;
use crate::{AuditStatus, ControlConnection, Status, Token};

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
        memory: cqlens_capture::memory::Memory::default().status(),
    }
}

/// A process to which `orders` go.
fn admin(orders: mpsc::Sender<AdminOrder>) -> Admin {
    Admin {
        is_alive: Box::new(|| true),
        status: Box::new(status),
        settings: Box::new(String::new),
        metrics: Box::new(|exposition| format!("{exposition:?}")),
        log_level: Box::new(|| "info".to_owned()),
        token: Box::new(|| None),
        orders,
    }
}

/// The answer to a request of `peer` for `path` at `host`: the code, the text, and
/// whether it gave an order.
async fn asked(peer: Peer, host: &str, method: &str, path: &str) -> (u16, String, bool) {
    let request = Request::builder().method(method).uri(path).header("Host", host);
    answer(peer, None, request.body(Body::empty()).unwrap()).await
}

/// The same for any request, where operators have this token.
async fn answer(peer: Peer, token: Option<&str>, request: Request<Body>) -> (u16, String, bool) {
    let (orders, mut given) = mpsc::channel(1);
    let token = token.map(|token| Arc::new(Token::new(token).unwrap()));
    let admin = Admin {
        token: Box::new(move || token.clone()),
        ..admin(orders)
    };
    let routes = routes(Arc::new(admin)).layer(Extension(peer));
    let response = TowerToHyperService::new(routes).call(request).await.unwrap();
    let code = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 16).await.unwrap();
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
    let admin = admin(orders);
    let making = rendered(&admin, Rendering::Report(Format::Json));
    tokio::pin!(making);
    let early = tokio::time::timeout(Duration::from_millis(1), making.as_mut()).await;
    assert!(early.is_err(), "it is not made yet");
    let refused = rendered(&admin, Rendering::Snapshot).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let Some(AdminOrder::Render(Rendering::Report(Format::Json), rendered)) = given.recv().await else {
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
        assert_eq!(answered(peer, "GET", "/findings").await, (403, false));
        assert_eq!(answered(peer, "GET", "/snapshot").await, (403, false));
        assert_eq!(answered(peer, "GET", "/log-level").await, (403, false));
        assert_eq!(answered(peer, "PUT", "/log-level").await, (403, false));
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
    let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
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

const TOKEN: &str = "c2VjcmV0LW9mLW9wZXJhdG9ycw==";

/// Whether an operator on another machine who sends this is let in.
async fn code_with(authorization: &str, path: &str) -> u16 {
    let request = Request::builder().uri(path).header("Host", "cqlens.example");
    let request = request.header("Authorization", authorization);
    let request = request.body(Body::empty()).unwrap();
    answer(tcp("192.0.2.1:50000"), Some(TOKEN), request).await.0
}

#[tokio::test]
async fn with_a_token_operators_are_those_who_send_it() {
    for scheme in ["Bearer", "bearer"] {
        assert_eq!(code_with(&format!("{scheme} {TOKEN}"), "/config").await, 200);
    }
    let almost = format!("Bearer {}x", &TOKEN[..TOKEN.len() - 1]);
    let longer = format!("Bearer {TOKEN}x");
    let basic = format!("Basic {TOKEN}");
    for wrong in ["", "Bearer", "Bearer ", TOKEN, &almost, &longer, &basic] {
        assert_eq!(code_with(wrong, "/config").await, 401, "{wrong}");
        assert_eq!(code_with(wrong, "/livez").await, 200, "{wrong}");
        assert_eq!(code_with(wrong, "/readyz").await, 200, "{wrong}");
    }
    // Being on this machine is not enough any more, and a page has no business here.
    let own = tcp("127.0.0.1:50000");
    let asked = |headers: &[(&'static str, String)]| {
        let mut request = Request::builder().method("POST").uri("/drain");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        answer(own, Some(TOKEN), request.body(Body::empty()).unwrap())
    };
    let bearer = || ("Authorization", format!("Bearer {TOKEN}"));
    let (code, text, is_order) = asked(&[]).await;
    assert_eq!((code, is_order), (401, false), "{text}");
    let (code, _, is_order) = asked(&[bearer(), ("Origin", "http://localhost".to_owned())]).await;
    assert_eq!((code, is_order), (403, false));
    let (code, _, is_order) = asked(&[bearer(), bearer()]).await;
    assert_eq!((code, is_order), (401, false), "two of them say nothing");
    assert_eq!(asked(&[bearer()]).await.0, 202);
}

#[test]
fn a_token_cannot_be_guessed_and_can_be_sent() {
    assert_eq!(Token::new("hunter2").unwrap_err(), crate::NoToken::Short);
    for text in [
        "with a blank in the middle",
        "Schlüssel-Schlüssel",
        "0123456789abcdef\n",
        " ",
    ] {
        assert_eq!(
            Token::new(text).unwrap_err(),
            crate::NoToken::Unprintable,
            "{text}"
        );
    }
    let token = Token::new(TOKEN).unwrap();
    assert!(!format!("{token:?}").contains("c2V"));
}

#[tokio::test]
async fn a_log_level_is_a_short_body_and_never_a_get() {
    let own = tcp("127.0.0.1:50000");
    let set = |method: &str, body: String| {
        let request = Request::builder().method(method).uri("/log-level");
        answer(own, None, request.body(Body::from(body)).unwrap())
    };
    let (code, text, is_order) = set("GET", "debug".to_owned()).await;
    assert_eq!((code, text.as_str(), is_order), (200, "info\n", false));
    let (code, _, is_order) = set("PUT", "x".repeat(LONGEST_FILTER + 1)).await;
    assert_eq!((code, is_order), (400, false));
    assert_eq!(set("DELETE", String::new()).await.0, 405);
    for method in ["PUT", "POST"] {
        let (orders, mut given) = mpsc::channel(1);
        let request = Request::builder().method(method).uri("/log-level");
        let request = request.body(Body::from(" cqlens_proxy=debug\n")).unwrap();
        let setting = set_log_level(State(Arc::new(admin(orders))), request);
        let carry_out = async {
            let Some(AdminOrder::LogLevel(filter, answer)) = given.recv().await else {
                unreachable!("the only order")
            };
            assert_eq!(filter, "cqlens_proxy=debug");
            answer.send(Err("no level".to_owned())).unwrap();
        };
        let (response, ()) = tokio::join!(setting, carry_out);
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
    }
}
