//! Reads connections into pooled slabs: one read makes one chunk, a part of a slab.

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

/// The longest chunk. It is written on before more is read.
const CHUNK: usize = 64 << 10;

/// The size of the slabs that a direction is read into, by the size of its last read.
///
/// Short requests and rows share little memory, which stays in the processor's cache until the audit has read
/// it. Long bodies are read with fewer calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ReadSize {
    #[default]
    Small,
    Large,
}

impl ReadSize {
    /// The size of a slab.
    const fn slab(self) -> usize {
        match self {
            Self::Small => 32 << 10,
            Self::Large => 128 << 10,
        }
    }

    /// The room that a slab must have left to be read into.
    const fn room(self) -> usize {
        self.slab() / 4
    }

    /// How many full slabs a thread keeps, to reuse them once the audit has released their
    /// chunks: 2 MiB of both sizes.
    const fn kept(self) -> usize {
        match self {
            Self::Small => 16,
            Self::Large => 12,
        }
    }

    /// The size for the next read, after one of `length` bytes into `room` bytes.
    fn after(self, length: usize, room: usize) -> Self {
        if length == room {
            Self::Large
        } else if length < Self::Small.room() {
            Self::Small
        } else {
            self
        }
    }
}

thread_local! {
    static SMALL: RefCell<SlabPool> = RefCell::new(SlabPool::new(ReadSize::Small));
    static LARGE: RefCell<SlabPool> = RefCell::new(SlabPool::new(ReadSize::Large));
}

/// Reads the next chunk, which is empty at the end of the stream.
///
/// All connections of a thread read into the same slabs, one chunk behind the other. Nothing is copied, and
/// an idle connection has no buffer.
pub(super) async fn next_chunk(
    from: &mut (impl AsyncRead + Unpin),
    size: &mut ReadSize,
) -> io::Result<Bytes> {
    poll_fn(|context| {
        let slabs = match size {
            ReadSize::Small => &SMALL,
            ReadSize::Large => &LARGE,
        };
        slabs.with_borrow_mut(|slabs| {
            let room = slabs.make_room();
            let chunk = ready!(slabs.poll_read(from, room, context))?;
            *size = size.after(chunk.len(), room);
            Poll::Ready(Ok(chunk))
        })
    })
    .await
}

/// The slab that is read into, and full ones whose chunks may still be in use; all of one size.
struct SlabPool {
    size: ReadSize,
    current: BytesMut,
    has_begun: bool,
    full: VecDeque<BytesMut>,
}

impl SlabPool {
    fn new(size: ReadSize) -> Self {
        Self {
            size,
            current: BytesMut::new(),
            has_begun: false,
            full: VecDeque::new(),
        }
    }

    /// Makes room for the next read, and returns how much.
    fn make_room(&mut self) -> usize {
        if self.current.capacity() < self.size.room() {
            self.next_slab();
        }
        self.current.capacity().min(CHUNK)
    }

    fn poll_read(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        room: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Bytes>> {
        // This future keeps no state, so it can be made anew for each poll.
        let mut room = (&mut self.current).limit(room);
        ready!(pin!(from.read_buf(&mut room)).poll(context))?;
        Poll::Ready(Ok(self.current.split().freeze()))
    }

    /// Begins a slab whose chunks are all released, or a new one. Frees one that was kept and is not needed.
    fn next_slab(&mut self) {
        let full = std::mem::take(&mut self.current);
        // The very first has no memory yet.
        if self.has_begun && self.full.len() < self.size.kept() {
            self.full.push_back(full);
        }
        self.has_begun = true;
        let free = self.reclaim();
        self.current = free.unwrap_or_else(|| BytesMut::with_capacity(self.size.slab()));
        drop(self.reclaim());
    }

    /// A slab whose chunks are all released. Tries a few, the oldest first: a chunk may be held for long.
    fn reclaim(&mut self) -> Option<BytesMut> {
        for _ in 0..self.full.len().min(4) {
            let mut oldest = self.full.pop_front()?;
            if oldest.try_reclaim(self.size.slab()) {
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

    /// How many slabs of this size the thread has, whether in use or not.
    fn slabs(size: ReadSize) -> usize {
        let slabs = match size {
            ReadSize::Small => &SMALL,
            ReadSize::Large => &LARGE,
        };
        slabs.with_borrow(|slabs| usize::from(slabs.has_begun) + slabs.full.len())
    }

    async fn read(reader: &mut (impl AsyncRead + Unpin), length: usize) -> Vec<Bytes> {
        let (mut size, mut chunks, mut read) = (ReadSize::default(), Vec::new(), 0);
        while read < length {
            let chunk = next_chunk(reader, &mut size).await.unwrap();
            read += chunk.len();
            chunks.push(chunk);
        }
        chunks
    }

    #[test]
    fn slabs_are_read_into_again_when_their_chunks_are_gone() {
        run(async {
            let (mut writer, mut reader) = tokio::io::duplex(256 << 10);
            for length in [100, 10_000, 100_000].repeat(300) {
                writer.write_all(&vec![7; length]).await.unwrap();
                drop(read(&mut reader, length).await);
            }
        });
        assert!(slabs(ReadSize::Small) <= 2, "{}", slabs(ReadSize::Small));
        assert!(slabs(ReadSize::Large) <= 2, "{}", slabs(ReadSize::Large));
    }

    #[test]
    fn short_reads_go_round_in_little_memory() {
        run(async {
            let (mut writer, mut reader) = tokio::io::duplex(256 << 10);
            for _ in 0..1_000 {
                writer.write_all(&[7; 1_000]).await.unwrap();
                drop(read(&mut reader, 1_000).await);
            }
        });
        assert_eq!(slabs(ReadSize::Large), 0);
    }

    #[test]
    fn what_is_long_is_read_in_long_chunks() {
        let chunks = run(async {
            let (mut writer, mut reader) = tokio::io::duplex(1 << 20);
            writer.write_all(&vec![7; 640 << 10]).await.unwrap();
            read(&mut reader, 640 << 10).await
        });
        assert!(chunks.len() <= 12, "{}", chunks.len());
    }

    #[test]
    fn chunks_that_are_kept_stay_as_they_are_and_cost_no_more_than_what_they_hold() {
        run(async {
            let (mut writer, mut reader) = tokio::io::duplex(256 << 10);
            let mut kept = Vec::new();
            for number in 0..=255_u8 {
                writer.write_all(&[number; 60_000]).await.unwrap();
                let chunks = read(&mut reader, 60_000).await;
                kept.extend(chunks.into_iter().map(|chunk| (number, chunk)));
            }
            for size in [ReadSize::Small, ReadSize::Large] {
                assert!(slabs(size) <= size.kept() + 1);
            }
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
                let (mut sent, mut got, mut size) = (Vec::new(), Vec::new(), ReadSize::default());
                for (number, &length) in (0_u8..).zip(&writes) {
                    let bytes = vec![number; length];
                    writer.write_all(&bytes).await.unwrap();
                    sent.extend(bytes);
                    while got.len() < sent.len() {
                        got.extend_from_slice(&next_chunk(&mut reader, &mut size).await.unwrap());
                    }
                }
                drop(writer);
                assert!(next_chunk(&mut reader, &mut size).await.unwrap().is_empty());
                (sent, got)
            });
            prop_assert_eq!(sent, got);
        }
    }
}
