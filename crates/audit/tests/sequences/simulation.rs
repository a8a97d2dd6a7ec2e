//! Applications in simulated time: users who send operations, over connections that they share.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use bytes::Bytes;
use cqlens_audit::{
    audit::{Audit, HashKey, Options, SourceLimit},
    catalog::Live,
};
use cqlens_capture::{Connection, ConnectionId, Moment, ReplayQueue, ReplayTap};
use cqlens_cql::schema::Schema;
use cqlens_proto::envelope::Direction;
use cqlens_window::Window;
use jiff::Timestamp;

use crate::wire::Wire;

/// In nanoseconds.
pub(crate) type Time = i64;

pub(crate) const MILLISECOND: Time = 1_000_000;

/// Numbers that look random and are the same in every run (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From `from` to below `to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    /// A part of one.
    pub(crate) fn part(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `end`, the lower ones more often: as words are, by Zipf's law.
    pub(crate) fn popular(&mut self, end: u64) -> u64 {
        ((end as f64).powf(self.part()) as u64 - 1).min(end - 1)
    }

    /// Times as events have them that come by themselves, `mean` on the average.
    pub(crate) fn pause(&mut self, mean: Time) -> Time {
        (-(1.0 - self.part()).ln() * mean as f64) as Time
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

pub(crate) type Cell = Vec<u8>;

/// What is sent at once, after a pause; the next one waits for all answers.
pub(crate) struct Stage {
    pub(crate) after: Time,
    pub(crate) requests: Vec<Statement>,
}

/// A statement, and what the server answers.
#[derive(Clone)]
pub(crate) struct Statement {
    /// Several are a logged batch.
    pub(crate) parts: Vec<(&'static str, Vec<Cell>)>,
    pub(crate) rows: Vec<Vec<Cell>>,
    pub(crate) fails: bool,
    /// The page that it asks for, from 0 on.
    pub(crate) page: u64,
    /// Whether its answer offers another page.
    pub(crate) has_more: bool,
}

/// A read with its rows.
pub(crate) fn read(cql: &'static str, values: Vec<Cell>, rows: Vec<Vec<Cell>>) -> Statement {
    Statement {
        parts: vec![(cql, values)],
        rows,
        fails: false,
        page: 0,
        has_more: false,
    }
}

/// A write.
pub(crate) fn write(cql: &'static str, values: Vec<Cell>) -> Statement {
    read(cql, values, Vec::new())
}

/// Requests that are sent at once, a moment after what came before.
pub(crate) fn stage(requests: Vec<Statement>) -> Stage {
    Stage {
        after: MILLISECOND / 5,
        requests,
    }
}

/// What users do.
pub(crate) type Operation = fn(&mut Random) -> Vec<Stage>;

/// An application: users who do one operation after the other.
pub(crate) struct Application {
    /// Empty for one that does not say what it is called.
    pub(crate) name: &'static str,
    /// What its driver calls the session, if it does, and how STARTUP says it: its connections come from several addresses
    /// then.
    pub(crate) session: Option<(&'static str, &'static str)>,
    pub(crate) wire: Wire,
    pub(crate) users: u64,
    /// Connections that its users share.
    pub(crate) connections: u64,
    /// Between two operations of one user.
    pub(crate) pause: Time,
    /// Any of them.
    pub(crate) operations: Vec<Operation>,
}

/// What was sent of one operation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Truth {
    /// How often.
    pub(crate) operations: u64,
    /// Different keys of its last statement, of all of them.
    pub(crate) keys: u64,
}

impl Truth {
    pub(crate) fn fan_out(self) -> f64 {
        self.keys as f64 / self.operations as f64
    }

    fn count(&mut self, stages: &[Stage]) {
        let statements = || stages.iter().flat_map(|stage| &stage.requests);
        let Some(last) = statements().last().and_then(|last| last.parts.last()) else {
            return;
        };
        let same = statements()
            .flat_map(|statement| &statement.parts)
            .filter(|(cql, _)| *cql == last.0);
        let keys: BTreeSet<&Vec<Cell>> = same.map(|(_, values)| values).collect();
        self.operations += 1;
        self.keys += keys.into_iter().map(|values| listed(last.0, values)).sum::<u64>();
    }
}

/// Keys that a statement with these values names.
fn listed(cql: &str, values: &[Cell]) -> u64 {
    let list = values.last().filter(|_| cql.contains(" IN ?"));
    list.map_or(1, |list| {
        u64::from(u32::from_be_bytes(list[..4].try_into().unwrap()))
    })
}

/// Something that passes.
pub(crate) struct Event {
    pub(crate) at: Time,
    pub(crate) connection: usize,
    pub(crate) direction: Direction,
    pub(crate) bytes: Bytes,
}

/// What applications sent to one cluster.
pub(crate) struct Traffic {
    pub(crate) connections: Vec<SocketAddr>,
    pub(crate) events: Vec<Event>,
    /// Of each application and each of its operations.
    pub(crate) truth: Vec<Vec<Truth>>,
    /// When the last operations begin.
    pub(crate) end: Time,
}

/// After connections are open.
pub(crate) const START: Time = 1_760_000_000_000_000_000;

impl Traffic {
    /// What these applications send in `duration`.
    pub(crate) fn of(schema: &str, applications: &[Application], duration: Time, seed: u64) -> Self {
        let schema = Schema::from_cql(schema).unwrap();
        let mut random = Random(seed);
        let mut traffic = Self {
            connections: Vec::new(),
            events: Vec::new(),
            truth: Vec::new(),
            end: START + duration,
        };
        for application in applications {
            traffic.add(application, &schema, &mut random);
        }
        traffic.events.sort_by_key(|event| event.at);
        traffic
    }

    fn add(&mut self, application: &Application, schema: &Schema, random: &mut Random) {
        let first = self.connections.len();
        let mut wire = application.wire.begin(schema);
        for number in 0..application.connections {
            let host = application.session.map_or(1, |_| 10 + number as u8);
            let connection = self.connections.len();
            self.connections
                .push(SocketAddr::new(IpAddr::from([10, 0, 0, host]), 5_000));
            wire.open(connection, application, &mut self.events);
        }
        let mut truth = vec![Truth::default(); application.operations.len()];
        for user in 0..application.users {
            let mut at = START + random.pause(application.pause);
            while at < self.end {
                let operation = random.below(application.operations.len() as u64) as usize;
                let stages = application.operations[operation](random);
                truth[operation].count(&stages);
                for stage in stages {
                    at += random.pause(stage.after);
                    let answered = stage.requests.iter().map(|statement| {
                        let connection = first + random.below(application.connections) as usize;
                        // When the answer comes.
                        let answered = at + MILLISECOND / 3 + random.pause(MILLISECOND / 2);
                        wire.send(
                            statement,
                            (user, connection, first),
                            (at, answered),
                            &mut self.events,
                        );
                        answered
                    });
                    at = answered.max().unwrap_or(at);
                }
                at += random.pause(application.pause);
            }
        }
        self.truth.push(truth);
    }

    /// The window of it.
    pub(crate) fn observe(&self, schema: &str, sources: SourceLimit) -> Window {
        let live = Arc::new(Live::with_schema(Schema::from_cql(schema).unwrap()));
        let queue = Arc::new(ReplayQueue::new(64 << 20));
        let key = "000102030405060708090a0b0c0d0e0f".parse::<HashKey>().unwrap();
        let start = Moment::from_unix_nanoseconds(START).timestamp();
        let options = Options {
            sources,
            ..Options::default()
        };
        let audit = Audit::start_with(Arc::clone(&queue), &live, key, "test", start, &options).unwrap();
        let connections = self.connections.iter().enumerate();
        let mut taps: Vec<[ReplayTap; 2]> = connections
            .map(|(number, client)| {
                let connection = Arc::new(Connection::recorded(ConnectionId(number as u64), *client));
                [Direction::Request, Direction::Response]
                    .map(|direction| ReplayTap::new(Arc::clone(&connection), direction, Arc::clone(&queue)))
            })
            .collect();
        for event in &self.events {
            let tap = &mut taps[event.connection][usize::from(event.direction == Direction::Response)];
            let at = Moment::from_unix_nanoseconds(event.at);
            tap.offer(event.bytes.clone(), at).unwrap();
        }
        drop(taps);
        queue.wait_until_empty();
        audit.stop(Timestamp::from_nanosecond(i128::from(self.end)).unwrap())
    }
}
