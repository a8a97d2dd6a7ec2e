//! Recognises requests that come again: speculative executions, retries, and applications that send the same
//! thing twice.
//!
//! What is compared are keyed hashes of what was asked and of the host that asked it ([`RequestKey`]).
//! Nothing on the wire says that a request is a repetition, so this names what it sees: the same request
//! again while the first was in flight, or after a failure. Connections do not matter; a driver tries again
//! on another one.

use std::hint::black_box;

use crate::audit::RequestKey;
use cqlens_capture::Moment;
use cqlens_window::RetryCause;

/// The latest 65,536 requests, in 1 MiB.
///
/// Four share a bucket, from which successes go before failures and older ones before younger ones. A request
/// is compared with the latest of its like only. Different requests are taken for the same one in 1 of 4
/// million cases, and then count only if they overlap or one of them failed.
#[derive(Debug)]
pub struct RetryDetector {
    buckets: Box<[RetryBucket]>,
    forgotten: u64,
}

/// How a request ended, as far as repetitions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With an answer after which drivers do not try again, at this time.
    Answered(Moment),
    /// With an answer after which drivers do, at this time.
    Failed(Moment, RetryCause),
    /// The connection ended first.
    CutOff,
    /// The audit has lost the answer.
    Unknown,
}

/// What a request is to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// The same request was in flight at the same time.
    InFlight,
    /// One of the two came after the other had failed.
    Retry(RetryCause),
}

/// A cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct RetryBucket([RetryEntry; 4]);

/// A request that is about to be compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    bucket: usize,
    seen: RetryEntry,
}

impl Request {
    /// A request of `host`; none where nothing is known of how it ended.
    pub(crate) fn new(
        request_key: RequestKey,
        host: u64,
        requested_at: Moment,
        ending: Ending,
    ) -> Option<Self> {
        let hash = request_key.of_host(host);
        (ending != Ending::Unknown).then(|| Self {
            // Lossless: what is left has 14 bits.
            bucket: usize::try_from(hash >> 50).unwrap_or(0),
            seen: RetryEntry::new(hash, requested_at, ending),
        })
    }
}

/// A request that was seen, in 16 bytes.
#[derive(Debug, Clone, Copy, Default)]
struct RetryEntry {
    /// 24 bits of the hash; below them the code of its ending, which is not 0: 0 stands for an empty place.
    tag_and_ending: u32,
    /// Microseconds from the request to the answer.
    duration: u32,
    /// Nanoseconds since 1970.
    requested_at: i64,
}

/// Buckets: a power of two.
const BUCKETS: usize = 1 << 14;

/// Drivers try again at once, or after preparing the statement. What comes later is the application's own
/// doing.
const RETRY_WITHIN: i64 = 1_000_000 * MICROSECOND;

/// A lost connection may be noticed by a request timeout: 10 s in the Python driver, 12 s in the Node.js
/// driver, 2 s in the Java driver.
const RETRY_OF_LOST_WITHIN: i64 = 15_000_000 * MICROSECOND;

/// In nanoseconds.
const MICROSECOND: i64 = 1_000;

impl Default for RetryDetector {
    fn default() -> Self {
        Self {
            buckets: vec![RetryBucket::default(); BUCKETS].into(),
            forgotten: 0,
        }
    }
}

impl RetryDetector {
    /// Notes a request of `host` and says what it is to the latest of its like.
    pub fn note(
        &mut self,
        request_key: RequestKey,
        host: u64,
        requested_at: Moment,
        ending: Ending,
    ) -> Option<Repeat> {
        let request = Request::new(request_key, host, requested_at, ending)?;
        self.compare(&request)
    }

    /// Brings the buckets of all `requests` to the processor at the same time: one after the other, each
    /// would be waited for.
    pub(crate) fn fetch<'r>(&self, requests: impl Iterator<Item = &'r Request>) {
        let word = |request: &Request| {
            let bucket = self.buckets.get(request.bucket);
            bucket.map_or(0, |RetryBucket([first, ..])| first.tag_and_ending)
        };
        black_box(requests.map(word).fold(0, |all, word| all ^ word));
    }

    /// Notes a request and says what it is to the latest of its like.
    #[inline(always)]
    pub(crate) fn compare(&mut self, request: &Request) -> Option<Repeat> {
        let new = request.seen;
        let bucket = &mut self.buckets.get_mut(request.bucket)?.0;
        if let Some(known) = bucket.iter_mut().find(|seen| seen.tag() == new.tag()) {
            let repeat = known.compare(&new);
            // What was cut off is counted late.
            if new.requested_at >= known.requested_at {
                *known = new;
            }
            return repeat;
        }
        let now = new.requested_at;
        let [a, b, c, d] = bucket;
        let place = first_to_go(first_to_go(a, b, now), first_to_go(c, d, now), now);
        self.forgotten += u64::from(place.awaits_retry(now));
        *place = new;
        None
    }

    /// Failures that were forgotten within the time in which a retry would have been recognised, since the
    /// last call.
    pub(crate) fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }
}

