//! Reads the requests of a connection as they pass, and remembers which responses may name nodes. Requests
//! are never changed.

use bytes::Bytes;
use cqlens_proto::{
    envelope::{Direction, Envelope, Header, Opcode},
    message::{Execute, Extensions, Prepare, Query, Request, Startup},
    stream::{EnvelopeStream, StreamItem},
};

use super::{
    pending::PendingResponse,
    prepared::Remembered,
    select_shape::StatementKind,
    shared::{Agreement, Shared},
};

/// The longest request that is read, in bytes: longer ones are mostly writes. Responses to them are examined.
const MAX_READ: usize = 256 << 10;

/// The requests of one connection.
#[derive(Debug)]
pub(crate) struct Requests<'a> {
    shared: &'a Shared,
    stream: EnvelopeStream,
}

impl<'a> Requests<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        let negotiated = std::sync::Arc::clone(&shared.negotiated);
        Self {
            shared,
            stream: EnvelopeStream::new(Direction::Request, negotiated).with_max_body(MAX_READ),
        }
    }

    /// Reads the next bytes; must run before they are sent on, so that no answer comes before its request is
    /// known.
    pub(crate) fn follow(&mut self, chunk: &Bytes) {
        self.stream.feed(chunk.clone());
        while let Some(item) = self.stream.next_item() {
            match item {
                StreamItem::Envelope(envelope) => self.request(&envelope),
                StreamItem::Skipped { header, .. } => self.unread(&header),
                StreamItem::Head(head) => self.unread(&head.envelope.header),
                StreamItem::Long(_) => {}
                StreamItem::Damaged(error) | StreamItem::Lost(error) => {
                    // The node will most likely refuse them. Responses are examined all the same.
                    tracing::debug!(%error, "requests cannot be followed");
                    self.shared.turn_blind();
                }
            }
        }
    }

    fn request(&self, envelope: &Envelope) {
        let header = &envelope.header;
        let Ok(message) = Request::decode_message(envelope, self.shared.extensions()) else {
            return self.unread(header);
        };
        let pending = match message {
            Request::Query(query) => query_answer(&query),
            Request::Prepare(prepare) => Some(prepare_answer(&prepare)),
            Request::Execute(execute) => self.execute_answer(&execute),
            Request::Options => Some(PendingResponse::Supported),
            Request::Register(_) => return self.shared.expect_events(),
            Request::Startup(startup) => {
                return self.shared.propose(header, agreement(&startup));
            }
            _ => None,
        };
        match pending {
            Some(pending) => self.shared.expect(header.stream_id, pending),
            None => self.shared.expect_nothing(header.stream_id),
        }
    }

    /// A request of which only the header is known.
    fn unread(&self, header: &Header) {
        let pending = match header.opcode {
            Opcode::PREPARE => PendingResponse::PreparedUndetermined,
            _ => PendingResponse::Undetermined { id: None },
        };
        self.shared.expect(header.stream_id, pending);
    }

    fn execute_answer(&self, execute: &Execute<'_>) -> Option<PendingResponse> {
        let id = execute.id.0;
        match self.shared.pairing.addresses.prepared().recall(id) {
            Remembered::NotAboutNodes => None,
            Remembered::Reads(shape) => Some(PendingResponse::Rows(shape)),
            Remembered::Unknown => Some(PendingResponse::Undetermined { id: Some(id.into()) }),
        }
    }
}

fn query_answer(query: &Query<'_>) -> Option<PendingResponse> {
    match StatementKind::of(query.query, query.parameters.keyspace) {
        StatementKind::NotAboutNodes => None,
        StatementKind::Reads(shape) => Some(PendingResponse::Rows(shape)),
        StatementKind::Undetermined => Some(PendingResponse::Undetermined { id: None }),
    }
}

fn prepare_answer(prepare: &Prepare<'_>) -> PendingResponse {
    match StatementKind::of(prepare.query, prepare.keyspace) {
        StatementKind::NotAboutNodes => PendingResponse::PreparedNotAboutNodes,
        StatementKind::Reads(shape) => PendingResponse::PreparedReader(shape),
        StatementKind::Undetermined => PendingResponse::PreparedUndetermined,
    }
}

fn agreement(startup: &Startup<'_>) -> Agreement {
    Agreement {
        extensions: extensions(startup),
        names_by_peer: names_by_peer(startup),
    }
}

/// The extensions that a client opts in to, which the node has announced.
fn extensions(startup: &Startup<'_>) -> Extensions {
    Extensions {
        result_metadata_id: startup.get("SCYLLA_USE_METADATA_ID").is_some(),
        ..Extensions::NONE
    }
}

/// gocql, versions 1 and 2 and what derives from them, looks up the nodes of events, and of its own failures
/// to connect, by their addresses for other nodes (`ring.go`: `hostIPToUUID`). It never asks for a node by
/// that.
fn names_by_peer(startup: &Startup<'_>) -> bool {
    startup
        .get("DRIVER_NAME")
        .is_some_and(|name| name.contains("gocql"))
}
