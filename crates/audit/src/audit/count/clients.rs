//! Which clients execute which statements, and how, while a window is filled.
//!
//! What a window looks up by name or converts is counted by ids here, and gets its names when the window is
//! taken.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use cqlens_proto::message::{Consistency, SerialConsistency};
use rustc_hash::FxHashMap;

use crate::audit::{
    exchange::Exchange,
    statement::ids::{ClientId, StatementId},
};
use cqlens_capture::Moment;
use cqlens_cql::{footprint::PartitionClass, plan::Flag};
use cqlens_window::{PatternId, Window};

/// Exchanges by client, statement, consistency level and class.
#[derive(Debug, Default)]
pub(crate) struct ClientCounts {
    places: FxHashMap<Kind, usize>,
    /// In the order in which they came first.
    counts: Vec<KindCount>,
}

/// What is counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    client: ClientId,
    /// None for what is no execution.
    statement: Option<StatementId>,
    consistency: Option<Consistency>,
    serial_consistency: Option<SerialConsistency>,
    /// None for what touches no partitions.
    class: Option<PartitionClass>,
}

impl Hash for Kind {
    /// Of the parts that make the difference: one client executes a statement at few levels.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.client.with(self.statement));
    }
}

#[derive(Debug)]
struct KindCount {
    client: Arc<str>,
    pattern: Option<PatternId>,
    kind: Kind,
    exchanges: u64,
    first: Moment,
    last: Moment,
}

impl ClientCounts {
    /// More are flushed at once: the names of connections that have ended are not kept for long.
    const MOST: usize = 4_096;

    /// Counts an exchange of what `window` is filled with.
    pub(crate) fn count(&mut self, window: &mut Window, exchange: &Exchange<'_>) {
        let execution = exchange.execution;
        let touching = exchange.touching();
        let kind = Kind {
            client: exchange.client,
            statement: execution.map(|execution| execution.analysis.statement),
            consistency: execution.and_then(|execution| execution.consistency),
            serial_consistency: execution.and_then(|execution| execution.serial_consistency),
            class: touching.map(|execution| execution.footprint.class()),
        };
        match self.places.get(&kind) {
            Some(&place) => {
                let count = &mut self.counts[place];
                count.exchanges += 1;
                count.first = count.first.min(exchange.at);
                count.last = count.last.max(exchange.at);
            }
            None => self.begin(window, exchange, kind),
        }
    }

    /// Counts the first exchange of its kind.
    #[cold]
    fn begin(&mut self, window: &mut Window, exchange: &Exchange<'_>, kind: Kind) {
        if self.counts.len() >= Self::MOST {
            self.flush_into(window);
        }
        self.places.insert(kind, self.counts.len());
        let execution = exchange.execution;
        self.counts.push(KindCount {
            client: Arc::clone(exchange.client_name),
            pattern: execution.map(|execution| execution.analysis.id),
            kind,
            exchanges: 1,
            first: exchange.at,
            last: exchange.at,
        });
    }

    /// Adds everything to `window`, by name, and begins anew.
    pub(crate) fn flush_into(&mut self, window: &mut Window) {
        self.places.clear();
        for count in self.counts.drain(..) {
            window.count_client(&count.client, count.exchanges);
            let pattern = count.pattern.and_then(|id| window.counted_pattern(id));
            let Some(pattern) = pattern else { continue };
            pattern.see(count.first.timestamp());
            pattern.see(count.last.timestamp());
            pattern.count_client(&count.client, count.exchanges);
            if let Some(level) = count.kind.consistency {
                pattern.count_consistency(level.name(), count.exchanges);
            }
            if pattern.is(Flag::Lwt) {
                let level = count
                    .kind
                    .serial_consistency
                    .map_or(Consistency::Serial, |level| level.0);
                pattern.count_serial_consistency(level.name(), count.exchanges);
            }
            if let Some(class) = count.kind.class {
                *pattern.classes.entry(class).or_default() += count.exchanges;
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
        catalog::Live,
    };
    use cqlens_capture::{Clock, Connection, ConnectionId, Queue, QueueLimits, Tap};

    #[test]
    fn connections_of_one_client_are_one_however_many_there_are() {
        let queue = Arc::new(Queue::new(QueueLimits::default()));
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
            connection.close(Clock::start().now());
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
