//! Rewrites whole envelopes that may name nodes.

use std::{net::SocketAddr, sync::Arc};

use cqlens_proto::{
    envelope::{Envelope, Flags, Header},
    message::{
        ColumnSpec, ColumnSpecs, Dialect, ErrorCode, ErrorDetails, ErrorMessage, Event, Extensions, Extras,
        Prepared, PreparedId, QueryResult, Response, Rows, event::NodeChange,
    },
    types::{CqlType, Uuid},
};

use super::{
    addresses::Addresses,
    cell,
    counts::Counters,
    node::NodeIdentity,
    pending::PendingResponse,
    rows::{self, AddressView},
    select_shape::{AddressEncoding, ColumnRole, Columns, SYSTEM, SelectShape, Table},
};

/// What becomes of an envelope.
#[derive(Debug)]
pub(super) enum Disposition {
    /// It passes as it came.
    Same,
    /// This goes to the client in its place, uncompressed.
    New(Envelope),
    /// The client gets nothing.
    Dropped,
    /// It depends on these nodes, which may be known and ready in a moment.
    Waits(Vec<NodeIdentity>),
}

/// Rewrites one envelope with what is known of the nodes at that moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseRewriter<'a> {
    pub(super) addresses: &'a Addresses,
    pub(super) view: AddressView<'a>,
    pub(super) extensions: Extensions,
    /// Nodes may be waited for; else they are left out.
    pub(super) may_wait: bool,
}

