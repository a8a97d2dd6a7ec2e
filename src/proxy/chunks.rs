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

/// The longest chunk: what a socket holds is written on before more is read.
const CHUNK: usize = 64 << 10;
/// What the next read of a direction is expected to bring, by what the last one did.
///
/// Requests and rows that are short go round in little memory, which stays in the processor's cache until the audit has looked at
/// it; what is long is read with fewer calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Expected {
    #[default]
    Little,
    Much,
}

impl Expected {
    /// What is allocated at a time.
    const fn slab(self) -> usize {
        match self {
            Self::Little => 32 << 10,
            Self::Much => 128 << 10,
        }
    }

    /// What a slab must have room for to be read into.
    const fn room(self) -> usize {
        self.slab() / 4
    }

    /// How many slabs a thread keeps for reading into them again, once the audit is done with what they hold: 2 MiB of both.
    const fn kept(self) -> usize {
        match self {
            Self::Little => 16,
            Self::Much => 12,
        }
    }

    /// After a read of `length` bytes where there was room for `room`.
    fn after(self, length: usize, room: usize) -> Self {
        if length == room {
            Self::Much
        } else if length < Self::Little.room() {
            Self::Little
        } else {
            self
        }
    }
}

thread_local! {
    static LITTLE: RefCell<Slabs> = RefCell::new(Slabs::of(Expected::Little));
    static MUCH: RefCell<Slabs> = RefCell::new(Slabs::of(Expected::Much));
}

/// Reads the next chunk, empty where nothing more comes.
///
/// All connections of a thread read into the same slabs, one behind the other, and a chunk is a part of one: nothing is copied, and
/// an idle connection has no buffer.
pub(super) async fn next_chunk(
    from: &mut (impl AsyncRead + Unpin),
    expected: &mut Expected,
) -> io::Result<Bytes> {
    poll_fn(|context| {
        let slabs = match expected {
            Expected::Little => &LITTLE,
            Expected::Much => &MUCH,
        };
        slabs.with_borrow_mut(|slabs| {
            let room = slabs.make_room();
            let chunk = ready!(slabs.poll_read(from, room, context))?;
            *expected = expected.after(chunk.len(), room);
            Poll::Ready(Ok(chunk))
        })
    })
    .await
}

/// The slab that is read into, and full ones whose chunks are still in use; all of one size.
struct Slabs {
    /// What they are for.
    kind: Expected,
    current: BytesMut,
    has_begun: bool,
    full: VecDeque<BytesMut>,
}

impl Slabs {
    fn of(kind: Expected) -> Self {
        Self {
            kind,
            current: BytesMut::new(),
            has_begun: false,
            full: VecDeque::new(),
        }
    }

    /// How much the next read may bring.
    fn make_room(&mut self) -> usize {
        if self.current.capacity() < self.kind.room() {
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
        // Nothing is kept in this future: it can be made anew for each poll.
        let mut room = (&mut self.current).limit(room);
        ready!(pin!(from.read_buf(&mut room)).poll(context))?;
        Poll::Ready(Ok(self.current.split().freeze()))
    }

    /// Begins a slab of whose parts nobody holds one any more, or a new one; gives one back that is more than were needed.
    fn next_slab(&mut self) {
        let full = std::mem::take(&mut self.current);
        // The first of all had no room for anything.
        if self.has_begun && self.full.len() < self.kind.kept() {
            self.full.push_back(full);
        }
        self.has_begun = true;
        let free = self.reclaim();
        self.current = free.unwrap_or_else(|| BytesMut::with_capacity(self.kind.slab()));
        drop(self.reclaim());
    }

    /// A slab that can be read into again. Looks at a few, the oldest first: a part may be held for long.
    fn reclaim(&mut self) -> Option<BytesMut> {
        for _ in 0..self.full.len().min(4) {
            let mut oldest = self.full.pop_front()?;
            if oldest.try_reclaim(self.kind.slab()) {
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

    /// How many slabs of this kind the thread has, whether in use or not.
    fn slabs(kind: Expected) -> usize {
        let slabs = match kind {
            Expected::Little => &LITTLE,
            Expected::Much => &MUCH,
        };
        slabs.with_borrow(|slabs| usize::from(slabs.has_begun) + slabs.full.len())
    }

    async fn read(reader: &mut (impl AsyncRead + Unpin), length: usize) -> Vec<Bytes> {
        let (mut expected, mut chunks, mut read) = (Expected::default(), Vec::new(), 0);
        while read < length {
            let chunk = next_chunk(reader, &mut expected).await.unwrap();
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
        assert!(slabs(Expected::Little) <= 2, "{}", slabs(Expected::Little));
        assert!(slabs(Expected::Much) <= 2, "{}", slabs(Expected::Much));
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
        assert_eq!(slabs(Expected::Much), 0);
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
            for kind in [Expected::Little, Expected::Much] {
                assert!(slabs(kind) <= kind.kept() + 1);
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
                let (mut sent, mut got, mut expected) = (Vec::new(), Vec::new(), Expected::default());
                for (number, &length) in (0_u8..).zip(&writes) {
                    let bytes = vec![number; length];
                    writer.write_all(&bytes).await.unwrap();
                    sent.extend(bytes);
                    while got.len() < sent.len() {
                        got.extend_from_slice(&next_chunk(&mut reader, &mut expected).await.unwrap());
                    }
                }
                drop(writer);
                assert!(next_chunk(&mut reader, &mut expected).await.unwrap().is_empty());
                (sent, got)
            });
            prop_assert_eq!(sent, got);
        }
    }
}
