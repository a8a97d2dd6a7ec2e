//! A connection that is captured in several places: what each of them has is put together.

use cqlens_proto::envelope::Direction;

use super::{TcpConnection, distance};
use crate::{packets::Segment, tcp::four_tuple::FourTuple};

/// Where the segments of a connection come from that is captured in several places.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// Copies beside the first one.
    copies: Vec<FourTuple>,
    /// Those of which a snap length has cut off segments.
    cut: Vec<FourTuple>,
}

impl Sources {
    /// How many of `cut` bytes that are cut off in the copy `from` are missing: none as long as another copy may have
    /// them.
    pub(super) fn cut_off(&mut self, from: FourTuple, cut: usize) -> usize {
        if cut > 0 && !self.cut.contains(&from) {
            self.cut.push(from);
        }
        match self.cut.len() > self.copies.len() {
            true => cut,
            false => 0,
        }
    }
}

impl TcpConnection {
    /// Notes that it is captured as `copy`, too.
    pub(in crate::tcp) fn has_copy(&mut self, copy: FourTuple) {
        let sources = self.sources.get_or_insert_default();
        if !sources.copies.contains(&copy) {
            sources.copies.push(copy);
        }
        self.update_in_order();
    }

    /// As what it is captured beside the first copy.
    pub(in crate::tcp) fn copies(&self) -> &[FourTuple] {
        self.sources.as_ref().map_or(&[], |sources| &sources.copies)
    }

    /// Whether it may have begun with `segment`, which opens a connection with the same number of the client.
    pub(in crate::tcp) fn may_begin_with(&self, segment: &Segment) -> bool {
        let is_same = |own: Option<u32>, other| own.is_none_or(|own| own == other);
        match segment.acknowledgment {
            None => is_same(self.client.syn, segment.sequence),
            Some(_) => is_same(self.server.syn, segment.sequence),
        }
    }

    /// How many bytes it is away from where `segment` is, in the direction in which it is further.
    pub(in crate::tcp) fn distance_to(&self, segment: &Segment, direction: Direction) -> Option<u32> {
        let (own, other) = match direction {
            Direction::Request => (&self.client, &self.server),
            Direction::Response => (&self.server, &self.client),
        };
        let (sent, heard) = (own.reassembler.next()?, other.reassembler.next()?);
        let away = [
            distance(sent, segment.sequence),
            distance(heard, segment.acknowledgment?),
        ];
        (!self.is_closed()).then(|| away.map(i32::unsigned_abs).into_iter().max())?
    }
}