impl ResponseRewriter<'_> {
    /// Decides what becomes of an envelope, whose body is uncompressed.
    pub(super) fn rewrite(self, envelope: &Envelope, pending: &PendingResponse) -> Disposition {
        let Ok(decoded) = Response::decode(envelope, self.extensions) else {
            return self.unreadable(envelope, pending);
        };
        match (pending, decoded.message) {
            (PendingResponse::Event, Response::Event(event)) => self.event(envelope, event, &decoded.extras),
            (PendingResponse::Supported, Response::Supported(mut supported)) => {
                let before = supported.options.len();
                supported.options.retain(|(key, _)| !SHARD_PORTS.contains(key));
                if supported.options.len() == before {
                    return Disposition::Same;
                }
                self.count_rewritten();
                self.encoded(envelope, &Response::Supported(supported), &decoded.extras)
            }
            (PendingResponse::Event | PendingResponse::Supported, _) => Disposition::Same,
            (pending, Response::Result(result)) => self.result(envelope, pending, &result),
            _ => Disposition::Same,
        }
    }

    /// The error that the client gets in place of a response.
    fn refused(self, envelope: &Envelope, pending: &PendingResponse) -> Disposition {
        let counters = self.addresses.counters();
        if *pending == PendingResponse::Event {
            Counters::add(&counters.events_left_out, 1);
            return Disposition::Dropped;
        }
        if Counters::add(&counters.refused, 1) {
            tracing::warn!("a response about nodes cannot be rewritten: the client gets an error instead");
        }
        let error = ErrorMessage {
            code: ErrorCode::SERVER_ERROR,
            message: "cqlens cannot rewrite the addresses in this response",
            details: ErrorDetails::None,
        };
        self.encoded(envelope, &Response::Error(error), &Extras::default())
    }

    /// An envelope that cannot be read, or is too long to be held.
    pub(super) fn unreadable(self, envelope: &Envelope, pending: &PendingResponse) -> Disposition {
        match pending {
            // The request did not say that it names nodes.
            PendingResponse::Undetermined { .. }
            | PendingResponse::PreparedNotAboutNodes
            | PendingResponse::PreparedUndetermined => {
                self.may_leak();
                Disposition::Same
            }
            _ => self.refused(envelope, pending),
        }
    }

    fn encoded(self, envelope: &Envelope, response: &Response<'_>, extras: &Extras<'_>) -> Disposition {
        const OF_EXTRAS: Flags = Flags::TRACING.with(Flags::WARNING).with(Flags::CUSTOM_PAYLOAD);
        let Header {
            version,
            flags,
            stream_id,
            ..
        } = envelope.header;
        let encoded = response.to_envelope(Dialect::with(version, self.extensions), stream_id, extras);
        match encoded {
            Ok(mut encoded) => {
                encoded.header.flags = encoded.header.flags.with(flags.without(OF_EXTRAS));
                Disposition::New(encoded)
            }
            // What was decoded can be encoded.
            Err(_) => Disposition::Dropped,
        }
    }

    fn count_rewritten(self) {
        Counters::add(&self.addresses.counters().rewritten, 1);
    }

    fn event<'e>(self, envelope: &Envelope, event: Event<'e>, extras: &Extras<'_>) -> Disposition {
        let (change, of): (_, fn(NodeChange<'e>) -> Event<'e>) = match event {
            Event::TopologyChange(change) => (change, Event::TopologyChange),
            Event::StatusChange(change) => (change, Event::StatusChange),
            _ => return Disposition::Same,
        };
        let identity = NodeIdentity {
            native: Some(change.address),
            port: u16::try_from(change.port).ok().filter(|port| *port != 0),
            ..NodeIdentity::default()
        };
        let is_gone = GONE.contains(&change.change);
        let found = self.view.find(&identity);
        let listen = match found.filter(|node| node.ready || is_gone) {
            Some(node) => Some(node.listen),
            None if is_gone => self.former(&identity),
            None if self.may_wait => return Disposition::Waits(vec![identity]),
            None => None,
        };
        let Some(listen) = listen else {
            let counters = self.addresses.counters();
            Counters::add(&counters.events_left_out, 1);
            let later = |suppressed| {
                tracing::warn!(
                    suppressed,
                    "more events about nodes without listeners were left out"
                )
            };
            if counters.event_left_out.is_new(later) {
                tracing::warn!(node = %identity, change = change.change, "an event about a node without a listener is left out");
            }
            return Disposition::Dropped;
        };
        if (listen.ip(), i32::from(listen.port())) == (change.address, change.port) {
            return Disposition::Same;
        }
        let change = NodeChange {
            address: listen.ip(),
            port: listen.port().into(),
            ..change
        };
        self.count_rewritten();
        self.encoded(envelope, &Response::Event(of(change)), extras)
    }

    /// The listener of a node that has left.
    fn former(self, identity: &NodeIdentity) -> Option<SocketAddr> {
        let port = identity.port.unwrap_or(self.view.own.native.port());
        let native = SocketAddr::new(identity.native?, port);
        self.view.known.former(native).map(|node| node.listen)
    }

    fn result(self, envelope: &Envelope, pending: &PendingResponse, result: &QueryResult<'_>) -> Disposition {
        match (pending, result) {
            (PendingResponse::Rows(shape), QueryResult::Rows(rows)) => self.rows(envelope, rows, shape),
            (PendingResponse::Undetermined { id }, QueryResult::Rows(rows)) => {
                self.undetermined_rows(envelope, rows, id.as_deref())
            }
            // The statement returns no rows.
            (PendingResponse::Undetermined { id: Some(id) }, _) => {
                self.addresses.prepared().remember(id, None);
                Disposition::Same
            }
            (_, QueryResult::Prepared(prepared)) => {
                self.prepared(prepared, pending);
                Disposition::Same
            }
            _ => Disposition::Same,
        }
    }

    /// Remembers what a statement reads. The response itself passes: it names columns, and no nodes.
    fn prepared(self, prepared: &Prepared<'_>, pending: &PendingResponse) {
        let columns = prepared.result.columns;
        let table = columns.map(|columns| table_of(&columns));
        let shape = match (pending, table) {
            (PendingResponse::PreparedNotAboutNodes, _) | (_, Some(None)) => None,
            (PendingResponse::PreparedReader(shape), _) => Some(match columns {
                Some(columns) => with_columns(shape, &columns),
                None => Arc::clone(shape),
            }),
            (_, Some(Some(table))) => columns.map(|columns| Arc::new(by_names(table, &columns))),
            // Responses to its executions will say it.
            (_, None) => return,
        };
        self.addresses.prepared().remember(prepared.id.0, shape);
    }

    fn rows(self, envelope: &Envelope, rows: &Rows<'_>, shape: &SelectShape) -> Disposition {
        if rows
            .metadata
            .columns
            .is_some_and(|columns| table_of(&columns).is_none())
        {
            return Disposition::Same;
        }
        let Some(roles) = rows::roles(shape, rows) else {
            return self.undetermined_rows(envelope, rows, None);
        };
        let body = &envelope.body;
        let Some(rewritten) = rows::rewrite(body, rows, shape, &roles, self.view) else {
            return self.refused(envelope, &PendingResponse::Supported);
        };
        if !rewritten.missing.is_empty() {
            if self.may_wait {
                return Disposition::Waits(rewritten.missing);
            }
            let counters = self.addresses.counters();
            Counters::add(&counters.rows_left_out, rewritten.missing.len());
        }
        if rewritten.may_leak {
            self.may_leak();
        }
        match rewritten.body(body) {
            None => Disposition::Same,
            Some(body) => {
                self.count_rewritten();
                let header = envelope.header;
                Disposition::New(Envelope { header, body })
            }
        }
    }

    /// Rows whose statement is unknown: only they themselves say what they are.
    fn undetermined_rows(self, envelope: &Envelope, rows: &Rows<'_>, id: Option<&[u8]>) -> Disposition {
        let remember_harmless = || {
            if let Some(id) = id {
                self.addresses.prepared().remember(id, None);
            }
        };
        if let Some(columns) = rows.metadata.columns {
            let Some(table) = table_of(&columns) else {
                remember_harmless();
                return Disposition::Same;
            };
            return self.rows(envelope, rows, &by_names(table, &columns));
        }
        match (self.content(rows), id) {
            (Content::Nodes, Some(id)) => self.unprepared(envelope, id),
            (Content::Nodes | Content::Address, _) => self.may_leak(),
            (Content::Nothing, _) if !rows.is_empty() => {
                remember_harmless();
                Disposition::Same
            }
            (Content::Nothing, _) => Disposition::Same,
        }
    }

    /// Searches rows whose columns have no names for nodes. A row with the host id of a node, which is
    /// random, and an address is about it.
    fn content(self, rows: &Rows<'_>) -> Content {
        let known = self.view.known;
        let mut found = Content::Nothing;
        for row in rows.iter().map_while(Result::ok) {
            let is_about_node = row.iter().flatten().any(|value| {
                <[u8; 16]>::try_from(value).is_ok_and(|id| known.by_host_id(Uuid(id)).is_some())
            });
            let is_address = |value: &[u8]| cell::inet(value).is_some_and(|address| known.is_native(address));
            if row.iter().flatten().any(is_address) {
                if is_about_node {
                    return Content::Nodes;
                }
                found = Content::Address;
            }
        }
        found
    }

    /// The error in place of rows that name nodes in unknown columns: the client prepares the statement
    /// again, which changes nothing, and PREPARED names the columns.
    fn unprepared(self, envelope: &Envelope, id: &[u8]) -> Disposition {
        let error = ErrorMessage {
            code: ErrorCode::UNPREPARED,
            message: "cqlens has not seen the PREPARE of this statement",
            details: ErrorDetails::Unprepared(PreparedId(id)),
        };
        self.encoded(envelope, &Response::Error(error), &Extras::default())
    }

    fn may_leak(self) -> Disposition {
        if Counters::add(&self.addresses.counters().may_have_leaked, 1) {
            tracing::warn!(
                "a response may contain a node's own address in a form that is not rewritten: a client \
                    that uses it would bypass cqlens"
            );
        }
        Disposition::Same
    }
}

