//! Clients that keep a number of requests in flight, or send so many a second.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::{BufMut, BytesMut};
use cqlens_proto::{
    cutter::Negotiated,
    envelope::{Direction, Envelope, Header, Opcode, StreamId, Version},
    message::{
        Consistency, Dialect, Execute, Extras, PreparedId, Query, QueryParameters, Request, ResultMetadataId,
        Startup, Value, ValuesBuf,
    },
    outgoing::Outgoing,
    stream::{EnvelopeStream, StreamItem},
};
use hdrhistogram::Histogram;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout_at},
};

use crate::backend::Table;

/// What is sent, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) version: Version,
    pub(crate) connections: usize,
    /// Requests in one write, whose answers are waited for together.
    pub(crate) depth: i16,
    /// Requests a second over all connections; none for as many as there can be.
    pub(crate) rate: Option<u32>,
    pub(crate) statement: Statement,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statement {
    /// A prepared point read.
    Read(Table),
    /// 200 bytes of SELECT with literals that never come again.
    Text,
    /// SELECT of so many templates in turn, with a literal that never comes again.
    Templates(u64),
}

/// The longest round trip that is told from a longer one, in nanoseconds: a minute.
const MAX_ROUND_TRIP: u64 = 60_000_000_000;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) answers: u64,
    /// Nanoseconds from the first byte of a write to the last of its answers.
    pub(crate) round_trips: Histogram<u64>,
}

/// A client that has said hello and prepared its statement.
pub(crate) struct Client {
    socket: TcpStream,
    responses: EnvelopeStream,
    outgoing: Outgoing,
    load: Load,
    /// Makes keys that differ.
    sent: u64,
}

impl Client {
    /// As many as `load` has connections, one after the other.
    pub(crate) async fn connect_all(address: SocketAddr, load: Load) -> Vec<Self> {
        let mut clients = Vec::with_capacity(load.connections);
        for number in 0..load.connections {
            clients.push(Self::connect(address, load, number).await);
        }
        clients
    }

    pub(crate) async fn connect(address: SocketAddr, load: Load, number: usize) -> Self {
        let socket = TcpStream::connect(address).await.expect("the proxy listens");
        socket.set_nodelay(true).expect("an open socket");
        let negotiated = Arc::new(Negotiated::new());
        let mut client = Self {
            socket,
            responses: EnvelopeStream::new(Direction::Response, Arc::clone(&negotiated)),
            outgoing: Outgoing::new(negotiated),
            load,
            sent: (number as u64) << 32,
        };
        let options = vec![("CQL_VERSION", "3.0.0")];
        client.say(&Request::Startup(Startup { options })).await;
        if let Statement::Read(table) = load.statement {
            let text = format!("SELECT v FROM bench.{} WHERE id = ?", table.name());
            let mut body = BytesMut::new();
            body.put_u32(u32::try_from(text.len()).expect("a short text"));
            body.put_slice(text.as_bytes());
            if load.version.uses_segments() {
                body.put_u32(0);
            }
            let header = Header::request(load.version, StreamId(0), Opcode::PREPARE);
            client
                .exchange(&[Envelope {
                    header,
                    body: body.freeze(),
                }])
                .await;
        }
        client
    }

    async fn say(&mut self, request: &Request<'_>) {
        let dialect = Dialect::new(self.load.version);
        let envelope = request.to_envelope(dialect, StreamId(0), &Extras::default());
        self.exchange(&[envelope.expect("a short request")]).await;
    }

    /// Sends requests in one write, and waits for as many answers.
    async fn exchange(&mut self, requests: &[Envelope]) {
        for request in requests {
            self.outgoing.push(request).expect("short requests");
        }
        let wire = self.outgoing.take().expect("short requests");
        self.socket.write_all(&wire).await.expect("the proxy reads");
        let mut missing = requests.len();
        let mut chunk = BytesMut::new();
        while missing > 0 {
            chunk.reserve(64 << 10);
            let read = self.socket.read_buf(&mut chunk).await.expect("the proxy writes");
            assert!(read > 0, "the proxy has closed a connection");
            self.responses.feed(chunk.split().freeze());
            while let Some(item) = self.responses.next_item() {
                assert!(matches!(item, StreamItem::Envelope(_)), "a damaged response");
                missing -= 1;
            }
        }
    }

