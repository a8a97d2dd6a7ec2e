//! Stretches of a partition: ranges over the order-preserving form of clustering columns ([`super::order`]).
//!
//! Since that form is prefix-free, all rows that share their first clustering columns lie in one stretch, and
//! every slice, with or without equality before it, is one too.

/// From `from` on, up to but without `to`; `None` is the partition's end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stretch {
    /// The first position that is inside.
    pub(crate) from: Vec<u8>,
    /// The first position that is outside.
    pub(crate) to: Option<Vec<u8>>,
}

impl Stretch {
    /// The whole partition.
    pub(crate) const ALL: Stretch = Stretch {
        from: Vec::new(),
        to: None,
    };

    /// All rows whose position starts with `prefix`; with a full position, the one row there.
    pub(crate) fn of_prefix(prefix: Vec<u8>) -> Stretch {
        Stretch {
            to: after_prefix(&prefix),
            from: prefix,
        }
    }

    /// Whether a position is inside.
    pub(crate) fn contains(&self, position: &[u8]) -> bool {
        self.from.as_slice() <= position && self.to.as_deref().is_none_or(|to| position < to)
    }

    /// Whether nothing can be inside.
    pub(crate) fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    /// What is in both.
    pub(crate) fn intersection(&self, other: &Stretch) -> Stretch {
        let to = match (&self.to, &other.to) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (one, None) | (None, one) => one.as_ref(),
        };
        Stretch {
            from: self.from.clone().max(other.from.clone()),
            to: to.cloned(),
        }
    }
}

/// The first position behind all that start with `prefix`; `None` if there is none.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

/// The first position behind a row's full position.
pub(crate) fn after_row(position: &[u8]) -> Vec<u8> {
    let mut after = position.to_vec();
    after.push(0);
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_behind_a_prefix_carries_over() {
        assert_eq!(after_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(after_prefix(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(after_prefix(&[0xff]), None);
        assert_eq!(after_prefix(&[]), None);
    }

    #[test]
    fn a_prefix_stretch_holds_what_starts_with_it_and_nothing_else() {
        let stretch = Stretch::of_prefix(vec![5]);
        assert!(stretch.contains(&[5]) && stretch.contains(&[5, 0xff, 0xff]));
        assert!(!stretch.contains(&[4, 0xff]) && !stretch.contains(&[6]));
    }

    #[test]
    fn stretches_that_do_not_meet_have_an_empty_intersection() {
        let low = Stretch::of_prefix(vec![1]);
        let high = Stretch::of_prefix(vec![2]);
        assert!(low.intersection(&high).is_empty());
        assert_eq!(low.intersection(&Stretch::ALL), low);
    }
}
