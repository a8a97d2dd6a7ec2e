//! Whether a read is sure to meet a write: how many replicas two consistency levels wait for, in the worst case.
//!
//! Which replicas answer is not known, only how many and of which datacenters. Levels that are local to a
//! datacenter are compared within one: that a row is read where it is written is assumed here, and said by the rule.

/// A read and a write that need not have a replica in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap<'a> {
    /// Replicas that the read waits for.
    pub(super) read: u64,
    /// Replicas that the write waits for.
    pub(super) written: u64,
    /// Replicas that there are: of one datacenter where both levels wait for replicas of each or of the local one,
    /// else of all.
    pub(super) replicas: u64,
    /// That datacenter, where there are several.
    pub(super) data_center: Option<&'a str>,
}

/// The gap between a read and a write at these levels (R + W ≤ N), if there is one; `replicas` are those of each
/// datacenter. Nothing where there is one replica, or a level that is not known.
pub(super) fn gap<'a>(read: &str, written: &str, replicas: &[(&'a str, u64)]) -> Option<Gap<'a>> {
    let is_several = replicas.len() > 1;
    let of = |read: Option<u64>, written: Option<u64>, replicas: u64, data_center: Option<&'a str>| {
        let (read, written) = (read?, written?);
        let gap = Gap {
            read,
            written,
            replicas,
            data_center,
        };
        (replicas > 1 && read + written <= replicas).then_some(gap)
    };
    let is_within = [read, written].iter().all(|level| within(level, 1).is_some());
    if is_within {
        return replicas.iter().find_map(|&(name, count)| {
            let data_center = is_several.then_some(name);
            of(within(read, count), within(written, count), count, data_center)
        });
    }
    let total = replicas.iter().map(|(_, count)| count).sum();
    of(least(read, replicas), least(written, replicas), total, None)
}

/// Whether the level waits for replicas of the coordinator's datacenter alone.
pub(super) fn is_local(level: &str) -> bool {
    ["LOCAL_ONE", "LOCAL_QUORUM", "LOCAL_SERIAL"].contains(&level)
}

/// Replicas of one datacenter with so many that a level is sure to have waited for; none of levels that take
/// them from anywhere.
fn within(level: &str, count: u64) -> Option<u64> {
    match level {
        "LOCAL_ONE" => Some(1),
        "LOCAL_QUORUM" | "LOCAL_SERIAL" | "EACH_QUORUM" => Some(majority(count)),
        "ALL" => Some(count),
        _ => None,
    }
}

/// Replicas that a level waits for at least, wherever they are.
fn least(level: &str, replicas: &[(&str, u64)]) -> Option<u64> {
    let counts = replicas.iter().map(|(_, count)| *count);
    let total: u64 = counts.clone().sum();
    match level {
        "ANY" => Some(0),
        "ONE" => Some(1),
        "TWO" => Some(2),
        "THREE" => Some(3),
        "QUORUM" | "SERIAL" => Some(majority(total)),
        "EACH_QUORUM" => Some(counts.map(majority).sum()),
        "ALL" => Some(total),
        _ => counts.filter_map(|count| within(level, count)).min(),
    }
}

fn majority(count: u64) -> u64 {
    count / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &[(&str, u64)] = &[("dc1", 3)];
    const TWO: &[(&str, u64)] = &[("dc1", 3), ("dc2", 3)];

    fn figures(read: &str, written: &str, replicas: &[(&str, u64)]) -> Option<(u64, u64, u64)> {
        gap(read, written, replicas).map(|gap| (gap.read, gap.written, gap.replicas))
    }

    #[test]
    fn in_one_datacenter_local_levels_are_the_others() {
        for (one, quorum) in [
            ("ONE", "QUORUM"),
            ("LOCAL_ONE", "LOCAL_QUORUM"),
            ("ONE", "LOCAL_QUORUM"),
        ] {
            assert_eq!(figures(one, quorum, ONE), Some((1, 2, 3)), "{one} {quorum}");
            assert_eq!(figures(quorum, quorum, ONE), None);
            assert_eq!(figures(one, "ALL", ONE), None);
            assert_eq!(figures(one, one, ONE), Some((1, 1, 3)));
        }
        assert_eq!(figures("ONE", "ANY", ONE), Some((1, 0, 3)));
        assert_eq!(figures("SERIAL", "QUORUM", ONE), None);
        assert_eq!(figures("ONE", "QUORUM", &[("dc1", 2)]), None);
        assert_eq!(figures("ONE", "ANY", &[("dc1", 1)]), None, "one replica");
    }

    #[test]
    fn quorums_of_all_datacenters_overlap_with_each_other_and_not_with_local_ones() {
        assert_eq!(figures("QUORUM", "QUORUM", TWO), None);
        assert_eq!(figures("QUORUM", "EACH_QUORUM", TWO), None);
        // Three replicas of the other datacenter and one of this one.
        assert_eq!(figures("LOCAL_QUORUM", "QUORUM", TWO), Some((2, 4, 6)));
        assert_eq!(figures("ONE", "QUORUM", TWO), Some((1, 4, 6)));
        assert_eq!(figures("ONE", "EACH_QUORUM", TWO), Some((1, 4, 6)));
        assert_eq!(figures("ONE", "ALL", TWO), None);
    }

    #[test]
    fn what_is_local_is_compared_within_a_datacenter() {
        assert_eq!(figures("LOCAL_QUORUM", "LOCAL_QUORUM", TWO), None);
        assert_eq!(figures("LOCAL_QUORUM", "EACH_QUORUM", TWO), None);
        let gap = gap("LOCAL_ONE", "EACH_QUORUM", &[("dc1", 1), ("dc2", 3)]);
        assert_eq!(
            gap.map(|gap| (gap.data_center, gap.replicas)),
            Some((Some("dc2"), 3))
        );
        assert_eq!(figures("LOCAL_ONE", "ALL", TWO), None);
        assert_eq!(figures("LOCAL_ONE", "NO_LEVEL", TWO), None);
    }
}
