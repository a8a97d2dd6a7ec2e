//! How a connection begins: what both sides say first and when, to be compared with another one.

use bytes::Bytes;
use cqlens_capture::Moment;
use cqlens_proto::envelope::Direction;

/// The beginning of a connection, from its first captured request on.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    requests: Said,
    responses: Said,
    /// What is not handed on as long as the connection may be a copy; none once it is handed on as it comes.
    held: Option<Vec<Delivery>>,
    held_bytes: usize,
    /// Whether something was said since the last look.
    is_news: bool,
    /// Whether it is known which others may begin like it.
    is_placed: bool,
}

/// What one side has said.
#[derive(Debug, Default)]
struct Said {
    /// The first bytes.
    bytes: Vec<u8>,
    /// When how many bytes were said in all.
    steps: Vec<(Moment, u64)>,
}

/// Bytes that come next in their direction.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) direction: Direction,
    pub(super) bytes: Bytes,
    pub(super) at: Moment,
}

/// Bytes of each direction that are compared: the handshake of every driver and its first queries are in them.
const MAX_COMPARED: usize = 16 << 10;

/// Segments of each direction that are compared.
const MAX_STEPS: usize = 64;

impl Said {
    fn length(&self) -> u64 {
        self.steps.last().map_or(0, |(_, length)| *length)
    }

    fn add(&mut self, bytes: &[u8], at: Moment) {
        let room = MAX_COMPARED.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes
            .extend_from_slice(bytes.get(..room).unwrap_or_default());
        self.steps.push((at, self.length() + bytes.len() as u64));
    }

    /// Whether one is how the other begins.
    fn agrees_with(&self, other: &Self) -> bool {
        self.bytes
            .iter()
            .zip(&other.bytes)
            .all(|(one, other)| one == other)
    }
}

/// What two beginnings have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Likeness {
    /// How often a request passed the outer and then the inner connection, and its response the inner and then the outer
    /// one.
    pub(super) turns: usize,
    /// How often the outer one was the later one.
    pub(super) out_of_turn: usize,
}

impl Beginning {
    /// A beginning, held or handed on as it comes.
    pub(super) fn new(is_held: bool) -> Self {
        Self {
            held: is_held.then(Vec::new),
            ..Self::default()
        }
    }

    /// Notes what comes next; gives it back if it is not held.
    pub(super) fn take(&mut self, direction: Direction, bytes: Bytes, at: Moment) -> Option<Bytes> {
        let said = match direction {
            Direction::Request => &mut self.requests,
            Direction::Response => &mut self.responses,
        };
        said.add(&bytes, at);
        self.is_news = true;
        let Some(held) = &mut self.held else {
            return Some(bytes);
        };
        self.held_bytes += bytes.len();
        // Copied, so that held bytes do not keep the whole chunk of the file in memory.
        let bytes = Bytes::copy_from_slice(&bytes);
        held.push(Delivery { direction, bytes, at });
        None
    }

    /// What was held; from now on nothing is.
    pub(super) fn release(&mut self) -> Vec<Delivery> {
        self.held_bytes = 0;
        self.held.take().unwrap_or_default()
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Bytes that are held.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether something was said since the last call.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    /// Whether this is the first call.
    pub(super) fn place(&mut self) -> bool {
        !std::mem::replace(&mut self.is_placed, true)
    }

    /// Whether a request has no response yet, not even the first bytes.
    pub(super) fn is_unanswered(&self) -> bool {
        !self.requests.steps.is_empty() && self.responses.steps.is_empty()
    }

    /// Whether more of it is not worth keeping.
    pub(super) fn is_long(&self) -> bool {
        self.requests.steps.len() >= MAX_STEPS || self.responses.steps.len() >= MAX_STEPS
    }

    /// What it has in common with what may be the same on the other side of a relay, `inner`; none if they differ.
    pub(super) fn compare(&self, inner: &Self) -> Option<Likeness> {
        if !self.requests.agrees_with(&inner.requests) || !self.responses.agrees_with(&inner.responses) {
            return None;
        }
        let mut likeness = Likeness {
            turns: 0,
            out_of_turn: 0,
        };
        let mut lengths = [0; 4];
        let mut turn = 0;
        for (step, length) in self.merged(inner) {
            lengths[step] = length;
            let [asked, relayed, answered, returned] = lengths;
            let precedes = match step {
                1 => relayed <= asked,
                3 => returned <= answered,
                _ => true,
            };
            likeness.out_of_turn += usize::from(!precedes);
            if step == turn {
                turn = (turn + 1) % 4;
                likeness.turns += usize::from(step == 3);
            }
        }
        Some(likeness)
    }

    /// What was said on both connections in the order of time, with its place in a turn: the request outside and
    /// inside, the response inside and outside. Of what has the same time nothing shows that it came in that order.
    fn merged(&self, inner: &Self) -> Vec<(usize, u64)> {
        let sides = [&self.responses, &inner.responses, &inner.requests, &self.requests];
        let sides = sides.into_iter().zip([3, 2, 1, 0]);
        let steps = sides.flat_map(|(said, place)| said.steps.iter().map(move |step| (*step, place)));
        let mut all: Vec<_> = steps.map(|((at, length), place)| (at, place, length)).collect();
        all.sort_by_key(|(at, place, _)| (*at, std::cmp::Reverse(*place)));
        all.into_iter()
            .map(|(_, place, length)| (place, length))
            .collect()
    }
}
