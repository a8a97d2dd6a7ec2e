//! What one read of a connection brings, and what it is read into.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

/// What is copied out of the page that all connections of a thread read into: most requests and responses.
const PAGE: usize = 16 << 10;
/// A buffer of its own for a connection that fills pages: copying would cost more than the memory is worth.
const LARGE: usize = 64 << 10;
/// Small reads in a row after which a connection is back at the page. The last part of a large response is small too.
const QUIET_READS: u8 = 8;

thread_local! {
    static SHARED: RefCell<Vec<u8>> = RefCell::new(vec![0; PAGE]);
}

/// Reads chunks. A connection has a buffer of its own only while its reads are large: one that is idle has none, unless
/// the last thing that it read was large.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// Empty until a read fills the page.
    large: BytesMut,
    /// How many more reads go into `large`, unless one of them is large again.
    large_reads: u8,
}

impl Chunks {
    /// The next chunk, empty where nothing more comes.
    pub(super) async fn next(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
        poll_fn(|context| self.poll(Pin::new(&mut *from), context)).await
    }

    fn poll(
        &mut self,
        from: Pin<&mut (impl AsyncRead + Unpin)>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Bytes>> {
        let chunk = match self.large_reads {
            0 => ready!(read_shared(from, context))?,
            _ => ready!(self.read_large(from, context))?,
        };
        self.large_reads = match chunk.len() {
            PAGE.. => QUIET_READS,
            _ => self.large_reads.saturating_sub(1),
        };
        if self.large_reads == 0 {
            self.large = BytesMut::new();
        }
        Poll::Ready(Ok(chunk))
    }

    fn read_large(
        &mut self,
        from: Pin<&mut (impl AsyncRead + Unpin)>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Bytes>> {
        if self.large.capacity() < LARGE / 2 {
            self.large.reserve(LARGE);
        }
        // Nothing is kept in this future: it can be made anew for each poll.
        ready!(pin!(from.get_mut().read_buf(&mut self.large)).poll(context))?;
        if self.large.len() >= PAGE {
            return Poll::Ready(Ok(self.large.split().freeze()));
        }
        // As a part of the buffer it would keep the whole of it while it waits for the audit.
        let chunk = Bytes::copy_from_slice(&self.large);
        self.large.clear();
        Poll::Ready(Ok(chunk))
    }
}

/// Reads into the thread's page, and copies what came.
fn read_shared(from: Pin<&mut impl AsyncRead>, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
    SHARED.with_borrow_mut(|page| {
        let mut page = ReadBuf::new(page);
        ready!(from.poll_read(context, &mut page))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(page.filled())))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use tokio::io::AsyncWriteExt;

    /// What comes out where so many bytes are written at a time, and what buffer the connection has in the end.
    fn pass(writes: &[usize]) -> (Vec<u8>, Vec<u8>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut writer, mut reader) = tokio::io::duplex(256 << 10);
            let mut chunks = Chunks::default();
            let (mut sent, mut got) = (Vec::new(), Vec::new());
            for (number, &length) in (0_u8..).zip(writes) {
                let bytes = vec![number; length];
                writer.write_all(&bytes).await.unwrap();
                sent.extend(bytes);
                while got.len() < sent.len() {
                    got.extend_from_slice(&chunks.next(&mut reader).await.unwrap());
                }
            }
            let buffer = chunks.large.capacity();
            drop(writer);
            assert!(chunks.next(&mut reader).await.unwrap().is_empty());
            (sent, got, buffer)
        })
    }

    #[test]
    fn a_connection_with_small_reads_has_no_buffer() {
        assert_eq!(pass(&[1; 20]).2, 0);
        assert!(pass(&[200_000]).2 > 0);
        let after = |small: usize| [vec![200_000], vec![1; small]].concat();
        assert!(pass(&after(2)).2 > 0);
        assert_eq!(pass(&after(QUIET_READS.into())).2, 0);
    }

    #[test]
    fn a_small_chunk_keeps_no_large_buffer() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut writer, mut reader) = tokio::io::duplex(256 << 10);
            let mut chunks = Chunks::default();
            writer.write_all(&[0; 3 * PAGE]).await.unwrap();
            // The page, then a large buffer.
            assert_eq!(chunks.next(&mut reader).await.unwrap().len(), PAGE);
            assert_eq!(chunks.next(&mut reader).await.unwrap().len(), 2 * PAGE);
            writer.write_all(&[0; 10]).await.unwrap();
            let small = chunks.next(&mut reader).await.unwrap();
            assert_eq!(small.try_into_mut().unwrap().capacity(), 10);
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_byte_comes_out_in_order(writes in vec(prop_oneof![1usize..300, 1usize..100_000], 1..30)) {
            let (sent, got, _) = pass(&writes);
            prop_assert_eq!(sent, got);
        }
    }
}