/// The content of rows without named columns.
#[derive(Clone, Copy)]
enum Content {
    Nothing,
    /// The bytes of a node's address, which may be a number by chance.
    Address,
    Nodes,
}

/// Changes after which clients do not connect to a node.
const GONE: [&str; 2] = ["REMOVED_NODE", "DOWN"];

/// ScyllaDB's: behind these ports the client's source port selects the shard, which is not the one that the
/// node sees. Without them drivers fill their pools by trial.
const SHARD_PORTS: [&str; 2] = ["SCYLLA_SHARD_AWARE_PORT", "SCYLLA_SHARD_AWARE_PORT_SSL"];

/// The table of nodes that columns are of.
fn table_of(columns: &ColumnSpecs<'_>) -> Option<Table> {
    let of_column =
        |column: ColumnSpec<'_>| (column.keyspace == SYSTEM).then(|| Table::named(column.table))?;
    match columns.global_table() {
        Some((keyspace, table)) => (keyspace == SYSTEM).then(|| Table::named(table))?,
        None => columns.iter().find_map(of_column),
    }
}

fn with_columns(shape: &Arc<SelectShape>, columns: &ColumnSpecs<'_>) -> Arc<SelectShape> {
    let Columns::All { .. } = shape.columns else {
        return Arc::clone(shape);
    };
    let roles = columns
        .iter()
        .map(|column| ColumnRole::of_column(shape.table, column.name));
    Arc::new(SelectShape {
        table: shape.table,
        columns: Columns::All {
            known: Some(roles.collect()),
        },
    })
}

/// The shape by the names of the result alone, which may be aliases: every `inet` is taken for an address for
/// clients unless its name says otherwise.
fn by_names(table: Table, columns: &ColumnSpecs<'_>) -> SelectShape {
    let role = |column: ColumnSpec<'_>| match ColumnRole::of_column(table, column.name) {
        ColumnRole::Other if column.column_type == CqlType::Inet && !AMONG_NODES.contains(&column.name) => {
            ColumnRole::Address(AddressEncoding::Inet)
        }
        _ if column.name == "[json]" => ColumnRole::Undetermined,
        role => role,
    };
    SelectShape {
        table,
        columns: Columns::Listed(columns.iter().map(role).collect()),
    }
}

/// Columns with the addresses that nodes have for each other.
const AMONG_NODES: [&str; 4] = ["peer", "preferred_ip", "broadcast_address", "listen_address"];
