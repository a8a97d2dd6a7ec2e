//! What happens to captures: packets that are missing, come twice, come late or are cut, and networks that
//! split them otherwise.
//!
//! Functions over segments. Those of [`HARMLESS`] leave every byte of every connection to be seen; those of
//! [`LOSING`] do not. The same seed makes the same change.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
};

use cqlens_testing::everything;

use crate::sniff::tcp::{FIN, PUSH, RST, SYN, Segment};

/// The changes that are tried on the capture of this number: all in ring 3, else every third one, beginning where the
/// capture before it did not, so that each capture is changed and each change is tried.
pub(crate) fn tried<T>(capture: u64, changes: &[T]) -> impl Iterator<Item = &T> {
    let all = everything();
    let numbered = (capture..).zip(changes);
    numbered
        .filter(move |(number, _)| all || number.is_multiple_of(3))
        .map(|(_, change)| change)
}

/// Numbers that look random (xorshift).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    pub(crate) fn is_one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

/// A change, and its name.
pub(crate) type Change = (&'static str, fn(&[Segment], &mut Chance) -> Vec<Segment>);

/// After these the report is the same.
pub(crate) const HARMLESS: &[Change] = &[
    ("some packets come twice", twice),
    ("some packets come a little later", late),
    ("the network takes other sizes", split),
    ("a byte a packet", single_bytes),
    ("some bytes are sent again, in other packets", sent_again),
    ("sequence numbers wrap around", wrap),
    ("nobody acknowledges or closes", data_only),
];

/// After these something is missing.
pub(crate) const LOSING: &[Change] = &[
    ("one packet is missing", drop_one),
    ("one packet in eight is missing", drop_some),
    ("a run of packets is missing", drop_run),
    ("the capture begins later", begin_late),
    ("the capture ends earlier", end_early),
    ("requests are missing", drop_requests),
    ("responses are missing", drop_responses),
    ("one connection's requests are missing", drop_direction),
    ("the capture begins in the middle of a packet", begin_within),
];

/// Any change, or several.
pub(crate) fn change(segments: &[Segment], chance: &mut Chance) -> (String, Vec<Segment>) {
    let mut names = Vec::new();
    let mut changed = segments.to_vec();
    for changes in [LOSING, HARMLESS, LOSING] {
        let is_wanted = names.is_empty() || chance.is_one_in(2);
        // Where both directions are missing there is nothing left to change.
        if is_wanted && changed.iter().any(carries_data) {
            let (name, change) = changes[chance.below(changes.len())];
            changed = change(&changed, chance);
            names.push(name);
        }
    }
    (names.join("; "), changed)
}

/// A direction of a connection.
type Flow = (SocketAddr, SocketAddr);

fn flow(segment: &Segment) -> Flow {
    (segment.from, segment.to)
}

pub(crate) fn carries_data(segment: &Segment) -> bool {
    !segment.payload.is_empty()
}

/// Gives the times of the packets in the order of the packets: who captures sees them when they come.
fn in_order_of_coming(mut segments: Vec<Segment>) -> Vec<Segment> {
    let mut times: Vec<u64> = segments.iter().map(|segment| segment.at).collect();
    times.sort_unstable();
    for (segment, at) in segments.iter_mut().zip(times) {
        segment.at = at;
    }
    segments
}

fn twice(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    let mut changed = Vec::new();
    for segment in segments {
        changed.push(segment.clone());
        // Not what opens a connection: that is another change.
        if segment.flags & SYN == 0 && chance.is_one_in(3) {
            let earlier: Vec<usize> = (0..changed.len())
                .filter(|&at| changed[at].flags & SYN == 0)
                .collect();
            let again = changed[earlier[earlier
                .len()
                .saturating_sub(1 + chance.below(5.min(earlier.len())))]]
            .clone();
            // Those that come once keep their times, and so their latencies.
            let at = segment.at;
            changed.push(Segment { at, ..again });
        }
    }
    changed
}

/// Within a direction of a connection: between directions the order says what answers what.
fn late(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    let mut changed = segments.to_vec();
    let is_moved = |segment: &Segment| carries_data(segment) && segment.flags & (SYN | FIN | RST) == 0;
    for _ in 0..=segments.len() / 4 {
        let at = chance.below(changed.len());
        let end = (at + 1 + chance.below(6)).min(changed.len() - 1);
        let same = (at + 1..=end).take_while(|&other| {
            flow(&changed[other]) == flow(&changed[at]) || !carries_data(&changed[other])
        });
        let Some(other) = same.filter(|&other| is_moved(&changed[other])).last() else {
            continue;
        };
        if is_moved(&changed[at]) {
            changed.swap(at, other);
        }
    }
    in_order_of_coming(changed)
}

fn split(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    segments
        .iter()
        .flat_map(|segment| parts(segment, 1 + chance.below(700)))
        .collect()
}

fn single_bytes(segments: &[Segment], _: &mut Chance) -> Vec<Segment> {
    segments.iter().flat_map(|segment| parts(segment, 1)).collect()
}

/// The segment in parts of `size` bytes; the last one closes what it closed.
pub(crate) fn parts(segment: &Segment, size: usize) -> Vec<Segment> {
    if segment.payload.len() <= size {
        return vec![segment.clone()];
    }
    let chunks: Vec<&[u8]> = segment.payload.chunks(size).collect();
    let last = chunks.len() - 1;
    let part = |(index, chunk): (usize, &&[u8])| Segment {
        sequence: segment
            .sequence
            .wrapping_add(u32::try_from(index * size).unwrap()),
        flags: if index == last {
            segment.flags
        } else {
            segment.flags & !(FIN | RST | PUSH)
        },
        payload: chunk.to_vec(),
        ..segment.clone()
    };
    chunks.iter().enumerate().map(part).collect()
}

/// What was sent before, a piece of it or more than a packet of it, comes once more.
fn sent_again(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    let mut sent: HashMap<Flow, (u32, Vec<u8>)> = HashMap::new();
    let mut changed = Vec::new();
    for segment in segments {
        changed.push(segment.clone());
        if !carries_data(segment) {
            continue;
        }
        let (begin, bytes) = sent
            .entry(flow(segment))
            .or_insert((segment.sequence, Vec::new()));
        bytes.extend_from_slice(&segment.payload);
        if chance.is_one_in(3) {
            let from = bytes.len() - 1 - chance.below(bytes.len().min(3000));
            let to = from + 1 + chance.below(bytes.len() - from);
            changed.push(Segment {
                sequence: begin.wrapping_add(u32::try_from(from).unwrap()),
                flags: segment.flags & !(FIN | RST),
                payload: bytes[from..to].to_vec(),
                ..segment.clone()
            });
        }
    }
    changed
}

/// Each direction gets to the end of the numbers somewhere within what it sends.
fn wrap(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    let mut sent: BTreeMap<Flow, (u32, usize)> = BTreeMap::new();
    for segment in segments {
        sent.entry(flow(segment)).or_insert((segment.sequence, 0)).1 += segment.payload.len();
    }
    let shifts: BTreeMap<Flow, u32> = sent
        .into_iter()
        .map(|(flow, (first, length))| {
            let before = u32::try_from(chance.below(length + 1)).unwrap();
            (flow, 0_u32.wrapping_sub(before).wrapping_sub(first))
        })
        .collect();
    let shift = |flow: &Flow| shifts.get(flow).copied().unwrap_or(0);
    let changed = segments.iter().map(|segment| Segment {
        sequence: segment.sequence.wrapping_add(shift(&flow(segment))),
        acknowledgement: segment
            .acknowledgement
            .wrapping_add(shift(&(segment.to, segment.from))),
        ..segment.clone()
    });
    changed.collect()
}

fn data_only(segments: &[Segment], _: &mut Chance) -> Vec<Segment> {
    let opens_or_carries = |segment: &&Segment| carries_data(segment) || segment.flags & SYN != 0;
    let changed = segments.iter().filter(opens_or_carries).map(|segment| Segment {
        flags: segment.flags & !(FIN | RST),
        ..segment.clone()
    });
    changed.collect()
}

pub(crate) fn without(
    segments: &[Segment],
    mut is_missing: impl FnMut(usize, &Segment) -> bool,
) -> Vec<Segment> {
    let kept = segments
        .iter()
        .enumerate()
        .filter(|(index, segment)| !is_missing(*index, segment));
    kept.map(|(_, segment)| segment.clone()).collect()
}

fn drop_one(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    let data: Vec<usize> = (0..segments.len())
        .filter(|&index| carries_data(&segments[index]))
        .collect();
    let missing = data[chance.below(data.len())];
    without(segments, |index, _| index == missing)
}

fn drop_some(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    without(segments, |_, _| chance.is_one_in(8))
}

fn drop_run(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    let begin = chance.below(segments.len());
    let end = begin + 1 + chance.below(segments.len() / 4 + 1);
    without(segments, |index, _| (begin..end).contains(&index))
}

fn begin_late(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    segments[chance.below(segments.len())..].to_vec()
}

fn end_early(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    segments[..1 + chance.below(segments.len())].to_vec()
}

pub(crate) fn is_request(segment: &Segment) -> bool {
    segment.to.port() == 9042
}

fn drop_requests(segments: &[Segment], _: &mut Chance) -> Vec<Segment> {
    without(segments, |_, segment| is_request(segment))
}

fn drop_responses(segments: &[Segment], _: &mut Chance) -> Vec<Segment> {
    without(segments, |_, segment| !is_request(segment))
}

fn drop_direction(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    let missing = flow(&segments[chance.below(segments.len())]);
    without(segments, |_, segment| flow(segment) == missing)
}

/// Bytes at the beginning of what is seen first are not.
fn begin_within(segments: &[Segment], chance: &mut Chance) -> Vec<Segment> {
    let mut changed = begin_late(segments, chance);
    if let Some(first) = changed.iter_mut().find(|segment| carries_data(segment)) {
        let missing = chance.below(first.payload.len());
        first.payload.drain(..missing);
        first.sequence = first.sequence.wrapping_add(u32::try_from(missing).unwrap());
    }
    changed
}

/// The same connections once more, later, from the same ports, with other sequence numbers.
pub(crate) fn again_from_the_same_ports(segments: &[Segment]) -> Vec<Segment> {
    let span = segments.last().unwrap().at - segments[0].at;
    let again = segments.iter().map(|segment| Segment {
        at: segment.at + span + 1_000_000_000,
        sequence: segment.sequence.wrapping_add(0x1234_5678),
        acknowledgement: segment.acknowledgement.wrapping_add(0x1234_5678),
        ..segment.clone()
    });
    segments.iter().cloned().chain(again).collect()
}
