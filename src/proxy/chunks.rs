//! What one read of a connection brings, and what it is read into.

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    io,
    pin::pin,
    task::{Context, Poll, ready},
};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What is allocated at a time.
const SLAB: usize = 128 << 10;
/// What a slab must have room for to be read into.
const ROOM: usize = 32 << 10;
/// The longest chunk: what a socket holds is written on before more is read.
const CHUNK: usize = 64 << 10;
/// Slabs that a thread keeps for reading into them again, once the audit is done with what they hold: 2 MiB.
const KEPT: usize = 16;

thread_local! {
    static SLABS: RefCell<Slabs> = RefCell::default();
}

/// Reads the next chunk, empty where nothing more comes.
///
/// All connections of a thread read into the same slab, one behind the other, and a chunk is a part of it: nothing is copied, and an
/// idle connection has no buffer.
pub(super) async fn next_chunk(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
    poll_fn(|context| SLABS.with_borrow_mut(|slabs| slabs.poll_read(from, context))).await
}

/// The slab that is read into, and full ones whose chunks are still in use.
#[derive(Default)]
struct Slabs {
    current: BytesMut,
    full: VecDeque<BytesMut>,
}

impl Slabs {
    fn poll_read(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Bytes>> {
        if self.current.capacity() < ROOM {
            self.next_slab();
        }
        // Nothing is kept in this future: it can be made anew for each poll.
        let mut room = (&mut self.current).limit(CHUNK);
        ready!(pin!(from.read_buf(&mut room)).poll(context))?;
        Poll::Ready(Ok(self.current.split().freeze()))
    }

    /// Begins a slab of whose parts nobody holds one any more, or a new one; gives one back that is more than were needed.
    fn next_slab(&mut self) {
        let full = std::mem::take(&mut self.current);
        if full.capacity() > 0 && self.full.len() < KEPT {
            self.full.push_back(full);
        }
        self.current = self.reclaim().unwrap_or_else(|| BytesMut::with_capacity(SLAB));
        drop(self.reclaim());
    }

    /// A slab that can be read into again. Looks at a few, the oldest first: a part may be held for long.
    fn reclaim(&mut self) -> Option<BytesMut> {
        for _ in 0..self.full.len().min(4) {
            let mut oldest = self.full.pop_front()?;
            if oldest.try_reclaim(SLAB) {
                return Some(oldest);
            }
            self.full.push_back(oldest);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use tokio::io::AsyncWriteExt;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(future)
    }

    /// How many bytes the thread's slabs have, whether in use or not.
    fn slabs() -> usize {
        SLABS.with_borrow(|slabs| (1 + slabs.full.len()) * SLAB)
    }

    #[test]
    fn a_slab_is_read_into_again_when_its_chunks_are_gone() {
        run(async {
            let (mut writer, mut reader) = tokio::io::duplex(256 << 10);
            for _ in 0..1_000 {
                writer.write_all(&[7; 10_000]).await.unwrap();
                let mut read = 0;
                while read < 10_000 {
                    read += next_chunk(&mut reader).await.unwrap().len();
                }
            }
        });
        assert!(slabs() <= 2 * SLAB, "{}", slabs());
    }

    #[test]
    fn chunks_that_are_kept_stay_as_they_are_and_cost_no_more_than_what_they_hold() {
        run(async {
            let (mut writer, mut reader) = tokio::io::duplex(256 << 10);
            let mut kept = Vec::new();
            for number in 0..=255_u8 {
                writer.write_all(&[number; 60_000]).await.unwrap();
                let mut read = 0;
                while read < 60_000 {
                    let chunk = next_chunk(&mut reader).await.unwrap();
                    read += chunk.len();
                    kept.push((number, chunk));
                }
            }
            assert!(slabs() <= (KEPT + 1) * SLAB);
            for (number, chunk) in kept {
                assert!(chunk.iter().all(|&byte| byte == number));
            }
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_byte_comes_out_in_order(writes in vec(prop_oneof![1usize..300, 1usize..100_000], 1..30)) {
            let (sent, got) = run(async {
                let (mut writer, mut reader) = tokio::io::duplex(256 << 10);
                let (mut sent, mut got) = (Vec::new(), Vec::new());
                for (number, &length) in (0_u8..).zip(&writes) {
                    let bytes = vec![number; length];
                    writer.write_all(&bytes).await.unwrap();
                    sent.extend(bytes);
                    while got.len() < sent.len() {
                        got.extend_from_slice(&next_chunk(&mut reader).await.unwrap());
                    }
                }
                drop(writer);
                assert!(next_chunk(&mut reader).await.unwrap().is_empty());
                (sent, got)
            });
            prop_assert_eq!(sent, got);
        }
    }
}
