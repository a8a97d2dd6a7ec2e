//! Knows whether a receiver keeps bytes waiting. Bytes that were read and cannot be written yet exist only in
//! this process, which must not end before it has passed them on.

use std::{
    io,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
};

use tokio::io::AsyncWrite;

/// Writes to `to`, and keeps in `is_blocked` whether the last write found no room.
pub(super) struct BackpressureWriter<'a, W> {
    to: W,
    is_blocked: &'a AtomicBool,
}

impl<'a, W> BackpressureWriter<'a, W> {
    pub(super) fn new(to: W, is_blocked: &'a AtomicBool) -> Self {
        Self { to, is_blocked }
    }

    /// Costs one load while there is room, which is nearly always.
    fn note<T>(&self, written: Poll<T>) -> Poll<T> {
        if written.is_pending() != self.is_blocked.load(Ordering::Relaxed) {
            self.is_blocked.store(written.is_pending(), Ordering::Relaxed);
        }
        written
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for BackpressureWriter<'_, W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.to).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.to).poll_write_vectored(context, slices);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.to.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.to).poll_flush(context);
        self.note(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_shutdown(context)
    }
}
