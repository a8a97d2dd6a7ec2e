//! A short header that arrives in parts.

/// The part of a header of at most `N` bytes that has passed.
#[derive(Debug)]
pub(super) struct Partial<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Default for Partial<N> {
    fn default() -> Self {
        Partial {
            bytes: [0; N],
            length: 0,
        }
    }
}

impl<const N: usize> Partial<N> {
    /// True if no part of the next header has passed.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Takes from `rest` what is missing to `wanted` bytes: how many those were, and the header if it is
    /// whole now. `wanted` is at most `N` and the same until a header is whole; what follows it in the array
    /// means nothing.
    #[inline]
    pub(super) fn fill(&mut self, wanted: usize, rest: &[u8]) -> (usize, Option<[u8; N]>) {
        if let (0, Some(whole)) = (self.length, rest.first_chunk()) {
            return (wanted, Some(*whole));
        }
        let taken = (wanted - self.length).min(rest.len());
        self.bytes[self.length..self.length + taken].copy_from_slice(&rest[..taken]);
        self.length += taken;
        if self.length < wanted {
            return (taken, None);
        }
        self.length = 0;
        (taken, Some(self.bytes))
    }
}