impl RetryEntry {
    fn new(hash: u64, requested_at: Moment, ending: Ending) -> Self {
        let (ended_at, code) = match ending {
            Ending::Answered(at) => (at, ANSWERED),
            Ending::Failed(at, cause) => (at, code(cause)),
            Ending::CutOff | Ending::Unknown => (requested_at, code(RetryCause::ConnectionLost)),
        };
        let requested_at = requested_at.unix_nanoseconds();
        let duration = ended_at.unix_nanoseconds().saturating_sub(requested_at) / MICROSECOND;
        // Lossless: the shift leaves 24 bits, which are not those of the bucket.
        let tag = u32::try_from((hash >> 24) & 0xff_ffff).unwrap_or(0);
        Self {
            tag_and_ending: (tag << 8) | u32::from(code),
            duration: u32::try_from(duration.max(0)).unwrap_or(u32::MAX),
            requested_at,
        }
    }

    /// Never that of an empty place, unless for one tag of 16 million that is then not recognised.
    fn tag(&self) -> u32 {
        self.tag_and_ending >> 8
    }

    fn failure(&self) -> Option<RetryCause> {
        let place = (self.tag_and_ending & 0xff).checked_sub(u32::from(FIRST_CAUSE))?;
        CAUSES.get(usize::try_from(place).ok()?).copied()
    }

    /// Nanoseconds from the request to the answer, to the microsecond.
    fn duration(&self) -> i64 {
        i64::from(self.duration) * MICROSECOND
    }

    /// What two requests for the same thing are to each other.
    fn compare(&self, other: &Self) -> Option<Repeat> {
        let (first, second) = if self.requested_at <= other.requested_at {
            (self, other)
        } else {
            (other, self)
        };
        let after = second.requested_at.saturating_sub(first.requested_at);
        match first.failure() {
            Some(cause @ RetryCause::ConnectionLost) => {
                (after <= RETRY_OF_LOST_WITHIN).then_some(Repeat::Retry(cause))
            }
            _ if after < first.duration() => Some(Repeat::InFlight),
            Some(cause) => (after <= first.duration() + RETRY_WITHIN).then_some(Repeat::Retry(cause)),
            None => None,
        }
    }

    /// Whether this is a failure whose retry could still come at `now`, in nanoseconds since 1970.
    #[inline]
    fn awaits_retry(&self, now: i64) -> bool {
        self.has_failed() && self.may_come_again(now)
    }

    #[inline]
    fn has_failed(&self) -> bool {
        self.tag_and_ending & 0xff >= u32::from(FIRST_CAUSE)
    }

    /// Apart, since few fail.
    #[cold]
    fn may_come_again(&self, now: i64) -> bool {
        let patience = match self.failure() {
            None => return false,
            Some(RetryCause::ConnectionLost) => RETRY_OF_LOST_WITHIN,
            Some(_) => self.duration() + RETRY_WITHIN,
        };
        now.saturating_sub(self.requested_at) <= patience
    }
}

/// Which of two makes room: successes go before failures, older ones before younger ones.
#[inline]
fn first_to_go<'s>(one: &'s mut RetryEntry, other: &'s mut RetryEntry, now: i64) -> &'s mut RetryEntry {
    let order = |seen: &RetryEntry| (seen.awaits_retry(now), seen.requested_at);
    if order(other) < order(one) { other } else { one }
}

/// All causes; the place of one gives its code.
const CAUSES: [RetryCause; 9] = [
    RetryCause::ReadTimeout,
    RetryCause::WriteTimeout,
    RetryCause::Unavailable,
    RetryCause::Overloaded,
    RetryCause::Bootstrapping,
    RetryCause::TruncateError,
    RetryCause::ServerError,
    RetryCause::Unprepared,
    RetryCause::ConnectionLost,
];

const ANSWERED: u8 = 1;

const FIRST_CAUSE: u8 = ANSWERED + 1;

