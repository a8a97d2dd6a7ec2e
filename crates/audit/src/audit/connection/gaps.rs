//! What is missing of a connection: requests that did not come, and responses whose requests have not come.
//!
//! Each request of a connection is handed on once: as an exchange, as undecoded, or as dropped. So at any
//! time
//!
//! - `arrived_or_missing + missing_segments` = requests handed on + requests in flight
//!   ([`RequestCounts::known`]; after a panic of the auditor the difference is what it has lost),
//! - `opcodes` + `without_opcode` <= `arrived_or_missing`; they are equal until a gap names fewer opcodes
//!   than there are requests without one,
//!
//! but for responses that came early and whose requests never come: those are handed on as dropped beside
//! that.

use std::collections::VecDeque;

use cqlens_proto::{
    cutter::OpcodeCounts,
    envelope::{Opcode, StreamId},
};

use crate::audit::connection::event::MissingRequests;
use cqlens_capture::Moment;

/// The requests of a connection that came or are known to be missing. What the data path has counted beyond
/// them was left out.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts {
    arrived_or_missing: u64,
    /// The same by opcode, as far as that is known.
    opcodes: OpcodeCounts,
    /// Requests that are not in `opcodes`, though they would be if more were known of them.
    without_opcode: u64,
    /// Compressed segments that are missing: each counts as a request, and nothing is known of their opcodes.
    missing_segments: u64,
}

impl RequestCounts {
    /// A request came.
    pub(crate) fn arrived(&mut self, opcode: Opcode) {
        self.arrived_or_missing += 1;
        self.opcodes.add(opcode);
    }

    /// A request came that is not understood.
    pub(crate) fn arrived_without_opcode(&mut self) {
        self.arrived_or_missing += 1;
        self.without_opcode += 1;
    }

    /// Requests that came or are missing.
    pub(crate) fn known(&self) -> u64 {
        self.arrived_or_missing + self.missing_segments
    }

    /// What is newly missing after a gap before which `begun` requests had begun, `opcodes` where that is
    /// known, and `missing_segments` compressed segments were left out.
    pub(crate) fn miss(
        &mut self,
        begun: u64,
        opcodes: Option<&OpcodeCounts>,
        missing_segments: u64,
    ) -> MissingRequests {
        let segments = missing_segments - self.missing_segments;
        self.missing_segments = missing_segments;
        let Some(opcodes) = opcodes else {
            let requests = begun.saturating_sub(self.arrived_or_missing);
            self.arrived_or_missing += requests;
            self.without_opcode += requests;
            return MissingRequests::requests(requests + segments);
        };
        let opcodes = opcodes.beyond(&self.opcodes);
        self.opcodes.merge(&opcodes);
        let named = u64::from(opcodes.total());
        let counted_before = named.min(self.without_opcode);
        self.without_opcode = 0;
        self.arrived_or_missing += named - counted_before;
        MissingRequests {
            requests: named - counted_before + segments,
            opcodes,
        }
    }
}

/// Responses that come without a request in flight.
#[derive(Debug, Default)]
pub(crate) struct EarlyResponses {
    /// Requests that were not understood, or are counted as missing, and whose responses may still come.
    expected: u64,
    /// Responses to requests that have not come, of a record that has gaps: after a gap, requests are held
    /// back until their place is sure.
    waiting: VecDeque<EarlyResponse>,
}

/// A response whose request has not come.
#[derive(Debug)]
struct EarlyResponse {
    stream_id: StreamId,
    answered_at: Moment,
}

impl EarlyResponses {
    /// Responses beyond are taken for those of missing requests at once.
    const MOST: usize = 4_096;

    /// How many wait for their requests.
    pub(crate) fn len(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Responses to so many requests may come that are counted already.
    pub(crate) fn expect(&mut self, requests: u64) {
        self.expected += requests;
    }

    /// So many requests are missing: of some the responses have come already, those of the others may come.
    pub(crate) fn are_missing(&mut self, requests: u64) {
        let early = self.len().min(requests);
        self.waiting.drain(..usize::try_from(early).unwrap_or(usize::MAX));
        self.expected += requests - early;
    }

    /// Takes a response without a request in flight; it waits for its request if that `may_be_early`. Whether
    /// a request is missing for it: that of the response that waited longest, since too many wait.
    pub(crate) fn came(&mut self, stream_id: StreamId, answered_at: Moment, may_be_early: bool) -> bool {
        if self.expected > 0 {
            self.expected -= 1;
            return false;
        }
        if !may_be_early {
            return false;
        }
        let is_full = self.waiting.len() >= Self::MOST;
        if is_full {
            self.waiting.pop_front();
        }
        self.waiting.push_back(EarlyResponse {
            stream_id,
            answered_at,
        });
        is_full
    }

    /// Gives up responses from before `at`, where a request of `at` has come; how many there were. Their
    /// requests never come.
    pub(crate) fn give_up_before(&mut self, at: Moment) -> usize {
        let before = self.waiting.len();
        while self
            .waiting
            .pop_front_if(|early| early.answered_at <= at)
            .is_some()
        {}
        before - self.waiting.len()
    }

    /// Takes the response on a stream.
    pub(crate) fn take(&mut self, stream_id: StreamId) -> bool {
        let place = self.waiting.iter().position(|early| early.stream_id == stream_id);
        place.is_some_and(|place| self.waiting.remove(place).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_and_what_is_missing_add_up() {
        let mut counts = RequestCounts::default();
        counts.arrived(Opcode::QUERY);
        counts.arrived_without_opcode();
        assert_eq!(counts.miss(5, None, 0).requests, 3);
        assert_eq!((counts.known(), counts.without_opcode), (5, 4));
        let mut opcodes = OpcodeCounts::default();
        (0..5).for_each(|_| opcodes.add(Opcode::QUERY));
        (0..2).for_each(|_| opcodes.add(Opcode::BATCH));
        let missing = counts.miss(7, Some(&opcodes), 3);
        assert_eq!((missing.requests, missing.opcodes.total()), (2 + 3, 6));
        assert_eq!((counts.known(), counts.without_opcode), (7 + 3, 0));
        assert_eq!(u64::from(counts.opcodes.total()), counts.arrived_or_missing);
    }
}
