//! What is in flight on a connection, by stream id.

use cqlens_proto::envelope::StreamId;
use tokio::time::Instant;

use super::{job::Job, prepared::PreparedKey};

/// What is in flight, by stream id.
pub(super) struct Streams {
    pub(super) in_flight: Vec<InFlight>,
    pub(super) free: Vec<i16>,
    pub(super) abandoned: usize,
}

/// What a stream id is in use for.
pub(super) enum InFlight {
    Nothing,
    Request {
        job: Job,
        sent: Instant,
    },
    Prepare {
        key: PreparedKey,
        waiting: Vec<Job>,
        sent: Instant,
    },
    /// Its response did not come in time, and may still come.
    Abandoned,
}

impl Streams {
    pub(super) fn new(most: usize) -> Self {
        let most = i16::try_from(most.max(1)).unwrap_or(i16::MAX);
        Self {
            in_flight: (0..most).map(|_| InFlight::Nothing).collect(),
            free: (0..most).rev().collect(),
            abandoned: 0,
        }
    }

    pub(super) fn put(&mut self, stream_id: i16, in_flight: InFlight) {
        if let Some(place) = self.get(stream_id) {
            *place = in_flight;
        }
    }

    pub(super) fn get(&mut self, stream_id: i16) -> Option<&mut InFlight> {
        self.in_flight.get_mut(usize::try_from(stream_id).ok()?)
    }

    /// What a response belongs to; its stream id is free again. Events belong to nothing.
    pub(super) fn take(&mut self, StreamId(stream_id): StreamId) -> InFlight {
        let Some(place) = self.get(stream_id) else {
            return InFlight::Nothing;
        };
        let taken = std::mem::replace(place, InFlight::Nothing);
        match taken {
            InFlight::Nothing => {}
            InFlight::Abandoned => {
                self.abandoned -= 1;
                self.free.push(stream_id);
            }
            _ => self.free.push(stream_id),
        }
        taken
    }
}
