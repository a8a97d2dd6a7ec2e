//! The latest entries by keyed hash, in a table of a fixed size.

/// The latest of 16,384 places; what falls on the place of another one takes it. Two are taken for the same one if 32 bits
/// of their hashes are, and those of the place.
#[derive(Debug)]
pub(super) struct Recent<T> {
    /// Empty until the first one comes.
    places: Vec<Option<(u32, T)>>,
}

/// The logarithm of the number of places.
const BITS: u32 = 14;

impl<T: Clone> Recent<T> {
    /// Nothing yet; the memory is taken with the first one.
    pub(super) fn new() -> Self {
        Self { places: Vec::new() }
    }

    /// What has this hash, unless another one has taken its place.
    #[inline]
    pub(super) fn get(&self, hash: u64) -> Option<&T> {
        let (tag, value) = self.places.get(place(hash))?.as_ref()?;
        (*tag == self::tag(hash)).then_some(value)
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, hash: u64) -> Option<&mut T> {
        let (tag, value) = self.places.get_mut(place(hash))?.as_mut()?;
        (*tag == self::tag(hash)).then_some(value)
    }

    /// Puts in what has this hash.
    pub(super) fn put(&mut self, hash: u64, value: T) {
        if self.places.is_empty() {
            self.places = vec![None; 1 << BITS];
        }
        if let Some(place) = self.places.get_mut(place(hash)) {
            *place = Some((tag(hash), value));
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.places = Vec::new();
    }
}

/// Lossless: what is left has so few bits.
fn place(hash: u64) -> usize {
    usize::try_from(hash >> (u64::BITS - BITS)).unwrap_or(0)
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is the tag")]
const fn tag(hash: u64) -> u32 {
    hash as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_there_until_another_one_takes_its_place() {
        let mut recent = Recent::new();
        let both = |recent: &mut Recent<char>| [5, 9].map(|hash| recent.get_mut(hash).copied());
        assert_eq!(both(&mut recent), [None, None]);
        recent.put(5, 'a');
        assert_eq!(both(&mut recent), [Some('a'), None]);
        recent.put(9, 'b');
        assert_eq!(both(&mut recent), [None, Some('b')]);
        recent.clear();
        assert_eq!(both(&mut recent), [None, None]);
    }
}
