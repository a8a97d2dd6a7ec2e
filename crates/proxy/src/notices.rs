//! What the log says of failures that clients and nodes can cause as often as they like: the first few of
//! each kind at once, then how many more there were.

use crate::throttle::{INTERVAL, Throttle};

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// TLS with a client.
    ClientTls,
    /// TLS with a node.
    UpstreamTls,
    /// A node that accepts no connection.
    NoUpstream,
    /// An answer whose addresses cannot be replaced.
    Unreadable,
    /// A client's socket that could not be used.
    Unserved,
    /// Clients that wait because of the rate of connections.
    Paced,
}

impl Notice {
    const NUMBER: usize = 6;

    /// The plural, for those that were only counted.
    fn name(self) -> &'static str {
        match self {
            Self::ClientTls => "tls failures with clients",
            Self::UpstreamTls => "tls failures with upstreams",
            Self::NoUpstream => "failed connections to upstreams",
            Self::Unreadable => "unreadable responses about nodes",
            Self::Unserved => "clients that could not be served",
            Self::Paced => "pauses because of max-connection-rate",
        }
    }
}

/// The throttles of all kinds.
#[derive(Debug)]
pub(super) struct Notices([Throttle; Notice::NUMBER]);

impl Default for Notices {
    fn default() -> Self {
        Self([(); Notice::NUMBER].map(|()| Throttle::with_first(FIRST)))
    }
}

impl Notices {
    /// Lets `line` log a failure, unless enough of its kind were logged a moment ago.
    pub(super) fn say(&self, notice: Notice, line: impl FnOnce()) {
        let later = move |suppressed| {
            tracing::warn!(suppressed, "more {} within {INTERVAL:?}", notice.name());
        };
        let throttle = self.0.get(notice as usize);
        if throttle.is_none_or(|throttle| throttle.is_new(later)) {
            line();
        }
    }
}

/// Failures of one kind may have different causes.
const FIRST: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_of_one_kind_is_a_few_lines_and_leaves_room_for_others() {
        let notices = Notices::default();
        let mut lines = [0, 0];
        for _ in 0..10_000 {
            notices.say(Notice::ClientTls, || lines[0] += 1);
        }
        notices.say(Notice::Paced, || lines[1] += 1);
        assert_eq!(lines, [FIRST, 1]);
    }

    #[test]
    fn the_last_kind_has_a_throttle() {
        assert_eq!(Notice::Paced as usize + 1, Notice::NUMBER);
    }
}
