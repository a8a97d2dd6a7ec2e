//! How an exchange ended, and what that says of the partitions that its request names.

use cqlens_cql::footprint::Reason;
use cqlens_cql::footprint::{Count, Footprint};

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Without rows.
    Done,
    /// With rows.
    Rows {
        /// How many.
        count: u64,
        /// Whether another page follows.
        more: bool,
    },
    /// With an error.
    Error {
        /// The protocol's code.
        code: u32,
        /// Whether a replica gave up because of tombstones.
        too_many_tombstones: bool,
    },
    /// With an error of which nothing is known but that it was one.
    Failed,
    /// With a result that is too long to be kept, and whose head does not tell its rows.
    Unread,
    /// The connection ended first, or the response was lost to the audit.
    Unanswered,
}

impl Outcome {
    /// Whether the server has done what the client asked for.
    #[inline]
    pub(crate) fn is_answer(self) -> bool {
        matches!(self, Self::Done | Self::Rows { .. } | Self::Unread)
    }

    /// Whether the server refused the statement before it touched any partition: codes 0x2000 and above
    /// (syntax, unauthorized, invalid, unprepared, …), and those below 0x1000 (protocol error, bad
    /// credentials) but 0: see [`Self::is_server_error`].
    pub(crate) fn is_refused(self) -> bool {
        matches!(self, Self::Error { code: 1.., .. }) && !self.is_while_running()
    }

    /// What goes wrong where replicas are asked: unavailable, timeouts, failures, ….
    fn is_while_running(self) -> bool {
        matches!(
            self,
            Self::Error {
                code: 0x1000..0x2000,
                ..
            }
        )
    }

    /// The coordinator has not asked the replicas of a partition: unavailable, overloaded, bootstrapping.
    /// Where a request names several, it may have asked those of others before.
    pub(crate) fn is_turned_away(self) -> bool {
        matches!(
            self,
            Self::Error {
                code: 0x1000..=0x1002,
                ..
            }
        )
    }

    /// The server has failed, and only its log says how far it had come.
    pub(crate) fn is_server_error(self) -> bool {
        matches!(self, Self::Error { code: 0, .. })
    }
}

/// Why the partitions that a request names are not those that it touches: it has failed somewhere among them.
pub(crate) fn says_not_how_far(outcome: Outcome, footprint: &Footprint) -> Option<Reason> {
    if outcome.is_server_error() {
        return Some(Reason::ServerError);
    }
    if outcome == Outcome::Failed {
        return Some(Reason::ErrorUnseen);
    }
    (outcome.is_turned_away() && footprint.number().is_some()).then_some(Reason::TurnedAway)
}

/// Whether a coordinator that cannot ask the replicas of one partition has asked none at all. A condition may
/// have been read, and proposed, with another consistency level than the one that fails.
pub(crate) fn is_all_or_nothing(footprint: &Footprint, conditional: bool) -> bool {
    matches!(footprint.count, Count::Exact(0 | 1)) && !conditional
}

/// Whether nothing can be executed with what is bound: of values of wrong lengths Cassandra says so by a
/// server error.
pub(crate) fn could_not_run(footprint: &Footprint) -> bool {
    matches!(
        footprint.count,
        Count::Unknown(
            Reason::InvalidKey | Reason::ValueUndecodable | Reason::InvalidStatement | Reason::Unbound
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u32) -> Outcome {
        Outcome::Error {
            code,
            too_many_tombstones: false,
        }
    }

    #[test]
    fn what_is_refused_touches_nothing_and_a_server_error_may_have() {
        // Syntax error, invalid, unprepared, protocol error.
        for code in [0x2000, 0x2200, 0x2500, 0x000a] {
            assert!(error(code).is_refused(), "{code:#x}");
        }
        // Server error, unavailable, read timeout, function failure.
        for code in [0, 0x1000, 0x1200, 0x1400] {
            assert!(!error(code).is_refused(), "{code:#x}");
        }
        assert!(error(0).is_server_error() && !error(0x1200).is_server_error());
    }

    #[test]
    fn what_is_turned_away_has_not_touched_its_only_partition_and_of_several_it_is_not_known() {
        // Unavailable, overloaded, bootstrapping.
        for outcome in [0x1000, 0x1001, 0x1002].map(error) {
            assert!(outcome.is_turned_away(), "{outcome:?}");
            let several = says_not_how_far(outcome, &Footprint::exact(2));
            assert_eq!(several, Some(Reason::TurnedAway));
            let index = Footprint {
                count: Count::Index,
                keys_missing: None,
            };
            assert_eq!(says_not_how_far(outcome, &index), None);
        }
        assert!(is_all_or_nothing(&Footprint::exact(1), false));
        assert!(!is_all_or_nothing(&Footprint::exact(1), true), "a condition");
        assert!(!is_all_or_nothing(&Footprint::exact(2), false));
        // Replicas that fail or are late have been asked.
        for outcome in [0x1100, 0x1200, 0x1500].map(error) {
            assert!(!outcome.is_turned_away(), "{outcome:?}");
            assert_eq!(says_not_how_far(outcome, &Footprint::exact(2)), None);
        }
    }
}
