//! The other side: a process that asks an admin listener how a proxy is.

use axum::body::{Body, to_bytes};
use hyper::{Request, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};

/// More than any answer to it.
const LONGEST_ANSWER: usize = 1 << 20;

/// What `/readyz` says.
#[derive(Debug)]
pub struct Readiness {
    /// Whether clients are accepted.
    pub is_ready: bool,
    /// `accepting`, `waiting` or `draining`.
    pub state: String,
    /// What is wrong with nodes or listeners; nothing for those who are no operators.
    pub problems: Vec<String>,
}

#[derive(Deserialize)]
struct Answer {
    state: String,
    #[serde(default)]
    problems: Vec<String>,
}

/// Asks for `/readyz` over a connection to an admin listener without TLS.
///
/// # Errors
/// A connection that ends, or an answer that is not from an admin listener.
pub async fn readiness<S>(connection: S) -> Result<Readiness, NotAnswered>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut requests, connection) = http1::handshake(TokioIo::new(connection)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get("/readyz").header(header::HOST, "localhost");
    let request = request.body(Body::empty()).map_err(|_| NotAnswered::NotAdmin)?;
    let response = requests.send_request(request).await?;
    let is_ready = response.status().is_success();
    let body = to_bytes(Body::new(response.into_body()), LONGEST_ANSWER).await;
    connection.abort();
    let body = body.map_err(|_| NotAnswered::NotAdmin)?;
    let Answer { state, problems } = serde_json::from_slice(&body).map_err(|_| NotAnswered::NotAdmin)?;
    Ok(Readiness {
        is_ready,
        state,
        problems,
    })
}

/// Why the readiness of a proxy is not known.
#[derive(Debug, thiserror::Error)]
pub enum NotAnswered {
    /// The connection failed, or what answers speaks TLS or another protocol.
    #[error("no answer in HTTP: {0}")]
    Http(#[from] hyper::Error),
    /// Something else answers at that address.
    #[error("what answers is no admin listener of cqlens")]
    NotAdmin,
}
