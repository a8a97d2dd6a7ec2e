//! What there is to be seen in segments: the bytes of each direction, and how many of them are missing.

use std::{collections::BTreeMap, net::SocketAddr};

use crate::tcp::{ACK, FIN, SYN, Segment};

/// A direction of a connection: from, to.
pub(crate) type Flow = (SocketAddr, SocketAddr);

/// What was sent in a direction, as far as it was seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Stream {
    /// The number of the first byte that anybody can know of.
    begin: u32,
    /// Bytes from there on; none where a byte is missing.
    pub(crate) bytes: Vec<Option<u8>>,
}

impl Stream {
    /// Bytes that are missing between what is there, or that the other side says it has received.
    pub(crate) fn missing(&self) -> u64 {
        self.bytes.iter().filter(|byte| byte.is_none()).count() as u64
    }

    /// The same before the last byte that is there.
    fn missing_within(&self) -> u64 {
        let last = self.bytes.iter().rposition(Option::is_some).unwrap_or(0);
        self.bytes[..last].iter().filter(|byte| byte.is_none()).count() as u64
    }

    /// Bytes that were sent before the first that was seen have no place.
    fn offset(&self, sequence: u32) -> Option<usize> {
        let offset = sequence.wrapping_sub(self.begin);
        (offset < 1 << 31).then_some(offset as usize)
    }

    fn reaches(&mut self, end: u32) {
        if let Some(end) = self.offset(end)
            && end > self.bytes.len()
        {
            self.bytes.resize(end, None);
        }
    }
}

/// The streams of one connection after the other; ports are used once.
pub(crate) fn streams(segments: &[Segment]) -> BTreeMap<Flow, Stream> {
    let mut streams: BTreeMap<Flow, Stream> = BTreeMap::new();
    let mut ended: BTreeMap<Flow, u32> = BTreeMap::new();
    for segment in segments {
        let flow = (segment.from, segment.to);
        let first = segment.sequence.wrapping_add(u32::from(segment.flags & SYN != 0));
        let begins = |begin| Stream {
            begin,
            bytes: Vec::new(),
        };
        let stream = streams.entry(flow).or_insert_with(|| begins(first));
        let end = first.wrapping_add(u32::try_from(segment.payload.len()).unwrap());
        stream.reaches(end);
        for (index, byte) in segment.payload.iter().enumerate() {
            let at = first.wrapping_add(u32::try_from(index).unwrap());
            if let Some(at) = stream.offset(at) {
                stream.bytes[at] = Some(*byte);
            }
        }
        if segment.flags & FIN != 0 {
            ended.insert(flow, end);
        }
        if segment.flags & ACK != 0 {
            let other = (segment.to, segment.from);
            let mut acknowledged = segment.acknowledgement;
            // The end of a direction takes a number too.
            if ended
                .get(&other)
                .is_some_and(|end| end.wrapping_add(1) == acknowledged)
            {
                acknowledged = acknowledged.wrapping_sub(1);
            }
            streams
                .entry(other)
                .or_insert_with(|| begins(acknowledged))
                .reaches(acknowledged);
        }
    }
    streams.retain(|_, stream| !stream.bytes.is_empty());
    streams
}

/// Bytes that are missing, in all connections.
pub(crate) fn missing(segments: &[Segment]) -> u64 {
    streams(segments).values().map(Stream::missing).sum()
}

/// The same, but for what is missing at the end of a direction.
pub(crate) fn missing_within(segments: &[Segment]) -> u64 {
    streams(segments).values().map(Stream::missing_within).sum()
}

#[test]
fn harmless_changes_lose_no_byte_and_the_others_change_none() {
    use crate::{
        mutator::{Chance, HARMLESS, LOSING},
        sniff::recorded,
        tcp::segments,
    };
    for (seed, recorded) in (0..).zip(
        recorded()
            .iter()
            .filter(|recorded| !recorded.name.contains("more")),
    ) {
        let segments = segments(&recorded.capture());
        let original = streams(&segments);
        assert_eq!(missing(&segments), 0, "{}", recorded.name);
        let known = |streams: &BTreeMap<Flow, Stream>| -> Vec<Vec<Option<u8>>> {
            streams.values().map(|stream| stream.bytes.clone()).collect()
        };
        for (name, change) in HARMLESS {
            let changed = streams(&change(&segments, &mut Chance::new(seed)));
            assert!(known(&changed) == known(&original), "{}: {name}", recorded.name);
        }
        for (name, change) in LOSING {
            for (flow, stream) in streams(&change(&segments, &mut Chance::new(seed))) {
                let whole = &original[&flow];
                let shift = whole.offset(stream.begin).unwrap();
                let is_same = |(at, byte): (usize, &Option<u8>)| {
                    // Where the end was not seen its number counts as a byte that was acknowledged.
                    byte.is_none() || whole.bytes[shift + at] == *byte
                };
                assert!(
                    stream.bytes.iter().enumerate().all(is_same),
                    "{}: {name}, {flow:?}",
                    recorded.name
                );
            }
        }
    }
}
