//! How the reads of a statement by one actor come: their numbers, and a clock that runs while they come.

use super::{SOON, recent::Recent};

/// By actor and statement.
#[derive(Debug)]
pub(super) struct Flows(Recent<Flow>);

/// Of one actor and statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    /// Of the last read, its first page, among all of them.
    pub(super) number: u64,
    /// When that came, or the latest page.
    pub(super) last_at: i64,
    /// The time in which they came, in nanoseconds since the first one: pauses beyond [`PAUSE`] are left out.
    pub(super) time: i64,
}

/// A client that sends nothing for longer is held up, or has nothing to read, in nanoseconds. Of reads that come no more often
/// there are not enough in a moment for a burst.
const PAUSE: i64 = SOON / 5;

impl Flows {
    pub(super) fn new() -> Self {
        Self(Recent::new())
    }

    /// A read comes; `pattern` stands for actor and statement.
    pub(super) fn read(&mut self, pattern: u64, at: i64, is_first_page: bool) -> Flow {
        if let Some(flow) = self.0.get_mut(pattern) {
            flow.number += u64::from(is_first_page);
            flow.time += at.saturating_sub(flow.last_at).clamp(0, PAUSE);
            flow.last_at = flow.last_at.max(at);
            return *flow;
        }
        let flow = Flow {
            number: 0,
            last_at: at,
            time: 0,
        };
        self.0.put(pattern, flow);
        flow
    }

    /// As of its last read; none once another one has taken its place.
    pub(super) fn get(&self, pattern: u64) -> Option<&Flow> {
        self.0.get(pattern)
    }
}
