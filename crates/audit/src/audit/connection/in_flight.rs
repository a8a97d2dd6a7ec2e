//! Requests that wait for their responses.

use bytes::Bytes;
use cqlens_proto::envelope::{Envelope, Header, StreamId};
use rustc_hash::FxHashMap;

use crate::audit::connection::budget::Budget;
use cqlens_capture::Moment;

/// What a request takes up beside its body.
const EACH: usize = 128;

/// Requests with stream ids below are found by index: drivers take the lowest that is free, or begin with
/// those. A map for all, and another look-up of a statement's only table, would cost a prepared read 3 % of
/// all instructions.
const DENSE: usize = 64;

/// A request without a response so far.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) request: Envelope,
    /// Length of its body: see
    /// [`RawExchange::request_len`](crate::audit::connection::event::RawExchange::request_len).
    pub(crate) request_len: usize,
    /// When its last byte came.
    pub(crate) at: Moment,
    /// How many times USE had changed the connection's keyspace when it came.
    pub(crate) keyspace_changes: u64,
    /// Whether its bytes are its own, and not a part of what the data path read into.
    pub(crate) is_detached: bool,
    /// Above 0 where this is no request, but stands for several that are in flight with one stream id: the responses that are to
    /// come, of which none says which of them it belongs to.
    pub(crate) responses_owed: u32,
}

impl PendingRequest {
    /// What stands for requests with this stream id, for which so many responses come.
    pub(crate) fn stand_in(header: Header, at: Moment, responses_owed: u32) -> Self {
        Self {
            request: Envelope {
                header,
                body: Bytes::new(),
            },
            request_len: 0,
            at,
            keyspace_changes: 0,
            is_detached: true,
            responses_owed,
        }
    }

    /// Whether this stands for others.
    #[inline]
    pub(crate) fn is_stand_in(&self) -> bool {
        self.responses_owed > 0
    }

    /// How many responses come for it.
    pub(crate) fn responses(&self) -> u32 {
        self.responses_owed.max(1)
    }
}

/// The requests of one connection that wait, by stream id.
#[derive(Debug)]
pub(crate) struct InFlight {
    dense: Vec<Option<PendingRequest>>,
    /// Those with other stream ids.
    sparse: FxHashMap<StreamId, PendingRequest>,
    len: usize,
    /// What they take up of `budget`.
    bytes: usize,
    budget: Budget,
}

impl InFlight {
    /// None yet.
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            dense: Vec::new(),
            sparse: FxHashMap::default(),
            len: 0,
            bytes: 0,
            budget,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The budget of all connections.
    pub(crate) fn budget(&self) -> Budget {
        self.budget.clone()
    }

    /// Whether there is room for a request; without, it is counted as unanswered at once. A server that reads
    /// far ahead of its answers gets there.
    pub(crate) fn has_room_for(&self, pending: &PendingRequest) -> bool {
        self.budget.has_room_for(weight(&pending.request))
    }

    /// Keeps a request; the one that had its stream id before.
    #[inline(always)]
    pub(crate) fn insert(&mut self, pending: PendingRequest) -> Option<PendingRequest> {
        let bytes = weight(&pending.request);
        self.bytes += bytes;
        self.budget.take(bytes);
        self.len += usize::from(!pending.is_stand_in());
        let stream = pending.request.header.stream_id;
        let before = match dense_index(stream) {
            Some(index) => {
                if index >= self.dense.len() {
                    self.dense.resize_with(index + 1, || None);
                }
                self.dense.get_mut(index).and_then(|place| place.replace(pending))
            }
            None => self.sparse.insert(stream, pending),
        };
        self.free(before.as_ref());
        before
    }

    /// Takes the request with the stream id.
    #[inline(always)]
    pub(crate) fn remove(&mut self, stream: StreamId) -> Option<PendingRequest> {
        let removed = match dense_index(stream) {
            Some(index) => self.dense.get_mut(index).and_then(Option::take),
            None => self.sparse.remove(&stream),
        };
        self.free(removed.as_ref());
        removed
    }

