//! A server of canned answers: as little work as a node can make.

use std::{net::SocketAddr, sync::Arc};

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
};

/// What the tables of the benchmark are, for the proxy.
pub(crate) const SCHEMA: &str =
    "CREATE KEYSPACE bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
     CREATE TABLE bench.small (id text PRIMARY KEY, v blob);
     CREATE TABLE bench.large (id text PRIMARY KEY, v blob);";

/// Serves until the process is killed.
pub(crate) async fn serve(listener: TcpListener) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(answer_all(client));
    }
}

/// A listener on a free port, and its address.
pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    (listener, address)
}

async fn answer_all(mut client: TcpStream) -> Option<()> {
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
    small: Bytes,
    large: Bytes,
}

impl Answers {
    fn new(negotiated: &Arc<Negotiated>) -> Self {
        Self {
            outgoing: Outgoing::new(Arc::clone(negotiated)),
            small: one_row(100),
            large: one_row(64 << 10),
        }
    }

    fn push(&mut self, request: &Envelope, negotiated: &Negotiated) {
        let version = request.header.version;
        let (opcode, body) = match request.header.opcode {
            Opcode::STARTUP => (Opcode::READY, Bytes::new()),
            Opcode::PREPARE => (Opcode::RESULT, prepared(version, is_large(&request.body))),
            // The first byte of an id stands for the table.
            Opcode::EXECUTE if request.body.get(2) == Some(&b'l') => (Opcode::RESULT, self.large.clone()),
            _ => (Opcode::RESULT, self.small.clone()),
        };
        let header = Header::response(version, request.header.stream_id, opcode);
        let sent = self.outgoing.push(&Envelope { header, body });
        sent.expect("canned answers fit");
        if opcode == Opcode::READY && version.uses_segments() {
            negotiated.start_segments();
        }
    }
}

fn is_large(statement: &[u8]) -> bool {
    statement.windows(5).any(|word| word == b"large")
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
fn prepared(version: Version, is_large: bool) -> Bytes {
    let table = if is_large { "large" } else { "small" };
    let mut body = BytesMut::new();
    body.put_i32(4);
    put_short_bytes(&mut body, &[table.as_bytes()[0]; 16]);
    if version.uses_segments() {
        // The id of the result's metadata.
        put_short_bytes(&mut body, &[0; 16]);
    }
    // Markers: flags (one table for all), how many, which are the key.
    for number in [1, 1, 1] {
        body.put_i32(number);
    }
    body.put_u16(0);
    put_columns(&mut body, table, "id", TEXT);
    // Columns of the result.
    for number in [1, 1] {
        body.put_i32(number);
    }
    put_columns(&mut body, table, "v", BLOB);
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
