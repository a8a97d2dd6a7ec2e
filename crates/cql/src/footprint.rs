//! The partitions that one execution touches: how many, which, and how sure that is.
//!
//! A [`Footprint`] is a small value; the keys behind it go into a [`Keys`] buffer that its owner reuses, so
//! that counting an execution allocates nothing. Nothing here knows CQL: plans fill both.

mod class;
mod keys;

pub use class::{PartitionClass, Reason};
pub use keys::{Key, Keys, Pushed};

/// The partitions that one execution touches. Which ones: see the [`Keys`] that were filled with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Footprint {
    /// How many.
    pub count: Count,
    /// Why `keys` has fewer keys than `count` says, if it has.
    pub keys_missing: Option<Reason>,
}

/// How many distinct partitions an execution touches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Count {
    /// Exactly so many, as Cassandra itself would count them when it plans the statement.
    Exact(u64),
    /// At least so many, and why it is not exact.
    AtLeast(u64, Reason),
    /// A page of a read that names several partitions: some of them. A coordinator reads one after the other
    /// until the page is full, and goes on in the middle of one with the next page.
    Page {
        /// How many the read names: all its pages together touch these, if the client asks for all pages.
        named: u64,
        /// The first page stands for all of them, each later one for the partition in which it goes on.
        first: bool,
    },
    /// The whole ring.
    Scan,
    /// The part of the ring between two tokens; `share` is in 0.0..=1.0.
    TokenRange {
        /// Covered part of the ring.
        share: f64,
    },
    /// An index without a partition key: as many nodes as the ring needs.
    Index,
    /// Not known, and why.
    Unknown(Reason),
}

impl Footprint {
    /// A footprint that is not known.
    pub fn unknown(reason: Reason) -> Self {
        Self {
            count: Count::Unknown(reason),
            keys_missing: Some(reason),
        }
    }

    /// A footprint of exactly `count` partitions, all of them in the key buffer.
    pub fn exact(count: u64) -> Self {
        Self {
            count: Count::Exact(count),
            keys_missing: None,
        }
    }

    /// What one page of a read touches, this being what the read as a whole names. `more`: the server may
    /// have stopped before the last of them, because there is another page after it, or enough was found.
    pub fn of_page(self, first: bool, more: bool) -> Self {
        let named = match self.count {
            Count::Exact(named @ 2..) | Count::AtLeast(named @ 2.., _) if !first || more => named,
            _ => return self,
        };
        Self {
            count: Count::Page { named, first },
            keys_missing: Some(Reason::Page),
        }
    }

    /// The number that sums and distributions take: exact, a bound, or none.
    pub fn number(&self) -> Option<u64> {
        match self.count {
            Count::Exact(count) | Count::AtLeast(count, _) => Some(count),
            Count::Page { named, first } => Some(if first { named } else { 1 }),
            Count::Scan | Count::TokenRange { .. } | Count::Index | Count::Unknown(_) => None,
        }
    }

    /// The class, in one word.
    pub fn class(&self) -> PartitionClass {
        match self.count {
            Count::Exact(0 | 1) | Count::AtLeast(0 | 1, _) => PartitionClass::Single,
            Count::Exact(_) | Count::AtLeast(..) | Count::Page { .. } => PartitionClass::Multi,
            Count::Scan => PartitionClass::Scan,
            Count::TokenRange { .. } => PartitionClass::TokenRange,
            Count::Index => PartitionClass::Index,
            Count::Unknown(_) => PartitionClass::Unknown,
        }
    }

    /// Why the count is not exact or the keys are not complete; `None` if both are.
    pub fn reason(&self) -> Option<Reason> {
        match self.count {
            Count::AtLeast(_, reason) | Count::Unknown(reason) => Some(reason),
            Count::Page { .. } => Some(Reason::Page),
            _ => self.keys_missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_part_of_a_read_of_several_partitions() {
        let read = Footprint::exact(10);
        assert_eq!(read.of_page(true, false), read, "all of it");
        for (first, more, number) in [(true, true, 10), (false, true, 1), (false, false, 1)] {
            let page = read.of_page(first, more);
            assert_eq!(
                (page.number(), page.class()),
                (Some(number), PartitionClass::Multi)
            );
            assert_eq!(page.reason(), Some(Reason::Page));
        }
        let one = Footprint::exact(1);
        assert_eq!(
            one.of_page(false, true),
            one,
            "every page of a partition touches it"
        );
    }

    #[test]
    fn no_partition_is_single_and_two_are_multi() {
        assert_eq!(Footprint::exact(0).class(), PartitionClass::Single);
        assert_eq!(Footprint::exact(2).class(), PartitionClass::Multi);
        assert_eq!(
            Footprint::unknown(Reason::Unbound).reason(),
            Some(Reason::Unbound)
        );
    }
}
