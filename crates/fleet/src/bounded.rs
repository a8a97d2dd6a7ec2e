//! An HTTP client for object stores that reads no response beyond a limit.
//!
//! `object_store` reads the bodies of listings and errors whole, and listings page by page for as long as there are pages. A store
//! belongs to others: it may send without end. So each call of a store has a budget of bytes, from which every response takes,
//! and even an empty one takes something: pages and attempts end as well.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use async_trait::async_trait;
use bytes::Bytes;
use http_body::{Body, Frame};
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
        HttpService, ReqwestConnector,
    },
};

use super::{left_out::Notes, listing};

/// What a response takes from the budget beside its body.
const RESPONSE: u64 = 4 << 10;

/// The most of a body that says why a call failed: it is logged.
const ERROR_BODY: u64 = 4 << 10;

/// How many bytes the responses to the call at hand may still have.
#[derive(Debug, Clone, Default)]
pub(super) struct Budget(Arc<AtomicU64>);

impl Budget {
    /// Begins a call whose responses have at most so many bytes.
    pub(super) fn begin(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn spend(&self, bytes: u64) -> Result<(), HttpError> {
        let spend = |left: u64| left.checked_sub(bytes);
        let spent = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend);
        spent
            .map(drop)
            // Of a kind that is not tried again.
            .map_err(|_left| HttpError::new(HttpErrorKind::Decode, TooMuch))
    }
}

/// More than the budget.
#[derive(Debug, Clone, Copy)]
pub(super) struct TooMuch;

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store sends more than cqlens reads of it")
    }
}

impl std::error::Error for TooMuch {}

/// Makes clients that spend one budget.
#[derive(Debug, Clone)]
pub(super) struct BoundedConnector {
    pub(super) budget: Budget,
    pub(super) notes: Notes,
}

impl HttpConnector for BoundedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        let Self { budget, notes } = self.clone();
        Ok(HttpClient::new(BoundedClient {
            client,
            budget,
            notes,
        }))
    }
}

#[derive(Debug)]
struct BoundedClient {
    client: HttpClient,
    budget: Budget,
    notes: Notes,
}

#[async_trait]
impl HttpService for BoundedClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_listing = listing::is_listing(request.method().as_str(), request.uri().query());
        self.budget.spend(RESPONSE)?;
        let (parts, body) = self.client.execute(request).await?.into_parts();
        let left = (!parts.status.is_success()).then_some(ERROR_BODY);
        let budget = self.budget.clone();
        let body = HttpResponseBody::new(BoundedBody { body, budget, left });
        if !is_listing || !parts.status.is_success() {
            return Ok(HttpResponse::from_parts(parts, body));
        }
        let page = listing::without_bad_names(body.bytes().await?, &self.notes)?;
        Ok(HttpResponse::from_parts(parts, page.into()))
    }
}

/// A body that takes from the budget. It says nothing of its length, which a server may make up.
struct BoundedBody {
    body: HttpResponseBody,
    budget: Budget,
    /// Where the body is cut instead: how much of it is still read.
    left: Option<u64>,
}

impl BoundedBody {
    fn count(&mut self, bytes: &mut Bytes) -> Result<(), HttpError> {
        if let Some(left) = &mut self.left {
            bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= bytes.len() as u64;
            return Ok(());
        }
        self.budget.spend(bytes.len() as u64)
    }
}

impl Body for BoundedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map(|frame| {
            let data = match frame? {
                Ok(frame) => frame.into_data(),
                Err(error) => return Some(Err(error)),
            };
            let mut bytes = match data {
                Ok(bytes) => bytes,
                Err(other) => return Some(Ok(other)),
            };
            Some(self.count(&mut bytes).map(|()| Frame::data(bytes)))
        })
    }
}
