//! A server of canned answers: as little work as a node can make.

use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock},
    thread,
};

use bytes::{BufMut, Bytes, BytesMut};
use cqlens_proto::{
    cutter::Negotiated,
    envelope::{Direction, Envelope, Header, Opcode, Version},
    outgoing::Outgoing,
    stream::{EnvelopeStream, StreamItem},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Builder,
};

/// A table of the keyspace `bench`, which answers every read with one row of one blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Small,
    Large,
    Mebibyte,
    Huge,
}

impl Table {
    pub(crate) const ALL: [Self; 4] = [Self::Small, Self::Large, Self::Mebibyte, Self::Huge];

    /// Names begin with letters of their own.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
            Self::Mebibyte => "mebibyte",
            Self::Huge => "huge",
        }
    }

    /// Length of the blob.
    pub(crate) const fn bytes(self) -> i32 {
        match self {
            Self::Small => 100,
            Self::Large => 64 << 10,
            Self::Mebibyte => 1 << 20,
            // With what is around it, 16 MiB: the longest that the audit reads as a whole.
            Self::Huge => (16 << 20) - 64,
        }
    }

    /// The id of the prepared read: the first byte of an id stands for the table.
    pub(crate) const fn id(self) -> [u8; 16] {
        [self.name().as_bytes()[0]; 16]
    }

    fn row(self) -> Bytes {
        // Made once: ten thousand connections ask for it.
        static ROWS: LazyLock<[Bytes; 4]> = LazyLock::new(|| Table::ALL.map(|table| one_row(table.bytes())));
        ROWS[self as usize].clone()
    }
}

/// What the tables of the benchmark are, for the proxy.
pub(crate) fn schema() -> String {
    let keyspace =
        "CREATE KEYSPACE bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};";
    let tables = Table::ALL.map(|table| {
        format!(
            "CREATE TABLE bench.{} (id text PRIMARY KEY, v blob);",
            table.name()
        )
    });
    [keyspace.to_owned(), tables.concat()].concat()
}

/// Serves until the process ends, on a free port and in a thread of its own: clients and backend are
/// different processes elsewhere.
pub(crate) fn start() -> SocketAddr {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be had");
    let listening = TcpListener::bind("127.0.0.1:0");
    let listener = runtime.block_on(listening).expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    thread::spawn(move || runtime.block_on(serve(listener)));
    address
}

async fn serve(listener: TcpListener) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(answer_all(client));
    }
}

/// Gives canned answers until the client goes.
pub(crate) async fn answer_all(mut client: TcpStream) -> Option<()> {
    client.set_nodelay(true).ok()?;
    let negotiated = Arc::new(Negotiated::new());
    let mut requests = EnvelopeStream::new(Direction::Request, Arc::clone(&negotiated));
    let mut answers = Answers::new(&negotiated);
    let mut chunk = BytesMut::new();
    loop {
        chunk.reserve(64 << 10);
        if client.read_buf(&mut chunk).await.ok()? == 0 {
            return None;
        }
        requests.feed(chunk.split().freeze());
        while let Some(StreamItem::Envelope(request)) = requests.next_item() {
            answers.push(&request, &negotiated);
        }
        client.write_all(&answers.outgoing.take().ok()?).await.ok()?;
    }
}

struct Answers {
    outgoing: Outgoing,
}

impl Answers {
    fn new(negotiated: &Arc<Negotiated>) -> Self {
        Self {
            outgoing: Outgoing::new(Arc::clone(negotiated)),
        }
    }

    fn push(&mut self, request: &Envelope, negotiated: &Negotiated) {
        let version = request.header.version;
        let (opcode, body) = match request.header.opcode {
            Opcode::STARTUP => (Opcode::READY, Bytes::new()),
            Opcode::PREPARE => (Opcode::RESULT, prepared(version, named(&request.body))),
            Opcode::EXECUTE => (Opcode::RESULT, executed(&request.body).row()),
            _ => (Opcode::RESULT, Table::Small.row()),
        };
        let header = Header::response(version, request.header.stream_id, opcode);
        let sent = self.outgoing.push(&Envelope { header, body });
        sent.expect("canned answers fit");
        if opcode == Opcode::READY && version.uses_segments() {
            negotiated.start_segments();
        }
    }
}

/// The table that a PREPARE names.
fn named(body: &[u8]) -> Table {
    let names = |table: &Table| {
        let name = table.name().as_bytes();
        body.windows(name.len()).any(|word| word == name)
    };
    Table::ALL.into_iter().find(names).unwrap_or(Table::Small)
}

/// The table that an EXECUTE reads: behind the length of the id is its first byte.
fn executed(body: &[u8]) -> Table {
    let reads = |table: &Table| body.get(2) == Some(&table.id()[0]);
    Table::ALL.into_iter().find(reads).unwrap_or(Table::Small)
}

/// ROWS of one row with a blob of so many bytes.
fn one_row(length: i32) -> Bytes {
    let mut body = BytesMut::new();
    // Kind, flags (no metadata), columns, rows, length of the blob.
    for number in [2, 4, 1, 1, length] {
        body.put_i32(number);
    }
    body.put_bytes(7, usize::try_from(length).expect("a length is not negative"));
    body.freeze()
}

/// PREPARED of a statement with one marker, which is the partition key.
fn prepared(version: Version, table: Table) -> Bytes {
    let mut body = BytesMut::new();
    body.put_i32(4);
    put_short_bytes(&mut body, &table.id());
    if version.uses_segments() {
        // The id of the result's metadata.
        put_short_bytes(&mut body, &[0; 16]);
    }
    // Markers: flags (one table for all), how many, which are the key.
    for number in [1, 1, 1] {
        body.put_i32(number);
    }
    body.put_u16(0);
    put_columns(&mut body, table.name(), "id", TEXT);
    // Columns of the result.
    for number in [1, 1] {
        body.put_i32(number);
    }
    put_columns(&mut body, table.name(), "v", BLOB);
    body.freeze()
}

const BLOB: u16 = 0x0003;
const TEXT: u16 = 0x000d;

fn put_columns(body: &mut BytesMut, table: &str, column: &str, column_type: u16) {
    for name in ["bench", table, column] {
        put_short_bytes(body, name.as_bytes());
    }
    body.put_u16(column_type);
}

fn put_short_bytes(body: &mut BytesMut, bytes: &[u8]) {
    body.put_u16(u16::try_from(bytes.len()).expect("names are short"));
    body.put_slice(bytes);
}