    fn requests(&mut self) -> Vec<Envelope> {
        (0..self.load.depth)
            .map(|stream_id| {
                self.sent += 1;
                self.request(StreamId(stream_id))
            })
            .collect()
    }

    fn request(&self, stream_id: StreamId) -> Envelope {
        let key = format!("{:016x}", self.sent);
        let dialect = Dialect::new(self.load.version);
        let values = ValuesBuf::positional([Value::Bytes(key.as_bytes())]).expect("one short value");
        let mut parameters = QueryParameters::new(Consistency::LocalQuorum);
        let (text, id);
        let request = match self.load.statement {
            Statement::Read(table) => {
                id = table.id();
                parameters.values = values.values();
                let has_metadata_id = self.load.version.uses_segments();
                Request::Execute(Execute {
                    id: PreparedId(&id),
                    result_metadata_id: has_metadata_id.then_some(ResultMetadataId(&[0; 16])),
                    parameters,
                })
            }
            Statement::Text => {
                text = long_text(&key);
                Request::Query(Query {
                    query: &text,
                    parameters,
                })
            }
            Statement::Templates(number) => {
                text = template_text(self.template(number), &key);
                Request::Query(Query {
                    query: &text,
                    parameters,
                })
            }
        };
        request
            .to_envelope(dialect, stream_id, &Extras::default())
            .expect("a short request")
    }

    /// Which of so many templates comes next: each connection begins with a share of its own.
    fn template(&self, templates: u64) -> u64 {
        let (connection, sent) = (self.sent >> 32, self.sent & u64::from(u32::MAX));
        (connection * templates / self.load.connections as u64 + sent) % templates
    }

    /// Sends what it sends at a time, once.
    pub(crate) async fn run_once(&mut self) {
        let requests = self.requests();
        self.exchange(&requests).await;
    }

    /// Sends until `end`.
    pub(crate) async fn run(&mut self, end: Instant) -> Done {
        let mut done = Done {
            answers: 0,
            round_trips: Histogram::new_with_max(MAX_ROUND_TRIP, 3).expect("three digits are possible"),
        };
        let mut ticks = self.load.rate.map(|rate| {
            let every = Duration::from_secs(1)
                * u32::try_from(self.load.connections).expect("few connections")
                / rate;
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            ticks
        });
        while Instant::now() < end {
            if let Some(ticks) = &mut ticks
                && timeout_at(end, ticks.tick()).await.is_err()
            {
                break;
            }
            let requests = self.requests();
            let began = Instant::now();
            self.exchange(&requests).await;
            done.answers += requests.len() as u64;
            done.round_trips
                .saturating_record(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        done
    }
}

/// All clients until `time` has passed.
pub(crate) async fn run(clients: Vec<Client>, time: Duration) -> (Vec<Client>, Vec<Done>) {
    let end = Instant::now() + time;
    let mut running = JoinSet::new();
    for mut client in clients {
        running.spawn(async move {
            let done = client.run(end).await;
            (client, done)
        });
    }
    running.join_all().await.into_iter().unzip()
}

fn template_text(template: u64, key: &str) -> String {
    format!("SELECT v AS v_{template} FROM bench.small WHERE id = '{key}'")
}

fn long_text(key: &str) -> String {
    format!(
        "SELECT v FROM bench.small WHERE id = '{key}' AND tenant = 'tenant-0001' AND bucket = 20261121 \
         AND created >= '2026-11-01T00:00:00Z' AND created < '2026-11-21T00:00:00Z' LIMIT 10"
    )
}