fn code(cause: RetryCause) -> u8 {
    // The order of the enum is that of the list.
    FIRST_CAUSE + cause as u8
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::audit::HashKey;
    use cqlens_proto::message::{Consistency, Query, QueryParameters, Request};
    use cqlens_window::PatternId;

    const HOST: u64 = 7;

    fn ask(cql: &str) -> RequestKey {
        let query = Query {
            query: cql,
            parameters: QueryParameters::new(Consistency::One),
        };
        let key = "000102030405060708090a0b0c0d0e0f".parse::<HashKey>().unwrap();
        RequestKey::of(key, PatternId(1), &Request::Query(query)).unwrap()
    }

    fn at(milliseconds: i64) -> Moment {
        Moment::from_unix_nanoseconds(1_700_000_000_000_000_000 + milliseconds * 1_000_000)
    }

    fn answered(milliseconds: i64) -> Ending {
        Ending::Answered(at(milliseconds))
    }

    #[test]
    fn every_cause_keeps_its_code() {
        for cause in CAUSES {
            let seen = RetryEntry::new(9, at(0), Ending::Failed(at(1), cause));
            assert_eq!(seen.failure(), Some(cause));
        }
        assert_eq!(RetryEntry::new(9, at(0), answered(1)).failure(), None);
        assert_eq!(size_of::<RetryBucket>(), 64);
    }

    #[test]
    fn a_speculative_execution_is_in_flight_with_the_first_whichever_ends_first() {
        let mut repeats = RetryDetector::default();
        // The first execution is slow: its answer comes after that of the second one.
        assert_eq!(repeats.note(ask("a"), HOST, at(50), answered(55)), None);
        assert_eq!(
            repeats.note(ask("a"), HOST, at(0), answered(2_000)),
            Some(Repeat::InFlight)
        );
        assert_eq!(repeats.note(ask("b"), HOST, at(0), answered(100)), None);
        assert_eq!(
            repeats.note(ask("b"), HOST, at(50), answered(120)),
            Some(Repeat::InFlight)
        );
    }

    #[test]
    fn the_same_read_one_after_the_other_or_by_another_host_is_no_repetition() {
        let mut repeats = RetryDetector::default();
        assert_eq!(repeats.note(ask("a"), HOST, at(0), answered(10)), None);
        assert_eq!(repeats.note(ask("a"), HOST, at(10), answered(20)), None);
        assert_eq!(repeats.note(ask("a"), 8, at(12), answered(18)), None);
        assert_eq!(repeats.note(ask("b"), HOST, at(12), answered(18)), None);
    }

    #[test]
    fn what_comes_soon_after_a_failure_is_a_retry_and_what_comes_late_is_not() {
        let mut repeats = RetryDetector::default();
        let failed = Ending::Failed(at(5_000), RetryCause::ReadTimeout);
        assert_eq!(repeats.note(ask("a"), HOST, at(0), failed), None);
        assert_eq!(
            repeats.note(ask("a"), HOST, at(5_001), answered(5_010)),
            Some(Repeat::Retry(RetryCause::ReadTimeout))
        );
        assert_eq!(
            repeats.note(ask("a"), HOST, at(5_011), answered(5_020)),
            None,
            "the retry succeeded"
        );
        assert_eq!(repeats.note(ask("b"), HOST, at(0), failed), None);
        assert_eq!(repeats.note(ask("b"), HOST, at(6_002), answered(6_003)), None);
    }

    #[test]
    fn a_lost_connection_is_told_after_its_retry() {
        let mut repeats = RetryDetector::default();
        assert_eq!(repeats.note(ask("a"), HOST, at(2_000), answered(2_010)), None);
        assert_eq!(
            repeats.note(ask("a"), HOST, at(0), Ending::CutOff),
            Some(Repeat::Retry(RetryCause::ConnectionLost))
        );
        // The retry is still the latest.
        assert_eq!(repeats.note(ask("a"), HOST, at(2_020), answered(2_030)), None);
        assert_eq!(repeats.note(ask("b"), HOST, at(0), Ending::Unknown), None);
        assert_eq!(repeats.note(ask("b"), HOST, at(1), answered(2)), None);
    }

    #[test]
    fn failures_outlive_successes_and_what_is_forgotten_is_counted() {
        let mut repeats = RetryDetector::default();
        let failed = Ending::Failed(at(1), RetryCause::Overloaded);
        repeats.note(ask("the failure"), HOST, at(0), failed);
        for number in 0..100_000 {
            repeats.note(ask(&format!("read {number}")), HOST, at(2), answered(3));
        }
        assert_eq!(
            repeats.note(ask("the failure"), HOST, at(10), answered(11)),
            Some(Repeat::Retry(RetryCause::Overloaded))
        );
        assert_eq!(repeats.take_forgotten(), 0);
        for number in 0..100_000 {
            repeats.note(ask(&format!("failure {number}")), HOST, at(2), failed);
        }
        let forgotten = repeats.take_forgotten();
        assert!((100_000 - 65_536..100_000).contains(&forgotten), "{forgotten}");
    }
}
