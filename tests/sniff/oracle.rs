//! What there is to be seen in segments: the bytes of each direction, and how many of them are missing.

use std::{collections::BTreeMap, net::SocketAddr};

use crate::sniff::tcp::{ACK, FIN, SYN, Segment};

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

    /// Bytes that are there.
    pub(crate) fn seen(&self) -> u64 {
        self.bytes.iter().flatten().count() as u64
    }

    /// What is missing of `whole`, of which this is a part; and whether one more may be counted: where a
    /// direction's end is missing together with bytes before it, its number looks like one of theirs.
    fn missing_of(&self, whole: &Self) -> (u64, u64) {
        let length = whole.offset(self.begin).map_or(0, |at| whole.bytes.len() - at);
        let known = &self.bytes[..self.bytes.len().min(length)];
        let missing = known.iter().filter(|byte| byte.is_none()).count() as u64;
        let ends_with_none = known.last().is_some_and(Option::is_none);
        (missing, u64::from(self.bytes.len() > length && ends_with_none))
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

/// Bytes that are missing, in all connections, as far as anything shows that they were sent.
pub(crate) fn missing(segments: &[Segment]) -> u64 {
    streams(segments).values().map(Stream::missing).sum()
}

/// The least and the most that can be said to be missing of `whole`.
pub(crate) fn missing_of(segments: &[Segment], whole: &[Segment]) -> (u64, u64) {
    let whole = streams(whole);
    let each = streams(segments)
        .into_iter()
        .map(|(flow, stream)| stream.missing_of(&whole[&flow]));
    each.fold((0, 0), |(least, most), (missing, more)| {
        (least + missing, most + missing + more)
    })
}

/// Bytes that are there, each once.
pub(crate) fn seen(segments: &[Segment]) -> u64 {
    streams(segments).values().map(Stream::seen).sum()
}

/// The lengths of the requests of versions 3 and 4, and whether a byte of each is missing in `segments`.
pub(crate) fn requests(segments: &[Segment], whole: &[Segment]) -> Vec<(usize, bool)> {
    let found = streams(segments);
    let mut requests = Vec::new();
    for (flow, stream) in streams(whole).iter().filter(|((_, to), _)| to.port() == 9042) {
        let bytes: Vec<u8> = stream.bytes.iter().map(|byte| byte.unwrap()).collect();
        let here = found.get(flow);
        let is_there = |at: usize| {
            let at = stream.begin.wrapping_add(u32::try_from(at).unwrap());
            here.and_then(|here| here.bytes.get(here.offset(at)?))
                .is_some_and(Option::is_some)
        };
        let mut at = 0;
        while at < bytes.len() {
            let body = u32::from_be_bytes(bytes[at + 5..at + 9].try_into().unwrap());
            let end = at + 9 + usize::try_from(body).unwrap();
            requests.push((end - at, !(at..end).all(is_there)));
            at = end;
        }
    }
    requests
}

#[test]
fn harmless_changes_lose_no_byte_and_the_others_change_none() {
    use crate::sniff::{
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
