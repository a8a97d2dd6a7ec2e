//! How bytes go from one side of a connection to the other: as they came, or with other addresses
//! in them. Decided once for a connection and compiled for each, so that a verbatim connection
//! pays nothing for rewriting.

use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    pump::{Ended, pump, pump_rewritten},
    topology::{Requests, Responses, Shared},
};
use cqlens_capture::Tap;

/// Both directions of a connection.
pub(super) trait RewriteMode: Copy + Send {
    /// From the client to the node.
    fn requests(
        self,
        from: impl AsyncRead + Unpin + Send,
        to: impl AsyncWrite + Unpin + Send,
        tap: Tap,
    ) -> impl Future<Output = Ended> + Send;

    /// From the node to the client.
    fn responses(
        self,
        from: impl AsyncRead + Unpin + Send,
        to: impl AsyncWrite + Unpin + Send,
        tap: Tap,
    ) -> impl Future<Output = Ended> + Send;
}

/// Every byte goes through as it came.
#[derive(Clone, Copy)]
pub(super) struct Verbatim;

impl RewriteMode for Verbatim {
    fn requests(
        self,
        from: impl AsyncRead + Unpin + Send,
        to: impl AsyncWrite + Unpin + Send,
        tap: Tap,
    ) -> impl Future<Output = Ended> + Send {
        pump(from, to, tap, |_| ())
    }

    fn responses(
        self,
        from: impl AsyncRead + Unpin + Send,
        to: impl AsyncWrite + Unpin + Send,
        tap: Tap,
    ) -> impl Future<Output = Ended> + Send {
        pump(from, to, tap, |_| ())
    }
}

/// Clients are shown the addresses of listeners in place of those of nodes.
#[derive(Clone, Copy)]
pub(super) struct RewriteAddresses<'a>(pub(super) &'a Shared);

impl RewriteMode for RewriteAddresses<'_> {
    fn requests(
        self,
        from: impl AsyncRead + Unpin + Send,
        to: impl AsyncWrite + Unpin + Send,
        tap: Tap,
    ) -> impl Future<Output = Ended> + Send {
        let mut requests = Requests::new(self.0);
        pump(from, to, tap, move |chunk| requests.follow(chunk))
    }

    fn responses(
        self,
        from: impl AsyncRead + Unpin + Send,
        to: impl AsyncWrite + Unpin + Send,
        tap: Tap,
    ) -> impl Future<Output = Ended> + Send {
        pump_rewritten(from, to, tap, Responses::new(self.0))
    }
}
