//! Who asks for what, and how, while a window is filled.
//!
//! A name is compared with others when it is counted in a window, which would be among the dearest things that are done for a request.
//! Here it is known by its address, which belongs to a connection, and gets its name when the window is taken. What else is looked
//! up by a small key, or converted, when it is counted in a window waits for that, too.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use cqlens_proto::message::Consistency;
use rustc_hash::FxHashMap;

use super::exchange::Exchange;
use crate::{
    capture::Moment,
    window::{PatternId, Window},
};
use cqlens_cql::footprint::PartitionClass;

/// Exchanges by client, pattern, consistency level and class, in the order in which they came first.
#[derive(Debug, Default)]
pub(super) struct ClientCounts {
    counts: Vec<Counted>,
    places: FxHashMap<Asked, u16>,
    /// Where those are probably that came lately: most are found here.
    lately: Lately,
}

/// Places of counts, by what little of an address and a pattern tells them apart.
#[derive(Debug)]
struct Lately(Box<[u16; 256]>);

impl Default for Lately {
    fn default() -> Self {
        Self(Box::new([0; 256]))
    }
}

impl Lately {
    fn place(&mut self, asked: &Asked) -> &mut u16 {
        // Names that were allocated one after the other lie a few dozen bytes apart.
        let mixed =
            (asked.address >> 5).to_le_bytes()[0] ^ asked.pattern.map_or(0, |id| id.0.to_le_bytes()[0]);
        &mut self.0[usize::from(mixed)]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    /// Of the client's name, which is kept with the count.
    address: usize,
    /// None for what is no execution.
    pattern: Option<PatternId>,
    consistency: Option<Consistency>,
    /// None for what touches no partitions.
    class: Option<PartitionClass>,
}

impl Hash for Asked {
    /// Of the parts that make the difference: one client executes a statement at few levels.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.address);
        state.write_u64(self.pattern.map_or(0, |id| id.0));
    }
}

#[derive(Debug)]
struct Counted {
    client: Arc<str>,
    asked: Asked,
    exchanges: u64,
    first: Moment,
    last: Moment,
}

impl Counted {
    fn add(&mut self, at: Moment) {
        self.exchanges += 1;
        self.first = self.first.min(at);
        self.last = self.last.max(at);
    }
}

impl ClientCounts {
    /// More are poured at once: the names of connections that have ended are not kept for long.
    const MOST: usize = 4_096;

    /// Counts an exchange of what `window` is filled with.
    pub(super) fn count(&mut self, window: &mut Window, exchange: &Exchange<'_>) {
        let execution = exchange.execution.as_ref();
        let touching = exchange.touching();
        let asked = Asked {
            address: Arc::as_ptr(exchange.client).addr(),
            pattern: execution.map(|execution| execution.analysis.id),
            consistency: execution.and_then(|execution| execution.consistency),
            class: touching.map(|execution| execution.footprint.class()),
        };
        let lately = self.lately.place(&asked);
        let counted = self.counts.get_mut(usize::from(*lately));
        if let Some(counted) = counted.filter(|counted| counted.asked == asked) {
            counted.add(exchange.at);
            return;
        }
        if let Some(place) = self.places.get(&asked)
            && let Some(counted) = self.counts.get_mut(usize::from(*place))
        {
            *lately = *place;
            counted.add(exchange.at);
            return;
        }
        self.begin(window, exchange, asked);
    }

    /// Counts the first exchange of its kind.
    #[cold]
    fn begin(&mut self, window: &mut Window, exchange: &Exchange<'_>, asked: Asked) {
        if self.counts.len() >= Self::MOST {
            self.pour(window);
        }
        self.places
            .insert(asked, u16::try_from(self.counts.len()).unwrap_or(u16::MAX));
        self.counts.push(Counted {
            client: Arc::clone(exchange.client),
            asked,
            exchanges: 1,
            first: exchange.at,
            last: exchange.at,
        });
    }

    /// Adds everything to `window`, by name, and begins anew.
    pub(super) fn pour(&mut self, window: &mut Window) {
        self.places.clear();
        for counted in self.counts.drain(..) {
            window.count_client(&counted.client, counted.exchanges);
            let pattern = counted.asked.pattern.and_then(|id| window.counted_pattern(id));
            let Some(pattern) = pattern else { continue };
            pattern.see(counted.first.timestamp());
            pattern.see(counted.last.timestamp());
            pattern.count_client(&counted.client, counted.exchanges);
            if let Some(level) = counted.asked.consistency {
                pattern.count_consistency(level.name(), counted.exchanges);
            }
            if let Some(class) = counted.asked.class {
                *pattern.classes.entry(class).or_default() += counted.exchanges;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{collections::BTreeMap, net::SocketAddr};

    use cqlens_proto::envelope::Direction;
    use jiff::Timestamp;

    use super::*;
    use crate::{
        audit::{
            Audit, HashKey,
            testing::{query, void},
        },
        capture::{Clock, Connection, ConnectionId, Limits, Queue, Tap},
        catalog::Live,
    };

    #[test]
    fn connections_of_one_client_are_one_however_many_there_are() {
        let queue = Arc::new(Queue::new(Limits::default()));
        let now = Timestamp::UNIX_EPOCH;
        let live = Arc::new(Live::default());
        let audit = Audit::start(Arc::clone(&queue), &live, HashKey::random(), "test", now).unwrap();
        let connections = ClientCounts::MOST as u64 + 500;
        for number in 0..connections {
            let client = SocketAddr::from(([10, 0, 0, u8::try_from(number % 3).unwrap()], 5));
            let connection = Arc::new(Connection::new(ConnectionId(number), client));
            let mut taps = [Direction::Request, Direction::Response].map(|direction| {
                Tap::new(
                    Arc::clone(&connection),
                    direction,
                    Arc::clone(&queue),
                    Clock::start(),
                )
            });
            for consistency in [Consistency::One, Consistency::Quorum, Consistency::One] {
                taps[0].offer(&query("SELECT v FROM s.t WHERE k = 1", consistency));
                taps[1].offer(&void());
            }
            connection.close();
        }
        let window = audit.stop(now);
        let third = |of: u64| {
            let names = (0..3).map(|host| (format!("10.0.0.{host}"), (connections - host).div_ceil(3) * of));
            names.collect::<BTreeMap<_, _>>()
        };
        assert_eq!(window.clients, third(3));
        let pattern = window.patterns.values().next().unwrap();
        assert_eq!(pattern.clients, third(3));
        let levels = [("ONE", 2 * connections), ("QUORUM", connections)];
        let levels = levels.map(|(level, count)| (level.to_owned(), count));
        assert_eq!(pattern.consistency, BTreeMap::from(levels));
    }
}
