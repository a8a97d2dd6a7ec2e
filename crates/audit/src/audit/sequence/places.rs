//! Where a value was seen recent: in the rows of which read.

/// The values of the reads that are followed: at most eight for each bucket, of 12 bytes each.
///
/// Eight share a bucket, from which those of reads that are over go first, then those of the oldest read. Two
/// values are taken for the same one if 32 bits of their hashes are, and those of the bucket.
#[derive(Debug)]
pub(super) struct Places {
    /// Empty until the first value comes.
    buckets: Vec<[Place; EACH]>,
    /// The logarithm of their number.
    bits: u32,
    /// Places that a value was compared with so far.
    #[cfg(test)]
    pub(super) compared: usize,
}

/// What became of a value that was put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It was there already.
    Known,
    /// It is there now.
    New,
    /// It is there now, and the value of a read that is not over is not any more.
    InsteadOfAnother,
}

/// A value in the rows of a read, in 12 bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    tag: u32,
    /// The number of the read; 0 for an empty place.
    pub(super) read: u32,
    /// The row, or the last one that is told from others.
    pub(super) row: u16,
    /// The column of its rows.
    pub(super) column: u8,
    /// Where the value has come back: a bit for each of what follows the read, the last one for all others.
    pub(super) followed: u8,
}

impl Place {
    /// The row and column of a value that is not the source's own, but one to compare with.
    pub(super) const CONTROL: (u16, u8) = (0, u8::MAX);

    /// Whether the value is one to compare with.
    pub(super) fn is_control(&self) -> bool {
        self.column == Self::CONTROL.1
    }
}

/// Places in a bucket.
const EACH: usize = 8;

impl Places {
    /// Nothing yet; the memory of 2 to the power of `bits` buckets is taken with the first value.
    pub(super) fn new(bits: u32) -> Self {
        Self {
            buckets: Vec::new(),
            bits,
            #[cfg(test)]
            compared: 0,
        }
    }

    fn bucket(&mut self, hash: u64) -> Option<&mut [Place; EACH]> {
        // Lossless: what is left has so few bits.
        let at = usize::try_from(hash >> (u64::BITS - self.bits)).ok()?;
        #[cfg(test)]
        (self.compared += EACH);
        self.buckets.get_mut(at)
    }

    /// All places of the value with this hash, those of reads that are over among them.
    #[inline]
    pub(super) fn of(&mut self, hash: u64) -> impl Iterator<Item = &mut Place> {
        let tag = tag(hash);
        let bucket = self.bucket(hash);
        bucket
            .into_iter()
            .flatten()
            .filter(move |place| place.tag == tag && place.read != 0)
    }

    /// Puts a value of the read `read` in, unless it is there; `oldest` is the number of the oldest read that is
    /// not over.
    pub(super) fn put(&mut self, hash: u64, read: u32, (row, column): (u16, u8), oldest: u32) -> Put {
        if self.buckets.is_empty() {
            self.buckets = vec![<[Place; EACH]>::default(); 1 << self.bits];
        }
        let tag = tag(hash);
        let Some(bucket) = self.bucket(hash) else {
            return Put::Known;
        };
        let (mut goes_first, mut least) = (0, u32::MAX);
        for (at, place) in bucket.iter().enumerate() {
            if place.tag == tag && place.read == read {
                return Put::Known;
            }
            if place.read < least {
                (goes_first, least) = (at, place.read);
            }
        }
        let place = &mut bucket[goes_first];
        let goes = place.read >= oldest;
        *place = Place {
            tag,
            read,
            row,
            column,
            followed: 0,
        };
        match goes {
            true => Put::InsteadOfAnother,
            false => Put::New,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "half of it is asked for")]
const fn tag(hash: u64) -> u32 {
    hash as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(places: &mut Places, hash: u64) -> Vec<u32> {
        places.of(hash).map(|place| place.read).collect()
    }

    #[test]
    fn a_value_is_found_in_every_read_that_has_it() {
        let mut places = Places::new(4);
        assert_eq!(reads(&mut places, 7), Vec::<u32>::new());
        let put: Vec<_> = [1, 1, 2].map(|read| places.put(7, read, (0, 0), 1)).into();
        assert_eq!(put, [Put::New, Put::Known, Put::New]);
        assert_eq!(reads(&mut places, 7), [1, 2]);
        assert_eq!(reads(&mut places, 8), Vec::<u32>::new());
    }

    #[test]
    fn reads_that_are_over_make_room_and_others_are_missed() {
        let mut places = Places::new(4);
        for read in 1..=8 {
            places.put(7, read, (0, 0), 1);
        }
        assert_eq!(places.put(7, 9, (0, 0), 2), Put::New, "the first one is over");
        assert_eq!(places.put(7, 10, (0, 0), 2), Put::InsteadOfAnother);
        let mut left = reads(&mut places, 7);
        left.sort_unstable();
        assert_eq!(left, [3, 4, 5, 6, 7, 8, 9, 10]);
    }
}