    /// Forgets what stands for requests with one stream id: of their responses some may have been left out.
    #[cold]
    pub(crate) fn forget_stand_ins(&mut self) {
        drop(self.take(PendingRequest::is_stand_in));
    }

    /// Takes all requests that `is_wanted` says.
    pub(crate) fn take(&mut self, is_wanted: impl Fn(&PendingRequest) -> bool) -> Vec<PendingRequest> {
        let dense = self.dense.iter_mut();
        let dense = dense.filter_map(|place| place.take_if(|pending| is_wanted(pending)));
        let sparse = self.sparse.extract_if(|_, pending| is_wanted(pending));
        let taken: Vec<_> = dense.chain(sparse.map(|(_, pending)| pending)).collect();
        taken.iter().for_each(|pending| self.free(Some(pending)));
        taken
    }

    /// Those that still keep a buffer of the data path.
    pub(crate) fn not_detached(&mut self) -> impl Iterator<Item = &mut PendingRequest> {
        let all = self.dense.iter_mut().flatten().chain(self.sparse.values_mut());
        all.filter(|pending| !pending.is_detached)
    }

    fn free(&mut self, pending: Option<&PendingRequest>) {
        if let Some(pending) = pending {
            let bytes = weight(&pending.request);
            self.len -= usize::from(!pending.is_stand_in());
            self.bytes -= bytes;
            self.budget.give_back(bytes);
        }
    }
}

/// The index of a stream id among the dense ones; ids below 0 are none that a client takes.
#[inline]
fn dense_index(stream: StreamId) -> Option<usize> {
    usize::try_from(stream.0).ok().filter(|&index| index < DENSE)
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

fn weight(request: &Envelope) -> usize {
    EACH + request.body.len()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cqlens_proto::envelope::{Header, Opcode, Version};

    use super::*;

    fn request(stream: i16, length: usize) -> PendingRequest {
        PendingRequest {
            request: Envelope {
                header: Header::request(Version::V4, StreamId(stream), Opcode::QUERY),
                body: Bytes::from(vec![0; length]),
            },
            request_len: length,
            at: Moment::from_unix_nanoseconds(0),
            keyspace_changes: 0,
            is_detached: false,
            responses_owed: 0,
        }
    }

    #[test]
    fn what_is_taken_up_is_given_back_whatever_becomes_of_it() {
        const LIMIT: usize = 1 << 20;
        let budget = Budget::of(cqlens_capture::memory::Part::new("test", LIMIT));
        let (mut one, mut other) = (InFlight::new(budget.clone()), InFlight::new(budget.clone()));
        // One of them is none that a client takes.
        for stream in [0, 1, 2, 3, 4, 5, 63, 64, i16::MAX, -1] {
            assert!(one.insert(request(stream, 1_000)).is_none());
        }
        assert_eq!(one.not_detached().count(), 10);
        assert!(one.insert(request(3, 5_000)).is_some());
        assert!(other.insert(request(3, 7_000)).is_none());
        let left = LIMIT - (11 * EACH + 9 * 1_000 + 5_000 + 7_000);
        assert!(budget.has_room_for(left) && !budget.has_room_for(left + 1));
        assert!(one.remove(StreamId(3)).is_some() && one.remove(StreamId(3)).is_none());
        let taken = one.take(|pending| (1..=64).contains(&pending.request.header.stream_id.0));
        assert_eq!(taken.len(), 6);
        assert_eq!((one.len(), one.bytes), (3, 3 * (EACH + 1_000)));
        assert!(one.remove(StreamId(i16::MAX)).is_some() && one.remove(StreamId(0)).is_some());
        assert!(!one.is_empty(), "one is far below");
        drop(one);
        let left = LIMIT - (EACH + 7_000);
        assert!(other.has_room_for(&request(1, left - EACH)));
        assert!(!other.has_room_for(&request(1, left)));
        drop(other);
        assert!(budget.is_untouched());
    }
}
